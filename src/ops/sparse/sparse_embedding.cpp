// Embeddings whose gradients are the rows that were used.

#include <map>
#include <memory>
#include <mutex>

#include "base/never_destroyed.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/shape.h"
#include "hammock/sparse.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/require.h"
#include "ops/sparse/sparse_parts.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

namespace {

/// The gradient of one weight as backward passes have added it: indices and rows.
struct RowGrads {
  std::mutex mutex;
  std::vector<Tensor> indices, rows;
};

/// Weights that have had such gradients, by id. Each RowGrads belongs to a hook of its weight, and
/// so lives as long as that.
struct Table {
  std::mutex mutex;
  std::map<int64_t, std::weak_ptr<RowGrads>> weights;

  static Table& Get() {
    static auto& table = NeverDestroyed<Table>();
    return table;
  }

  std::shared_ptr<RowGrads> Find(int64_t id) {
    std::lock_guard lock(mutex);
    auto found = weights.find(id);
    return found == weights.end() ? nullptr : found->second.lock();
  }

  void Add(const Tensor& weight) {
    if (Find(weight.id())) return;
    auto grads = std::make_shared<RowGrads>();
    Tensor owner = weight;
    owner.register_hook([grads](const Tensor&) { return Tensor(); });
    std::lock_guard lock(mutex);
    std::erase_if(weights, [](const auto& entry) { return entry.second.expired(); });
    weights[weight.id()] = grads;
  }
};

struct EmbeddingFunction : autograd::Function<EmbeddingFunction> {
  static Tensor forward(autograd::AutogradContext* context, const Tensor& weight,
                        const Tensor& index, int64_t padding, int64_t id) {
    context->save_for_backward({index});
    context->saved_data["padding"] = padding;
    context->saved_data["id"] = id;
    return Rows(weight, index, 0);
  }

  static std::vector<Tensor> backward(autograd::AutogradContext* context,
                                      std::vector<Tensor> grads) {
    Tensor index = context->get_saved_variables()[0], rows = grads[0];
    if (int64_t padding = context->saved_data["padding"].ToInt(); padding >= 0) {
      Tensor counts = ne(index, ConstantLike(padding, index));
      rows = mul(rows, Reshaped(Casted(counts, rows.dtype()), {index.numel(), 1}));
    }
    std::shared_ptr<RowGrads> own = Table::Get().Find(context->saved_data["id"].ToInt());
    if (!own) return {Tensor(), Tensor()};  // the weight is gone
    std::lock_guard lock(own->mutex);
    own->indices.push_back(index);
    own->rows.push_back(rows);
    return {Tensor(), Tensor()};
  }
};

}  // namespace

namespace sparse {

Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx,
                 Location at) {
  LocationScope scope(at);
  constexpr const char* kOp = "sparse::embedding";
  if (weight.dim() != 2 || !IsIntegral(input.dtype()) || input.dtype() == DType::kBool) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs integers and a matrix, got {} and {}", kOp,
          input.shape().to_string(), weight.shape().to_string());
  }
  const int64_t rows = weight.size(0);
  int64_t padding = padding_idx.value_or(-1);
  if (padding_idx && padding < 0) padding += rows;
  if (padding_idx && (padding < 0 || padding >= rows)) {
    Throw(ErrorCode::kIndexOutOfRange, "{}: padding_idx {} must be one of {} rows", kOp,
          *padding_idx, rows);
  }
  Tensor index = Reshaped(Casted(input, DType::kI64), {input.numel()});
  Dims sizes = input.sizes();
  sizes.push_back(weight.size(1));
  if (!weight.requires_grad() || !AutoGradMode::is_enabled()) {
    return Reshaped(Rows(weight, index, 0), sizes);
  }
  if (!weight.is_leaf()) {
    Throw(ErrorCode::kValue,
          "{}: the weight is the result of an op; only a leaf can have a sparse gradient", kOp);
  }
  Table::Get().Add(weight);
  return reshape(EmbeddingFunction::apply(weight, index, padding, weight.id()), sizes);
}

std::optional<SparseTensor> grad(const Tensor& weight, Location at) {
  LocationScope scope(at);
  std::shared_ptr<RowGrads> own = Table::Get().Find(weight.id());
  if (!own) return std::nullopt;
  std::vector<Tensor> indices, parts;
  {
    std::lock_guard lock(own->mutex);
    indices = own->indices;
    parts = own->rows;
  }
  if (indices.empty()) return std::nullopt;
  bool one = indices.size() == 1;
  Tensor index = one ? indices[0] : cat(indices, 0);
  Tensor rows = one ? parts[0] : cat(parts, 0);
  return SparseParts::Coo(Reshaped(index, {1, index.numel()}), rows, weight.sizes(), false);
}

void clear_grad(const Tensor& weight) {
  std::shared_ptr<RowGrads> own = Table::Get().Find(weight.id());
  if (!own) return;
  std::lock_guard lock(own->mutex);
  own->indices.clear();
  own->rows.clear();
}

}  // namespace sparse
}  // namespace hammock
