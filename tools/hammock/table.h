#pragma once
/// Columns of text for people.

#include <algorithm>
#include <string>
#include <vector>

namespace hammock::tool {

/// Rows of cells, each column as wide as its widest cell; those named by `right` are aligned to the
/// right.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::vector<size_t> right = {})
      : right_(std::move(right)) {
    rows_.push_back(std::move(header));
  }
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  size_t size() const { return rows_.size() - 1; }

  std::string ToText() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        std::string space(widths[i] - row[i].size(), ' ');
        bool right = std::find(right_.begin(), right_.end(), i) != right_.end();
        line += (i == 0 ? "" : "  ") + (right ? space + row[i] : row[i] + space);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> right_;
};

}  // namespace hammock::tool
