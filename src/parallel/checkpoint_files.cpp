#include "parallel/checkpoint_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/throw.h"
#include "base/whole_file.h"
#include "distributed/group.h"
#include "io/checkpoint_file.h"

namespace hammock::distributed {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr char kIndex[] = "checkpoint.json";
constexpr char kParts[] = "hammock.parts";
constexpr char kChecksums[] = "hammock.checksums";  // by name, so that each can be read alone
constexpr char kPartsFormat[] = "hammock checkpoint of ranks 2";

std::vector<int64_t> Ints(const Dims& dims) { return {dims.begin(), dims.end()}; }

std::string FileOf(int rank) { return fmt::format("rank-{}.safetensors", rank); }

/// The texts of all ranks, by rank.
std::vector<std::string> Gather(const Group& group, const char* what, const std::string& own) {
  if (group.size() == 1) return {own};
  Group::State& state = group.state();
  AgreementPtr agreement = state.Agree(what);
  std::vector<uint64_t> sizes(static_cast<size_t>(group.size()));
  std::vector<std::string> texts;
  state.Call(what, [&](Engine& engine) {
    const uint64_t own_size = own.size();
    engine.AllGather(&own_size, sizes.data(), sizeof(uint64_t), agreement->NextTag());
    const size_t most = std::max<size_t>(*std::ranges::max_element(sizes), 1);
    std::string padded = own, all(most * sizes.size(), '\0');
    padded.resize(most);
    engine.AllGather(padded.data(), all.data(), most, agreement->NextTag());
    for (size_t i = 0; i < sizes.size(); ++i) texts.push_back(all.substr(i * most, sizes[i]));
  });
  return texts;
}

/// The text of the exception that `attempt` throws; empty if it throws none.
template <class Fn>
std::string Failure(const Fn& attempt) {
  try {
    attempt();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Raises on all ranks what went wrong on any when it tried to "write" or to "read".
void RaiseTogether(const Group& group, const std::string& folder, const char* verb,
                   const std::string& own) {
  const std::vector<std::string> all = Gather(group, "checkpoint", own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    Throw(ErrorCode::kValue, "checkpoint '{}': rank {} could not {}: {}", folder, rank, verb,
          all[rank]);
  }
}

/// `check` is called when nothing but the last step is left.
template <class Fn>
void ReplaceIndex(const fs::path& folder, const Json& index, const Fn& check) {
  // In the folder of its generation: where others have gone on without this rank and removed it,
  // it cannot become the present one.
  const fs::path next = folder / index["generation"].get<std::string>() / kIndex;
  const std::string text = index.dump(1);
  const std::string_view parts[] = {text};
  WriteWholeFile(next.string(), parts);
  check();
  fs::rename(next, folder / kIndex);
}

void RemoveOthers(const fs::path& folder, const std::string& generation) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name != generation) fs::remove_all(entry.path(), ignored);
  }
}

/// Elements [begin, end) of the flattened tensor, or the box of a piece, as text.
std::string Range(const Piece& piece) {
  if (piece.flat) {
    return fmt::format("elements {} to {}", piece.start[0], piece.start[0] + piece.sizes[0]);
  }
  return fmt::format("{} at {}", ToString(piece.sizes), ToString(piece.start));
}

/// The elements of a piece as ranges of the flattened tensor, all of one length, in their order.
class Runs {
 public:
  explicit Runs(const Piece& piece) : piece_(piece), length_(1), count_(piece.count() > 0 ? 1 : 0) {
    if (piece.flat) {
      length_ = piece.sizes[0];
      return;
    }
    // Dims that are whole are a part of the run, and one more in front of them.
    dims_ = piece.whole.size();
    for (bool is_whole = true; dims_ > 0 && is_whole;) {
      --dims_;
      length_ *= piece.sizes[dims_];
      is_whole = piece.sizes[dims_] == piece.whole[dims_];
    }
    for (int d = 0; d < dims_; ++d) count_ *= piece.sizes[d];
  }

  int64_t count() const { return count_; }
  int64_t length() const { return length_; }
  int64_t Begin(int64_t run) const {
    if (piece_.flat) return piece_.start[0];
    int64_t begin = 0, stride = 1;
    for (int d = piece_.whole.size() - 1; d >= 0; --d) {
      int64_t index = piece_.start[d];
      if (d < dims_) {
        index += run % piece_.sizes[d];
        run /= piece_.sizes[d];
      }
      begin += index * stride;
      stride *= piece_.whole[d];
    }
    return begin;
  }

