// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host against plugins that misbehave: it stays alive, says what is wrong with each, and the others go on working.
#include <elf.h>
#include <sys/resource.h>

#include "core/host/log.h"
#include "core/host/manifest.h"
#include "core/host/text_file.h"
#include "tests/loader/loader_case.h"

namespace heddle::host {
namespace {

TEST_F(Loader, LoadsAGoodPlugin) {
  PluginInfo found = install_and_look("good");
  EXPECT_EQ(found.state, PluginState::kAvailable);
  EXPECT_EQ(found.device_count, 1u);
}

TEST_F(Loader, NamesBothRangesWhenNegotiationFails) {
  PluginInfo found = install_and_look("abi_range");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("ABI 0.5 to 0.7"), HasSubstr("this libheddle with 0.1 to 0.2"), HasSubstr("a newer libheddle"),
                                  HasSubstr("[HD-E-02]"), Not(HasSubstr("failed:"))));
}

TEST_F(Loader, RefusesAManifestRangeWithoutStartingAProbe) {
  install("crash_constructor", "", "", R"(["0.5", "0.7"])");
  PluginInfo found = look_at("crash_constructor");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("ABI 0.5 to 0.7"), HasSubstr("[HD-E-02]")));
}

TEST_F(Loader, NamesAMissingVendorLibraryItsHintAndThePlacesSearched) {
  // The library would crash: it is never reached.
  install("crash_entry",
          "[requires]\nlibs = [{ soname = \"libheddle_no_vendor.so.1\", hint = \"install the fake driver, 525 or newer\" }]");
  PluginInfo found = look_at("crash_entry");
  EXPECT_EQ(found.state, PluginState::kMissingDependency);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("libheddle_no_vendor.so.1"), HasSubstr("install the fake driver, 525 or newer"),
                                  HasSubstr("/etc/ld.so.cache"), HasSubstr("/usr/lib")));
}

TEST_F(Loader, NamesAMissingNeededLibrary) {
  PluginInfo found = install_and_look("needs_absent");
  EXPECT_EQ(found.state, PluginState::kMissingDependency);
  EXPECT_THAT(found.reason, HasSubstr("libheddle_test_absent.so"));
}

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
    EXPECT_THAT(found.reason,
                AllOf(HasSubstr(name + 6), HasSubstr("threw an exception, and none may leave a plugin; ask its maker [HD-B-01]")));
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
    EXPECT_THAT(found.reason, HasSubstr("which a look cannot find")) << name;
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

TEST_F(Loader, RefusesAPathThatTheLinkerWouldRewrite) {
  for (const char* part : {"$LIB", "$ORIGIN", "${PLATFORM}"}) {
    const std::filesystem::path there = folder_ / part;
    std::filesystem::create_directory(there);
    std::filesystem::copy(library("good"), there / "good.so");
    install("good", "", (there / "good.so").string());
    for (const bool in_process : {false, true}) {
      options_.no_config = !in_process;
      options_.config_text = in_process ? "[plugins.probe]\n\"fake.good\" = \"in-process\"\n" : "";
      std::unique_ptr<Host> host = open();
      PluginInfo found = info(*host, "good");
      EXPECT_EQ(found.state, PluginState::kIncompatible) << part;
      EXPECT_THAT(found.reason, AllOf(HasSubstr("the dynamic linker replaces what follows a '$'"), HasSubstr("[HD-B-03]")));
    }
    Verdict verdict;
    EXPECT_EQ(load_library((there / "good.so").string(), "fake.good", "1.0.0", false, &verdict), nullptr);
    EXPECT_THAT(verdict.reason, HasSubstr("the dynamic linker replaces what follows a '$'"));
  }
}

