#include "backends/cuda/driver/blas.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "backends/cuda/driver/near_sizes.h"
#include "base/library.h"
#include "base/never_destroyed.h"
#include "base/record_bytes.h"
#include "base/throw.h"

namespace hammock::cuda {
namespace {

using Handle = void*;
using Descriptor = void*;

struct Algorithm {
  uint64_t data[8];

  template <class Io>
  friend void Fields(Io& io, Algorithm& algorithm) {
    for (uint64_t& word : algorithm.data) io(word);
  }
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

// Numbers of the library's interface.
enum ComputeType { kCompute32F = 68, kComputeTf32 = 77, kCompute64F = 70, kCompute32I = 72 };
enum DataType {
  kReal32F = 0,
  kReal64F = 1,
  kReal16F = 2,
  kReal8I = 3,
  kReal32I = 10,
  kReal16BF = 14
};
enum MatMulAttribute { kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8 };
enum Epilogue : int32_t { kReluEpilogue = 2, kBiasEpilogue = 4 };
enum LayoutAttribute { kBatchCount = 5, kBatchOffset = 6 };
enum PreferenceAttribute { kMaxWorkspace = 1, kAlignmentA = 5 };

constexpr uint64_t kWorkspace = 32 << 20;
constexpr uint32_t kAlignment = 16;
constexpr size_t kMostPrepared = 4096;  // then expired entries are removed

struct Functions {
  int (*create)(Handle* handle);
  int (*destroy)(Handle handle);
  int (*matmul_create)(Descriptor* matmul, int compute_type, int scale_type);
  int (*matmul_set)(Descriptor matmul, int attribute, const void* value, size_t size);
  int (*matmul_destroy)(Descriptor matmul);
  int (*layout_create)(Descriptor* layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
  int (*layout_set)(Descriptor layout, int attribute, const void* value, size_t size);
  int (*layout_destroy)(Descriptor layout);
  int (*preference_create)(Descriptor* preference);
  int (*preference_set)(Descriptor preference, int attribute, const void* value, size_t size);
  int (*preference_destroy)(Descriptor preference);
  int (*heuristic)(Handle handle, Descriptor matmul, Descriptor a, Descriptor b, Descriptor c,
                   Descriptor d, Descriptor preference, int wanted, Heuristic* results, int* found);
  int (*algorithm_check)(Handle handle, Descriptor matmul, Descriptor a, Descriptor b, Descriptor c,
                         Descriptor d, const Algorithm* algorithm, Heuristic* result);
  int (*multiply)(Handle handle, Descriptor matmul, const void* alpha, const void* a,
                  Descriptor a_layout, const void* b, Descriptor b_layout, const void* beta,
                  const void* c, Descriptor c_layout, void* d, Descriptor d_layout,
                  const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                  CUstream stream);
  size_t (*version)() = nullptr;  // may be missing
  std::string why_absent;
};

Functions LoadFunctions() {
  Functions f;
  Library library(BlasFiles());
  library.Find("cublasLtCreate", f.create);
  library.Find("cublasLtDestroy", f.destroy);
  library.Find("cublasLtMatmulDescCreate", f.matmul_create);
  library.Find("cublasLtMatmulDescSetAttribute", f.matmul_set);
  library.Find("cublasLtMatmulDescDestroy", f.matmul_destroy);
  library.Find("cublasLtMatrixLayoutCreate", f.layout_create);
  library.Find("cublasLtMatrixLayoutSetAttribute", f.layout_set);
  library.Find("cublasLtMatrixLayoutDestroy", f.layout_destroy);
  library.Find("cublasLtMatmulPreferenceCreate", f.preference_create);
  library.Find("cublasLtMatmulPreferenceSetAttribute", f.preference_set);
  library.Find("cublasLtMatmulPreferenceDestroy", f.preference_destroy);
  library.Find("cublasLtMatmulAlgoGetHeuristic", f.heuristic);
  library.Find("cublasLtMatmulAlgoCheck", f.algorithm_check);
  library.Find("cublasLtMatmul", f.multiply);
  library.FindOptional("cublasLtGetVersion", f.version);
  f.why_absent = library.why_absent();
  return f;
}

const Functions& TheFunctions() {
  static const auto& functions = NeverDestroyed<Functions>(LoadFunctions());
  return functions;
}

void Check(int status, const char* what) {
  if (status == 0) return;
  Throw<DeviceError>(ErrorCode::kDevice, "cuda: cuBLASLt: {} failed with status {}", what, status);
}

std::optional<DataType> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return kReal8I;
    case DType::kI32:
      return kReal32I;
    case DType::kF16:
      return kReal16F;
    case DType::kBF16:
      return kReal16BF;
    case DType::kF32:
      return kReal32F;
    case DType::kF64:
      return kReal64F;
    default:
      return std::nullopt;
  }
}

/// 0 and 1 as the library takes them, and the unit that multiplies.
struct Arithmetic {
  const void *zero, *one;
  ComputeType compute;
  DataType scalar;
};
Arithmetic ArithmeticOf(DataType type, bool tf32) {
  static constexpr double kF64[] = {0, 1};
  static constexpr float kF32[] = {0, 1};
  static constexpr int32_t kI32[] = {0, 1};
  if (type == kReal64F) return {&kF64[0], &kF64[1], kCompute64F, kReal64F};
  if (type == kReal8I) return {&kI32[0], &kI32[1], kCompute32I, kReal32I};
  return {&kF32[0], &kF32[1], tf32 && type == kReal32F ? kComputeTf32 : kCompute32F, kReal32F};
}

/// The matmul of rounded sizes that `p` shares its algorithm with. Extents of contiguous dims are
/// kept, because the alignment of rows decides which algorithms exist.
MatMul NearMatMul(MatMul p) {
  const bool apart = !p.a_transposed, along_k = p.a_transposed && !p.b_transposed;
  if (apart) p.m = NearSize(p.m);
  if (along_k) p.k = NearSize(p.k);
  p.batch = NearSize(p.batch);
  if (p.a_batch != 0) p.a_batch = p.a_row * (p.a_transposed ? p.k : p.m);
  if (p.b_batch != 0) p.b_batch = p.b_row * (p.b_transposed ? p.n : p.k);
  if (p.out_batch != 0) p.out_batch = p.out_row * p.m;
  p.relu = false;
  return p;
}

/// The library stores matrices by columns: it is given the transposed operands in reverse order.
class BlasMatMul : public PreparedOp {
 public:
  /// `algorithm` is a candidate, or null.
  BlasMatMul(Handle handle, const MatMul& p, DataType type, bool tf32, const Algorithm* algorithm)
      : arithmetic(ArithmeticOf(type, tf32)) {
    const Functions& f = TheFunctions();
    Check(f.matmul_create(&matmul, arithmetic.compute, arithmetic.scalar), "a description");
    int32_t first = p.b_transposed, second = p.a_transposed;
    Check(f.matmul_set(matmul, kTransA, &first, sizeof first), "an attribute");
    Check(f.matmul_set(matmul, kTransB, &second, sizeof second), "an attribute");
    has_bias = p.bias;
    if (has_bias && !p.relu) SetEpilogue(kBiasEpilogue);
    a = LayoutOf(type, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k, p.b_row, p.batch,
                 p.b_batch);
    b = LayoutOf(type, p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m, p.a_row, p.batch,
                 p.a_batch);
    c = LayoutOf(*TypeOf(p.out_dtype), p.n, p.m, p.out_row, p.batch, p.out_batch);
    if (!algorithm || !Take(handle, *algorithm)) Choose(handle);
    if (!p.relu) return;
    // By the algorithm of the matmul without relu if possible, so that no bit changes.
    SetEpilogue(kReluEpilogue | (has_bias ? kBiasEpilogue : 0));
    if (!found || !Take(handle, chosen.algorithm)) Choose(handle);
  }
  ~BlasMatMul() override {
    const Functions& f = TheFunctions();
    for (Descriptor layout : {a, b, c}) {
      if (layout) f.layout_destroy(layout);
    }
    if (matmul) f.matmul_destroy(matmul);
  }

