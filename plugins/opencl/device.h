#pragma once
/// A device: its queue, memory and compiled kernels.

#include <hammock/host_tensor.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device_memory.h"
#include "kernel_files.h"
#include "queued_command.h"

namespace opencl {

/// A kernel that can be launched. Arguments are set under Device::launches.
struct CompiledKernel {
  Function function;
  int library = -1;  ///< number of the library that it is in
};

/// Lives until the process ends. Thread-safe.
class Device {
 public:
  explicit Device(cl_device_id id);

  const std::string& name() const { return name_; }
  cl_device_id id() const { return id_; }
  bool has_f64() const { return has_f64_; }
  /// How many pointers a kernel may have.
  size_t most_pointers() const { return most_pointers_; }
  /// A text of the device's properties that a saved kernel depends on.
  std::string Fingerprint() const;

  // ---- Kernels. Those that are not known yet, here or in files, are compiled together.
  void Compile(const std::string& functions, const std::vector<KernelSource>& sources);
  const CompiledKernel& Find(const std::string& name) const;
  /// The libraries that have these kernels, as bytes, and their return; one that the driver does
  /// not take is ignored, and its kernels are compiled when they are needed.
  std::string Save(const std::vector<std::string>& names) const;
  void Load(std::string_view bytes);
  using Clock = std::chrono::steady_clock;
  /// Writes the libraries that were compiled since to files, those that are not begun by `end` left
  /// out: a driver may compile a library once more for it. Drivers that compile a kernel when it is
  /// launched have done so by then.
  void WriteFiles(Clock::time_point end);
  int64_t compilations() const;

  // ---- Transfers
  BlockPtr Upload(const hammock::HostTensor& tensor);
  void Download(const Block& block, void* to, int64_t bytes);

  /// Held while a program's arguments are set and its kernels are enqueued.
  std::mutex launches;
  cl_command_queue queue() const { return queue_.get(); }
  /// A queue whose kernels have times; work that was enqueued before has ended. Whoever uses it
  /// waits for its end, under `launches`, so that the order of all work remains.
  cl_command_queue TimedQueue();
  cl_context context() const { return context_.get(); }
  /// Runs `task` on a thread of the device when the event has come, with its status.
  void After(Event event, std::function<void(cl_int status)> task);
  /// Returns when the work that was asked for before has ended and its tasks are done. Other
  /// threads may ask for more meanwhile, for ever.
  void Finish();

  DeviceMemory& memory() { return *memory_; }

 private:
  struct Waiting {
    Event event;
    std::function<void(cl_int)> task;
  };

  int AddLibrary(Library library, const std::vector<std::string>& names);
  std::vector<const KernelSource*> Missing(const std::vector<KernelSource>& sources) const;
  void ReadFiles(const std::vector<KernelSource>& sources);
  void WaitForEvents();

  const cl_device_id id_;
  std::string name_, driver_, options_;
  std::optional<KernelFiles> files_;
  bool has_f64_ = false;
  size_t most_pointers_ = 0;
  Context context_;
  Queue queue_, timed_queue_;
  std::unique_ptr<DeviceMemory> memory_;

  mutable std::mutex kernels_mutex_;
  std::vector<std::pair<Library, std::vector<std::string>>> libraries_;  // with their kernels
  std::map<std::string, CompiledKernel> kernels_;                        // by name
  std::vector<int> unwritten_;                                           // libraries
  int64_t compilations_ = 0;

  std::mutex waiting_mutex_;
  std::condition_variable arrived_, changed_;
  std::deque<Waiting> waiting_;
  uint64_t asked_ = 0, done_ = 0;  // tasks so far
};

}  // namespace opencl
