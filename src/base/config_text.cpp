// The options as text: for people, and as docs/config.md.

#include <fmt/format.h>

#include <set>

#include "base/option_registry.h"
#include "base/option_value.h"
#include "hammock/config.h"

namespace hammock::config {
namespace {

using detail::AnyOption;

constexpr std::string_view kIntroduction =
    R"(# Options
Generated from the options that the source declares, by owner; a test keeps it fresh.

Set an option by call (`config::Set("eager", "true")`), by environment (`HAMMOCK_EAGER=true`, a dot is `_`, read once
before the first use), or by file (`config::LoadFile(path)`, lines `name = value`, `#` comments). The latest wins; a change takes
effect at once. A name that does not exist is an error that names the nearest one, in the environment a warning. An option of a
library that is not loaded yet (`toy.whole_gelu`) can be set before the first step; it takes effect when the library is loaded.

Options that change code are part of the key of what is compiled: other values are other compilations.
)";

/// A flag of upstream's that has no option here, and why.
struct Dropped {
  std::string_view upstream;
  std::string_view reason;
};

constexpr Dropped kDropped[] = {
    {"torch_lazy_ir_debug, LTC_ENABLE_SOURCE_INFO",
     "every node always carries the source line of the call; it costs a few instructions"},
    {"torch_lazy_io_thread_pool_size",
     "each device has one queue with one thread, started when it is first needed"},
    {"torch_lazy_handle_special_scalars, torch_lazy_all_numbers_special_scalars",
     "each op record says which scalars are parameters and which are part of the graph"},
    {"torch_lazy_reuse_ir", "recording a node costs less than finding an old one"},
    {"torch_lazy_shape_cache_size", "shapes are inferred in nanoseconds and stored in the node"},
    {"torch_lazy_trim_graph_check_frequency",
     "the size is known at every op, so it is checked there"},
    {"ltc_enable_dynamic_shapes, LTC_ENABLE_DYNAMIC_SHAPES",
     "recording is concrete; compilations that serve several sizes are derived from two of them"},
    {"ltc_enable_symbolic_shapes, LTC_ENABLE_SYMBOLIC_SHAPES", "as above"},
    {"torch_lazy_ts_tensor_update_sync",
     "a copy is a node like others; reading its result waits for it"},
    {"LTC_EXPERIMENTAL", "an experiment is an option of its own, so that a wrong name is an error"},
    {"debug_extract_compiled_graph", "`log_level = debug` logs captures"},
};

void AddTable(std::string& text, std::string_view owner) {
  auto out = std::back_inserter(text);
  text += owner.empty() ? "\n## Hammock\n" : fmt::format("\n## `{}`\n", owner);
  text +=
      "| option | type | default | meaning | changes code | upstream name |\n"
      "|---|---|---|---|---|---|\n";
  for (const AnyOption* option : AllOptions()) {
    if (OwnerOf(option->name) != owner) continue;
    std::string value = DefaultText(*option);
    std::string shown = !option->default_doc.empty() ? std::string(option->default_doc)
                        : value.empty()              ? "empty"
                                                     : fmt::format("`{}`", value);
    std::string old = option->old_name.empty() ? "" : fmt::format(" Was `{}`.", option->old_name);
    fmt::format_to(out, "| `{}` | {} | {} | {}{} | {} | {} |\n", option->name,
                   TypeName(option->type), shown, option->doc, old,
                   option->affects_code ? "yes" : "", option->upstream);
  }
}

}  // namespace

std::vector<OptionInfo> Options() {
  std::vector<OptionInfo> options;
  for (const AnyOption* option : AllOptions()) {
    options.push_back({option->type, option->name, DefaultText(*option), option->doc,
                       option->upstream, option->old_name, option->affects_code});
  }
  return options;
}

std::string Describe() {
  std::string text;
  for (const AnyOption* option : AllOptions()) {
    std::string value = Format(*option, option->value.load(std::memory_order_acquire));
    std::string defaults = DefaultText(*option);
    std::string shown = value == defaults ? "default" : fmt::format("default '{}'", defaults);
    fmt::format_to(std::back_inserter(text), "{:<24} {:<7} '{}' ({})\n    {}\n", option->name,
                   TypeName(option->type), value, shown, option->doc);
  }
  return text;
}

std::string DescribeMarkdown() {
  std::string text(kIntroduction);
  std::set<std::string_view> owners;
  for (const AnyOption* option : AllOptions()) owners.insert(OwnerOf(option->name));
  for (std::string_view owner : owners) AddTable(text, owner);
  text += "\n## Upstream flags without a counterpart\n| upstream name | why |\n|---|---|\n";
  for (const Dropped& flag : kDropped) {
    fmt::format_to(std::back_inserter(text), "| {} | {} |\n", flag.upstream, flag.reason);
  }
  return text;
}

}  // namespace hammock::config
