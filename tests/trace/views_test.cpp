// Views alias, before and after a step; strides, contiguity and errors are PyTorch's. Values were
// taken from PyTorch where they are not obvious.

#include <gtest/gtest.h>

#include "hammock/config.h"
#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Views : public Runtime {};

Tensor Counting(const Dims& sizes) {
  int64_t numel = Shape(f32, sizes).numel();
  return arange(numel, f32, "reference").view(sizes).clone();
}

// ---- Every view op

struct ViewCase {
  const char* name;
  Dims sizes;
  std::function<Tensor(const Tensor&)> view;
  Dims view_sizes, view_strides;
  int64_t offset;
  bool contiguous;
};
void PrintTo(const ViewCase& view, std::ostream* out) { *out << view.name; }

std::vector<ViewCase> Cases() {
  using T = const Tensor&;
  return {
      {"view",
       {2, 6},
       [](T x) {
         return x.view({3, 4});
       },
       {3, 4},
       {4, 1},
       0,
       true},
      {"view_minus_one",
       {2, 6},
       [](T x) {
         return x.view({-1, 2});
       },
       {6, 2},
       {2, 1},
       0,
       true},
      {"reshape", {2, 6}, [](T x) { return x.reshape({12}); }, {12}, {1}, 0, true},
      {"flatten", {2, 3, 4}, [](T x) { return x.flatten(1); }, {2, 12}, {12, 1}, 0, true},
      {"ravel", {2, 3}, [](T x) { return ravel(x); }, {6}, {1}, 0, true},
      {"unflatten",
       {6},
       [](T x) {
         return unflatten(x, 0, {2, 3});
       },
       {2, 3},
       {3, 1},
       0,
       true},
      {"permute",
       {2, 3, 4},
       [](T x) {
         return x.permute({2, 0, 1});
       },
       {4, 2, 3},
       {1, 12, 4},
       0,
       false},
      {"transpose", {2, 3}, [](T x) { return x.transpose(0, 1); }, {3, 2}, {1, 3}, 0, false},
      {"swapaxes", {2, 3}, [](T x) { return swapaxes(x, 0, -1); }, {3, 2}, {1, 3}, 0, false},
      {"t", {2, 3}, [](T x) { return x.t(); }, {3, 2}, {1, 3}, 0, false},
      {"movedim",
       {2, 3, 4},
       [](T x) { return movedim(x, {0}, {2}); },
       {3, 4, 2},
       {4, 1, 12},
       0,
       false},
      {"squeeze", {2, 1, 3}, [](T x) { return x.squeeze(1); }, {2, 3}, {3, 1}, 0, true},
      {"squeeze_all", {1, 2, 1}, [](T x) { return x.squeeze(); }, {2}, {1}, 0, true},
      {"unsqueeze", {2, 3}, [](T x) { return x.unsqueeze(1); }, {2, 1, 3}, {3, 3, 1}, 0, true},
      {"unsqueeze_last",
       {2, 3},
       [](T x) { return x.unsqueeze(-1); },
       {2, 3, 1},
       {3, 1, 1},
       0,
       true},
      {"slice", {6}, [](T x) { return x.slice(0, 1, 5); }, {4}, {1}, 1, true},
      {"slice_step", {8}, [](T x) { return x.slice(0, 1, 8, 3); }, {3}, {3}, 1, false},
      {"slice_inner", {3, 4}, [](T x) { return x.slice(1, 1, 3); }, {3, 2}, {4, 1}, 1, false},
      {"slice_negative", {6}, [](T x) { return x.slice(0, -3, -1); }, {2}, {1}, 3, true},
      {"narrow", {4, 3}, [](T x) { return x.narrow(0, 1, 2); }, {2, 3}, {3, 1}, 3, true},
      {"select", {3, 4}, [](T x) { return x.select(1, 2); }, {3}, {4}, 2, false},
      {"select_negative", {3, 4}, [](T x) { return x.select(0, -1); }, {4}, {1}, 8, true},
      {"index", {3, 4}, [](T x) { return x[1]; }, {4}, {1}, 4, true},
      {"index_slice",
       {3, 4},
       [](T x) {
         return x.index({Slice(0, 2), 3});
       },
       {2},
       {4},
       3,
       false},
      {"index_none",
       {3},
       [](T x) {
         return x.index({None, Ellipsis});
       },
       {1, 3},
       {3, 1},
       0,
       true},
      {"diagonal", {3, 4}, [](T x) { return x.diagonal(); }, {3}, {5}, 0, false},
      {"diagonal_up", {3, 4}, [](T x) { return x.diagonal(1); }, {3}, {5}, 1, false},
      {"diagonal_down", {3, 4}, [](T x) { return x.diagonal(-1); }, {2}, {5}, 4, false},
      {"as_strided",
       {12},
       [](T x) {
         return as_strided(x, {2, 3}, {5, 2}, 1);
       },
       {2, 3},
       {5, 2},
       1,
       false},
      {"detach", {2, 3}, [](T x) { return detach(x); }, {2, 3}, {3, 1}, 0, true},
      {"alias", {2, 3}, [](T x) { return alias(x); }, {2, 3}, {3, 1}, 0, true},
      {"split", {6}, [](T x) { return split(x, 2)[1]; }, {2}, {1}, 2, true},
      {"split_with_sizes",
       {6},
       [](T x) {
         return split_with_sizes(x, {1, 5})[1];
       },
       {5},
       {1},
       1,
       true},
      {"chunk", {6}, [](T x) { return chunk(x, 3)[2]; }, {2}, {1}, 4, true},
      {"unbind", {2, 3}, [](T x) { return unbind(x, 1)[2]; }, {2}, {3}, 2, false},
      {"view_dtype", {4}, [](T x) { return view_dtype(x, i32); }, {4}, {1}, 0, true},
      {"nested",
       {4, 6},
       [](T x) { return x.slice(0, 1, 4).t().slice(0, 2, 6, 2).select(1, 1); },
       {2},
       {2},
       14,
       false},
  };
}

