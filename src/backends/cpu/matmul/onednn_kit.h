#pragma once
/// Helpers for the files that use oneDNN. Its primitives run on one thread each, in our pool:
/// threads of its own would compete with ours.
///
/// Note [oneDNN on one thread]
/// Primitives are made and executed with OpenMP set to one thread, since both the choice of a
/// kernel and its split depend on that number. Their scratch memory is ours, one for each thread: a
/// primitive that two threads execute at once would otherwise share it and compute nonsense.
///
/// The library's static objects are destroyed at exit, so primitives are made and executed within
/// a LibraryCall (Note [Exit] in base/process_exit.h).

#include <omp.h>

#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cpu/matmul/matmul_kernel.h"
#include "base/never_destroyed.h"
#include "base/of_thread.h"
#include "base/process_exit.h"

namespace hammock::cpu::onednn {

using dnnl::memory;
using process_exit::LibraryCall;

/// Whether primitives may be made: the option says so, and the process is not about to exit.
inline bool IsUsable() { return config::Get<kOneDnn>() && !LibraryCall::Closed(); }

/// OpenMP has one thread in this scope, for the calling thread.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

inline const dnnl::engine& Engine() {
  static const auto& engine = NeverDestroyed<dnnl::engine>(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct StreamOfThread {
  dnnl::stream stream{Engine()};
};
inline dnnl::stream& Stream() { return OfThread<StreamOfThread>().stream; }

inline std::optional<memory::data_type> TypeOf(DType dtype) {
  if (dtype == DType::kF32) return memory::data_type::f32;
  if (dtype == DType::kBF16) return memory::data_type::bf16;
  return std::nullopt;
}

inline dnnl::primitive_attr WithOurScratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// The library has a kernel for everything, but the last resort is a loop over single elements,
/// which is worse than anything else: it counts as none. A layout that was chosen for other sizes
/// can lead there.
template <class PrimitiveDesc>
void RefuseLastResort(const PrimitiveDesc& desc) {
  if (std::string_view(desc.impl_info_str()).starts_with("ref")) {
    throw dnnl::error(dnnl_unimplemented, "only a reference kernel");
  }
}

inline int64_t BytesOf(const memory::desc& desc) {
  return RoundUp(static_cast<int64_t>(desc.get_size()), 64);
}

/// Equal layouts have equal texts.
inline std::string KeyOf(const memory::desc& desc) {
  return std::string(reinterpret_cast<const char*>(&desc.data), sizeof desc.data);
}

/// A primitive with the layouts of its arguments. Several threads may execute it at once: each uses
/// one of the sets of argument objects, which are kept because making them takes a microsecond.
class Call {
 public:
  Call() = default;
  /// `arguments` are oneDNN's names; the scratch memory is added.
  Call(dnnl::primitive primitive, const memory::desc& scratch,
       std::vector<std::pair<int, memory::desc>> arguments)
      : primitive_(std::move(primitive)),
        scratch_bytes_(BytesOf(scratch)),
        arguments_(std::move(arguments)),
        sets_(std::make_unique<Sets>()) {
    arguments_.emplace_back(DNNL_ARG_SCRATCHPAD, scratch);
  }

  int64_t scratch_bytes() const { return scratch_bytes_; }

  /// The data of the arguments in their order, the scratch memory last.
  void operator()(std::initializer_list<const void*> data) const {
    std::unique_ptr<Set> set = Take();
    size_t i = 0;
    for (const void* pointer : data) {
      set->memories[i++].set_data_handle(const_cast<void*>(pointer), Stream());
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), Stream().get(), static_cast<int>(set->list.size()),
                               set->list.data()),
        "could not execute a primitive");
    std::unique_lock lock(sets_->mutex, std::try_to_lock);
    if (lock) sets_->free.push_back(std::move(set));
  }

 private:
  struct Set {
    std::vector<memory> memories;
    std::vector<dnnl_exec_arg_t> list;
  };
  struct Sets {
    std::mutex mutex;
    std::vector<std::unique_ptr<Set>> free;
  };

  /// Never waits: a lock that another thread held during a fork is never released.
  std::unique_ptr<Set> Take() const {
    if (std::unique_lock lock(sets_->mutex, std::try_to_lock); lock && !sets_->free.empty()) {
      std::unique_ptr<Set> set = std::move(sets_->free.back());
      sets_->free.pop_back();
      return set;
    }
    auto set = std::make_unique<Set>();
    for (const auto& [which, desc] : arguments_) {
      set->memories.emplace_back(desc, Engine(), nullptr);
      set->list.push_back({which, set->memories.back().get()});
    }
    return set;
  }

  dnnl::primitive primitive_;
  int64_t scratch_bytes_ = 0;
  std::vector<std::pair<int, memory::desc>> arguments_;
  std::unique_ptr<Sets> sets_;
};

/// The primitives of a computation, which `key` describes. They are kept for the process, so that
/// all graphs, and all sizes of one, share them: even a primitive in the library's cache takes 30
/// to 100 us to get. Never waits, as Call.
template <class T, class Make>
std::shared_ptr<const T> Prepared(const std::string& key, Make make) {
  constexpr size_t kMost = 512;
  struct Table {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<const T>> made;
  };
  static auto& table =
      NeverDestroyed<Table>();  // the library's code may be gone when static objects go
  if (std::unique_lock lock(table.mutex, std::try_to_lock); lock) {
    if (auto found = table.made.find(key); found != table.made.end()) return found->second;
  }
  auto made = std::make_shared<const T>(make());
  if (std::unique_lock lock(table.mutex, std::try_to_lock); lock) {
    if (table.made.size() == kMost) table.made.clear();
    table.made.emplace(key, made);
  }
  return made;
}

/// Equal lists have equal texts.
inline std::string KeyOf(std::initializer_list<const memory::dims*> lists) {
  std::string key;
  for (const memory::dims* list : lists) {
    for (int64_t number : *list) key += std::to_string(number) + ' ';
    key += ';';
  }
  return key;
}

/// A copy from one layout to another.
struct Reorder {
  Reorder(const memory::desc& from, const memory::desc& to) {
    dnnl::reorder::primitive_desc desc(Engine(), from, Engine(), to, WithOurScratch());
    call = Call(dnnl::reorder(desc), desc.scratchpad_desc(),
                {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  int64_t scratch_bytes() const { return call.scratch_bytes(); }
  void operator()(const void* source, void* target, std::byte* scratch) const {
    call({source, target, scratch});
  }
  static std::shared_ptr<const Reorder> Of(const memory::desc& from, const memory::desc& to) {
    return Prepared<Reorder>(KeyOf(from) + KeyOf(to), [&] { return Reorder(from, to); });
  }

  Call call;
};

}  // namespace hammock::cpu::onednn
