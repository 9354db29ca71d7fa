#include "plugins/outside_collectives.h"

#include <algorithm>
#include <string_view>

#include "plugins/status.h"

namespace hammock::plugins {

bool CrossesWhole(const OpDef& op) {
  constexpr std::string_view kKnown[] = {"reduction", "root", "pairs", "group", "size"};
  for (size_t i = 0; i < op.info().attribute_args.size(); ++i) {
    if (std::ranges::count(kKnown, op.info().AttributeName(static_cast<int>(i))) == 0) return false;
  }
  return true;
}

void RunOutside(const HammockHost& host, const GraphNode& node, const Shape& type, const void* in,
                void* out) {
  const OpInfo& info = node.op->info();
  auto attr = [&](const char* name) -> const Attr* {
    const int index = info.AttributeIndex(name);
    return index < 0 ? nullptr : &node.attrs[static_cast<size_t>(index)];
  };
  HammockCollective given = {};
  given.struct_size = sizeof(given);
  given.op = info.name.c_str();
  given.group = attr("group")->str().c_str();
  given.size = attr("size")->integer();
  if (const Attr* reduction = attr("reduction")) given.reduction = reduction->str().c_str();
  if (const Attr* root = attr("root")) given.root = root->integer();
  if (const Attr* pairs = attr("pairs")) {
    given.pair_count = pairs->ints().size() / 2;
    given.pairs = pairs->ints().data();
  }
  given.shape = {static_cast<uint32_t>(type.dtype()), static_cast<uint32_t>(type.rank()),
                 type.sizes().begin()};
  given.in = in;
  given.out = out;
  ErrorText error;
  const HammockStatus status = host.collective(host.context, &given, error.c());
  if (status != HAMMOCK_OK) ErrorOf(status, error.text(), error.op(), -1)->Raise();
}

}  // namespace hammock::plugins
