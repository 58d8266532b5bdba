// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What [validation] costs where it is off: nothing, because the tables are the same ones.
#include <gtest/gtest.h>

#include "core/host/host.h"

namespace heddle::host {
namespace {

std::unique_ptr<Host> open(const std::string& config) {
  HostOptions options;
  options.no_config = true;
  options.plugin_paths = {HEDDLE_TEST_PLUGINS};
  options.config_text = "[plugins.probe]\n\"heddle.cpu\" = \"in-process\"\n\"heddle.pool\" = \"in-process\"\n" + config;
  Result<std::unique_ptr<Host>> host = Host::open(options);
  EXPECT_TRUE(host.ok()) << host.status().message();
  return host.ok() ? std::move(*host) : nullptr;
}

TEST(ValidationTables, AreTheDriversOwnWhereNothingIsAsked) {
  for (const char* config : {"", "[validation]\ncalls = false\n", "[validation]\nstop_at_nan = true\n"}) {
    std::unique_ptr<Host> host = open(config);
    ASSERT_NE(host, nullptr);
    Result<LoadedDriver*> driver = host->driver("heddle.cpu");
    ASSERT_TRUE(driver.ok()) << driver.status().message();
    const LoadedDriver& loaded = **driver;
    EXPECT_TRUE(loaded.api.device == &loaded.device && loaded.api.buffer == &loaded.buffer && loaded.api.transfer == &loaded.transfer &&
                loaded.api.param_io == &loaded.param_io && loaded.api.dispatch == &loaded.dispatch &&
                loaded.api.timeline == &loaded.timeline && loaded.api.native == &loaded.native && loaded.api.profile == &loaded.profile);
    EXPECT_TRUE(host->validated().empty());
    EXPECT_EQ(host->validation() != nullptr, std::string_view(config).find("nan") != std::string_view::npos);
  }
}

TEST(ValidationTables, AreTheLayersWhereCallsAreChecked) {
  std::unique_ptr<Host> host = open("[validation]\ncalls = true\n");
  ASSERT_NE(host, nullptr);
  Result<LoadedDriver*> driver = host->driver("heddle.cpu");
  Result<LoadedAllocator*> allocator = host->allocator("heddle.pool");
  ASSERT_TRUE(driver.ok() && allocator.ok());
  EXPECT_NE((*driver)->api.dispatch->submit, (*driver)->dispatch.submit);
  EXPECT_EQ(host->validated().size(), 2u);
  EXPECT_FALSE(host->devices().empty());
  EXPECT_GT(host->validated()[0].calls + host->validated()[1].calls, 0u);
}

}  // namespace
}  // namespace heddle::host
