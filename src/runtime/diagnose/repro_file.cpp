#include "runtime/diagnose/repro_file.h"

#include <fmt/format.h>

#include <bit>

#include "base/throw.h"

namespace hammock {

namespace {

constexpr std::string_view kMagic = "HAMMOCK-REPRO\n";
constexpr uint32_t kVersion = 1;

// ---- Bytes, little-endian

void PutInt(std::string& out, uint64_t value, int bytes = 8) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void PutBytes(std::string& out, std::string_view bytes) {
  PutInt(out, bytes.size());
  out += bytes;
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  uint64_t Int(int bytes = 8) {
    std::string_view text = Take(static_cast<uint64_t>(bytes));
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    return value;
  }
  std::string_view Take(uint64_t count) {
    if (count > bytes_.size()) Damaged("it ends too early");
    std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view Bytes() { return Take(Int()); }
  size_t left() const { return bytes_.size(); }

  [[noreturn]] void Damaged(const std::string& what) const {
    Throw(ErrorCode::kParse, "repro: '{}' is damaged: {}", path_, what);
  }

 private:
  const std::string& path_;
  std::string_view bytes_;
};

// ---- Elements, as in memory

void AppendElements(std::string& out, const HostTensor& tensor) {
  static_assert(std::endian::native == std::endian::little, "elements are stored little-endian");
  PutBytes(out, {static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes())});
}

HostTensor ReadElements(Reader& reader, const Shape& type) {
  std::string_view bytes = reader.Bytes();
  if (bytes.size() != static_cast<size_t>(type.bytes())) {
    reader.Damaged(fmt::format("an input of {} has {} bytes", type.to_string(), bytes.size()));
  }
  return HostTensor::Copy(type, bytes.data());
}

}  // namespace

std::string EncodeRepro(const Repro& repro) {
  std::string payload;
  PutBytes(payload, Serialize(repro.graph));
  PutInt(payload, repro.inputs.size());
  for (const HostTensor& input : repro.inputs) AppendElements(payload, input);
  PutInt(payload, repro.values.size());
  for (GraphValue value : repro.values) {
    PutInt(payload, static_cast<uint64_t>(value.node.number()), 4);
    PutInt(payload, static_cast<uint64_t>(value.index), 4);
  }
  std::string file(kMagic);
  PutInt(file, kVersion, 4);
  PutInt(file, payload.size());
  Hash128 checksum = HashString(payload);
  PutInt(file, checksum.lo);
  PutInt(file, checksum.hi);
  return file + payload;
}

Repro DecodeRepro(const std::string& path, std::string_view file) {
  Reader header(path, file);
  if (file.substr(0, kMagic.size()) != kMagic) {
    Throw(ErrorCode::kParse, "repro: '{}' is not a repro file", path);
  }
  header.Take(kMagic.size());
  uint64_t version = header.Int(4);
  if (version != kVersion) {
    Throw(ErrorCode::kParse, "repro: '{}' has version {}, this library reads version {}", path,
          version, kVersion);
  }
  uint64_t size = header.Int();
  Hash128 checksum;
  checksum.lo = header.Int();
  checksum.hi = header.Int();
  if (size != header.left()) {
    header.Damaged(fmt::format("it has {} bytes after its header, needs {}", header.left(), size));
  }
  std::string_view payload = header.Take(size);
  if (HashString(payload) != checksum) header.Damaged("its checksum does not match");

  Reader reader(path, payload);
  Repro repro;
  repro.graph = DeserializeGraph(reader.Bytes());
  const Graph& graph = repro.graph;
  if (reader.Int() != graph.inputs().size()) reader.Damaged("it has inputs of another graph");
  for (NodeId id : graph.inputs()) repro.inputs.push_back(ReadElements(reader, graph[id].type()));
  uint64_t count = reader.Int();
  for (uint64_t i = 0; i < count; ++i) {
    GraphValue value{NodeId(reader.Int(4)), static_cast<int32_t>(reader.Int(4))};
    bool good = graph.Contains(value.node) && value.index >= 0 &&
                value.index < static_cast<int32_t>(graph[value.node].types.size());
    if (!good) reader.Damaged(fmt::format("value {} is not in its graph", i));
    repro.values.push_back(value);
  }
  if (reader.left() != 0) reader.Damaged("there are bytes behind its end");
  return repro;
}

}  // namespace hammock