// load.unloadable: with the last host that used it, and only if nobody's manifest wants it to stay.
TEST_F(Loader, UnloadsWhatMayBeUnloaded) {
  auto installed = [&](const std::string& copy, bool unloadable) {
    const std::filesystem::path there = folder_ / (copy + ".so");
    if (!std::filesystem::exists(there)) std::filesystem::copy(library("good"), there);
    install("good", unloadable ? "[load]\nunloadable = true" : "", there.string());
    return there.string();
  };
  auto is_mapped = [](const std::string& path) {
    const std::string wanted = std::filesystem::canonical(path).string();
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(wanted) != std::string::npos) return true;
    }
    return false;
  };
  auto use = [&] {
    std::unique_ptr<Host> host = open();
    Result<LoadedDriver*> driver = host->driver("fake.good");
    EXPECT_TRUE(driver.ok()) << driver.status().message();
    return host;
  };
  const std::string goes = installed("goes", true);
  for (int turn = 0; turn < 3; ++turn) {
    std::unique_ptr<Host> first = use();
    EXPECT_TRUE(is_mapped(goes));
    std::unique_ptr<Host> second = use();
    first.reset();
    EXPECT_TRUE(is_mapped(goes)) << "another host uses it";
    second.reset();
    EXPECT_FALSE(is_mapped(goes));
  }
  // Looked at in this process, and nothing more.
  options_.config_text = "[plugins.probe]\n\"fake.good\" = \"in-process\"\n";
  options_.no_config = false;
  options_.fresh_probe = true;
  {
    std::unique_ptr<Host> host = open();
    EXPECT_EQ(info(*host, "good").state, PluginState::kAvailable);
    EXPECT_TRUE(is_mapped(goes));
  }
  EXPECT_FALSE(is_mapped(goes));
  // One that stays, which is every other: also if a second manifest would let it go.
  const std::string stays = installed("stays", false);
  use().reset();
  EXPECT_TRUE(is_mapped(stays));
  installed("stays", true);
  use().reset();
  EXPECT_TRUE(is_mapped(stays));
}

TEST_F(Loader, RefusesARunPathThatDependsOnTheCurrentFolder) {
  for (const char* name : {"empty_run_path", "relative_run_path"}) {
    PluginInfo found = install_and_look(name);
    EXPECT_EQ(found.state, PluginState::kIncompatible) << name;
    EXPECT_THAT(found.reason, AllOf(HasSubstr("of its RUNPATH or RPATH means the current folder"), HasSubstr("[HD-B-03]"))) << name;
  }
}

// `cpu` is heddle.cpu, whoever takes that for a name.
TEST_F(Loader, RefusesAnIdWithoutADot) {
  std::ofstream(plugins_ / "cpu.toml") << "manifest = 1\n[plugin]\nid = \"cpu\"\nversion = \"1.0.0\"\nkind = [\"driver\"]\nlibrary = \""
                                       << library("good") << "\"\nabi = [\"0.1\", \"0.1\"]\n";
  std::unique_ptr<Host> host = open();
  Result<DeviceInfo> device = host->device("cpu:0");
  if (device.ok()) {
    EXPECT_EQ(device->driver->id, "heddle.cpu");
  }
  for (const PluginInfo& plugin : host->plugins(false)) {
    if (plugin.id != "cpu") continue;
    EXPECT_EQ(plugin.state, PluginState::kIncompatible);
    EXPECT_THAT(plugin.reason, HasSubstr("id 'cpu' has no dot"));
    return;
  }
  ADD_FAILURE() << "cpu is not listed";
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
  EXPECT_THAT(log_, AllOf(HasSubstr("are not kept in"), HasSubstr("others have rights to it (mode 0770)")));

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
    PluginInfo found = install_and_look(name);
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

TEST_F(Loader, RefusesALibraryThatExportsMoreThanItsEntry) {
  PluginInfo found = install_and_look("export_more");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("exports 2 symbols beside heddle_plugin_entry_0"), HasSubstr("fake_malloc_stats"),
                                  HasSubstr("fake_counter"), HasSubstr("[HD-B-01]")));
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

TEST_F(Loader, RefusesANullTable) {
  PluginInfo found = install_and_look("null_table");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, HasSubstr("[HD-E-02]"));
}

TEST_F(Loader, NamesAnUnresolvedSymbol) {
  PluginInfo found = install_and_look("unresolved");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, HasSubstr("heddle_test_nobody_has_this"));
}

TEST_F(Loader, RefusesAnotherArchitecture) {
  install("crash_entry", "", "", R"(["0.1", "0.1"])", "arch = \"pdp11\"\n");
  PluginInfo found = look_at("crash_entry");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, HasSubstr("built for pdp11"));
}

// The manifest says nothing of it, or what is not so: the library's own header counts.
TEST_F(Loader, RefusesALibraryOfAnotherArchitecture) {
  const std::string path = (plugins_ / "elsewhere.so").string();
  std::filesystem::copy_file(library("crash_entry"), path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offsetof(Elf64_Ehdr, e_machine));
  const Elf64_Half machine = EM_AARCH64;
  file.write(reinterpret_cast<const char*>(&machine), sizeof machine);
  file.close();
  install("crash_entry", "", path);
  PluginInfo found = look_at("crash_entry");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, HasSubstr("is built for 64-bit aarch64, this process is 64-bit"));
}

