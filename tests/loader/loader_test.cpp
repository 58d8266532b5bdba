// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host against plugins that say what cannot be: their entry, tables, texts and verdicts. It says what is wrong with each, and the others go on
// working.
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
  EXPECT_THAT(found.reason, AllOf(HasSubstr("ABI 0.5 to 0.7"), HasSubstr("this libheddle with 0.1 to 0.3"), HasSubstr("a newer libheddle"),
                                  HasSubstr("[HD-E-02]"), Not(HasSubstr("failed:"))));
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

TEST_F(Loader, FindsDataWhereFunctionsShouldBe) {
  PluginInfo found = install_and_look("lying_size");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("heddle.device/1"), HasSubstr("does not point to code"), HasSubstr("[HD-E-04]")));
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
      HasSubstr("its library says version '1.0.0', its manifest '1.2.0-rc.1'; install library and manifest of the same build [HD-E-03]"));
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

}  // namespace
}  // namespace heddle::host
