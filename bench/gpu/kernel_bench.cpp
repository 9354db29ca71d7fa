/// The speed of single kernels of the CUDA backend: milliseconds, the median of synchronised calls,
/// and the memory that must be moved over that time. bench/gpu/kernel_peers.py runs the same ones
/// on PyTorch.
///
///   kernel_bench [--filter TEXT]

#include <hammock/autograd.h>
#include <hammock/config.h>
#include <hammock/hammock.h>
#include <hammock/lazy/backend_interface.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using namespace hammock;

namespace {

const Device& Gpu() {
  static const Device device("cuda");
  return device;
}

Tensor Made(Tensor x) {
  LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&x, 1));
  return x;
}

Tensor Random(const Dims& sizes, DType dtype = f32) {
  return Made(randn(sizes, f32, Gpu()).to(dtype));
}

Tensor RandomIndex(int64_t end, int64_t count) {
  return Made(randint(0, end, {count}, i64, Gpu()));
}

void Finish() { wait_device_ops({Gpu()}); }

double MedianMs(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 4; ++i) call();
  Finish();
  std::vector<double> times;
  auto ms_since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  auto begin = Clock::now();
  while (times.size() < 10 || (times.size() < 100 && ms_since(begin) < 300)) {
    auto start = Clock::now();
    call();
    Finish();
    times.push_back(ms_since(start));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Row {
  const char* name;
  double megabytes;  ///< that must be read and written; 0: it is not memory that limits
  std::function<std::function<Tensor()>()> make;
};

constexpr int64_t kMany = 1 << 26;

/// The result, forward, or the gradients of input and weight, of a convolution of images.
std::function<Tensor()> Convolution(int64_t batch, int64_t channels, int64_t side, DType dtype,
                                    bool backward) {
  Tensor x = Random({batch, channels, side, side}, dtype);
  Tensor w = Random({channels, channels, 3, 3}, dtype);
  Tensor g = Random({batch, channels, side, side}, dtype);
  return [=]() mutable {
    if (!backward) return conv2d(x, w, std::nullopt, {1}, {1});
    x.requires_grad_();
    w.requires_grad_();
    std::vector<Tensor> grads = hammock::grad({conv2d(x, w, std::nullopt, {1}, {1})}, {x, w}, {g});
    return grads[0].sum() + grads[1].sum();
  };
}

std::vector<Row> ConvolutionRows() {
  return {
      {"conv 3x3 64x64x56x56 f32", 0, [] { return Convolution(64, 64, 56, f32, false); }},
      {"conv 3x3 64x256x14x14 f32", 0, [] { return Convolution(64, 256, 14, f32, false); }},
      {"conv 3x3 64x64x56x56 bf16", 0, [] { return Convolution(64, 64, 56, bf16, false); }},
      {"conv gradients 64x64x56x56 f32", 0, [] { return Convolution(64, 64, 56, f32, true); }},
      {"conv gradients 64x64x56x56 bf16", 0, [] { return Convolution(64, 64, 56, bf16, true); }},
      {"max pool 3x3/2 64x64x112x112 f32", 257,
       [] {
         Tensor x = Random({64, 64, 112, 112});
         return [=] { return max_pool2d(x, {3}, {2}, {1}); };
       }},
  };
}

/// The result, forward, or the gradients of all three operands, of attention.
std::function<Tensor()> Attention(int64_t length, DType dtype, bool backward) {
  const Dims sizes = {4, 16, length, 64};
  Tensor q = Random(sizes, dtype), k = Random(sizes, dtype), v = Random(sizes, dtype);
  Tensor g = Random(sizes, dtype);
  return [=]() mutable {
    if (!backward) return scaled_dot_product_attention(q, k, v);
    for (Tensor* x : {&q, &k, &v}) x->requires_grad_();
    auto grads = hammock::grad({scaled_dot_product_attention(q, k, v)}, {q, k, v}, {g});
    return grads[0].sum() + grads[1].sum() + grads[2].sum();
  };
}

std::vector<Row> AttentionRows() {
  return {
      {"attention 4x16x2048x64 f32", 0, [] { return Attention(2048, f32, false); }},
      {"attention 4x16x8192x64 f32", 0, [] { return Attention(8192, f32, false); }},
      {"attention 4x16x2048x64 bf16", 0, [] { return Attention(2048, bf16, false); }},
      {"attention gradients 4x16x2048x64 f32", 0, [] { return Attention(2048, f32, true); }},
      {"attention gradients 4x16x2048x64 bf16", 0, [] { return Attention(2048, bf16, true); }},
  };
}

/// An upload concurrent with five matmuls; the three rows show how much of it is hidden.
std::vector<Row> OverlapRows() {
  auto both = [](bool work, bool copy) {
    Tensor a = Random({8192, 8192}, bf16), b = Random({8192, 8192}, bf16);
    HostTensor host(Shape(DType::kF32, {1 << 26}));
    const lazy::BackendDevice device = lazy::getBackend("cuda")->GetBackendDevice(0);
    return [=] {
      Tensor y = a;
      for (int i = 0; i < 5 && work; ++i) y = matmul(y, b);
      LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&y, 1));
      if (copy) lazy::getBackend("cuda")->MakeComputationDataFromTensor(host, host.shape(), device);
      return y;
    };
  };
  return {
      {"five matmuls of 8192 bf16", 0, [=] { return both(true, false); }},
      {"an upload of 256 MB", 268, [=] { return both(false, true); }},
      {"both", 268, [=] { return both(true, true); }},
  };
}

