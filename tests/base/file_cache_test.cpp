#include "base/file_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/log.h"
#include "hammock/config.h"

namespace hammock {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kRoom = 1 << 20;

class FileCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = ::testing::TempDir() + "/hammock_files_" + test->name();
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string PathOf(std::string_view key) const {
    return dir_ + "/" + FileCache::FileName("test", key);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_)) names.push_back(entry.path().filename());
    return names;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Replace(const std::string& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  /// As if it was last used that long ago.
  void Age(std::string_view key, int seconds) const {
    fs::last_write_time(PathOf(key),
                        fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  }

  std::string dir_;
};

TEST_F(FileCacheTest, GivesBackWhatWasSaved) {
  FileCache cache(dir_ + "/deep/er");
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt);
  EXPECT_FALSE(fs::exists(dir_)) << "looking makes nothing";
  std::string value("value\0with zero", 15);
  ASSERT_TRUE(cache.Save("test", "key", value, kRoom));
  EXPECT_EQ(cache.Load("test", "key"), value);
  EXPECT_EQ(FileCache(dir_ + "/deep/er").Load("test", "key"), value);
  EXPECT_EQ(cache.Load("test", "key2"), std::nullopt);
  EXPECT_EQ(cache.Load("other", "key"), std::nullopt);
  ASSERT_TRUE(cache.Save("test", "key", "", kRoom));
  EXPECT_EQ(cache.Load("test", "key"), "") << "the latest one";
  ASSERT_TRUE(cache.Save("test", "", "empty key", kRoom));
  EXPECT_EQ(cache.Load("test", ""), "empty key");
}

TEST_F(FileCacheTest, IsPrivate) {
  ASSERT_TRUE(FileCache(dir_).Save("test", "key", "value", kRoom));
  struct stat info;
  ASSERT_EQ(stat(dir_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(PathOf("key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(FileCacheTest, ADirectoryThatOthersCanWriteToIsNotUsed) {
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "key", "value", kRoom));
  LogCapture log;
  chmod(dir_.c_str(), 0777);
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt);
  EXPECT_FALSE(cache.Save("test", "key", "value", kRoom));
  EXPECT_EQ(log.text(), "warn: cache_dir: " + dir_ + " is not used: other users can write to it\n");
  chmod(dir_.c_str(), 0755);
  EXPECT_EQ(cache.Load("test", "key"), "value");
}

TEST_F(FileCacheTest, ADirectoryOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a directory away";
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "key", "value", kRoom));
  ASSERT_EQ(chown(dir_.c_str(), 1, 1), 0);
  LogCapture log;
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt);
  EXPECT_NE(log.text().find("it belongs to another user"), std::string::npos);
  ASSERT_EQ(chown(dir_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(PathOf("key").c_str(), 1, 1), 0);
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt) << "a file of another user";
}

TEST_F(FileCacheTest, PlacesThatCannotBeUsedAreNoErrors) {
  LogCapture log;
  for (const char* place : {"/proc/hammock", "/dev/null", "/dev/null/x", ""}) {
    EXPECT_FALSE(FileCache(place).Save("test", "key", "value", kRoom)) << place;
    EXPECT_EQ(FileCache(place).Load("test", "key"), std::nullopt) << place;
  }
}

TEST_F(FileCacheTest, ThingsThatAreNoFilesAreIgnored) {
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "key", "value", kRoom));
  LogCapture log;
  fs::rename(PathOf("key"), dir_ + "/elsewhere");
  fs::create_symlink("elsewhere", PathOf("key"));
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt) << "a link";
  fs::remove(PathOf("key"));
  fs::create_directory(PathOf("key"));
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt) << "a directory";
  EXPECT_FALSE(cache.Save("test", "key", "value", kRoom));
  fs::remove(PathOf("key"));
  ASSERT_EQ(mkfifo(PathOf("key").c_str(), 0600), 0);
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt) << "a pipe: must not wait";
  EXPECT_TRUE(cache.Save("test", "key", "value", kRoom));
  EXPECT_EQ(cache.Load("test", "key"), "value");
}

