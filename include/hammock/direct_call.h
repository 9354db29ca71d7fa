#pragma once
/// DirectCall: a captured function that is called with data of its device. It runs before the call
/// returns, on the calling thread, with no tensors in between. It serves bridges to other
/// libraries, whose arrays become data and whose results must be complete at once.
///
///   DirectCall call(extract_compiled_graph(fn, examples));
///   std::vector<BackendDataPtr> results = call({{call.Import(array)}});
///   HostTensor first = call.Export(results[0]);
///
/// Copies share the graph. All of it may be called from several threads at once.

#include <memory>
#include <span>
#include <vector>

#include "hammock/executor.h"
#include "hammock/host_tensor.h"
#include "hammock/lazy/backend_data.h"

namespace hammock {

namespace lazy {
class DeviceExchange;
}
struct DirectPlan;

class HAMMOCK_API DirectCall {
 public:
  /// NotSupported, with the reason, for a function that does more than compute results: that
  /// updates its inputs, draws random numbers, has ordered effects or does not run as one
  /// computation.
  explicit DirectCall(const CompiledGraph& graph, Location at = Location::current());

  const Device& device() const;
  const lazy::BackendDevice& backend_device() const;
  /// For memory that other libraries have on the device; null where its backend has none.
  const lazy::DeviceExchange* exchange() const;
  /// Data of the function's device. Borrowed memory is read where it is on devices that can, at
  /// every call, and must not change while one runs.
  BackendDataPtr Import(const HostTensor& tensor, Location at = Location::current()) const;
  /// Shares the memory of `data` on devices that can.
  HostTensor Export(const BackendDataPtr& data, Location at = Location::current()) const;

  /// One result for each output. ValueError unless the inputs have the number, types and device of
  /// those that the function was captured with. A result may be the data of an input or of another
  /// result.
  std::vector<BackendDataPtr> operator()(std::span<const BackendDataPtr> inputs,
                                         Location at = Location::current()) const;

 private:
  std::shared_ptr<const DirectPlan> plan_;
};

}  // namespace hammock
