// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host against plugins that misbehave: it stays alive, says what is wrong with each, and the others go on working.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/host/host.h"

namespace heddle::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Loader : public ::testing::Test {
 protected:
  void SetUp() override {
    // A crash in a child has to look like one, also where a sanitizer would catch it.
    for (const char* variable : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
      const char* before = getenv(variable);
      std::string value = std::string(before ? before : "") + ":handle_segv=0:handle_sigill=0:handle_abort=0:detect_leaks=0";
      setenv(variable, value.c_str(), 1);
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-loader-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    plugins_ = folder_ / "plugins.d";
    std::filesystem::create_directory(plugins_);
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    unsetenv("HEDDLE_CONFIG");
    unsetenv("HEDDLE_PLUGIN_PATH");
    options_.no_config = true;
    options_.plugin_paths = {plugins_.string()};
    options_.log.write = [](void* context, uint32_t, std::string_view component, std::string_view message) {
      static_cast<Loader*>(context)->log_ += std::string(component) + ": " + std::string(message) + "\n";
    };
    options_.log.context = this;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string library(const std::string& name) { return std::string(HEDDLE_FAKE_PLUGINS) + "/" + name + ".so"; }

  // Installs fake.<name>: [plugin] with these lines instead of the usual ones, then `more`.
  void install(const std::string& name, const std::string& more = "", const std::string& library_path = "",
               const std::string& abi = R"(["0.1", "0.1"])", const std::string& extra_keys = "") {
    std::ofstream(plugins_ / ("fake." + name + ".toml"))
        << "manifest = 1\n[plugin]\nid = \"fake." << name << "\"\nversion = \"1.0.0\"\nkind = [\"driver\"]\nlibrary = \""
        << (library_path.empty() ? library(name) : library_path) << "\"\nabi = " << abi << "\n"
        << extra_keys << more << "\n";
  }

  std::unique_ptr<Host> open() {
    Result<std::unique_ptr<Host>> host = Host::open(options_);
    EXPECT_TRUE(host.ok()) << host.status().message();
    return host.ok() ? std::move(*host) : nullptr;
  }

  // What the host says about fake.<name> once it has looked.
  static PluginInfo info(Host& host, const std::string& name) {
    for (PluginInfo& plugin : host.plugins(true)) {
      if (plugin.id == "fake." + name) return plugin;
    }
    ADD_FAILURE() << "fake." << name << " was not found";
    return {};
  }

  // Installs one bad plugin beside a good one; both have to be judged rightly.
  PluginInfo look_at(const std::string& name) {
    install("good");
    std::unique_ptr<Host> host = open();
    if (!host) return {};
    PluginInfo found = info(*host, name);
    EXPECT_EQ(found.state == PluginState::kAvailable, found.reason.empty()) << found.reason;
    EXPECT_EQ(found.reason.find('\n'), std::string::npos);
    PluginInfo good = info(*host, "good");
    EXPECT_EQ(good.state, PluginState::kAvailable) << good.reason;
    Result<LoadedDriver*> driver = host->driver("fake.good");
    EXPECT_TRUE(driver.ok()) << driver.status().message();
    if (found.state != PluginState::kAvailable) {
      Result<LoadedDriver*> bad = host->driver("fake." + name);
      EXPECT_FALSE(bad.ok());
      if (!bad.ok()) {
        EXPECT_EQ(bad.status().code(), HEDDLE_STATUS_UNAVAILABLE);
        EXPECT_THAT(std::string(bad.status().message()), HasSubstr(found.reason));
      }
    }
    return found;
  }

  PluginInfo install_and_look(const std::string& name, const std::string& more = "") {
    install(name, more);
    return look_at(name);
  }

  std::filesystem::path folder_, plugins_;
  HostOptions options_;
  std::string log_;
};

TEST_F(Loader, LoadsAGoodPlugin) {
  PluginInfo found = install_and_look("good");
  EXPECT_EQ(found.state, PluginState::kAvailable);
  EXPECT_EQ(found.device_count, 1u);
}

TEST_F(Loader, NamesBothRangesWhenNegotiationFails) {
  PluginInfo found = install_and_look("abi_range");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("ABI 0.5 to 0.7"), HasSubstr("this libheddle with 0.1 to 0.1"), HasSubstr("built for tomorrow"),
                                  HasSubstr("a newer libheddle"), HasSubstr("[HD-E-02]")));
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

TEST_F(Loader, TurnsAnAbortIntoAReasonWithWhatWasPrinted) {
  PluginInfo found = install_and_look("abort_probe");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("SIGABRT"), HasSubstr("function probe"), HasSubstr("the moon is full")));
}