TEST_F(FileCacheTest, TruncatedEntriesAreIgnoredAndLogged) {
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "some key", "some value", kRoom));
  std::string whole = Read(PathOf("some key"));
  for (size_t length = 0; length < whole.size(); ++length) {
    Replace(PathOf("some key"), whole.substr(0, length));
    LogCapture log;
    EXPECT_EQ(cache.Load("test", "some key"), std::nullopt) << length;
    EXPECT_NE(log.text().find("ignored"), std::string::npos);
    EXPECT_NE(log.text().find(PathOf("some key")), std::string::npos) << "it names the file";
  }
  Replace(PathOf("some key"), whole + "x");
  LogCapture log;
  EXPECT_EQ(cache.Load("test", "some key"), std::nullopt);
}

TEST_F(FileCacheTest, EveryFlippedBitIsFound) {
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "some key", "some value", kRoom));
  std::string whole = Read(PathOf("some key"));
  LogCapture log;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    Replace(PathOf("some key"), damaged);
    EXPECT_EQ(cache.Load("test", "some key"), std::nullopt) << bit;
  }
  Replace(PathOf("some key"), whole);
  EXPECT_EQ(cache.Load("test", "some key"), "some value");
}

TEST_F(FileCacheTest, TheWholeKeyIsCompared) {
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "one", "value of one", kRoom));
  fs::rename(PathOf("one"), PathOf("two"));  // as if both had one hash
  LogCapture log;
  EXPECT_EQ(cache.Load("test", "two"), std::nullopt);
  EXPECT_NE(log.text().find("of another key; ignored"), std::string::npos);
}

TEST_F(FileCacheTest, LeastRecentlyUsedFilesGo) {
  FileCache cache(dir_);
  std::string value(1000, 'x');
  std::vector<std::string> keys = {"a", "b", "c", "d", "e"};
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(cache.Save("test", keys[i], value, kRoom));
    Age(keys[i], 1000 - static_cast<int>(i));
  }
  EXPECT_EQ(cache.Load("test", "a"), value);  // now the latest
  ASSERT_TRUE(cache.Save("test", "f", value, 4 * 1100));
  EXPECT_EQ(cache.Load("test", "b"), std::nullopt);
  EXPECT_EQ(cache.Load("test", "c"), std::nullopt);
  EXPECT_EQ(cache.Load("test", "a"), value);
  EXPECT_EQ(cache.Load("test", "f"), value);
  EXPECT_FALSE(cache.Save("test", "g", std::string(5000, 'x'), 4 * 1100)) << "larger than all";
}

TEST_F(FileCacheTest, StaysWithinItsBound) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    FileCache cache(dir_);  // as many processes would
    cache.Save("test", std::to_string(round), std::string(random() % 2000, 'x'), 10000);
    int64_t bytes = 0;
    for (const std::string& name : Files())
      bytes += static_cast<int64_t>(fs::file_size(dir_ + "/" + name));
    ASSERT_LE(bytes, 10000);
  }
}

TEST_F(FileCacheTest, AnEntryOfNearlyAllBytesStays) {
  FileCache cache(dir_);
  const std::string value(95000, 'x');
  for (const char* key : {"one", "two", "three"}) {
    EXPECT_TRUE(cache.Save("test", key, value, 100000));
    EXPECT_TRUE(cache.Load("test", key)) << key;
    EXPECT_EQ(Files().size(), 1u);
    Age(key, 10);
  }
}

TEST_F(FileCacheTest, FilesThatOthersCanWriteToAreIgnored) {
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "key", "value", kRoom));
  ASSERT_EQ(chmod(PathOf("key").c_str(), 0666), 0);
  EXPECT_EQ(cache.Load("test", "key"), std::nullopt);
}

