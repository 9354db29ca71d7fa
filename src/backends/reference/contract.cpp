#include <algorithm>

#include "backends/reference/elements.h"
#include "backends/reference/kernel.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

/// c[m,n] += a[m,k] * b[k,n]. Each element's terms are added in the order of k, whatever the sizes.
template <class Wide>
void MatMul(int64_t m, int64_t n, int64_t k, const Wide* a, const Wide* b, Wide* c) {
  constexpr int64_t kColumns = 256;  // a strip of c and of b's rows that stays in the cache
  for (int64_t strip = 0; strip < n; strip += kColumns) {
    int64_t columns = std::min(kColumns, n - strip);
    for (int64_t i = 0; i < m; ++i) {
      Wide* row = c + i * n + strip;
      int64_t p = 0;
      // Four terms a pass, still one after the other.
      for (; p + 4 <= k; p += 4) {
        const Wide* f = a + i * k + p;
        const Wide* t = b + p * n + strip;
        for (int64_t j = 0; j < columns; ++j) {
          row[j] =
              row[j] + f[0] * t[j] + f[1] * t[j + n] + f[2] * t[j + 2 * n] + f[3] * t[j + 3 * n];
        }
      }
      for (; p < k; ++p) {
        const Wide* t = b + p * n + strip;
        for (int64_t j = 0; j < columns; ++j) row[j] += a[i * k + p] * t[j];
      }
    }
  }
}

/// The elements of `tensor` with its dims in the given order.
template <class Wide>
std::vector<Wide> LoadPermuted(KernelCall& call, const HostTensor& tensor, const Dims& order) {
  Dims strides = ContiguousStrides(tensor.shape().sizes());
  Dims sizes;
  Strided layout;
  for (int64_t d : order) {
    sizes.push_back(tensor.shape().size(static_cast<int>(d)));
    layout.strides.push_back(strides[static_cast<int>(d)]);
  }
  HostTensor permuted = call.New(tensor.shape().With(sizes));
  CopyStrided(sizes, tensor, layout, permuted, Contiguous(sizes));
  return LoadAll<Wide>(permuted);
}

int64_t Product(const Shape& type, std::span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t d : dims) product *= type.size(static_cast<int>(d));
  return product;
}

Dims Joined(std::initializer_list<std::span<const int64_t>> lists) {
  Dims result;
  for (auto list : lists) {
    for (int64_t d : list) result.push_back(d);
  }
  return result;
}

/// The dims of `type` that neither list names.
Dims FreeDims(const Shape& type, std::span<const int64_t> first, std::span<const int64_t> second) {
  Dims result;
  for (int64_t d = 0; d < type.rank(); ++d) {
    bool named = std::find(first.begin(), first.end(), d) != first.end() ||
                 std::find(second.begin(), second.end(), d) != second.end();
    if (!named) result.push_back(d);
  }
  return result;
}

template <class Wide>
void DotGeneral(KernelCall& call) {
  const HostTensor& a = *call.in[0];
  const HostTensor& b = *call.in[1];
  const std::vector<int64_t>& a_contract = call.node.attrs[0].ints();
  const std::vector<int64_t>& b_contract = call.node.attrs[1].ints();
  const std::vector<int64_t>& a_batch = call.node.attrs[2].ints();
  const std::vector<int64_t>& b_batch = call.node.attrs[3].ints();
  Dims a_free = FreeDims(a.shape(), a_contract, a_batch);
  Dims b_free = FreeDims(b.shape(), b_contract, b_batch);
  auto left = LoadPermuted<Wide>(call, a, Joined({a_batch, a_free, a_contract}));
  auto right = LoadPermuted<Wide>(call, b, Joined({b_batch, b_contract, b_free}));
  int64_t batch = Product(a.shape(), a_batch);
  int64_t m = Product(a.shape(), a_free);
  int64_t n = Product(b.shape(), b_free);
  int64_t k = Product(a.shape(), a_contract);
  HostTensor& out = call.NewResult();
  std::vector<Wide> result(out.numel());
  for (int64_t i = 0; i < batch; ++i) {
    MatMul(m, n, k, left.data() + i * m * k, right.data() + i * k * n, result.data() + i * m * n);
  }
  Store(result.data(), out.numel(), out, 0);
}

void RunDotGeneral(KernelCall& call) {
  VisitSum(call.node.type().dtype(), [&](auto zero) { DotGeneral<decltype(zero)>(call); });
}

/// The geometry of a convolution: which element of the large side (the input, or the output of a
/// transposed one) is multiplied by kernel element `tap` for index `at` of the small side.
class Taps {
 public:
  Taps(const KernelCall& call, const Shape& large, const Shape& small)
      : stride_(call.node.attrs[0].ints()),
        padding_(call.node.attrs[1].ints()),
        dilation_(call.node.attrs[2].ints()) {
    const Shape& weight = call.in[1]->shape();
    for (int d = 2; d < large.rank(); ++d) {
      large_.push_back(large.size(d));
      small_.push_back(small.size(d));
      kernel_.push_back(weight.size(d));
    }
  }

