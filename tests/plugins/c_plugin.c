/* A plug-in in C, built from the frozen headers of version 1.0: a machine for f32 that adds,
 * multiplies, negates and takes maxima, and leaves everything else to the fallback device. It keeps
 * values in malloc'ed memory, counts what it is asked and obeys a memory limit. Not thread-safe
 * beyond what the interface asks of it. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "hammock/plugin.h"
#include "hammock/plugin_graph.h"

typedef struct Value {
  uint64_t bytes;
  void* memory;
} Value;

/* result = function(a, b) */
typedef struct Instruction {
  int32_t node;
  char function; /* + * - > or '#' for a constant */
  int32_t a, b;
  uint64_t count;
  float constant;
} Instruction;

typedef struct Program {
  uint32_t registers, inputs, outputs, length;
  int32_t* input;
  int32_t* output;
  Instruction* code;
} Program;

static const HammockHost* host;
static _Atomic int64_t in_use, peak, limit;
static _Atomic int64_t live_values, live_programs;
static HammockMetric runs;
static HammockOption refuse_mul;

static Value* Allocate(uint64_t bytes, HammockError* error) {
  Value* value;
  int64_t now = atomic_fetch_add(&in_use, (int64_t)bytes) + (int64_t)bytes;
  if (limit > 0 && now > limit) {
    atomic_fetch_sub(&in_use, (int64_t)bytes);
    hammock_fail(error, HAMMOCK_OUT_OF_MEMORY, "the C plug-in's limit is reached");
    return NULL;
  }
  if (now > peak) peak = now;
  value = malloc(sizeof(*value));
  value->bytes = bytes;
  value->memory = malloc(bytes ? bytes : 1);
  atomic_fetch_add(&live_values, 1);
  return value;
}

static void Free(Value* value) {
  atomic_fetch_sub(&in_use, (int64_t)value->bytes);
  atomic_fetch_sub(&live_values, 1);
  free(value->memory);
  free(value);
}

static char FunctionOf(const HammockNode* node) {
  if (strcmp(node->op, "add") == 0) return '+';
  if (strcmp(node->op, "mul") == 0) return '*';
  if (strcmp(node->op, "neg") == 0) return '-';
  if (strcmp(node->op, "maximum") == 0) return '>';
  if (strcmp(node->op, "constant") == 0) return '#';
  return 0;
}

static HammockStatus Initialize(void* self, HammockError* error) {
  (void)self;
  if (host->metric_declare(host->context, HAMMOCK_COUNTER, "cdev::Runs", "Runs.", &runs) ||
      host->option_find(host->context, "cdev.refuse_mul", &refuse_mul)) {
    return hammock_fail(error, HAMMOCK_INTERNAL_ERROR, "the host refuses metrics or options");
  }
  return HAMMOCK_OK;
}

static HammockStatus DeviceCount(void* self, int64_t* count, HammockError* error) {
  (void)self, (void)error;
  *count = 1;
  return HAMMOCK_OK;
}

static HammockStatus MemoryInfo(void* self, int64_t device, HammockMemoryInfo* info,
                                HammockError* error) {
  (void)self, (void)device, (void)error;
  info->in_use = info->reserved = in_use;
  info->peak = peak;
  info->limit = limit;
  return HAMMOCK_OK;
}

static HammockStatus SetMemoryLimit(void* self, int64_t device, int64_t bytes,
                                    HammockError* error) {
  (void)self, (void)device, (void)error;
  limit = bytes;
  return HAMMOCK_OK;
}

static void DescribeDevice(void* self, int64_t device, HammockFacts facts) {
  (void)self, (void)device;
  facts.add(facts.context, "arithmetic", "f32", 0);
  facts.add(facts.context, "matmul", "the machine has none", 1);
}

static HammockStatus Upload(void* self, int64_t device, uint64_t count,
                            const HammockHostTensor* tensors, HammockData* data,
                            HammockError* error) {
  uint64_t i;
  (void)self, (void)device;
  for (i = 0; i < count; ++i) {
    Value* value = Allocate(tensors[i].bytes.size, error);
    if (!value) {
      while (i > 0) Free((Value*)(uintptr_t)data[--i]);
      return HAMMOCK_OUT_OF_MEMORY;
    }
    memcpy(value->memory, tensors[i].bytes.bytes, tensors[i].bytes.size);
    data[i] = (HammockData)(uintptr_t)value;
  }
  return HAMMOCK_OK;
}

static HammockStatus Download(void* self, uint64_t count, const HammockData* data,
                              void* const* places, HammockError* error) {
  uint64_t i;
  (void)self, (void)error;
  for (i = 0; i < count; ++i) {
    const Value* value = (const Value*)(uintptr_t)data[i];
    memcpy(places[i], value->memory, value->bytes);
  }
  return HAMMOCK_OK;
}

