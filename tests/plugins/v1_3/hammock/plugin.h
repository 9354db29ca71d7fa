/* The plug-in interface: how a device made elsewhere, in any language that speaks C, becomes a
 * device of Hammock. C11 and C++; includes nothing of Hammock and links against nothing of it.
 * docs/plugins.md is the guide, hammock/plugin_graph.h reads graphs.
 *
 * A plug-in is a shared library that exports one function:
 *
 *   const HammockPlugin* hammock_plugin(const HammockHost* host);
 *
 * Versions. Structs that say how large they are grow, at their end only; others never do. A
 * function or field that the other side's struct does not reach is absent: the host takes it for
 * null or zero; a plug-in asks HAMMOCK_HAS(host, field) before it uses a field that came after
 * version 1.0. A plug-in of another major version is refused, with both versions in the message.
 *
 * Handles are 64-bit numbers; 0 is none. Those of the plug-in (data, executables) are its own
 * choice, such as pointers; the host never looks into them, and gives each back exactly once. Those
 * of the host (buffers, events, runs, options, metrics, spans) are checked at each use: a stale or
 * invented one is answered with HAMMOCK_STALE_HANDLE and changes nothing.
 *
 * Memory. Whatever a call points to belongs to the caller and is valid until the call returns,
 * unless stated otherwise. Texts are written through a HammockWriter, so nobody frees the other's
 * memory.
 *
 * Errors. A call returns HAMMOCK_OK or the kind of error, and writes a text, and where known the
 * op and node, to `error`. Nothing may be thrown or longjmp'ed through the interface.
 *
 * Threads. Any function may be called by any thread, several at once, except that `execute` of a
 * plug-in that is neither asynchronous nor concurrent is called by one thread at a time for each
 * device. Functions of the host may be called by any thread at any time, also inside of calls. */
#ifndef HAMMOCK_PLUGIN_H_
#define HAMMOCK_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAMMOCK_PLUGIN_MAJOR 1
#define HAMMOCK_PLUGIN_MINOR 3

/* Whether a struct of the other side reaches as far as a field. */
#define HAMMOCK_HAS(object, field) \
  ((object)->struct_size >= (size_t)((const char*)(&(object)->field + 1) - (const char*)(object)))

typedef int32_t HammockStatus;
enum {
  HAMMOCK_OK = 0,
  HAMMOCK_VALUE_ERROR = 1,   /* an argument is wrong */
  HAMMOCK_NOT_SUPPORTED = 2, /* valid, but not available here */
  HAMMOCK_COMPILE_ERROR = 3, /* the graph goes to the fallback device */
  HAMMOCK_EXECUTE_ERROR = 4,
  HAMMOCK_TRANSFER_ERROR = 5,
  HAMMOCK_OUT_OF_MEMORY = 6, /* the host frees memory and calls once more */
  HAMMOCK_DEVICE_ERROR = 7,
  HAMMOCK_INTERNAL_ERROR = 8, /* a bug in the plug-in */
  HAMMOCK_INDEX_ERROR = 9,    /* an index operand is out of range */
  HAMMOCK_STALE_HANDLE = 10,
  HAMMOCK_WRONG_THREAD = 11
};

/* Element types, with the numbers that graphs use. */
enum {
  HAMMOCK_BOOL = 0,
  HAMMOCK_U8 = 1,
  HAMMOCK_U16 = 2,
  HAMMOCK_U32 = 3,
  HAMMOCK_U64 = 4,
  HAMMOCK_I8 = 5,
  HAMMOCK_I16 = 6,
  HAMMOCK_I32 = 7,
  HAMMOCK_I64 = 8,
  HAMMOCK_F16 = 9,
  HAMMOCK_BF16 = 10,
  HAMMOCK_F32 = 11,
  HAMMOCK_F64 = 12,
  HAMMOCK_C64 = 13, /* two f32, the real part first */
  HAMMOCK_C128 = 14,
  /* Since 1.2: storage types. No kernel computes with them: they lie in memory, and graphs bitcast
   * them to integers and back. Those of 4 and 2 bits are packed, the first element in the lowest
   * bits; a row fills whole bytes, an element of rank 0 a byte. To a plug-in of an older version
   * their bytes are U8. */
  HAMMOCK_F8E4M3 = 15,
  HAMMOCK_F8E5M2 = 16,
  HAMMOCK_I4 = 17,
  HAMMOCK_U4 = 18,
  HAMMOCK_I2 = 19, /* since 1.3 */
  HAMMOCK_U2 = 20
};