  int64_t scratch_bytes() const override {
    return chosen.workspace == 0 ? 0 : static_cast<int64_t>(chosen.workspace) + 256;
  }

  const Arithmetic arithmetic;
  bool has_bias = false;
  bool found = false;
  std::mutex mutex;  // of the bias, which the description holds
  Descriptor matmul = nullptr;
  Descriptor a = nullptr, b = nullptr, c = nullptr;
  Heuristic chosen = {};

 private:
  /// Whether the algorithm can do it.
  bool Take(Handle handle, const Algorithm& algorithm) {
    Heuristic checked = {};
    if (TheFunctions().algorithm_check(handle, matmul, a, b, c, c, &algorithm, &checked) != 0 ||
        checked.workspace > kWorkspace) {
      return false;
    }
    chosen.algorithm = algorithm;
    chosen.workspace = std::max(chosen.workspace, checked.workspace);
    return found = true;
  }
  void SetEpilogue(int32_t epilogue) {
    Check(TheFunctions().matmul_set(matmul, kEpilogue, &epilogue, sizeof epilogue), "an attribute");
  }

  void Choose(Handle handle) {
    const Functions& f = TheFunctions();
    Descriptor preference = nullptr;
    Check(f.preference_create(&preference), "a preference");
    f.preference_set(preference, kMaxWorkspace, &kWorkspace, sizeof kWorkspace);
    for (int operand = 0; operand < 4; ++operand) {
      f.preference_set(preference, kAlignmentA + operand, &kAlignment, sizeof kAlignment);
    }
    int count = 0;
    int status = f.heuristic(handle, matmul, a, b, c, c, preference, 1, &chosen, &count);
    f.preference_destroy(preference);
    found = status == 0 && count > 0;
  }

