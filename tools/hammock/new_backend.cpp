// hammock new-backend NAME: a project with a plug-in that works, to begin from.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "commands.h"
#include "hammock/error.h"
#include "new_backend_files.h"

namespace hammock::tool {
namespace {

bool IsName(const std::string& name) {
  return !name.empty() && std::islower(static_cast<unsigned char>(name[0])) &&
         std::ranges::all_of(
             name, [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; });
}

std::string WithName(std::string text, const std::string& name) {
  constexpr std::string_view kMark = "@NAME@";
  for (size_t at = 0; (at = text.find(kMark, at)) != text.npos; at += name.size()) {
    text.replace(at, kMark.size(), name);
  }
  return text;
}

}  // namespace

int NewBackend(const NewBackendOptions& options) {
  if (!IsName(options.name)) {
    throw ValueError(
        ErrorCode::kValue,
        fmt::format("new-backend: '{}' is no name: it needs lower-case letters, digits "
                    "and '_', a letter first",
                    options.name));
  }
  const std::filesystem::path folder = options.folder.empty() ? options.name : options.folder;
  if (std::filesystem::exists(folder) && !std::filesystem::is_empty(folder)) {
    throw ValueError(ErrorCode::kValue,
                     fmt::format("new-backend: '{}' exists and is not empty", folder.string()));
  }
  std::filesystem::create_directories(folder);
  for (const auto& [file, text] : NewBackendFiles()) {
    std::string name(file.substr(0, file.size() - std::string_view(".in").size()));
    if (name == "backend.c") name = options.name + ".c";
    std::ofstream out(folder / name);
    out << WithName(std::string(text), options.name);
    if (!out.flush()) {
      throw ValueError(ErrorCode::kValue,
                       fmt::format("new-backend: cannot write '{}'", (folder / name).string()));
    }
    std::cout << (folder / name).string() << "\n";
  }
  return 0;
}

}  // namespace hammock::tool