 private:
  const Piece& piece_;
  int64_t length_, count_;
  int dims_ = 0;  // that a run has one index of
};

/// How many elements of the tensor lie in any of the pieces.
int64_t Covered(const std::vector<Piece>& pieces) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const Piece& piece : pieces) {
    const Runs runs(piece);
    for (int64_t i = 0; i < runs.count(); ++i) {
      ranges.emplace_back(runs.Begin(i), runs.Begin(i) + runs.length());
    }
  }
  std::ranges::sort(ranges);
  int64_t covered = 0, end = 0;
  for (const auto& [from, to] : ranges) {
    covered += std::max<int64_t>(to - std::max(from, end), 0);
    end = std::max(end, to);
  }
  return covered;
}

/// Calls `copy` with where each range that both have begins in `a` and in `b`, and its length.
template <class Fn>
void ForEachCommonRange(const Piece& a, const Piece& b, const Fn& copy) {
  const Runs runs_a(a), runs_b(b);
  for (int64_t i = 0, j = 0; i < runs_a.count() && j < runs_b.count();) {
    const int64_t begin_a = runs_a.Begin(i), end_a = begin_a + runs_a.length();
    const int64_t begin_b = runs_b.Begin(j), end_b = begin_b + runs_b.length();
    const int64_t begin = std::max(begin_a, begin_b), end = std::min(end_a, end_b);
    if (begin < end) {
      copy(i * runs_a.length() + begin - begin_a, j * runs_b.length() + begin - begin_b,
           end - begin);
    }
    end_a < end_b ? ++i : ++j;
  }
}

}  // namespace

Piece Piece::Of(const Shape& shape, const std::optional<Shard>& shard) {
  Piece piece{shape.dtype(), shape.sizes(), Dims::Filled(shape.rank(), 0), shape.sizes()};
  if (!shard) return piece;
  piece.whole = shard->whole;
  piece.start = shard->start;
  piece.flat = shard->flat;
  if (piece.flat) {
    const int64_t all = Shape(DType::kU8, piece.whole).numel();
    piece.start = Dims{std::min(piece.start[0], all)};
    piece.sizes = Dims{std::min(shape.numel(), all - piece.start[0])};
  }
  return piece;
}

int64_t Piece::count() const { return Shape(DType::kU8, sizes).numel(); }

std::string Inventory::ToText() const {
  Json all = Json::object();
  for (const auto& [name, piece] : pieces) {
    all[name] = {{"dtype", NameOf(piece.dtype)},
                 {"whole", Ints(piece.whole)},
                 {"start", Ints(piece.start)},
                 {"sizes", Ints(piece.sizes)},
                 {"flat", piece.flat}};
  }
  return Json{{"steps", steps}, {"generation", generation}, {"pieces", all}}.dump();
}

Inventory Inventory::FromText(const std::string& text) {
  const Json json = Json::parse(text);
  Inventory inventory;
  inventory.steps = json.at("steps").get<int64_t>();
  inventory.generation = json.at("generation").get<std::string>();
  for (const auto& [name, value] : json.at("pieces").items()) {
    auto dims = [&](const char* key) { return Dims(value.at(key).get<std::vector<int64_t>>()); };
    const std::optional<DType> dtype = DTypeFromName(value.at("dtype").get<std::string>());
    if (!dtype) throw std::runtime_error("unknown dtype of " + name);
    inventory.pieces[name] = {*dtype, dims("whole"), dims("start"), dims("sizes"),
                              value.at("flat").get<bool>()};
  }
  return inventory;
}

std::string NewGeneration(int64_t steps) {
  return fmt::format("step-{}-{:x}", steps,
                     std::chrono::system_clock::now().time_since_epoch().count());
}

std::vector<Inventory> GatherInventories(const Group& group, const Inventory& own) {
  std::vector<Inventory> all;
  for (const std::string& text : Gather(group, "checkpoint", own.ToText())) {
    all.push_back(Inventory::FromText(text));
  }
  return all;
}

void CheckSteps(const std::vector<Inventory>& all, const Group& group) {
  std::map<int64_t, std::vector<int>> ranks;
  for (size_t i = 0; i < all.size(); ++i) ranks[all[i].steps].push_back(static_cast<int>(i));
  if (ranks.size() == 1) return;
  std::string text;
  for (const auto& [steps, own] : ranks) {
    text += fmt::format("{}{} {} made {}", text.empty() ? "" : ", ",
                        own.size() == 1 ? "rank" : "ranks", fmt::join(own, ", "), steps);
  }
  Throw(ErrorCode::kValue,
        "checkpoint: the ranks of group '{}' have not made the same number of steps, so that their "
        "parts do not belong together: {}",
        group.name(), text);
}

