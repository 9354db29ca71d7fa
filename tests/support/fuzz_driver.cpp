// Runs a fuzz target without libFuzzer: mutates the files of a folder for some seconds. The input
// in work is kept in `PROGRAM-input`, so that it is there after a crash.
//
//   archive-fuzz CORPUS SECONDS [SEED]     or     archive-fuzz FILE

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, uint64_t seed)
      : corpus_(std::move(corpus)), random_(seed) {}

  std::string Next() {
    std::string input = Any();
    for (size_t count = 1 + Below(4); count > 0; --count) Mutate(input);
    return input;
  }

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& Any() { return corpus_[Below(corpus_.size())]; }

  void Mutate(std::string& input) {
    static constexpr unsigned char kTelling[] = {0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, 64};
    size_t at = Below(input.size());
    switch (Below(7)) {
      case 0:
        if (!input.empty()) input[at] ^= static_cast<char>(1 << Below(8));
        return;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(kTelling[Below(sizeof(kTelling))]);
        return;
      case 2:
        input.erase(at, Below(16));
        return;
      case 3:
        input.insert(at, input.substr(Below(input.size()), Below(32)));
        return;
      case 4:
        input.insert(at, 1 + Below(10), static_cast<char>(kTelling[Below(sizeof(kTelling))]));
        return;
      case 5: {  // the end of another one
        const std::string& other = Any();
        input = input.substr(0, at) + other.substr(Below(other.size()));
        return;
      }
      case 6:
        if (!input.empty()) input[at] = static_cast<char>(random_());
        return;
    }
  }

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

/// A reader that takes much more memory than its input is refused it, and ends.
void LimitMemory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlimit limit = {rlim_t{4} << 30, rlim_t{4} << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  LimitMemory();
  if (argc == 2) {
    Run(Read(argv[1]));
    return 0;
  }
  if (argc < 3) return std::fprintf(stderr, "usage: %s CORPUS SECONDS [SEED]\n", argv[0]), 2;
  std::vector<std::string> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    corpus.push_back(Read(entry.path()));
  }
  if (corpus.empty()) return std::fprintf(stderr, "%s is empty\n", argv[1]), 2;
  for (const std::string& input : corpus) Run(input);
  Mutator mutator(corpus, argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[2]));
  const std::string in_work = std::filesystem::path(argv[0]).filename().string() + "-input";
  long runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    std::string input = mutator.Next();
    std::ofstream(in_work, std::ios::binary) << input;
    Run(input);
  }
  std::filesystem::remove(in_work);
  std::printf("%ld inputs, none crashed\n", runs);
}
