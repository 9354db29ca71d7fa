#pragma once
/// Convolutions by cuDNN, which is opened at run time.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Empty if cuDNN can be opened.
const std::string& WhyNoDnn();

/// One for each device, used with its context current. Thread-safe.
class Dnn {
 public:
  ~Dnn();
  /// Null if the library has no deterministic algorithm. `tf32`: convolutions of f32 may round
  /// operands. Equal convolutions are prepared once, and near sizes share one algorithm
  /// (near_sizes.h).
  std::shared_ptr<PreparedOp> Prepare(const Convolution& convolution, bool tf32);
  /// The algorithms chosen so far, for another process.
  std::string SaveChoices();
  void AddChoices(const std::string& saved);
  void Convolve(const PreparedOp& convolution, Address a, Address b, Address out, Address scratch,
                CUstream stream);

 private:
  /// All fields of a convolution.
  using Key = std::vector<int64_t>;
  struct Choice {
    int algorithm, math;

    template <class Io>
    friend void Fields(Io& io, Choice& choice) {
      io(choice.algorithm, choice.math);
    }
  };
  /// With the mutex; null where the library cannot be started.
  void* HandleOf(CUstream stream);
  /// With the mutex: the algorithm for near sizes, if there is one.
  std::optional<Choice> ChoiceFor(void* handle, const Convolution& convolution, bool tf32);

  struct Handle {
    CUstream stream = nullptr;  // null until it was used
    void* handle = nullptr;
  };
  std::mutex mutex_;  // of calls of the library
  // Each stream has its own handle, since a call in flight may use the state of its handle.
  std::vector<Handle> handles_;
  std::map<Key, std::weak_ptr<PreparedOp>> prepared_;
  std::map<Key, std::optional<Choice>> choices_;
};

}  // namespace hammock::cuda
