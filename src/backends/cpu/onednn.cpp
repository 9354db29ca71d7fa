// The only file that knows oneDNN. Its primitives run on one thread each, in our pool: a team of
// its own would fight with ours.
//
// Note [oneDNN on one thread]
// Primitives are made and executed with OpenMP set to one thread, since both the choice of a
// kernel and its split depend on that number. Their scratch memory is ours, one for each thread: a
// primitive that two threads execute at once would otherwise share it and compute nonsense.
#include <omp.h>

#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/product_kernel.h"

namespace hammock::cpu {
namespace {

using dnnl::memory;

/// OpenMP has one thread in this scope, for the calling thread.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

const dnnl::engine& Engine() {
  static const auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& Stream() {
  static thread_local dnnl::stream stream(Engine());
  return stream;
}

std::optional<memory::data_type> TypeOf(DType dtype) {
  if (dtype == DType::kF32) return memory::data_type::f32;
  if (dtype == DType::kBF16) return memory::data_type::bf16;
  return std::nullopt;
}

dnnl::primitive_attr WithOurScratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

int64_t BytesOf(const memory::desc& desc) {
  return RoundUp(static_cast<int64_t>(desc.get_size()), 64);
}

/// A primitive with the layouts of its arguments. Several threads may execute it at once: each uses
/// one of the sets of argument objects, which are kept because making them takes a microsecond.
class Call {
 public:
  Call() = default;
  /// `arguments` are oneDNN's names; the scratch memory is added.
  Call(dnnl::primitive primitive, const memory::desc& scratch,
       std::vector<std::pair<int, memory::desc>> arguments)
      : primitive_(std::move(primitive)),
        scratch_bytes_(BytesOf(scratch)),
        arguments_(std::move(arguments)),
        sets_(std::make_unique<Sets>()) {
    arguments_.emplace_back(DNNL_ARG_SCRATCHPAD, scratch);
  }

  int64_t scratch_bytes() const { return scratch_bytes_; }

  /// The data of the arguments in their order, the scratch memory last.
  void operator()(std::initializer_list<const void*> data) const {
    std::unique_ptr<Set> set = Take();
    size_t i = 0;
    for (const void* pointer : data) {
      set->memories[i++].set_data_handle(const_cast<void*>(pointer), Stream());
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), Stream().get(), static_cast<int>(set->list.size()),
                               set->list.data()),
        "could not execute a primitive");
    std::unique_lock lock(sets_->mutex, std::try_to_lock);
    if (lock) sets_->free.push_back(std::move(set));
  }

 private:
  struct Set {
    std::vector<memory> memories;
    std::vector<dnnl_exec_arg_t> list;
  };
  struct Sets {
    std::mutex mutex;
    std::vector<std::unique_ptr<Set>> free;
  };

  /// Waits for nobody: a lock that another thread held during a fork is never given back.
  std::unique_ptr<Set> Take() const {
    if (std::unique_lock lock(sets_->mutex, std::try_to_lock); lock && !sets_->free.empty()) {
      std::unique_ptr<Set> set = std::move(sets_->free.back());
      sets_->free.pop_back();
      return set;
    }
    auto set = std::make_unique<Set>();
    for (const auto& [which, desc] : arguments_) {
      set->memories.emplace_back(desc, Engine(), nullptr);
      set->list.push_back({which, set->memories.back().get()});
    }
    return set;
  }

