#include "hammock/distributed/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/location_scope.h"
#include "base/throw.h"
#include "distributed/group.h"
#include "hammock/autograd.h"
#include "hammock/executor.h"
#include "hammock/ops.h"
#include "hammock/random.h"
#include "parallel/checkpoint_files.h"

namespace hammock::distributed {
namespace {

/// "model.fc.shards.weight" -> "model.fc.weight"
std::string Undivided(std::string name) {
  constexpr std::string_view kShards = "shards.";
  for (size_t at = name.find(kShards); at != std::string::npos; at = name.find(kShards, at)) {
    if (at == 0 || name[at - 1] == '.') {
      name.erase(at, kShards.size());
    } else {
      ++at;
    }
  }
  return name;
}

/// The parameters of all groups, by their number in the state.
std::vector<Tensor> ParametersOf(const optim::Optimizer& optimizer) {
  std::vector<Tensor> all;
  for (int group = 0; group < optimizer.groups(); ++group) {
    const std::vector<Tensor>& own = optimizer.params(group);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Shape WholeShape(const Tensor& tensor, const std::optional<Shard>& shard) {
  return shard ? Shape(tensor.dtype(), shard->whole) : tensor.shape();
}

}  // namespace

Checkpoint::Checkpoint(const Group& group) : group_(group) {
  AddPart({"rng",
           [](Entries& entries) {
             Generator& generator = Generator::Default();
             entries["rng.seed"] = {tensor(generator.seed(), DType::kU64), {}, "seed"};
             entries["rng.offset"] = {tensor(generator.offset(), DType::kU64), {}, "offset"};
           },
           [](const StateDict& state) {
             auto number = [&](const char* name) {
               return state.at(name).to_vector<uint64_t>()[0];
             };
             manual_seed(number("seed"));
             Generator::Default().set_offset(number("offset"));
           }});
}

void Checkpoint::AddPart(Part part) {
  const bool taken =
      std::ranges::any_of(parts_, [&](const Part& other) { return other.name == part.name; });
  if (part.name.empty() || part.name.find('.') != std::string::npos || taken) {
    Throw(ErrorCode::kValue,
          "checkpoint: '{}' cannot be the name of a part: names have no dot and occur once, and "
          "'rng' is taken",
          part.name);
  }
  parts_.push_back(std::move(part));
}

void Checkpoint::add(const std::string& name, Module& module, Location at) {
  LocationScope scope(at);
  AddPart({name,
           [name, &module](Entries& entries) {
             for (const auto& [path, tensor] : module.state_dict()) {
               entries[name + "." + Undivided(path)] = {tensor, shard_of(tensor), path};
             }
           },
           [&module](const StateDict& state) {
             module.load_state_dict({state.begin(), state.end()});
           }});
  modules_.push_back(&module);
}

void Checkpoint::add(const std::string& name, optim::Optimizer& optimizer, Location at) {
  LocationScope scope(at);
  AddPart({name,
           [this, name, &optimizer](Entries& entries) {
             std::map<int64_t, std::string> names;  // of parameters
             for (const Module* module : modules_) {
               for (const auto& [path, parameter] : module->named_parameters()) {
                 names[parameter.id()] = Undivided(path);
               }
             }
             const std::vector<Tensor> parameters = ParametersOf(optimizer);
             for (const auto& [local, tensor] : optimizer.state_dict()) {
               const size_t dot = local.find('.');
               const std::string number = local.substr(0, dot);
               std::string global = local;
               std::optional<Shard> shard;
               if (!number.empty() && std::ranges::all_of(number, ::isdigit)) {
                 const Tensor& parameter = parameters.at(std::stoul(number));
                 if (auto found = names.find(parameter.id()); found != names.end()) {
                   global = found->second + local.substr(dot);
                 }
                 if (tensor.sizes() == parameter.sizes()) shard = shard_of(parameter);
               }
               entries[name + "." + global] = {tensor, shard, local};
             }
           },
           [&optimizer](const StateDict& state) { optimizer.load_state_dict(state); }});
}

void Checkpoint::add(const std::string& name, int64_t& number, Location at) {
  LocationScope scope(at);
  AddPart({name,
           [name, &number](Entries& entries) {
             entries[name] = {tensor(number, DType::kI64), {}, ""};
           },
           [&number](const StateDict& state) { number = state.at("").to_vector<int64_t>()[0]; }});
}

Checkpoint::Entries Checkpoint::Collect() const {
  Entries entries;
  for (const Part& part : parts_) part.collect(entries);
  for (const auto& [name, entry] : entries) {
    if (!entry.shard || entry.shard->groups.size() < 2) continue;
    // Where it lies in the whole of the outer shards is not noted.
    const std::string& inner = entry.shard->groups[0];
    if (group_.size() <= FindGroup(inner)->size()) continue;
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "checkpoint: '{}' is a shard of a shard; save it by group '{}', in a "
                        "folder for each of the outer shards",
                        name, inner);
  }
  return entries;
}

// ---- writing

void Checkpoint::save(const std::string& folder, Location at) const {
  LocationScope scope(at);
  mark_step(/*wait=*/true, at);
  const Entries entries = Collect();
  Inventory own;
  own.steps = group_.steps();
  own.generation = group_.rank() == 0 ? NewGeneration(own.steps) : "";
  for (const auto& [name, entry] : entries) {
    own.pieces[name] = Piece::Of(entry.tensor.shape(), entry.shard);
  }
  const std::vector<Inventory> all = GatherInventories(group_, own);
  CheckSteps(all, group_);
  CheckWhole(all);
  // Of pieces that several ranks have, one writes each.
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (const auto& [name, entry] : entries) {
    if (WriterOf(name, all, group_.rank()) != group_.rank()) continue;
    names.push_back(name);
    tensors.push_back(entry.tensor.detach());
  }
  Inventory written = own;
  written.pieces.clear();
  for (const std::string& name : names) written.pieces[name] = own.pieces[name];
  WriteTogether(folder, all[0].generation, group_, written, [&] {
    std::vector<HostTensor> values = LazyGraphExecutor::Get()->GetTensors(tensors);
    io::NamedHostTensors named;
    for (size_t i = 0; i < names.size(); ++i) named.emplace_back(names[i], values[i]);
    return named;
  });
}

// ---- reading

int64_t Checkpoint::load(const std::string& folder, Location at) {
  LocationScope scope(at);
  int64_t steps = 0;
  std::map<std::string, StateDict> values;  // by part
  ReadTogether(folder, group_, [&] {
    const SavedParts saved(folder);
    steps = saved.steps();
    const Entries entries = Collect();
    StateShapes expected;
    for (const auto& [name, entry] : entries) {
      expected.emplace(name, WholeShape(entry.tensor, entry.shard));
    }
    std::string differences = StateDifferences(expected, saved.Shapes());
    if (!differences.empty()) {
      Throw(ErrorCode::kValue, "the checkpoint '{}' does not fit:{}", folder, differences);
    }
    for (const auto& [name, entry] : entries) {
      values[name.substr(0, name.find('.'))].emplace(
          entry.local, from_host(saved.Read(name, entry.tensor.shape(), entry.shard)));
    }
  });
  NoGradGuard no_grad;
  for (const Part& part : parts_) part.load(values[part.name]);
  return steps;
}

}  // namespace hammock::distributed