class EveryView : public Runtime, public ::testing::WithParamInterface<ViewCase> {};

TEST_P(EveryView, HasPyTorchsGeometry) {
  const ViewCase& c = GetParam();
  Tensor base = Counting(c.sizes);
  Tensor view = c.view(base);
  EXPECT_EQ(view.sizes(), c.view_sizes);
  EXPECT_EQ(view.strides(), c.view_strides);
  EXPECT_EQ(view.storage_offset(), c.offset);
  EXPECT_EQ(view.is_contiguous(), c.contiguous);
  EXPECT_TRUE(view.is_alias_of(base));
  EXPECT_TRUE(base.is_alias_of(view));
  EXPECT_FALSE(view.is_alias_of(base.clone()));
  if (view.dtype() != f32) return;
  // The values are those that the geometry names.
  HostTensor values = view.host();
  for (int64_t flat = 0; flat < values.numel(); ++flat) {
    int64_t rest = flat, at = c.offset;
    for (int d = c.view_sizes.size() - 1; d >= 0; --d) {
      at += rest % c.view_sizes[d] * c.view_strides[d];
      rest /= c.view_sizes[d];
    }
    EXPECT_EQ(values.at(flat).ToDouble(), static_cast<double>(at)) << flat;
  }
}

TEST_P(EveryView, SeesWritesToTheBase) {
  for (int steps = 0; steps < 4; ++steps) {
    const ViewCase& c = GetParam();
    Tensor base = Counting(c.sizes);
    Tensor view = c.view(base);
    if (steps & 1) mark_step();
    base.add_(100.0f);
    if (steps & 2) mark_step();
    EXPECT_TENSOR_EQ(view.host(), c.view(base.clone()).host());
  }
}

