#pragma once
/// Helpers for tests of matmuls and convolutions.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "backends/cpu/host/host_allocator.h"
#include "backends/cpu/host/thread_pool.h"
#include "backends/cpu/matmul/matmul.h"
#include "backends/run_graph.h"
#include "hammock/config.h"
#include "ir/primitives.h"

namespace hammock::cpu {

/// Scratch memory as the backend gives it.
class ScratchMemory {
 public:
  explicit ScratchMemory(int64_t bytes) : tensor_(allocator_.New(Shape(u8, {bytes}), "scratch")) {
    std::memset(tensor_.mutable_data(), 0xff, bytes);  // NaN: nobody may rely on it
  }
  std::span<std::byte> span() {
    return {static_cast<std::byte*>(tensor_.mutable_data()), static_cast<size_t>(tensor_.bytes())};
  }

 private:
  static inline HostAllocator& allocator_ = *new HostAllocator("test");
  HostTensor tensor_;
};

/// Numbers that every dtype holds, small enough that sums of f16 stay finite.
inline HostTensor Random(const Shape& shape, std::mt19937& random) {
  HostTensor values(shape.With(f64));
  bool whole = !IsFloat(shape.dtype());
  std::uniform_real_distribution<double> real(-1, 1);
  for (double& value : values.mutable_values<double>()) {
    value = whole ? static_cast<double>(random() % 256) - (IsSigned(shape.dtype()) ? 128 : 0)
                  : real(random);
  }
  return values.To(shape.dtype());
}

/// Equal up to the rounding of sums of `terms` products of numbers below 1.
inline testing::AssertionResult Near(const HostTensor& actual, const HostTensor& expected,
                                     int64_t terms) {
  if (!IsFloat(actual.dtype())) return SameTensor(actual, expected);
  double rounding = actual.dtype() == f64 ? 1e-15 : 4e-7;
  for (int64_t i = 0; i < actual.numel(); ++i) {
    double x = actual.at(i).ToDouble();
    double y = expected.at(i).ToDouble();
    double slack =
        2 * InfoOf(actual.dtype()).epsilon * std::abs(y) + rounding * static_cast<double>(terms);
    if (!(std::abs(x - y) <= slack)) {
      return testing::AssertionFailure() << fmt::format("element {} of {} is {}, expected {}", i,
                                                        actual.shape().to_string(), x, y);
    }
  }
  return testing::AssertionSuccess();
}

inline HostTensor Interpreted(const OpDef& op, const std::vector<HostTensor>& operands,
                              std::vector<Attr> attrs) {
  Graph graph;
  std::vector<GraphValue> values;
  for (const HostTensor& operand : operands) values.push_back(graph.AddInput(operand.shape()));
  NodeId node = graph.AddNode(op, values, std::move(attrs));
  graph.AddOutput({node, 0});
  return reference::Interpret(graph, operands)[0];
}

inline HostTensor Permuted(const HostTensor& tensor, const Dims& dims) {
  return Interpreted(ops::kPermute, {tensor}, {dims});
}

constexpr DType kNumbers[] = {f32, f64, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64};

/// Copies each part that it gets, and checks its position.
class CopyingEpilogue : public Epilogue {
 public:
  CopyingEpilogue(const Shape& shape, int64_t columns, const EpilogueSpec& spec)
      : columns_(columns), spec_(spec), result_(shape), times_(Shape(i32, shape.sizes())) {
    std::memset(times_.mutable_data(), 0, static_cast<size_t>(times_.bytes()));
  }

  void Run(const FinishedPart& part, std::byte* scratch) const override {
    if (spec_.whole_rows) {
      EXPECT_EQ(part.columns, columns_);
    }
    std::memset(scratch, 0x7f, static_cast<size_t>(spec_.scratch_bytes));
    int64_t width = BytesOf(result_.dtype(), 1);
    for (int64_t i = 0; i < part.rows; ++i) {
      int64_t at = (part.row + i) * columns_ + part.column;
      std::memcpy(static_cast<std::byte*>(result_.mutable_data()) + at * width,
                  part.data + i * part.stride * width, static_cast<size_t>(part.columns * width));
      for (int64_t j = 0; j < part.columns; ++j) ++times_.mutable_values<int32_t>()[at + j];
    }
  }

  const HostTensor& result() const { return result_; }
  bool SawEverythingOnce() const {
    auto times = times_.values<int32_t>();
    return std::all_of(times.begin(), times.end(), [](int32_t count) { return count == 1; });
  }

 private:
  const int64_t columns_;
  const EpilogueSpec spec_;
  mutable HostTensor result_, times_;
};

inline std::vector<EpilogueSpec> AllEpilogues() {
  std::vector<EpilogueSpec> all;
  for (bool whole_rows : {false, true}) {
    for (bool stores : {false, true}) all.push_back({true, whole_rows, stores, 192});
  }
  return all;
}

}  // namespace hammock::cpu
