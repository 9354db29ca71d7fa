// A library with an option of its own, which option_child opens.

#include <hammock/option.h>

namespace {

constinit hammock::config::Option<int64_t> kSize({
    .name = "plug.size",
    .default_value = 3,
    .doc = "Elements of a block.",
    .affects_code = true,
    .old_name = "plug.block",
});

}  // namespace

extern "C" __attribute__((visibility("default"))) int64_t ReadSize() {
  return hammock::config::Get<kSize>();
}
