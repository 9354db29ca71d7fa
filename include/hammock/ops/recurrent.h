#pragma once
/// Recurrent layers and their cells. A layer runs as a loop over time: the graph has one step,
/// however long the sequence is.
///
/// `params` lists, for each layer and direction, w_ih, w_hh and with `has_biases` b_ih, b_hh; an
/// LSTM with projections adds w_hr. Inputs are (time, batch, features), states (layers *
/// directions, batch, features).

#include <optional>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

#define HAMMOCK_CELL(name)                                                            \
  HAMMOCK_API Tensor name(const Tensor& input, const Tensor& hx, const Tensor& w_ih,  \
                          const Tensor& w_hh, const std::optional<Tensor>& b_ih = {}, \
                          const std::optional<Tensor>& b_hh = {}, HAMMOCK_AT);
HAMMOCK_CELL(rnn_tanh_cell)
HAMMOCK_CELL(rnn_relu_cell)
HAMMOCK_CELL(gru_cell)
#undef HAMMOCK_CELL
/// (h, c) from `hx` {h, c}.
HAMMOCK_API std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx,
                                                 const Tensor& w_ih, const Tensor& w_hh,
                                                 const std::optional<Tensor>& b_ih = {},
                                                 const std::optional<Tensor>& b_hh = {},
                                                 HAMMOCK_AT);

/* (outputs of the last layer, last states) */
#define HAMMOCK_LAYERS(name)                                                                      \
  HAMMOCK_API std::tuple<Tensor, Tensor> name(const Tensor& input, const Tensor& hx,              \
                                              const std::vector<Tensor>& params, bool has_biases, \
                                              int64_t num_layers, double dropout, bool train,     \
                                              bool bidirectional, bool batch_first, HAMMOCK_AT);
HAMMOCK_LAYERS(rnn_tanh)
HAMMOCK_LAYERS(rnn_relu)
HAMMOCK_LAYERS(gru)
#undef HAMMOCK_LAYERS
/// (outputs of the last layer, last h, last c) from `hx` {h, c}.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input,
                                                    const std::vector<Tensor>& hx,
                                                    const std::vector<Tensor>& params,
                                                    bool has_biases, int64_t num_layers,
                                                    double dropout, bool train, bool bidirectional,
                                                    bool batch_first, HAMMOCK_AT);

}  // namespace hammock
