#pragma once
/// Checkpoint: all that a run needs to go on, in one file.
///
///   int64_t step = 0;
///   Checkpoint run({{"model", net}, {"optimizer", optimizer}, {"schedule", schedule},
///                   {"data", loader}, {"step", step}});
///   if (std::filesystem::exists("run.safetensors")) run.load("run.safetensors");
///   ...
///   run.save("run.safetensors");
///
/// A resumed run computes the same bits as one that was never stopped. The state of the default
/// random generator is saved with the parts, as "rng".
///
/// The file is in the safetensors format: any tool can read the tensors, which are named as in
/// `state_dict` after the name of their part ("model.fc.weight"); numbers are tensors without dims,
/// texts are metadata. It is written whole or not at all: whoever reads the path, also after a
/// crash, finds the old file or the new one.

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/module.h"
#include "hammock/random.h"
#include "hammock/state_dict.h"
#include "hammock/tensor.h"

namespace hammock {

/// Modules, optimisers, schedules, averages, loaders, and classes of your own. One whose names or
/// shapes depend on what is loaded has `ExpectedState`, too; see Optimizer.
template <class T>
concept HasState = requires(T& holder) {
  holder.load_state_dict(holder.state_dict());
};

/// Something that a checkpoint saves and loads, under a name without a dot. It refers to the thing,
/// which must outlive it.
class HAMMOCK_API CheckpointPart {
 public:
  template <HasState T>
  CheckpointPart(std::string name, T& holder) : name_(std::move(name)) {
    save_ = [&holder] { return As<StateDict>(holder.state_dict()); };
    expect_ = [&holder](const StateShapes& given) {
      if constexpr (requires { holder.ExpectedState(given); }) {
        return holder.ExpectedState(given);
      } else {
        return ShapesOf(As<StateDict>(holder.state_dict()));
      }
    };
    load_ = [&holder](const StateDict& state) {
      holder.load_state_dict(As<decltype(holder.state_dict())>(state));
    };
  }
  template <HasState T>
  CheckpointPart(std::string name, const std::shared_ptr<T>& holder)
      : CheckpointPart(std::move(name), *holder) {}
  CheckpointPart(std::string name, Tensor& tensor);
  CheckpointPart(std::string name, Generator& generator);
  CheckpointPart(std::string name, std::string& text) : name_(std::move(name)), text_(&text) {}
  /// Any number that a tensor can hold.
  template <class T>
  requires requires { DTypeOfT<T>::value; }
  CheckpointPart(std::string name, T& number) : name_(std::move(name)) {
    save_ = [&number] { return NumberState(Scalar(number), DTypeOf<T>); };
    expect_ = [](const StateShapes&) { return NumberShapes(DTypeOf<T>); };
    load_ = [&number](const StateDict& state) { number = state.at("").to_vector<T>()[0]; };
  }

  const std::string& name() const { return name_; }

 private:
  friend class Checkpoint;
  static StateDict NumberState(const Scalar& number, DType dtype);
  static StateShapes NumberShapes(DType dtype);
  template <class To, class From>
  static To As(const From& entries) {
    return To(entries.begin(), entries.end());
  }

  std::string name_;
  std::function<StateDict()> save_;  // the entry "" has the part's own name
  std::function<StateShapes(const StateShapes& given)> expect_;
  std::function<void(const StateDict&)> load_;
  std::string* text_ = nullptr;  // instead of the functions
};

class HAMMOCK_API Checkpoint {
 public:
  explicit Checkpoint(std::vector<CheckpointPart> parts, Location at = Location::current());

  /// Computes what is pending and writes the file.
  void save(const std::string& path, Location at = Location::current()) const;
  /// ValueError (kParse) for files that are damaged or no checkpoints. Names that are missing or
  /// unexpected, dtypes and shapes that differ are listed in one ValueError. Nothing has been
  /// loaded in either case. Unless `strict`, what only one side has is left alone, and dtypes are
  /// cast: `Checkpoint({{"model", net}}).load(path, false)` takes the weights alone.
  void load(const std::string& path, bool strict = true, Location at = Location::current());

 private:
  std::vector<CheckpointPart> parts_;
};

/// A module's parameters and buffers alone, under the names of `state_dict`, as files of weights
/// have them that other programs make.
HAMMOCK_API void save_weights(const Module& module, const std::string& path,
                              Location at = Location::current());
/// As `Module::load_state_dict`.
HAMMOCK_API void load_weights(Module& module, const std::string& path, bool strict = true,
                              Location at = Location::current());

}  // namespace hammock
