#include "hammock/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/throw.h"
#include "base/whole_file.h"
#include "hammock/ir/storage_types.h"
#include "nlohmann/json.hpp"

namespace hammock::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxHeader = 100'000'000;  // as the format says
constexpr size_t kLengthBytes = 8;
constexpr int kMaxDepth = 3;  // the header, an entry, a list of it
constexpr const char* kMetadata = "__metadata__";

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"BOOL", DType::kBool},
    {"U8", DType::kU8},
    {"I8", DType::kI8},
    {"U16", DType::kU16},
    {"I16", DType::kI16},
    {"U32", DType::kU32},
    {"I32", DType::kI32},
    {"U64", DType::kU64},
    {"I64", DType::kI64},
    {"F16", DType::kF16},
    {"BF16", DType::kBF16},
    {"F32", DType::kF32},
    {"F64", DType::kF64},
    {"C64", DType::kC64},
    {"F8_E4M3", DType::kF8E4M3},
    {"F8_E5M2", DType::kF8E5M2},
    // Ours: the format has no integers of less than a byte. Other readers refuse them by name.
    {"I4", DType::kI4},
    {"U4", DType::kU4},
    {"I2", DType::kI2},
    {"U2", DType::kU2}};

/// Reads a header; messages name the file.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    Throw(ErrorCode::kParse, "{}: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }

  Json Parse(std::string_view text) const {
    std::set<std::string> names;
    auto check = [&](int depth, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::key && depth == 1 &&
          !names.insert(value.get<std::string>()).second) {
        Fail("'{}' occurs twice", value.get<std::string>());
      }
      if (depth > kMaxDepth) Fail("lists in the header are nested too deep");
      return true;
    };
    try {
      Json header = Json::parse(text, check);
      if (!header.is_object()) Fail("the header is no object");
      return header;
    } catch (const Json::exception& error) {
      Fail("the header cannot be parsed: {}", error.what());
    }
  }

  const Json& Field(const std::string& name, const Json& entry, const char* field) const {
    auto found = entry.find(field);
    if (found == entry.end()) Fail("'{}' has no {}", name, field);
    return *found;
  }

  std::vector<uint64_t> Numbers(const std::string& name, const Json& entry,
                                const char* field) const {
    const Json& list = Field(name, entry, field);
    if (!list.is_array()) Fail("'{}': {} is no list", name, field);
    std::vector<uint64_t> numbers;
    for (const Json& number : list) {
      if (!number.is_number_unsigned()) Fail("'{}': {} has {}", name, field, number.dump());
      numbers.push_back(number.get<uint64_t>());
    }
    return numbers;
  }

  Shape ShapeOf(const std::string& name, const Json& entry) const {
    const Json& type = Field(name, entry, "dtype");
    auto dtype = std::find_if(std::begin(kTypes), std::end(kTypes),
                              [&](const auto& each) { return type == each.first; });
    if (dtype == std::end(kTypes)) Fail("'{}' is of dtype {}", name, type.dump());
    std::vector<uint64_t> sizes = Numbers(name, entry, "shape");
    if (sizes.size() > kMaxRank) Fail("'{}' has {} dims", name, sizes.size());
    Dims dims;
    for (uint64_t size : sizes) {
      if (size > INT64_MAX) Fail("'{}' has a size of {}", name, size);
      dims.push_back(static_cast<int64_t>(size));
    }
    CheckSizes(fmt::format("{}: '{}'", path_, name).c_str(), dims);  // their product, too
    const Shape shape(dtype->second, dims);
    CheckPacked(fmt::format("{}: '{}'", path_, name).c_str(), shape);
    return shape;
  }

 private:
  const std::string& path_;
};

}  // namespace

SafetensorsFile SafetensorsFile::Open(const std::string& path, Location at) {
  LocationScope scope(at);
  MappedFile file = MapFile(path);
  return Parse(file.owner, file.bytes, path);
}

