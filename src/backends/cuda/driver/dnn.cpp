#include "backends/cuda/driver/dnn.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/driver/near_sizes.h"
#include "base/library.h"
#include "base/never_destroyed.h"
#include "base/record_bytes.h"
#include "base/throw.h"

namespace hammock::cuda {
namespace {

using Handle = void*;
using Descriptor = void*;
using Kind = Convolution::Kind;

/// The library's expected performance of an algorithm.
struct Estimate {
  int algorithm;
  int status;
  float time;
  size_t workspace;
  int deterministic;
  int math;
  int reserved[3];
};

// Numbers of the library's interface.
enum DataType { kFloat = 0, kDouble = 1, kHalf = 2, kBFloat16 = 9 };
enum Math { kAnyMath = 0, kTensorMath = 1, kTensorMathOfCasts = 2, kPlainMath = 3 };
enum Format { kChannelsFirst = 0, kChannelsLast = 1 };
constexpr int kCrossCorrelation = 1;

constexpr int kMostEstimates = 16;
constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr size_t kMostPrepared = 4096;  // then expired entries are removed

using CreateDescriptor = int (*)(Descriptor*);
using DestroyDescriptor = int (*)(Descriptor);
/// The three ways to convolve differ in the order of their descriptions.
using FindAlgorithms = int (*)(Handle, Descriptor, Descriptor, Descriptor, Descriptor, int wanted,
                               int* found, Estimate*);
using FindWorkspace = int (*)(Handle, Descriptor, Descriptor, Descriptor, Descriptor, int algorithm,
                              size_t* bytes);
using RunConvolution = int (*)(Handle, const void* alpha, Descriptor, const void*, Descriptor,
                               const void*, Descriptor convolution, int algorithm, void* workspace,
                               size_t workspace_bytes, const void* beta, Descriptor, void* out);

struct Way {
  FindAlgorithms algorithms;
  FindWorkspace workspace;
  RunConvolution run;
};

struct Functions {
  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*set_stream)(Handle, CUstream);
  CreateDescriptor tensor_create, filter_create, convolution_create;
  DestroyDescriptor tensor_destroy, filter_destroy, convolution_destroy;
  int (*tensor_set)(Descriptor, int type, int dims, const int* sizes, const int* strides);
  int (*filter_set)(Descriptor, int type, int format, int dims, const int* sizes);
  int (*convolution_set)(Descriptor, int dims, const int* padding, const int* stride,
                         const int* dilation, int mode, int compute_type);
  int (*convolution_groups)(Descriptor, int groups);
  int (*convolution_math)(Descriptor, int math);
  Way forward, input, weight;
  size_t (*version)() = nullptr;  // may be missing
  std::string why_absent;
};

void FindWays(Library& library, Functions& f) {
  library.Find("cudnnGetConvolutionForwardAlgorithm_v7", f.forward.algorithms);
  library.Find("cudnnGetConvolutionForwardWorkspaceSize", f.forward.workspace);
  library.Find("cudnnConvolutionForward", f.forward.run);
  library.Find("cudnnGetConvolutionBackwardDataAlgorithm_v7", f.input.algorithms);
  library.Find("cudnnGetConvolutionBackwardDataWorkspaceSize", f.input.workspace);
  library.Find("cudnnConvolutionBackwardData", f.input.run);
  library.Find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", f.weight.algorithms);
  library.Find("cudnnGetConvolutionBackwardFilterWorkspaceSize", f.weight.workspace);
  library.Find("cudnnConvolutionBackwardFilter", f.weight.run);
}

Functions LoadFunctions() {
  Functions f;
  Library library({"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"});
  library.Find("cudnnCreate", f.create);
  library.Find("cudnnDestroy", f.destroy);
  library.Find("cudnnSetStream", f.set_stream);
  library.Find("cudnnCreateTensorDescriptor", f.tensor_create);
  library.Find("cudnnDestroyTensorDescriptor", f.tensor_destroy);
  library.Find("cudnnSetTensorNdDescriptor", f.tensor_set);
  library.Find("cudnnCreateFilterDescriptor", f.filter_create);
  library.Find("cudnnDestroyFilterDescriptor", f.filter_destroy);
  library.Find("cudnnSetFilterNdDescriptor", f.filter_set);
  library.Find("cudnnCreateConvolutionDescriptor", f.convolution_create);
  library.Find("cudnnDestroyConvolutionDescriptor", f.convolution_destroy);
  library.Find("cudnnSetConvolutionNdDescriptor", f.convolution_set);
  library.Find("cudnnSetConvolutionGroupCount", f.convolution_groups);
  library.Find("cudnnSetConvolutionMathType", f.convolution_math);
  FindWays(library, f);
  library.FindOptional("cudnnGetVersion", f.version);
  f.why_absent = library.why_absent();
  return f;
}

const Functions& TheFunctions() {
  static const auto& functions = NeverDestroyed<Functions>(LoadFunctions());
  return functions;
}

std::optional<DataType> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return kHalf;
    case DType::kBF16:
      return kBFloat16;
    case DType::kF32:
      return kFloat;
    case DType::kF64:
      return kDouble;
    default:
      return std::nullopt;
  }
}

