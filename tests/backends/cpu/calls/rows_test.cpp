// The first ones of long rows, and rows that are added to rows: `cpu` against the reference device.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock::cpu {
namespace {

const Device kCpu("cpu");
const Device kReference("reference");

/// Few different numbers, so that many are equal, and some that are no number.
HostTensor Values(const Dims& sizes, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<size_t>(Shape(f64, sizes).numel()));
  for (double& value : values) value = static_cast<double>(random() % 97) - 40;
  if (IsFloat(dtype)) {
    for (size_t i = 5; i < values.size(); i += 211) values[i] = NAN;
  }
  return tensor(values, sizes).to(dtype).host();
}

TEST(FirstOfRows, AreThoseOfTheReference) {
  for (DType dtype : {f32, bf16, f64, i64, u8}) {
    for (auto [sizes, dim, kept] :
         {std::tuple{Dims{3, 5000}, 1, 50}, {{2, 40}, 1, 5}, {{900, 3}, 0, 100}, {{1, 8}, 1, 1}}) {
      HostTensor x = Values(sizes, dtype, 3);
      for (bool largest : {false, true}) {
        SCOPED_TRACE(Shape(dtype, sizes).to_string() + (largest ? " largest" : " smallest"));
        auto [values, indices] = topk(from_host(x, kCpu), kept, dim, largest);
        auto [expected, places] = topk(from_host(x, kReference), kept, dim, largest);
        EXPECT_TRUE(values.host().SameBits(expected.host()));
        EXPECT_TRUE(indices.host().SameBits(places.host()));
      }
    }
  }
}

TEST(RowsAddedToRows, AreThoseOfTheReference) {
  for (DType dtype : {f32, bf16, i32}) {
    HostTensor rows = Values({70, 48}, dtype, 5), table = Values({9, 48}, dtype, 6);
    std::mt19937 random(7);
    std::vector<int64_t> to(70);
    for (int64_t& row : to) row = static_cast<int64_t>(random() % 9);
    std::vector<HostTensor> results;
    for (const Device& device : {kCpu, kReference}) {
      Tensor index = tensor(to, {70, 1}).to(device).expand({70, 48});
      Tensor mixed = index.clone();
      mixed.index_put_({Slice(0, 35), 17}, 4);  // rows that go to two places
      for (const Tensor& where : {index, mixed}) {
        results.push_back(
            from_host(table, device).scatter_add(0, where, from_host(rows, device)).host());
      }
    }
    EXPECT_TRUE(results[0].SameBits(results[2])) << NameOf(dtype);
    EXPECT_TRUE(results[1].SameBits(results[3])) << NameOf(dtype);
  }
}

}  // namespace
}  // namespace hammock::cpu