TEST_P(EveryView, WritesToTheBase) {
  for (int steps = 0; steps < 8; ++steps) {
    const ViewCase& c = GetParam();
    Tensor base = Counting(c.sizes);
    Tensor view = c.view(base);
    std::vector<float> expected = base.to_vector<float>();
    for (int64_t flat = 0; flat < view.numel(); ++flat) {
      int64_t rest = flat, at = c.offset;
      for (int d = c.view_sizes.size() - 1; d >= 0; --d) {
        at += rest % c.view_sizes[d] * c.view_strides[d];
        rest /= c.view_sizes[d];
      }
      expected[at] = 7;
    }
    if (steps & 1) mark_step();
    if (view.dtype() == f32) {
      view.fill_(7.0f);
    } else {
      view.fill_(0x40e00000);  // 7.0f
    }
    if (steps & 2) mark_step();
    if (steps & 4) view = Tensor();
    EXPECT_TENSOR_EQ(base, expected, c.sizes);
  }
}

TEST_P(EveryView, OutlivesTheBasesHandle) {
  const ViewCase& c = GetParam();
  Tensor view = c.view(Counting(c.sizes));
  Tensor expected = c.view(Counting(c.sizes)).clone();
  if (view.dtype() == f32) {
    view.add_(1.0f);
    expected = expected + 1.0f;
  }
  mark_step();
  EXPECT_TENSOR_EQ(view.host(), expected.host());
}

INSTANTIATE_TEST_SUITE_P(Views, EveryView, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Writes

TEST_F(Views, OfViewsOfSlicesReachTheBase) {
  Tensor base = Counting({4, 6});
  Tensor a = base.slice(0, 1, 4);          // rows 1..3
  Tensor b = a.t().slice(0, 2, 6, 2);      // columns 2 and 4
  Tensor c = b.select(1, 1).unsqueeze(0);  // of row 2
  c.mul_(-1.0f);
  EXPECT_TENSOR_EQ(base[2], {12, 13, -14, 15, -16, 17}, {6});
  EXPECT_TENSOR_EQ(b, {8, -14, 20, 10, -16, 22}, {2, 3});
  mark_step();
  a.add_(100.0f);
  EXPECT_TENSOR_EQ(c, {86, 84}, {1, 2});
  EXPECT_TENSOR_EQ(base[0], {0, 1, 2, 3, 4, 5}, {6});
}

TEST_F(Views, SiblingsSeeEachOther) {
  Tensor x = Counting({6});
  Tensor left = x.slice(0, 0, 4), right = x.slice(0, 2, 6);
  left.fill_(9.0f);
  EXPECT_TENSOR_EQ(right, {9, 9, 4, 5}, {4});
  right.copy_(left);
  EXPECT_TENSOR_EQ(x, {9, 9, 9, 9, 9, 9}, {6});
  EXPECT_TRUE(left.is_alias_of(right));
}

TEST_F(Views, CopyBroadcastsAndCasts) {
  Tensor x = zeros({2, 3}, f32, "reference");
  x.select(0, 1).copy_(tensor({1, 2, 3}, i32, "reference"));
  EXPECT_TENSOR_EQ(x, {0, 0, 0, 1, 2, 3}, {2, 3});
  x.copy_(tensor(5, i64, "reference"));
  EXPECT_TENSOR_EQ(x, {5, 5, 5, 5, 5, 5}, {2, 3});
  x.t().copy_(tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}, std::nullopt, "reference"));
  EXPECT_TENSOR_EQ(x, {1, 3, 5, 2, 4, 6}, {2, 3});
  EXPECT_EQ(x.dtype(), f32);
  Tensor counts = zeros({2}, i64, "reference");
  counts.copy_(tensor({1.7, -2.7}, f32, "reference"));
  EXPECT_TENSOR_EQ(counts, {1, -2}, {2});
  EXPECT_CODE(x.copy_(zeros({4}, f32, "reference")), ErrorCode::kShapeMismatch);
  EXPECT_CODE(x.copy_(zeros({2, 2, 3}, f32, "reference")), ErrorCode::kShapeMismatch);
}