/// A convolution of a line is one of an image that has one row.
std::vector<int> IntsOf(const Dims& numbers, int at, int filler) {
  std::vector<int> ints;
  for (int d = 0; d < numbers.size(); ++d) ints.push_back(static_cast<int>(numbers[d]));
  bool line = numbers.size() == at + 1;
  if (line) ints.insert(ints.begin() + at, filler);
  return ints;
}

bool Fits(const Convolution& c) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  for (const Dims* sizes : {&c.input, &c.weight, &c.out}) {
    int64_t count = 1;
    for (int d = 0; d < sizes->size(); ++d) {
      if (__builtin_mul_overflow(count, (*sizes)[d], &count) || count > kMost) return false;
    }
    if (count == 0) return false;
  }
  for (const Dims* list : {&c.stride, &c.padding, &c.dilation}) {
    for (int d = 0; d < list->size(); ++d) {
      if ((*list)[d] > kMost) return false;
    }
  }
  return c.input.size() >= 3 && c.input.size() <= 5;
}

/// The convolution of near sizes that stands for `c`: of more images, which are larger.
Convolution NearConvolution(Convolution c) {
  c.input[0] = c.out[0] = NearSize(c.input[0]);
  for (int d = 2; d < c.input.size(); ++d) {
    const int64_t span = c.dilation[d - 2] * (c.weight[d] - 1) + 1;
    c.input[d] = NearSize(c.input[d]);
    c.out[d] = (c.input[d] + 2 * c.padding[d - 2] - span) / c.stride[d - 2] + 1;
  }
  return c;
}

std::vector<int64_t> KeyOf(const Convolution& c, bool tf32) {
  std::vector<int64_t> key = {static_cast<int64_t>(c.kind), static_cast<int64_t>(c.dtype), c.groups,
                              c.channels_last, tf32};
  for (const Dims* list : {&c.input, &c.weight, &c.out, &c.stride, &c.padding, &c.dilation}) {
    key.push_back(list->size());
    for (int d = 0; d < list->size(); ++d) key.push_back((*list)[d]);
  }
  return key;
}

class DnnConvolution : public PreparedOp {
 public:
  DnnConvolution(const Convolution& c, DataType type) : kind_(c.kind), is_f64_(type == kDouble) {
    described_ = Describe(c, type);
  }
  ~DnnConvolution() override {
    const Functions& f = TheFunctions();
    if (input_) f.tensor_destroy(input_);
    if (out_) f.tensor_destroy(out_);
    if (weight_) f.filter_destroy(weight_);
    if (convolution_) f.convolution_destroy(convolution_);
  }

  /// Whether the algorithm can do it.
  bool Take(Handle handle, int algorithm, int math) {
    auto [first, second, result] = Operands();
    if (!described_ || TheFunctions().convolution_math(convolution_, math) != 0) return false;
    size_t bytes = 0;
    int status = WayOf().workspace(handle, first, second, convolution_, result, algorithm, &bytes);
    if (status != 0 || bytes > kMostWorkspace) return false;
    algorithm_ = algorithm;
    math_ = math;
    workspace_ = bytes;
    return true;
  }
  /// Takes the first of the library's list, which begins with the fastest, that gives the same bits
  /// every time.
  bool Choose(Handle handle, Math math) {
    if (!described_) return false;
    auto [first, second, result] = Operands();
    Estimate estimates[kMostEstimates] = {};
    int count = 0;
    if (TheFunctions().convolution_math(convolution_, math) != 0) return false;
    if (WayOf().algorithms(handle, first, second, convolution_, result, kMostEstimates, &count,
                           estimates) != 0) {
      return false;
    }
    for (const Estimate& estimate : std::span(estimates, static_cast<size_t>(count))) {
      bool rounds = estimate.math == kTensorMath || estimate.math == kTensorMathOfCasts;
      bool plain = math == kPlainMath;
      if (estimate.status != 0 || !estimate.deterministic || (plain && rounds)) continue;
      if (Take(handle, estimate.algorithm, plain ? math : estimate.math)) return true;
    }
    return false;
  }

