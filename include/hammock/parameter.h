#pragma once
/// Parameter: a tensor that a module has registered, as a member of it.
///
///   struct Head : Module {
///     Parameter weight = register_parameter("weight", randn({10, 4}));
///   };
///   head.weight = embedding->weight;   // one parameter under two names
///
/// The module looks at the member itself: whatever is assigned to it is what `parameters`,
/// `state_dict`, archives and clones see. Everywhere else it is a Tensor; a copy of it is a plain
/// handle. A `Buffer` is the same for what is not trained.

#include <memory>
#include <string>

#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock {

class Parameter;

/// A name in a module and its tensor: that of the member, where there is one.
struct RegisteredTensor {
  std::string name;
  bool is_buffer = false;
  bool persistent = true;       ///< part of the state_dict
  Parameter* member = nullptr;  ///< reports where it is when it moves, and its end
  Tensor own = {};              ///< while there is no member

  const Tensor& get() const;
  void set(const Tensor& value);
};

class HAMMOCK_API Parameter : public Tensor {
 public:
  Parameter() = default;
  /// The same tensor, not registered; while a module is cloned, the registered one of the clone.
  Parameter(const Parameter& other);
  Parameter(Parameter&& other) noexcept;
  ~Parameter();

  /// ValueError for the result of an op with a history: a parameter is a leaf. What becomes a
  /// parameter requires a gradient if the one before it did.
  Parameter& operator=(const TensorAt& value);
  Parameter& operator=(const Parameter& value) { return *this = TensorAt(value, Location()); }
  /// An unregistered member takes the registration over: `weight = register_parameter(...)`.
  Parameter& operator=(Parameter&& value);

 private:
  friend class Module;
  explicit Parameter(std::shared_ptr<RegisteredTensor> slot);
  void Bind(std::shared_ptr<RegisteredTensor> slot);

  std::shared_ptr<RegisteredTensor> slot_;
};
using Buffer = Parameter;

inline const Tensor& RegisteredTensor::get() const { return member ? *member : own; }
inline void RegisteredTensor::set(const Tensor& value) {
  (member ? static_cast<Tensor&>(*member) : own) = value;
}

}  // namespace hammock
