#include "advice.h"

namespace hammock::tool {

namespace {

struct Entry {
  const char* kind;
  const char* advice;
};

constexpr Entry kEntries[] = {
    {"first step",
     "Nothing needs to be done: the first step of a loop also makes its tensors, so that the "
     "second "
     "is another graph. All further steps are found in the cache."},
    {"shape",
     "A size changes from step to step. Pad batches to one size or drop the last, smaller one; "
     "where "
     "the device can, the second size is compiled for all sizes and no more compiles follow."},
    {"dtype",
     "A value has another dtype than before. Convert inputs once, where they are made, and look "
     "for "
     "a number of another type at the line named."},
    {"op",
     "The program took another way. If a branch depends on values or on the step, use where() or "
     "make "
     "both ways the same graph; if two parts of the program differ, one compile each is right."},
    {"attribute",
     "A number became part of the graph. Give it as a tensor or as a scalar operand instead of an "
     "attribute (a slice's start, a dim, a flag), so that its value is no part of the key."},
    {"operand",
     "The same ops are wired differently. Look whether a tensor is kept from an earlier step in "
     "one "
     "case and computed anew in the other."},
    {"live output",
     "A temporary was still alive at the sync and so became an output. Let it go before "
     "mark_step(), "
     "or use step([&] { ... }), whose locals die before the sync."},
    {"alias",
     "Inputs share memory or are one tensor in one case and not in the other. Use the same handles "
     "in "
     "every step."},
    {"extra nodes",
     "More was pending than before. Something was recorded outside of the usual step: metrics, "
     "logging, an evaluation. Sync it by itself, or do it in every step."},
    {"device", "The same graph runs on several devices; each needs a compilation of its own."},
    {"config",
     "An option that changes code (fast_math, fallback, force_fallback) was changed between steps. "
     "Set it once, before the first step."},
    {"evicted",
     "The cache was too small to keep the graph. Raise compilation_cache_size or "
     "compilation_cache_bytes, or set cache_dir to keep compiled code on disk."},
};

bool IsEager(const CompileCause& cause) { return cause.trigger == "eager op"; }

}  // namespace

bool IsAvoidable(const CompileCause& cause) {
  bool needed = cause.kind == "first graph" || cause.kind == "first step" || cause.kind == "device";
  return !needed && !IsEager(cause);
}

std::string AdviceFor(const CompileCause& cause) {
  if (IsEager(cause)) {
    return "In eager mode each op is a graph of its own and is compiled once for its types.";
  }
  if (cause.generalised.starts_with("for all")) {
    return "Only sizes differ, and it was compiled for all of them: other sizes need no compile "
           "any "
           "more. To save this one too, pad or drop the batch of another size.";
  }
  for (const Entry& entry : kEntries) {
    if (cause.kind == entry.kind) return entry.advice;
  }
  if (cause.kind == "first graph") {
    return "The first graph of a device, or of a line of the program, always has to be compiled.";
  }
  return "See docs/design/recompile_explainer.md.";
}

}  // namespace hammock::tool