  int algorithm() const { return algorithm_; }
  int math() const { return math_; }
  int64_t scratch_bytes() const override {
    return workspace_ == 0 ? 0 : static_cast<int64_t>(workspace_) + 256;
  }

  int Run(Handle handle, Address a, Address b, Address out, Address scratch) const {
    auto pointer = [](Address address) { return reinterpret_cast<void*>(address); };
    static constexpr double kOne64 = 1, kZero64 = 0;
    static constexpr float kOne32 = 1, kZero32 = 0;
    const void* one = is_f64_ ? static_cast<const void*>(&kOne64) : &kOne32;
    const void* zero = is_f64_ ? static_cast<const void*>(&kZero64) : &kZero32;
    void* workspace = workspace_ == 0 ? nullptr : pointer((scratch + 255) / 256 * 256);
    auto [first, second, result] = Operands();
    // The gradient of the input takes the weight first, the others the image.
    bool swaps = kind_ != Kind::kForward;
    return WayOf().run(handle, one, first, pointer(swaps ? b : a), second, pointer(swaps ? a : b),
                       convolution_, algorithm_, workspace, workspace_, zero, result, pointer(out));
  }

 private:
  struct Three {
    Descriptor first, second, result;
  };
  Three Operands() const {
    if (kind_ == Kind::kForward) return {input_, weight_, out_};
    return kind_ == Kind::kInput ? Three{weight_, out_, input_} : Three{input_, out_, weight_};
  }
  const Way& WayOf() const {
    const Functions& f = TheFunctions();
    return kind_ == Kind::kForward ? f.forward : kind_ == Kind::kInput ? f.input : f.weight;
  }

  bool Describe(const Convolution& c, DataType type) {
    const Functions& f = TheFunctions();
    std::vector<int> weight = IntsOf(c.weight, 2, 1);
    std::vector<int> padding = IntsOf(c.padding, 0, 0), stride = IntsOf(c.stride, 0, 1),
                     dilation = IntsOf(c.dilation, 0, 1);
    int dims = static_cast<int>(weight.size());
    Format format = c.channels_last ? kChannelsLast : kChannelsFirst;
    return Tensor(c.input, type, format, &input_) && Tensor(c.out, type, format, &out_) &&
           f.filter_create(&weight_) == 0 &&
           f.filter_set(weight_, type, format, dims, weight.data()) == 0 &&
           f.convolution_create(&convolution_) == 0 &&
           f.convolution_set(convolution_, dims - 2, padding.data(), stride.data(), dilation.data(),
                             kCrossCorrelation, is_f64_ ? kDouble : kFloat) == 0 &&
           f.convolution_groups(convolution_, static_cast<int>(c.groups)) == 0;
  }
  static bool Tensor(const Dims& sizes, DataType type, Format format, Descriptor* tensor) {
    const Functions& f = TheFunctions();
    std::vector<int> ints = IntsOf(sizes, 2, 1), strides(ints.size());
    int step = 1;
    auto add = [&](size_t d) {
      strides[d] = step;
      step *= ints[d];
    };
    if (format == kChannelsLast) add(1);
    for (size_t d = ints.size(); d-- > 2;) add(d);
    if (format == kChannelsFirst) add(1);
    add(0);
    return f.tensor_create(tensor) == 0 &&
           f.tensor_set(*tensor, type, static_cast<int>(ints.size()), ints.data(),
                        strides.data()) == 0;
  }