  static Descriptor LayoutOf(DataType type, int64_t rows, int64_t columns, int64_t ld,
                             int64_t batch, int64_t stride) {
    const Functions& f = TheFunctions();
    Descriptor layout = nullptr;
    Check(f.layout_create(&layout, type, static_cast<uint64_t>(rows),
                          static_cast<uint64_t>(columns), std::max(ld, rows)),
          "a layout");
    if (batch > 1) {
      int32_t count = static_cast<int32_t>(batch);
      Check(f.layout_set(layout, kBatchCount, &count, sizeof count), "an attribute");
      Check(f.layout_set(layout, kBatchOffset, &stride, sizeof stride), "an attribute");
    }
    return layout;
  }
};

}  // namespace

std::vector<std::string> BlasFiles() {
  return {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
}

const std::string& WhyNoBlas() { return TheFunctions().why_absent; }

int64_t BlasVersion() {
  return TheFunctions().version ? static_cast<int64_t>(TheFunctions().version()) : 0;
}

Blas::Blas() {
  if (WhyNoBlas().empty()) Check(TheFunctions().create(&handle_), "its start");
}

Blas::~Blas() {
  if (handle_) TheFunctions().destroy(handle_);
}

struct Blas::Choice {
  std::optional<Algorithm> algorithm;

  template <class Io>
  friend void Fields(Io& io, Choice& choice) {
    io(choice.algorithm);
  }
};

std::string Blas::SaveChoices() {
  std::lock_guard lock(mutex_);
  RecordWriter record;
  record(choices_);
  return record.Take();
}

void Blas::AddChoices(const std::string& saved) {
  if (saved.empty()) return;
  decltype(choices_) choices;
  RecordReader record("chosen matmuls", saved);
  record(choices);
  std::lock_guard lock(mutex_);
  choices_.merge(choices);
}

std::shared_ptr<const Blas::Choice> Blas::ChoiceFor(const MatMul& matmul, bool tf32) {
  const MatMul near = NearMatMul(matmul);
  {
    std::lock_guard lock(mutex_);
    if (auto found = choices_.find({near, tf32}); found != choices_.end()) return found->second;
  }
  BlasMatMul made(handle_, near, *TypeOf(near.dtype), tf32, nullptr);
  auto choice = std::make_shared<Choice>();
  if (made.found) choice->algorithm = made.chosen.algorithm;
  std::lock_guard lock(mutex_);
  return choices_.try_emplace({near, tf32}, std::move(choice)).first->second;
}

std::shared_ptr<PreparedOp> Blas::Prepare(const MatMul& matmul, bool tf32) {
  std::optional<DataType> type = TypeOf(matmul.dtype);
  if (!handle_ || !type || type == kReal32I) return nullptr;
  {
    std::lock_guard lock(mutex_);
    auto known = prepared_.find({matmul, tf32});
    if (known != prepared_.end()) {
      if (std::shared_ptr<PreparedOp> prepared = known->second.lock()) return prepared;
      prepared_.erase(known);
    }
  }
  std::shared_ptr<const Choice> choice = ChoiceFor(matmul, tf32);
  auto prepared = std::make_shared<BlasMatMul>(handle_, matmul, *type, tf32,
                                               choice->algorithm ? &*choice->algorithm : nullptr);
  if (!prepared->found) return nullptr;
  std::lock_guard lock(mutex_);
  if (prepared_.size() > kMostPrepared) {
    std::erase_if(prepared_, [](const auto& entry) { return entry.second.expired(); });
  }
  prepared_[{matmul, tf32}] = prepared;
  return prepared;
}

void Blas::Multiply(const PreparedOp& prepared, Address a, Address b, Address bias, Address out,
                    Address scratch, CUstream stream) const {
  auto& p = const_cast<BlasMatMul&>(static_cast<const BlasMatMul&>(prepared));
  std::lock_guard lock(p.mutex);
  if (p.has_bias) {
    Check(TheFunctions().matmul_set(p.matmul, kBiasPointer, &bias, sizeof bias), "a bias");
  }
  auto pointer = [](Address address) { return reinterpret_cast<void*>(address); };
  Address workspace = (scratch + 255) / 256 * 256;
  Check(TheFunctions().multiply(
            handle_, p.matmul, p.arithmetic.one, pointer(b), p.a, pointer(a), p.b,
            p.arithmetic.zero, pointer(out), p.c, pointer(out), p.c, &p.chosen.algorithm,
            p.chosen.workspace > 0 ? pointer(workspace) : nullptr, p.chosen.workspace, stream),
        "a matmul");
}

}  // namespace hammock::cuda
