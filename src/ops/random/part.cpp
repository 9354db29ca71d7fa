// Random words of a part of a tensor: those that the whole tensor has there.

#include "hammock/distributed/random_part.h"
#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/families.h"
#include "ops/random/draw.h"
#include "ops/random/philox.h"

namespace hammock {
namespace distributed {
namespace {

constinit thread_local const RandomPart* innermost = nullptr;

}  // namespace

const std::vector<RandomPart::Part>& RandomPart::Current() {
  static const std::vector<Part> none;
  return innermost ? innermost->parts_ : none;
}

RandomPart::RandomPart(std::vector<Part> parts) : parts_(std::move(parts)), outer_(innermost) {
  innermost = this;
}

RandomPart::RandomPart(int64_t index, int64_t parts, int64_t dim, Location at)
    : parts_(Current()), outer_(innermost) {
  LocationScope scope(at);
  if (index < 0 || index >= parts || dim < 0) {
    Throw(ErrorCode::kValue, "RandomPart: part {} of {} along dim {} does not exist", index, parts,
          dim);
  }
  if (parts > 1) parts_.push_back({index, parts, dim});
  innermost = this;
}

RandomPart::RandomPart(const Group& group, int64_t dim, Location at)
    : RandomPart(group.rank(), group.size(), dim, at) {}

RandomPart::~RandomPart() { innermost = outer_; }

}  // namespace distributed

namespace ops {
namespace {

void InferRngPart(const InferCall& call) {
  const Dims sizes = call.attrs[0].ints(), whole = call.attrs[1].ints(),
             start = call.attrs[2].ints();
  bool fits = sizes.size() == whole.size() && sizes.size() == start.size();
  for (int d = 0; fits && d < sizes.size(); ++d) {
    fits = start[d] >= 0 && sizes[d] >= 0 && start[d] <= whole[d] - sizes[d];
  }
  if (!fits) {
    Refuse(call, ErrorCode::kValue, "{} at {} is no part of {}", ToString(sizes), ToString(start),
           ToString(whole));
  }
  call.out = InferShapes(kRngBits, call.in, std::vector<Attr>{Attr(sizes)});
}

/// Words [begin, begin + count) of the stream.
Tensor Run(const Tensor& state, int64_t begin, int64_t count) {
  // (0, 1) times the blocks before it: the seed stays.
  Tensor which = Casted(Counting(2, state), DType::kU64);
  Tensor moved = add(state, mul(which, Constant(begin / 4, DType::kU64)));
  Tensor words = Apply(kRngBits, Location(), {moved}, {Dims{begin % 4 + count}});
  return Sliced(words, 0, static_cast<int>(begin % 4), count);
}

/// A part along an outer dim is a few runs of the stream, which are drawn alone. Of many runs, as
/// along the last dim of a matrix, the whole is drawn.
Tensors ExpandRngPart(const ExpandCall& c) {
  constexpr int64_t kMostRuns = 16;
  const Dims sizes = c.attrs[0].ints(), whole = c.attrs[1].ints(), start = c.attrs[2].ints();
  int inner = sizes.size();  // dims from here on are whole
  while (inner > 0 && sizes[inner - 1] == whole[inner - 1]) --inner;
  int64_t length = 1, runs = 1;
  for (int d = std::max(inner - 1, 0); d < sizes.size(); ++d) length *= sizes[d];
  for (int d = 0; d < inner - 1; ++d) runs *= sizes[d];
  if (length * runs == 0 || runs > kMostRuns) {
    Tensor words = Apply(kRngBits, Location(), {c.in[0]}, {whole});
    for (int d = 0; d < sizes.size(); ++d) words = Sliced(words, d, start[d], sizes[d]);
    return {words};
  }
  Tensors parts;
  for (int64_t run = 0; run < runs; ++run) {
    int64_t begin = 0, rest = run, stride = 1;
    for (int d = sizes.size() - 1; d >= 0; --d) {
      int64_t index = start[d];
      if (d < inner - 1) {
        index += rest % sizes[d];
        rest /= sizes[d];
      }
      begin += index * stride;
      stride *= whole[d];
    }
    parts.push_back(Run(c.in[0], begin, length));
  }
  return {Reshaped(parts.size() == 1 ? parts[0] : Concatenated(parts, 0), sizes)};
}

constinit const OpDef kRngPart = {
    .schema = "rng_part(Tensor state, int[] sizes, int[] whole, int[] start) -> Tensor",
    .doc = "The part of `rng_bits` of the sizes `whole` that begins at `start`.",
    .infer = InferRngPart,
    .expand = ExpandRngPart,
    .samples = {{"u64[2]", "{sizes=[1,2,3], whole=[1,6,3], start=[0,3,0]}"},
                {"u64[2]", "{sizes=[2,3,2], whole=[2,3,5], start=[0,0,3]}"},
                {"u64[2]", "{sizes=[5,4,1], whole=[5,4,3], start=[0,0,2]}"}},
};
constexpr const OpDef* kRecords[] = {&kRngPart};

}  // namespace

std::span<const OpDef* const> RandomPartOps() { return kRecords; }

DrawnSizes SizesToDraw(const Dims& sizes) {
  DrawnSizes drawn{sizes, Dims::Filled(sizes.size(), 0)};
  const auto& all = distributed::RandomPart::Current();
  for (auto part = all.rbegin(); part != all.rend(); ++part) {  // outer ones hold inner ones
    const auto& [index, parts, dim] = *part;
    if (dim >= sizes.size()) continue;
    const int d = static_cast<int>(dim);
    drawn.start[d] = index * drawn.whole[d] + drawn.start[d];
    drawn.whole[d] *= parts;
  }
  return drawn;
}

uint64_t DrawnSizes::blocks(int64_t rows) const {
  return philox::BlocksFor(static_cast<uint64_t>(rows * Shape(DType::kU32, whole).numel()));
}

Tensor WordsFrom(const Tensor& state, const Dims& sizes, const DrawnSizes& drawn, int64_t rows) {
  const int64_t count = Shape(DType::kU32, sizes).numel();
  if (drawn.whole == sizes) return Apply(kRngBits, Location(), {state}, {Dims{rows, count}});
  auto with_rows = [](Dims dims, int64_t first) {
    dims.insert(0, first);
    return dims;
  };
  Tensor words =
      Apply(kRngPart, Location(), {state},
            {with_rows(sizes, rows), with_rows(drawn.whole, rows), with_rows(drawn.start, 0)});
  return Reshaped(words, {rows, count});
}

}  // namespace ops
}  // namespace hammock