/* Handles of the plug-in. */
typedef uint64_t HammockData;
typedef uint64_t HammockExecutable;
typedef uint64_t HammockLoan; /* since 1.3 */
/* Handles of the host. */
typedef uint64_t HammockBuffer;
typedef uint64_t HammockEvent;
typedef uint64_t HammockRun;
typedef uint64_t HammockOption;
typedef uint64_t HammockMetric;
typedef uint64_t HammockSpan;

/* Receives bytes, in one or several pieces. */
typedef struct HammockWriter {
  void* context;
  void (*write)(void* context, const void* bytes, uint64_t size);
} HammockWriter;

/* What a call that fails says, besides its status. */
typedef struct HammockError {
  uint32_t struct_size;
  int32_t node; /* of the graph of the executable; -1, as it comes: not known */
  HammockWriter text;
  HammockWriter op; /* its name, where no node is known */
} HammockError;

typedef struct HammockShape {
  uint32_t dtype;
  uint32_t rank;
  const int64_t* sizes;
} HammockShape;

typedef struct HammockBytes {
  const void* bytes; /* aligned to 8 */
  uint64_t size;
} HammockBytes;

/* A value in host memory, row-major. */
typedef struct HammockHostTensor {
  HammockShape shape;
  HammockBytes bytes;
  HammockBuffer buffer; /* of the bytes, for a plug-in that keeps them: buffer_retain */
} HammockHostTensor;

/* A result of a run. */
typedef struct HammockResult {
  HammockData data;   /* out */
  HammockEvent ready; /* in: to be set when the value is there; 0 for a synchronous plug-in */
  uint32_t pending;   /* out: 1 where it is not there yet */
  uint32_t reserved;
} HammockResult;

typedef struct HammockExecution {
  uint32_t struct_size;
  uint32_t location; /* line of the program whose step runs, for `location_text`; 0: not known */
  int64_t device;
  HammockExecutable executable;
  uint64_t argument_count;
  const HammockData* arguments; /* by parameter; more may follow, see HAMMOCK_KEEPS_DONATED */
  const uint8_t* donated;       /* one for each argument; null: none */
  uint64_t result_count;
  HammockResult* results;
  HammockRun run; /* of the profile; 0: none is being written */
  /* Since 1.2. A byte, to be read atomically, that becomes 1 when the process ends before the run
   * does: the run may then stop with any error, as long as no donated argument was written. Null
   * where that cannot happen; else valid for ever. */
  const uint8_t* cancel;
} HammockExecution;

/* How a size of a graph with dim parameters follows from others:
 * (coefficient * the product of those parameters + offset) / divisor, rounded down. */
typedef struct HammockDerivedSize {
  int64_t coefficient;
  uint64_t factor_count; /* 0: it is free */
  const int32_t* factors;
  int64_t offset;
  int64_t divisor;
} HammockDerivedSize;

typedef struct HammockAlias {
  int32_t result;
  int32_t parameter;
} HammockAlias;

/* What is to be compiled. */
typedef struct HammockCompilation {
  uint32_t struct_size;
  uint32_t in_mark_step; /* 1: for a step; 0: for a read, a capture or a tool */
  int64_t device;
  const char* name;
  HammockBytes graph; /* plugin_graph.h */
  uint64_t alias_count;
  const HammockAlias* aliases; /* results that may be written into donated parameters */
  uint64_t derived_size_count; /* one for each dim parameter, or 0 */
  const HammockDerivedSize* derived_sizes;
} HammockCompilation;

/* What became of it. */
typedef struct HammockCompiled {
  uint32_t struct_size;
  uint32_t reserved;
  HammockExecutable executable;
  int64_t code_bytes; /* counts towards the bound of the cache of compiled steps */
  int64_t run_bytes;  /* most memory of a run besides its arguments; 0: not known */
} HammockCompiled;

