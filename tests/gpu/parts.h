// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases that play in several processes: a case starts this program again for itself alone, with its part in HEDDLE_GPU_ROLE, since a fault of
// a device ends what its process does there. And the watchdog of all cases. Knows GoogleTest, nothing of drivers.
#ifndef HEDDLE_TESTS_GPU_PARTS_H_
#define HEDDLE_TESTS_GPU_PARTS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../temporary_folder.h"

extern char** environ;

namespace heddle::test {

// Ends the program when a case takes longer. A tool that makes everything slow says how many times in HEDDLE_TEST_PATIENCE.
inline void arm_watchdog(unsigned seconds) {
  static char text[256];
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const char* times = std::getenv("HEDDLE_TEST_PATIENCE");
  seconds *= static_cast<unsigned>(std::clamp(times ? std::atoi(times) : 1, 1, 1000));
  std::snprintf(text, sizeof text, "\n%s.%s hangs: its %u s are over\n", test->test_suite_name(), test->name(), seconds);
  std::signal(SIGALRM, [](int) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
    _exit(99);
  });
  alarm(seconds);
}

// A child that plays a part of the running case; it is killed when this ends.
class Child {
 public:
  Child(const std::string& role, const std::string& folder) : output_(folder + "/" + role + ".txt") {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::vector<std::string> variables = {"HEDDLE_GPU_ROLE=" + role, "HEDDLE_GPU_FOLDER=" + folder};
    for (char** at = environ; *at; ++at) {
      if (!std::string_view(*at).starts_with("GTEST_") && !std::string_view(*at).starts_with("HEDDLE_GPU_")) variables.push_back(*at);
    }
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string self = "/proc/self/exe", filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
    char* arguments[] = {self.data(), filter.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const std::string program = std::filesystem::read_symlink(self).string();
    if (const int bad = posix_spawn(&id_, program.c_str(), &actions, nullptr, arguments, environment.data())) {
      ADD_FAILURE() << "starting a child: " << std::strerror(bad);
      id_ = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Child() { kill_now(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits for its end, at most so long; false if it still runs.
  bool ends(int seconds) {
    for (int i = 0; i < std::max(1, seconds * 200) && id_ > 0; ++i) {
      const pid_t ended = waitpid(id_, &verdict_, WNOHANG);
      if (ended == id_) id_ = -1;
      if (id_ > 0 && seconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return id_ <= 0;
  }
  void kill_now() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    waitpid(id_, &verdict_, 0);
    id_ = -1;
  }
  void expect_passes(int seconds) {
    const bool ended = ends(seconds);
    EXPECT_TRUE(ended) << "the child runs for more than " << seconds << " s";
    if (!ended) kill_now();
    EXPECT_TRUE(WIFEXITED(verdict_) && WEXITSTATUS(verdict_) == 0)
        << (WIFSIGNALED(verdict_) ? "killed by signal " + std::to_string(WTERMSIG(verdict_))
                                  : "exit code " + std::to_string(WEXITSTATUS(verdict_)))
        << ":\n"
        << said();
  }
  std::string said() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string output_;
  pid_t id_ = -1;
  int verdict_ = 0;
};

// What the processes of a case share: the part that this one plays, empty in the one that starts the others, and a folder.
class Parts {
 public:
  void begin() {
    const char *mine = std::getenv("HEDDLE_GPU_ROLE"), *where = std::getenv("HEDDLE_GPU_FOLDER");
    if (mine && where) {
      role = mine;
      folder = where;
      return;
    }
    folder = own_.emplace().path().string();
  }
  void end() { own_.reset(); }
  // Tells the other parts of the case that something has happened.
  void tell(const char* what) { std::ofstream(folder + "/" + what) << "yes"; }
  // Whether something has happened within so long; with a child, as long as that lives.
  bool is_told(const char* what, Child* by, int seconds) {
    for (int i = 0; i < seconds * 200; ++i) {
      if (std::filesystem::exists(folder + "/" + what)) return true;
      if (by && by->ends(0)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::string role, folder;

 private:
  std::optional<heddle::testing::TemporaryFolder> own_;
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_GPU_PARTS_H_
