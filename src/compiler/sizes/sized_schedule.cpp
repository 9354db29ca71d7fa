#include "compiler/sizes/sized_schedule.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/facts/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "hammock/host_tensor.h"
#include "ir/graph_access.h"

namespace hammock::compiler {
namespace {

constexpr int64_t kWidth = 16;  // much larger sizes are better off with a schedule of their own

Scalar NumberIn(int64_t bits, DType dtype) {
  HostTensor tensor(Shape(dtype, {}));
  std::memcpy(tensor.mutable_data(), &bits, static_cast<size_t>(tensor.bytes()));
  return tensor.at(0);
}

/// The size that a constant may stand for, if it is an integer or the inverse of one.
std::optional<int64_t> SizeIn(int64_t bits, DType dtype) {
  if (dtype == DType::kBool) return std::nullopt;
  Scalar number = NumberIn(bits, dtype);
  if (!(std::abs(number.ToDouble()) < 0x1p53)) return std::nullopt;
  std::optional<int64_t> size = SizeInAttr(Attr(number), 0);
  if (!size) return std::nullopt;
  if (static_cast<int64_t>(BitsOf(NumberOfSize(*size, number), dtype)) != bits) return std::nullopt;
  return size;
}

/// Calls `visit(number, dtype)` for the numbers of a launch; the dtype is that of a constant, whose
/// bits the number is, or null.
template <class AnyLaunch, class Visit>
void ForEachNumber(AnyLaunch& launch, const Visit& visit) {
  for (auto& extent : launch.outer) visit(extent, nullptr);
  visit(launch.rows, nullptr);
  visit(launch.columns, nullptr);
  for (size_t i = 0; i < launch.maps.size(); ++i) {
    auto& map = launch.maps[i];
    const Access& access = launch.kernel->accesses[i];
    visit(map.offset, access.kind == Access::Kind::kConstant ? &access.dtype : nullptr);
    for (auto& stride : map.outer) visit(stride, nullptr);
    visit(map.row, nullptr);
    visit(map.column, nullptr);
  }
}

template <class Ids>
void AddList(std::vector<int64_t>& words, const Ids& ids) {
  words.push_back(static_cast<int64_t>(ids.size()));
  for (auto id : ids) words.push_back(id.number());
}

/// The parts in which schedules must agree, besides the kernels.
std::vector<int64_t> WordsOf(const Schedule& schedule) {
  std::vector<int64_t> words;
  AddList(words, schedule.first);
  AddList(words, schedule.inputs);
  AddList(words, schedule.outputs);
  AddList(words, schedule.buffer_of);
  for (const Command& command : schedule.commands) {
    words.insert(words.end(), {command.node.number(), command.row_loops, command.updates.number()});
    AddList(words, command.nodes);
    AddList(words, command.reads);
    AddList(words, command.writes);
    words.push_back(static_cast<int64_t>(command.launch.outer.size()));
    for (const AccessMap& map : command.launch.maps) words.push_back(map.buffer.number());
    if (!command.launch.kernel) continue;
    ForEachNumber(command.launch, [&](int64_t number, const DType* constant) {
      if (!constant) return;
      std::optional<int64_t> size = SizeIn(number, *constant);
      words.push_back(size ? 1 + IsInverse(NumberIn(number, *constant)) : 0);
      if (!size) words.push_back(number);
    });
  }
  return words;
}

bool SameKernels(const Schedule& a, const Schedule& b) {
  return std::ranges::equal(a.commands, b.commands, [](const Command& x, const Command& y) {
    const Kernel *left = x.launch.kernel.get(), *right = y.launch.kernel.get();
    return left == right || (left && right && *left == *right);
  });
}

/// The numbers of a launch that may vary.
std::vector<int64_t> NumbersOf(const Launch& launch) {
  std::vector<int64_t> numbers;
  if (!launch.kernel) return numbers;
  ForEachNumber(launch, [&](int64_t number, const DType* constant) {
    numbers.push_back(constant ? SizeIn(number, *constant).value_or(0) : number);
  });
  return numbers;
}

std::vector<int64_t> Shifted(const std::vector<int64_t>& sizes, int64_t factor, int64_t offset) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    // Not the same for all, so that no two become equal.
    result.push_back(sizes[i] * factor + offset * static_cast<int64_t>(i + 1));
  }
  return result;
}

}  // namespace

struct SizedSchedule::Sample {
  Sample(const ScheduledGraph& at)
      : graph(SkeletonOf(at.graph)), words(WordsOf(at.schedule)), schedule(&at.schedule) {
    for (const BufferType& type : at.schedule.buffers) bytes.push_back(type.bytes());
    for (const Command& command : at.schedule.commands)
      launches.push_back(NumbersOf(command.launch));
  }
  bool SameStructure(const Sample& other) const {
    return graph.words == other.graph.words && words == other.words &&
           SameKernels(*schedule, *other.schedule);
  }

  Skeleton graph;
  std::vector<int64_t> words;
  const Schedule* schedule;
  std::vector<int64_t> bytes;
  std::vector<std::vector<int64_t>> launches;
};

