#include "base/never_destroyed.h"
#include "ir/op_registry.h"

#include <vector>

#include "ir/primitives.h"
#include "ops/nn/quantize.h"
#include "ops/primitives/collectives.h"
#include "ops/primitives/families.h"
#include "ops/primitives/module_call.h"
#include "ops/primitives/storage.h"
#include "ops/shape/views.h"

namespace hammock::ops {
namespace {

// clang-format off
constexpr const OpDef* kTable[] = {
    // ---- leaves
    &kInput, &kDeviceData, &kScalarLeaf, &kRngState, &kConstant, &kTensorList,

    // ---- elementwise: unary
    &kAbs, &kNeg, &kSign, &kFloor, &kCeil, &kTrunc, &kRound, &kSqrt, &kRsqrt, &kReciprocal, &kExp,
    &kExp2, &kExpm1, &kLog, &kLog2, &kLog10, &kLog1p, &kSin, &kCos, &kTan, &kAsin, &kAcos, &kAtan,
    &kSinh, &kCosh, &kTanh, &kAsinh, &kAcosh, &kAtanh, &kErf, &kErfc, &kErfinv, &kLgamma, &kDigamma,
    &kSigmoid, &kBitwiseNot, &kLogicalNot, &kIsNan,

    // ---- elementwise: binary
    &kAdd, &kSub, &kMul, &kDiv, &kFloorDivide, &kTruncDivide, &kRemainder, &kFmod, &kPow, &kMaximum,
    &kMinimum, &kFmax, &kFmin, &kAtan2, &kHypot, &kCopysign, &kNextafter, &kGcd, &kBitwiseAnd, &kBitwiseOr,
    &kBitwiseXor, &kShiftLeft, &kShiftRight, &kLogicalAnd, &kLogicalOr, &kLogicalXor, &kEq, &kNe,
    &kLt, &kLe, &kGt, &kGe,

    // ---- elementwise: special functions
    &kErfcx, &kI0e, &kI1e, &kIgamma, &kIgammac, &kZeta, &kExactGelu,

    // ---- select and conversion
    &kWhere, &kCast, &kBitcast,

    // ---- generate
    &kIota, &kRngBits,

    // ---- shape
    &kReshape, &kBroadcast, &kPermute, &kSlice, &kDynamicSlice, &kDynamicSelect, &kUpdateSlice,
    &kDynamicUpdateSlice, &kPad, &kConcat, &kFlip, &kAsStrided, &kAsStridedScatter,

    // ---- reduce
    &kReduceSum, &kReduceProd, &kReduceMax, &kReduceMin, &kReduceAny, &kReduceAll, &kArgMax,
    &kArgMin, &kScan, &kReduceWindow, &kReduceWindowArg, &kMaxWindowBackward,

    // ---- index
    &kGather, &kScatter, &kIndexSelect, &kNonzeroBounded, &kSort, &kTopK,

    // ---- contract
    &kDotGeneral, &kConvolution, &kConvolutionWeightBackward,

    // ---- factors
    &kCholesky, &kLu, &kQr, &kEigh, &kEig, &kSvd, &kSolveTriangular,

    // ---- fft
    &kFftC2C, &kFftR2C, &kFftC2R,

    // ---- control
    &kCond, &kWhile, &kLoop, &kCustomCall, &kCall, &kModuleCall, &kRequire, &kBarrier,

    // ---- between ranks
    &kAllReduce, &kAllGather, &kReduceScatter, &kCollectiveBroadcast, &kAllToAll, &kCollectivePermute,

    // ---- views
    &kView, &kViewDType, &kViewAs, &kReshapeOp, &kReshapeAs, &kFlatten, &kRavel, &kUnflatten,
    &kPermuteOp, &kTranspose, &kSwapaxes, &kT, &kMovedim, &kSqueeze, &kSqueezeDim, &kUnsqueeze,
    &kExpand, &kExpandAs, &kBroadcastTo, &kBroadcastTensors, &kSliceOp, &kNarrow, &kSelectOp, &kDiagonal,
    &kUnfoldDim, &kAsStridedOp, &kSplit, &kSplitSizes, &kSplitWithSizes, &kChunk, &kUnbind, &kDetach,
    &kAlias, &kClone, &kContiguous, &kToDType, &kToDevice, &kToOther, &kToOptions, &kCopy_,
};
// clang-format on

std::vector<const OpDef*> AllOps() {
  std::vector<const OpDef*> all(std::begin(kTable), std::end(kTable));
  auto add = [&](std::span<const OpDef* const> family) {
    all.insert(all.end(), family.begin(), family.end());
  };
  add(ComplexOps());
  add(StorageOps());
  add(ArithmeticOps());
  add(CompareOps());
  add(SpecialOps());
  add(ActivationOps());
  add(ConversionOps());
  add(CreateOps());
  add(RandomOps());
  add(RandomPartOps());
  add(SamplingOps());
  add(InPlaceOps());
  add(ReductionOps());
  add(StatisticsOps());
  add(ScanOps());
  add(OrderOps());
  add(SoftmaxOps());
  add(LossOps());
  add(MatmulOps());
  add(EinsumOps());
  add(ConvOps());
  add(QuantizeOps());
  add(ChannelsLastOps());
  add(FusedForms());
  add(PoolOps());
  add(IndexOps());
  add(SelectOps());
  add(UniqueOps());
  add(ShapeOps());
  add(PartOps());
  add(PadOps());
  add(PointwiseLossOps());
  add(MarginLossOps());
  add(CtcOps());
  add(NormOps());
  add(AdaptivePoolOps());
  add(ColumnOps());
  add(ResizeOps());
  add(GridOps());
  add(AttentionOps());
  add(EmbeddingBagOps());
  add(RecurrentOps());
  add(LossScaleOps());
  add(InnerNameOps());
  add(BesselGammaOps());
  add(FactorOps());
  add(SolveOps());
  add(MatrixOps());
  add(FftOps());
  add(StftOps());
  add(WindowOps());
  add(HistogramOps());
  add(DistanceOps());
  add(UpdateOps());
  add(BesselOps());
  add(PolynomialOps());
  add(DropoutOps());
  add(PowerPoolOps());
  add(RearrangeOps());
  add(TensorAlgebraOps());
  add(InPlaceFormOps());
  add(SparseMatmulOps());
  return all;
}

}  // namespace

std::span<const OpDef* const> InTreeOps() {
  // Never destroyed, like those it is made of: a thread may record while the process ends.
  static const auto& all = NeverDestroyed<std::vector<const OpDef*>>(AllOps());
  return all;
}

}  // namespace hammock::ops
