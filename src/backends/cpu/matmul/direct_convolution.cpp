// Convolutions of f32 by loops of our own: dense ones whose weight stays in a cache, and depthwise
// ones. Compared with a library call they divide small images among threads, read the first image
// of a network as it lies, and hand each band to the epilogue while it is in the nearest cache.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "backends/cpu/host/strided_copy.h"
#include "backends/cpu/matmul/direct_loops.h"
#include "backends/cpu/matmul/matmul_kernel.h"

namespace hammock::cpu {
namespace {

/// Some neighbouring positions along a dim.
struct Span {
  int64_t begin = 0, count = 0;
  int64_t end() const { return begin + count; }
};

Span Intersection(const Span& a, const Span& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max<int64_t>(std::min(a.end(), b.end()) - begin, 0)};
}

/// A spatial dim.
struct Axis {
  int64_t input = 1, out = 1, taps = 1, stride = 1, padding = 0, dilation = 1;

  int64_t InputAt(int64_t position, int64_t tap) const {
    return position * stride - padding + tap * dilation;
  }
  /// The taps of a position that are not in the padding.
  Span TapsAt(int64_t position) const {
    const int64_t first = InputAt(position, 0);
    const int64_t begin = std::min(CeilDiv(std::max<int64_t>(-first, 0), dilation), taps);
    const int64_t end = CeilDiv(std::max<int64_t>(input - first, 0), dilation);
    return {begin, std::max<int64_t>(std::min(end, taps) - begin, 0)};
  }
  /// The input that some positions read.
  Span InputOf(const Span& positions) const {
    const int64_t begin = InputAt(positions.begin, 0);
    const int64_t end = InputAt(positions.end() - 1, taps - 1) + 1;
    return Intersection({begin, end - begin}, {0, input});
  }
};

/// Positions whose taps are the same.
struct Segment {
  Span positions, taps;
};

std::vector<Segment> SegmentsOf(const Axis& axis) {
  std::vector<Segment> segments;
  for (int64_t i = 0; i < axis.out; ++i) {
    const Span taps = axis.TapsAt(i);
    if (!segments.empty() && segments.back().taps.begin == taps.begin &&
        segments.back().taps.count == taps.count) {
      ++segments.back().positions.count;
    } else {
      segments.push_back({{i, 1}, taps});
    }
  }
  return segments;
}

/// Output channels that one run computes.
struct Block {
  int64_t first = 0;
  int vectors = 0;
  int64_t last_vector = 0;  // as in DirectRun
  int64_t weight = 0;       // where it begins in the packed weight
};

/// Positions of a run have this distance from each other, and begin here.
struct Steps {
  int64_t input, out;
};

bool IsDepthwise(const ConvolutionSpec& spec) {
  return spec.groups > 1 && spec.groups == spec.input.size(1) && spec.groups == spec.out.size(1);
}

const DirectLoops* HostLoops() { return DirectLoops::Of(HostFeatures().processor); }

class DirectConvolution : public ConvolutionKernel {
 public:
  explicit DirectConvolution(const ConvolutionSpec& spec)
      : spec_(spec),
        loops_(*HostLoops()),
        depthwise_(IsDepthwise(spec)),
        channels_(spec.input.size(1)),
        out_channels_(spec.out.size(1)),
        terms_(depthwise_ ? 1 : channels_) {
    const int columns = spec.input.rank() - 3;
    if (columns > 0) rows_ = AxisOf(0);
    columns_ = AxisOf(columns);
    row_segments_ = SegmentsOf(rows_);
    column_segments_ = SegmentsOf(columns_);
    MakeBlocks();
    PlanTasks();
    PlanParts();
    PlanCopies();
    worker_bytes = input_bytes_ + out_bytes_ + part_bytes_ + epilogue_bytes_;
  }