void CheckWhole(const std::vector<Inventory>& all) {
  std::map<std::string, std::vector<Piece>> pieces;
  for (const Inventory& inventory : all) {
    for (const auto& [name, piece] : inventory.pieces) {
      std::vector<Piece>& own = pieces[name];
      if (std::ranges::find(own, piece) == own.end()) own.push_back(piece);
    }
  }
  std::string lost;
  for (const auto& [name, own] : pieces) {
    const int64_t needed = Shape(DType::kU8, own[0].whole).numel();
    for (const Piece& piece : own) {
      if (piece.whole == own[0].whole && piece.dtype == own[0].dtype) continue;
      Throw(ErrorCode::kValue, "checkpoint: '{}' is a part of {} on one rank, of {} on another",
            name, Shape(own[0].dtype, own[0].whole).to_string(),
            Shape(piece.dtype, piece.whole).to_string());
    }
    const int64_t covered = Covered(own);
    if (covered == needed) continue;
    lost += fmt::format("\n  {}: {} of {} elements; there are", name, needed - covered, needed);
    for (const Piece& piece : own) lost += " " + Range(piece) + ",";
    lost.pop_back();
  }
  if (lost.empty()) return;
  Throw(ErrorCode::kValue,
        "checkpoint: parts of tensors are on no rank of the group, such as those that only a rank "
        "had which has gone:{}",
        lost);
}

int WriterOf(const std::string& name, const std::vector<Inventory>& all, int rank) {
  const Piece& own = all[static_cast<size_t>(rank)].pieces.at(name);
  std::vector<int> owners;
  for (size_t i = 0; i < all.size(); ++i) {
    auto found = all[i].pieces.find(name);
    if (found != all[i].pieces.end() && found->second == own) owners.push_back(static_cast<int>(i));
  }
  // Whole tensors are dealt out.
  return owners[HashString(name).lo % owners.size()];
}

void WriteTogether(const std::string& folder, const std::string& generation, const Group& group,
                   const Inventory& written, const ReadTensors& read) {
  const fs::path own = fs::path(folder) / generation;
  const std::string failure = Failure([&] {
    const io::NamedHostTensors tensors = read();
    fs::create_directories(own);
    std::map<std::string, std::string> metadata = {{kFormat, kPartsFormat},
                                                   {kParts, written.ToText()}};
    Json checksums = Json::object();
    for (const auto& [name, tensor] : tensors) checksums[name] = ChecksumOf({{name, tensor}}, {});
    metadata[kChecksums] = checksums.dump();
    metadata[kChecksum] = ChecksumOf({}, metadata);
    io::WriteSafetensors((own / FileOf(group.rank())).string(), tensors, metadata);
  });
  try {
    RaiseTogether(group, folder, "write", failure);
  } catch (...) {
    // Rank 0 decides. Others that hear of a rank's death here do not know whether rank 0 heard of
    // it too, or has made these files the checkpoint.
    std::error_code ignored;
    if (group.rank() == 0) fs::remove_all(own, ignored);
    throw;
  }
  std::string replaced;
  if (group.rank() == 0) {
    replaced = Failure([&] {
      const Json index = {{"format", kPartsFormat},
                          {"generation", generation},
                          {"steps", written.steps},
                          {"ranks", group.size()}};
      // Ranks that gave up waiting for this one may be writing a checkpoint of their own.
      ReplaceIndex(folder, index, [&] { group.state().CheckOthers(); });
    });
    if (replaced.empty()) RemoveOthers(folder, generation);
  }
  RaiseTogether(group, folder, "write", replaced);
}

// ---- reading

namespace {

/// Whether a piece lies inside of its tensor and its data has as many elements.
bool Fits(const Piece& piece, const Shape& data) {
  if (data.dtype() != piece.dtype || data.numel() < piece.count()) return false;
  if (piece.flat) {
    return piece.start.size() == 1 && piece.sizes.size() == 1 && piece.start[0] >= 0 &&
           piece.sizes[0] >= 0 &&
           piece.sizes[0] <= Shape(DType::kU8, piece.whole).numel() - piece.start[0];
  }
  bool fits = piece.start.size() == piece.whole.size() && piece.sizes.size() == piece.whole.size();
  for (int d = 0; fits && d < piece.whole.size(); ++d) {
    fits = piece.start[d] >= 0 && piece.sizes[d] >= 0 &&
           piece.sizes[d] <= piece.whole[d] - piece.start[d];
  }
  return fits;
}

}  // namespace

