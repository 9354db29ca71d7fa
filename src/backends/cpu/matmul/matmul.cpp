#include "backends/cpu/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

#include "backends/cpu/matmul/matmul_kernel.h"
#include "base/of_thread.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "ir/convert.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cpu {
namespace {

#ifndef HAMMOCK_WITH_ONEDNN
std::unique_ptr<MatMulKernel> NoMatMul(const MatMulSpec&) { return nullptr; }
constexpr auto MakeLibraryMatMul = NoMatMul;
#else
constexpr auto MakeLibraryMatMul = MakeOneDnnMatMul;
#endif

}  // namespace

#ifndef HAMMOCK_WITH_ONEDNN
std::string OneDnnVersion() { return "none"; }
#endif

namespace {

/// Nothing is summed: the result is 0; or nothing is stored at all.
class EmptyMatMul : public MatMulKernel {
 public:
  explicit EmptyMatMul(const MatMulSpec& spec) : spec_(spec) {}
  const char* name() const override { return "empty"; }
  void Run(const MatMul::Pointers& pointers, const Scratch&, ThreadPool&) const override {
    int64_t width = BytesOf(spec_.out_dtype, 1);
    for (int64_t i = 0; i < Product(spec_.batch) * spec_.m && spec_.n > 0; ++i) {
      int64_t row =
          BatchOffset(spec_.batch, spec_.out.batch, i / spec_.m) + i % spec_.m * spec_.out.row;
      std::byte* out = static_cast<std::byte*>(pointers.out) + row * width;
      std::memset(out, 0, spec_.n * width);
    }
  }

 private:
  const MatMulSpec spec_;
};

bool SumsBytes(const MatMulSpec& spec) {
  return ops::IsByte(spec.dtype) && spec.out_dtype == DType::kI32;
}

void CheckSpec(const MatMulSpec& spec) {
  bool narrow = spec.dtype == DType::kF16 || spec.dtype == DType::kBF16;
  if (spec.out_dtype != spec.dtype && !(narrow && spec.out_dtype == DType::kF32) &&
      !SumsBytes(spec)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "matmul: {} operands cannot give {} results",
                     NameOf(spec.dtype), NameOf(spec.out_dtype));
  }
  if (spec.dtype == DType::kBool) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "matmul: bool operands are not supported");
  }
  int rank = spec.batch.size();
  if (spec.a.batch.size() != rank || spec.b.batch.size() != rank || spec.out.batch.size() != rank ||
      spec.out.column != 1) {
    Throw(ErrorCode::kValue,
          "matmul: {} batch dims need as many strides, not {}, {} and {}; the columns of the "
          "result must be 1 apart, not {}",
          rank, spec.a.batch.size(), spec.b.batch.size(), spec.out.batch.size(), spec.out.column);
  }
  int64_t stride = spec.m * spec.n;
  bool contiguous = spec.out.row == spec.n;
  for (int i = rank - 1; i >= 0; stride *= spec.batch[i--]) {
    contiguous &= spec.batch[i] == 1 || spec.out.batch[i] == stride;
  }
  if (spec.epilogue.wanted && !contiguous) {
    Throw(ErrorCode::kValue, "matmul: a result with an epilogue must be contiguous");
  }
}

/// One right side for all of the stack: its rows are one large left side where they lie evenly.
MatMulSpec FoldBatch(MatMulSpec spec) {
  while (!spec.batch.empty()) {
    int last = spec.batch.size() - 1;
    bool even = spec.b.batch[last] == 0 && spec.a.batch[last] == spec.m * spec.a.row &&
                spec.out.batch[last] == spec.m * spec.out.row;
    if (!even && spec.batch[last] != 1) break;
    spec.m *= spec.batch[last];
    for (Dims* dims : {&spec.batch, &spec.a.batch, &spec.b.batch, &spec.out.batch}) {
      dims->erase(last);
    }
  }
  return spec;
}

/// The stride of dims taken as one; nothing if they do not lie evenly.
std::optional<int64_t> JoinedStride(const Dims& sizes, const Dims& strides, const Dims& dims) {
  int64_t stride = 1;
  int64_t wanted = -1;  // the stride that the next outer dim must have
  for (int i = dims.size() - 1; i >= 0; --i) {
    int d = static_cast<int>(dims[i]);
    if (sizes[d] == 1) continue;
    if (wanted < 0) {
      stride = strides[d];
    } else if (strides[d] != wanted) {
      return std::nullopt;
    }
    wanted = strides[d] * sizes[d];
  }
  return stride;
}