  dnnl::primitive primitive_;
  int64_t scratch_bytes_ = 0;
  std::vector<std::pair<int, memory::desc>> arguments_;
  std::unique_ptr<Sets> sets_;
};

/// A copy from one layout to another.
struct Reorder {
  Reorder(const memory::desc& from, const memory::desc& to) {
    dnnl::reorder::primitive_desc desc(Engine(), from, Engine(), to, WithOurScratch());
    call = Call(dnnl::reorder(desc), desc.scratchpad_desc(),
                {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  int64_t scratch_bytes() const { return call.scratch_bytes(); }
  void operator()(const void* source, void* target, std::byte* scratch) const {
    call({source, target, scratch});
  }

  Call call;
};

// ---- products of matrices

/// How a product is divided: by its shape alone.
struct Split {
  explicit Split(const MatMulSpec& spec) {
    if (spec.m <= 32) {
      rows = spec.m;
      columns = std::clamp<int64_t>(RoundUp(CeilDiv(spec.n, 16), 64), 64, 512);
    } else {
      rows = spec.m * spec.n * spec.k <= 2 * 128 * 128 * 128 ? 32 : spec.m >= 2048 ? 128 : 64;
      columns = RoundUp(CeilDiv(spec.n, CeilDiv(spec.n, 512)), 64);
    }
    columns = std::min(columns, spec.n);
    row_blocks = CeilDiv(spec.m, rows);
    panels = CeilDiv(spec.n, columns);
  }
  int64_t rows, columns;
  int64_t row_blocks, panels;
};

/// The product of a block of rows and a panel of columns.
struct Block {
  memory::desc b;
  Call call;
};

class OneDnnMatMul : public MatMulKernel {
 public:
  OneDnnMatMul(const MatMulSpec& spec, memory::data_type type, memory::data_type out_type)
      : spec_(spec), type_(type), out_type_(out_type), split_(spec), packs_(spec.m >= 48) {
    OneThread one;
    for (bool last_row : {false, true}) {
      for (bool last_panel : {false, true}) MakeBlock(last_row, last_panel);
    }
    if (packs_) {
      for (bool last : {false, true}) {
        packers_.emplace_back(PlainB(Columns(last)), blocks_[last].b);
        panel_bytes_ = std::max(panel_bytes_, BytesOf(blocks_[last].b));
        worker_bytes = std::max(worker_bytes, packers_.back().scratch_bytes());
      }
      packed_bytes = Product(spec.batch) * split_.panels * panel_bytes_;
      shared_bytes = packed_bytes;
    }
  }
  const char* name() const override { return "onednn"; }

  void Pack(const void* b, void* packed, ThreadPool& pool) const override {
    std::vector<std::byte> memory(pool.threads() * worker_bytes + 64);
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* first = memory.data() + (RoundUp(address, 64) - address);
    PackInto(b, static_cast<std::byte*>(packed), {nullptr, first, worker_bytes, pool.threads()},
             pool);
  }

  void Run(const MatMul::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    const std::byte* packed = static_cast<const std::byte*>(pointers.packed);
    if (packs_ && !packed) {
      PackInto(pointers.b, scratch.shared, scratch, pool);
      packed = scratch.shared;
    }
    int64_t tasks = Product(spec_.batch) * split_.row_blocks * split_.panels;
    ForEachTask(pool, scratch.workers, tasks, split_.rows * split_.columns * spec_.k,
                [&](int64_t task, int worker) {
                  // Panels change slowest: a thread meets the same one again.
                  int64_t batch = task / (split_.row_blocks * split_.panels);
                  int64_t panel = task / split_.row_blocks % split_.panels;
                  RunBlock(pointers, packed, batch, task % split_.row_blocks, panel,
                           scratch.of(worker));
                });
  }

 private:
  int64_t Rows(bool last) const {
    return last ? spec_.m - (split_.row_blocks - 1) * split_.rows : split_.rows;
  }
  int64_t Columns(bool last) const {
    return last ? spec_.n - (split_.panels - 1) * split_.columns : split_.columns;
  }

  /// Strides of dims with one element are free; these are what oneDNN expects.
  static memory::desc Matrix(int64_t rows, int64_t columns, int64_t row, int64_t column,
                             memory::data_type type) {
    if (rows == 1) row = std::max(columns * column, row);
    if (columns == 1) column = row == 1 ? rows : 1;
    return memory::desc({rows, columns}, type, memory::dims{row, column});
  }

  memory::desc PlainB(int64_t columns) const {
    return Matrix(spec_.k, columns, spec_.b.row, spec_.b.column, type_);
  }

  void MakeBlock(bool last_row, bool last_panel) {
    int64_t rows = Rows(last_row);
    int64_t columns = Columns(last_panel);
    Block block;
    memory::desc a = Matrix(rows, spec_.k, spec_.a.row, spec_.a.column, type_);
    memory::desc out = memory::desc({rows, columns}, out_type_, memory::dims{spec_.out.row, 1});
    block.b = PlainB(columns);
    if (packs_) {
      // All rows meet the form that the first block chose.
      block.b = last_row ? blocks_[last_panel].b
                         : memory::desc({spec_.k, columns}, type_, memory::format_tag::any);
    }
    dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, block.b, out), WithOurScratch(),
                                      Engine());
    block.b = desc.weights_desc();
    block.call = Call(dnnl::matmul(desc), desc.scratchpad_desc(),
                      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, block.b}, {DNNL_ARG_DST, out}});
    worker_bytes = std::max(worker_bytes, block.call.scratch_bytes());
    blocks_.push_back(std::move(block));
  }