  static bool Suits(const ConvolutionSpec& spec) {
    constexpr int64_t kMostWeight = 1 << 17;  // elements
    const DirectLoops* loops = HostLoops();
    const bool depthwise = IsDepthwise(spec);
    return loops && spec.input.dtype() == DType::kF32 && spec.out.dtype() == DType::kF32 &&
           !spec.transposed && (spec.input.rank() == 3 || spec.input.rank() == 4) &&
           spec.out.size(1) >= loops->lanes &&
           (depthwise || (spec.groups == 1 && spec.weight.numel() <= kMostWeight));
  }

  const char* name() const override { return "direct"; }

  void Pack(const void* weight, void* packed, ThreadPool& pool) const override {
    PackInto(static_cast<const float*>(weight), static_cast<float*>(packed), pool.threads(), pool);
  }

  void Run(const Convolution::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    const float* packed = static_cast<const float*>(pointers.packed);
    if (!packed) {
      packed = reinterpret_cast<const float*>(scratch.shared);
      PackInto(static_cast<const float*>(pointers.weight), reinterpret_cast<float*>(scratch.shared),
               scratch.workers, pool);
    }
    const ChannelEpilogue finish =
        in_registers_ ? pointers.epilogue->OfChannels() : ChannelEpilogue();
    ForEachTask(pool, scratch.workers, spec_.out.size(0) * tasks_, task_work_,
                [&](int64_t task, int worker) {
                  RunTask(pointers, packed, finish, task / tasks_, task % tasks_,
                          scratch.of(worker));
                });
  }

 private:
  int64_t taps() const { return rows_.taps * columns_.taps; }
  static int64_t BytesOfFloats(int64_t count) { return RoundUp(BytesOf(DType::kF32, count), 64); }

  Axis AxisOf(int i) const {
    return {.input = spec_.input.size(i + 2),
            .out = spec_.out.size(i + 2),
            .taps = spec_.weight.size(i + 2),
            .stride = spec_.stride[i],
            .padding = spec_.padding[i],
            .dilation = spec_.dilation[i]};
  }

  /// Blocks have as many vectors as each other, or one less.
  void MakeBlocks() {
    const int64_t vectors = CeilDiv(out_channels_, loops_.lanes);
    const int64_t blocks = CeilDiv(vectors, loops_.most_vectors);
    int64_t weights = 0;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t first = vectors * i / blocks, end = vectors * (i + 1) / blocks;
      Block block;
      block.first = first * loops_.lanes;
      block.vectors = static_cast<int>(end - first);
      block.last_vector = (block.vectors - 1) * int64_t{loops_.lanes};
      // Where channels end within a vector, the vector begins earlier and repeats some.
      const int64_t over = end * loops_.lanes - out_channels_;
      if (over > 0) {
        block.vectors == 1 ? block.first -= over : block.last_vector -= over;
      }
      block.weight = weights;
      weights += taps() * terms_ * WidthOf(block);
      blocks_.push_back(block);
    }
    packed_bytes = shared_bytes = BytesOfFloats(weights);
    packed_key = fmt::format("direct {} {} {} {}", loops_.lanes, depthwise_,
                             ToString(spec_.weight.sizes()), out_channels_);
  }

  int64_t WidthOf(const Block& block) const { return int64_t{block.vectors} * loops_.lanes; }

  /// A task is some rows of an image, or some columns of the only row: enough work to be worth
  /// handing to a thread, and a result that fits the nearest cache.
  void PlanTasks() {
    constexpr int64_t kWork = 1 << 18, kBytes = 24 << 10, kSums = 8;
    const int64_t across = rows_.out > 1 ? columns_.out : 1;
    // The products of a depthwise convolution take about four times as long.
    const int64_t work = across * out_channels_ * taps() * (depthwise_ ? 4 : terms_);
    const int64_t bytes = BytesOf(DType::kF32, across * out_channels_);
    const int64_t along = rows_.out > 1 ? rows_.out : columns_.out;
    // Where columns reach into the padding, runs go down the rows: few would wait for their sums.
    const int64_t least = column_segments_.size() > 1 ? CeilDiv(kSums, blocks_[0].vectors) : 1;
    const int64_t wanted = std::max(std::min(kWork / work, kBytes / bytes), least);
    tasks_ = CeilDiv(along, wanted);
    task_size_ = CeilDiv(along, tasks_);
    tasks_ = CeilDiv(along, task_size_);
    task_work_ = work * task_size_;
  }

