#include "ir/storage.h"

#include <algorithm>

#include "base/throw.h"
#include "ir/primitives.h"

namespace hammock {
namespace {

constexpr const OpDef* kMoves[] = {
    &ops::kReshape,
    &ops::kBroadcast,
    &ops::kPermute,
    &ops::kSlice,
    &ops::kDynamicSlice,
    &ops::kUpdateSlice,
    &ops::kDynamicUpdateSlice,
    &ops::kPad,
    &ops::kConcat,
    &ops::kFlip,
    &ops::kAsStrided,
    &ops::kAsStridedScatter,
    &ops::kGather,
    &ops::kScatter,
    &ops::kIndexSelect,
    &ops::kWhere,
    &ops::kCast,
    &ops::kConstant,
};

constexpr const OpDef* kInMemory[] = {
    &ops::kInput, &ops::kBitcast, &ops::kBarrier, &ops::kRequire,
    &ops::kCond,  &ops::kWhile,   &ops::kLoop,    &ops::kCustomCall,
};

}  // namespace

bool TakesStorageInMemory(const OpDef& op) {
  return std::ranges::find(kInMemory, &op) != std::end(kInMemory);
}

bool TakesStorage(const OpDef& op) {
  return std::ranges::find(kMoves, &op) != std::end(kMoves) || TakesStorageInMemory(op);
}

void CheckPacked(const char* what, const Shape& shape) {
  const int bits = InfoOf(shape.dtype()).bits;
  if (bits >= 8 || shape.rank() == 0 || shape.sizes().back() * bits % 8 == 0) return;
  Throw(ErrorCode::kShapeMismatch,
        "{}: {} is packed, {} elements a byte: the last size of {} is no multiple of {}", what,
        NameOf(shape.dtype()), 8 / bits, shape.to_string(), 8 / bits);
}

}  // namespace hammock
