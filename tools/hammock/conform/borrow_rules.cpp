// Arguments are lent for the time of a call: functions get copies, overwritten behind them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"

namespace hammock::tool {
namespace {

constexpr int64_t kElements = 257;  // of every value, so that guards lie close
constexpr size_t kPlaceBytes = kElements * sizeof(float);
constexpr size_t kGuardBytes = 64;
constexpr unsigned char kOverwritten = 0xab, kGuard = 0x5a;

/// Copies for the time of a call. Their memory stays, so that who reads it later gets what they
/// were overwritten with.
class Lent {
 public:
  Lent() = default;
  ~Lent() {
    static std::mutex mutex;
    static auto& kept = *new std::vector<std::vector<uint64_t>>;
    std::lock_guard lock(mutex);
    for (std::vector<uint64_t>& piece : pieces_) {
      std::memset(piece.data(), kOverwritten, piece.size() * sizeof(uint64_t));
      kept.push_back(std::move(piece));
    }
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  template <class T>
  T* Copy(const T* from, uint64_t count) {
    if (!from) return nullptr;
    std::vector<uint64_t>& piece = pieces_.emplace_back(count * sizeof(T) / sizeof(uint64_t) + 1);
    std::memcpy(piece.data(), from, count * sizeof(T));
    return reinterpret_cast<T*>(piece.data());
  }
  HammockBytes Copy(HammockBytes bytes) {
    return {Copy(static_cast<const char*>(bytes.bytes), bytes.size), bytes.size};
  }
  const HammockCompilation* Copy(const HammockCompilation* given) {
    HammockCompilation* copy = Copy(given, 1);
    copy->name = Copy(given->name, std::strlen(given->name) + 1);
    copy->graph = Copy(given->graph);
    copy->aliases = Copy(given->aliases, given->alias_count);
    HammockDerivedSize* sizes = Copy(given->derived_sizes, given->derived_size_count);
    for (uint64_t i = 0; i < given->derived_size_count; ++i) {
      sizes[i].factors = Copy(sizes[i].factors, sizes[i].factor_count);
    }
    copy->derived_sizes = sizes;
    return copy;
  }

 private:
  std::vector<std::vector<uint64_t>> pieces_;
};

std::string outside;  // what was written outside of the places of a download

/// Memory of a download with guards around it.
class GuardedPlace {
 public:
  GuardedPlace() : bytes_(kGuardBytes + kPlaceBytes + kGuardBytes, kGuard) {}
  void* get() { return bytes_.data() + kGuardBytes; }
  bool IsWhole() const {
    auto whole = [](auto begin) {
      return std::all_of(begin, begin + kGuardBytes, [](auto byte) { return byte == kGuard; });
    };
    return whole(bytes_.begin()) && whole(bytes_.end() - kGuardBytes);
  }

