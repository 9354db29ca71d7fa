#pragma once
/// The loop IR, shared by all compiled backends. A Kernel is what several graph nodes become when
/// they run in one pass over memory:
///
///   for each row:
///     row values of stage 0
///     for each column: elements of stage 0
///     row values of stage 1          // they may use what stage 0 reduced
///     for each column: elements of stage 1 ...
///
/// A row value exists once per row, an element once per row and column. A reduction takes elements
/// of one stage and is a row value of the next. Every access to memory is affine: it lies at
/// offset + row * row_stride + column * column_stride, counted in elements.
///
/// A Kernel says nothing of sizes and constants, and of strides only whether they are 0, 1 or
/// something else, so that one compilation serves all of them; a Launch adds the numbers.
///
/// Note [Reductions]: on the CPU, element i of a reduction is combined into accumulator i mod 64,
/// in order; the 64 are then combined as a tree (j with j+32, j+16, ...). So the result depends on
/// the extent alone: it is the same interpreted and compiled, for any direction of vectors, and
/// whatever else is in the kernel. GPUs have a tree of their own: Note [Reductions on a GPU] in
/// backends/cuda/emit/launch_config.h. A backend of another project may choose its own, as long as
/// the result depends on the extent alone.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/dtype.h"
#include "hammock/ir/graph.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::compiler {

/// Of a schedule.
using BufferId = Id<struct BufferTag>;
template <class T>
using BufferMap = IdMap<BufferId, T>;

/// A borrowed BufferMap, which may go on behind the buffers of the schedule.
template <class T>
class BufferSpan {
 public:
  explicit BufferSpan(T* values) : values_(values) {}
  T& operator[](BufferId buffer) const { return values_[buffer.number()]; }

 private:
  T* values_;
};

inline constexpr int kAccumulators = 64;

enum class ReduceFn : uint8_t { kSum, kProd, kMax, kMin, kAny, kAll };

enum class Level : uint8_t { kRow, kElement };

struct Instr {
  enum class Kind : uint8_t {
    kLoad,      ///< an access
    kStore,     ///< operand 0 into an access
    kIndex,     ///< the position that an access describes, as i64
    kConstant,  ///< the number that an access holds
    kScalar,    ///< `fn` of the operands, which have one dtype
    kCast,      ///< operand 0 as `dtype`
    kBitcast,   ///< the bits of operand 0, of a dtype of the same width
    kReduce,    ///< `reduce` of operand 0 over the columns
  };
  Kind kind = Kind::kLoad;
  DType dtype = DType::kF32;  ///< of the result; of what is stored
  Level level = Level::kRow;
  int stage = 0;
  ScalarFn fn = ScalarFn::kNone;
  ReduceFn reduce = ReduceFn::kSum;
  int operands[3] = {-1, -1, -1};  ///< earlier instructions
  int access = -1;

  bool operator==(const Instr&) const = default;
};

// Saved: see base/record_bytes.h.
template <class Io>
void Fields(Io& io, Instr& instr) {
  io(instr.kind, instr.dtype, instr.level, instr.stage, instr.fn, instr.reduce, instr.operands[0],
     instr.operands[1], instr.operands[2], instr.access);
}

enum class Stride : uint8_t { kZero, kOne, kAny };

struct Access {
  enum class Kind : uint8_t {
    kBuffer,
    kScratch,   ///< memory of the thread that runs the row: written by one stage, read by a later
    kIndex,     ///< no memory: the index itself is the value
    kConstant,  ///< no memory: the offset has the bits of the value
    kRandom,    ///< the word at this index of the stream that the buffer names; ops/random/philox.h
  };
  Kind kind = Kind::kBuffer;
  DType dtype = DType::kF32;
  Stride row = Stride::kZero;
  Stride column = Stride::kZero;
  /// Stores go past the caches: much is written that nothing reads soon. Every row begins at a
  /// multiple of 64 bytes.
  bool streams = false;

  bool operator==(const Access&) const = default;
};

template <class Io>
void Fields(Io& io, Access& access) {
  io(access.kind, access.dtype, access.row, access.column, access.streams);
}

struct HAMMOCK_API Kernel {
  /// Vectors hold consecutive rows instead of consecutive columns.
  bool lanes_along_rows = false;
  int stages = 1;
  std::vector<Access> accesses;
  std::vector<Instr> instrs;  ///< operands before their users

  bool HasReduction() const;
  bool operator==(const Kernel&) const = default;
};

template <class Io>
void Fields(Io& io, Kernel& kernel) {
  io(kernel.lanes_along_rows, kernel.stages, kernel.accesses, kernel.instrs);
}

/// The name of a kernel's function, from its ops: `kernel_mul_exp_reduce_sum`.
HAMMOCK_API std::string FunctionName(const Kernel& kernel);

/// One line per instruction. Equal kernels have equal texts, so that it serves as a key.
HAMMOCK_API std::string ToText(const Kernel& kernel);

/// The numbers of one access.
struct AccessMap {
  BufferId buffer;  ///< for Access::Kind::kBuffer
  int64_t offset = 0;
  std::vector<int64_t> outer;  ///< a stride for each outer dim
  int64_t row = 0;
  int64_t column = 0;
};

template <class Io>
void Fields(Io& io, AccessMap& map) {
  io(map.buffer, map.offset, map.outer, map.row, map.column);
}

/// A kernel at certain sizes. All of outer, rows and columns are independent, unless the kernel has
/// more than one stage or a reduction: then those of one row belong together.
struct Launch {
  std::shared_ptr<const Kernel> kernel;
  std::vector<int64_t> outer;
  int64_t rows = 1;
  int64_t columns = 1;
  std::vector<AccessMap> maps;  ///< one per access
};

template <class Io>
void Fields(Io& io, Launch& launch) {
  io(launch.kernel, launch.outer, launch.rows, launch.columns, launch.maps);
}

HAMMOCK_API std::string ToText(const Launch& launch);

/// InternalError that names the access which could leave its buffer; `bytes` are those of the
/// buffers.
HAMMOCK_API void CheckBounds(const Launch& launch, const BufferMap<int64_t>& bytes);

HAMMOCK_API const char* NameOf(ReduceFn fn);

}  // namespace hammock::compiler
