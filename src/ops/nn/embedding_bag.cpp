// Sums, means and maxima of embedding rows.

#include <limits>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops/attention.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

using Maybe = std::optional<Tensor>;
constexpr const char* kOp = "embedding_bag";

/// Entries in order, each with the bag that it belongs to.
struct Bags {
  int64_t count, entries;
  int64_t length;  // of every bag where all are alike, else -1
  Tensor index;    // i64[entries]
  Tensor bag;      // i64[entries], where lengths differ
};

Bags BagsOf(const Tensor& input, const Maybe& offsets, bool include_last_offset) {
  Tensor index = Reshaped(Casted(input, DType::kI64), {input.numel()});
  if (input.dim() == 2) {
    if (offsets) {
      Throw(ErrorCode::kValue, "{}: offsets must not be given for input of 2 dims, {}", kOp,
            input.shape().to_string());
    }
    return {input.size(0), input.numel(), input.size(1), index, Tensor()};
  }
  if (input.dim() != 1 || !offsets || offsets->dim() != 1 || !IsIntegral(offsets->dtype())) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs input of 2 dims, or of 1 dim with a vector of integer offsets, got {} and {}",
          kOp, input.shape().to_string(), offsets ? offsets->shape().to_string() : "no offsets");
  }
  int64_t count = offsets->numel() - (include_last_offset ? 1 : 0);
  if (count < 0) {
    Throw(ErrorCode::kShapeMismatch, "{}: include_last_offset needs at least one offset, got {}",
          kOp, offsets->shape().to_string());
  }
  Tensor starts = Casted(Sliced(*offsets, 0, 0, count), DType::kI64);
  Tensor bag = Filled({input.numel()}, int64_t{0}, DType::kI64, input);
  if (count > 0 && input.numel() > 0) {
    bag = searchsorted(starts, Counting(input.numel(), input), false, true) - ConstantLike(1, bag);
  }
  return {count, input.numel(), -1, index, bag};
}

/// Scales rows in use down to `max_norm`, in place.
void RenormRows(const Tensor& weight, const Tensor& index, double max_norm, double norm_type) {
  if (weight.numel() == 0 || index.numel() == 0) return;
  NoGradGuard no_grad;
  Tensor x = Casted(weight, WideFloat(weight.dtype()));
  Tensor length = norm(x, norm_type, {1}, true);
  Tensor none = Filled({weight.size(0)}, int64_t{0}, DType::kI64, weight);
  Tensor marks = Filled({index.numel()}, int64_t{1}, DType::kI64, weight);
  Tensor used = gt(Scattered(none, index, marks, 0, "sum"), ConstantLike(0, none));
  Tensor scaled = x * (Lift(max_norm, x.dtype()) / (length + ConstantLike(1e-7, x)));
  Tensor too_long = logical_and(gt(length, max_norm), Reshaped(used, {weight.size(0), 1}));
  Tensor target = weight;
  WriteInPlace(kOp, target, Casted(where(too_long, scaled, x), weight.dtype()));
}

/// Sums of entries over each bag: [entries, ...] to [bags, ...].
Tensor SumBags(const Bags& bags, const Tensor& entries) {
  Dims sizes = entries.sizes();
  sizes[0] = bags.count;
  if (bags.length >= 0) {
    sizes.insert(1, bags.length);
    return Reduce(kReduceSum, Reshaped(entries, sizes), {1}, false);
  }
  Tensor zeros = Filled(sizes, int64_t{0}, entries.dtype(), entries);
  if (bags.count == 0 || bags.entries == 0) return zeros;
  return index_add(zeros, 0, bags.bag, entries);
}

Tensor MaxBags(const Bags& bags, const Tensor& entries) {
  Tensor lowest = ConstantLike(-std::numeric_limits<double>::infinity(), entries);
  int64_t width = entries.size(1);
  if (bags.length > 0 && bags.count > 0) {
    Tensor split = Reshaped(entries, {bags.count, bags.length, width});
    Tensor best = Apply(kArgMax, Location(), {split}, {1, true});
    return Reshaped(Apply(kGather, Location(), {split, best}, {1}), {bags.count, width});
  }
  Tensor none = Stretched(lowest, {bags.count, width}, entries);
  if (bags.count == 0 || bags.entries == 0) return none;
  Tensor index = Broadcasted(Reshaped(bags.bag, {bags.entries, 1}), {bags.entries, width});
  return Scattered(none, index, entries, 0, "amax");
}

