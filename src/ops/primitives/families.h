#pragma once
/// The records of each family that builds on the primitives, in order of registration: overloads of
/// one name are tried in this order.

#include <span>

#include "hammock/ir/op_def.h"

namespace hammock::ops {

std::span<const OpDef* const> ComplexOps();        // complex.cpp
std::span<const OpDef* const> ArithmeticOps();     // arithmetic.cpp
std::span<const OpDef* const> CompareOps();        // compare.cpp
std::span<const OpDef* const> SpecialOps();        // special.cpp
std::span<const OpDef* const> ActivationOps();     // activations.cpp
std::span<const OpDef* const> ConversionOps();     // conversions.cpp
std::span<const OpDef* const> CreateOps();         // create.cpp
std::span<const OpDef* const> RandomOps();         // random.cpp
std::span<const OpDef* const> RandomPartOps();     // part.cpp
std::span<const OpDef* const> SamplingOps();       // sampling.cpp
std::span<const OpDef* const> InPlaceOps();        // in_place.cpp
std::span<const OpDef* const> ReductionOps();      // reductions.cpp
std::span<const OpDef* const> StatisticsOps();     // statistics.cpp
std::span<const OpDef* const> ScanOps();           // scans.cpp
std::span<const OpDef* const> OrderOps();          // order.cpp
std::span<const OpDef* const> SoftmaxOps();        // softmax.cpp
std::span<const OpDef* const> LossOps();           // losses.cpp
std::span<const OpDef* const> MatmulOps();         // matmul.cpp
std::span<const OpDef* const> EinsumOps();         // einsum.cpp
std::span<const OpDef* const> ConvOps();           // conv.cpp
std::span<const OpDef* const> ChannelsLastOps();   // channels_last.cpp
std::span<const OpDef* const> FusedForms();        // fused_forms.cpp
std::span<const OpDef* const> PoolOps();           // pool.cpp
std::span<const OpDef* const> IndexOps();          // indexing.cpp
std::span<const OpDef* const> SelectOps();         // select.cpp
std::span<const OpDef* const> ShapeOps();          // shape_ops.cpp
std::span<const OpDef* const> PartOps();           // parts.cpp
std::span<const OpDef* const> PadOps();            // pad.cpp
std::span<const OpDef* const> PointwiseLossOps();  // pointwise_losses.cpp
std::span<const OpDef* const> MarginLossOps();     // margin_losses.cpp
std::span<const OpDef* const> CtcOps();            // ctc.cpp
std::span<const OpDef* const> NormOps();           // norms.cpp
std::span<const OpDef* const> AdaptivePoolOps();   // adaptive_pool.cpp
std::span<const OpDef* const> ColumnOps();         // columns.cpp
std::span<const OpDef* const> ResizeOps();         // resize.cpp
std::span<const OpDef* const> GridOps();           // grid.cpp
std::span<const OpDef* const> AttentionOps();      // attention.cpp
std::span<const OpDef* const> EmbeddingBagOps();   // embedding_bag.cpp
std::span<const OpDef* const> RecurrentOps();      // recurrent.cpp
std::span<const OpDef* const> LossScaleOps();      // loss_scale.cpp
std::span<const OpDef* const> InnerNameOps();      // inner_names.cpp
std::span<const OpDef* const> BesselOps();         // bessel.cpp
std::span<const OpDef* const> BesselGammaOps();    // bessel_gamma.cpp
std::span<const OpDef* const> FactorOps();         // factors.cpp
std::span<const OpDef* const> SolveOps();          // linear_solve.cpp
std::span<const OpDef* const> MatrixOps();         // matrix_functions.cpp
std::span<const OpDef* const> FftOps();            // fft.cpp
std::span<const OpDef* const> StftOps();           // stft.cpp
std::span<const OpDef* const> WindowOps();         // windows.cpp
std::span<const OpDef* const> HistogramOps();      // histograms.cpp
std::span<const OpDef* const> DistanceOps();       // distances.cpp
std::span<const OpDef* const> UniqueOps();         // unique.cpp
std::span<const OpDef* const> UpdateOps();         // updates.cpp
std::span<const OpDef* const> PolynomialOps();     // polynomials.cpp
std::span<const OpDef* const> DropoutOps();        // dropout.cpp
std::span<const OpDef* const> PowerPoolOps();      // power_pool.cpp
std::span<const OpDef* const> RearrangeOps();      // rearrange.cpp
std::span<const OpDef* const> TensorAlgebraOps();  // tensor_algebra.cpp
std::span<const OpDef* const> InPlaceFormOps();    // in_place_forms.cpp
std::span<const OpDef* const> SparseMatmulOps();   // sparse_matmul.cpp

}  // namespace hammock::ops

/// The record of a function: no node of its own. Needs op_builder.h.
#define HAMMOCK_FUNCTION(name, text, about, function, ...) \
  constinit const OpDef name = {                           \
      .schema = text, .doc = about, .call = Box<function> __VA_OPT__(, .autocast =) __VA_ARGS__};