 private:
  std::vector<unsigned char> bytes_;
};

HammockStatus Upload(void* self, int64_t device, uint64_t count, const HammockHostTensor* tensors,
                     HammockData* data, HammockError* error) {
  Lent lent;
  HammockHostTensor* copies = lent.Copy(tensors, count);
  for (uint64_t i = 0; i < count; ++i) {
    copies[i].shape.sizes = lent.Copy(tensors[i].shape.sizes, tensors[i].shape.rank);
  }
  return Tables().original.upload(self, device, count, copies, data, error);
}

HammockStatus Download(void* self, uint64_t count, const HammockData* data, void* const* places,
                       HammockError* error) {
  Lent lent;
  std::vector<GuardedPlace> guarded(count);
  std::vector<void*> inside;
  for (GuardedPlace& place : guarded) inside.push_back(place.get());
  const HammockStatus status = Tables().original.download(self, count, lent.Copy(data, count),
                                                          lent.Copy(inside.data(), count), error);
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(places[i], guarded[i].get(), kPlaceBytes);
    if (!guarded[i].IsWhole()) outside = "download writes outside of the place of a value\n";
  }
  return status;
}

HammockStatus Execute(void* self, const HammockExecution* call, HammockError* error) {
  Lent lent;
  HammockExecution* copy = lent.Copy(call, 1);
  copy->arguments = lent.Copy(call->arguments, call->argument_count);
  copy->donated = lent.Copy(call->donated, call->argument_count);
  copy->results = lent.Copy(call->results, call->result_count);
  const HammockStatus status = Tables().original.execute(self, copy, error);
  std::copy_n(copy->results, call->result_count, call->results);
  return status;
}

void LendArguments() {
  HammockPlugin& table = Tables().wrapped;
  table.upload = Upload;
  table.download = Download;
  table.execute = Execute;
  table.release = [](void* self, uint64_t count, const HammockData* data) {
    Lent lent;
    Tables().original.release(self, count, lent.Copy(data, count));
  };
  table.compile = [](void* self, const HammockCompilation* given, HammockCompiled* compiled,
                     HammockError* error) {
    Lent lent;
    return Tables().original.compile(self, lent.Copy(given), compiled, error);
  };
  if (table.capabilities) {
    table.capabilities = [](void* self, int64_t device, HammockBytes graph, HammockAnswers answers,
                            HammockError* error) {
      Lent lent;
      return Tables().original.capabilities(self, device, lent.Copy(graph), answers, error);
    };
  }
  if (table.instantiate) {
    table.instantiate = [](void* self, HammockExecutable executable, uint64_t count,
                           const int64_t* sizes, HammockCompiled* compiled, HammockError* error) {
      Lent lent;
      return Tables().original.instantiate(self, executable, count, lent.Copy(sizes, count),
                                           compiled, error);
    };
  }
  if (table.deserialize) {
    table.deserialize = [](void* self, const HammockCompilation* given, HammockBytes bytes,
                           HammockCompiled* compiled, HammockError* error) {
      Lent lent;
      return Tables().original.deserialize(self, lent.Copy(given), lent.Copy(bytes), compiled,
                                           error);
    };
  }
}

HostTensor Times(double factor) {
  HostTensor tensor = Ramp(f32, {kElements});
  for (int64_t i = 0; i < kElements; ++i) tensor.set(i, factor * tensor.at(i).ToDouble());
  return tensor;
}

/// Ways to an executable that doubles its argument, besides compiling it.
std::vector<lazy::ComputationPtr> OtherDoublings(const DirectDevice& device,
                                                 const lazy::ComputationPtr& twice) {
  std::vector<lazy::ComputationPtr> made;
  auto add = [&](const std::function<lazy::ComputationPtr()>& make) {
    try {
      made.push_back(make());
    } catch (const NotSupported&) {
    } catch (const CompileError&) {  // of sizes that are compiled by themselves
    }
  };
  SHOWN(add([&] {
    return device.backend.DeserializeComputation(device.backend.SerializeComputation(twice),
                                                 device.where);
  }));
  if (!device.backend.SupportsDimParams(device.where)) return made;
  SHOWN(add([&] {
    return device.backend.Instantiate(device.Compile("graph(n=4)\n" + TwiceGraph("n")),
                                      std::vector<int64_t>{257});
  }));
  return made;
}

}  // namespace

std::string BorrowsArguments(const Subject& subject) {
  const DirectDevice device(OpenWrapped(subject, LendArguments));
  std::string wrong;
  auto check = [&](const char* what, const HostTensor& got, double factor) {
    const std::string differs = Difference(got, Times(factor));
    if (!differs.empty()) wrong += fmt::format("{}: {}\n", what, differs);
  };
  SHOWN(HostTensor given = Ramp(f32, {257}); BackendDataPtr x = device.Upload(given));
  if (given.unique()) {  // else the plug-in has retained the buffer
    SHOWN(std::memset(given.mutable_data(), 0xab, static_cast<size_t>(given.bytes())));
  }
  const Graph graph = ParseGraph(TwiceGraph("257"));
  device.backend.QueryCapability(graph, graph.outputs()[0].node, device.where);
  SHOWN(auto twice = device.Compile(TwiceGraph("257"));
        BackendDataPtr y = device.Run(twice, {x})[0]; BackendDataPtr z = device.Run(twice, {y})[0]);
  check("a value that was uploaded", device.Download(x), 1);
  check("a result", device.Download(y), 2);
  check("the result of a second run", device.Download(z), 4);
  for (const lazy::ComputationPtr& other : OtherDoublings(device, twice)) {
    check("a result of an executable that was loaded or instantiated",
          device.Download(device.Run(other, {x})[0]), 2);
  }
  SHOWN(auto both = device.backend.MakeTensorsFromComputationData(std::vector{x, y}));
  check("the first of two values", both[0], 1);
  check("the second of two values", both[1], 2);
  return wrong + outside;
}

}  // namespace hammock::tool