  void PackInto(const void* b, std::byte* packed, const Scratch& scratch, ThreadPool& pool) const {
    int64_t width = hammock::BytesOf(spec_.dtype, 1);
    int64_t panels = split_.panels;
    ForEachTask(pool, scratch.workers, Product(spec_.batch) * panels, spec_.k * split_.columns * 4,
                [&](int64_t task, int worker) {
                  OneThread one;
                  int64_t offset = BatchOffset(spec_.batch, spec_.b.batch, task / panels) +
                                   task % panels * split_.columns * spec_.b.column;
                  packers_[task % panels == panels - 1](
                      static_cast<const std::byte*>(b) + offset * width,
                      packed + task * panel_bytes_, scratch.of(worker));
                });
  }

  void RunBlock(const MatMul::Pointers& pointers, const std::byte* packed, int64_t batch,
                int64_t row_block, int64_t panel, std::byte* scratch) const {
    OneThread one;
    bool last_row = row_block == split_.row_blocks - 1;
    bool last_panel = panel == split_.panels - 1;
    const Block& block = blocks_[last_row * 2 + last_panel];
    int64_t width = hammock::BytesOf(spec_.dtype, 1);
    int64_t out_width = hammock::BytesOf(spec_.out_dtype, 1);
    int64_t row = row_block * split_.rows;
    int64_t column = panel * split_.columns;
    int64_t a = BatchOffset(spec_.batch, spec_.a.batch, batch) + row * spec_.a.row;
    int64_t b = BatchOffset(spec_.batch, spec_.b.batch, batch) + column * spec_.b.column;
    int64_t out = BatchOffset(spec_.batch, spec_.out.batch, batch) + row * spec_.out.row + column;
    std::byte* target = static_cast<std::byte*>(pointers.out) + out * out_width;
    const std::byte* right = packed ? packed + (batch * split_.panels + panel) * panel_bytes_
                                    : static_cast<const std::byte*>(pointers.b) + b * width;
    block.call({static_cast<const std::byte*>(pointers.a) + a * width, right, target, scratch});
    if (!spec_.bias) return;
    AddBiasRow(spec_.out_dtype, target, Rows(last_row), Columns(last_panel), spec_.out.row,
               static_cast<const std::byte*>(pointers.bias) + column * out_width);
  }

  const MatMulSpec spec_;
  const memory::data_type type_, out_type_;
  const Split split_;
  const bool packs_;           // the panels of b, before the product
  std::vector<Block> blocks_;  // last row block or not, last panel or not
  std::vector<Reorder> packers_;
  int64_t panel_bytes_ = 0;
};

// ---- convolutions

/// Rows of the output that are computed at once, with the rows of the input that they need. A
/// transposed convolution is one band.
struct Band {
  int64_t begin = 0;  ///< first row of the output
  int64_t rows = 0;
  int64_t input_begin = 0;
  int64_t input_rows = 0;
  int64_t low = 0;  ///< padding before and after these
  int64_t high = 0;

  bool SameGeometry(const Band& other) const {
    return rows == other.rows && input_rows == other.input_rows && low == other.low &&
           high == other.high;
  }
};

