#include "device.h"

#include <fmt/format.h>
#include <hammock/compiler/scalar_text.h>
#include <hammock/error.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace opencl {

using hammock::ErrorCode;

namespace {

Context MakeContext(cl_device_id device) {
  cl_int status = CL_SUCCESS;
  Context context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
  Check(status, "clCreateContext");
  return context;
}

Queue MakeQueue(cl_context context, cl_device_id device,
                cl_command_queue_properties properties = 0) {
  cl_int status = CL_SUCCESS;
  Queue queue(clCreateCommandQueue(context, device, properties, &status));
  Check(status, "clCreateCommandQueue");
  return queue;
}

std::string BuildLog(cl_program program, cl_device_id device) {
  size_t size = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return log;
}

void AppendText(std::string& bytes, std::string_view text) {
  const uint64_t size = text.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += text;
}

/// Nothing where the bytes end before.
std::optional<std::string_view> TakeText(std::string_view& bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (bytes.size() < size) return std::nullopt;
  const std::string_view text = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return text;
}

/// Of the text of all functions that kernels may call; a kernel's name is of its own text alone.
uint64_t FunctionsHash() {
  using hammock::ScalarFn;
  static const uint64_t hash = [] {
    hammock::compiler::ScalarText scalars(hammock::compiler::kOpenClC);
    for (size_t fn = 1; fn < hammock::kNumScalarFns; ++fn) {
      for (const hammock::DTypeInfo& info : hammock::kDTypeTable) {
        const auto function = static_cast<ScalarFn>(fn);
        if (!info.supported || info.kind == hammock::DTypeKind::kComplex) continue;
        if (!hammock::compiler::HasText(function, info.dtype)) continue;
        scalars.Scalar(function, info.dtype, {"x", "y", "z"});
      }
    }
    return std::hash<std::string>()(std::string(Prelude()) + scalars.Functions());
  }();
  return hash;
}

}  // namespace

Device::Device(cl_device_id id)
    : id_(id),
      name_(TextOf(id, CL_DEVICE_NAME)),
      driver_(TextOf(id, CL_DEVICE_VERSION) + " " + TextOf(id, CL_DRIVER_VERSION)),
      options_("-cl-std=CL1.2"),
      has_f64_(TextOf(id, CL_DEVICE_EXTENSIONS).find("cl_khr_fp64") != std::string::npos),
      most_pointers_((InfoOf<size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE) - 16) / sizeof(cl_mem)),
      context_(MakeContext(id)),
      queue_(MakeQueue(context_.get(), id)),
      memory_(std::make_unique<DeviceMemory>(context_.get(), id)) {
  const auto precise = InfoOf<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG);
  if (precise & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) {
    options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
  }
  files_.emplace(Fingerprint());
  std::thread([this] { WaitForEvents(); }).detach();
}

std::string Device::Fingerprint() const {
  return fmt::format("opencl 2, {}, {}, {}, {:016x}", name_, driver_, options_, FunctionsHash());
}

// ---- Kernels

std::vector<const KernelSource*> Device::Missing(const std::vector<KernelSource>& sources) const {
  std::vector<const KernelSource*> missing;
  std::set<std::string_view> seen;
  std::lock_guard lock(kernels_mutex_);
  for (const KernelSource& source : sources) {
    if (!kernels_.contains(source.name) && seen.insert(source.name).second) {
      missing.push_back(&source);
    }
  }
  return missing;
}

void Device::ReadFiles(const std::vector<KernelSource>& sources) {
  if (!files_->active()) return;
  for (const KernelSource* source : Missing(sources)) {
    if (auto library = files_->Read(source->name)) Load(*library);
  }
}

void Device::Compile(const std::string& functions, const std::vector<KernelSource>& sources) {
  ReadFiles(sources);
  std::vector<std::string> names;
  std::string text(Prelude());
  text += functions;
  for (const KernelSource* source : Missing(sources)) {
    names.push_back(source->name);
    text += source->text;
  }
  if (names.empty()) return;
  const char* begin = text.data();
  const size_t size = text.size();
  cl_int status = CL_SUCCESS;
  Library library(clCreateProgramWithSource(context_.get(), 1, &begin, &size, &status));
  Check(status, "clCreateProgramWithSource");
  status = clBuildProgram(library.get(), 1, &id_, options_.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    throw hammock::CompileError(ErrorCode::kCompile,
                                fmt::format("opencl: {}", BuildLog(library.get(), id_)));
  }
  const int number = AddLibrary(std::move(library), names);
  std::unique_lock lock(kernels_mutex_);
  ++compilations_;
  if (!files_->active()) return;
  unwritten_.push_back(number);
  constexpr size_t kMostUnwritten = 8;
  const bool many = unwritten_.size() >= kMostUnwritten;
  lock.unlock();
  if (many) WriteFiles(Clock::time_point::max());
}

void Device::WriteFiles(Clock::time_point end) {
  std::vector<int> unwritten;
  {
    std::lock_guard lock(kernels_mutex_);
    unwritten.swap(unwritten_);
  }
  for (int number : unwritten) {
    if (Clock::now() >= end) return;
    std::vector<std::string> names;
    {
      std::lock_guard lock(kernels_mutex_);
      names = libraries_[static_cast<size_t>(number)].second;
    }
    files_->Write(names, Save(names));
  }
}

