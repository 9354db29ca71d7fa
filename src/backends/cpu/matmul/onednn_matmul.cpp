// Matmuls by oneDNN, block by block: those of f32 and f16 by its gemm, those of bf16, and of f32
// with few columns, by primitives.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "backends/cpu/interpret/inner_loops.h"
#include "backends/cpu/interpret/scalar_loops.h"
#include "backends/cpu/matmul/block_matmul.h"
#include "backends/cpu/matmul/onednn_kit.h"

namespace hammock::cpu {

using namespace onednn;  // NOLINT: this file is about nothing else

namespace {

/// Blocks that give work to many threads where there are few rows or little work. The rest was
/// measured on two cores of a Zen 4, with operands outside of their second cache: f32 wants wide
/// blocks, but narrow ones of copied panels where b is stored transposed, or its rows are a
/// multiple of a page apart (5 to 10% faster); bf16 is faster packed from some hundred rows of a
/// on. f16 is widened.
MatMulSplit BlocksOf(const MatMulSpec& spec) {
  if (spec.m <= 32) {
    int64_t columns = std::clamp<int64_t>(RoundUp(CeilDiv(spec.n, 16), 64), 64, 512);
    return MatMulSplit::Of(spec, spec.m, columns);
  }
  if (spec.m * spec.n * spec.k <= 2 * 128 * 128 * 128) return MatMulSplit::Of(spec, 32, 512);
  using enum MatMulSplit::Panels;
  if (spec.dtype != DType::kBF16) {
    bool copies = spec.dtype == DType::kF16 || spec.b.column != 1 ||
                  hammock::BytesOf(spec.dtype, spec.n) % 4096 == 0;
    return MatMulSplit::Of(spec, spec.m >= 512 ? 128 : 64, copies ? 128 : 512,
                           copies ? kCopied : kStored);
  }
  return MatMulSplit::Of(spec, spec.m >= 256 ? 128 : 64, 512, spec.m > 256 ? kPacked : kStored);
}

MatMulSplit SplitOf(const MatMulSpec& spec) {
  MatMulSplit split = BlocksOf(spec);
  if (spec.dtype == DType::kF16) split.storage = MatMulSplit::Panels::kWidened;
  return split;
}

/// Blocks that oneDNN multiplies.
class OneDnnMatMul : public BlockMatMul {
 public:
  using BlockMatMul::BlockMatMul;
  const char* name() const override { return "onednn"; }

  void Run(const MatMul::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    LibraryCall call;
    BlockMatMul::Run(pointers, scratch, pool);
  }

  void Pack(const void* b, void* packed, ThreadPool& pool) const override {
    LibraryCall call;
    BlockMatMul::Pack(b, packed, pool);
  }
};

/// The library's gemm makes static objects when it first multiplies matrices of some kind. They
/// must be there before the exit handler is registered, which then runs before they go (Note
/// [Exit]).
void SetUpGemm() {
  [[maybe_unused]] static const bool done = [] {
    OneThread one;
    for (auto [m, n, k] : {std::array{2, 64, 64}, {32, 32, 32}, {128, 128, 128}, {64, 512, 512}}) {
      std::vector<float> a(m * k), b(k * n), out(m * n);
      dnnl_sgemm('N', 'N', m, n, k, 1.0f, a.data(), k, b.data(), n, 0.0f, out.data(), n);
    }
    process_exit::ComeFirst();
    return true;
  }();
}

/// A block of f32, for which nothing is prepared: a primitive would take 100 to 300 us and 30 kB
/// for each new shape.
void MultiplyFloats(int64_t m, int64_t n, int64_t k, const void* a, int64_t a_row, const void* b,
                    int64_t b_row, void* out, int64_t out_row) {
  OneThread one;
  dnnl::error::wrap_c_api(
      dnnl_sgemm('N', 'N', m, n, k, 1.0f, static_cast<const float*>(a), a_row,
                 static_cast<const float*>(b), b_row, 0.0f, static_cast<float*>(out), out_row),
      "could not multiply");
}

class GemmMatMul : public OneDnnMatMul {
 public:
  explicit GemmMatMul(const MatMulSpec& spec) : OneDnnMatMul(spec, SplitOf(spec)) {}
  const char* name() const override { return "onednn gemm"; }