enum { HAMMOCK_RUN = 0, HAMMOCK_EXPAND = 1, HAMMOCK_REFUSE = 2 };

/* Takes answers about nodes of a graph. Nodes without one: primitives run, composites are
 * expanded. `reason`, for HAMMOCK_REFUSE, is shown to users. */
typedef struct HammockAnswers {
  void* context;
  HammockStatus (*answer)(void* context, int32_t node, uint32_t verdict, const char* reason);
} HammockAnswers;

typedef struct HammockMemoryInfo {
  uint32_t struct_size;
  uint32_t reserved_;
  int64_t in_use;   /* held by live data, derived data included */
  int64_t derived;  /* of which forms that can be made again, such as packed weights */
  int64_t reserved; /* taken from the system, in use or cached */
  int64_t peak;     /* highest in_use so far */
  int64_t limit;    /* 0: none */
  int64_t total;    /* that the device has; 0: as much as the host */
} HammockMemoryInfo;

/* Takes facts about a device: what it has or, with `missing`, what it lacks and why. */
typedef struct HammockFacts {
  void* context;
  void (*add)(void* context, const char* name, const char* text, uint32_t missing);
} HammockFacts;

/* One part of an executable that runs by itself. */
typedef struct HammockKernel {
  uint32_t struct_size;
  uint32_t node_count;
  const int32_t* nodes;
  const char* name;
  const char* kind; /* "kernel", or who runs it */
  const char* text; /* may be null */
  int64_t bytes;    /* that it reads and writes; 0: not known */
  int64_t flops;    /* 0: not known */
} HammockKernel;

/* Takes a description of an executable. */
typedef struct HammockDescription {
  void* context;
  void (*kernel)(void* context, const HammockKernel* kernel); /* in the order in which they run */
  void (*peak_bytes)(void* context, int64_t bytes);           /* of a run, besides its inputs */
  /* The graph that is run, as text, where that is not the one that was given; before kernels. */
  HammockStatus (*graph)(void* context, const char* text, uint64_t size);
} HammockDescription;

typedef struct HammockNumbers {
  void* context;
  void (*add)(void* context, const char* name, double value);
} HammockNumbers;

enum { HAMMOCK_OPTION_BOOL = 0, HAMMOCK_OPTION_INT = 1, HAMMOCK_OPTION_TEXT = 2 };

/* An option of the plug-in: `name.option`, set as all others are. Valid as long as the library. */
typedef struct HammockOptionSpec {
  uint32_t struct_size;
  uint32_t type;
  const char* name; /* begins with the plug-in's name and a dot */
  const char* default_text;
  const char* doc;
  uint32_t affects_code; /* 1: other values give other executables */
  uint32_t reserved;
  int64_t min;         /* least integer */
  const char* choices; /* valid texts, as in "fast, exact"; null: any */
} HammockOptionSpec;

enum {
  HAMMOCK_COUNTER = 0,
  HAMMOCK_GAUGE = 1,
  HAMMOCK_VALUES = 2,
  HAMMOCK_SIZES = 3, /* bytes */
  HAMMOCK_TIMES = 4  /* nanoseconds */
};

/* Since 1.1. A node between the ranks of a group, such as all_reduce: its op and attributes, and
 * elements in host memory, row-major. Attributes that the op does not have are not read. */
typedef struct HammockCollective {
  uint32_t struct_size;
  uint32_t reserved;
  const char* op;
  const char* group;
  int64_t size;          /* ranks of the group */
  const char* reduction; /* of all_reduce and reduce_scatter */
  int64_t root;          /* of collective_broadcast */
  uint64_t pair_count;   /* of collective_permute: pairs of ranks, from and to */
  const int64_t* pairs;
  HammockShape shape; /* of `in` */
  const void* in;
  void* out;
} HammockCollective;

/* Since 1.3. Memory with the row-major elements of data, for others; `take_back` ends the loan. */
typedef struct HammockLent {
  uint64_t memory; /* an address on the device, or in the host's memory */
  HammockLoan loan;
} HammockLent;

