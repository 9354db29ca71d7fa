// The gradient of a convolution's weight by oneDNN: sums over groups of images, then their sum.
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
    PlanGroups();
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
    return groups_ * weight_bytes_ + workers_ * (input_bytes_ + grad_bytes_ + call_bytes_);
  }

  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* memory) const override {
    LibraryCall call;
    auto* sums = reinterpret_cast<std::byte*>(memory);
    std::byte* first = sums + groups_ * weight_bytes_;
    int64_t work = grad_.numel() / groups_ * (weight_.numel() / weight_.size(0));
    ForEachTask(ThreadPool::Get(), workers_, groups_, work, [&](int64_t group, int worker) {
      OneThread one;
      bool full = (group + 1) * group_ <= input_.size(0);
      const ImagesKernel& kernel = full ? *full_ : *last_;
      std::byte* input = first + worker * (input_bytes_ + grad_bytes_ + call_bytes_);
      std::byte* grad = input + input_bytes_;
      std::byte* scratch = grad + grad_bytes_;
      (*kernel.load_input)(in[1] + Offset(input_, group), input, scratch);
      (*kernel.load_grad)(in[0] + Offset(grad_, group), grad, scratch);
      kernel.call({input, grad, sums + group * weight_bytes_, scratch});
    });
    AddUp(reinterpret_cast<float*>(sums));
    OneThread one;
    (*store_)(sums, out[0], first);
  }
  const char* kernel() const override { return "onednn"; }

 private:
  using List = memory::dims;

  /// Groups are chosen by shape alone, so that results do not depend on the number of threads:
  /// enough for many of them, and less memory than the operands take.
  void PlanGroups() {
    constexpr int64_t kMostGroups = 16;
    int64_t affordable = (input_.numel() + grad_.numel()) / std::max<int64_t>(weight_.numel(), 1);
    int64_t groups = std::clamp<int64_t>(affordable, 1, kMostGroups);
    group_ = CeilDiv(input_.size(0), std::min(groups, input_.size(0)));
    groups_ = CeilDiv(input_.size(0), group_);
  }

  int64_t Offset(const Shape& shape, int64_t group) const {
    return group * group_ * (shape.numel() / shape.size(0)) * static_cast<int64_t>(sizeof(float));
  }

  static memory::desc Images(const Shape& shape, int64_t images, bool plain) {
    List sizes(shape.sizes().begin(), shape.sizes().end());
    sizes[0] = images;
    constexpr memory::format_tag kPlain[] = {memory::format_tag::ncw, memory::format_tag::nchw,
                                             memory::format_tag::ncdhw};
    return memory::desc(sizes, memory::data_type::f32,
                        plain ? kPlain[shape.rank() - 3] : memory::format_tag::any);
  }

  /// [out, in, taps] or, with groups, [groups, out, in, taps] of each.
  List WeightSizes(const GraphNode& node) const {
    int64_t groups = node.attr("groups").integer();
    List sizes(weight_.sizes().begin(), weight_.sizes().end());
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
    memory::desc any_input = Images(input_, images, false);
    memory::desc any_grad = Images(grad_, images, false);
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
      kernel.load_input = Reorder::Of(Images(input_, images, true), kernel.input);
      kernel.load_grad = Reorder::Of(Images(grad_, images, true), kernel.grad);
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
    int64_t step = weight_bytes_ / static_cast<int64_t>(sizeof(float));
    int64_t count = static_cast<int64_t>(full_->weight.get_size() / sizeof(float));
    Spread(count, groups_ * static_cast<int64_t>(sizeof(float)), [&](int64_t begin, int64_t end) {
      for (int64_t group = 1; group < groups_; ++group) {
        for (int64_t i = begin; i < end; ++i) sums[i] += sums[group * step + i];
      }
    });
  }

  const Shape input_, grad_, weight_;
  const int workers_;
  int64_t group_ = 0, groups_ = 0;  // images of one, their number
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