TEST_F(Views, CopyOfItselfIsHarmless) {
  Tensor x = Counting({4});
  x.copy_(x);
  x.slice(0, 0, 2).copy_(x.slice(0, 2, 4));
  EXPECT_TENSOR_EQ(x, {2, 3, 2, 3}, {4});
  Tensor m = Counting({2, 2});
  m.copy_(m.t());
  EXPECT_TENSOR_EQ(m, {0, 2, 1, 3}, {2, 2});
}

TEST_F(Views, OverlappingWritesAreRefused) {
  Tensor x = Counting({1, 3});
  EXPECT_CODE(x.expand({4, 3}).add_(1.0f), ErrorCode::kValue, "clone");
  EXPECT_CODE(x.expand({4, 3}).fill_(1.0f), ErrorCode::kValue);
  EXPECT_CODE(x.expand({4, 3}).copy_(x), ErrorCode::kValue);
  Tensor y = Counting({4});
  EXPECT_CODE(as_strided(y, {3, 2}, {1, 1}, 0).zero_(), ErrorCode::kValue);
  EXPECT_CODE(unfold_dim(y, 0, 2, 1).add_(1.0f), ErrorCode::kValue);
  EXPECT_TENSOR_EQ(unfold_dim(y, 0, 2, 2).add_(1.0f), {1, 2, 3, 4}, {2, 2});
  EXPECT_TENSOR_EQ(y, {1, 2, 3, 4}, {4});
  EXPECT_TENSOR_EQ(x, {0, 1, 2}, {1, 3});
}