static void Release(void* self, uint64_t count, const HammockData* data) {
  uint64_t i;
  (void)self;
  for (i = 0; i < count; ++i) Free((Value*)(uintptr_t)data[i]);
}

static HammockStatus Capabilities(void* self, int64_t device, HammockBytes bytes,
                                  HammockAnswers answers, HammockError* error) {
  HammockGraph graph;
  int64_t refused = 0;
  uint32_t i;
  (void)self, (void)device;
  host->option_int(host->context, refuse_mul, &refused);
  if (!hammock_graph_open(bytes, &graph)) {
    return hammock_fail(error, HAMMOCK_INTERNAL_ERROR, "damaged graph");
  }
  for (i = 0; i < hammock_node_count(&graph); ++i) {
    HammockNode node = hammock_node(&graph, i);
    const char* reason = NULL;
    if (node.flags & HAMMOCK_OP_COMPOSITE) continue;
    if (!FunctionOf(&node) || (refused && FunctionOf(&node) == '*')) reason = "no instruction";
    if (hammock_result_type(&node, 0).dtype != HAMMOCK_F32) reason = "f32 only";
    if (reason) answers.answer(answers.context, (int32_t)i, HAMMOCK_REFUSE, reason);
  }
  return HAMMOCK_OK;
}

static HammockStatus Compile(void* self, const HammockCompilation* request,
                             HammockCompiled* compiled, HammockError* error) {
  HammockGraph graph;
  Program* program;
  uint32_t i;
  (void)self;
  if (!hammock_graph_open(request->graph, &graph)) {
    return hammock_fail(error, HAMMOCK_INTERNAL_ERROR, "damaged graph");
  }
  program = calloc(1, sizeof(*program));
  program->registers = hammock_node_count(&graph);
  program->inputs = hammock_input_count(&graph);
  program->outputs = hammock_output_count(&graph);
  program->input = calloc(program->inputs + 1, sizeof(int32_t));
  program->output = calloc(program->outputs + 1, sizeof(int32_t));
  program->code = calloc(program->registers + 1, sizeof(Instruction));
  for (i = 0; i < program->inputs; ++i) program->input[i] = hammock_input(&graph, i);
  for (i = 0; i < program->outputs; ++i) program->output[i] = hammock_output(&graph, i).node;
  for (i = 0; i < program->registers; ++i) {
    HammockNode node = hammock_node(&graph, i);
    HammockShape type = hammock_result_type(&node, 0);
    Instruction* made = &program->code[program->length];
    if (strcmp(node.op, "input") == 0) continue;
    made->node = (int32_t)i;
    made->function = FunctionOf(&node);
    made->count = hammock_element_count(&type);
    made->a = node.record->value_count > 0 ? hammock_operand(&node, 0).node : -1;
    made->b = node.record->value_count > 1 ? hammock_operand(&node, 1).node : -1;
    if (made->function == '#') made->constant = (float)hammock_attr(&node, "value").real;
    ++program->length;
  }
  atomic_fetch_add(&live_programs, 1);
  compiled->executable = (HammockExecutable)(uintptr_t)program;
  compiled->code_bytes = (int64_t)(program->length * sizeof(Instruction));
  return HAMMOCK_OK;
}

static void ReleaseExecutable(void* self, HammockExecutable executable) {
  Program* program = (Program*)(uintptr_t)executable;
  (void)self;
  free(program->input);
  free(program->output);
  free(program->code);
  free(program);
  atomic_fetch_sub(&live_programs, 1);
}

static const char* NameOf(const Instruction* code) {
  switch (code->function) {
    case '+':
      return "c_add";
    case '*':
      return "c_mul";
    case '-':
      return "c_neg";
    case '>':
      return "c_maximum";
    default:
      return "c_constant";
  }
}

static void Step(const Instruction* code, const float* a, const float* b, float* out) {
  uint64_t i;
  for (i = 0; i < code->count; ++i) {
    switch (code->function) {
      case '+':
        out[i] = a[i] + b[i];
        break;
      case '*':
        out[i] = a[i] * b[i];
        break;
      case '-':
        out[i] = -a[i];
        break;
      case '>':
        out[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i];
        break;
      default:
        out[i] = code->constant;
    }
  }
}