bool Has(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

Dims FreeDims(int rank, const Dims& contract, const Dims& batch) {
  Dims free;
  for (int d = 0; d < rank; ++d) {
    if (!Has(contract, d) && !Has(batch, d)) free.push_back(d);
  }
  return free;
}

int64_t SizeOf(const Shape& shape, const Dims& dims) {
  int64_t size = 1;
  for (int64_t d : dims) size *= shape.size(static_cast<int>(d));
  return size;
}

Dims Joined(const Dims& first, const Dims& second, const Dims& third) {
  Dims all = first;
  for (int64_t d : second) all.push_back(d);
  for (int64_t d : third) all.push_back(d);
  return all;
}

/// An operand as a stack of matrices [rows, columns]; sets `copy` if it must be copied first.
MatrixLayout LayoutOf(const Shape& shape, const Dims& batch, const Dims& rows, const Dims& columns,
                      Dims& copy) {
  Dims strides = ContiguousStrides(shape.sizes());
  MatrixLayout layout;
  auto row = JoinedStride(shape.sizes(), strides, rows);
  auto column = JoinedStride(shape.sizes(), strides, columns);
  if (row && column) {
    layout.row = *row;
    layout.column = *column;
    for (int64_t d : batch) layout.batch.push_back(strides[static_cast<int>(d)]);
    return layout;
  }
  copy = Joined(batch, rows, columns);
  layout.column = 1;
  layout.row = SizeOf(shape, columns);
  int64_t stride = layout.row * SizeOf(shape, rows);
  layout.batch = Dims::Filled(batch.size(), 0);
  for (int i = batch.size() - 1; i >= 0; --i) {
    layout.batch[i] = stride;
    stride *= shape.size(static_cast<int>(batch[i]));
  }
  return layout;
}

/// The operand's dims in the order `dims`, contiguous.
OperandCopy InOrder(const Shape& shape, const Dims& dims) {
  Dims strides = ContiguousStrides(shape.sizes());
  Dims sizes, steps;
  for (int64_t d : dims) {
    sizes.push_back(shape.size(static_cast<int>(d)));
    steps.push_back(strides[static_cast<int>(d)]);
  }
  return OperandCopy(shape.dtype(), sizes, steps);
}

/// The order of the copy of b, with the dims of a column behind those of its columns.
Dims ColumnsFirst(const DotGeneralSpec& spec) {
  const int batch = spec.matmul.batch.size();
  int rows = batch;
  for (int64_t size = 1; size < spec.matmul.k; ++rows) {
    size *= spec.b.size(static_cast<int>(spec.copy_b[rows]));
  }
  Dims order;
  for (int i = 0; i < batch; ++i) order.push_back(spec.copy_b[i]);
  for (int i = rows; i < spec.copy_b.size(); ++i) order.push_back(spec.copy_b[i]);
  for (int i = batch; i < rows; ++i) order.push_back(spec.copy_b[i]);
  return order;
}

/// A stack of matrices [rows, columns], one after another in row-major order. What is repeated
/// stays so.
MatrixLayout RowMajor(const Dims& batch, const MatrixLayout& layout, int64_t rows,
                      int64_t columns) {
  MatrixLayout result = {layout.batch, columns, 1};
  int64_t stride = rows * columns;
  for (int i = batch.size() - 1; i >= 0; --i) {
    if (layout.batch[i] == 0) continue;
    result.batch[i] = stride;
    stride *= batch[i];
  }
  return result;
}

/// The copy of matrices from one layout to another; empty if no element moves.
OperandCopy CopyBetween(DType dtype, const Dims& batch, int64_t rows, int64_t columns,
                        const MatrixLayout& from, const MatrixLayout& to) {
  bool same = (rows == 1 || from.row == to.row) && (columns == 1 || from.column == to.column);
  for (int i = 0; i < batch.size(); ++i) same &= batch[i] == 1 || from.batch[i] == to.batch[i];
  if (same) return {};
  Dims sizes = batch, strides = from.batch;
  for (int i = 0; i < batch.size(); ++i) {
    if (from.batch[i] == 0) sizes[i] = 1;
  }
  for (int64_t size : {rows, columns}) sizes.push_back(size);
  for (int64_t stride : {from.row, from.column}) strides.push_back(stride);
  return OperandCopy(dtype, sizes, strides);
}

}  // namespace

template <class Pointers>
Scratch ContractionKernel<Pointers>::Divide(std::span<std::byte> memory,
                                            const ThreadPool& pool) const {
  int64_t left = static_cast<int64_t>(memory.size()) - shared_bytes;
  HAMMOCK_CHECK(left >= worker_bytes, "{} bytes of scratch, needs {}", memory.size(),
                shared_bytes + worker_bytes);
  int64_t workers = pool.threads();
  if (worker_bytes > 0) workers = std::min(workers, left / worker_bytes);
  return {memory.data(), memory.data() + shared_bytes, worker_bytes, static_cast<int>(workers)};
}
template class ContractionKernel<MatMul::Pointers>;
template class ContractionKernel<Convolution::Pointers>;