SizedSchedule::Ptr SizedSchedule::Make(const SizedPlanner& planner,
                                       const std::vector<int64_t>& sizes) {
  constexpr size_t kMostParameters = 6;
  if (sizes.empty() || sizes.size() > kMostParameters) return nullptr;
  const SizeCoordinates coordinates(planner.derived, sizes.size());
  // Around sizes that happen to equal others the scheduler may decide otherwise, and so it may
  // behind a bound that lies between these sizes and the samples, above or below.
  constexpr std::pair<int64_t, int64_t> kBases[] = {{1, 0}, {1, -23}, {1, 5}, {1, 17}, {2, 9}};
  using Products = SizeGrid::Products;
  for (Products products : {Products::kOfGroups, Products::kInGroups}) {
    for (auto [factor, offset] : kBases) {
      std::vector<int64_t> base = Shifted(sizes, factor, offset);
      if (offset < 0 && *std::ranges::min_element(base) < 2) continue;
      if (Ptr made = MakeAround(planner, coordinates, products, base, sizes)) return made;
    }
    if (coordinates.coordinates().size() == sizes.size()) break;  // groups of one
  }
  return nullptr;
}

SizedSchedule::Ptr SizedSchedule::MakeAround(const SizedPlanner& planner,
                                             const SizeCoordinates& coordinates,
                                             SizeGrid::Products products,
                                             const std::vector<int64_t>& base,
                                             const std::vector<int64_t>& sizes) {
  constexpr size_t kMostPoints = 64;
  std::vector<int64_t> first = coordinates.Of(base);
  std::vector<SizeGrid::Axis> axes;
  for (const SizeCoordinates::Coordinate& coordinate : coordinates.coordinates()) {
    if (coordinate.most > 0) first[axes.size()] = 0;
    axes.push_back({coordinate.free, coordinate.most});
  }
  std::vector<int64_t> check = Shifted(first, 1, 7);
  for (size_t i = 0; i < check.size(); ++i) {
    if (int64_t most = coordinates.coordinates()[i].most; most > 0) check[i] = most;
  }
  SizeGrid grid(first, axes, products);
  std::vector<std::vector<int64_t>> points = grid.points();
  points.push_back(check);  // one more, which the polynomials must give too
  if (points.size() > kMostPoints) return nullptr;
  std::vector<ScheduledGraph> scheduled;
  std::vector<Sample> samples;
  scheduled.reserve(points.size());
  for (const std::vector<int64_t>& point : points) {
    try {
      Graph graph = planner.graph(coordinates.FreeAt(point));
      Schedule schedule = planner.schedule(graph);
      scheduled.push_back({std::move(graph), std::move(schedule)});
    } catch (const Error&) {  // not every size is possible
      return nullptr;
    }
    samples.emplace_back(scheduled.back());
    if (!samples.back().SameStructure(samples[0])) return nullptr;
  }
  std::shared_ptr<SizedSchedule> sized(
      new SizedSchedule(coordinates, std::move(grid), scheduled[0]));
  if (!sized->Fit(samples, check)) return nullptr;
  auto gives = [&](const std::vector<int64_t>& at) {
    return sized->Gives(planner, samples[0].graph, at);
  };
  if (!gives(sizes)) return nullptr;
  sized->FindVaryingCommands();
  sized->range_ = Widened({sizes, sizes}, kWidth, gives);
  return sized;
}

bool SizedSchedule::Fit(const std::vector<Sample>& samples, const std::vector<int64_t>& at) {
  const Basis check = grid_.BasisAt(at);
  bool fits = true;
  std::vector<int64_t> values(samples.size());
  // Adds what varies of one list of numbers.
  auto fit = [&](auto list_of, const auto& add) {
    const size_t count = list_of(samples[0]).size();
    for (size_t i = 0; i < count; ++i) {
      for (size_t s = 0; s < samples.size(); ++s) values[s] = list_of(samples[s])[i];
      SizePolynomial polynomial = grid_.Fit(std::span(values).first(samples.size() - 1));
      fits &= SizeGrid::Evaluate(polynomial, check) == values.back();
      if (polynomial.varies()) add(static_cast<int>(i), std::move(polynomial));
    }
  };
  const std::vector<SizeSlot> slots = SizeSlotsOf(base_.graph);
  fit(
      [](const Sample& sample) -> auto& { return sample.graph.sizes; },
      [&](int i, SizePolynomial polynomial) {
        slots_.push_back(slots[i]);
        sizes_.push_back(std::move(polynomial));
        graph_indices_.push_back(i);
      });
  fit(
      [](const Sample& sample) -> auto& { return sample.bytes; },
      [&](int i, SizePolynomial p) { buffer_bytes_.emplace_back(i, std::move(p)); });
  launches_.resize(samples[0].launches.size());
  for (size_t command = 0; command < launches_.size(); ++command) {
    fit(
        [command](const Sample& sample) -> auto& { return sample.launches[command]; },
        [&](int i, SizePolynomial p) { launches_[command].emplace_back(i, std::move(p)); });
  }
  return fits;
}

