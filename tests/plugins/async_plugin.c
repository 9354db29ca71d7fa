/* The machine of c_plugin.c with a queue: `execute` returns at once, and a thread runs what was
 * enqueued, in order. A result is a value without memory until its run has come. */
#define hammock_plugin c_plugin
#include "c_plugin.c"
#undef hammock_plugin

#include <pthread.h>

/* In place of the bytes of a value whose run has failed. */
static const uint64_t kFailed = UINT64_MAX;

typedef struct Job {
  struct Job* next;
  HammockExecution call; /* without results: a release, of the arguments or of the executable */
  HammockData* arguments;
  HammockResult* results;
} Job;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static Job *first, *last;
static int busy, running;

static Job* NewJob(const HammockExecution* call) {
  Job* job = calloc(1, sizeof(*job));
  job->call = *call;
  job->arguments = calloc(call->argument_count + 1, sizeof(HammockData));
  if (call->argument_count > 0) {
    memcpy(job->arguments, call->arguments, call->argument_count * sizeof(HammockData));
  }
  job->results = calloc(call->result_count + 1, sizeof(HammockResult));
  job->call.arguments = job->arguments;
  job->call.results = job->results;
  job->call.donated = NULL;
  return job;
}

static void Push(Job* job) {
  pthread_mutex_lock(&mutex);
  if (last) {
    last->next = job;
  } else {
    first = job;
  }
  last = job;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

/* ---- The calls of the host */

static HammockStatus Enqueue(void* self, const HammockExecution* call, HammockError* error) {
  Job* job = NewJob(call);
  uint64_t i;
  (void)self, (void)error;
  for (i = 0; i < call->result_count; ++i) {
    Value* promised = calloc(1, sizeof(*promised));
    atomic_fetch_add(&live_values, 1);
    job->results[i] = call->results[i]; /* with the event `ready` */
    job->results[i].data = call->results[i].data = (HammockData)(uintptr_t)promised;
    call->results[i].pending = 1;
  }
  Push(job);
  return HAMMOCK_OK;
}

/* Runs that were enqueued before may still read what is released. */
static void EnqueueRelease(void* self, uint64_t count, const HammockData* data) {
  HammockExecution call = {0};
  (void)self;
  call.argument_count = count;
  call.arguments = data;
  Push(NewJob(&call));
}

static void EnqueueReleaseExecutable(void* self, HammockExecutable executable) {
  HammockExecution call = {0};
  (void)self;
  call.executable = executable;
  Push(NewJob(&call));
}

static HammockStatus Wait(void* self, int64_t device, HammockError* error) {
  (void)self, (void)device, (void)error;
  pthread_mutex_lock(&mutex);
  while (first || busy) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  return HAMMOCK_OK;
}

/* What is released counts until its turn has come. The thread itself may be asked, inside of
 * event_set. */
static HammockStatus MemoryInfoInOrder(void* self, int64_t device, HammockMemoryInfo* info,
                                       HammockError* error) {
  if (!pthread_equal(pthread_self(), thread)) Wait(self, device, error);
  return MemoryInfo(self, device, info, error);
}

/* ---- The thread */

typedef struct Text {
  char bytes[256];
  size_t size;
} Text;

static void Append(void* context, const void* bytes, uint64_t size) {
  Text* text = context;
  const size_t room = sizeof(text->bytes) - 1 - text->size;
  const size_t taken = size < room ? (size_t)size : room;
  memcpy(text->bytes + text->size, bytes, taken);
  text->size += taken;
}

static void RunJob(const Job* job) {
  Text text = {{0}, 0};
  HammockError error = {sizeof(HammockError), -1, {&text, Append}, {NULL, NULL}};
  HammockResult* made = calloc(job->call.result_count + 1, sizeof(HammockResult));
  HammockExecution call = job->call;
  HammockStatus status = HAMMOCK_OK;
  uint64_t i;
  call.results = made;
  for (i = 0; i < call.argument_count; ++i) {
    if (((const Value*)(uintptr_t)call.arguments[i])->bytes == kFailed) {
      status = hammock_fail(&error, HAMMOCK_EXECUTE_ERROR, "the run of an argument has failed");
    }
  }
  if (status == HAMMOCK_OK) status = Execute(NULL, &call, &error);
  for (i = 0; i < call.result_count; ++i) {
    Value* promised = (Value*)(uintptr_t)job->results[i].data;
    Value* value = (Value*)(uintptr_t)made[i].data;
    if (status == HAMMOCK_OK) {
      *promised = *value;
      free(value);
      atomic_fetch_sub(&live_values, 1);
    } else {
      promised->bytes = kFailed;
    }
    host->event_set(host->context, job->results[i].ready, status, error.node, NULL, text.bytes);
  }
  free(made);
}

static void ReleaseNow(const Job* job) {
  uint64_t i;
  for (i = 0; i < job->call.argument_count; ++i) {
    Value* value = (Value*)(uintptr_t)job->arguments[i];
    if (value->bytes == kFailed) value->bytes = 0;
    Free(value);
  }
  if (job->call.executable) ReleaseExecutable(NULL, job->call.executable);
}

static void* RunJobs(void* unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  while (running || first) {
    Job* job = first;
    if (!job) {
      pthread_cond_wait(&changed, &mutex);
      continue;
    }
    first = job->next;
    if (!first) last = NULL;
    busy = 1;
    pthread_mutex_unlock(&mutex);
    if (job->call.result_count > 0) {
      RunJob(job);
    } else {
      ReleaseNow(job);
    }
    free(job->arguments);
    free(job->results);
    free(job);
    pthread_mutex_lock(&mutex);
    busy = 0;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static HammockStatus Start(void* self, HammockError* error) {
  (void)self;
  if (host->metric_declare(host->context, HAMMOCK_COUNTER, "cqueue::Runs", "Runs.", &runs)) {
    return hammock_fail(error, HAMMOCK_INTERNAL_ERROR, "the host refuses metrics");
  }
  if (running) return HAMMOCK_OK; /* a registration failed after this call */
  running = 1;
  if (pthread_create(&thread, NULL, RunJobs, NULL)) {
    return hammock_fail(error, HAMMOCK_DEVICE_ERROR, "no thread can be started");
  }
  return HAMMOCK_OK;
}

static void Stop(void* self) {
  (void)self;
  if (!running) return;
  pthread_mutex_lock(&mutex);
  running = 0;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
}

HAMMOCK_PLUGIN_EXPORT const HammockPlugin* hammock_plugin(const HammockHost* given) {
  static HammockPlugin table;
  const HammockPlugin* base = c_plugin(given);
  if (!base) return NULL;
  table = *base;
  table.properties = HAMMOCK_ASYNCHRONOUS;
  table.name = "cqueue";
  table.option_count = 0;
  table.initialize = Start;
  table.shutdown = Stop;
  table.execute = Enqueue;
  table.release = EnqueueRelease;
  table.release_executable = EnqueueReleaseExecutable;
  table.memory_info = MemoryInfoInOrder;
  table.wait = Wait;
  return &table;
}