int64_t BatchOffset(const Dims& sizes, const Dims& strides, int64_t index) {
  int64_t offset = 0;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    offset += index % sizes[d] * strides[d];
    index /= sizes[d];
  }
  return offset;
}

void RunEpilogue(const Epilogue& epilogue, void* result, DType dtype, int64_t rows, int64_t columns,
                 const Scratch& scratch, ThreadPool& pool) {
  constexpr int64_t kPart = 1 << 14;  // elements
  auto run = [&](int64_t begin, int64_t end, int worker) {
    std::byte* data = static_cast<std::byte*>(result) + BytesOf(dtype, begin * columns);
    epilogue.Run({data, columns, begin, end - begin, 0, columns}, scratch.of(worker));
  };
  if (rows * columns == 0) return;
  pool.ParallelFor(rows, std::max<int64_t>(kPart / columns, 1), run, scratch.workers);
}

MatMulSpec MatMulSpec::Plain(DType dtype, int64_t m, int64_t k, int64_t n) {
  MatMulSpec spec;
  spec.dtype = spec.out_dtype = dtype;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.a = {{}, k, 1};
  spec.b = {{}, n, 1};
  spec.out = {{}, n, 1};
  return spec;
}

DotGeneralSpec DotGeneral(const Shape& a, const Shape& b, const Dims& a_contract,
                          const Dims& b_contract, const Dims& a_batch, const Dims& b_batch) {
  Dims a_free = FreeDims(a.rank(), a_contract, a_batch);
  Dims b_free = FreeDims(b.rank(), b_contract, b_batch);
  DotGeneralSpec spec;
  spec.a = a;
  spec.b = b;
  MatMulSpec& matmul = spec.matmul;
  matmul.dtype = matmul.out_dtype = a.dtype();
  matmul.m = SizeOf(a, a_free);
  matmul.n = SizeOf(b, b_free);
  matmul.k = SizeOf(a, a_contract);
  matmul.a = LayoutOf(a, a_batch, a_free, a_contract, spec.copy_a);
  matmul.b = LayoutOf(b, b_batch, b_contract, b_free, spec.copy_b);
  matmul.out.row = matmul.n;
  matmul.out.column = 1;
  for (int64_t d : a_batch) matmul.batch.push_back(a.size(static_cast<int>(d)));
  matmul.out.batch = Dims::Filled(matmul.batch.size(), 0);
  int64_t stride = matmul.m * matmul.n;
  for (int i = matmul.batch.size() - 1; i >= 0; --i) {
    matmul.out.batch[i] = stride;
    stride *= matmul.batch[i];
  }
  return spec;
}

/// Best first; the last one computes everything.
MatMul::MatMul(const MatMulSpec& spec) {
  CheckSpec(spec);
  spec_ = FoldBatch(spec);
  // Below this a call of the library costs more than the matmul.
  bool tiny = spec_.m * spec_.n * spec_.k < 18 * 18 * 18;
  if (Product(spec_.batch) * spec_.m * spec_.n == 0 || spec_.k == 0) {
    kernel_ = std::make_unique<EmptyMatMul>(spec_);
  }
  if (!kernel_ && SumsBytes(spec_)) ChooseBytes();
  if (!kernel_) kernel_ = MakeVectorMatMul(spec_);
  if (!kernel_ && !tiny) ChooseLibrary();
  if (!kernel_) kernel_ = MakeTileMatMul(spec_);
  ReserveEpilogue(*kernel_, spec_.epilogue);
}

/// Note [One layout for the library]
/// The library's order of summation depends on the layout of its operands, but results must not:
/// the same matmul can be part of a graph with a permute, and of one that begins behind it. So
/// operands are copied into row-major order, or b is packed from its own layout. That is at least
/// about as fast as the library is with other layouts.
void MatMul::ChooseLibrary() {
  MatMulSpec used = spec_;
  used.a = RowMajor(spec_.batch, spec_.a, spec_.m, spec_.k);
  kernel_ = MakeLibraryMatMul(used);
  if (!kernel_) {
    used.b = RowMajor(spec_.batch, spec_.b, spec_.k, spec_.n);
    kernel_ = MakeLibraryMatMul(used);
  }
  if (!kernel_) return;
  copy_a_ = CopyBetween(spec_.dtype, spec_.batch, spec_.m, spec_.k, spec_.a, used.a);
  copy_b_ = CopyBetween(spec_.dtype, spec_.batch, spec_.k, spec_.n, spec_.b, used.b);
}