TEST_F(Views, ExpandAliases) {
  Tensor x = Counting({1, 3});
  Tensor wide = x.expand({2, 3});
  EXPECT_EQ(wide.strides(), Dims({0, 1}));
  EXPECT_FALSE(wide.is_contiguous());
  x.add_(1.0f);
  EXPECT_TENSOR_EQ(wide, {1, 2, 3, 1, 2, 3}, {2, 3});
  Tensor same = x.expand({1, 3});
  same.add_(1.0f);  // nothing overlaps
  EXPECT_TENSOR_EQ(wide[1], {2, 3, 4}, {3});
  EXPECT_EQ(x.expand({-1, 3}).sizes(), Dims({1, 3}));
  EXPECT_CODE(x.expand({2, 4}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(x.expand({3}), ErrorCode::kShapeMismatch);
}

TEST_F(Views, ViewNeedsStridesThatFit) {
  Tensor x = Counting({2, 3});
  EXPECT_CODE(x.t().view({6}), ErrorCode::kShapeMismatch, "reshape");
  EXPECT_CODE(x.view({4}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(x.view({-1, -1}), ErrorCode::kValue);
  EXPECT_CODE(x.view({-1, 4}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(x.view({-2, 3}), ErrorCode::kNegativeSize);
  EXPECT_EQ(x.t().view({3, 2, 1}).strides(), Dims({1, 3, 3}));
  EXPECT_EQ(Counting({4, 6}).slice(1, 0, 3).view({2, 2, 3}).strides(), Dims({12, 6, 1}));
  Tensor copied = x.t().reshape({6});
  EXPECT_FALSE(copied.is_alias_of(x));
  EXPECT_TRUE(x.reshape({6}).is_alias_of(x));
  EXPECT_TENSOR_EQ(copied, {0, 3, 1, 4, 2, 5}, {6});
  EXPECT_TRUE(x.t().contiguous().is_contiguous());
  EXPECT_TRUE(x.contiguous().is_alias_of(x));
  EXPECT_FALSE(x.t().contiguous().is_alias_of(x));
}

TEST_F(Views, BadDimsAndIndicesAreErrors) {
  Tensor x = Counting({2, 3});
  EXPECT_CODE(x.select(2, 0), ErrorCode::kDimOutOfRange);
  EXPECT_CODE(x.select(-3, 0), ErrorCode::kDimOutOfRange);
  EXPECT_CODE(x.select(0, 2), ErrorCode::kIndexOutOfRange);
  EXPECT_CODE(x.select(0, -3), ErrorCode::kIndexOutOfRange);
  EXPECT_CODE(x[5], ErrorCode::kIndexOutOfRange);
  EXPECT_CODE(x.narrow(0, 1, 2), ErrorCode::kIndexOutOfRange);
  EXPECT_CODE(x.narrow(0, 0, -1), ErrorCode::kNegativeSize);
  EXPECT_CODE(x.slice(0, 0, 2, 0), ErrorCode::kValue);
  EXPECT_CODE(x.slice(0, 0, 2, -1), ErrorCode::kValue);
  EXPECT_CODE(x.permute({0}), ErrorCode::kValue);
  EXPECT_CODE(x.permute({0, 0}), ErrorCode::kValue);
  EXPECT_CODE(x.transpose(0, 2), ErrorCode::kDimOutOfRange);
  EXPECT_CODE(Counting({2, 2, 2}).t(), ErrorCode::kValue);
  EXPECT_CODE(x.diagonal(0, 1, 1), ErrorCode::kValue);
  EXPECT_CODE(x.unsqueeze(4), ErrorCode::kDimOutOfRange);
  EXPECT_CODE(x[0][0][0], ErrorCode::kIndexOutOfRange, "too many");
  EXPECT_EQ(x.slice(0, 5, 9).sizes(), Dims({0, 3}));
  EXPECT_EQ(x.slice(1, -99, 99).sizes(), Dims({2, 3}));
}

TEST_F(Views, AsStridedAddressesTheBase) {
  Tensor base = Counting({12});
  Tensor part = base.slice(0, 4, 8);
  Tensor all = as_strided(part, {3, 4}, {4, 1}, 0);  // as in PyTorch: from the storage's start
  EXPECT_TENSOR_EQ(all, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  Tensor here = as_strided(part, {2}, {2});  // from the tensor's own offset
  EXPECT_EQ(here.storage_offset(), 4);
  EXPECT_TENSOR_EQ(here, {4, 6}, {2});
  here.fill_(-1.0f);
  EXPECT_TENSOR_EQ(base, {0, 1, 2, 3, -1, 5, -1, 7, 8, 9, 10, 11}, {12});
  mark_step();
  all.select(1, 0).fill_(50.0f);
  EXPECT_TENSOR_EQ(part, {50, 5, -1, 7}, {4});
  EXPECT_CODE(as_strided(part, {4, 4}, {4, 1}, 0), ErrorCode::kIndexOutOfRange);
  EXPECT_CODE(as_strided(part, {2}, {1}, 11), ErrorCode::kIndexOutOfRange);
  EXPECT_CODE(as_strided(part, {2}, {-1}, 0), ErrorCode::kValue);
  EXPECT_CODE(as_strided(part, {2}, {1, 1}, 0), ErrorCode::kValue);
  EXPECT_CODE(as_strided(part, {2}, {1}, -1), ErrorCode::kValue);
}

TEST_F(Views, OfPartsOfComplexTensorsReachTheBase) {
  Tensor re = Counting({3, 3}), z = complex(re, re * 10.0f);
  Tensor diagonal = real(z).diagonal(), below = imag(z).diagonal(-1);
  EXPECT_TENSOR_EQ(diagonal, {0, 4, 8}, {3});
  EXPECT_TENSOR_EQ(below, {30, 70}, {2});
  EXPECT_EQ(below.storage_offset(), 7);
  EXPECT_EQ(below.strides(), Dims({8}));
  EXPECT_TENSOR_EQ(unfold_dim(real(z.t()), 0, 2, 1).select(0, 0), {0, 1, 3, 4, 6, 7}, {3, 2});
  EXPECT_TENSOR_EQ(as_strided(real(z), {2}, {6}, 3), {10, 40}, {2});  // of imaginary parts
  diagonal.fill_(-1.0f);
  below.mul_(2.0f);
  mark_step();
  EXPECT_TENSOR_EQ(real(z), {-1, 1, 2, 3, -1, 5, 6, 7, -1}, {3, 3});
  EXPECT_TENSOR_EQ(imag(z), {0, 10, 20, 60, 40, 50, 60, 140, 80}, {3, 3});
  z.fill_(3.0);
  EXPECT_TENSOR_EQ(diagonal, {3, 3, 3}, {3});
  EXPECT_CODE(as_strided(real(z), {4}, {1}, 0), ErrorCode::kNotSupported);  // both parts
}

TEST_F(Views, OfAnotherDType) {
  Tensor x = tensor({1.0, -2.0, 0.5, 4.0}, f32, "reference");
  Tensor bits = view_dtype(x, i32);
  EXPECT_TENSOR_EQ(bits, {0x3f800000, -0x40000000, 0x3f000000, 0x40800000}, {4});
  bits.slice(0, 0, 1).fill_(0x40a00000);
  EXPECT_TENSOR_EQ(x, {5, -2, 0.5, 4}, {4});
  mark_step();
  x.slice(0, 3, 4).fill_(0.0f);
  EXPECT_EQ(bits[3].item<int64_t>(), 0);
  Tensor halves = view_dtype(x, f16);
  EXPECT_EQ(halves.sizes(), Dims({8}));
  Tensor doubles = view_dtype(x, f64);
  EXPECT_EQ(doubles.sizes(), Dims({2}));
  Tensor bytes = view_dtype(x, u8);
  EXPECT_EQ(bytes.sizes(), Dims({16}));
  bytes.slice(0, 4, 8).zero_();
  EXPECT_TENSOR_EQ(x, {5, 0, 0.5, 0}, {4});
  EXPECT_CODE(view_dtype(x.slice(0, 0, 3), f64), ErrorCode::kShapeMismatch);
  EXPECT_CODE(view_dtype(x.view({2, 2}).t(), f64), ErrorCode::kShapeMismatch);
  EXPECT_TENSOR_EQ(view_dtype(view_dtype(x, i32), f32), {5, 0, 0.5, 0}, {4});
}

TEST_F(Views, InPlaceOpsKeepTheDType) {
  Tensor x = tensor({1, 2, 3}, i32, "reference");
  x.add_(2);
  EXPECT_EQ(x.dtype(), i32);
  EXPECT_TENSOR_EQ(x, {3, 4, 5}, {3});
  EXPECT_CODE(x.add_(0.5), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(x.div_(2), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(x.add_(ones({2, 3}, i32, "reference")), ErrorCode::kShapeMismatch);
  EXPECT_TENSOR_EQ(x, {3, 4, 5}, {3});
}

TEST_F(Views, HandlesAreOneTensor) {
  Tensor x = Counting({3});
  Tensor same = x;
  same.add_(1.0f);
  EXPECT_TENSOR_EQ(x, {1, 2, 3}, {3});
  EXPECT_TRUE(same.is_same(x));
  Tensor moved = std::move(same);
  EXPECT_FALSE(same.defined());
  EXPECT_TRUE(moved.is_same(x));
  Tensor taken = Counting({1});
  taken = std::move(moved);
  EXPECT_FALSE(moved.defined()) << "moved from";
}

TEST_F(Views, AssignmentRebindsAHandleAndWritesNothing) {
  Tensor x = Counting({3});
  Tensor v = x.view({3, 1});
  v = v + 10.0f;
  EXPECT_TENSOR_EQ(x, {0, 1, 2}, {3});
  x[0] += 5.0f;
  EXPECT_TENSOR_EQ(x, {5, 1, 2}, {3});
  x.index_put_({Slice(1, 3)}, 7.0f);
  EXPECT_TENSOR_EQ(x, {5, 7, 7}, {3});
}

TEST_F(Views, KeptValuesAreNotWritten) {
  Tensor x = Counting({3});
  Tensor y = x + 1.0f;  // of the old x
  Tensor v = x.view({3, 1});
  Tensor z = v * 2.0f;
  x.fill_(100.0f);
  EXPECT_TENSOR_EQ(y, {1, 2, 3}, {3});
  EXPECT_TENSOR_EQ(z, {0, 2, 4}, {3, 1});
  Tensor copy = x.clone();
  x.zero_();
  EXPECT_TENSOR_EQ(copy, {100, 100, 100}, {3});
}

TEST_F(Views, OfEmptyTensors) {
  Tensor x = zeros({0, 3}, f32, "reference");
  EXPECT_EQ(x.view({3, 0}).sizes(), Dims({3, 0}));
  EXPECT_TRUE(x.t().is_contiguous());
  x.t().add_(1.0f);
  x.slice(1, 0, 2).fill_(1.0f);
  mark_step();
  EXPECT_EQ(x.to_vector<float>().size(), 0u);
  EXPECT_CODE(x.view({-1, 0}), ErrorCode::kShapeMismatch);
}

TEST_F(Views, OfScalars) {
  Tensor s = tensor(3.0, f32, "reference");
  Tensor v = s.view({1, 1});
  v.add_(1.0f);
  EXPECT_EQ(s.item<float>(), 4);
  EXPECT_EQ(s.unsqueeze(0).strides(), Dims({1}));
  EXPECT_CODE(s.select(0, 0), ErrorCode::kDimOutOfRange);
  EXPECT_CODE(s[0], ErrorCode::kIndexOutOfRange, "too many");
  EXPECT_EQ(s.t().dim(), 0);
}

TEST_F(Views, AreTheSameInEagerMode) {
  auto program = [] {
    Tensor x = Counting({3, 4});
    Tensor a = x.t(), b = x.slice(1, 1, 3), c = b.select(0, 2);
    c.add_(a.select(0, 0).slice(0, 0, 2));
    b.mul_(2.0f);
    a.diagonal().fill_(-1.0f);
    return std::vector<HostTensor>{x.host(), a.host(), b.host(), c.host()};
  };
  auto lazily = program();
  EagerMode eager;
  auto eagerly = program();
  for (size_t i = 0; i < lazily.size(); ++i) EXPECT_TRUE(lazily[i].SameBits(eagerly[i])) << i;
}

TEST_F(Views, ASelectIsOneNode) {
  Tensor x = Counting({3, 4});
  Tensor row = x.select(0, 1);
  Value value = row.value();
  EXPECT_STREQ(value.node->op().name(), "dynamic_select");
  EXPECT_EQ(value.node->operands()[0].node, x.value().node.get());
}

TEST_F(Views, ManyWritesOfOneGroupStayOneStep) {
  Tensor x = zeros({64}, f32, "reference");
  std::vector<Tensor> parts = unbind(x.view({8, 8}), 0);
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].add_(static_cast<float>(i));
    if (round % 10 == 0) mark_step();
  }
  EXPECT_EQ(x[63].item<float>(), 350);
  EXPECT_EQ(x[8].item<float>(), 50);
}

TEST_F(Views, WhatIsDetachedKeepsNoHistory) {
  auto token = std::make_shared<int>();
  Tensor kept, view;
  {
    Tensor w = ones({3}, f32, "reference").requires_grad_();
    Tensor y = w * 2;
    y.register_hook([token](const Tensor& grad) { return grad; });
    Tensor loss = y.sum();
    kept = loss.detach();
    EXPECT_EQ(token.use_count(), 2);
    view = y.narrow(0, 0, 1);
  }
  EXPECT_EQ(token.use_count(), 2);  // by the view, which gradients pass through
  view = Tensor();
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(kept.item<float>(), 6);
}

}  // namespace
}  // namespace hammock
