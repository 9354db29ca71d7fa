// Schedules whose numbers are polynomials in dim parameters.

#include "compiler/sizes/sized_schedule.h"

#include <gtest/gtest.h>

#include "compiler/loops/by_range.h"
#include "compiler/passes/split_reductions.h"
#include "compiler/sizes/size_grid.h"
#include "ir/graph_sizes.h"

namespace hammock::compiler {
namespace {

// ---- Polynomials

/// What a grid around `base` makes of a function.
template <class Function>
SizePolynomial Fitted(const SizeGrid& grid, const Function& f) {
  std::vector<int64_t> values;
  for (const std::vector<int64_t>& point : grid.points()) values.push_back(f(point));
  return grid.Fit(values);
}

template <class Function>
void ExpectExact(const std::vector<int64_t>& base, const Function& f) {
  SizeGrid grid(base);
  SizePolynomial polynomial = Fitted(grid, f);
  for (int64_t shift : {-200, -3, 0, 1, 7, 100, 5000}) {
    std::vector<int64_t> sizes = base;
    for (size_t p = 0; p < sizes.size(); ++p) sizes[p] += shift * static_cast<int64_t>(p + 1);
    EXPECT_EQ(SizeGrid::Evaluate(polynomial, grid.BasisAt(sizes)), f(sizes)) << shift;
  }
}

TEST(SizeGrid, FindsPolynomials) {
  ExpectExact({17}, [](auto&) { return 5; });
  ExpectExact({17}, [](auto& s) { return 3 * s[0] - 8; });
  ExpectExact({2}, [](auto& s) { return s[0] * s[0] * s[0] * 64 + s[0]; });
  ExpectExact({17, 5}, [](auto& s) { return s[0] * s[1] * s[1] - 4 * s[0] + 12; });
  ExpectExact({17, 5, 9}, [](auto& s) { return s[0] * s[1] * s[2]; });
  ExpectExact({17, 5, 9, 3, 8}, [](auto& s) { return s[4] * (s[0] + s[1]) + 3 * s[2] - s[3]; });
}

TEST(SizeGrid, AConstantHasNoTerms) {
  SizeGrid grid({4, 5});
  EXPECT_FALSE(Fitted(grid, [](auto&) { return 3; }).varies());
  EXPECT_TRUE(Fitted(grid, [](auto& s) { return s[1]; }).varies());
}

TEST(SizeGrid, LooksForNoProductsInGroups) {
  SizeGrid grid({6, 0, 5, 0}, {{0}, {0, 1}, {1}, {1, 1}});
  EXPECT_EQ(grid.points().size(), 9u);
  auto f = [](auto& s) { return (2 * s[0] + s[1]) * (2 * s[2] + s[3] - 1) + s[3]; };
  SizePolynomial polynomial = Fitted(grid, f);
  for (const std::vector<int64_t>& at : {std::vector<int64_t>{90, 1, 7, 1}, {3, 1, 400, 0}}) {
    EXPECT_EQ(SizeGrid::Evaluate(polynomial, grid.BasisAt(at)), f(at));
  }
}

TEST(SizeGrid, LooksForProductsInGroupsWhereAsked) {
  SizeGrid grid({6, 0, 0}, {{0}, {0, 1}, {0, 2}}, SizeGrid::Products::kInGroups);
  auto f = [](auto& s) { return (6 * s[0] + 3 * s[1] + s[2]) * (3 * s[0] + s[1] + 4); };
  for (const std::vector<int64_t>& point : grid.points()) {
    EXPECT_TRUE(point[1] <= 1 && point[2] <= 2);
  }
  SizePolynomial polynomial = Fitted(grid, f);
  for (const std::vector<int64_t>& at : {std::vector<int64_t>{90, 1, 2}, {3, 1, 0}, {44, 0, 1}}) {
    EXPECT_EQ(SizeGrid::Evaluate(polynomial, grid.BasisAt(at)), f(at));
  }
}

// ---- Derived sizes

/// A free size, a quotient, one of that, a multiple of a free size and a product.
const DerivedSizes kLevels = {{}, {1, {0}, 1, 2},   {1, {1}, -3, 4}, {6, {4}, 0, 1},
                              {}, {1, {2, 4}, 0, 1}};

TEST(DerivedSizes, FollowFromTheFreeOnes) {
  const std::vector<int64_t> free = {101, 5};
  std::vector<int64_t> all = AllSizes(kLevels, free);
  EXPECT_EQ(all, (std::vector<int64_t>{101, 51, 12, 30, 5, 60}));
  EXPECT_EQ(FreeSizes(kLevels, all), free);
  for (size_t p : {1, 2, 3, 5}) {
    std::vector<int64_t> other = all;
    ++other[p];
    EXPECT_EQ(FreeSizes(kLevels, other), std::nullopt) << p;
  }
  EXPECT_THROW(AllSizes(kLevels, std::vector<int64_t>{101, int64_t{1} << 62}), ValueError);
}

TEST(SizeCoordinates, AreLinearInAllSizes) {
  const SizeCoordinates coordinates(kLevels, 2);
  ASSERT_EQ(coordinates.coordinates().size(), 4u);
  for (int64_t size = 3; size < 60; ++size) {
    const std::vector<int64_t> free = {size, 2 * size};
    std::vector<int64_t> at = coordinates.Of(free), all = AllSizes(kLevels, free);
    EXPECT_EQ(coordinates.FreeAt(at), free);
    EXPECT_EQ(at[0], all[2]);
    EXPECT_EQ(4 * at[0] + at[2] + 3, all[1]);
    EXPECT_EQ(at[3], free[1]);
    for (size_t i = 0; i < at.size(); ++i) {
      int64_t most = coordinates.coordinates()[i].most;
      EXPECT_TRUE(most == 0 || (at[i] >= 0 && at[i] <= most));
    }
  }
}

// ---- Schedules

SizedPlanner PlannerOf(const Graph& general) {
  return {[&general](const std::vector<int64_t>& sizes) {
            return SplitReductions(AtSizes(general, sizes));
          },
          [](const Graph& graph) { return MakeSchedule(graph, /*aligned_outputs=*/false); }};
}

/// Compares the sized schedule of a text with schedules made at each of the sizes.
void ExpectSameAsMade(const std::string& text, const std::vector<std::vector<int64_t>>& all) {
  const Graph general = ParseGraph(text);
  std::vector<int64_t> values;
  for (const DimParam& param : general.dim_params) values.push_back(param.value);
  const SizedPlanner planner = PlannerOf(general);
  SizedSchedule::Ptr made = SizedSchedule::Make(planner, values);
  ASSERT_TRUE(made);
  for (const std::vector<int64_t>& sizes : all) {
    ASSERT_TRUE(made->Covers(sizes));
    const Graph graph = planner.graph(sizes);
    ScheduledGraph at = made->At(made->BasisAt(sizes));
    EXPECT_EQ(at.graph, graph);
    EXPECT_EQ(ToText(at.schedule, at.graph), ToText(planner.schedule(graph), graph));
    EXPECT_EQ(made->BytesAt(made->BasisAt(sizes)), BytesOf(at.schedule));
  }
}

TEST(SizedSchedule, HasTheNumbersOfASchedule) {
  ExpectSameAsMade(
      "graph(n=20)\n"
      "%0 = input : f32[n,64]\n"
      "%1 = input : f32[64]\n"
      "%2 = broadcast %1 {sizes=[n,64]} : f32[n,64]\n"
      "%3 = mul %0, %2 : f32[n,64]\n"
      "%4 = reduce_sum %3 {dims=[1], keepdim=false} : f32[n]\n"
      "%5 = exp %4 : f32[n]\n"
      "return %5\n",
      {{20}, {21}, {37}, {100}, {311}});
}

TEST(SizedSchedule, DistinctSizesAreEqualOnlyWhereSizesAlwaysAre) {
  const Graph general = ParseGraph(
      "graph(n=20, m=30)\n"
      "%0 = input : f32[n,30]\n"
      "%1 = input : f32[20,m]\n"
      "%2 = input : f32[20,30]\n"
      "%3 = exp %0 : f32[n,30]\n"
      "return %1, %2, %3\n");
  SizedSchedule::Ptr made = SizedSchedule::Make(PlannerOf(general), {20, 30});
  ASSERT_TRUE(made);
  const Schedule schedule = made->AtDistinctSizes();
  auto bytes = [&](int value) { return schedule.buffers[BufferId(value)].bytes(); };
  EXPECT_EQ(bytes(0), bytes(3));
  EXPECT_NE(bytes(0), bytes(1));
  EXPECT_NE(bytes(0), bytes(2));
  EXPECT_NE(bytes(1), bytes(2));
}

TEST(SizedSchedule, MultipliesParameters) {
  ExpectSameAsMade(
      "graph(n=20, m=33)\n"
      "%0 = input : f32[n,m,8]\n"
      "%1 = permute %0 {dims=[1,0,2]} : f32[m,n,8]\n"
      "%2 = exp %1 : f32[m,n,8]\n"
      "return %2\n",
      {{20, 33}, {21, 40}, {150, 90}});
}

TEST(SizedSchedule, ConstantsFollowSizes) {
  ExpectSameAsMade(
      "graph(n=20)\n"
      "%0 = input : f32[n]\n"
      "%1 = constant {value=n, dtype=f32} : f32[]\n"
      "%2 = broadcast %1 {sizes=[n]} : f32[n]\n"
      "%3 = div %0, %2 : f32[n]\n"
      "return %3\n",
      {{20}, {21}, {300}});
}

TEST(SizedSchedule, InversesFollowSizes) {
  ExpectSameAsMade(
      "graph(n=20)\n"
      "%0 = input : f32[n]\n"
      "%1 = constant {value=inverse(3*n):f32, dtype=f32} : f32[]\n"
      "%2 = broadcast %1 {sizes=[n]} : f32[n]\n"
      "%3 = mul %0, %2 : f32[n]\n"
      "return %3\n",
      {{20}, {21}, {300}});
}

/// The same with parameters that follow from others.
void ExpectSameAsMade(const std::string& text, const DerivedSizes& derived,
                      const std::vector<std::vector<int64_t>>& all) {
  const Graph general = ParseGraph(text);
  const SizedPlanner planner{
      [&](const std::vector<int64_t>& free) { return AtSizes(general, AllSizes(derived, free)); },
      [](const Graph& at) { return MakeSchedule(at, /*aligned_outputs=*/false); }, derived};
  SizedSchedule::Ptr made = SizedSchedule::Make(planner, all[0]);
  ASSERT_TRUE(made);
  for (const std::vector<int64_t>& sizes : all) {
    ASSERT_TRUE(made->Covers(sizes));
    const Graph at = planner.graph(sizes);
    ScheduledGraph found = made->At(made->BasisAt(sizes));
    EXPECT_EQ(found.graph, at);
    EXPECT_EQ(ToText(found.schedule, found.graph), ToText(planner.schedule(at), at));
  }
}

TEST(SizedSchedule, SizesMayBeQuotients) {
  ExpectSameAsMade(
      "graph(n=41, m=21, k=50)\n"
      "%0 = input : f32[n,k]\n"
      "%1 = slice %0 {dim=0, start=0, size=m, step=2} : f32[m,k]\n"
      "%2 = exp %1 : f32[m,k]\n"
      "%3 = reduce_sum %2 {dims=[1], keepdim=false} : f32[m]\n"
      "return %2, %3\n",
      {{}, {1, {0}, 1, 2}, {}}, {{41, 50}, {42, 51}, {99, 70}});
}

/// Both sides of a square come from one size.
TEST(SizedSchedule, QuotientsMayBeMultiplied) {
  ExpectSameAsMade(
      "graph(n=41, m=20)\n"
      "%0 = input : f32[4,n,n]\n"
      "%1 = reduce_window %0 {kind=\"max\", window=[2,2], stride=[2,2], low=[0,0], high=[0,0], "
      "dilation=[1,1]} : f32[4,m,m]\n"
      "%2 = exp %1 : f32[4,m,m]\n"
      "return %2\n",
      {{}, {1, {0}, 0, 2}}, {{41}, {42}, {99}});
}

TEST(SizedSchedule, EndsWherePassesDecideOtherwise) {
  // Sums of more than 65,536 are made in parts.
  const Graph general = ParseGraph(
      "graph(n=40000)\n"
      "%0 = input : f32[n]\n"
      "%1 = reduce_sum %0 {dims=[0], keepdim=false} : f32[]\n"
      "return %1\n");
  SizedSchedule::Ptr made = SizedSchedule::Make(PlannerOf(general), {40000});
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->Covers({40000}));
  EXPECT_TRUE(made->Covers({65520}));
  EXPECT_FALSE(made->Covers({65537}));
  // Close to the bound the samples lie on the same side of it.
  for (int64_t near : {65530, 65536}) {
    made = SizedSchedule::Make(PlannerOf(general), {near});
    ASSERT_TRUE(made) << near;
    EXPECT_TRUE(made->Covers({65536})) << near;
    EXPECT_FALSE(made->Covers({65537})) << near;
  }
}

// ---- What is made for ranges

struct MadeAt {
  int64_t size;
  bool Covers(const std::vector<int64_t>& sizes) const { return sizes[0] == size; }
  int64_t bytes() const { return 8; }
};

TEST(ByRange, TriesAgainFarFromFailures) {
  ByRange<MadeAt> made;
  int tries = 0;
  auto find = [&](int64_t size, bool possible) {
    return made.Find({size}, [&]() -> std::shared_ptr<const MadeAt> {
      ++tries;
      return possible ? std::make_shared<const MadeAt>(MadeAt{size}) : nullptr;
    });
  };
  EXPECT_EQ(find(500, false), nullptr);
  EXPECT_EQ(find(501, true), nullptr);
  EXPECT_EQ(tries, 1) << "not near a failure";
  ASSERT_TRUE(find(700, true));
  EXPECT_EQ(find(700, true)->size, 700);
  EXPECT_EQ(tries, 2);
  for (int64_t size = 1000; size < int64_t{1} << 40; size *= 2) find(size, false);
  EXPECT_EQ(tries, 7) << "not for ever";
}

}  // namespace
}  // namespace hammock::compiler
