#pragma once
/// Readers of the files that data sets come in. Whatever a file holds, the answer is a tensor or a
/// ValueError (kParse) that names the file and the place in it. `Parse...` take the bytes of a file
/// and the name that messages give it. What is allocated is bounded by the bytes that are there,
/// not by what they claim.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/location.h"

namespace hammock::io {

/// An IDX file, as MNIST and its relatives are kept in; gzip or plain.
HAMMOCK_API HostTensor ReadIdx(const std::string& path, Location at = Location::current());
HAMMOCK_API HostTensor ParseIdx(std::span<const std::byte> bytes, const std::string& name,
                                Location at = Location::current());

struct CsvOptions {
  char delimiter = ',';
  bool header = true;  ///< the first line has names
  DType dtype = DType::kF32;
};
struct Csv {
  std::vector<std::string> names;  ///< empty without a header
  HostTensor values;               ///< [rows, columns]
};
/// A table of numbers. Fields may be quoted; an empty field is NaN, which integers refuse.
HAMMOCK_API Csv ReadCsv(const std::string& path, const CsvOptions& options = {},
                        Location at = Location::current());
HAMMOCK_API Csv ParseCsv(std::span<const std::byte> bytes, const std::string& name,
                         const CsvOptions& options = {}, Location at = Location::current());

/// A PNG or JPEG image as u8[height, width, channels], told apart by its first bytes. Channels: 1
/// grey, 2 grey and alpha, 3 colour, 4 colour and alpha; palettes and 16-bit samples are converted.
HAMMOCK_API HostTensor ReadImage(const std::string& path, Location at = Location::current());
HAMMOCK_API HostTensor ParseImage(std::span<const std::byte> bytes, const std::string& name,
                                  Location at = Location::current());

}  // namespace hammock::io
