// docs/pytorch-names.md: what Hammock has of PyTorch's function index, held against the records.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "hammock/ir/op_def.h"
#include "ir/op_registry.h"
#include "support/source_path.h"

namespace hammock {
namespace {

std::string TextOf(const std::filesystem::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::istringstream text(TextOf(testing::SourcePath(path)));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Names of records, without overloads.
const std::set<std::string>& Records() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const OpDef* op : ops::InTreeOps()) {
      std::string name = op->name();
      all.insert(name.substr(0, name.find('.')));
    }
    return all;
  }();
  return names;
}

/// The record of a name such as "linalg.solve"; empty where there is none.
std::string RecordOf(const std::string& name) {
  std::string module = name.substr(0, name.find('.')), function = name.substr(module.size() + 1);
  std::vector<std::string> candidates = {function};
  if (module == "linalg" || module == "special" || module == "fft") {
    candidates = {module + "_" + function};
  } else if (module == "sparse") {
    candidates.clear();
  } else if (module == "samples") {
    std::string flat = function;
    for (char& c : flat) c = c == '.' ? '_' : c;
    candidates = {flat, function + "_"};  // some are in place only
  }
  for (const std::string& candidate : candidates) {
    if (Records().contains(candidate)) return candidate;
  }
  return "";
}

struct Verdict {
  std::string pattern, kind, text;
  bool used = false;

  bool Matches(const std::string& name) const {
    size_t star = pattern.find('*');
    if (star == std::string::npos) return name == pattern;
    std::string behind = pattern.substr(star + 1);
    return name.starts_with(pattern.substr(0, star)) && name.ends_with(behind);
  }
};

std::vector<Verdict> Verdicts() {
  std::vector<Verdict> verdicts;
  const std::regex row(R"((\S+)\s+(here|as|no|missing) (.+))");
  for (const std::string& line : LinesOf("tests/ops/names/verdicts.txt")) {
    if (line.empty() || line[0] == '#') continue;
    std::smatch match;
    EXPECT_TRUE(std::regex_match(line, match, row)) << line;
    verdicts.push_back({match[1], match[2], match[3]});
  }
  return verdicts;
}

struct Page {
  struct Section {
    std::vector<std::string> there;
    std::vector<std::pair<std::string, std::string>> others;  ///< name, verdict
  };
  std::map<std::string, Section> sections;
  std::map<std::string, int> counts;
  std::vector<std::string> unknown;
};

const std::map<std::string, std::string> kTitles = {{"F", "torch.nn.functional"},
                                                    {"Tensor", "Tensor"},
                                                    {"fft", "torch.fft"},
                                                    {"linalg", "torch.linalg"},
                                                    {"samples", "Ops of PyTorch's sample lists"},
                                                    {"sparse", "torch.sparse"},
                                                    {"special", "torch.special"},
                                                    {"torch", "torch"}};
const std::map<std::string, std::string> kWords = {{"here", "there: "},
                                                   {"as", "by another name: "},
                                                   {"no", "not meaningful here: "},
                                                   {"missing", "missing: "}};

Page MakePage(std::vector<Verdict>& verdicts) {
  Page page;
  for (const std::string& name : LinesOf("tests/ops/names/torch_names.txt")) {
    if (name.empty() || name[0] == '#') continue;
    Page::Section& section = page.sections[name.substr(0, name.find('.'))];
    std::string function = name.substr(name.find('.') + 1);
    if (!RecordOf(name).empty()) {
      section.there.push_back(function);
      ++page.counts["here"];
      continue;
    }
    Verdict* verdict = nullptr;
    for (Verdict& candidate : verdicts) {  // a whole name goes before a pattern
      if (!candidate.Matches(name)) continue;
      if (!verdict || candidate.pattern == name) verdict = &candidate;
    }
    if (!verdict) {
      page.unknown.push_back(name);
      continue;
    }
    verdict->used = true;
    ++page.counts[verdict->kind];
    section.others.emplace_back(function, kWords.at(verdict->kind) + verdict->text);
  }
  return page;
}

