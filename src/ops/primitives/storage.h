#pragma once
/// Storage types: what their bits mean, in ops on integers and f32. Only compiled graphs use these
/// (compiler/passes/expand_storage.h).

#include <span>

#include "ops/kit/compose.h"

namespace hammock::ops {

/// _unpack(self): the elements of a storage type as integers: bits of f8 as u8, i4 as i8, u4
/// as u8.
extern const OpDef kUnpack;
/// _pack(self) {dtype}: the reverse, of integers that the dtype holds.
extern const OpDef kPack;

std::span<const OpDef* const> StorageOps();

/// The dtype that _unpack gives.
DType UnpackedDType(DType storage);

/// `cast` from or to storage types.
Tensors CastStored(const ExpandCall& call);
/// `constant` of a storage type.
Tensors ConstantStored(const ExpandCall& call);
/// An op that moves elements, on unpacked ones.
Tensors MoveStored(const ExpandCall& call);

}  // namespace hammock::ops