 private:
  void Multiply(const Block& block, std::byte*) const override {
    MultiplyFloats(Rows(block.last_row), Columns(block.last_panel), spec_.k, block.a, spec_.a.row,
                   block.b, PanelStride(block.last_panel), block.out, spec_.out.row);
  }
};

/// f16 as f32: its panels, and in the memory of a thread a block of a and one of the result.
/// Panels are not kept as packed weights, which would be twice as large as the weights.
class WidenedMatMul : public OneDnnMatMul {
 public:
  explicit WidenedMatMul(const MatMulSpec& spec)
      : OneDnnMatMul(spec, SplitOf(spec)),
        left_bytes_(RoundUp(split_.rows * spec.k * sizeof(float), 64)) {
    PlanPanels(RoundUp(spec.k * split_.columns * sizeof(float), 64), "f32 rows");
    packed_bytes = 0;
    const int64_t block_bytes =
        left_bytes_ + RoundUp(split_.rows * split_.columns * sizeof(float), 64);
    worker_bytes += std::max(block_bytes, RoundUp(spec.k * split_.columns * sizeof(Half), 64));
  }

 private:
  void PackPanel(const std::byte* b, std::byte* panel, bool last,
                 std::byte* scratch) const override {
    CopyPanel(b, scratch, last);
    WidenHalves(spec_.k * Columns(last), reinterpret_cast<const Half*>(scratch),
                reinterpret_cast<float*>(panel));
  }

  void Multiply(const Block& block, std::byte* scratch) const override {
    const int64_t rows = Rows(block.last_row), columns = Columns(block.last_panel);
    const Half* a = reinterpret_cast<const Half*>(block.a);
    float* left = reinterpret_cast<float*>(scratch);
    for (int64_t i = 0; i < rows; ++i) {
      WidenHalves(spec_.k, a + i * spec_.a.row, left + i * spec_.k);
    }
    if (spec_.out_dtype == DType::kF32) {
      MultiplyFloats(rows, columns, spec_.k, left, spec_.k, block.b, columns, block.out,
                     spec_.out.row);
      return;
    }
    float* sums = reinterpret_cast<float*>(scratch + left_bytes_);
    MultiplyFloats(rows, columns, spec_.k, left, spec_.k, block.b, columns, sums, columns);
    for (int64_t i = 0; i < rows; ++i) {
      round_(columns, sums + i * columns, reinterpret_cast<Half*>(block.out) + i * spec_.out.row);
    }
  }

  const UnaryLoop round_ = RoundLoopFor(DType::kF16);
  const int64_t left_bytes_;
};

/// Packs a panel that is stored transposed into the library's blocks of 64 columns, whose rows are
/// pairs of terms: as a transpose of pairs, up to ten times as fast as the library's own reorder.
class PairPacker {
 public:
  /// Nothing if the layouts are others.
  static std::optional<PairPacker> Of(int64_t k, int64_t columns, int64_t column_stride,
                                      const memory::desc& packed) {
    const memory::desc blocks({k, columns}, memory::data_type::bf16,
                              memory::format_tag::BA16a64b2a);
    if (packed != blocks || k % 2 != 0 || column_stride % 2 != 0) return std::nullopt;
    PairPacker packer;
    const int64_t pairs = k / 2, from = column_stride / 2, full = columns / kColumns;
    const int64_t block_pairs = RoundUp(k, 2 * kPairs) / 2 * kColumns;
    packer.full_ = StridedCopy(kBytes, {full, pairs, kColumns}, {kColumns * from, 1, from},
                               {block_pairs, kColumns, 1});
    packer.rest_ = StridedCopy(kBytes, {pairs, columns % kColumns}, {1, from}, {kColumns, 1});
    packer.from_rest_ = full * kColumns * from * kBytes;
    packer.to_rest_ = full * block_pairs * kBytes;
    packer.padded_bytes_ =
        packed.get_size() > static_cast<size_t>(k * columns * 2) ? packed.get_size() : 0;
    return packer;
  }