/// The convolution of bands of one geometry: channels are brought last, which is how oneDNN is
/// fastest and how rows stay together, and back.
struct BandKernel {
  Band band;
  memory::desc input, weight, out;  // inside, channels last
  std::optional<Reorder> load, store;
  Call call;
};

class OneDnnConvolution : public ConvolutionKernel {
 public:
  OneDnnConvolution(const ConvolutionSpec& spec, memory::data_type type)
      : spec_(spec), type_(type), width_(hammock::BytesOf(spec.input.dtype(), 1)) {
    OneThread one;
    MakeBands();
    packer_.emplace(PlainWeight(), kernels_[0].weight);
    packed_bytes = shared_bytes = BytesOf(kernels_[0].weight);
    for (const BandKernel& kernel : kernels_) {
      input_bytes_ = std::max(input_bytes_, BytesOf(kernel.input));
      out_bytes_ = std::max(out_bytes_, BytesOf(kernel.out));
      for (int64_t bytes : {kernel.load->scratch_bytes(), kernel.store->scratch_bytes(),
                            kernel.call.scratch_bytes(), packer_->scratch_bytes()}) {
        call_bytes_ = std::max(call_bytes_, bytes);
      }
    }
    worker_bytes = input_bytes_ + out_bytes_ + call_bytes_;
  }
  const char* name() const override { return "onednn"; }

  void Pack(const void* weight, void* packed, ThreadPool&) const override {
    OneThread one;
    std::vector<std::byte> scratch(packer_->scratch_bytes());
    (*packer_)(weight, packed, scratch.data());
  }

  void Run(const Convolution::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    const void* packed = pointers.packed;
    if (!packed) {
      OneThread one;
      (*packer_)(pointers.weight, scratch.shared, scratch.of(0));
      packed = scratch.shared;
    }
    int64_t bands = static_cast<int64_t>(bands_.size());
    int64_t work =
        spec_.out.numel() / spec_.out.size(0) / bands * spec_.weight.numel() / spec_.out.size(1);
    ForEachTask(pool, scratch.workers, spec_.out.size(0) * bands, work,
                [&](int64_t task, int worker) {
                  RunBand(pointers, packed, task / bands, bands_[task % bands], scratch.of(worker));
                });
  }

 private:
  using List = memory::dims;

  int spatial() const { return spec_.input.rank() - 2; }

  /// One image, or some rows of it, with the channels last, or as a part of a row-major tensor.
  memory::desc ImageDesc(const Shape& whole, int64_t rows, bool channels_last) const {
    List sizes = {1, whole.size(1)};
    for (int d = 2; d < whole.rank(); ++d) sizes.push_back(d == 2 ? rows : whole.size(d));
    int rank = whole.rank();
    List strides(rank);
    int64_t step = channels_last ? sizes[1] : 1;
    for (int d = rank - 1; d >= 2; --d) {
      strides[d] = step;
      step *= sizes[d];
    }
    int64_t plane = 1;
    for (int d = 2; d < rank; ++d) plane *= whole.size(d);
    strides[1] = channels_last ? 1 : plane;
    strides[0] = channels_last ? step : plane * sizes[1];
    return memory::desc(sizes, type_, strides);
  }

  /// [out, in, taps] or, with groups, [groups, out, in, taps] of each.
  List WeightSizes() const {
    int64_t in = spec_.input.size(1) / spec_.groups;
    int64_t out = spec_.out.size(1) / spec_.groups;
    List sizes = spec_.groups > 1 ? List{spec_.groups, out, in} : List{out, in};
    for (int d = 2; d < spec_.weight.rank(); ++d) sizes.push_back(spec_.weight.size(d));
    return sizes;
  }

