// The gradient of a convolution's weight by oneDNN: sums over groups of images, each for blocks of
// output channels, then their sum.
#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/matmul/onednn_kit.h"
#include "hammock/config.h"
#include "ir/primitives.h"

namespace hammock::cpu {

using namespace onednn;  // NOLINT: this file is about nothing else

namespace {

/// The sum over some images: both tensors go into layouts that oneDNN likes, and so is the result.
struct ImagesKernel {
  memory::desc input, grad, weight;
  std::shared_ptr<const Reorder> load_input, load_grad;
  onednn::Call call;

  int64_t scratch_bytes() const {
    return std::max(
        {load_input->scratch_bytes(), load_grad->scratch_bytes(), call.scratch_bytes()});
  }
};

class WeightBackwardCall : public cpu::Call {
 public:
  WeightBackwardCall(const Graph& graph, const GraphNode& node)
      : input_(graph.TypeOf(node.inputs[1])),
        grad_(graph.TypeOf(node.inputs[0])),
        weight_(node.type()),
        workers_(ThreadPool::threads()) {
    LibraryCall call;
    OneThread one;
    PlanGroups(node.attr("groups").integer());
    full_ = MakeKernel(node, group_);
    if (int64_t rest = input_.size(0) % group_) last_ = MakeKernel(node, rest);
    store_ = Reorder::Of(full_->weight, PlainWeight(node));
    weight_bytes_ = BytesOf(full_->weight);
    input_bytes_ = BytesOf(full_->input);
    grad_bytes_ = BytesOf(full_->grad);
    call_bytes_ = std::max(full_->scratch_bytes(), store_->scratch_bytes());
    if (last_) call_bytes_ = std::max(call_bytes_, last_->scratch_bytes());
  }

  int64_t scratch_bytes() const override {
    return groups_ * blocks_ * weight_bytes_ +
           workers_ * (input_bytes_ + grad_bytes_ + call_bytes_);
  }

  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* memory) const override {
    LibraryCall call;
    auto* sums = reinterpret_cast<std::byte*>(memory);
    std::byte* first = sums + groups_ * blocks_ * weight_bytes_;
    int64_t work = grad_.numel() / (groups_ * blocks_) * (weight_.numel() / weight_.size(0));
    ForEachTask(ThreadPool::Get(), workers_, groups_ * blocks_, work,
                [&](int64_t task, int worker) {
                  OneThread one;
                  RunTask(in, task / blocks_, task % blocks_, sums + task * weight_bytes_,
                          first + worker * (input_bytes_ + grad_bytes_ + call_bytes_));
                });
    AddUp(reinterpret_cast<float*>(sums));
    OneThread one;
    const int64_t part_bytes = weight_.numel() / blocks_ * static_cast<int64_t>(sizeof(float));
    for (int64_t block = 0; block < blocks_; ++block) {
      (*store_)(sums + block * weight_bytes_, out[0] + block * part_bytes, first);
    }
  }
  const char* kernel() const override { return "onednn"; }

 private:
  using List = memory::dims;

  void RunTask(std::span<const char* const> in, int64_t group, int64_t block, std::byte* sum,
               std::byte* memory) const {
    const bool full = (group + 1) * group_ <= input_.size(0);
    const ImagesKernel& kernel = full ? *full_ : *last_;
    std::byte* grad = memory + input_bytes_;
    std::byte* scratch = grad + grad_bytes_;
    const int64_t channels = grad_.numel() / grad_.size(0) / blocks_;  // of a block, in an image
    (*kernel.load_input)(in[1] + Offset(input_, group), memory, scratch);
    (*kernel.load_grad)(
        in[0] + Offset(grad_, group) + block * channels * static_cast<int64_t>(sizeof(float)), grad,
        scratch);
    kernel.call({memory, grad, sum, scratch});
  }

  /// Groups and blocks are chosen by shape alone, so that results do not depend on the number of
  /// threads: enough tasks for many of them, and less memory than the operands take.
  void PlanGroups(int64_t conv_groups) {
    constexpr int64_t kMostGroups = 16, kFewTasks = 8, kChannels = 64;
    int64_t affordable = (input_.numel() + grad_.numel()) / std::max<int64_t>(weight_.numel(), 1);
    int64_t groups = std::clamp<int64_t>(affordable, 1, kMostGroups);
    group_ = CeilDiv(input_.size(0), std::min(groups, input_.size(0)));
    groups_ = CeilDiv(input_.size(0), group_);
    blocks_ = 1;
    while (conv_groups == 1 && groups_ * blocks_ < kFewTasks &&
           weight_.size(0) % (blocks_ * 2 * kChannels) == 0) {
      blocks_ *= 2;
    }
  }

  int64_t Offset(const Shape& shape, int64_t group) const {
    return group * group_ * (shape.numel() / shape.size(0)) * static_cast<int64_t>(sizeof(float));
  }

  /// Some images with a part of their channels, where they lie or as the library likes.
  static memory::desc Images(const Shape& shape, int64_t images, int64_t parts, bool plain) {
    List sizes(shape.sizes().begin(), shape.sizes().end());
    sizes[0] = images;
    sizes[1] /= parts;
    if (!plain) return memory::desc(sizes, memory::data_type::f32, memory::format_tag::any);
    const Dims strides = ContiguousStrides(shape.sizes());
    return memory::desc(sizes, memory::data_type::f32, List(strides.begin(), strides.end()));
  }

