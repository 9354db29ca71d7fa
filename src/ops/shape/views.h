#pragma once
/// Records of view_records.cpp.

#include "hammock/ir/op_def.h"

namespace hammock::ops {

extern const OpDef kView, kViewDType, kViewAs, kReshapeOp, kReshapeAs, kFlatten, kRavel, kUnflatten,
    kPermuteOp, kTranspose, kSwapaxes, kT, kMovedim, kSqueeze, kSqueezeDim, kUnsqueeze, kExpand,
    kExpandAs, kBroadcastTo, kBroadcastTensors, kSliceOp, kNarrow, kSelectOp, kDiagonal, kUnfoldDim,
    kAsStridedOp, kSplit, kSplitSizes, kSplitWithSizes, kChunk, kUnbind, kDetach, kAlias, kClone,
    kContiguous, kToDType, kToDevice, kToOther, kToOptions, kCopy_;

}  // namespace hammock::ops