TEST_F(Loader, RefusesAnUnknownIsa) {
  install("crash_entry", "", "", R"(["0.1", "0.1"])", "isa = \"x86-64-v9\"\n");
  PluginInfo found = look_at("crash_entry");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, HasSubstr("x86-64-v9"));
}

TEST_F(Loader, SkipsADriverWhoseDevicesAreNotOnTheBus) {
  if (!std::filesystem::exists("/sys/bus/pci/devices")) GTEST_SKIP() << "this machine shows no PCI bus";
  PluginInfo found = install_and_look("crash_entry", "[requires]\npci_vendor = [\"0xfffe\"]");
  EXPECT_EQ(found.state, PluginState::kNoDevice);
  EXPECT_THAT(found.reason, HasSubstr("0xfffe"));
}

TEST_F(Loader, FindsDataWhereFunctionsShouldBe) {
  PluginInfo found = install_and_look("lying_size");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("heddle.device/1"), HasSubstr("leads to no code"), HasSubstr("[HD-E-04]")));
}

TEST_F(Loader, RefusesATableThatLiesNowhere) {
  PluginInfo found = install_and_look("bad_table_pointer");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, HasSubstr("heddle.buffer/1"));
}

TEST_F(Loader, AnswersUnimplementedInHoles) {
  install("null_function");
  std::unique_ptr<Host> host = open();
  Result<LoadedDriver*> driver = host->driver("fake.null_function");
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  heddle_buffer_params_t params{};
  params.struct_size = sizeof(params);
  auto* buffer = reinterpret_cast<heddle_buffer_t*>(1);
  Status status((*driver)->buffer.allocate(nullptr, &params, &buffer));
  EXPECT_EQ(status.code(), HEDDLE_STATUS_UNIMPLEMENTED);
  EXPECT_THAT(std::string(status.message()), HasSubstr("heddle.buffer/1 allocate"));
  EXPECT_EQ(buffer, nullptr);

  // A hole that owes a release or a free pays it.
  int released = 0;
  Status import(
      (*driver)->buffer.import_host(nullptr, nullptr, 0, [](void* context) { ++*static_cast<int*>(context); }, &released, &buffer));
  EXPECT_EQ(import.code(), HEDDLE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(released, 1);
  (*driver)->timeline.fail(nullptr, 1, status_create(HEDDLE_STATUS_INTERNAL, "freed by the hole"));
  (*driver)->buffer.free(nullptr);
}

TEST_F(Loader, TakesATableOfAnOlderAndOfANewerSide) {
  install("small_table");
  install("large_table");
  std::unique_ptr<Host> host = open();
  for (const char* id : {"fake.small_table", "fake.large_table"}) {
    Result<LoadedDriver*> driver = host->driver(id);
    ASSERT_TRUE(driver.ok()) << driver.status().message();
    EXPECT_EQ((*driver)->device.struct_size, sizeof(heddle_device_interface_t));
    uint32_t count = 0;
    EXPECT_TRUE(Status((*driver)->device.count((*driver)->api.instance, &count)).ok());
    EXPECT_EQ(count, 1u);
    Status status((*driver)->device.close(nullptr));
    EXPECT_EQ(status.code(), HEDDLE_STATUS_UNIMPLEMENTED);
  }
}

TEST_F(Loader, RefusesALibraryWithoutEntry) {
  PluginInfo found = install_and_look("no_entry");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("heddle_plugin_entry_0"), HasSubstr("[HD-E-01]")));
}

TEST_F(Loader, RefusesALibraryOfAnotherId) {
  PluginInfo found = install_and_look("other_id");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("fake.somebody_else"), HasSubstr("fake.other_id")));
}

TEST_F(Loader, RefusesALibraryOfAnotherVersion) {
  install("good");
  const std::filesystem::path manifest = plugins_ / "fake.good.toml";
  std::string text;
  ASSERT_EQ(read_text_file(manifest.string(), kMaxManifestBytes, &text), "");
  text.replace(text.find("1.0.0"), 5, "1.2.0-rc.1");
  std::ofstream(manifest) << text;
  std::unique_ptr<Host> host = open();
  ASSERT_TRUE(host);
  PluginInfo found = info(*host, "good");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(
      found.reason,
      HasSubstr("its library says version '1.0.0', its manifest '1.2.0-rc.1'; install library and manifest of one build [HD-E-03]"));
}