TEST_F(Loader, TurnsAnUnknownInstructionIntoAReason) {
  PluginInfo found = install_and_look("ill_probe");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, HasSubstr("SIGILL"));
}

TEST_F(Loader, EndsAProbeThatHangs) {
  PluginInfo found = install_and_look("hang_probe", "[load]\ntimeout_ms = 200");
  EXPECT_EQ(found.state, PluginState::kProbeFailed);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("within 200 ms"), HasSubstr("function probe")));
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
  EXPECT_THAT(found.reason, AllOf(HasSubstr("no fake card is plugged in"), Not(HasSubstr("\x1b"))));
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

TEST_F(Loader, RefusesALibraryWithAnotherDigestThanItsManifestSays) {
  std::unique_ptr<FILE, int (*)(FILE*)> command(popen(("sha256sum '" + library("good") + "'").c_str(), "r"), pclose);
  char digest[65] = {};
  ASSERT_EQ(fread(digest, 1, 64, command.get()), 64u);
  install("good", std::string("[integrity]\nsha256 = \"") + digest + "\"");
  std::unique_ptr<Host> host = open();
  EXPECT_EQ(info(*host, "good").state, PluginState::kAvailable) << info(*host, "good").reason;

  // Nor does a cached verdict stand for the digest of what is loaded.
  std::filesystem::copy(library("good"), folder_ / "kept.so");
  install("good", std::string("[integrity]\nsha256 = \"") + digest + "\"", (folder_ / "kept.so").string());
  info(*open(), "good");
  std::unique_ptr<Host> cached = open();
  EXPECT_TRUE(info(*cached, "good").from_cache);
  std::filesystem::remove(folder_ / "kept.so");
  std::filesystem::copy(library("crash_constructor"), folder_ / "kept.so");
  Result<LoadedDriver*> changed = cached->driver("fake.good");
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(std::string(changed.status().message()), HasSubstr("kept.so has the SHA-256 digest"));

  // Another library under that digest, which would crash as soon as it is mapped.
  std::filesystem::copy(library("crash_constructor"), folder_ / "other.so");
  install("crash_constructor", std::string("[integrity]\nsha256 = \"") + digest + "\"", (folder_ / "other.so").string());
  PluginInfo found = info(*open(), "crash_constructor");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("other.so has the SHA-256 digest"), HasSubstr(digest), HasSubstr("install the plugin again")));
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

TEST_F(Loader, JudgesManyAtOnce) {
  for (const char* name : {"hang_probe", "flood_probe", "crash_entry", "abort_probe", "exit_probe"})
    install(name, "[load]\ntimeout_ms = 400");
  install("good");
  std::unique_ptr<Host> host = open();
  const uint64_t start = clock_ns();
  for (const PluginInfo& plugin : host->plugins(true)) {
    if (plugin.id.compare(0, 5, "fake.") != 0) continue;  // the build tree's own
    EXPECT_EQ(plugin.state, plugin.id == "fake.good" ? PluginState::kAvailable : PluginState::kProbeFailed) << plugin.id;
  }
  EXPECT_LT(clock_ns() - start, 4'000'000'000u) << "probes run side by side";
}

TEST_F(Loader, KeepsAVerdictUntilSomethingChanges) {
  install("good");
  std::filesystem::copy(library("good"), folder_ / "good.so");
  install("good", "", (folder_ / "good.so").string());
  EXPECT_FALSE(info(*open(), "good").from_cache);
  EXPECT_TRUE(info(*open(), "good").from_cache);
  options_.fresh_probe = true;
  EXPECT_FALSE(info(*open(), "good").from_cache);
  options_.fresh_probe = false;

  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ / "good.so").c_str(), times, 0), 0);
  EXPECT_FALSE(info(*open(), "good").from_cache);
  EXPECT_TRUE(info(*open(), "good").from_cache);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_FALSE(info(*open(), "good").from_cache);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