enum { HAMMOCK_LOG_DEBUG = 0, HAMMOCK_LOG_INFO = 1, HAMMOCK_LOG_WARN = 2, HAMMOCK_LOG_ERROR = 3 };

/* The host's functions; valid for ever. `context` is the first argument of each. */
typedef struct HammockHost {
  uint32_t struct_size;
  uint32_t version_major;
  uint32_t version_minor;
  uint32_t reserved;
  const char* version; /* of Hammock, for messages */
  void* context;

  void (*log)(void* context, uint32_t level, const char* text);

  /* Keeps the bytes of an upload until they are released as often as they were retained. They are
   * never written. */
  HammockStatus (*buffer_retain)(void* context, HammockBuffer buffer);
  HammockStatus (*buffer_release)(void* context, HammockBuffer buffer);

  /* A pending result is there, or failed; once. `node` is -1 where it is not known, texts may be
   * null. */
  HammockStatus (*event_set)(void* context, HammockEvent event, HammockStatus status, int32_t node,
                             const char* op, const char* text);

  /* Options, of the plug-in and of Hammock, by name. Bools are 0 or 1. */
  HammockStatus (*option_find)(void* context, const char* name, HammockOption* option);
  HammockStatus (*option_int)(void* context, HammockOption option, int64_t* value);
  HammockStatus (*option_text)(void* context, HammockOption option, HammockWriter text);

  /* Metrics: `name::Metric`. A counter is added to, a gauge is set, the others take samples. A
   * value that is not finite, or no 64-bit integer where one is kept, is a HAMMOCK_VALUE_ERROR. */
  HammockStatus (*metric_declare)(void* context, uint32_t kind, const char* name, const char* doc,
                                  HammockMetric* metric);
  HammockStatus (*metric_add)(void* context, HammockMetric metric, double value);

  /* Spans of the profile on the calling thread. Without a profile the span is 0, whose end is
   * HAMMOCK_OK. A span ends on the thread on which it began. */
  HammockStatus (*span_begin)(void* context, const char* name, HammockSpan* span);
  HammockStatus (*span_end)(void* context, HammockSpan span);

  /* Kernels of a run, numbered as in `describe_executable`, by the clock of `now`. A run ends when
   * `execute` has returned and its results are ready. */
  int64_t (*now)(void* context);
  HammockStatus (*run_kernel)(void* context, HammockRun run, uint64_t kernel, const char* name,
                              int64_t begin, int64_t end);
  HammockStatus (*run_memory)(void* context, HammockRun run, int64_t in_use);

  /* "file:line" of HammockExecution::location. */
  HammockStatus (*location_text)(void* context, uint32_t location, HammockWriter text);

  /* Since 1.1. Exchanges data with the other ranks, and returns when `out` is there. Only inside of
   * `execute`, on the thread that called it: other ranks wait for the collectives of the step. */
  HammockStatus (*collective)(void* context, const HammockCollective* collective,
                              HammockError* error);
} HammockHost;

enum {
  /* `execute` returns before its results are ready. It is called by the thread that syncs; its
   * arguments may be pending, and the plug-in orders its own work. */
  HAMMOCK_ASYNCHRONOUS = 1,
  /* Several computations of a device run at once. */
  HAMMOCK_CONCURRENT = 2,
  /* Of an asynchronous plug-in: donated arguments keep their values where the run, or one whose
   * pending result is an argument of it, turns out to have failed. Then pending arguments are
   * donated too, and arguments may follow behind the parameters, which are not read: donated ones
   * keep their values also where the runs of these have failed. */
  HAMMOCK_KEEPS_DONATED = 4,
  /* `compile` takes graphs with dim parameters, and `instantiate` gives executables for other
   * values of them. */
  HAMMOCK_DIM_PARAMS = 8,
  /* Graphs are folded, simplified and rid of equal and dead nodes before they come. */
  HAMMOCK_OPTIMISED_GRAPHS = 16
};

/* The plug-in's table; valid for ever. `self` is the first argument of each function. Functions
 * marked * may be null. */
