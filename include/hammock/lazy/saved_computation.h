#pragma once
/// SavedComputation: a compiled computation as bytes, for another process.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/lazy/lowering_context.h"

namespace hammock::lazy {

/// The result of SerializeComputation, by members. A backend that saves its compiled form fills in
/// `artifact`:
///
///   std::string SerializeComputation(const ComputationPtr& computation) const override {
///     SavedComputation saved(*computation, Fingerprint(computation->device()));
///     saved.artifact = ...;
///     return saved.ToBytes();
///   }
///   ComputationPtr DeserializeComputation(std::string_view bytes,
///                                         const BackendDevice& device) const override {
///     SavedComputation saved = SavedComputation::Parse(bytes);
///     ComputationPtr computation = saved.ToComputation(device);
///     computation->artifact = ... saved.artifact ...;
///     return computation;
///   }
struct HAMMOCK_API SavedComputation {
  std::string fingerprint;  ///< of the device that it was compiled for
  std::string name;
  Graph graph;
  std::vector<DerivedSize> derived_sizes;
  std::vector<std::pair<int, int>> aliases;
  std::vector<std::string> devices;
  /// The backend's compiled form, in a format of its own. Empty: it is compiled anew when it is
  /// loaded.
  std::string artifact;

  SavedComputation() = default;
  SavedComputation(const Computation& computation, std::string fingerprint);

  /// With a version and a checksum.
  std::string ToBytes() const;
  /// ValueError (kParse) where the bytes are damaged or of a newer version.
  static SavedComputation Parse(std::string_view bytes);
  /// The fingerprint alone; checked as by Parse but for the graph.
  static std::string FingerprintOf(std::string_view bytes);
  /// All but the artifact, for `device`.
  ComputationPtr ToComputation(const BackendDevice& device) const;
};

}  // namespace hammock::lazy