  /// [out, in, taps] or, with groups, [groups, out, in, taps] of each.
  List WeightSizes(const GraphNode& node) const {
    int64_t groups = node.attr("groups").integer();
    List sizes(weight_.sizes().begin(), weight_.sizes().end());
    sizes[0] /= blocks_;
    if (groups == 1) return sizes;
    sizes[0] /= groups;
    sizes.insert(sizes.begin(), groups);
    return sizes;
  }

  memory::desc PlainWeight(const GraphNode& node) const {
    List sizes = WeightSizes(node), strides(sizes.size());
    int64_t step = 1;
    for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
    return memory::desc(sizes, memory::data_type::f32, strides);
  }

  std::shared_ptr<const ImagesKernel> MakeKernel(const GraphNode& node, int64_t images) const {
    List strides, dilates, low, high;
    for (size_t i = 0; i + 2 < static_cast<size_t>(input_.rank()); ++i) {
      int d = static_cast<int>(i) + 2;
      int64_t stride = node.attr("stride").ints()[i], dilation = node.attr("dilation").ints()[i];
      int64_t padding = node.attr("padding").ints()[i];
      int64_t reach = dilation * (weight_.size(d) - 1) + 1;
      strides.push_back(stride);
      dilates.push_back(dilation - 1);
      low.push_back(padding);
      high.push_back((grad_.size(d) - 1) * stride + reach - padding - input_.size(d));
    }
    memory::desc any_input = Images(input_, images, 1, false);
    memory::desc any_grad = Images(grad_, images, blocks_, false);
    // All groups use the packed weight that the first one chose.
    memory::desc weight =
        full_ ? full_->weight
              : memory::desc(WeightSizes(node), memory::data_type::f32, memory::format_tag::any);
    auto make = [&] {
      constexpr auto kDirect = dnnl::algorithm::convolution_direct;
      dnnl::convolution_forward::primitive_desc forward(
          {dnnl::prop_kind::forward_training, kDirect, any_input, weight, any_grad, strides,
           dilates, low, high},
          Engine());
      dnnl::convolution_backward_weights::primitive_desc desc(
          {kDirect, any_input, weight, any_grad, strides, dilates, low, high}, WithOurScratch(),
          Engine(), forward);
      ImagesKernel kernel;
      kernel.input = desc.src_desc();
      kernel.grad = desc.diff_dst_desc();
      kernel.weight = desc.diff_weights_desc();
      kernel.load_input = Reorder::Of(Images(input_, images, 1, true), kernel.input);
      kernel.load_grad = Reorder::Of(Images(grad_, images, blocks_, true), kernel.grad);
      kernel.call = onednn::Call(dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
                                 {{DNNL_ARG_SRC, kernel.input},
                                  {DNNL_ARG_DIFF_DST, kernel.grad},
                                  {DNNL_ARG_DIFF_WEIGHTS, kernel.weight}});
      return kernel;
    };
    return Prepared<ImagesKernel>(KeyOf(any_input) + KeyOf(any_grad) + KeyOf(weight) +
                                      KeyOf({&strides, &dilates, &low, &high}),
                                  make);
  }

  /// All groups' sums into the first one's memory, always in the same order.
  void AddUp(float* sums) const {
    const int64_t step = blocks_ * weight_bytes_ / static_cast<int64_t>(sizeof(float));
    Spread(step, groups_ * static_cast<int64_t>(sizeof(float)), [&](int64_t begin, int64_t end) {
      for (int64_t group = 1; group < groups_; ++group) {
        for (int64_t i = begin; i < end; ++i) sums[i] += sums[group * step + i];
      }
    });
  }

  const Shape input_, grad_, weight_;
  const int workers_;
  int64_t group_ = 0, groups_ = 0;  // images of one, their number
  int64_t blocks_ = 1;              // of output channels
  std::shared_ptr<const ImagesKernel> full_;
  std::shared_ptr<const ImagesKernel> last_;  // of fewer images, or null
  std::shared_ptr<const Reorder> store_;
  int64_t weight_bytes_ = 0, input_bytes_ = 0, grad_bytes_ = 0, call_bytes_ = 0;
};

}  // namespace

std::span<const CallEntry> WeightBackwardCalls() {
  static constexpr CallEntry kEntries[] = {
      {&ops::kConvolutionWeightBackward, MakeNode<WeightBackwardCall>}};
  return kEntries;
}

/// With wide sums it is expanded: the library has no convolutions of f64.
bool RunsWholeWeightBackward(const Graph& graph, const GraphNode& node) {
  if (node.op != &ops::kConvolutionWeightBackward || node.type().dtype() != DType::kF32 ||
      config::Get<config::kWideSums>() || !IsUsable()) {
    return false;
  }
  const Shape& input = graph.TypeOf(node.inputs[1]);
  if (input.rank() > 5 || input.numel() == 0 || node.type().numel() == 0) return false;
  if (graph.TypeOf(node.inputs[0]).numel() == 0) return false;
  for (size_t i = 0; i + 2 < static_cast<size_t>(input.rank()); ++i) {
    int64_t taps = node.type().size(static_cast<int>(i) + 2);
    int64_t reach = node.attr("dilation").ints()[i] * (taps - 1) + 1;
    if (node.attr("padding").ints()[i] >= reach) return false;
  }
  return true;
}

}  // namespace hammock::cpu
