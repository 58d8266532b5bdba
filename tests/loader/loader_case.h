// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A host over a folder of manifests for the fake plugins. Used by the tests of this folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/host/host.h"
#include "tests/temporary_folder.h"

namespace heddle::host {

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
    std::filesystem::create_directory(plugins_);
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    unsetenv("HEDDLE_CONFIG");
    unsetenv("HEDDLE_PLUGIN_PATH");
    options_.no_config = true;
    options_.plugin_paths = {plugins_.string()};
    options_.log.write = [](void* context, uint32_t, heddle_string_t component, heddle_string_t message) {
      static_cast<Loader*>(context)->log_ += std::string(view(component)) + ": " + std::string(view(message)) + "\n";
    };
    options_.log.context = this;
  }

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

  const testing::TemporaryFolder own_;
  const std::filesystem::path folder_ = own_.path();
  std::filesystem::path plugins_ = folder_ / "plugins.d";
  HostOptions options_;
  std::string log_;
};

}  // namespace heddle::host