  memory::desc PlainWeight() const {
    List sizes = WeightSizes();
    List strides(sizes.size());
    int64_t step = 1;
    for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
      strides[d] = step;
      step *= sizes[d];
    }
    if (spec_.transposed) {  // lies as [groups, in, out, taps]
      size_t in = sizes.size() - spatial() - 1;
      strides[in - 1] = strides[in];
      strides[in] = strides[in - 1] * sizes[in - 1];
    }
    return memory::desc(sizes, type_, strides);
  }

  /// How many rows of the output a task has: enough tasks for many threads, data that fit a
  /// cache, and not too little work.
  int64_t RowsOfBand() const {
    int64_t rows = spec_.out.size(2);
    if (spec_.transposed) return rows;
    int64_t images = spec_.out.size(0);
    int64_t bytes = (spec_.input.numel() + spec_.out.numel()) / images * width_;
    int64_t work = spec_.out.numel() / images * (spec_.weight.numel() / spec_.out.size(1));
    int64_t bands = std::max(CeilDiv(16, images), CeilDiv(bytes, 512 << 10));
    bands = std::min(bands, std::max<int64_t>(work >> 21, 1));
    bands = std::min(bands, std::max<int64_t>(rows / 4, 1));
    return CeilDiv(rows, bands);
  }

  void MakeBands() {
    int64_t step = RowsOfBand();
    int64_t reach = spec_.dilation[0] * (spec_.weight.size(2) - 1) + 1;
    for (int64_t begin = 0; begin < spec_.out.size(2); begin += step) {
      Band band;
      band.begin = begin;
      band.rows = std::min(step, spec_.out.size(2) - begin);
      band.input_rows = spec_.input.size(2);
      band.low = spec_.padding[0];
      if (!spec_.transposed) {
        int64_t low = begin * spec_.stride[0] - spec_.padding[0];
        int64_t high = (begin + band.rows - 1) * spec_.stride[0] - spec_.padding[0] + reach;
        band.input_begin = std::max<int64_t>(low, 0);
        band.input_rows = std::min(high, spec_.input.size(2)) - band.input_begin;
        band.low = band.input_begin - low;
        band.high = high - band.input_begin - band.input_rows;
      }
      auto same = std::find_if(kernels_.begin(), kernels_.end(),
                               [&](const BandKernel& k) { return k.band.SameGeometry(band); });
      bands_.emplace_back(band, same - kernels_.begin());
      if (same == kernels_.end()) MakeKernel(band);
    }
  }

  void MakeKernel(const Band& band) {
    BandKernel kernel;
    kernel.band = band;
    kernel.input = ImageDesc(spec_.input, band.input_rows, true);
    kernel.out = ImageDesc(spec_.out, band.rows, true);
    kernel.load.emplace(ImageDesc(spec_.input, band.input_rows, false), kernel.input);
    kernel.store.emplace(kernel.out, ImageDesc(spec_.out, band.rows, false));
    // All bands use the form of the weight that the first one chose.
    kernel.weight = kernels_.empty() ? memory::desc(WeightSizes(), type_, memory::format_tag::any)
                                     : kernels_[0].weight;
    List strides, dilates, low, high;
    for (int i = 0; i < spatial(); ++i) {
      int64_t reach = spec_.dilation[i] * (spec_.weight.size(i + 2) - 1) + 1;
      int64_t large = spec_.transposed ? spec_.out.size(i + 2) : spec_.input.size(i + 2);
      int64_t small = spec_.transposed ? spec_.input.size(i + 2) : spec_.out.size(i + 2);
      strides.push_back(spec_.stride[i]);
      dilates.push_back(spec_.dilation[i] - 1);
      low.push_back(i == 0 ? band.low : spec_.padding[i]);
      high.push_back(i == 0 && !spec_.transposed
                         ? band.high
                         : (small - 1) * spec_.stride[i] + reach - spec_.padding[i] - large);
    }
    if (spec_.transposed) {
      Finish<dnnl::deconvolution_forward>(kernel, dnnl::algorithm::deconvolution_direct, strides,
                                          dilates, low, high);
    } else {
      Finish<dnnl::convolution_forward>(kernel, dnnl::algorithm::convolution_direct, strides,
                                        dilates, low, high);
    }
    kernels_.push_back(std::move(kernel));
  }

  template <class Primitive>
  void Finish(BandKernel& kernel, dnnl::algorithm algorithm, const List& strides,
              const List& dilates, const List& low, const List& high) {
    typename Primitive::desc wanted(dnnl::prop_kind::forward_inference, algorithm, kernel.input,
                                    kernel.weight, kernel.out, strides, dilates, low, high);
    typename Primitive::primitive_desc desc(wanted, WithOurScratch(), Engine());
    kernel.weight = desc.weights_desc();
    kernel.call = Call(Primitive(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, kernel.input},
                        {DNNL_ARG_WEIGHTS, kernel.weight},
                        {DNNL_ARG_DST, kernel.out}});
  }

  void RunBand(const Convolution::Pointers& pointers, const void* packed, int64_t image,
               const std::pair<Band, int64_t>& place, std::byte* memory) const {
    OneThread one;
    const BandKernel& kernel = kernels_[place.second];
    std::byte* input = memory;
    std::byte* out = memory + input_bytes_;
    std::byte* scratch = out + out_bytes_;
    auto offset = [&](const Shape& shape, int64_t row) {
      int64_t row_size = 1;
      for (int d = 3; d < shape.rank(); ++d) row_size *= shape.size(d);
      return (image * (shape.numel() / shape.size(0)) + row * row_size) * width_;
    };
    (*kernel.load)(static_cast<const std::byte*>(pointers.input) +
                       offset(spec_.input, place.first.input_begin),
                   input, scratch);
    kernel.call({input, packed, out, scratch});
    int64_t channels = spec_.out.size(1);
    if (spec_.bias) {
      int64_t places =
          spec_.out.numel() / spec_.out.size(0) / channels / spec_.out.size(2) * kernel.band.rows;
      AddBiasRow(spec_.out.dtype(), out, places, channels, channels, pointers.bias);
    }
    (*kernel.store)(
        out, static_cast<std::byte*>(pointers.out) + offset(spec_.out, place.first.begin), scratch);
  }

  const ConvolutionSpec spec_;
  const memory::data_type type_;
  const int64_t width_;                          // bytes of an element
  std::vector<std::pair<Band, int64_t>> bands_;  // with the number of the kernel
  std::vector<BandKernel> kernels_;
  std::optional<Reorder> packer_;
  int64_t input_bytes_ = 0, out_bytes_ = 0, call_bytes_ = 0;
};

