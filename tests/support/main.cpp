/// The main function of all test programs.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace {

/// Where the tests of this process write: a folder of its own, so that tests that run side by side
/// may use the same names. It is removed at the end.
class FolderOfTheProcess {
 public:
  FolderOfTheProcess() : path_(std::filesystem::temp_directory_path() / "hammock-tests-XXXXXX") {
    if (!mkdtemp(path_.data())) {
      std::cerr << "cannot make the folder " << path_ << "\n";
      std::exit(1);
    }
    setenv("TEST_TMPDIR", (path_ + "/").c_str(), 1);  // for GoogleTest
    setenv("TMPDIR", path_.c_str(), 1);  // for the standard library and child processes
  }
  ~FolderOfTheProcess() {
    std::error_code none;
    if (getpid() == owner_) std::filesystem::remove_all(path_, none);
  }

 private:
  std::string path_;
  pid_t owner_ = getpid();
};

}  // namespace

int main(int argc, char** argv) {
  FolderOfTheProcess folder;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
