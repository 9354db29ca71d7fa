// hammock config: every option, its value, and who set it.

#include "hammock/config.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "table.h"

namespace hammock::tool {

namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const config::OptionInfo& option) {
  return {{"name", option.name},
          {"value", config::GetText(option.name)},
          {"default", option.default_value},
          {"origin", config::OriginOf(option.name)},
          {"doc", option.doc}};
}

std::string Shown(const std::string& value) { return value.empty() ? "(empty)" : value; }

}  // namespace

int Config(const ConfigOptions& options) {
  if (!options.file.empty()) config::LoadFile(options.file);
  if (!options.name.empty()) config::GetText(options.name);  // an error for an unknown name
  Json json = Json::array();
  Table table({"option", "value", "set by", "meaning"});
  for (const config::OptionInfo& option : config::Options()) {
    bool named = option.name == options.name || option.old_name == options.name;
    if (!options.name.empty() && !named) continue;
    json.push_back(ToJson(option));
    table.Add({std::string(option.name), Shown(config::GetText(option.name)),
               config::OriginOf(option.name), std::string(option.doc)});
  }
  if (options.json) {
    std::cout << (options.name.empty() ? json : json[0]).dump(2) << "\n";
  } else if (options.name.empty()) {
    std::cout << table.ToText();
  } else {
    std::cout << fmt::format("{} = {}\n  set by   {}\n  default  {}\n  {}\n",
                             json[0]["name"].get<std::string>(), Shown(json[0]["value"]),
                             json[0]["origin"].get<std::string>(), Shown(json[0]["default"]),
                             json[0]["doc"].get<std::string>());
  }
  return 0;
}

}  // namespace hammock::tool
