// Windows of images as columns and back, and channels as pixels.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/pool.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

struct Sliding {
  Dims kernel, dilation, padding, stride;
  Dims count;  // windows along height and width
};

Dims Two(const char* op, const char* what, const Dims& given, int64_t least) {
  Dims two = given.size() == 1 ? Dims::Filled(2, given[0]) : given;
  if (two.size() == 2 && two[0] >= least && two[1] >= least) return two;
  Throw(ErrorCode::kValue, "{}: {} needs one or two numbers of at least {}, got {}", op, what,
        least, ToString(given));
}

Sliding MakeSliding(const char* op, const Dims& image, const Dims& kernel_size,
                    const Dims& dilation, const Dims& padding, const Dims& stride) {
  Sliding s{Two(op, "kernel_size", kernel_size, 1),
            Two(op, "dilation", dilation, 1),
            Two(op, "padding", padding, 0),
            Two(op, "stride", stride, 1),
            {}};
  for (int i = 0; i < 2; ++i) {
    int64_t space = image[i] + 2 * s.padding[i] - s.dilation[i] * (s.kernel[i] - 1) - 1;
    if (space < 0) {
      Throw(ErrorCode::kShapeMismatch,
            "{}: a window of {} dilated by {} does not fit an image of {} padded by {}", op,
            ToString(s.kernel), ToString(s.dilation), ToString(image), ToString(s.padding));
    }
    s.count.push_back(space / s.stride[i] + 1);
  }
  return s;
}

/// Where element k of window w lies in dim `i` of the padded image: i64[kernel * count].
Tensor PixelsOf(const Sliding& s, int i, const Tensor& like) {
  Tensor element = CountingAlong(0, 2, s.kernel[i], like);
  Tensor window = CountingAlong(1, 2, s.count[i], like);
  Tensor pixel =
      element * ConstantLike(s.dilation[i], element) + window * ConstantLike(s.stride[i], window);
  return Reshaped(pixel, {s.kernel[i] * s.count[i]});
}

Tensor Folded(const char* op, const Tensor& input, const Dims& output_size, const Dims& kernel_size,
              const Dims& dilation, const Dims& padding, const Dims& stride) {
  Dims image = Two(op, "output_size", output_size, 1);
  Sliding s = MakeSliding(op, image, kernel_size, dilation, padding, stride);
  int64_t elements = s.kernel[0] * s.kernel[1], windows = s.count[0] * s.count[1];
  int rank = input.dim();
  if ((rank != 2 && rank != 3) || input.size(-2) == 0 || input.size(-2) % elements != 0 ||
      input.size(-1) != windows) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs columns of (channels * {}, {}) for an image of {}, got {}", op, elements,
          windows, ToString(image), input.shape().to_string());
  }
  int64_t batch = rank == 3 ? input.size(0) : 1, channels = input.size(-2) / elements;
  int64_t height = image[0] + 2 * s.padding[0], width = image[1] + 2 * s.padding[1];
  Tensor x = Casted(input, WideFloat(input.dtype()));
  x = Reshaped(x, {batch, channels, s.kernel[0], s.kernel[1], s.count[0], s.count[1]});
  x = Permuted(x, {0, 1, 2, 4, 3, 5});
  x = Reshaped(x, {batch, channels, s.kernel[0] * s.count[0], s.kernel[1] * s.count[1]});
  auto summed = [&](const Tensor& y, int dim, int64_t size) {
    Dims sizes = y.sizes();
    sizes[dim] = size;
    return index_add(Filled(sizes, int64_t{0}, y.dtype(), y), dim, PixelsOf(s, dim - 2, y), y);
  };
  x = summed(summed(x, 3, width), 2, height);
  x = Sliced(Sliced(x, 2, s.padding[0], image[0]), 3, s.padding[1], image[1]);
  if (rank == 2) x = Reshaped(x, {channels, image[0], image[1]});
  return Casted(x, input.dtype());
}

/// Dims before the last three as one.
int64_t Outer(const Tensor& x) {
  int64_t count = 1;
  for (int i = 0; i < x.dim() - 3; ++i) count *= x.size(i);
  return count;
}

Dims WithLastThree(const Tensor& x, int64_t channels, int64_t height, int64_t width) {
  Dims sizes = x.sizes();
  int last = sizes.size() - 1;
  sizes[last - 2] = channels;
  sizes[last - 1] = height;
  sizes[last] = width;
  return sizes;
}

void CheckFactor(const char* op, const Tensor& x, int64_t factor, bool fits) {
  if (factor > 0 && fits) return;
  Throw(ErrorCode::kShapeMismatch, "{}: {} does not divide by a factor of {}", op,
        x.shape().to_string(), factor);
}

}  // namespace