  void operator()(const std::byte* b, std::byte* packed) const {
    std::memset(packed, 0, padded_bytes_);
    const char* from = reinterpret_cast<const char*>(b);
    char* to = reinterpret_cast<char*>(packed);
    full_.RunAlone(from, to);
    rest_.RunAlone(from + from_rest_, to + to_rest_);
  }

 private:
  static constexpr int64_t kColumns = 64, kPairs = 16;  // of a block
  static constexpr int64_t kBytes = 4;                  // of a pair

  StridedCopy full_, rest_;  // blocks, and a last one with fewer columns
  int64_t from_rest_ = 0, to_rest_ = 0;
  size_t padded_bytes_ = 0;  // if there is padding
};

/// The library's gemm first makes code for matrices of all kinds, for 24 ms. Primitives for up to
/// 64 columns are as fast, and made in less time than a matmul of that much work takes.
bool SuitsPrimitive(const MatMulSpec& spec) {
  return spec.dtype == DType::kF32 && spec.n <= 64 && spec.m * spec.n * spec.k >= 4 << 20;
}

class PrimitiveMatMul : public OneDnnMatMul {
 public:
  PrimitiveMatMul(const MatMulSpec& spec, memory::data_type type, memory::data_type out_type)
      : OneDnnMatMul(spec, SplitOf(spec)), type_(type), out_type_(out_type) {
    OneThread one;
    for (bool last_row : {false, true}) {
      for (bool last_panel : {false, true}) MakeCall(last_row, last_panel);
    }
    if (split_.packs()) MakePackers();
    worker_bytes += call_bytes_;
  }

 private:
  /// The matmul of a block.
  struct BlockCall {
    memory::desc b;
    Call call;
  };

  /// Strides of dims with one element are free; these are what oneDNN expects.
  static memory::desc Matrix(int64_t rows, int64_t columns, int64_t row, int64_t column,
                             memory::data_type type) {
    if (rows == 1) row = std::max(columns * column, row);
    if (columns == 1) column = row == 1 ? rows : 1;
    return memory::desc({rows, columns}, type, memory::dims{row, column});
  }

  /// On processors for which the library has nothing better, its gemm is called directly.
  static void RefuseGemm(const dnnl::matmul::primitive_desc& desc) {
    if (std::string_view(desc.impl_info_str()).starts_with("gemm")) {
      throw dnnl::error(dnnl_unimplemented, "only its gemm");
    }
  }

  memory::desc PlainB(int64_t columns) const {
    return Matrix(spec_.k, columns, spec_.b.row, spec_.b.column, type_);
  }