typedef struct HammockPlugin {
  uint32_t struct_size;
  uint32_t version_major; /* HAMMOCK_PLUGIN_MAJOR and _MINOR that it was compiled with */
  uint32_t version_minor;
  uint32_t properties;
  const char* name;     /* of its devices: letters, digits, '_', '-', '.' */
  const char* version;  /* of the plug-in, for people */
  const char* fallback; /* device of what it refuses; null: "reference" */
  void* self;
  uint64_t option_count;
  const HammockOptionSpec* const* options;

  /* * Called once before all others but `shutdown`, which is the last call. */
  HammockStatus (*initialize)(void* self, HammockError* error);
  void (*shutdown)(void* self);

  /* Devices are numbered from 0. */
  HammockStatus (*device_count)(void* self, int64_t* count, HammockError* error);
  HammockStatus (*memory_info)(void* self, int64_t device, HammockMemoryInfo* info,
                               HammockError* error);
  /* * 0 lifts the limit. */
  HammockStatus (*set_memory_limit)(void* self, int64_t device, int64_t bytes, HammockError* error);
  /* * Memory is short: gives cached memory and derived data back. */
  void (*free_cached_memory)(void* self, int64_t device);
  /* * What a device has and lacks, for `hammock devices`. */
  void (*describe_device)(void* self, int64_t device, HammockFacts facts);

  /* Data. Every dtype must be storable. The layout on the device is the plug-in's own. */
  HammockStatus (*upload)(void* self, int64_t device, uint64_t count,
                          const HammockHostTensor* tensors, HammockData* data, HammockError* error);
  /* Row-major into memory of the host, one place for each data. */
  HammockStatus (*download)(void* self, uint64_t count, const HammockData* data,
                            void* const* places, HammockError* error);
  void (*release)(void* self, uint64_t count, const HammockData* data);
  /* * To another device of the plug-in. HAMMOCK_NOT_SUPPORTED: it goes through the host. */
  HammockStatus (*copy)(void* self, HammockData data, int64_t to, HammockData* copy,
                        HammockError* error);

  /* * What becomes of the nodes of a graph; all in one call. Without it: all primitives run. An
   * answer depends on the node, the types of its operands and the device alone. */
  HammockStatus (*capabilities)(void* self, int64_t device, HammockBytes graph,
                                HammockAnswers answers, HammockError* error);
  /* May return before the code is ready; `execute` then waits for it or does without. */
  HammockStatus (*compile)(void* self, const HammockCompilation* compilation,
                           HammockCompiled* compiled, HammockError* error);
  /* * Of HAMMOCK_DIM_PARAMS: the executable at other values of the dim parameters. COMPILE_ERROR
   * and NOT_SUPPORTED: the graph is compiled at these sizes. */
  HammockStatus (*instantiate)(void* self, HammockExecutable executable, uint64_t count,
                               const int64_t* sizes, HammockCompiled* compiled,
                               HammockError* error);
  void (*release_executable)(void* self, HammockExecutable executable);
  /* Everything that can fail happens before donated memory is written. A donated argument is
   * released as any other. Results have memory of their own. */
  HammockStatus (*execute)(void* self, const HammockExecution* execution, HammockError* error);
  /* * Returns when the device has done all that was asked of it. */
  HammockStatus (*wait)(void* self, int64_t device, HammockError* error);
  /* * A thread is about to wait: a plug-in that polls should poll now. */
  void (*hurry)(void* self, int64_t device);
  /* * manual_seed, for random state of its own. */
  void (*set_seed)(void* self, uint64_t seed);

  /* * All that a saved executable depends on besides its graph. Without it nothing is saved. */
  HammockStatus (*fingerprint)(void* self, int64_t device, HammockWriter text, HammockError* error);
  /* * Without these two, a saved executable is its graph. */
  HammockStatus (*serialize)(void* self, HammockExecutable executable, HammockWriter bytes,
                             HammockError* error);
  HammockStatus (*deserialize)(void* self, const HammockCompilation* compilation,
                               HammockBytes bytes, HammockCompiled* compiled, HammockError* error);

  /* * For people: dumps, profiles, `hammock report`, `metrics::Report`. */
  void (*executable_text)(void* self, HammockExecutable executable, HammockWriter text);
  void (*describe_executable)(void* self, HammockExecutable executable,
                              HammockDescription description);
  void (*report)(void* self, HammockWriter text);
  void (*numbers)(void* self, HammockNumbers numbers);

  /* Since 1.3. Exchange of device memory with other libraries of the process, without the host. A
   * stream is a handle of its driver, such as a CUstream. The alignment that borrowed memory must
   * have; 0: there is no exchange, and the next four are not called. */
  uint64_t exchange_alignment;
  /* * Later work of the device comes after all work that the stream was given. */
  HammockStatus (*come_after)(void* self, int64_t device, uint64_t stream, HammockError* error);
  /* * Later work of the stream comes after all work that the device was given. */
  HammockStatus (*let_come_after)(void* self, int64_t device, uint64_t stream, HammockError* error);
  /* * Row-major elements of device memory as data: read where they are, never written. The plug-in
   * retains `buffer`, which has no bytes, and releases it when the last user is gone. */
  HammockStatus (*borrow)(void* self, int64_t device, uint64_t memory, const HammockShape* shape,
                          HammockBuffer buffer, HammockData* data, HammockError* error);
  /* * Elements of data for another library, which may write them. `sole` is 1 where nobody else has
   * the data, which is only released afterwards: then the memory may be its own, else it is a copy
   * on the device. */
  HammockStatus (*lend)(void* self, HammockData data, uint32_t sole, HammockLent* lent,
                        HammockError* error);
  /* * Elements of ready data in host memory, which nobody writes until the loan ends, though the
   * data be donated or released. HAMMOCK_NOT_SUPPORTED: they must be copied. */
  HammockStatus (*share)(void* self, HammockData data, HammockLent* lent, HammockError* error);
  /* * The end of a loan of `lend` or `share`. The plug-in may use the memory again after all work
   * that the stream was given; null: at once. */
  HammockStatus (*take_back)(void* self, HammockLoan loan, const uint64_t* stream,
                             HammockError* error);
} HammockPlugin;