std::vector<Row> OrderRows() {
  auto sorted = [](Dims sizes, DType dtype) {
    Tensor x = Random(sizes, dtype);
    return [=] { return std::get<0>(sort(x, -1)); };
  };
  auto first = [](Dims sizes, int64_t k) {
    Tensor x = Random(sizes);
    return [=] { return std::get<0>(topk(x, k)); };
  };
  return {
      {"sort 65536x1024 f32", 1073,
       [=] {
         return sorted({65536, 1024}, f32);
       }},
      {"sort 16M f32", 268, [=] { return sorted({1 << 24}, f32); }},
      {"sort 16M i64", 402, [=] { return sorted({1 << 24}, i64); }},
      {"sort 16M i64 of all bits", 402,
       [] {
         Tensor x = Made((randn({1 << 24}, f64, Gpu()) * 1e18).to(i64));
         return [=] { return std::get<0>(sort(x, -1)); };
       }},
      {"top 32 of 1024x50257 f32", 206,
       [=] {
         return first({1024, 50257}, 32);
       }},
      {"top 10 of 64M f32", 268, [=] { return first({kMany}, 10); }},
  };
}

std::vector<Row> IndexRows() {
  auto gradient = [](int64_t tokens, int64_t rows, int64_t width, DType dtype) {
    Tensor index = RandomIndex(rows, tokens);
    Tensor g = Random({tokens, width}, dtype), zero = zeros({rows, width}, dtype, Gpu());
    return [=] { return index_add(zero, 0, index, g); };
  };
  return {
      {"cumsum 64M f32", 536,
       [] {
         Tensor x = Random({kMany});
         return [=] { return cumsum(x, 0); };
       }},
      {"cumsum 16384x4096 f32, rows", 536,
       [] {
         Tensor x = Random({16384, 4096});
         return [=] { return cumsum(x, 1); };
       }},
      {"cumsum 4096x16384 f32, columns", 536,
       [] {
         Tensor x = Random({4096, 16384});
         return [=] { return cumsum(x, 0); };
       }},
      {"index_add 65536 rows to 50257x768 f32", 510,
       [=] { return gradient(65536, 50257, 768, f32); }},
      {"index_add 65536 rows to 50257x768 bf16", 255,
       [=] { return gradient(65536, 50257, 768, bf16); }},
      {"index_add 65536 rows to 8x768 f32", 201, [=] { return gradient(65536, 8, 768, f32); }},
      {"scatter_add 16M to 1M f32", 200,
       [] {
         Tensor index = RandomIndex(1 << 20, 1 << 24), x = Random({1 << 24});
         Tensor zero = zeros({1 << 20}, f32, Gpu());
         return [=] { return scatter_add(zero, 0, index, x); };
       }},
      {"bincount-like add, 16M i64 to 256", 268,
       [] {
         Tensor index = RandomIndex(256, 1 << 24);
         Tensor one = ones({1 << 24}, i64, Gpu()), zero = zeros({256}, i64, Gpu());
         return [=] { return scatter_add(zero, 0, index, one); };
       }},
      {"gather 64M f32", 1073,
       [] {
         Tensor index = RandomIndex(kMany, kMany), x = Random({kMany});
         return [=] { return gather(x, 0, index); };
       }},
  };
}

std::vector<Row> MemoryRows() {
  return {
      {"copy 64M f32", 536,
       [] {
         Tensor x = Random({kMany});
         return [=] { return x * 2; };
       }},
      {"sum over rows 16384x4096 f32", 268,
       [] {
         Tensor x = Random({16384, 4096});
         return [=] { return sum(x, {0}); };
       }},
      {"sum over rows 16384x4096 bf16", 134,
       [] {
         Tensor x = Random({16384, 4096}, bf16);
         return [=] { return sum(x, {0}); };
       }},
      {"sum over rows 8192x1024 bf16", 17,
       [] {
         Tensor x = Random({8192, 1024}, bf16);
         return [=] { return sum(x, {0}); };
       }},
      {"sum over rows 65536x1024 bf16", 134,
       [] {
         Tensor x = Random({65536, 1024}, bf16);
         return [=] { return sum(x, {0}); };
       }},
      {"softmax 16384x4096 f32", 536,
       [] {
         Tensor x = Random({16384, 4096});
         return [=] { return softmax(x, -1); };
       }},
      {"sum of all 64M f32", 268,
       [] {
         Tensor x = Random({kMany});
         return [=] { return sum(x); };
       }},
      {"transpose 8192x8192 f32", 536,
       [] {
         Tensor x = Random({8192, 8192});
         return [=] { return x.t().contiguous(); };
       }},
      {"transpose 8192x8192 bf16", 268,
       [] {
         Tensor x = Random({8192, 8192}, bf16);
         return [=] { return x.t().contiguous(); };
       }},
      {"uniform random 64M f32", 268, [] { return [] { return rand({kMany}, f32, Gpu()); }; }},
      {"normal random 64M f32", 268, [] { return [] { return randn({kMany}, f32, Gpu()); }; }},
  };
}

}  // namespace

int main(int argc, char** argv) {
  std::string filter;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--filter") filter = argv[i + 1];
  }
  std::vector<Row> rows;
  for (auto make :
       {ConvolutionRows, AttentionRows, OverlapRows, OrderRows, IndexRows, MemoryRows}) {
    for (Row& row : make()) rows.push_back(std::move(row));
  }
  for (const Row& row : rows) {
    if (std::string(row.name).find(filter) == std::string::npos) continue;
    try {
      auto call = row.make();
      double ms = MedianMs([&] {
        Tensor y = call();
        LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&y, 1));
      });
      std::printf("%-40s %8.3f ms", row.name, ms);
      if (row.megabytes > 0) std::printf("  %7.0f GB/s", row.megabytes / ms);
      std::printf("\n");
    } catch (const std::exception& error) {
      std::printf("%-40s failed: %s\n", row.name, error.what());
    }
    std::fflush(stdout);
  }
}