Tensor im2col(const Tensor& input, const Dims& kernel_size, const Dims& dilation,
              const Dims& padding, const Dims& stride, Location at) {
  LocationScope scope(at);
  int rank = input.dim();
  if ((rank != 3 && rank != 4) || input.size(-1) == 0 || input.size(-2) == 0 ||
      input.size(-3) == 0) {
    Throw(ErrorCode::kShapeMismatch, "im2col: needs images of (channels, height, width), got {}",
          input.shape().to_string());
  }
  Sliding s = MakeSliding("im2col", {input.size(-2), input.size(-1)}, kernel_size, dilation,
                          padding, stride);
  int64_t batch = rank == 4 ? input.size(0) : 1, channels = input.size(-3);
  Tensor x = Reshaped(input, {batch, channels, input.size(-2), input.size(-1)});
  for (int i = 0; i < 2; ++i) {
    x = Padded(x, 2 + i, s.padding[i], s.padding[i], int64_t{0});
    x = Rows(x, PixelsOf(s, i, x), 2 + i);
  }
  x = Reshaped(x, {batch, channels, s.kernel[0], s.count[0], s.kernel[1], s.count[1]});
  x = Permuted(x, {0, 1, 2, 4, 3, 5});
  Dims result{channels * s.kernel[0] * s.kernel[1], s.count[0] * s.count[1]};
  if (rank == 4) result.insert(0, batch);
  return Reshaped(x, result);
}

Tensor fold(const Tensor& input, const Dims& output_size, const Dims& kernel_size,
            const Dims& dilation, const Dims& padding, const Dims& stride, Location at) {
  LocationScope scope(at);
  return Folded("fold", input, output_size, kernel_size, dilation, padding, stride);
}

Tensor col2im(const Tensor& self, const Dims& output_size, const Dims& kernel_size,
              const Dims& dilation, const Dims& padding, const Dims& stride, Location at) {
  LocationScope scope(at);
  return Folded("col2im", self, output_size, kernel_size, dilation, padding, stride);
}

Tensor pixel_shuffle(const Tensor& self, int64_t upscale_factor, Location at) {
  LocationScope scope(at);
  NeedRank("pixel_shuffle", self, 3);
  int64_t r = upscale_factor, height = self.size(-2), width = self.size(-1);
  CheckFactor("pixel_shuffle", self, r, r <= 0 || self.size(-3) % (r * r) == 0);
  int64_t channels = self.size(-3) / (r * r);
  Tensor x = Reshaped(self, {Outer(self) * channels, r, r, height, width});
  return Reshaped(Permuted(x, {0, 3, 1, 4, 2}),
                  WithLastThree(self, channels, height * r, width * r));
}

Tensor pixel_unshuffle(const Tensor& self, int64_t downscale_factor, Location at) {
  LocationScope scope(at);
  NeedRank("pixel_unshuffle", self, 3);
  int64_t r = downscale_factor;
  CheckFactor("pixel_unshuffle", self, r,
              r <= 0 || (self.size(-2) % r == 0 && self.size(-1) % r == 0));
  int64_t channels = self.size(-3), height = self.size(-2) / r, width = self.size(-1) / r;
  Tensor x = Reshaped(self, {Outer(self) * channels, height, r, width, r});
  return Reshaped(Permuted(x, {0, 2, 4, 1, 3}),
                  WithLastThree(self, channels * r * r, height, width));
}

namespace {

HAMMOCK_FUNCTION(kIm2col,
                 "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, "
                 "int[2] stride=1) -> Tensor",
                 "Windows of images as columns.", im2col)
HAMMOCK_FUNCTION(kFold,
                 "fold(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, "
                 "int[2] padding=0, int[2] stride=1) -> Tensor",
                 "Sums of columns where their windows overlap.", fold)
HAMMOCK_FUNCTION(kCol2im,
                 "col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, "
                 "int[2] padding, int[2] stride) -> Tensor",
                 "Sums of columns where their windows overlap.", col2im)
HAMMOCK_FUNCTION(kPixelShuffle, "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
                 "Groups of channels as pixels of a larger image.", pixel_shuffle)
HAMMOCK_FUNCTION(kPixelUnshuffle, "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
                 "Pixels of a larger image as groups of channels.", pixel_unshuffle)

}  // namespace

std::span<const OpDef* const> ops::ColumnOps() {
  static constexpr const OpDef* kOps[] = {&kIm2col, &kFold, &kCol2im, &kPixelShuffle,
                                          &kPixelUnshuffle};
  return kOps;
}

}  // namespace hammock