int Device::AddLibrary(Library library, const std::vector<std::string>& names) {
  std::vector<Function> functions;
  for (const std::string& name : names) {
    cl_int status = CL_SUCCESS;
    functions.emplace_back(clCreateKernel(library.get(), name.c_str(), &status));
    Check(status, "clCreateKernel");
  }
  std::lock_guard lock(kernels_mutex_);
  const int number = static_cast<int>(libraries_.size());
  libraries_.emplace_back(std::move(library), names);
  // One that another thread has compiled in the meantime stays.
  for (size_t i = 0; i < names.size(); ++i) {
    kernels_.try_emplace(names[i], CompiledKernel{std::move(functions[i]), number});
  }
  return number;
}

const CompiledKernel& Device::Find(const std::string& name) const {
  std::lock_guard lock(kernels_mutex_);
  return kernels_.at(name);  // kernels are never removed
}

std::string Device::Save(const std::vector<std::string>& names) const {
  std::lock_guard lock(kernels_mutex_);
  std::set<int> needed;
  for (const std::string& name : names) needed.insert(kernels_.at(name).library);
  std::string bytes;
  for (int number : needed) {
    const auto& [library, kernels] = libraries_[static_cast<size_t>(number)];
    size_t size = 0;
    Check(clGetProgramInfo(library.get(), CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr),
          "clGetProgramInfo");
    std::string code(size, '\0');
    auto* place = reinterpret_cast<unsigned char*>(code.data());
    Check(clGetProgramInfo(library.get(), CL_PROGRAM_BINARIES, sizeof(place), &place, nullptr),
          "clGetProgramInfo");
    AppendText(bytes, fmt::format("{}", kernels.size()));
    for (const std::string& kernel : kernels) AppendText(bytes, kernel);
    AppendText(bytes, code);
  }
  return bytes;
}

void Device::Load(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = TakeText(bytes);
    if (!count) return;
    std::vector<std::string> names;
    bool known = true;
    for (int i = std::atoi(std::string(*count).c_str()); i > 0; --i) {
      const auto name = TakeText(bytes);
      if (!name) return;
      names.emplace_back(*name);
      std::lock_guard lock(kernels_mutex_);
      known = known && kernels_.contains(names.back());
    }
    const auto code = TakeText(bytes);
    if (!code) return;
    if (known) continue;
    const auto* place = reinterpret_cast<const unsigned char*>(code->data());
    const size_t size = code->size();
    cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
    Library library(
        clCreateProgramWithBinary(context_.get(), 1, &id_, &size, &place, &loaded, &status));
    if (status != CL_SUCCESS || loaded != CL_SUCCESS) continue;
    if (clBuildProgram(library.get(), 1, &id_, options_.c_str(), nullptr, nullptr) != CL_SUCCESS) {
      continue;
    }
    try {
      AddLibrary(std::move(library), names);
    } catch (const hammock::Error&) {  // it lacks a kernel
    }
  }
}

int64_t Device::compilations() const {
  std::lock_guard lock(kernels_mutex_);
  return compilations_;
}

// ---- Transfers

BlockPtr Device::Upload(const hammock::HostTensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.bytes());
  BlockPtr block = memory_->Take(tensor.bytes(), "upload");
  if (bytes == 0) return block;
  if (bytes <= 16 && (bytes & (bytes - 1)) == 0) {  // a number: the driver keeps its bytes
    Check(clEnqueueFillBuffer(queue(), block->get(), tensor.data(), bytes, 0, bytes, 0, nullptr,
                              nullptr),
          "clEnqueueFillBuffer");
    return block;
  }
  Event written;
  Check(clEnqueueWriteBuffer(queue(), block->get(), CL_FALSE, 0, bytes, tensor.data(), 0, nullptr,
                             written.out()),
        "clEnqueueWriteBuffer");
  After(std::move(written), [tensor](cl_int) {});  // its bytes are needed until then
  return block;
}

void Device::Download(const Block& block, void* to, int64_t bytes) {
  if (bytes == 0) return;
  Check(clEnqueueReadBuffer(queue(), block.get(), CL_TRUE, 0, static_cast<size_t>(bytes), to, 0,
                            nullptr, nullptr),
        "clEnqueueReadBuffer");
}

// ---- Events

void Device::After(Event event, std::function<void(cl_int)> task) {
  Check(clFlush(queue()), "clFlush");
  std::lock_guard lock(waiting_mutex_);
  waiting_.push_back({std::move(event), std::move(task)});
  ++asked_;
  arrived_.notify_one();
}

void Device::WaitForEvents() {
  std::unique_lock lock(waiting_mutex_);
  while (true) {
    arrived_.wait(lock, [&] { return !waiting_.empty(); });
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const cl_event event = next.event.get();
    next.task(clWaitForEvents(1, &event));
    next = {};
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

cl_command_queue Device::TimedQueue() {
  if (!timed_queue_.get()) timed_queue_ = MakeQueue(context(), id_, CL_QUEUE_PROFILING_ENABLE);
  Check(clFinish(queue()), "clFinish");
  return timed_queue_.get();
}

void Device::Finish() {
  Event before;
  Check(clEnqueueMarkerWithWaitList(queue(), 0, nullptr, before.out()),
        "clEnqueueMarkerWithWaitList");
  const cl_event event = before.get();
  Check(clWaitForEvents(1, &event), "clWaitForEvents");
  std::unique_lock lock(waiting_mutex_);
  changed_.wait(lock, [&, asked = asked_] { return done_ >= asked; });
}

}  // namespace opencl