std::string Wrapped(const std::vector<std::string>& names) {
  std::string text, line;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string word = "`" + names[i] + "`" + (i + 1 < names.size() ? "," : ".");
    if (line.size() + word.size() > 130) text += line + "\n", line.clear();
    line += (line.empty() ? "" : " ") + word;
  }
  return text + line + "\n";
}

std::string TextOfPage(const Page& page) {
  std::string release = LinesOf("tests/ops/names/torch_names.txt").front();
  std::smatch version;
  std::regex_search(release, version, std::regex(R"(PyTorch [0-9.]+[0-9])"));
  auto count = [&](const char* kind) { return std::to_string(page.counts.at(kind)); };
  std::string text =
      "# PyTorch's names\nEvery function of " + version.str() +
      ", and every op of PyTorch's lists of samples, with what Hammock has of it: " +
      count("here") + " are there,\n" + count("as") + " go by another name, " + count("no") +
      " are not meaningful here, " + count("missing") +
      " are missing. Made by `UPDATE_DOCS=1 op_names_tests` from\nthe records and "
      "`tests/ops/names/verdicts.txt`. [ops.md](ops.md) lists the records, "
      "[cpp-names.md](cpp-names.md) the\nnames that differ in C++. Functions of torch.linalg, "
      "torch.special and torch.fft have these words before their names in C++\n"
      "(`linalg_solve`), and lie in `hm.linalg`, `hm.special` and `hm.fft` in Python.\n";
  for (const char* key :
       {"torch", "F", "linalg", "special", "fft", "sparse", "Tensor", "samples"}) {
    const Page::Section& section = page.sections.at(key);
    text += "\n## " + kTitles.at(key) + "\n";
    if (!section.there.empty()) text += "There: " + Wrapped(section.there);
    if (section.others.empty()) continue;
    text += "\n| name | |\n|---|---|\n";
    for (const auto& [name, verdict] : section.others)
      text += "| `" + name + "` | " + verdict + " |\n";
  }
  return text;
}

TEST(OpNames, EveryNameHasAVerdict) {
  std::vector<Verdict> verdicts = Verdicts();
  Page page = MakePage(verdicts);
  for (const std::string& name : page.unknown) ADD_FAILURE() << name << " has no verdict";
  for (const Verdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.used) << verdict.pattern << " is no name without a record: remove its line";
  }
}

/// Words of public headers, of the Python package and of the options, of which the texts of
/// verdicts speak.
std::set<std::string> PublicWords() {
  std::set<std::string> words = Records();
  const std::regex word("[A-Za-z_][A-Za-z0-9_]*");
  auto add = [&](const std::filesystem::path& path) {
    std::string text = TextOf(path);
    for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i) {
      words.insert(i->str());
    }
  };
  for (const char* folder : {"include/hammock", "python/hammock"}) {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(testing::SourcePath(folder))) {
      if (file.is_regular_file() && file.path().extension() != ".pyc") add(file.path());
    }
  }
  add(testing::SourcePath("docs/config.md"));
  return words;
}

TEST(OpNames, WhatVerdictsSpeakOfExists) {
  const std::set<std::string> words = PublicWords();
  const std::regex code("`([^`]*)`"), word("[A-Za-z_][A-Za-z0-9_]*");
  for (const Verdict& verdict : Verdicts()) {
    for (std::sregex_iterator i(verdict.text.begin(), verdict.text.end(), code), end; i != end;
         ++i) {
      std::string text = (*i)[1];
      for (std::sregex_iterator w(text.begin(), text.end(), word); w != end; ++w) {
        if (w->length() < 3) continue;  // variables
        EXPECT_TRUE(words.contains(w->str())) << verdict.pattern << ": no " << w->str();
      }
    }
  }
}

TEST(OpNames, ThePageIsFresh) {
  std::vector<Verdict> verdicts = Verdicts();
  std::string text = TextOfPage(MakePage(verdicts)),
              path = testing::SourcePath("docs/pytorch-names.md");
  if (std::getenv("UPDATE_DOCS")) std::ofstream(path) << text;
  EXPECT_TRUE(TextOf(path) == text) << "run op_names_tests with UPDATE_DOCS=1";
}

}  // namespace
}  // namespace hammock
