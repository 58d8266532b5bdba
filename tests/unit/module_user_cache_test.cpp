// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The user's cache: what was kept is found, what others could have written is not, and it is bounded.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "sdk/module/user_cache.h"
#include "tests/temporary_folder.h"

namespace heddle::module {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

bool any(std::string_view) {
  return true;
}

class UserCacheTest : public ::testing::Test {
 protected:
  std::string folder() const { return (temporary_.path() / "a" / "b").string(); }
  testing::TemporaryFolder temporary_;
};

TEST_F(UserCacheTest, FindsWhatWasKept) {
  const UserCache cache(folder());
  EXPECT_FALSE(cache.find("one", 100));
  EXPECT_TRUE(cache.keep("one", "1"));
  EXPECT_TRUE(cache.keep("one", "uno"));
  EXPECT_TRUE(cache.keep("nothing", ""));
  EXPECT_THAT(UserCache(folder()).find("one", 100), Optional(std::string("uno")));
  EXPECT_THAT(cache.find("nothing", 100), Optional(std::string()));
  EXPECT_FALSE(cache.find("one", 2)) << "more bytes than are wanted";
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
  EXPECT_THAT(cache.why_unused(), IsEmpty());
}

TEST_F(UserCacheTest, OpensAndWritesEntriesAsFiles) {
  const UserCache cache(folder());
  EXPECT_EQ(cache.open("one"), -1);
  auto write = [](int descriptor, const void* text) {
    const auto* of = static_cast<const std::string*>(text);
    return ::write(descriptor, of->data(), of->size()) == static_cast<ssize_t>(of->size());
  };
  const std::string text = "eins";
  EXPECT_TRUE(cache.keep("one", write, &text));
  const int file = cache.open("one");
  ASSERT_GE(file, 0);
  char read[5] = {};
  EXPECT_EQ(::read(file, read, sizeof(read)), 4);
  EXPECT_EQ(read, text);
  close(file);
  errno = 0;
  EXPECT_FALSE(cache.keep("two", [](int, const void*) { return errno = ENOSPC, false; }, nullptr));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1) << "nothing of the second is left";
  fs::permissions(fs::path(folder()) / "one", fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(cache.open("one"), -1);
}

TEST_F(UserCacheTest, IsNothingWithoutAFolder) {
  const UserCache cache;
  EXPECT_FALSE(cache.keep("one", "1"));
  EXPECT_FALSE(cache.find("one", 100));
  cache.touch("one");
  cache.trim(0, any);
  EXPECT_THAT(cache.why_unused(), IsEmpty());
  std::ofstream(temporary_.path() / "file") << "x";
  const UserCache below_a_file((temporary_.path() / "file" / "a").string());
  EXPECT_FALSE(below_a_file.keep("one", "1"));
}

TEST_F(UserCacheTest, LeavesAloneWhatOthersMayWrite) {
  const UserCache cache(folder());
  ASSERT_TRUE(cache.keep("one", "1"));
  fs::permissions(fs::path(folder()) / "one", fs::perms(0666));
  EXPECT_FALSE(cache.find("one", 100));
  ASSERT_TRUE(cache.keep("one", "1"));
  fs::permissions(folder(), fs::perms(0770));
  EXPECT_FALSE(cache.find("one", 100));
  EXPECT_FALSE(cache.keep("two", "2"));
  cache.trim(0, any);
  EXPECT_THAT(cache.why_unused(), HasSubstr("others have access to it (mode 0770)"));
  fs::permissions(folder(), fs::perms(0700));
  EXPECT_THAT(cache.find("one", 100), Optional(std::string("1")));
  fs::create_symlink(fs::path(folder()) / "one", fs::path(folder()) / "link");
  EXPECT_FALSE(cache.find("link", 100));
}

TEST_F(UserCacheTest, ForgetsWhatWasNotUsedForLongest) {
  const UserCache cache(folder());
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(cache.keep(name, std::string(1000, 'x')));
  const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  for (const char* name : {"a", "b"}) ASSERT_EQ(utimensat(AT_FDCWD, (fs::path(folder()) / name).c_str(), long_ago, 0), 0);
  cache.touch("a");
  cache.trim(3000, any);
  EXPECT_TRUE(cache.find("b", 1000));
  cache.trim(2999, any);
  EXPECT_FALSE(cache.find("b", 1000));
  EXPECT_TRUE(cache.find("a", 1000));
  EXPECT_TRUE(cache.find("c", 1000));
  cache.trim(0, [](std::string_view name) { return name == "a"; });
  EXPECT_FALSE(cache.find("a", 1000));
  EXPECT_TRUE(cache.find("c", 1000)) << "what is no entry stays";
  cache.trim(0, any);
  EXPECT_TRUE(fs::is_empty(folder()));
}

// What is found is whole, whoever writes and removes meanwhile.
TEST_F(UserCacheTest, IsSharedByManyAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> damaged = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const UserCache cache(folder());
      for (int i = 0; i < 200; ++i) {
        std::string name = std::to_string(i % 5);
        if (i % 50 == 49) cache.trim(20000, any);
        cache.keep(name, std::string(5000, static_cast<char>('a' + t)));
        auto found = cache.find(name, 5000);
        if (found && (found->size() != 5000 || found->find_first_not_of((*found)[0]) != std::string::npos)) ++damaged;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0);
  for (const auto& entry : fs::directory_iterator(folder())) EXPECT_EQ(entry.path().filename().string().size(), 1u) << entry.path();
}

}  // namespace
}  // namespace heddle::module
