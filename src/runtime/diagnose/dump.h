#pragma once
/// Graphs for people to read and run: dumps of pending and of cached graphs.

#include <string>

#include "runtime/step/executor.h"

namespace hammock {

/// ValueError that names the valid forms, unless `format` is "text", "dot" or "backend".
void CheckDumpFormat(const char* op, const std::string& format);

/// The common device of tensors for `op`, or null where all are scalars. ValueError for undefined
/// and symbolic tensors, for several devices, and for a device whose backend is gone.
DeviceEntry* DeviceOfAll(const char* op, std::span<const Tensor> tensors);

/// The cached step of that hash, else ValueError that says whether it was there before.
CompiledStepPtr CachedStep(const char* op, const Hash128& hash);

}  // namespace hammock
