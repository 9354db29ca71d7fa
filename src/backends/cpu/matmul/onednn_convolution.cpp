// Convolutions by oneDNN, by bands of an image.
#include "backends/cpu/host/strided_copy.h"
#include "backends/cpu/matmul/byte_rows.h"
#include "backends/cpu/matmul/onednn_kit.h"

namespace hammock::cpu {

using namespace onednn;  // NOLINT: this file is about nothing else

namespace {

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

struct BandPrimitive {
  memory::desc weight;  // as it chose
  Call call;
};

/// The convolution of bands of one geometry: channels are brought last, which is how oneDNN is
/// fastest and how rows stay together, and back. Tensors that lie so already are used as they are.
struct BandKernel {
  Band band;
  memory::desc input, weight, out;  // inside, channels last
  std::optional<StridedCopy> load, store;
  std::shared_ptr<const BandPrimitive> primitive;
};

/// The library's types of the tensors of a convolution.
struct Types {
  memory::data_type input, weight, out;
};

/// Bytes are summed exactly where the processor adds their products in 32 bits: without VNNI the
/// library adds pairs of them in 16.
std::optional<Types> TypesOf(const ConvolutionSpec& spec) {
  const DType input = spec.input.dtype();
  if (spec.out.dtype() == DType::kI32 && spec.weight.dtype() == DType::kI8) {
    if (ByteRows::Best() != ByteRows::Level::kVnni) return std::nullopt;
    if (input == DType::kU8)
      return Types{memory::data_type::u8, memory::data_type::s8, memory::data_type::s32};
    if (input == DType::kI8)
      return Types{memory::data_type::s8, memory::data_type::s8, memory::data_type::s32};
  }
  auto type = TypeOf(input);
  return type ? std::optional(Types{*type, *type, *type}) : std::nullopt;
}

class OneDnnConvolution : public ConvolutionKernel {
 public:
  /// By bands of so many rows of the output.
  OneDnnConvolution(const ConvolutionSpec& spec, const Types& types, int64_t band_rows)
      : spec_(spec), types_(types), band_rows_(band_rows) {
    OneThread one;
    PlanParts();
    MakeBands();
    PlanPacking();
    packed_bytes = shared_bytes = BytesOf(kernels_[0].weight);
    packed_key = KeyOf(PlainWeight()) + KeyOf(kernels_[0].weight);
    call_bytes_ = packer_->scratch_bytes();
    for (const BandKernel& kernel : kernels_) {
      if (kernel.load) input_bytes_ = std::max(input_bytes_, BytesOf(kernel.input));
      if (kernel.store) out_bytes_ = std::max(out_bytes_, BytesOf(kernel.out));
      if (apart) part_bytes_ = std::max(part_bytes_, BytesOf(kernel.out));
      call_bytes_ = std::max(call_bytes_, kernel.primitive->call.scratch_bytes());
    }
    worker_bytes = input_bytes_ + out_bytes_ + part_bytes_ + epilogue_bytes_ + call_bytes_;
  }
  const char* name() const override { return "onednn"; }

  void Pack(const void* weight, void* packed, ThreadPool& pool) const override {
    LibraryCall call;
    std::vector<std::byte> memory(pool.threads() * packer_->scratch_bytes());
    PackInto(weight, packed, {nullptr, memory.data(), packer_->scratch_bytes(), pool.threads()},
             pool);
  }