void CheckBag(const Tensor& input, const Tensor& weight, const std::string& mode,
              const Maybe& per_sample_weights) {
  if (mode != "sum" && mode != "mean" && mode != "max") {
    Throw(ErrorCode::kValue, "{}: mode must be sum, mean or max, got '{}'", kOp, mode);
  }
  if (!IsIntegral(input.dtype()) || input.dtype() == DType::kBool || weight.dim() != 2 ||
      !IsFloat(weight.dtype())) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs integer indices and a matrix of weights, got {} and {}", kOp,
          input.shape().to_string(), weight.shape().to_string());
  }
  if (!per_sample_weights) return;
  if (mode != "sum") {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{}: per_sample_weights go with mode sum, not {}",
                        kOp, mode);
  }
  if (per_sample_weights->sizes() != input.sizes() ||
      per_sample_weights->dtype() != weight.dtype()) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: per_sample_weights {} must have the sizes of input {} and the dtype of weight {}",
          kOp, per_sample_weights->shape().to_string(), input.shape().to_string(),
          weight.shape().to_string());
  }
}

}  // namespace

Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Maybe& offsets,
                     std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq,
                     const std::string& mode, bool sparse, const Maybe& per_sample_weights,
                     bool include_last_offset, std::optional<int64_t> padding_idx, Location at) {
  LocationScope scope(at);
  if (scale_grad_by_freq || sparse) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "{}: {} is not there: gradients are dense, and not scaled by frequency",
                        kOp, sparse ? "sparse" : "scale_grad_by_freq");
  }
  // PyTorch still takes the two in their old order.
  if (IsFloat(input.dtype()) && weight.dtype() == DType::kI64) {
    return embedding_bag(weight, input, offsets, max_norm, norm_type, false, mode, false,
                         per_sample_weights, include_last_offset, padding_idx, at);
  }
  CheckBag(input, weight, mode, per_sample_weights);
  int64_t rows = weight.size(0);
  if (padding_idx && (*padding_idx < -rows || *padding_idx >= rows)) {
    Throw(ErrorCode::kIndexOutOfRange, "{}: padding_idx {} must be one of {} rows", kOp,
          *padding_idx, rows);
  }
  if (include_last_offset && !offsets) {
    Throw(ErrorCode::kValue, "{}: include_last_offset needs offsets", kOp);
  }
  Bags bags = BagsOf(input, offsets, include_last_offset);
  if (max_norm) RenormRows(weight, bags.index, *max_norm, norm_type);
  Tensor entries = Rows(Casted(weight, WideFloat(weight.dtype())), bags.index, 0);
  if (per_sample_weights) {
    entries = entries * Casted(Reshaped(*per_sample_weights, {bags.entries, 1}), entries.dtype());
  }
  Tensor counts = Filled({bags.entries, 1}, int64_t{1}, entries.dtype(), entries);
  if (padding_idx) {
    int64_t skipped = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
    Tensor kept = Reshaped(ne(bags.index, ConstantLike(skipped, bags.index)), {bags.entries, 1});
    double filler = mode == "max" ? -std::numeric_limits<double>::infinity() : 0.0;
    entries = where(kept, entries, ConstantLike(filler, entries));
    counts = Casted(kept, entries.dtype());
  }
  if (mode == "sum") return Casted(SumBags(bags, entries), weight.dtype());
  Tensor count = SumBags(bags, counts), one = ConstantLike(1, count);
  if (mode == "mean") {
    return Casted(SumBags(bags, entries) / maximum(count, one), weight.dtype());
  }
  Tensor largest = MaxBags(bags, entries), zero = ConstantLike(0, largest);
  return Casted(where(ge(count, one), largest, zero), weight.dtype());
}

namespace {

HAMMOCK_FUNCTION(kEmbeddingBag,
                 "embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? "
                 "max_norm=None, float norm_type=2.0, bool scale_grad_by_freq=False, str "
                 "mode=\"mean\", bool sparse=False, Tensor? per_sample_weights=None, bool "
                 "include_last_offset=False, int? padding_idx=None) -> Tensor",
                 "Sums, means or maxima of rows, by bags.", embedding_bag)

}  // namespace

std::span<const OpDef* const> ops::EmbeddingBagOps() {
  static constexpr const OpDef* kOps[] = {&kEmbeddingBag};
  return kOps;
}

}  // namespace hammock
