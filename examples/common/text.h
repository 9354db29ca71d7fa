#pragma once
// Text as numbers, one for each different character: a licence that every Debian has, or a rhyme.
#include <hammock/hammock.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace examples {

class Text {
 public:
  /// The first `size` characters.
  explicit Text(size_t size) {
    std::ifstream file("/usr/share/common-licenses/GPL-3");
    std::string text;
    for (char c; file.get(c);) {
      bool indent = c == ' ' && (text.empty() || text.back() == ' ' || text.back() == '\n');
      if (!indent) text += c;
    }
    while (text.size() < size) text += "one for the master and one for the dame,\n";
    text.resize(size);
    std::set<char> used(text.begin(), text.end());
    alphabet_.assign(used.begin(), used.end());
    data_ = hammock::tensor(Encoded(text));
  }

  int64_t alphabet() const { return static_cast<int64_t>(alphabet_.size()); }
  std::vector<int64_t> Encoded(const std::string& text) const {
    std::vector<int64_t> codes;
    for (char c : text) codes.push_back(static_cast<int64_t>(alphabet_.find(c)));
    return codes;
  }
  char Decoded(int64_t code) const { return alphabet_.at(static_cast<size_t>(code)); }

  struct Batch {
    hammock::Tensor x, y;  // i64[count, length]; y is x one character later
  };
  Batch Sample(int64_t count, int64_t length) const {
    using namespace hammock;
    Tensor start = randint(data_.size(0) - length, {count, 1});
    Tensor at = start + arange(length);
    return {data_.index({at}), data_.index({at + 1})};
  }

 private:
  std::string alphabet_;
  hammock::Tensor data_;
};

/// Draws from the distribution that scores stand for, f32[alphabet]; low temperatures are careful.
inline int64_t Draw(const hammock::Tensor& scores, double temperature) {
  using namespace hammock;
  return multinomial(softmax(scores / temperature, -1), 1).item<int64_t>();
}

}  // namespace examples