  void Run(const Convolution::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    LibraryCall call;
    const void* packed = pointers.packed;
    if (!packed) {
      PackInto(pointers.weight, scratch.shared, scratch, pool);
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
  /// Bytes of an element.
  static int64_t WidthOf(const Shape& shape) { return hammock::BytesOf(shape.dtype(), 1); }

  /// A large weight is packed in parts of its output channels, by several threads.
  void PlanPacking() {
    constexpr int64_t kLarge = 1 << 17, kChannels = 64;
    const memory::desc plain = PlainWeight(), packed = kernels_[0].weight;
    const int64_t channels = spec_.out.size(1);
    // Packed bytes may have sums of channels behind them.
    const bool divides = types_.weight == types_.out && spec_.groups == 1;
    if (divides && spec_.weight.numel() >= kLarge) {
      for (int64_t parts : {8, 4, 2}) {
        if (channels % (parts * kChannels) == 0 && PackByParts(plain, packed, parts)) return;
      }
    }
    packer_ = Reorder::Of(plain, packed);
  }

  bool PackByParts(const memory::desc& plain, const memory::desc& packed, int64_t parts) {
    List sizes = WeightSizes(), none(sizes.size()), next(sizes.size());
    next[0] = sizes[0] /= parts;
    try {
      packer_ = Reorder::Of(plain.submemory_desc(sizes, none), packed.submemory_desc(sizes, none));
      from_step_ = plain.submemory_desc(sizes, next).data.offset0 * WidthOf(spec_.weight);
      to_step_ = packed.submemory_desc(sizes, next).data.offset0 * WidthOf(spec_.weight);
    } catch (const dnnl::error&) {
      return false;  // its channels do not lie in such blocks
    }
    packed_parts_ = parts;
    return true;
  }

  void PackInto(const void* weight, void* packed, const Scratch& scratch, ThreadPool& pool) const {
    ForEachTask(pool, scratch.workers, packed_parts_, spec_.weight.numel() / packed_parts_ * 4,
                [&](int64_t part, int worker) {
                  OneThread one;
                  (*packer_)(static_cast<const std::byte*>(weight) + part * from_step_,
                             static_cast<std::byte*>(packed) + part * to_step_, scratch.of(worker));
                });
  }

  /// Whether a tensor lies with its channels last, in effect.
  static bool LiesLast(const Shape& shape, bool last) {
    return last || shape.size(1) == 1 || shape.numel() == shape.size(0) * shape.size(1);
  }

  /// Whether the epilogue runs here: a row of the result is all positions of an image, or all
  /// channels of a position.
  void PlanParts() {
    const EpilogueSpec& epilogue = spec_.epilogue;
    bool whole = spec_.out_last || band_rows_ == spec_.out.size(2);
    finishes = epilogue.wanted && (!epilogue.whole_rows || whole);
    if (!finishes) return;
    apart = !epilogue.stores;
    epilogue_bytes_ = epilogue.scratch_bytes;
  }

  /// The number of positions in `rows` rows of an image.
  static int64_t PositionsOf(const Shape& whole, int64_t rows) {
    for (int d = 3; d < whole.rank(); ++d) rows *= whole.size(d);
    return rows;
  }

  /// Some rows of an image, with the channels last.
  static memory::desc ImageDesc(const Shape& whole, int64_t rows, memory::data_type type) {
    List sizes = {1, whole.size(1)};
    for (int d = 2; d < whole.rank(); ++d) sizes.push_back(d == 2 ? rows : whole.size(d));
    List strides(whole.rank());
    int64_t step = sizes[1];
    for (int d = whole.rank() - 1; d >= 2; --d) {
      strides[d] = step;
      step *= sizes[d];
    }
    strides[1] = 1;
    strides[0] = step;
    return memory::desc(sizes, type, strides);
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
    return memory::desc(sizes, types_.weight, strides);
  }

  void MakeBands() {
    const int64_t step = band_rows_;
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
    kernel.input = ImageDesc(spec_.input, band.input_rows, types_.input);
    kernel.out = ImageDesc(spec_.out, band.rows, types_.out);
    if (!LiesLast(spec_.input, spec_.input_last)) {
      int64_t channels = spec_.input.size(1);
      kernel.load.emplace(
          WidthOf(spec_.input), Dims{channels, PositionsOf(spec_.input, band.input_rows)},
          Dims{PositionsOf(spec_.input, spec_.input.size(2)), 1}, Dims{1, channels});
    }
    if (!LiesLast(spec_.out, spec_.out_last)) {
      int64_t channels = spec_.out.size(1), positions = PositionsOf(spec_.out, band.rows);
      int64_t plane = apart ? positions : PositionsOf(spec_.out, spec_.out.size(2));
      kernel.store.emplace(WidthOf(spec_.out), Dims{channels, positions}, Dims{1, channels},
                           Dims{plane, 1});
    }
    // All bands use the packed weight that the first one chose.
    kernel.weight = kernels_.empty()
                        ? memory::desc(WeightSizes(), types_.weight, memory::format_tag::any)
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
    auto make = [&] {
      typename Primitive::desc wanted(dnnl::prop_kind::forward_inference, algorithm, kernel.input,
                                      kernel.weight, kernel.out, strides, dilates, low, high);
      typename Primitive::primitive_desc desc(wanted, WithOurScratch(), Engine());
      RefuseLastResort(desc);
      memory::desc weight = desc.weights_desc();
      return BandPrimitive{weight, Call(Primitive(desc), desc.scratchpad_desc(),
                                        {{DNNL_ARG_SRC, kernel.input},
                                         {DNNL_ARG_WEIGHTS, weight},
                                         {DNNL_ARG_DST, kernel.out}})};
    };
    std::string key = std::to_string(static_cast<int>(algorithm)) + KeyOf(kernel.input) +
                      KeyOf(kernel.weight) + KeyOf(kernel.out) +
                      KeyOf({&strides, &dilates, &low, &high});
    kernel.primitive = Prepared<BandPrimitive>(key, make);
    kernel.weight = kernel.primitive->weight;
  }

  void RunBand(const Convolution::Pointers& pointers, const void* packed, int64_t image,
               const std::pair<Band, int64_t>& band, std::byte* memory) const {
    OneThread one;
    const BandKernel& kernel = kernels_[band.second];
    std::byte* out = memory + input_bytes_;
    std::byte* part = out + out_bytes_;
    std::byte* epilogue_scratch = part + part_bytes_;
    std::byte* scratch = epilogue_scratch + epilogue_bytes_;
    const std::byte* input = static_cast<const std::byte*>(pointers.input) +
                             Offset(spec_.input, spec_.input_last, image, band.first.input_begin);
    if (kernel.load) {
      kernel.load->RunAlone(reinterpret_cast<const char*>(input), reinterpret_cast<char*>(memory));
      input = memory;
    }
    std::byte* target = part;
    if (!apart) {
      target = static_cast<std::byte*>(pointers.out) +
               Offset(spec_.out, spec_.out_last, image, band.first.begin);
    }
    kernel.primitive->call({input, packed, kernel.store ? out : target, scratch});
    if (kernel.store) {
      kernel.store->RunAlone(reinterpret_cast<const char*>(out), reinterpret_cast<char*>(target));
    }
    if (finishes && pointers.epilogue) {
      pointers.epilogue->Run(PartOf(target, image, band.first), epilogue_scratch);
    }
  }

  /// Bytes to a row of an image.
  static int64_t Offset(const Shape& shape, bool last, int64_t image, int64_t row) {
    int64_t image_size = shape.numel() / shape.size(0);
    int64_t row_size = image_size / shape.size(1) / shape.size(2);
    if (last) row_size *= shape.size(1);
    return (image * image_size + row * row_size) * WidthOf(shape);
  }

  FinishedPart PartOf(std::byte* data, int64_t image, const Band& band) const {
    int64_t channels = spec_.out.size(1);
    int64_t plane = spec_.out.numel() / spec_.out.size(0) / channels;
    int64_t row_size = plane / spec_.out.size(2);
    int64_t first = band.begin * row_size, count = band.rows * row_size;
    if (spec_.out_last) return {data, channels, image * plane + first, count, 0, channels};
    return {data, apart ? count : plane, image * channels, channels, first, count};
  }

  const ConvolutionSpec spec_;
  const Types types_;
  const int64_t band_rows_;
  std::vector<std::pair<Band, int64_t>> bands_;  // with the number of the kernel
  std::vector<BandKernel> kernels_;
  std::shared_ptr<const Reorder> packer_;  // of the weight, or of each part of it
  int64_t packed_parts_ = 1;
  int64_t from_step_ = 0, to_step_ = 0;  // bytes from a part to the next
  int64_t input_bytes_ = 0, out_bytes_ = 0, call_bytes_ = 0;
  int64_t part_bytes_ = 0, epilogue_bytes_ = 0;
};

/// Whether every position of the output reads some of the input in each dim, which keeps bands and
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

/// Without spatial dims of one position, but for one: a library call is a matmul of the positions
/// along the last dim, and tasks are parts of the first.
ConvolutionSpec WithoutUnitDims(ConvolutionSpec spec) {
  for (int d = spec.input.rank() - 1; d >= 2 && spec.input.rank() > 3; --d) {
    const int i = d - 2;
    if (spec.input.size(d) != 1 || spec.weight.size(d) != 1 || spec.out.size(d) != 1 ||
        spec.padding[i] != 0) {
      continue;
    }
    for (Shape* shape : {&spec.input, &spec.weight, &spec.out}) {
      Dims sizes = shape->sizes();
      sizes.erase(d);
      *shape = shape->With(sizes);
    }
    for (Dims* list : {&spec.stride, &spec.padding, &spec.dilation}) list->erase(i);
  }
  return spec;
}

/// The number of output rows of a task: there are enough tasks for many threads, the data of a task
/// fit a cache, and a task is not too little work.
int64_t WantedRows(const ConvolutionSpec& spec) {
  int64_t rows = spec.out.size(2);
  if (spec.transposed) return rows;
  int64_t images = spec.out.size(0);
  int64_t bytes =
      hammock::BytesOf(spec.input.dtype(), (spec.input.numel() + spec.out.numel()) / images);
  int64_t work = spec.out.numel() / images * (spec.weight.numel() / spec.out.size(1));
  int64_t bands = std::max(CeilDiv(16, images), CeilDiv(bytes, 512 << 10));
  bands = std::min(bands, std::max<int64_t>(work >> 21, 1));
  bands = std::min(bands, std::max<int64_t>(rows / 4, 1));
  // The library writes code for each position of a line: 23 ms for 11,000 of them.
  constexpr int64_t kLongestLine = 512;
  if (spec.input.rank() == 3) bands = std::max(bands, CeilDiv(rows, kLongestLine));
  return CeilDiv(rows, bands);
}

/// The next number of rows up to which all bands have as many.
int64_t EvenRows(int64_t rows, int64_t wanted) {
  while (rows % wanted != 0) ++wanted;
  return wanted;
}

}  // namespace

std::unique_ptr<ConvolutionKernel> MakeOneDnnConvolution(const ConvolutionSpec& given) {
  const ConvolutionSpec spec = WithoutUnitDims(given);
  const std::optional<Types> types = TypesOf(spec);
  if (!types || !IsOrdinary(spec) || !IsUsable()) return nullptr;
  LibraryCall call;
  const int64_t rows = spec.out.size(2), wanted = WantedRows(spec);
  // A last band with fewer rows may have no kernel for the weights of the others.
  for (int64_t band_rows : {wanted, EvenRows(rows, wanted), rows}) {
    try {
      return std::make_unique<OneDnnConvolution>(spec, *types, band_rows);
    } catch (const dnnl::error&) {
    }
  }
  return nullptr;
}

}  // namespace hammock::cpu