bool SizedSchedule::Gives(const SizedPlanner& planner, const Skeleton& base,
                          const std::vector<int64_t>& sizes) const {
  try {
    Skeleton skeleton = SkeletonOf(planner.graph(sizes));
    if (skeleton.words != base.words) return false;
    std::vector<int64_t> expected = base.sizes;
    const Basis basis = BasisAt(sizes);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      expected[graph_indices_[i]] = SizeGrid::Evaluate(sizes_[i], basis);
    }
    return skeleton.sizes == expected;
  } catch (const Error&) {
    return false;
  }
}

bool SizedSchedule::NodeVaries(NodeId node) const {
  auto at = std::ranges::lower_bound(slots_, node, {}, &SizeSlot::node);
  return at != slots_.end() && at->node == node;
}

void SizedSchedule::FindVaryingCommands() {
  for (size_t i = 0; i < launches_.size(); ++i) {
    const Command& command = base_.schedule.commands[i];
    bool varies = !launches_[i].empty();
    if (command.is_call()) {
      varies |= NodeVaries(command.node);
      for (GraphValue input : base_.graph[command.node].inputs) {
        varies |= input.node && NodeVaries(input.node);
      }
    }
    varies_.push_back(varies);
  }
}

BufferMap<int64_t> SizedSchedule::BytesAt(const Basis& basis) const {
  BufferMap<int64_t> bytes = BytesOf(base_.schedule);
  for (const auto& [buffer, polynomial] : buffer_bytes_) {
    bytes[BufferId(buffer)] = SizeGrid::Evaluate(polynomial, basis);
  }
  return bytes;
}

Launch SizedSchedule::LaunchAt(size_t command, const Basis& basis) const {
  Launch launch = base_.schedule.commands[command].launch;
  auto next = launches_[command].begin();
  int index = 0;
  if (!launch.kernel) return launch;
  ForEachNumber(launch, [&](int64_t& number, const DType* constant) {
    if (next == launches_[command].end() || next->first != index++) return;
    int64_t value = SizeGrid::Evaluate((next++)->second, basis);
    if (constant) {
      value =
          static_cast<int64_t>(BitsOf(NumberOfSize(value, NumberIn(number, *constant)), *constant));
    }
    number = value;
  });
  return launch;
}

GraphNode SizedSchedule::NodeAt(NodeId id, const Basis& basis) const {
  GraphNode node = base_.graph[id];
  auto first = std::ranges::lower_bound(slots_, id, {}, &SizeSlot::node), last = first;
  std::vector<int64_t> sizes;
  for (; last != slots_.end() && last->node == id; ++last) {
    sizes.push_back(SizeGrid::Evaluate(sizes_[last - slots_.begin()], basis));
  }
  SetSizes(node, std::span(first, last), sizes);
  return node;
}

Graph SizedSchedule::CallAt(size_t command, const Basis& basis) const {
  return Alone(NodeAt(base_.schedule.commands[command].node, basis), [&](GraphValue operand) {
    return NodeVaries(operand.node) ? NodeAt(operand.node, basis).types[operand.index]
                                    : base_.graph.TypeOf(operand);
  });
}

ScheduledGraph SizedSchedule::At(const Basis& basis) const {
  ScheduledGraph at = base_;
  at.schedule.buffers.clear();
  for (NodeId id : at.graph.ids()) {
    if (NodeVaries(id)) at.graph.mutable_node(id) = NodeAt(id, basis);
    for (const Shape& type : at.graph[id].types) at.schedule.buffers.push_back(type);
  }
  for (size_t i = 0; i < at.schedule.commands.size(); ++i) {
    at.schedule.commands[i].launch = LaunchAt(i, basis);
  }
  return at;
}

Schedule SizedSchedule::AtDistinctSizes() const {
  Basis basis;
  uint64_t state = 1;
  for (size_t i = 0; i < grid_.points().size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    basis.push_back(static_cast<__int128>(state >> 28 | 1));
  }
  Schedule at = base_.schedule;
  for (const auto& [buffer, polynomial] : buffer_bytes_) {
    BufferType& type = at.buffers[BufferId(buffer)];
    int64_t bytes = SizeGrid::Evaluate(polynomial, basis);
    type = BufferType(type.dtype(), bytes * 8 / InfoOf(type.dtype()).bits);
  }
  for (size_t i = 0; i < at.commands.size(); ++i) at.commands[i].launch = LaunchAt(i, basis);
  return at;
}

int64_t SizedSchedule::bytes() const {
  size_t numbers = sizes_.size() + buffer_bytes_.size();
  for (const Varying& launch : launches_) numbers += launch.size();
  return static_cast<int64_t>(numbers * (sizeof(SizePolynomial) + 4 * sizeof(int64_t)) +
                              base_.graph.nodes().size() * sizeof(GraphNode) +
                              base_.schedule.commands.size() * sizeof(Command) +
                              base_.schedule.buffers.size() * sizeof(BufferType));
}

}  // namespace hammock::compiler