SafetensorsFile SafetensorsFile::Parse(std::shared_ptr<const void> owner, std::string_view bytes,
                                       const std::string& name, Location at) {
  LocationScope scope(at);
  SafetensorsFile file;
  file.path_ = name;
  file.owner_ = std::move(owner);
  HeaderReader reader(file.path_);
  uint64_t length;
  if (bytes.size() < kLengthBytes) reader.Fail("{} bytes are no safetensors file", bytes.size());
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes) {
    reader.Fail("no safetensors file: it says a header of {} bytes, and has {} in all", length,
                bytes.size());
  }
  file.data_ = bytes.substr(kLengthBytes + length);
  Json header = reader.Parse(bytes.substr(kLengthBytes, length));
  for (const auto& [entry_name, entry] : header.items()) {
    if (!entry.is_object()) reader.Fail("'{}' is no object", entry_name);
    if (entry_name == kMetadata) {
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) reader.Fail("metadata '{}' is no text", key);
        file.metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    Shape shape = reader.ShapeOf(entry_name, entry);
    std::vector<uint64_t> offsets = reader.Numbers(entry_name, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > file.data_.size() ||
        offsets[1] - offsets[0] != static_cast<uint64_t>(shape.bytes())) {
      reader.Fail("'{}' is {} at {} of {} bytes", entry_name, shape.to_string(),
                  entry.at("data_offsets").dump(), file.data_.size());
    }
    file.names_.push_back(entry_name);
    file.entries_[entry_name] = {shape, offsets[0], offsets[1]};
  }
  std::stable_sort(file.names_.begin(), file.names_.end(), [&](const auto& a, const auto& b) {
    const Entry &left = file.entries_[a], &right = file.entries_[b];
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  // Neither gaps nor overlaps.
  size_t end = 0;
  for (const std::string& each : file.names_) {
    if (file.entries_[each].begin != end) {
      reader.Fail("'{}' begins at byte {}, expected {}", each, file.entries_[each].begin, end);
    }
    end = file.entries_[each].end;
  }
  if (end != file.data_.size()) reader.Fail("{} bytes follow the tensors", file.data_.size() - end);
  return file;
}

const SafetensorsFile::Entry& SafetensorsFile::Find(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    Throw(ErrorCode::kUnknownName, "{}: no tensor named '{}'", path_, name);
  }
  return found->second;
}

bool SafetensorsFile::Has(const std::string& name) const { return entries_.contains(name); }

const Shape& SafetensorsFile::ShapeOf(const std::string& name, Location at) const {
  LocationScope scope(at);
  return Find(name).shape;
}

HostTensor SafetensorsFile::Read(const std::string& name, Location at) const {
  LocationScope scope(at);
  const Entry& entry = Find(name);
  const char* first = data_.data() + entry.begin;
  auto width = static_cast<uintptr_t>(BytesOf(entry.shape.dtype(), 1));
  if (entry.shape.bytes() == 0 || std::bit_cast<uintptr_t>(first) % width != 0) {
    return HostTensor::Copy(entry.shape, first);
  }
  // Nothing writes to it: a HostTensor of shared bytes is never changed.
  return HostTensor(entry.shape,
                    std::const_pointer_cast<void>(std::shared_ptr<const void>(owner_, first)));
}

namespace {

std::string HeaderText(const Json& header, const std::string& path) {
  try {
    return header.dump();
  } catch (const Json::exception& error) {
    Throw(ErrorCode::kValue, "{}: a name or text cannot be written: {}", path, error.what());
  }
}

}  // namespace

void WriteSafetensors(const std::string& path, const NamedHostTensors& tensors,
                      const std::map<std::string, std::string>& metadata, Location at) {
  LocationScope scope(at);
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::vector<std::string_view> parts(1);
  int64_t offset = 0;
  // Wide elements first, so that all are aligned.
  std::vector<const std::pair<std::string, HostTensor>*> sorted;
  for (const auto& each : tensors) sorted.push_back(&each);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return InfoOf(a->second.dtype()).bits > InfoOf(b->second.dtype()).bits;
  });
  for (const auto* each : sorted) {
    const auto& [name, tensor] = *each;
    auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                             [&](const auto& known) { return known.second == tensor.dtype(); });
    if (name == kMetadata || header.contains(name) || type == std::end(kTypes)) {
      Throw(ErrorCode::kValue, "{}: '{}' ({}) cannot be written{}", path, name,
            tensor.shape().to_string(), type == std::end(kTypes) ? "" : ": the name is taken");
    }
    std::vector<int64_t> sizes(tensor.shape().sizes().begin(), tensor.shape().sizes().end());
    header[name] = {{"dtype", type->first},
                    {"shape", sizes},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
    parts.emplace_back(static_cast<const char*>(tensor.data()),
                       static_cast<size_t>(tensor.bytes()));
  }
  std::string text = HeaderText(header, path);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), kLengthBytes);
  parts[0] = text;
  WriteWholeFile(path, parts);
}

}  // namespace hammock::io
