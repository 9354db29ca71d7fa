#include "backends/common/saved_program.h"

#include "base/record_bytes.h"

namespace hammock {

std::string SavedArtifact::ToBytes() const {
  RecordWriter record;
  record(*this);
  return record.Take();
}

SavedArtifact SavedArtifact::Parse(std::string_view bytes) {
  SavedArtifact artifact;
  RecordReader record("a saved computation", bytes);
  record(artifact);
  record.ExpectEnd();
  return artifact;
}

}  // namespace hammock