// A vendor's driver is updated: its library has another size or time, or is another file.
TEST_F(Loader, LooksAgainWhenAVendorsLibraryChanges) {
  const std::filesystem::path vendor = folder_ / "vendor";
  std::filesystem::create_directory(vendor);
  const std::filesystem::path soname = vendor / "libheddle_vendor.so.1";
  std::filesystem::copy(library("with_run_path"), folder_ / "plugin.so");
  std::filesystem::copy(library("good"), vendor / "libvendor.so.1.0");
  std::filesystem::create_symlink("libvendor.so.1.0", soname);
  install("with_run_path", "[requires]\nlibs = [{ soname = \"libheddle_vendor.so.1\", hint = \"install it\" }]",
          (folder_ / "plugin.so").string());
  EXPECT_FALSE(info(*open(), "with_run_path").from_cache);
  EXPECT_TRUE(info(*open(), "with_run_path").from_cache);
  std::filesystem::copy(library("good"), vendor / "libvendor.so.1.1");
  std::filesystem::remove(soname);
  std::filesystem::create_symlink("libvendor.so.1.1", soname);
  EXPECT_FALSE(info(*open(), "with_run_path").from_cache);
  EXPECT_TRUE(info(*open(), "with_run_path").from_cache);
  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, soname.c_str(), times, 0), 0);
  EXPECT_FALSE(info(*open(), "with_run_path").from_cache);
  EXPECT_TRUE(info(*open(), "with_run_path").from_cache);
  std::filesystem::remove(soname);
  EXPECT_EQ(info(*open(), "with_run_path").state, PluginState::kMissingDependency);
}

TEST_F(Loader, KeepsACrashForAWhileAndAMissingDeviceNot) {
  install("crash_entry");
  install("no_device");
  open()->plugins(true);
  std::unique_ptr<Host> host = open();
  EXPECT_TRUE(info(*host, "crash_entry").from_cache);
  EXPECT_THAT(info(*host, "crash_entry").reason, HasSubstr("SIGSEGV"));
  EXPECT_FALSE(info(*host, "no_device").from_cache);
}

TEST_F(Loader, DoesNotBelieveADamagedCache) {
  install("good");
  open()->plugins(true);
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache")) {
    if (!entry.is_regular_file() || entry.path().filename().string().compare(0, 10, "fake.good-") != 0) continue;
    ++files;
    std::filesystem::resize_file(entry.path(), entry.file_size() - 5);
  }
  EXPECT_EQ(files, 1u);
  EXPECT_FALSE(info(*open(), "good").from_cache);
  // Nor one that others could have written.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache")) {
    if (entry.is_regular_file()) std::filesystem::permissions(entry.path(), std::filesystem::perms::all);
  }
  EXPECT_FALSE(info(*open(), "good").from_cache);
}

TEST_F(Loader, WorksWithoutACache) {
  install("good");
  std::ofstream(folder_ / "file");
  setenv("XDG_CACHE_HOME", (folder_ / "file").c_str(), 1);
  EXPECT_EQ(info(*open(), "good").state, PluginState::kAvailable);
  EXPECT_FALSE(info(*open(), "good").from_cache);
}

TEST_F(Loader, ProbesInProcessWhenTheOperatorSaysSo) {
  install("no_device");
  options_.config_text = "[plugins.probe]\n\"fake.no_device\" = \"in-process\"\n";
  EXPECT_EQ(info(*open(), "no_device").state, PluginState::kNoDevice);
}

TEST_F(Loader, TakesTheFirstFolderAndListsTheShadowed) {
  install("good");
  std::filesystem::create_directory(folder_ / "second");
  std::filesystem::copy(plugins_ / "fake.good.toml", folder_ / "second" / "fake.good.toml");
  options_.plugin_paths.push_back((folder_ / "second").string());
  PluginInfo found = info(*open(), "good");
  EXPECT_EQ(found.manifest_path, (plugins_ / "fake.good.toml").string());
  EXPECT_EQ(found.shadowed, std::vector<std::string>{(folder_ / "second" / "fake.good.toml").string()});
}

