#include "hammock/lazy/saved_computation.h"

#include "base/record_bytes.h"
#include "compiler/sizes/derived_sizes.h"
#include "hammock/ir/hash.h"

namespace hammock::lazy {
namespace {

constexpr std::string_view kMagic = "HAMMOCKC";
constexpr char kVersion = 1;
constexpr const char* kWhat = "a saved computation";

uint64_t Checksum(std::string_view bytes) { return HashString(bytes).lo; }

/// The members behind magic and version.
std::string_view Checked(std::string_view bytes) {
  constexpr size_t kHeader = kMagic.size() + 1;
  if (bytes.size() < kHeader + sizeof(uint64_t) || !bytes.starts_with(kMagic)) {
    Throw(ErrorCode::kParse, "{}: these bytes are none ({} bytes)", kWhat, bytes.size());
  }
  if (bytes[kMagic.size()] != kVersion) {
    Throw(ErrorCode::kParse, "{}: format version {}, this library reads {}", kWhat,
          static_cast<int>(bytes[kMagic.size()]), static_cast<int>(kVersion));
  }
  std::string_view checked = bytes.substr(0, bytes.size() - sizeof(uint64_t));
  ByteReader checksum(kWhat, bytes.substr(checked.size()));
  if (checksum.Fixed<uint64_t>() != Checksum(checked)) {
    Throw(ErrorCode::kParse, "{}: damaged: the checksum does not match", kWhat);
  }
  return checked.substr(kHeader);
}

}  // namespace

SavedComputation::SavedComputation(const Computation& computation, std::string fingerprint)
    : fingerprint(std::move(fingerprint)),
      name(computation.name()),
      graph(computation.graph()),
      derived_sizes(computation.derived_sizes),
      aliases(computation.aliases),
      devices(computation.devices) {}

std::string SavedComputation::ToBytes() const {
  RecordWriter record;
  record(fingerprint, name, Serialize(graph, {.locations = true, .origins = true}), derived_sizes,
         aliases, devices, artifact);
  ByteWriter out;
  out.Raw(kMagic);
  out.Byte(kVersion);
  out.Raw(record.Take());
  out.Fixed(Checksum(out.bytes()));
  return out.Take();
}

SavedComputation SavedComputation::Parse(std::string_view bytes) {
  RecordReader record(kWhat, Checked(bytes));
  SavedComputation saved;
  std::string graph;
  record(saved.fingerprint, saved.name, graph, saved.derived_sizes, saved.aliases, saved.devices,
         saved.artifact);
  record.ExpectEnd();
  saved.graph = DeserializeGraph(graph);
  return saved;
}

std::string SavedComputation::FingerprintOf(std::string_view bytes) {
  RecordReader record(kWhat, Checked(bytes));
  std::string fingerprint;
  record(fingerprint);
  return fingerprint;
}

ComputationPtr SavedComputation::ToComputation(const BackendDevice& device) const {
  auto computation = std::make_shared<Computation>(name, graph, device);
  computation->derived_sizes = derived_sizes;
  computation->aliases = aliases;
  computation->devices = devices;
  return computation;
}

}  // namespace hammock::lazy