  int64_t large() const { return Count(large_); }
  int64_t small() const { return Count(small_); }
  int64_t kernel() const { return Count(kernel_); }

  /// Flat index on the large side, or -1 in the padding.
  int64_t Find(int64_t at, int64_t tap) const {
    int64_t flat = 0;
    int64_t scale = 1;
    for (int d = large_.size() - 1; d >= 0; --d) {
      int64_t position =
          at % small_[d] * stride_[d] + tap % kernel_[d] * dilation_[d] - padding_[d];
      if (position < 0 || position >= large_[d]) return -1;
      flat += position * scale;
      scale *= large_[d];
      at /= small_[d];
      tap /= kernel_[d];
    }
    return flat;
  }

 private:
  static int64_t Count(const Dims& sizes) { return Shape(DType::kU8, sizes).numel(); }
  Dims stride_, padding_, dilation_;
  Dims large_, small_, kernel_;
};

/// Calls `f(row, column, flat index in a group's large side)` for every tap of every channel that
/// is not in the padding.
template <class F>
void ForEachTap(const Taps& taps, int64_t channels, F f) {
  for (int64_t tap = 0; tap < taps.kernel(); ++tap) {
    for (int64_t at = 0; at < taps.small(); ++at) {
      int64_t index = taps.Find(at, tap);
      if (index < 0) continue;
      for (int64_t c = 0; c < channels; ++c) {
        f(c * taps.kernel() + tap, at, c * taps.large() + index);
      }
    }
  }
}

/// One matmul for each image and group: weight times the unfolded input.
template <class Wide>
void Convolve(KernelCall& call) {
  const Shape& input = call.in[0]->shape();
  const Shape& output = call.node.type();
  int64_t groups = call.node.attrs[5].integer();
  Taps taps(call, input, output);
  int64_t in_channels = input.size(1) / groups;
  int64_t out_channels = output.size(1) / groups;
  int64_t rows = in_channels * taps.kernel();
  std::vector<Wide> values = LoadAll<Wide>(*call.in[0]);
  std::vector<Wide> weight = LoadAll<Wide>(*call.in[1]);
  HostTensor& out = call.NewResult();
  std::vector<Wide> result(out.numel());
  std::vector<Wide> unfolded(rows * taps.small());
  for (int64_t i = 0; i < input.size(0) * groups; ++i) {
    const Wide* image = values.data() + i * in_channels * taps.large();
    ForEachTap(taps, in_channels, [&](int64_t row, int64_t column, int64_t index) {
      unfolded[row * taps.small() + column] = image[index];
    });
    MatMul(out_channels, taps.small(), rows, weight.data() + i % groups * out_channels * rows,
           unfolded.data(), result.data() + i * out_channels * taps.small());
  }
  Store(result.data(), out.numel(), out, 0);
}

/// The transpose: the matmul of the transposed weight and the input, folded onto the output.
template <class Wide>
void ConvolveTransposed(KernelCall& call) {
  const Shape& input = call.in[0]->shape();
  const Shape& output = call.node.type();
  int64_t groups = call.node.attrs[5].integer();
  Taps taps(call, output, input);
  int64_t in_channels = input.size(1) / groups;
  int64_t out_channels = output.size(1) / groups;
  int64_t rows = out_channels * taps.kernel();
  std::vector<Wide> values = LoadAll<Wide>(*call.in[0]);
  std::vector<Wide> weight = LoadAll<Wide>(*call.in[1]);  // [in, out / groups, kernel]
  HostTensor& out = call.NewResult();
  std::vector<Wide> result(out.numel());
  std::vector<Wide> transposed(rows * in_channels);
  for (int64_t i = 0; i < input.size(0) * groups; ++i) {
    const Wide* part = weight.data() + i % groups * in_channels * rows;
    for (int64_t c = 0; c < in_channels; ++c) {
      for (int64_t row = 0; row < rows; ++row)
        transposed[row * in_channels + c] = part[c * rows + row];
    }
    std::vector<Wide> unfolded(rows * taps.small());
    MatMul(rows, taps.small(), in_channels, transposed.data(),
           values.data() + i * in_channels * taps.small(), unfolded.data());
    Wide* image = result.data() + i * out_channels * taps.large();
    ForEachTap(taps, out_channels, [&](int64_t row, int64_t column, int64_t index) {
      image[index] += unfolded[row * taps.small() + column];
    });
  }
  Store(result.data(), out.numel(), out, 0);
}

void RunConvolution(KernelCall& call) {
  VisitSum(call.node.type().dtype(), [&](auto zero) {
    using Wide = decltype(zero);
    if (call.node.attrs[3].boolean()) {
      ConvolveTransposed<Wide>(call);
    } else {
      Convolve<Wide>(call);
    }
  });
}

constexpr KernelEntry kKernels[] = {{&ops::kDotGeneral, RunDotGeneral},
                                    {&ops::kConvolution, RunConvolution}};

}  // namespace

std::span<const KernelEntry> ContractKernels() { return kKernels; }

}  // namespace hammock::reference
