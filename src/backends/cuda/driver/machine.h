#pragma once
/// Machine: a GPU as programs see it; tests have emulated ones.
///
/// Note [Streams]: work happens after the call that asked for it has returned, unless a call says
/// that it waits. A machine has a few streams. Each thread has one of them until it ends, alone or
/// together with other threads if there are many. Work of one stream happens in the order of the
/// calls; streams run concurrently. An event is a position in the order of a stream, and ComeAfter
/// makes the caller's stream wait for an event of another one. Nothing else orders streams, so
/// users of memory keep these rules, which cost a program of one thread nothing:
/// - A run comes after the events of its arguments, each of which was recorded after the run or
///   copy that made the argument.
/// - Memory that another stream has used (StreamUses) is written when that use is over, or by work
///   that comes after it. A run comes after all earlier uses of the donated memory that it takes;
///   cached memory is taken by the stream that it comes from, or else when it is idle.
/// - The same holds of the words in which runs say whether they have failed (FaultWords). A run
///   reads the words of the runs that made its arguments, so they were written before.
/// - Everything else that launches share belongs to one stream: counters, CUDA graphs, the handles
///   of libraries.
/// - A use is noted, or memory given back, after the event that follows it was recorded.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/driver/thread_streams.h"
#include "backends/cuda/emit/emit_cuda.h"
#include "backends/cuda/emit/launch_config.h"
#include "hammock/error.h"
#include "hammock/ir/dtype.h"
#include "hammock/ir/shape.h"

namespace hammock::cuda {

/// An address in device memory.
using Address = uint64_t;

/// A kernel, compiled or being compiled.
class Function {
 public:
  virtual ~Function() = default;
};

/// A position in the order of a stream. Each stream numbers its events from 1.
class Event {
 public:
  Event(int stream, uint64_t number) : stream(stream), number(number) {}
  virtual ~Event() = default;
  const int stream;
  const uint64_t number;
};

/// The machine has failed for good: nothing on it can be read or run any more. It is raised by
/// the call that notices it first, often much later than its cause, and by all calls from then on,
/// so it has no source line unless one is set.
class MachineLost : public ErrorKind<MachineLost, DeviceError> {
 public:
  MachineLost(ErrorCode code, std::string message) : ErrorKind(code, std::move(message)) {
    SetWhere("");
  }
};

/// Captured work that can be launched again in one call.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
};

/// A part of captured work. It depends on the earlier parts `after`, and is concurrent with all
/// others.
struct Piece {
  std::function<void()> work;
  std::vector<int> after;
};

/// out[batch, m, n] = a[batch, m, k] * b[batch, k, n], matrices with one contiguous dim each.
struct MatMul {
  DType dtype = DType::kF32;      ///< of a and b
  DType out_dtype = DType::kF32;  ///< dtype, or f32 for f16 and bf16, i32 for i8
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false;                        ///< a is stored as [k, m]
  bool b_transposed = false;                        ///< b is stored as [n, k]
  int64_t a_row = 0, b_row = 0, out_row = 0;        ///< strides of stored rows, in elements
  int64_t a_batch = 0, b_batch = 0, out_batch = 0;  ///< strides of the batch
  bool bias = false;  ///< one element of out_dtype for each column is added before it is rounded
  bool relu = false;  ///< relu is applied after that

  auto operator<=>(const MatMul&) const = default;

  template <class Io>
  friend void Fields(Io& io, MatMul& p) {
    io(p.dtype, p.out_dtype, p.batch, p.m, p.n, p.k, p.a_transposed, p.b_transposed, p.a_row,
       p.b_row, p.out_row, p.a_batch, p.b_batch, p.out_batch, p.bias, p.relu);
  }
};

/// A convolution of images [batch, channels, positions...], or one of its gradients.
struct Convolution {
  enum class Kind {
    kForward,  ///< computes out from input and weight
    kInput,    ///< computes input from out and weight: the gradient, or a transposed convolution
    kWeight,   ///< computes weight from out and input
  };
  Kind kind = Kind::kForward;
  DType dtype = DType::kF32;
  Dims input, weight, out;  ///< sizes; weight: [channels of out, channels of input / groups, taps]
  Dims stride, padding, dilation;
  int64_t groups = 1;
  bool channels_last = false;  ///< in memory, of all three; sizes stay as they are
};

/// Fourier transforms of `batch` signals, not scaled. Strides and distances are in elements, which
/// are complex or, on one side, real.
struct Transform {
  enum class Kind { kForward, kBackward, kToComplex, kToReal };
  Kind kind = Kind::kForward;
  DType dtype = DType::kF32;  ///< of the parts
  Dims sizes;                 ///< up to three; several lie one after the other
  int64_t batch = 1;
  int64_t in_stride = 1, in_distance = 0;  ///< from element to element, from signal to signal
  int64_t out_stride = 1, out_distance = 0;
};

/// A matmul, convolution or transform, prepared to run. Immutable.
class PreparedOp {
 public:
  virtual ~PreparedOp() = default;
  virtual int64_t scratch_bytes() const { return 0; }
};

/// Thread-safe.
class Machine {
 public:
  virtual ~Machine() = default;

  virtual std::string name() const = 0;      ///< for people
  virtual int64_t memory_bytes() const = 0;  ///< of the device
  virtual std::string code_key()
      const = 0;                 ///< identifies the architecture and compiler that code is for
  virtual int card() const = 0;  ///< machines of one card are lost together