#if defined(_WIN32)
#define HAMMOCK_PLUGIN_EXPORT __declspec(dllexport)
#else
#define HAMMOCK_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* The one function that a plug-in exports. Null: it cannot be used here; what it logged says why.
 */
HAMMOCK_PLUGIN_EXPORT const HammockPlugin* hammock_plugin(const HammockHost* host);

/* ---- Helpers */

static inline void hammock_write(HammockWriter writer, const char* text) {
  if (writer.write && text) writer.write(writer.context, text, strlen(text));
}

/* return hammock_fail(error, HAMMOCK_COMPILE_ERROR, "no kernel for this op"); */
static inline HammockStatus hammock_fail(HammockError* error, HammockStatus status,
                                         const char* text) {
  hammock_write(error->text, text);
  return status;
}

static inline HammockStatus hammock_fail_at(HammockError* error, HammockStatus status, int32_t node,
                                            const char* text) {
  error->node = node;
  return hammock_fail(error, status, text);
}

/* Bits of an element; 0 of a dtype of a later version. */
static inline uint64_t hammock_element_bits(uint32_t dtype) {
  static const uint8_t bits[] = {8,  8,  16, 32,  64, 8, 16, 32, 64, 16, 16,
                                 32, 64, 64, 128, 8,  8, 4,  4,  2,  2};
  return dtype < sizeof(bits) ? bits[dtype] : 0;
}

/* Bytes of an element; 0 where several share one. */
static inline uint64_t hammock_element_size(uint32_t dtype) {
  return hammock_element_bits(dtype) / 8;
}

/* Whether elements are floats or complex. */
static inline int hammock_is_float(uint32_t dtype) {
  return dtype >= HAMMOCK_F16 && dtype <= HAMMOCK_F8E5M2;
}

static inline uint64_t hammock_element_count(const HammockShape* shape) {
  uint64_t count = 1;
  uint32_t i;
  for (i = 0; i < shape->rank; ++i) count *= (uint64_t)shape->sizes[i];
  return count;
}

static inline uint64_t hammock_shape_bytes(const HammockShape* shape) {
  return (hammock_element_count(shape) * hammock_element_bits(shape->dtype) + 7) / 8;
}

#ifdef __cplusplus
}
#endif

#endif /* HAMMOCK_PLUGIN_H_ */
