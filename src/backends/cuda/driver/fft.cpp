#include "backends/cuda/driver/fft.h"

#include "base/library.h"
#include "base/never_destroyed.h"
#include "base/throw.h"

namespace hammock::cuda {
namespace {

using Kind = Transform::Kind;

// Numbers of the library's interface.
enum Type { kC2C = 0x29, kR2C = 0x2a, kC2R = 0x2c, kZ2Z = 0x69, kD2Z = 0x6a, kZ2D = 0x6c };
enum Direction { kForward = -1, kInverse = 1 };

constexpr size_t kMostPrepared = 4096;  // then expired entries are removed

using Plan = int;
using WithDirection = int (*)(Plan, void* in, void* out, int direction);
using WithoutDirection = int (*)(Plan, void* in, void* out);

struct Functions {
  int (*create)(Plan*);
  int (*destroy)(Plan);
  int (*set_auto_allocation)(Plan, int automatic);
  int (*make)(Plan, int rank, long long* sizes, long long* in_sizes, long long in_stride,
              long long in_distance, long long* out_sizes, long long out_stride,
              long long out_distance, int type, long long batch, size_t* work_bytes);
  int (*set_stream)(Plan, CUstream);
  int (*set_work_area)(Plan, void*);
  WithDirection c2c, z2z;
  WithoutDirection r2c, c2r, d2z, z2d;
  std::string why_absent;
};

Functions LoadFunctions() {
  Functions f;
  Library library(FftFiles());
  library.Find("cufftCreate", f.create);
  library.Find("cufftDestroy", f.destroy);
  library.Find("cufftSetAutoAllocation", f.set_auto_allocation);
  library.Find("cufftMakePlanMany64", f.make);
  library.Find("cufftSetStream", f.set_stream);
  library.Find("cufftSetWorkArea", f.set_work_area);
  library.Find("cufftExecC2C", f.c2c);
  library.Find("cufftExecZ2Z", f.z2z);
  library.Find("cufftExecR2C", f.r2c);
  library.Find("cufftExecC2R", f.c2r);
  library.Find("cufftExecD2Z", f.d2z);
  library.Find("cufftExecZ2D", f.z2d);
  f.why_absent = library.why_absent();
  return f;
}

const Functions& TheFunctions() {
  static const auto& functions = NeverDestroyed<Functions>(LoadFunctions());
  return functions;
}

void Check(int status, const char* what) {
  if (status == 0) return;
  Throw<DeviceError>(ErrorCode::kDevice, "cuda: cuFFT: {} failed with status {}", what, status);
}

Type TypeOf(const Transform& t) {
  const bool wide = t.dtype == DType::kF64;
  if (t.kind == Kind::kToComplex) return wide ? kD2Z : kR2C;
  if (t.kind == Kind::kToReal) return wide ? kZ2D : kC2R;
  return wide ? kZ2Z : kC2C;
}

class FftPlan : public PreparedOp {
 public:
  explicit FftPlan(const Transform& t) : kind_(t.kind), type_(TypeOf(t)) {
    const Functions& f = TheFunctions();
    if (f.create(&plan_) != 0) return;
    created_ = true;
    std::vector<long long> sizes(t.sizes.begin(), t.sizes.end());
    // Given sizes in memory, the library follows strides and distances. Of the first dim they say
    // nothing.
    std::vector<long long> in_sizes = sizes, out_sizes = sizes;
    made_ = f.set_auto_allocation(plan_, 0) == 0 &&
            f.make(plan_, static_cast<int>(sizes.size()), sizes.data(), in_sizes.data(),
                   t.in_stride, t.in_distance, out_sizes.data(), t.out_stride, t.out_distance,
                   type_, t.batch, &work_bytes_) == 0;
  }
  ~FftPlan() override {
    if (created_) TheFunctions().destroy(plan_);
  }

  bool made() const { return made_; }
  int64_t scratch_bytes() const override {
    return work_bytes_ == 0 ? 0 : static_cast<int64_t>(work_bytes_) + 256;
  }

  void Run(Address in, Address out, Address scratch, CUstream stream) {
    const Functions& f = TheFunctions();
    auto pointer = [](Address address) { return reinterpret_cast<void*>(address); };
    // A plan holds the stream and the memory of its next run.
    std::lock_guard lock(mutex_);
    Check(f.set_stream(plan_, stream), "a stream");
    if (work_bytes_ > 0) {
      Check(f.set_work_area(plan_, pointer((scratch + 255) / 256 * 256)), "memory");
    }
    const int direction = kind_ == Kind::kForward ? kForward : kInverse;
    auto run = [&] {
      switch (type_) {
        case kC2C:
          return f.c2c(plan_, pointer(in), pointer(out), direction);
        case kZ2Z:
          return f.z2z(plan_, pointer(in), pointer(out), direction);
        case kR2C:
          return f.r2c(plan_, pointer(in), pointer(out));
        case kC2R:
          return f.c2r(plan_, pointer(in), pointer(out));
        case kD2Z:
          return f.d2z(plan_, pointer(in), pointer(out));
        case kZ2D:
          return f.z2d(plan_, pointer(in), pointer(out));
      }
      return -1;
    };
    Check(run(), "a transform");
  }

 private:
  const Kind kind_;
  const Type type_;
  std::mutex mutex_;
  Plan plan_ = 0;
  bool created_ = false, made_ = false;
  size_t work_bytes_ = 0;
};

std::vector<int64_t> KeyOf(const Transform& t) {
  std::vector<int64_t> key = {static_cast<int64_t>(t.kind),
                              static_cast<int64_t>(t.dtype),
                              t.batch,
                              t.in_stride,
                              t.in_distance,
                              t.out_stride,
                              t.out_distance};
  key.insert(key.end(), t.sizes.begin(), t.sizes.end());
  return key;
}

}  // namespace

std::vector<std::string> FftFiles() {
  return {"libcufft.so.12", "libcufft.so.11", "libcufft.so.10", "libcufft.so"};
}

const std::string& WhyNoFft() { return TheFunctions().why_absent; }

std::shared_ptr<PreparedOp> Fft::Prepare(const Transform& transform) {
  if (!WhyNoFft().empty()) return nullptr;
  const std::vector<int64_t> key = KeyOf(transform);
  std::lock_guard lock(mutex_);
  auto known = prepared_.find(key);
  if (known != prepared_.end()) {
    if (std::shared_ptr<PreparedOp> prepared = known->second.lock()) return prepared;
  }
  auto plan = std::make_shared<FftPlan>(transform);
  if (!plan->made()) return nullptr;
  if (prepared_.size() > kMostPrepared) {
    std::erase_if(prepared_, [](const auto& entry) { return entry.second.expired(); });
  }
  prepared_[key] = plan;
  return plan;
}

void Fft::Run(const PreparedOp& transform, Address in, Address out, Address scratch,
              CUstream stream) {
  const_cast<FftPlan&>(static_cast<const FftPlan&>(transform)).Run(in, out, scratch, stream);
}

}  // namespace hammock::cuda
