// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fixture of tests of the validation layer: a real driver, whose tables a test may sabotage, behind the layer's.
#ifndef HEDDLE_TESTS_VALIDATION_CASE_H_
#define HEDDLE_TESTS_VALIDATION_CASE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "core/validation/call.h"
#include "core/validation/layer.h"
#include "cpu_driver_case.h"

namespace heddle::test {

// For a function that may not wait.
constexpr std::chrono::nanoseconds kTooLong{validation::kNoBlockNs + validation::kNoBlockNs / 2};

inline const heddle_validation_t& layer() {
  static const heddle_validation_t* loaded = [] {
    void* library = dlopen(HEDDLE_TEST_PLUGINS "/../../" HEDDLE_VALIDATION_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) std::abort();
    return reinterpret_cast<heddle_validation_entry_fn_t>(dlsym(library, HEDDLE_VALIDATION_ENTRY_NAME))(HEDDLE_VALIDATION_VERSION);
  }();
  return *loaded;
}

// Copies of a driver's tables: `good` stays, `bad` is what a test changes and what the layer takes for the driver.
struct Tables {
  heddle_device_interface_t device;
  heddle_buffer_interface_t buffer;
  heddle_transfer_interface_t transfer;
  heddle_param_io_interface_t param_io;
  heddle_dispatch_interface_t dispatch;
  heddle_timeline_interface_t timeline;
};
inline Tables good, bad;
inline PluginHost* the_host = nullptr;  // for functions in tables, which have no context

inline heddle_status_t* refuse(heddle_status_code_t code, const char* text) {
  return the_host->table()->status_create(the_host->table()->self, code, {}, 0, string_of(text));
}

class Validated : public ::testing::TestWithParam<DriverCase> {
 protected:
  // sabotage: changes `bad`.
  void open(const std::function<void()>& sabotage = {}) {
    the_host = &host;
    set_options(&host);
    owner = std::make_unique<OpenDriver>(GetParam().path, &host, "", [&](heddle_driver_api_t* api) {
      good = {*api->device, *api->buffer, *api->transfer, *api->param_io, *api->dispatch, *api->timeline};
      bad = good;
      if (sabotage) sabotage();
      api->device = &bad.device;
      api->buffer = &bad.buffer;
      api->transfer = &bad.transfer;
      api->param_io = &bad.param_io;
      api->dispatch = &bad.dispatch;
      api->timeline = &bad.timeline;
      layer().wrap_driver(api, string_of("test.driver"));
    });
    owner->shut_down = [own = owner->plugin()->shutdown](heddle_plugin_instance_t* instance) { return layer().shutdown(instance, own); };
  }
  OpenDriver& driver() { return *owner; }
  uint64_t violations() { return counts().second; }
  std::pair<uint64_t, uint64_t> counts() {
    std::pair<uint64_t, uint64_t> found;
    layer().report(
        owner->instance(),
        [](void* to, uint64_t calls, uint64_t violations, heddle_string_t) {
          *static_cast<std::pair<uint64_t, uint64_t>*>(to) = {calls, violations};
        },
        &found);
    return found;
  }
  void TearDown() override {
    owner.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }

  // What the layer says of a call: whose fault, and which rule. Also of calls without a status, which only the log tells of.
  void expect_told(const std::string& who, const std::string& rule) {
    const std::string log = host.logged();
    EXPECT_NE(log.find(who + " broke a rule"), std::string::npos) << log;
    EXPECT_NE(log.find("[" + rule + "]"), std::string::npos) << log;
    EXPECT_GE(violations(), 1u);
  }
  void expect_host_fault(heddle_status_t* status, const std::string& rule) {
    EXPECT_FAILS(status, HEDDLE_STATUS_FAILED_PRECONDITION, "the host broke a rule");
    expect_told("the host", rule);
  }
  void expect_plugin_fault(heddle_status_t* status, const std::string& rule) {
    EXPECT_FAILS(status, HEDDLE_STATUS_INTERNAL, "the plugin broke a rule");
    expect_told("the plugin", rule);
  }

  PluginHost host;
  std::unique_ptr<OpenDriver> owner;
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_VALIDATION_CASE_H_
