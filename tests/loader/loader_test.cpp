// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host against plugins that misbehave: it stays alive, says what is wrong with each, and the others go on working.
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

TEST_F(Loader, KeepsAPluginsAppetiteOutOfThisProcess) {
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(install_and_look("allocate_probe").state, PluginState::kAvailable);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 500 << 10) << "KiB";
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