TEST(Texts, OfPluginsMoveNoCursor) {
  EXPECT_EQ(one_line("\x1b[31mred\x7f \xc2\x9b"
                     "1m \xc3\xa4\n"),
            "\\x1b[31mred\\x7f \\xc2\\x9b1m \xc3\xa4");
  EXPECT_EQ(one_line(std::string_view("a\0b\nc", 5)), "a\\0b c");
  EXPECT_EQ(one_line("long", 2), "lo");
}

TEST(Texts, SemanticVersions) {
  for (const char* good : {"0.1.0", "1.4.0-rc.1", "10.20.30", "1.0.0+build.007", "1.0.0-0.x-y+z", "1.0.0-alpha"})
    EXPECT_TRUE(is_semantic_version(good)) << good;
  for (const char* bad : {"", "banana", "1", "1.2", "1.2.3.4", "01.2.3", "1.02.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "v1.2.3",
                          "1.2.3 ", "1.2.3+a_b"}) {
    EXPECT_FALSE(is_semantic_version(bad)) << bad;
  }
  EXPECT_TRUE(is_semantic_version("1.0.0-" + std::string(58, 'a')));
  EXPECT_FALSE(is_semantic_version("1.0.0-" + std::string(59, 'a')));
}

TEST_F(Loader, RefusesADriverWithoutARequiredInterface) {
  PluginInfo found = install_and_look("missing_interface");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, HasSubstr("heddle.timeline/1"));
}

TEST_F(Loader, RefusesAPluginOfNoKind) {
  EXPECT_EQ(install_and_look("kind_none").state, PluginState::kIncompatible);
}

TEST_F(Loader, RefusesANullInstance) {
  EXPECT_EQ(install_and_look("null_instance").state, PluginState::kIncompatible);
}

TEST_F(Loader, PassesOnWhyCreateFailed) {
  PluginInfo found = install_and_look("create_fails");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("the firmware is upside down"));
}

TEST_F(Loader, CleansTheReasonOfAMissingDevice) {
  PluginInfo found = install_and_look("no_device");
  EXPECT_EQ(found.state, PluginState::kNoDevice);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("no fake card is plugged in \\x1b[31m \\xc2\\x9b31m \\xe2\\x80\\xae\\xff")));
}

TEST_F(Loader, TellsMissingPermission) {
  PluginInfo found = install_and_look("no_permission");
  EXPECT_EQ(found.state, PluginState::kNoDevice);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("no permission"), HasSubstr("add the user to group fake")));
}

TEST_F(Loader, RefusesAVerdictItDoesNotKnow) {
  PluginInfo found = install_and_look("unknown_verdict");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("42"));
}

TEST_F(Loader, RefusesLibrariesThatAreNone) {
  std::ofstream(folder_ / "text.so") << "this is no library\n";
  std::ofstream(folder_ / "empty.so");
  std::filesystem::copy(library("good"), folder_ / "cut.so");
  std::filesystem::resize_file(folder_ / "cut.so", 100);
  for (const char* name : {"text.so", "empty.so", "cut.so", "absent.so", "."}) {
    install("good", "", (folder_ / name).string());
    std::unique_ptr<Host> host = open();
    PluginInfo found = info(*host, "good");
    EXPECT_EQ(found.state, PluginState::kIncompatible) << name;
    EXPECT_THAT(found.reason, HasSubstr(std::string(name) == "." ? folder_.string() : name));
  }
}

TEST_F(Loader, SurvivesEveryDamagedHeader) {
  // Each byte of the headers changed in turn: the preflight reader has to say no or yes, never die.
  std::ifstream file(library("good"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string path = (folder_ / "damaged.so").string();
  install("good", "[requires]\nlibs = [{ soname = \"libheddle_no_vendor.so.1\" }]", path);  // so that nothing is ever mapped
  std::unique_ptr<Host> host;
  for (size_t i = 0; i < std::min<size_t>(whole.size(), 64 + 12 * 56); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    host = open();
    PluginState state = info(*host, "good").state;
    EXPECT_TRUE(state == PluginState::kIncompatible || state == PluginState::kMissingDependency) << "byte " << i;
  }
}

}  // namespace
}  // namespace heddle::host
