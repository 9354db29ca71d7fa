#pragma once
/// All options of the process, and settings whose option is not there yet.
///
/// Note [Owners that are not loaded]: a library that is opened late declares options of its own.
/// The environment is read for them when they register. A call or a file may come before that: a
/// setting `owner.option` of an owner without registered options is kept, and applied when the
/// option registers. The first step warns of settings and variables that belong to nothing, since
/// all libraries of the option `load` are open by then; from then on an unknown owner is an error.
/// A variable without a second `_`, as HAMMOCK_EAGRE, has no owner and is warned of at once.

#include <string>
#include <string_view>
#include <vector>

#include "hammock/option.h"

namespace hammock::config {

/// The part of a name before its dot; empty for options of Hammock itself.
std::string_view OwnerOf(std::string_view name);

/// All registered options, by name. Their values have been read.
std::vector<detail::AnyOption*> AllOptions();

/// By its name, or by its old one, which is warned of. Null: there is none.
detail::AnyOption* FindOption(std::string_view name);
/// Throws the error for an unknown name.
detail::AnyOption& GetOption(std::string_view name);

/// Whether a name without an option may be one of an owner that is not loaded.
bool MayBeKept(std::string_view name);
/// Sets the option when it registers, or at once where it did meanwhile.
void Keep(std::string_view name, std::string_view value, const std::string& origin);

/// Stores a value that Parse or Checked gave. A null origin: the default.
void Store(detail::AnyOption& option, int64_t value, const std::string* origin);

/// An option that affects code.
struct CodeOption {
  std::string_view name;
  std::string value;
  bool is_default;
};
/// By name.
std::vector<CodeOption> CodeOptions();

/// To be called when a step is about to run; does its work once.
void WarnOfUnclaimed();

}  // namespace hammock::config