/// Rows are multiplied by columns that are contiguous too: weights that are not are packed so.
void MatMul::ChooseBytes() {
  MatMulSpec used = spec_;
  used.a = RowMajor(spec_.batch, spec_.a, spec_.m, spec_.k);
  const MatrixLayout columns = {spec_.b.batch, spec_.b.column, spec_.b.row};
  const MatrixLayout contiguous = RowMajor(spec_.batch, columns, spec_.n, spec_.k);
  used.b = {contiguous.batch, contiguous.column, contiguous.row};
  kernel_ = MakeByteMatMul(used);
  copy_a_ = CopyBetween(spec_.dtype, spec_.batch, spec_.m, spec_.k, spec_.a, used.a);
  copy_b_ = CopyBetween(DType::kI8, spec_.batch, spec_.n, spec_.k, columns, contiguous);
}

MatMul::MatMul(const DotGeneralSpec& spec) : MatMul(spec.matmul) {
  if (!spec.copy_a.empty()) copy_a_ = InOrder(spec.a, spec.copy_a);
  if (spec.copy_b.empty()) return;
  copy_b_ = InOrder(spec.b, SumsBytes(spec_) ? ColumnsFirst(spec) : spec.copy_b);
}

namespace {

/// The matmuls that a thread has last made, as long as somebody uses them.
struct RecentMatMuls {
  struct Entry {
    DotGeneralSpec spec;
    uint64_t generation = 0;  // of the options, which choose kernels
    std::weak_ptr<const MatMul> matmul;
  };
  std::array<Entry, 64> entries;

  static Entry& PlaceOf(const DotGeneralSpec& spec) {
    uint64_t mixed = spec.matmul.epilogue.wanted;
    for (int64_t number : {spec.matmul.m, spec.matmul.n, spec.matmul.k, spec.matmul.a.row,
                           spec.matmul.b.row, spec.matmul.epilogue.scratch_bytes}) {
      mixed = (std::rotl(mixed, 7) ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15;
    }
    return OfThread<RecentMatMuls>().entries[mixed >> 58];
  }
};

}  // namespace

std::shared_ptr<const MatMul> MatMul::Shared(const DotGeneralSpec& spec) {
  // An earlier one may call oneDNN (Note [Exit] in base/process_exit.h).
  if (process_exit::LibraryCall::Closed()) return std::make_shared<const MatMul>(spec);
  RecentMatMuls::Entry& recent = RecentMatMuls::PlaceOf(spec);
  std::shared_ptr<const MatMul> matmul = recent.matmul.lock();
  if (matmul && recent.spec == spec && recent.generation == config::Generation()) return matmul;
  matmul = std::make_shared<const MatMul>(spec);
  recent = {spec, config::Generation(), matmul};
  return matmul;
}

MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

const char* MatMul::kernel() const { return kernel_->name(); }

int64_t MatMul::CopyBytes() const { return copy_a_.bytes() + copy_b_.bytes(); }

int64_t MatMul::ResultBytes() const {
  return ResultBytesOf(*kernel_, spec_.epilogue, spec_.out_dtype,
                       Product(spec_.batch) * spec_.m * spec_.n);
}

int64_t MatMul::scratch_bytes(int workers) const {
  return CopyBytes() + ResultBytes() + kernel_->shared_bytes + workers * kernel_->worker_bytes;
}

// To pack an operand that is copied first would need that copy too.
int64_t MatMul::packed_bytes() const {
  if (!copy_b_.wanted()) return kernel_->packed_bytes;
  return kernel_->packed_bytes > 0 ? 0 : copy_b_.bytes();
}

const std::string& MatMul::packed_key() const {
  return copy_b_.wanted() ? copy_b_.key() : kernel_->packed_key;
}

void MatMul::Pack(const void* b, void* packed, ThreadPool& pool) const {
  HAMMOCK_CHECK(packed_bytes() > 0, "this matmul has no packed weights");
  if (copy_b_.wanted()) {
    copy_b_.Run(b, packed);
  } else {
    kernel_->Pack(b, packed, pool);
  }
}

void MatMul::Run(const Pointers& pointers, std::span<std::byte> scratch, ThreadPool& pool) const {
  Pointers used = pointers;
  if (copy_a_.wanted()) {
    copy_a_.Run(pointers.a, scratch.data());
    used.a = scratch.data();
  }
  if (copy_b_.wanted()) {
    used.packed = nullptr;
    used.b = pointers.packed ? pointers.packed : scratch.data() + copy_a_.bytes();
    if (!pointers.packed) copy_b_.Run(pointers.b, scratch.data() + copy_a_.bytes());
  }
  if (ResultBytes() > 0) used.out = scratch.data() + CopyBytes();
  Scratch memory = kernel_->Divide(scratch.subspan(CopyBytes() + ResultBytes()), pool);
  kernel_->Run(used, memory, pool);
  if (!pointers.epilogue || kernel_->finishes) return;
  RunEpilogue(*pointers.epilogue, used.out, spec_.out_dtype, Product(spec_.batch) * spec_.m,
              spec_.n, memory, pool);
}

}  // namespace hammock::cpu
