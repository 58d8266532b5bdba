// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host against plugins whose code crashes, hangs, eats or lies when a child process first runs it: the host stays alive and says what happened.
#include <sys/resource.h>

#include "tests/loader/loader_case.h"

namespace heddle::host {
namespace {

TEST_F(Loader, TurnsACrashInTheEntryIntoAReason) {
  PluginInfo found = install_and_look("crash_entry");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("SIGSEGV"), HasSubstr("loading its library")));
}

TEST_F(Loader, TurnsACrashInAConstructorIntoAReason) {
  PluginInfo found = install_and_look("crash_constructor");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("SIGSEGV"));
}

TEST_F(Loader, TurnsACrashInCreateIntoAReason) {
  PluginInfo found = install_and_look("crash_create");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("SIGSEGV"), HasSubstr("function create")));
}

TEST_F(Loader, TurnsACrashInProbeIntoAReason) {
  PluginInfo found = install_and_look("crash_probe");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("in its function probe: it crashed (SIGSEGV"));
}

TEST_F(Loader, TurnsExceptionsIntoReasons) {
  for (const char* name : {"throw_probe", "throw_create"}) {
    PluginInfo found = install_and_look(name);
    EXPECT_EQ(found.state, PluginState::kProbeFailed);
    EXPECT_THAT(found.reason, AllOf(HasSubstr(name + 6),
                                    HasSubstr("threw an exception, which must not leave a plugin; report this to its vendor [HD-B-01]")));
  }
}

TEST_F(Loader, FindsWorkThatIsLeftForTheEndOfTheProcess) {
  for (const char* name : {"crash_atexit", "crash_destructor"}) {
    PluginInfo found = install_and_look(name);
    EXPECT_EQ(found.state, PluginState::kProbeFailed) << name;
    EXPECT_THAT(found.reason, AllOf(HasSubstr("ending the process"), HasSubstr("SIGSEGV"), HasSubstr("[HD-L-02]"))) << name;
  }
}

TEST_F(Loader, TakesAnExitCodeAfterTheAnswerForAFailure) {
  PluginInfo found = install_and_look("exit_atexit");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason,
              AllOf(HasSubstr("ending the process"), HasSubstr("it ended the process with exit code 7"), HasSubstr("[HD-L-02]")));
}

TEST_F(Loader, BelievesNoStateThatALookCannotFind) {
  for (const char* name : {"forge_disabled", "forge_untrusted"}) {
    PluginInfo found = install_and_look(name);
    EXPECT_EQ(found.state, PluginState::kProbeFailed) << name;
    EXPECT_THAT(found.reason, HasSubstr("which a probe cannot report")) << name;
  }
}

TEST_F(Loader, BelievesNoAbsurdNumberOfDevices) {
  PluginInfo found = install_and_look("many_devices");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("the answer has devices 4000000000"));
}

// A session without a terminal, no input, little that may be left behind, and the first to go when memory ends.
TEST_F(Loader, LooksWhereLittleCanBeHarmed) {
  setenv("LD_LIBRARY_PATH", "/nonexistent/heddle", 1);
  PluginInfo found = install_and_look("tell_probe");
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(found.state, PluginState::kNoDevice);
  EXPECT_EQ(found.reason, "oom 1000, core 1, file 1, cpu 1, leader 1, terminal 0, input 0, LD_LIBRARY_PATH /nonexistent/heddle");
}