  Span SpanOf(int64_t task) const {
    const int64_t along = rows_.out > 1 ? rows_.out : columns_.out;
    return Intersection({task * task_size_, task_size_}, {0, along});
  }
  Span RowsOf(int64_t task) const { return rows_.out > 1 ? SpanOf(task) : Span{0, 1}; }
  Span ColumnsOf(int64_t task) const {
    return rows_.out > 1 ? Span{0, columns_.out} : SpanOf(task);
  }

  static bool LiesLast(const Shape& shape, bool last) {
    return last || shape.size(1) == 1 || shape.numel() == shape.size(0) * shape.size(1);
  }

  void PlanParts() {
    const EpilogueSpec& epilogue = spec_.epilogue;
    // A vector that repeats channels would add the other image to what may have replaced it.
    in_registers_ =
        epilogue.bias_size == out_channels_ && spec_.out_last && out_channels_ % loops_.lanes == 0;
    if (in_registers_) {
      finishes = apart = true;
      return;
    }
    finishes = epilogue.wanted && (!epilogue.whole_rows || spec_.out_last || tasks_ == 1);
    if (!finishes) return;
    apart = !epilogue.stores;
    epilogue_bytes_ = epilogue.scratch_bytes;
  }

  /// Images with their channels first are transposed by each task, but for the input of a dense
  /// convolution with few channels, which is read as it lies.
  void PlanCopies() {
    constexpr int64_t kFewChannels = 16;
    loads_ = !LiesLast(spec_.input, spec_.input_last) && (depthwise_ || channels_ > kFewChannels);
    stores_ = !LiesLast(spec_.out, spec_.out_last);
    for (int64_t task = 0; task < tasks_; ++task) {
      const int64_t read = InputOf(task).count * InputAcross();
      const int64_t written = PositionsOf(task);
      if (loads_) {
        input_bytes_ = std::max(input_bytes_, BytesOfFloats(read * channels_));
        AddCopy(load_, read, {rows_.input * columns_.input, 1}, {1, channels_}, channels_);
      }
      if (stores_) {
        out_bytes_ = std::max(out_bytes_, BytesOfFloats(written * out_channels_));
        AddCopy(store_, written, {1, out_channels_},
                {apart ? written : rows_.out * columns_.out, 1}, out_channels_);
      }
      if (apart && !in_registers_)
        part_bytes_ = std::max(part_bytes_, BytesOfFloats(written * out_channels_));
    }
  }

  struct Copy {
    int64_t positions;
    StridedCopy copy;
  };
  static void AddCopy(std::vector<Copy>& copies, int64_t positions, const Dims& from,
                      const Dims& to, int64_t channels) {
    if (!copies.empty() && CopyOf(copies, positions)) return;
    copies.push_back(
        {positions, StridedCopy(BytesOf(DType::kF32, 1), Dims{channels, positions}, from, to)});
  }
  static const StridedCopy* CopyOf(const std::vector<Copy>& copies, int64_t positions) {
    for (const Copy& copy : copies) {
      if (copy.positions == positions) return &copy.copy;
    }
    return nullptr;
  }

  /// Rows of the input, or columns of the only row.
  Span InputOf(int64_t task) const {
    return HasRows() ? rows_.InputOf(RowsOf(task)) : columns_.InputOf(ColumnsOf(task));
  }
  int64_t InputAcross() const { return HasRows() ? columns_.input : 1; }
  bool HasRows() const { return rows_.input > 1 || rows_.out > 1; }
  int64_t PositionsOf(int64_t task) const { return RowsOf(task).count * ColumnsOf(task).count; }

  void PackInto(const float* weight, float* packed, int workers, ThreadPool& pool) const {
    ForEachTask(pool, workers, static_cast<int64_t>(blocks_.size()),
                taps() * terms_ * loops_.lanes * loops_.most_vectors * 4,
                [&](int64_t i, int) { PackBlock(blocks_[i], weight, packed + blocks_[i].weight); });
  }