/// Whether every place of the output meets some of the input in each dim, which keeps bands and
/// paddings within what oneDNN defines.
bool IsOrdinary(const ConvolutionSpec& spec) {
  if (spec.input.rank() > 5) return false;
  for (int d = 2; d < spec.input.rank(); ++d) {
    int i = d - 2;
    int64_t reach = spec.dilation[i] * (spec.weight.size(d) - 1) + 1;
    if (spec.padding[i] >= reach) return false;
    if (!spec.transposed) continue;
    int64_t high =
        (spec.input.size(d) - 1) * spec.stride[i] + reach - spec.padding[i] - spec.out.size(d);
    if (high < 0) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<MatMulKernel> MakeOneDnnMatMul(const MatMulSpec& spec) {
  auto type = TypeOf(spec.dtype);
  auto out_type = TypeOf(spec.out_dtype);
  if (!type || !out_type) return nullptr;
  // Both need one dim that lies without gaps.
  if (spec.a.row != 1 && spec.a.column != 1) return nullptr;
  if (spec.b.row != 1 && spec.b.column != 1) return nullptr;
  try {
    return std::make_unique<OneDnnMatMul>(spec, *type, *out_type);
  } catch (const dnnl::error&) {
    return nullptr;  // not on this processor, or not in this version
  }
}

std::unique_ptr<ConvolutionKernel> MakeOneDnnConvolution(const ConvolutionSpec& spec) {
  auto type = TypeOf(spec.input.dtype());
  if (!type || !IsOrdinary(spec)) return nullptr;
  try {
    return std::make_unique<OneDnnConvolution>(spec, *type);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace hammock::cpu
