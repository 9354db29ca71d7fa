#pragma once
/// Computations in archives: compiled ahead, used where they fit. The section `native/cpu` holds
/// the fingerprint of the device, then computations as the backend of that name serialises them.

#include <map>
#include <string>
#include <vector>

#include "hammock/module.h"
#include "module/archive.h"
#include "runtime/devices/backend_registry.h"

namespace hammock::jit {

/// While one lives, methods that this thread makes ready note their computations in it, and take
/// them from it.
class SavedComputations {
 public:
  SavedComputations();
  ~SavedComputations();
  SavedComputations(const SavedComputations&) = delete;
  SavedComputations& operator=(const SavedComputations&) = delete;

  /// That of the calling thread, or null.
  static SavedComputations* Current();

  void Note(DeviceEntry& device, lazy::ComputationPtr computation);
  /// That of an equal graph; null if there is none. NotSupported where computations of an archive
  /// are required.
  lazy::ComputationPtr Find(DeviceEntry& device, const Graph& graph) const;
  /// Whether there may be some to find, or those that are noted will be saved.
  bool active() const { return writes || !saved_.empty(); }

  bool writes = false;  ///< they are noted to be saved

  /// The noted ones, with their code.
  void WriteTo(ArchiveWriter& archive) const;
  /// Makes those of an archive available, where they fit and `options` allow it.
  void ReadFrom(const Archive& archive, const LoadOptions& options);

 private:
  void ReadSection(const Archive& archive, const Archive::Section& section);

  std::map<std::string, std::vector<lazy::ComputationPtr>> noted_;  // by device
  std::multimap<uint64_t, std::string> saved_;                      // by hash of the graph
  std::string required_by_;  // the archive whose computations must be used, or empty
  SavedComputations* const outer_;
};

}  // namespace hammock::jit