  /// [taps, terms, channels of the block] of weight[channels, terms, taps].
  void PackBlock(const Block& block, const float* weight, float* packed) const {
    const int64_t step = terms_ * taps();
    for (int64_t tap = 0; tap < taps(); ++tap) {
      for (int64_t term = 0; term < terms_; ++term) {
        for (int v = 0; v < block.vectors; ++v) {
          const bool last = v == block.vectors - 1;
          const int64_t first = block.first + (last ? block.last_vector : v * loops_.lanes);
          const float* from = weight + first * step + term * taps() + tap;
          for (int64_t lane = 0; lane < loops_.lanes; ++lane) *packed++ = from[lane * step];
        }
      }
    }
  }

  /// The input of a task: an image, or the copy of a part of it.
  struct Image {
    const float* data;
    int64_t row, column, channel;  // steps
  };

  Image LoadInput(const float* image, int64_t task, float* memory) const {
    if (!loads_) {
      if (!LiesLast(spec_.input, spec_.input_last)) {
        return {image, columns_.input, 1, rows_.input * columns_.input};
      }
      return {image, columns_.input * channels_, channels_, 1};
    }
    const Span part = InputOf(task);
    const int64_t first = part.begin * InputAcross(), count = part.count * InputAcross();
    CopyOf(load_, count)
        ->RunAlone(reinterpret_cast<const char*>(image + first), reinterpret_cast<char*>(memory));
    return {memory - first * channels_, columns_.input * channels_, channels_, 1};
  }

  void RunTask(const Convolution::Pointers& pointers, const float* packed,
               const ChannelEpilogue& finish, int64_t image, int64_t task,
               std::byte* memory) const {
    float* loaded = reinterpret_cast<float*>(memory);
    float* computed = reinterpret_cast<float*>(memory + input_bytes_);
    float* part = reinterpret_cast<float*>(memory + input_bytes_ + out_bytes_);
    std::byte* epilogue_scratch = memory + input_bytes_ + out_bytes_ + part_bytes_;
    const int64_t plane = rows_.out * columns_.out;
    const int64_t first = RowsOf(task).begin * columns_.out + ColumnsOf(task).begin;
    const int64_t count = PositionsOf(task);
    const int64_t at = image * out_channels_ * plane + first * (stores_ ? 1 : out_channels_);
    const Image input = LoadInput(static_cast<const float*>(pointers.input) +
                                      image * channels_ * rows_.input * columns_.input,
                                  task, loaded);
    if (in_registers_) return Compute(input, packed, task, Moved(finish, at));
    float* target = apart ? part : static_cast<float*>(pointers.out) + at;
    Compute(input, packed, task, {.out = stores_ ? computed : target});
    if (stores_) {
      CopyOf(store_, count)
          ->RunAlone(reinterpret_cast<const char*>(computed), reinterpret_cast<char*>(target));
    }
    if (finishes && pointers.epilogue) {
      pointers.epilogue->Run(PartOf(target, image, first, count), epilogue_scratch);
    }
  }

  FinishedPart PartOf(float* target, int64_t image, int64_t first, int64_t count) const {
    const int64_t plane = rows_.out * columns_.out;
    auto* data = reinterpret_cast<std::byte*>(target);
    if (spec_.out_last)
      return {data, out_channels_, image * plane + first, count, 0, out_channels_};
    return {data, apart ? count : plane, image * out_channels_, out_channels_, first, count};
  }

  /// At another element of the image.
  static ChannelEpilogue Moved(ChannelEpilogue target, int64_t elements) {
    target.out += elements;
    if (target.other) target.other += elements;
    return target;
  }

