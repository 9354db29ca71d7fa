#pragma once
/// The other side of a comparison, kept behind plain functions so that its headers meet none of
/// ours.

namespace peer {

/// Null where the benchmark was built without libtorch.
const char* Name();
void Start();
/// Records a chain of `ops` additions of 16 elements on the lazy device and keeps its end.
void Trace(int ops);
/// Runs what is recorded and drops it.
void Sync();
/// The same chain, eagerly.
void Eager(int ops);

}  // namespace peer
