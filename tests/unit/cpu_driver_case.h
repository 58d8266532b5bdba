// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fixture of tests that run on every driver: heddle.cpu, and test.streams, which does everything late and in shuffled order.
#ifndef HEDDLE_TESTS_CPU_DRIVER_CASE_H_
#define HEDDLE_TESTS_CPU_DRIVER_CASE_H_

#include <memory>
#include <string>

#include "kernels.h"

namespace heddle::test {

struct DriverCase {
  const char* name;
  const char* path;
  bool host_visible;
};

// Of test.streams: each queue is three streams, and a kernel that fails does not end the device.
inline void set_options(PluginHost* host) {
  host->set_int("spread", 3);
  host->set_int("loss_code", 0);
}

class Driver : public ::testing::TestWithParam<DriverCase> {
 protected:
  static std::unique_ptr<OpenDriver> open(PluginHost* host) {
    set_options(host);
    return std::make_unique<OpenDriver>(GetParam().path, host);
  }

  PluginHost host;
  std::unique_ptr<OpenDriver> driver_owner = open(&host);
  OpenDriver& driver = *driver_owner;

  void TearDown() override {
    driver_owner.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }
  void free(std::initializer_list<heddle_buffer_t*> buffers) {
    for (heddle_buffer_t* buffer : buffers) driver.buffer_api->free(buffer);
  }
};

// The argument of INSTANTIATE_TEST_SUITE_P.
inline auto every_driver() {
  return ::testing::Values(DriverCase{"heddle_cpu", HEDDLE_TEST_PLUGINS "/libheddle_cpu.so", true},
                           DriverCase{"streams", HEDDLE_TEST_DRIVERS "/libheddle_test_streams.so", false});
}
inline std::string name_of(const ::testing::TestParamInfo<DriverCase>& info) {
  return info.param.name;
}

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_CPU_DRIVER_CASE_H_
