// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host against plugins that it refuses by their manifest and their library's file, before any of their code is mapped.
#include <elf.h>

#include "core/host/load.h"
#include "tests/loader/loader_case.h"

namespace heddle::host {
namespace {

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

TEST_F(Loader, RefusesARunPathThatDependsOnTheCurrentFolder) {
  for (const char* name : {"empty_run_path", "relative_run_path"}) {
    PluginInfo found = install_and_look(name);
    EXPECT_EQ(found.state, PluginState::kIncompatible) << name;
    EXPECT_THAT(found.reason, AllOf(HasSubstr("of its RUNPATH or RPATH means the current directory"), HasSubstr("[HD-B-03]"))) << name;
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

TEST_F(Loader, RefusesALibraryThatExportsMoreThanItsEntry) {
  PluginInfo found = install_and_look("export_more");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("exports 2 symbols besides heddle_plugin_entry_0"), HasSubstr("fake_malloc_stats"),
                                  HasSubstr("fake_counter"), HasSubstr("[HD-B-01]")));
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