TEST_F(Loader, NeverLooksInTheCurrentFolder) {
  install("good");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  options_.plugin_paths = {"plugins.d", "."};
  setenv("HEDDLE_PLUGIN_PATH", "plugins.d:.", 1);
  options_.no_config = false;
  setenv("HEDDLE_CONFIG", "", 1);
  std::unique_ptr<Host> host = open();
  for (const PluginInfo& plugin : host->plugins(false)) EXPECT_NE(plugin.id, "fake.good");
  EXPECT_THAT(log_, HasSubstr("host: plugin folder 'plugins.d' of the application is not searched: it is not absolute\n"));
  EXPECT_THAT(log_, HasSubstr("host: plugin folder '.' of HEDDLE_PLUGIN_PATH is not searched: it is not absolute\n"));
  std::filesystem::current_path(before);
}

TEST_F(Loader, NamesAPluginFolderThatIsNotThere) {
  options_.plugin_paths.push_back((folder_ / "absent").string());
  options_.no_config = false;
  setenv("HEDDLE_PLUGIN_PATH", (":" + (folder_ / "gone").string()).c_str(), 1);
  open();
  EXPECT_THAT(log_, HasSubstr((folder_ / "absent").string() + "' of the application cannot be searched: No such file or directory\n"));
  EXPECT_THAT(log_, HasSubstr((folder_ / "gone").string() + "' of HEDDLE_PLUGIN_PATH cannot be searched: No such file or directory\n"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 2);
}

TEST_F(Loader, ReadsPluginPathFromTheEnvironment) {
  install("good");
  options_.plugin_paths.clear();
  options_.no_config = false;
  setenv("HEDDLE_PLUGIN_PATH", plugins_.c_str(), 1);
  EXPECT_EQ(info(*open(), "good").state, PluginState::kAvailable);
}

TEST_F(Loader, DisablesPinsAndRequires) {
  install("good");
  options_.config_text = "[plugins]\ndisable = [\"fake.good\"]\n";
  PluginInfo found = info(*open(), "good");
  EXPECT_EQ(found.state, PluginState::kDisabled);

  options_.config_text = "[plugins]\npin = { \"fake.good\" = \"=2.0.0\" }\n";
  found = info(*open(), "good");
  EXPECT_EQ(found.state, PluginState::kDisabled);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("1.0.0"), HasSubstr("2.0.0")));

  options_.config_text = "[plugins]\nrequire = [\"fake.good\"]\n";
  EXPECT_NE(open(), nullptr);
  options_.config_text = "[plugins]\nrequire = [\"fake.crash_entry\"]\n";
  install("crash_entry");
  Result<std::unique_ptr<Host>> host = Host::open(options_);
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.status().code(), HEDDLE_STATUS_UNAVAILABLE);
  EXPECT_THAT(std::string(host.status().message()), AllOf(HasSubstr("requires fake.crash_entry"), HasSubstr("SIGSEGV")));
}

TEST_F(Loader, KeepsConflictingPluginsApart) {
  install("good", "", "", R"(["0.1", "0.1"])", "conflicts = [\"fake.two_devices\"]\n");
  install("two_devices");
  std::unique_ptr<Host> host = open();
  EXPECT_TRUE(host->driver("fake.good").ok());
  Result<LoadedDriver*> other = host->driver("fake.two_devices");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("conflicts with fake.good"));
}

TEST_F(Loader, StrictModeRefusesWhatOthersMayWrite) {
  install("good");
  std::filesystem::permissions(plugins_, std::filesystem::perms::all);
  options_.config_text = "[plugins.security]\nmode = \"strict\"\n";
  PluginInfo found = info(*open(), "good");
  EXPECT_EQ(found.state, PluginState::kUntrusted);
  EXPECT_THAT(found.reason, HasSubstr("can be written by others"));
}

TEST_F(Loader, HandsOptionsToThePlugin) {
  install("good", "[options.name]\ntype = \"string\"\ndefault = \"by default\"\n");
  Result<DeviceInfo> device = open()->device("good");
  std::unique_ptr<Host> host = open();
  device = host->device("good");
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ(view(device->description.name), "by default");
  options_.config_text = "[driver.\"fake.good\"]\nname = \"by choice\"\n";
  std::unique_ptr<Host> other = open();
  device = other->device("fake.good:0");
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ(view(device->description.name), "by choice");
}