// More plugins than there are descriptors for at once; none of them is judged by what this process lacks.
TEST_F(Loader, LooksAtManyPluginsWithFewDescriptors) {
  constexpr int kPlugins = 100;
  for (int i = 0; i < kPlugins; ++i) install("many" + std::to_string(i), "", library("other_id"));
  install("good");
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{40, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  std::unique_ptr<Host> host = open();
  std::vector<PluginInfo> plugins = host->plugins(true);
  setrlimit(RLIMIT_NOFILE, &before);
  int judged = 0;
  for (const PluginInfo& plugin : plugins) {
    if (plugin.id == "fake.good") {
      EXPECT_EQ(plugin.state, PluginState::kAvailable) << plugin.reason;
    }
    if (plugin.id.rfind("fake.many", 0) != 0) continue;
    EXPECT_EQ(plugin.state, PluginState::kIncompatible) << plugin.reason;
    ++judged;
  }
  EXPECT_EQ(judged, kPlugins);
}

TEST_F(Loader, KeepsNoVerdictThatWasAMatterOfTheMoment) {
  install("good");
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  std::unique_ptr<Host> host = open();
  const rlimit none{17, before.rlim_max};  // the ends of a pipe go to 16 and above
  setrlimit(RLIMIT_NOFILE, &none);
  PluginInfo found = info(*host, "good");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("a pipe cannot be made"));
  host = open();
  found = info(*host, "good");
  EXPECT_EQ(found.state, PluginState::kAvailable) << found.reason;
  EXPECT_FALSE(found.from_cache);

  install("hang_probe", "[load]\ntimeout_ms = 100");
  for (int i = 0; i < 2; ++i) {
    host = open();
    found = info(*host, "hang_probe");
    EXPECT_THAT(found.reason, HasSubstr("within 100 ms"));
    EXPECT_FALSE(found.from_cache);
  }
}

TEST_F(Loader, KeepsVerdictsInAFolderOfItsOwnAlone) {
  install("good");
  const std::filesystem::path cache = folder_ / "cache/heddle/probe";
  info(*open(), "good");
  EXPECT_TRUE(info(*open(), "good").from_cache);
  EXPECT_EQ(std::filesystem::status(cache).permissions(), std::filesystem::perms::owner_all);

  std::filesystem::permissions(cache, std::filesystem::perms(0770));
  options_.no_config = false;
  options_.config_text = "[log]\nlevel = \"debug\"\n";
  EXPECT_FALSE(info(*open(), "good").from_cache);
  EXPECT_THAT(log_, AllOf(HasSubstr("are not cached"), HasSubstr("is not used"), HasSubstr("others have access to it (mode 0770)")));

  std::filesystem::permissions(cache, std::filesystem::perms(0700));
  EXPECT_TRUE(info(*open(), "good").from_cache);
  std::filesystem::rename(cache, folder_ / "theirs");
  std::filesystem::create_directory_symlink(folder_ / "theirs", cache);
  EXPECT_FALSE(info(*open(), "good").from_cache);

  // A link in the place of a verdict.
  std::filesystem::remove(cache);
  std::filesystem::rename(folder_ / "theirs", cache);
  std::filesystem::path verdict;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    if (entry.path().filename().string().rfind("fake.good-", 0) == 0) verdict = entry.path();
  }
  std::filesystem::rename(verdict, folder_ / "verdict");
  std::filesystem::create_symlink(folder_ / "verdict", verdict);
  EXPECT_FALSE(info(*open(), "good").from_cache);
}

TEST_F(Loader, KeepsAPluginsAppetiteOutOfThisProcess) {
  rusage before, after, child;
  getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(install_and_look("allocate_probe").state, PluginState::kAvailable);
  getrusage(RUSAGE_SELF, &after);
  getrusage(RUSAGE_CHILDREN, &child);
  EXPECT_GE(child.ru_maxrss, 1 << 20) << "KiB";
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 500 << 10) << "KiB";
}

constexpr std::pair<const char*, const char*> kEaters[] = {{"eat_constructor", "loading its library"},
                                                           {"eat_entry", "loading its library"},
                                                           {"eat_probe", "in its function probe"},
                                                           {"eat_create", "in its function create"}};