  const Kind kind_;
  const bool is_f64_;
  bool described_ = false;
  Descriptor input_ = nullptr, weight_ = nullptr, out_ = nullptr, convolution_ = nullptr;
  int algorithm_ = 0;
  int math_ = 0;
  size_t workspace_ = 0;
};

Math MathOf(DataType type, bool tf32) {
  if (type == kHalf || type == kBFloat16) return kTensorMath;
  return type == kFloat && !tf32 ? kPlainMath : kAnyMath;
}

}  // namespace

const std::string& WhyNoDnn() { return TheFunctions().why_absent; }

Dnn::~Dnn() {
  for (const Handle& handle : handles_) TheFunctions().destroy(handle.handle);
}

void* Dnn::HandleOf(CUstream stream) {
  const Functions& f = TheFunctions();
  auto found = std::ranges::find_if(handles_, [&](const Handle& known) {
    return !stream || !known.stream || known.stream == stream;
  });
  if (found == handles_.end()) {
    void* handle = nullptr;
    if (f.create(&handle) != 0) return nullptr;
    handles_.push_back({nullptr, handle});
    found = std::prev(handles_.end());
  }
  if (stream && !found->stream) {
    if (f.set_stream(found->handle, stream) != 0) return nullptr;
    found->stream = stream;
  }
  return found->handle;
}

std::shared_ptr<PreparedOp> Dnn::Prepare(const Convolution& convolution, bool tf32) {
  std::optional<DataType> type = TypeOf(convolution.dtype);
  if (!type || !Fits(convolution) || !WhyNoDnn().empty()) return nullptr;
  std::lock_guard lock(mutex_);
  // Only programs with convolutions wait for its start.
  void* handle = HandleOf(nullptr);
  if (!handle) return nullptr;
  std::weak_ptr<PreparedOp>& known = prepared_[KeyOf(convolution, tf32)];
  if (std::shared_ptr<PreparedOp> prepared = known.lock()) return prepared;
  auto prepared = std::make_shared<DnnConvolution>(convolution, *type);
  std::optional<Choice> choice = ChoiceFor(handle, convolution, tf32);
  if (!(choice && prepared->Take(handle, choice->algorithm, choice->math)) &&
      !prepared->Choose(handle, MathOf(*type, tf32))) {
    return nullptr;
  }
  known = prepared;
  if (prepared_.size() > kMostPrepared) {
    std::erase_if(prepared_, [](const auto& entry) { return entry.second.expired(); });
  }
  return prepared;
}

namespace {
int64_t Version() {
  return TheFunctions().version ? static_cast<int64_t>(TheFunctions().version()) : 0;
}
}  // namespace

std::string Dnn::SaveChoices() {
  std::lock_guard lock(mutex_);
  if (choices_.empty()) return "";
  RecordWriter record;
  record(Version(), choices_);
  return record.Take();
}

void Dnn::AddChoices(const std::string& saved) {
  if (saved.empty()) return;
  int64_t version = 0;
  decltype(choices_) choices;
  RecordReader record("chosen convolutions", saved);
  record(version, choices);
  if (version != Version()) return;
  std::lock_guard lock(mutex_);
  choices_.merge(choices);
}

std::optional<Dnn::Choice> Dnn::ChoiceFor(void* handle, const Convolution& convolution, bool tf32) {
  const Convolution near = NearConvolution(convolution);
  auto [known, is_new] = choices_.try_emplace(KeyOf(near, tf32));
  if (is_new && Fits(near)) {
    const DataType type = *TypeOf(near.dtype);
    DnnConvolution made(near, type);
    if (made.Choose(handle, MathOf(type, tf32))) known->second = {made.algorithm(), made.math()};
  }
  return known->second;
}

void Dnn::Convolve(const PreparedOp& prepared, Address a, Address b, Address out, Address scratch,
                   CUstream stream) {
  std::lock_guard lock(mutex_);
  void* handle = HandleOf(stream);
  if (!handle) {
    Throw<DeviceError>(ErrorCode::kDevice, "cuda: cuDNN: it cannot be started for a stream");
  }
  int status = static_cast<const DnnConvolution&>(prepared).Run(handle, a, b, out, scratch);
  if (status == 0) return;
  Throw<DeviceError>(ErrorCode::kDevice, "cuda: cuDNN: a convolution failed with status {}",
                     status);
}

}  // namespace hammock::cuda