TEST_F(Loader, FindsDevicesBySelector) {
  install("two_devices");
  options_.config_text =
      "[device.a]\ndriver = \"fake.two_devices\"\nselect = { pci = \"0000:42:00.0\" }\n"
      "[device.b]\ndriver = \"fake.two_devices\"\nselect = { uuid = \"GPU-1b1b1b1b\" }\naffinity = { cpus = \"0-1\" }\n"
      "[device.c]\ndriver = \"fake.two_devices\"\nselect = { pci = \"0000:43:00.0\" }\n"
      "[device.d]\ndriver = \"fake.not_here\"\nselect = { ordinal = 0 }\n";
  std::unique_ptr<Host> host = open();
  std::vector<DeviceInfo> devices = host->devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].alias, "a");
  EXPECT_EQ(devices[0].ordinal, 1u);
  EXPECT_EQ(devices[1].alias, "b");
  EXPECT_EQ(devices[1].ordinal, 0u);
  EXPECT_EQ(devices[1].cpus, "0-1");
  EXPECT_THAT(host->skipped(), ::testing::ElementsAre(AllOf(HasSubstr("error[E207]: no fake.two_devices device with pci \"0000:43:00.0\""),
                                                            HasSubstr("found 0000:41:00.0 (a fake), 0000:42:00.0 (a fake)")),
                                                      AllOf(HasSubstr("fake.not_here"), HasSubstr("not installed"))));
  EXPECT_EQ(host->device("c").status().code(), HEDDLE_STATUS_NOT_FOUND);
  EXPECT_EQ(host->device("two_devices:7").status().code(), HEDDLE_STATUS_NOT_FOUND);
  Result<DeviceInfo> nobody = host->device("tow_devices");
  ASSERT_FALSE(nobody.ok());
  EXPECT_THAT(std::string(nobody.status().message()), HasSubstr("did you mean 'two_devices'?"));
}

TEST_F(Loader, LoadsOnlyWhatIsAskedFor) {
  install("good", "", "", R"(["0.1", "0.1"])", "families = [\"fake\"]\n");
  install("two_devices", "", "", R"(["0.1", "0.1"])", "families = [\"other\"]\n");
  std::unique_ptr<Host> host = open();
  EXPECT_EQ(host->devices({"fake"}).size(), 1u);
  for (const PluginInfo& plugin : host->plugins(false)) {
    if (plugin.id.compare(0, 5, "fake.") != 0) continue;
    EXPECT_EQ(plugin.state, plugin.id == "fake.good" ? PluginState::kLoaded : PluginState::kAvailable) << plugin.id;
  }
}

TEST_F(Loader, TwoHostsShareALibraryAndNothingElse) {
  install("good");
  std::unique_ptr<Host> first = open(), second = open();
  Result<LoadedDriver*> a = first->driver("fake.good"), b = second->driver("fake.good");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE((*a)->api.instance, (*b)->api.instance);
  first.reset();
  uint32_t count = 0;
  EXPECT_TRUE(Status((*b)->device.count((*b)->api.instance, &count)).ok());
  EXPECT_EQ(count, 1u);
}

TEST_F(Loader, AnswersFailedPreconditionInAForkedChild) {
  install("good");
  std::unique_ptr<Host> host = open();
  ASSERT_TRUE(host->driver("fake.good").ok());
  pid_t child = fork();
  if (child == 0) {
    const bool refused = host->driver("fake.good").status().code() == HEDDLE_STATUS_FAILED_PRECONDITION && host->devices().empty();
    host.reset();  // does nothing, and does not hang
    // A host of its own works.
    Result<std::unique_ptr<Host>> own = Host::open(options_);
    const bool works = own.ok() && (*own)->driver("fake.good").ok();
    _exit(refused && works ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(host->driver("fake.good").ok());
}

TEST_F(Loader, ReportsAsJson) {
  install("good");
  install("crash_entry");
  std::unique_ptr<Host> host = open();
  Result<std::string> plugins = host->report("plugins");
  ASSERT_TRUE(plugins.ok());
  EXPECT_THAT(*plugins, AllOf(HasSubstr("\"id\":\"fake.crash_entry\""), HasSubstr("\"state\":\"probe-failed\""), HasSubstr("SIGSEGV")));
  EXPECT_THAT(*host->report("devices"), HasSubstr("\"alias\":\"good:0\""));
  EXPECT_EQ(host->report("weather").status().code(), HEDDLE_STATUS_NOT_FOUND);
}

}  // namespace
}  // namespace heddle::host