TEST_F(Loader, EndsALookThatTakesAllMemory) {
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  for (const auto& [name, stage] : kEaters) {
    PluginInfo found = install_and_look(name, "[load]\ntimeout_ms = 60000");  // where memory comes slowly
    EXPECT_EQ(found.state, PluginState::kProbeFailed) << name;
    EXPECT_THAT(found.reason, AllOf(HasSubstr(stage), HasSubstr("it used more than 2048 MiB of memory"))) << name;
    EXPECT_TRUE(info(*open(), name).from_cache) << "it will again";
  }
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 500 << 10) << "KiB";
}

// Whoever started this process bounded its memory: what a plugin is refused is its own affair.
TEST_F(Loader, TurnsMemoryThatEndsIntoAReason) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIP: sanitizers need more than is left";
#endif
  for (const auto& [name, stage] : kEaters) install(name);
  install("good");
  rlimit before;
  getrlimit(RLIMIT_DATA, &before);
  const rlimit little{256 << 20, before.rlim_max};
  std::unique_ptr<Host> host = open();
  setrlimit(RLIMIT_DATA, &little);
  std::vector<PluginInfo> plugins = host->plugins(true);
  setrlimit(RLIMIT_DATA, &before);
  for (const auto& [name, stage] : kEaters) {
    PluginInfo found = info(*host, name);
    EXPECT_EQ(found.state, PluginState::kProbeFailed) << name;
    EXPECT_THAT(found.reason, AllOf(HasSubstr(stage), HasSubstr("SIGSEGV"))) << name;
  }
  EXPECT_EQ(info(*host, "good").state, PluginState::kAvailable) << info(*host, "good").reason;
}

TEST_F(Loader, TurnsAnAbortIntoAReasonWithWhatWasPrinted) {
  PluginInfo found = install_and_look("abort_probe");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("SIGABRT"), HasSubstr("function probe"), HasSubstr("the moon is full")));
}

TEST_F(Loader, TurnsAnUnknownInstructionIntoAReason) {
  for (const char* name : {"ill_probe", "ill_entry"}) {
    PluginInfo found = install_and_look(name);
    EXPECT_EQ(found.state, PluginState::kProbeFailed) << name;
    EXPECT_THAT(found.reason, HasSubstr("SIGILL")) << name;
  }
}

TEST_F(Loader, EndsAProbeThatHangs) {
  for (const char* name : {"hang_probe", "spin_probe"}) {
    PluginInfo found = install_and_look(name, "[load]\ntimeout_ms = 200");
    EXPECT_EQ(found.state, PluginState::kProbeFailed) << name;
    EXPECT_THAT(found.reason, AllOf(HasSubstr("within 200 ms"), HasSubstr("function probe"))) << name;
  }
}

TEST_F(Loader, EndsAShutdownThatHangs) {
  PluginInfo found = install_and_look("hang_shutdown", "[load]\ntimeout_ms = 200");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("function shutdown"));
}

TEST_F(Loader, EndsAProbeThatPrintsForEver) {
  PluginInfo found = install_and_look("flood_probe", "[load]\ntimeout_ms = 200");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("within 200 ms"));
  EXPECT_LT(found.reason.size(), 1000u);
}

TEST_F(Loader, TellsAnExitFromAnAnswer) {
  PluginInfo found = install_and_look("exit_probe");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("exit code 0 before it answered"));
}

TEST_F(Loader, DoesNotWaitForWhatAProbeLeavesBehind) {
  const uint64_t start = clock_ns();
  PluginInfo found = install_and_look("exit_with_child");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_LT(clock_ns() - start, 5'000'000'000u);
}

TEST_F(Loader, NoticesAClosedAnswerDescriptor) {
  PluginInfo found = install_and_look("close_answer");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("before it answered"));
}

TEST_F(Loader, DoesNotBelieveWhatAPluginPrints) {
  PluginInfo found = install_and_look("print_probe");
  EXPECT_EQ(found.state, PluginState::kAvailable) << found.reason;
  EXPECT_EQ(found.device_count, 1u);
}

}  // namespace
}  // namespace heddle::host