static HammockStatus Execute(void* self, const HammockExecution* call, HammockError* error) {
  const Program* program = (const Program*)(uintptr_t)call->executable;
  Value** registers = calloc(program->registers + 1, sizeof(Value*));
  uint8_t* kept = calloc(program->registers + 1, 1);
  HammockStatus status = HAMMOCK_OK;
  HammockSpan span;
  int64_t begin = 0;
  uint32_t i;
  (void)self;
  host->span_begin(host->context, "c program", &span);
  for (i = 0; i < program->inputs; ++i) {
    registers[program->input[i]] = (Value*)(uintptr_t)call->arguments[i];
    kept[program->input[i]] = 1;
  }
  for (i = 0; i < program->length && status == HAMMOCK_OK; ++i) {
    const Instruction* code = &program->code[i];
    Value* out = Allocate(code->count * sizeof(float), error);
    if (!out) {
      status = hammock_fail_at(error, HAMMOCK_OUT_OF_MEMORY, code->node, "");
      break;
    }
    registers[code->node] = out;
    if (call->run != 0) begin = host->now(host->context); /* a profile is being written */
    Step(code, code->a >= 0 ? registers[code->a]->memory : NULL,
         code->b >= 0 ? registers[code->b]->memory : NULL, out->memory);
    if (call->run != 0) {
      host->run_kernel(host->context, call->run, i, NameOf(code), begin, host->now(host->context));
    }
  }
  for (i = 0; i < program->outputs && status == HAMMOCK_OK; ++i) {
    Value* value = registers[program->output[i]];
    if (kept[program->output[i]]) { /* an input, or a result that was given already */
      Value* copy = Allocate(value->bytes, error);
      if (!copy) {
        status = HAMMOCK_OUT_OF_MEMORY;
        break;
      }
      memcpy(copy->memory, value->memory, value->bytes);
      value = copy;
    }
    kept[program->output[i]] = 1;
    call->results[i].data = (HammockData)(uintptr_t)value;
  }
  if (status != HAMMOCK_OK) {
    for (i = 0; i < program->outputs; ++i) call->results[i].data = 0;
  }
  for (i = 0; i < program->length; ++i) {
    const int32_t node = program->code[i].node;
    if (registers[node] && (!kept[node] || status != HAMMOCK_OK)) Free(registers[node]);
  }
  free(registers);
  free(kept);
  host->metric_add(host->context, runs, 1);
  host->span_end(host->context, span);
  return status;
}

static HammockStatus Fingerprint(void* self, int64_t device, HammockWriter text,
                                 HammockError* error) {
  (void)self, (void)device, (void)error;
  hammock_write(text, "c machine 1");
  return HAMMOCK_OK;
}

static void ExecutableText(void* self, HammockExecutable executable, HammockWriter text) {
  const Program* program = (const Program*)(uintptr_t)executable;
  char line[64];
  uint32_t i;
  (void)self;
  for (i = 0; i < program->length; ++i) {
    const Instruction* code = &program->code[i];
    snprintf(line, sizeof(line), "r%d = %c r%d r%d\n", code->node, code->function, code->a,
             code->b);
    hammock_write(text, line);
  }
}

/* Kernels are numbered in the order in which they are described. */
static void DescribeExecutable(void* self, HammockExecutable executable,
                               HammockDescription description) {
  const Program* program = (const Program*)(uintptr_t)executable;
  uint32_t i;
  (void)self;
  for (i = 0; i < program->length; ++i) {
    const Instruction* code = &program->code[i];
    HammockKernel kernel = {sizeof(HammockKernel), 1, NULL, NULL, "kernel", NULL, 0, 0};
    kernel.nodes = &code->node;
    kernel.name = NameOf(code);
    kernel.flops = code->function == '#' ? 0 : (int64_t)code->count;
    description.kernel(description.context, &kernel);
  }
}

static void Numbers(void* self, HammockNumbers numbers) {
  (void)self;
  numbers.add(numbers.context, "live_values", (double)live_values);
  numbers.add(numbers.context, "live_programs", (double)live_programs);
}

static const HammockOptionSpec kRefuseMul = {sizeof(HammockOptionSpec),
                                             HAMMOCK_OPTION_BOOL,
                                             "cdev.refuse_mul",
                                             "false",
                                             "Leave multiplications to the fallback device.",
                                             1,
                                             0,
                                             0,
                                             NULL};
static const HammockOptionSpec* const kOptions[] = {&kRefuseMul};

const HammockPlugin* hammock_plugin(const HammockHost* given) {
  static HammockPlugin table;
  if (given->version_major != HAMMOCK_PLUGIN_MAJOR) return NULL;
  host = given;
  table.struct_size = sizeof(table);
  table.version_major = HAMMOCK_PLUGIN_MAJOR;
  table.version_minor = HAMMOCK_PLUGIN_MINOR;
  table.name = "cdev";
  table.version = "1.0";
  table.option_count = 1;
  table.options = kOptions;
  table.initialize = Initialize;
  table.device_count = DeviceCount;
  table.memory_info = MemoryInfo;
  table.set_memory_limit = SetMemoryLimit;
  table.describe_device = DescribeDevice;
  table.upload = Upload;
  table.download = Download;
  table.release = Release;
  table.capabilities = Capabilities;
  table.compile = Compile;
  table.release_executable = ReleaseExecutable;
  table.execute = Execute;
  table.fingerprint = Fingerprint;
  table.executable_text = ExecutableText;
  table.describe_executable = DescribeExecutable;
  table.numbers = Numbers;
  return &table;
}
