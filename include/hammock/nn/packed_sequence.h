#pragma once
/// Sequences of different lengths in one batch, without padding between them. RNN, GRU and LSTM
/// take and return them.
///
///   PackedSequence packed = nn::pack_padded_sequence(padded, {5, 3, 2});
///   auto [outputs, state] = lstm(packed);
///   auto [padded_outputs, lengths] = nn::pad_packed_sequence(outputs);
///
/// Lengths are numbers of the host: each combination of lengths is a graph of its own.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/nn/layer.h"
#include "hammock/tensor.h"

namespace hammock::nn {

struct HAMMOCK_API PackedSequence {
  Tensor data;                       ///< all steps: those of the first time, of the second, ...
  std::vector<int64_t> batch_sizes;  ///< of each time
  /// Where each sequence was before they were sorted by length, and the reverse; empty: as it is.
  std::vector<int64_t> sorted_indices = {};
  std::vector<int64_t> unsorted_indices = {};

  int64_t batch() const { return batch_sizes.empty() ? 0 : batch_sizes.front(); }
  /// In the order of the original batch.
  std::vector<int64_t> lengths() const;
};

/// For hooks: the tensors in a packed sequence.
template <class Visit>
void EachTensor(PackedSequence& sequence, Visit&& visit) {
  visit(sequence.data);
}

/// `input` is (time, batch, ...), or with `batch_first` (batch, time, ...). Unless
/// `enforce_sorted`, the sequences are sorted first; otherwise they must be, longest first.
HAMMOCK_API PackedSequence pack_padded_sequence(const Tensor& input,
                                                const std::vector<int64_t>& lengths,
                                                bool batch_first = false,
                                                bool enforce_sorted = true,
                                                Location at = Location::current());
/// (padded, lengths)
HAMMOCK_API std::pair<Tensor, std::vector<int64_t>> pad_packed_sequence(
    const PackedSequence& sequence, bool batch_first = false, double padding_value = 0,
    std::optional<int64_t> total_length = std::nullopt, Location at = Location::current());

/// Sequences of (length, ...), padded to the longest; `padding_side` is right or left.
HAMMOCK_API Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false,
                                double padding_value = 0, const std::string& padding_side = "right",
                                Location at = Location::current());
HAMMOCK_API std::vector<Tensor> unpad_sequence(const Tensor& padded,
                                               const std::vector<int64_t>& lengths,
                                               bool batch_first = false,
                                               Location at = Location::current());
HAMMOCK_API PackedSequence pack_sequence(const std::vector<Tensor>& sequences,
                                         bool enforce_sorted = true,
                                         Location at = Location::current());
HAMMOCK_API std::vector<Tensor> unpack_sequence(const PackedSequence& sequence,
                                                Location at = Location::current());

}  // namespace hammock::nn