SavedParts::SavedParts(const std::string& folder) : folder_(folder) {
  const fs::path index_path = fs::path(folder) / kIndex;
  std::ifstream stream(index_path);
  const Json index = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!stream || !index.is_object() || index.value("format", "") != kPartsFormat ||
      !index.contains("generation") || !index.contains("steps") || !index.contains("ranks")) {
    Throw(ErrorCode::kParse, "'{}' is no checkpoint of ranks of this version", folder);
  }
  steps_ = index["steps"].get<int64_t>();
  std::vector<Inventory> inventories;
  for (int rank = 0; rank < index["ranks"].get<int>(); ++rank) {
    const fs::path path = fs::path(folder) / index["generation"].get<std::string>() / FileOf(rank);
    io::SafetensorsFile file = io::SafetensorsFile::Open(path.string());
    std::map<std::string, std::string> metadata = file.metadata();
    if (metadata[kFormat] != kPartsFormat || metadata[kChecksum] != ChecksumOf({}, metadata)) {
      Throw(ErrorCode::kParse, "{}: damaged: its checksum does not match", path.string());
    }
    Inventory inventory;
    std::map<std::string, std::string> checksums;
    const std::string wrong = Failure([&] {
      inventory = Inventory::FromText(metadata[kParts]);
      Json::parse(metadata[kChecksums]).get_to(checksums);
    });
    if (!wrong.empty()) Throw(ErrorCode::kParse, "{}: damaged: {}", path.string(), wrong);
    if (inventory.steps != steps_) {
      Throw(ErrorCode::kValue, "{}: its part is of step {}, but the checkpoint is of step {}",
            path.string(), inventory.steps, steps_);
    }
    for (const auto& [name, piece] : inventory.pieces) {
      if (!file.Has(name) || !Fits(piece, file.ShapeOf(name))) {
        Throw(ErrorCode::kParse, "{}: damaged: '{}' is not what the file says", path.string(),
              name);
      }
      std::vector<Source>& sources = sources_[name];
      const bool same = sources.empty() || (sources[0].piece.whole == piece.whole &&
                                            sources[0].piece.dtype == piece.dtype);
      if (!same) Throw(ErrorCode::kParse, "{}: '{}' has another shape", path.string(), name);
      sources.push_back({path.string(), piece, file.Read(name), checksums[name]});
    }
    inventories.push_back(std::move(inventory));
  }
  CheckWhole(inventories);
}

StateShapes SavedParts::Shapes() const {
  StateShapes shapes;
  for (const auto& [name, sources] : sources_) {
    shapes.emplace(name, Shape(sources[0].piece.dtype, sources[0].piece.whole));
  }
  return shapes;
}

HostTensor SavedParts::Read(const std::string& name, const Shape& shape,
                            const std::optional<Shard>& shard) const {
  const Piece wanted = Piece::Of(shape, shard);
  HostTensor part(shape);
  auto bytes = [&](int64_t elements) {
    return static_cast<size_t>(BytesOf(shape.dtype(), elements));
  };
  char* to = static_cast<char*>(part.mutable_data());
  std::memset(to + bytes(wanted.count()), 0, bytes(shape.numel()) - bytes(wanted.count()));
  for (const auto& [path, piece, data, checksum] : sources_.at(name)) {
    const char* from = static_cast<const char*>(data.data());
    bool is_checked = false;
    ForEachCommonRange(piece, wanted, [&](int64_t at, int64_t begin, int64_t count) {
      if (!std::exchange(is_checked, true) && checksum != ChecksumOf({{name, data}}, {})) {
        Throw(ErrorCode::kParse, "{}: damaged: the checksum of '{}' does not match", path, name);
      }
      std::memcpy(to + bytes(begin), from + bytes(at), bytes(count));
    });
  }
  return part;
}

void ReadTogether(const std::string& folder, const Group& group,
                  const std::function<void()>& read) {
  std::exception_ptr own;
  std::string failure;
  try {
    read();
  } catch (const std::exception& error) {
    own = std::current_exception();
    failure = error.what();
  }
  try {
    RaiseTogether(group, folder, "read", failure);
  } catch (...) {
    if (own) std::rethrow_exception(own);
    throw;
  }
}

}  // namespace hammock::distributed
