#include "peer.h"

namespace peer {

const char* Name() { return nullptr; }
void Start(int) {}
bench::Side Make(const bench::Row&, const std::vector<bench::Array>&, bool) { return {}; }

}  // namespace peer