  // ---- Memory, aligned to 256 bytes. Null if there is none left.
  virtual Address TakeMemory(int64_t bytes) = 0;
  virtual void GiveMemory(Address address) = 0;
  /// Memory of the host that kernels can use too, at the same address.
  virtual void* TakeHostMemory(int64_t bytes) = 0;
  virtual void GiveHostMemory(void* memory) = 0;
  /// kCounterBytes of device memory that are 0, for work of the calling thread's stream. Kernels
  /// that count their blocks leave them so.
  virtual Address Counters() = 0;

  // ---- Copies. The host's bytes may be changed when the call returns.
  /// Large uploads are concurrent with other work; earlier uses of the memory at `to` must be over.
  static constexpr int64_t kInOrder = 1 << 16;  ///< bytes up to which uploads come in order
  virtual void Upload(Address to, const void* from, int64_t bytes) = 0;
  /// Waits for all work before `after` (null: for all work), and for the copy.
  virtual void Download(void* to, Address from, int64_t bytes, const Event* after) = 0;
  virtual void Copy(Address to, Address from, int64_t bytes) = 0;
  /// Copies memory of another machine of the same kind, as it is there at `after`. Comes before all
  /// later work of the calling thread; earlier uses of the memory at `to` must be over.
  virtual void CopyFrom(Machine& other, Address to, Address from, int64_t bytes,
                        const Event& after) = 0;
  virtual void Clear(Address at, int64_t bytes) = 0;

  // ---- Code
  /// Whether kernels may multiply as Note [Asynchronous matmuls] in device/attention_tiles.cuh
  /// says.
  virtual bool has_async_matmuls() const = 0;
  /// CompileError where a text is wrong, here or when it first runs.
  virtual std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) = 0;
  virtual void Launch(const Function& function, const Grid& grid,
                      std::span<const uint64_t> arguments) = 0;
  /// The code of kernels, by a key of the machine; empty where there is none to save.
  virtual std::map<std::string, std::string> SaveCode(std::span<const KernelSource>) { return {}; }
  /// Code that SaveCode gave, for kernels that are loaded later.
  virtual void AddCode(std::map<std::string, std::string>) {}
  /// The algorithms that libraries have chosen so far for matmuls and convolutions.
  virtual std::string SaveAlgorithms() { return ""; }
  virtual void AddAlgorithms(const std::string&) {}

  // ---- Matmuls. Prepare returns null if the machine cannot compute it.
  virtual std::shared_ptr<PreparedOp> Prepare(const MatMul& matmul) = 0;
  virtual void Multiply(const PreparedOp& matmul, Address a, Address b, Address bias, Address out,
                        Address scratch) = 0;

  // ---- Convolutions, `a` and `b` in the order in which Kind names them. Null as above.
  virtual std::shared_ptr<PreparedOp> Prepare(const Convolution&) { return nullptr; }
  virtual void Convolve(const PreparedOp&, Address /*a*/, Address /*b*/, Address /*out*/,
                        Address /*scratch*/) {}

  // ---- Transforms. Null as above; `in` may be overwritten where results are real.
  virtual std::shared_ptr<PreparedOp> Prepare(const Transform&) { return nullptr; }
  virtual void RunTransform(const PreparedOp&, Address /*in*/, Address /*out*/,
                            Address /*scratch*/) {}
  /// Empty if Prepare takes transforms.
  virtual std::string WhyNoTransforms() const { return "this machine has none"; }

  // ---- CUDA graphs: the same work with the same addresses, in one call of the driver. A graph
  // belongs to the stream of the thread that captured it.
  /// Captures the work of the pieces instead of doing it. Null, with nothing done, on machines
  /// without graphs.
  virtual std::shared_ptr<CudaGraph> CaptureGraph(std::span<const Piece>) { return nullptr; }
  /// Updates a graph to other pieces, which differ in addresses alone. Earlier launches are not
  /// affected. False, with nothing done, if that is not possible.
  virtual bool Update(CudaGraph&, std::span<const Piece>) { return false; }
  virtual void Replay(const CudaGraph&) {}

  /// Assembly of a kernel, for people; empty where there is none.
  virtual std::string Assembly(const KernelSource&) { return ""; }

  // ---- Streams and their events; see Note [Streams]
  virtual int Stream() = 0;         ///< the calling thread's
  virtual int Streams() const = 0;  ///< as many as threads have asked for so far
  virtual std::shared_ptr<Event> RecordEvent() = 0;
  /// An event that Seconds can measure from or to.
  virtual std::shared_ptr<Event> RecordTimedEvent() = 0;
  virtual double Seconds(const Event& from, const Event& to) = 0;  ///< both have passed
  /// The calling thread's stream waits for an event.
  virtual void ComeAfter(const Event& event) = 0;
  /// The same by its number; may wait for later events of that stream too.
  virtual void ComeAfter(int stream, uint64_t number) = 0;
  virtual uint64_t Asked(int stream) const = 0;  ///< the number of the last event recorded
  /// A lower bound of the number of the last event that has passed. Asks nothing of the device, so
  /// it can be called of a lost one: the work behind the returned event is what failed.
  virtual uint64_t Passed(int stream) const = 0;
  virtual void WaitFor(const Event& event) = 0;

  // ---- Streams of other libraries of the process, by the driver's handles. A machine whose work
  // is done when a call returns has nothing to wait for.
  /// The calling thread's stream waits for all work that the other stream was given.
  virtual void ComeAfterForeign(uint64_t /*stream*/) {}
  /// The other stream waits for all work of the calling thread's stream.
  virtual void LetForeignComeAfter(uint64_t /*stream*/) {}

  /// Waits for everything. DeviceError if something failed.
  virtual void Finish() = 0;
};

}  // namespace hammock::cuda