TEST_F(FileCacheTest, OtherFilesAreLeftAlone) {
  fs::create_directories(dir_);
  chmod(dir_.c_str(), 0700);
  Replace(dir_ + "/mine.txt", std::string(100000, 'x'));
  FileCache cache(dir_);
  for (int i = 0; i < 100; ++i) cache.Save("test", std::to_string(i), "value", 500);
  EXPECT_EQ(fs::file_size(dir_ + "/mine.txt"), 100000u);
}

TEST_F(FileCacheTest, PartsOfDeadProcessesGo) {
  FileCache cache(dir_);
  ASSERT_TRUE(cache.Save("test", "key", "value", kRoom));
  std::string old = dir_ + "/test-1.cache.9.9.9.part", fresh = dir_ + "/test-1.cache.8.8.8.part";
  Replace(old, "half");
  Replace(fresh, "half");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  FileCache(dir_).Save("test", "key", "value", kRoom);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh)) << "someone may be writing it";
}

TEST_F(FileCacheTest, OptionsSayWhere) {
  EXPECT_EQ(FileCache::OfConfig(), nullptr);
  config::Override here("cache_dir", dir_);
  ASSERT_NE(FileCache::OfConfig(), nullptr);
  EXPECT_EQ(FileCache::OfConfig(), FileCache::OfConfig());
  EXPECT_EQ(FileCache::OfConfig()->directory(), dir_);
}

TEST_F(FileCacheTest, ThreadsShareIt) {
  FileCache cache(dir_);
  std::atomic<int> hits{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, &hits, t] {
      for (int i = 0; i < 200; ++i) {
        std::string key = std::to_string((t + i) % 7), value(100 * ((t + i) % 7), 'v');
        cache.Save("test", key, value, 3000);
        std::optional<std::string> found = cache.Load("test", key);
        if (found) {
          EXPECT_EQ(*found, value);
          ++hits;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(hits, 0);
}

/// Values that are long and known, so that a mix of two is found.
std::string LongValue(int seed) { return std::string(200000, static_cast<char>('a' + seed % 26)); }

bool IsWhole(const std::string& value) {
  return value.size() == 200000 && value.find_first_not_of(value[0]) == std::string::npos;
}

pid_t Child(const std::function<void()>& body) {
  pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

TEST_F(FileCacheTest, ProcessesThatWriteOneEntryNeverMixIt) {
  std::vector<pid_t> children;
  for (int child = 0; child < 3; ++child) {
    children.push_back(Child([&] {
      FileCache cache(dir_);
      for (int i = 0; i < 100; ++i) cache.Save("test", "key", LongValue(child + 3 * i), kRoom);
    }));
  }
  FileCache cache(dir_);
  LogCapture log;
  int found = 0;
  for (size_t ended = 0; ended < children.size();) {
    if (auto value = cache.Load("test", "key")) {
      ++found;
      ASSERT_TRUE(IsWhole(*value));
    }
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0) {
      EXPECT_EQ(status, 0);
      ++ended;
    }
  }
  EXPECT_GT(found, 0);
  EXPECT_EQ(log.text(), "");
  ASSERT_EQ(Files().size(), 1u) << "no part is left";
}

TEST_F(FileCacheTest, KilledProcessesHarmNothing) {
  std::mt19937 random(3);
  FileCache cache(dir_);
  LogCapture log;
  int found = 0;
  for (int round = 0; round < 60; ++round) {
    pid_t pid = Child([&] {
      FileCache mine(dir_);
      for (int i = 0;; ++i) mine.Save("test", "key", LongValue(i), kRoom);
    });
    usleep(500 + random() % 5000);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    if (auto value = cache.Load("test", "key")) {
      ++found;
      ASSERT_TRUE(IsWhole(*value));
    }
  }
  EXPECT_GT(found, 0);
  EXPECT_EQ(log.text(), "") << "no entry was ever damaged";
  EXPECT_TRUE(cache.Save("test", "key", LongValue(1), kRoom));
  EXPECT_EQ(cache.Load("test", "key"), LongValue(1));
}

}  // namespace
}  // namespace hammock
