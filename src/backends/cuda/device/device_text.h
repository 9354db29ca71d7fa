#pragma once
/// The files of device code in this folder as text; they are compiled when kernels are made.

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hammock::cuda {

/// Name and text of each file.
std::span<const std::pair<std::string_view, std::string_view>> DeviceFiles();

/// The text of a file behind the texts of the files that it includes, each once. Prelude() is left
/// out, since every module begins with it.
const std::string& DeviceText(std::string_view file);

/// The beginning of all modules: conversions, wide loads and stores, exchange between threads.
const std::string& Prelude();

}  // namespace hammock::cuda