  /// The positions of a task, with the channels last; without a bias as they are.
  void Compute(const Image& input, const float* packed, int64_t task,
               const ChannelEpilogue& target) const {
    const Span rows = RowsOf(task), columns = ColumnsOf(task);
    for (const Block& block : blocks_) {
      for (const Segment& row : row_segments_) {
        const Span some_rows = Intersection(row.positions, rows);
        if (some_rows.count == 0) continue;
        for (const Segment& column : column_segments_) {
          const Span some_columns = Intersection(column.positions, columns);
          if (some_columns.count == 0) continue;
          const int64_t first =
              (some_rows.begin - rows.begin) * columns.count + some_columns.begin - columns.begin;
          RunRectangle(input, packed + block.weight, block, {some_rows, row.taps},
                       {some_columns, column.taps}, columns.count * out_channels_,
                       Moved(target, first * out_channels_));
        }
      }
    }
  }

  /// Positions with the same taps, by runs along the longer side.
  void RunRectangle(const Image& input, const float* weight, const Block& block,
                    const Segment& rows, const Segment& columns, int64_t out_row,
                    const ChannelEpilogue& target) const {
    const int64_t width = WidthOf(block);
    const Steps down = {rows_.stride * input.row, out_row};
    const Steps right = {columns_.stride * input.column, out_channels_};
    DirectRun run;
    run.input = input.data + rows_.InputAt(rows.positions.begin, rows.taps.begin) * input.row +
                columns_.InputAt(columns.positions.begin, columns.taps.begin) * input.column +
                (depthwise_ ? block.first : 0);
    run.rows = rows.taps.count;
    run.columns = columns.taps.count;
    run.input_row = rows_.dilation * input.row;
    run.input_column = columns_.dilation * input.column;
    run.weight_column = terms_ * width;
    run.weight_row = columns_.taps * run.weight_column;
    run.weight = weight + rows.taps.begin * run.weight_row + columns.taps.begin * run.weight_column;
    run.terms = terms_;
    run.term_step = input.channel;
    run.last_vector = block.last_vector;
    run.out = target.out + block.first;
    run.bias = target.bias ? target.bias + block.first : nullptr;
    run.other = target.other ? target.other + block.first : nullptr;
    run.low = target.low;
    run.high = target.high;
    const int64_t height = rows.positions.count, length = columns.positions.count;
    const auto loop = (depthwise_ ? loops_.depthwise : loops_.dense)[block.vectors - 1];
    if (down.input == length * right.input && down.out == length * right.out) {
      RunLines(run, loop, {1, height * length}, down, right);
    } else if (length >= height) {
      RunLines(run, loop, {height, length}, down, right);
    } else {
      RunLines(run, loop, {length, height}, right, down);
    }
  }

  /// `sizes`: lines, and positions of a line.
  static void RunLines(DirectRun run, DirectLoops::Loop loop, std::pair<int64_t, int64_t> sizes,
                       const Steps& next_line, const Steps& step) {
    run.positions = sizes.second;
    run.input_step = step.input;
    run.out_step = step.out;
    for (int64_t i = 0; i < sizes.first; ++i) {
      loop(run);
      run.input += next_line.input;
      run.out += next_line.out;
      if (run.other) run.other += next_line.out;
    }
  }

  const ConvolutionSpec spec_;
  const DirectLoops& loops_;
  const bool depthwise_;
  const int64_t channels_, out_channels_;
  const int64_t terms_;  // input channels that an element of the result reads
  Axis rows_, columns_;
  std::vector<Segment> row_segments_, column_segments_;
  std::vector<Block> blocks_;
  int64_t tasks_ = 1, task_size_ = 1, task_work_ = 1;
  bool loads_ = false, stores_ = false;  // copies between layouts
  bool in_registers_ = false;            // the epilogue
  std::vector<Copy> load_, store_;       // by their number of positions
  int64_t input_bytes_ = 0, out_bytes_ = 0, part_bytes_ = 0, epilogue_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ConvolutionKernel> MakeDirectConvolution(const ConvolutionSpec& spec) {
  if (!DirectConvolution::Suits(spec)) return nullptr;
  return std::make_unique<DirectConvolution>(spec);
}

}  // namespace hammock::cpu
