#include "onnx/file.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/plugin_library.h"
#include "base/throw.h"
#include "base/whole_file.h"
#include "hammock/config.h"
#include "onnx/call.h"
#include "onnx/narrow.h"
#include "onnx/plugin/plugin.h"

namespace hammock::onnx {
namespace {

constinit config::Option<std::string> kOnnxPlugin({
    .name = "onnx.plugin",
    .default_value = "",
    .doc =
        "File of the plug-in that reads and writes ONNX files; empty: `libhammock-onnx.so` beside "
        "the library, or where the system finds it.",
});

const PluginLibrary::Opened& OpenedPlugin() {
  return OpenPlugin<kOnnxPlugin>({
      .file = "libhammock-onnx.so",
      .entry = HAMMOCK_ONNX_ENTRY,
      .abi = HAMMOCK_ONNX_ABI,
      .without = "no ONNX file is read or written without its plug-in (option onnx.plugin)",
  });
}

const HammockOnnxTableV1& Plugin() { return OpenedPlugin().TableFor<HammockOnnxTableV1>("onnx"); }

// ---- external data

struct External {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

uint64_t NumberOf(const format::Tensor& tensor, const std::string& key, const std::string& text) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  Throw(ErrorCode::kParse, "onnx: tensor '{}': external data has the {} '{}'", tensor.name, key,
        text);
}

External ExternalOf(const format::Tensor& tensor) {
  External external;
  for (const auto& [key, value] : tensor.external_data) {
    if (key == "location") external.location = value;
    if (key == "offset") external.offset = NumberOf(tensor, key, value);
    if (key == "length") external.length = NumberOf(tensor, key, value);
  }
  return external;
}

/// The file, which must lie below the folder, also after symbolic links were followed.
std::string PathOf(const format::Tensor& tensor, const std::string& location,
                   const std::string& folder) {
  if (folder.empty()) {
    Throw(ErrorCode::kValue,
          "onnx: tensor '{}' is in the file '{}', and no folder is given in which it lies",
          tensor.name, location);
  }
  std::error_code error;
  std::filesystem::path root = std::filesystem::weakly_canonical(folder, error);
  std::filesystem::path given(location);
  std::filesystem::path path = std::filesystem::weakly_canonical(root / given, error);
  std::filesystem::path inside = path.lexically_relative(root);
  bool leaves = given.is_absolute() || inside.empty() || *inside.begin() == "..";
  if (location.empty() || leaves || location.find('\0') != std::string::npos) {
    Throw(ErrorCode::kValue,
          "onnx: tensor '{}' is in '{}', which is not a file below the model's folder", tensor.name,
          location);
  }
  return path.string();
}

/// The elements where they are mapped, or a copy where they are not aligned.
HostTensor Mapped(const format::Tensor& tensor, const Shape& shape, const std::string& folder) {
  External external = ExternalOf(tensor);
  std::string path = PathOf(tensor, external.location, folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    Throw(ErrorCode::kValue, "onnx: tensor '{}': there is no file '{}'", tensor.name, path);
  }
  auto bytes = static_cast<uint64_t>(shape.bytes());
  if (bytes == 0) return HostTensor(shape);
  MappedFile file = MapFile(path);
  bool fits = external.offset <= file.bytes.size() &&
              bytes <= file.bytes.size() - external.offset &&
              external.length.value_or(bytes) == bytes;
  if (!fits) {
    Throw(ErrorCode::kParse,
          "onnx: tensor '{}' of {} has {} bytes, '{}' has {} from offset {} and says {}",
          tensor.name, shape.to_string(), bytes, path, file.bytes.size(), external.offset,
          external.length ? std::to_string(*external.length) : "no length");
  }
  const char* data = file.bytes.data() + external.offset;
  auto size = static_cast<uint64_t>(BytesOf(shape.dtype(), 1));
  if (reinterpret_cast<uintptr_t>(data) % size != 0) return HostTensor::Copy(shape, data);
  return HostTensor::Borrow(shape, const_cast<char*>(data), [owner = file.owner] {});
}

/// Codes, one a byte, of elements that a file packs.
HostTensor Unpacked(format::Tensor& tensor, const Shape& shape, const std::string& folder) {
  if (tensor.external) {
    Shape packed(DType::kU8, {(shape.numel() * BitsOf(tensor.element) + 7) / 8});
    HostTensor bytes = Mapped(tensor, packed, folder);
    tensor.bytes.assign(static_cast<const char*>(bytes.data()), static_cast<size_t>(bytes.bytes()));
  }
  if (!Unpack(tensor.element, tensor.bytes, shape.numel())) {
    Throw(ErrorCode::kParse, "onnx: tensor '{}' of {} {} has {} bytes", tensor.name, shape.numel(),
          NameOfElement(tensor.element), tensor.bytes.size());
  }
  return HostTensor::Copy(shape, tensor.bytes.data());
}

}  // namespace

std::string WhyAbsent() { return OpenedPlugin().reason; }

format::Model ParseModel(std::string_view bytes, const std::string& name) {
  format::Model model;
  std::string error;
  if (Plugin().parse_model(bytes.data(), bytes.size(), model, error)) return model;
  Throw(ErrorCode::kParse, "onnx: {}: {}", name, error);
}

format::Value ParseValue(std::string_view bytes, const format::Type& type,
                         const std::string& name) {
  format::Value value;
  std::string error;
  if (Plugin().parse_value(bytes.data(), bytes.size(), type, value, error)) return value;
  Throw(ErrorCode::kParse, "onnx: {}: {}", name, error);
}

std::string WriteModel(const format::Model& model) {
  std::string bytes, error;
  if (Plugin().write_model(model, bytes, error)) return bytes;
  Throw(ErrorCode::kValue, "onnx: {}", error);
}

HostTensor TakeElements(format::Tensor& tensor, const std::string& folder) {
  if (tensor.dims.size() > static_cast<size_t>(kMaxRank)) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: tensor '{}' has {} dims, at most {} work",
                        tensor.name, tensor.dims.size(), kMaxRank);
  }
  Shape shape(StorageOf(tensor.element), Dims(tensor.dims));
  CheckSizes(fmt::format("onnx: tensor '{}'", tensor.name).c_str(), shape.sizes());
  if (BitsOf(tensor.element) < 8) return Unpacked(tensor, shape, folder);
  if (tensor.external) return Mapped(tensor, shape, folder);
  if (static_cast<uint64_t>(shape.bytes()) != tensor.bytes.size()) {
    Throw(ErrorCode::kParse, "onnx: tensor '{}' of {} needs {} bytes, the file has {}", tensor.name,
          shape.to_string(), shape.bytes(), tensor.bytes.size());
  }
  if (tensor.bytes.size() < 64) return HostTensor::Copy(shape, tensor.bytes.data());
  auto owner = std::make_shared<std::string>(std::move(tensor.bytes));
  char* data = owner->data();
  return HostTensor(shape, std::shared_ptr<void>(std::move(owner), data));
}

}  // namespace hammock::onnx
