#pragma once
/// The state of a thread while it records ops for a door: the device, and where random numbers come
/// from.

#include <hammock/device.h>
#include <hammock/tensor.h>

#include <functional>
#include <vector>

namespace at {
class Tensor;
}

namespace hammock_torch {

/// Makes tensors from numbers of PyTorch's generator.
using DrawFn = std::function<at::Tensor()>;

/// Random numbers that a program takes as an input: how they are drawn, and their type.
struct DrawnInput {
  DrawFn draw;
  hammock::Shape shape;
};

/// While one lives, ops of this thread are recorded for `device`. With `drawn` they take the random
/// numbers given there, in order; else they draw them, and `draws` keeps how (may be null).
///
/// Note [Random numbers]: PyTorch's CPU generator draws all of them, so that a seed gives what it
/// gives in eager mode; for Hammock they are inputs. Replays of a program draw anew.
class RecordScope {
 public:
  RecordScope(const hammock::Device& device, std::vector<DrawnInput>* draws,
              const std::vector<hammock::Tensor>* drawn);
  ~RecordScope();
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  friend hammock::Tensor Draw(DrawFn draw);
  friend const hammock::Device& CurrentDevice();

  hammock::Device device_;
  std::vector<DrawnInput>* draws_;
  const std::vector<hammock::Tensor>* drawn_;
  size_t next_ = 0;
  RecordScope* outer_;
};

/// The device of the open scope, else the default one.
const hammock::Device& CurrentDevice();
/// Random numbers as a tensor of the current device. `draw` must give the same shape every time.
hammock::Tensor Draw(DrawFn draw);

}  // namespace hammock_torch