  /// Blocks of equal size have one call.
  void MakeCall(bool last_row, bool last_panel) {
    const size_t same_rows = last_row && Rows(true) == Rows(false) ? 0 : last_row;
    const size_t same_panel = last_panel && Columns(true) == Columns(false) ? 0 : last_panel;
    const size_t like = same_rows * 2 + same_panel, here = last_row * 2 + last_panel;
    if (like != here) {
      call_of_[here] = call_of_[like];
      return;
    }
    int64_t rows = Rows(last_row);
    int64_t columns = Columns(last_panel);
    memory::desc a = Matrix(rows, spec_.k, spec_.a.row, spec_.a.column, type_);
    memory::desc out = memory::desc({rows, columns}, out_type_, memory::dims{spec_.out.row, 1});
    memory::desc b =
        split_.copies() ? Matrix(spec_.k, columns, columns, 1, type_) : PlainB(columns);
    if (split_.packs()) {
      // All rows are multiplied by the packed weight that the first block chose.
      b = last_row ? CallAt(false, last_panel).b
                   : memory::desc({spec_.k, columns}, type_, memory::format_tag::any);
    }
    auto make = [&] {
      dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, out), WithOurScratch(), Engine());
      RefuseLastResort(desc);
      if (type_ == memory::data_type::f32) RefuseGemm(desc);
      memory::desc used = desc.weights_desc();
      return BlockCall{used,
                       Call(dnnl::matmul(desc), desc.scratchpad_desc(),
                            {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, used}, {DNNL_ARG_DST, out}})};
    };
    call_of_[here] = calls_.size();
    calls_.push_back(Prepared<BlockCall>(KeyOf(a) + KeyOf(b) + KeyOf(out), make));
    call_bytes_ = std::max(call_bytes_, calls_.back()->call.scratch_bytes());
  }

  const BlockCall& CallAt(bool last_row, bool last_panel) const {
    return *calls_[call_of_[last_row * 2 + last_panel]];
  }

  void MakePackers() {
    int64_t panel_bytes = 0;
    std::string key;
    for (bool last : {false, true}) {
      const memory::desc& packed = CallAt(false, last).b;
      packers_.push_back(Reorder::Of(PlainB(Columns(last)), packed));
      if (spec_.b.row == 1) {
        pair_packers_[last] = PairPacker::Of(spec_.k, Columns(last), spec_.b.column, packed);
      }
      call_bytes_ = std::max(call_bytes_, packers_.back()->scratch_bytes());
      panel_bytes = std::max(panel_bytes, BytesOf(packed));
      key += KeyOf(packed);
    }
    PlanPanels(panel_bytes, std::move(key));
  }

  void PackPanel(const std::byte* b, std::byte* packed, bool last,
                 std::byte* scratch) const override {
    if (pair_packers_[last]) return (*pair_packers_[last])(b, packed);
    OneThread one;
    (*packers_[last])(b, packed, scratch);
  }

  void Multiply(const Block& block, std::byte* scratch) const override {
    OneThread one;
    CallAt(block.last_row, block.last_panel).call({block.a, block.b, block.out, scratch});
  }

  const memory::data_type type_, out_type_;
  std::vector<std::shared_ptr<const BlockCall>> calls_;
  size_t call_of_[4] = {};  // which of them: last row block or not, last panel or not
  std::vector<std::shared_ptr<const Reorder>> packers_;  // of panels, the last one differently
  std::optional<PairPacker> pair_packers_[2];            // where b lies so that they can
  int64_t call_bytes_ = 0;
};

}  // namespace

std::unique_ptr<MatMulKernel> MakeOneDnnMatMul(const MatMulSpec& spec) {
  const bool widened = spec.dtype == DType::kF16;
  auto type = TypeOf(widened ? DType::kF32 : spec.dtype);
  auto out_type = TypeOf(widened ? DType::kF32 : spec.out_dtype);
  if (!type || !out_type || !IsUsable()) return nullptr;
  // Both need one dim that lies without gaps.
  if (spec.a.row != 1 && spec.a.column != 1) return nullptr;
  if (spec.b.row != 1 && spec.b.column != 1) return nullptr;
  MatMulSplit split = SplitOf(spec);
  bool row_major = spec.b.column == 1 && spec.b.row == spec.n;
  if (!row_major && split.storage == MatMulSplit::Panels::kStored) return nullptr;
  LibraryCall call;
  if (widened) {
    SetUpGemm();
    return std::make_unique<WidenedMatMul>(spec);
  }
  if (spec.dtype != DType::kF32 || SuitsPrimitive(spec)) {
    try {
      return std::make_unique<PrimitiveMatMul>(spec, *type, *out_type);
    } catch (const dnnl::error&) {
      // Not on this processor, or not in this version.
      if (spec.dtype != DType::kF32) return nullptr;
    }
  }
  SetUpGemm();
  return std::make_unique<GemmMatMul>(spec);
}

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace hammock::cpu
