#include "jit/debug_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace hammock::jit {
namespace {

std::atomic<DebugHandle> next_handle{0};

SourceLocation LocationAt(const std::string& where) { return {where, SourceLine(where)}; }

Any ToList(const SourceLocation& location) { return Any::Tuple({location.where, location.text}); }
SourceLocation LocationFrom(const Any& value) {
  const AnyList& parts = value.ToList();
  return {parts.at(0).ToStringRef(), parts.at(1).ToStringRef()};
}

/// One frame of a traceback: where execution was in a method.
struct Shown {
  SourceLocation location;
  std::string label;
};

std::string ShowFrames(const std::vector<Shown>& frames) {
  std::string text = "Traceback (most recent call last):";
  for (size_t i = 0; i < frames.size(); ++i) {
    const SourceLocation& location = frames[i].location;
    text += fmt::format("\n  {}, in {}", location.where.empty() ? "<unknown>" : location.where,
                        frames[i].label);
    if (!location.text.empty()) text += "\n    " + location.text;
    if (i + 1 < frames.size()) continue;
    text += fmt::format("\n    {} <--- HERE",
                        std::string(std::max<size_t>(location.text.size(), 3), '~'));
  }
  return text;
}

}  // namespace

NodeMap<DebugHandle> DebugInfo::Record(const Graph& graph) {
  DebugHandle first = next_handle.fetch_add(graph.size());
  NodeMap<DebugHandle> handles;
  for (const GraphNode& node : graph.nodes()) {
    DebugEntry entry{.op = node.op->name(), .location = LocationAt(LocationText(node.location))};
    for (const ModuleFrame& frame : FramesOf(node.location)) {
      entry.labels.push_back(frame.label);
      entry.called_at.push_back(LocationAt(frame.called_at));
    }
    handles.push_back(first + static_cast<DebugHandle>(handles.size()));
    entries_.emplace(handles.back(), std::move(entry));
  }
  return handles;
}

const DebugEntry* DebugInfo::Find(DebugHandle handle) const {
  auto entry = entries_.find(handle);
  return entry == entries_.end() ? nullptr : &entry->second;
}

Any DebugInfo::ToAny() const {
  AnyList all;
  for (const auto& [handle, entry] : entries_) {
    AnyList frames;
    for (size_t i = 0; i < entry.labels.size(); ++i) {
      frames.push_back(Any::Tuple({entry.labels[i], ToList(entry.called_at[i])}));
    }
    all.push_back(Any::Tuple({handle, entry.op, ToList(entry.location), std::move(frames)}));
  }
  return Any(std::move(all));
}

DebugInfo DebugInfo::FromAny(const Any& value) {
  DebugInfo info;
  for (const Any& item : value.ToList()) {
    const AnyList& parts = item.ToList();
    DebugEntry entry{.op = parts.at(1).ToStringRef(), .location = LocationFrom(parts.at(2))};
    for (const Any& frame : parts.at(3).ToList()) {
      entry.labels.push_back(frame.ToList().at(0).ToStringRef());
      entry.called_at.push_back(LocationFrom(frame.ToList().at(1)));
    }
    info.entries_.emplace(parts.at(0).ToInt(), std::move(entry));
  }
  return info;
}

std::string Symbolicate(const std::string& message, const std::vector<ModuleFrame>& frames,
                        const DebugInfo& info, const std::vector<DebugHandle>& handles) {
  std::vector<std::string> labels;
  std::vector<SourceLocation> entered;  // where each method was called
  for (const ModuleFrame& frame : frames) {
    labels.push_back(frame.label);
    entered.push_back(LocationAt(frame.called_at));
  }
  std::string op = "<unknown>";
  SourceLocation location;
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) {
    const DebugEntry* entry = info.Find(*handle);
    if (!entry) continue;
    labels.insert(labels.end(), entry->labels.begin(), entry->labels.end());
    entered.insert(entered.end(), entry->called_at.begin(), entry->called_at.end());
    op = entry->op;
    location = entry->location;
  }
  std::string text = message + "\nModule hierarchy: ";
  std::vector<Shown> shown;
  for (size_t i = 0; i < labels.size(); ++i) {
    text += labels[i] + ".";
    shown.push_back({i + 1 < labels.size() ? entered[i + 1] : location, labels[i]});
  }
  return text + op + "\n" + ShowFrames(shown);
}

}  // namespace hammock::jit
