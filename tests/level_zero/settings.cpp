// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See settings.h.
#include "tests/level_zero/settings.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace heddle::level_zero_stand_in {

namespace {

[[noreturn]] void refuse(const char* name, const char* value, const char* wanted) {
  fprintf(stderr, "level_zero stand-in: reading %s failed: '%s' is not %s\n", name, value, wanted);
  abort();
}

uint64_t number(const char* name, uint64_t otherwise, uint64_t most = UINT64_MAX) {
  const char* value = getenv(name);
  if (value == nullptr || *value == 0) return otherwise;
  char* end = nullptr;
  errno = 0;
  const uint64_t result = strtoull(value, &end, 0);
  if (*end != 0 || errno != 0 || value[0] == '-' || result > most) {
    const std::string wanted = "a number up to " + std::to_string(most);
    refuse(name, value, wanted.c_str());
  }
  return result;
}

bool flag(const char* name, bool otherwise) {
  return number(name, otherwise ? 1 : 0, 1) == 1;
}

std::string text(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value == nullptr || *value == 0 ? otherwise : value;
}

Settings read() {
  Settings s;
  s.seed = number("HEDDLE_ZE_SEED", s.seed);
  s.delay_us = static_cast<uint32_t>(number("HEDDLE_ZE_DELAY_US", s.delay_us, 10'000'000));
  s.devices = static_cast<uint32_t>(number("HEDDLE_ZE_DEVICES", s.devices, 16));
  s.sub_devices = static_cast<uint32_t>(number("HEDDLE_ZE_SUB_DEVICES", s.sub_devices, 2));
  if (s.sub_devices == 1) refuse("HEDDLE_ZE_SUB_DEVICES", "1", "0 or 2");
  s.peers = flag("HEDDLE_ZE_PEERS", s.peers);
  s.memory_bytes = number("HEDDLE_ZE_MEMORY", uint64_t{4} << 30);
  s.local_bytes = static_cast<uint32_t>(number("HEDDLE_ZE_LOCAL_MEMORY", s.local_bytes, 1 << 20));
  s.lose_after = number("HEDDLE_ZE_LOSE_AFTER", s.lose_after);
  s.init_result = static_cast<uint32_t>(number("HEDDLE_ZE_INIT_RESULT", s.init_result, UINT32_MAX));
  s.doubles = flag("HEDDLE_ZE_DOUBLES", s.doubles);
  s.dots = flag("HEDDLE_ZE_DP4A", s.dots);
  s.pageable = flag("HEDDLE_ZE_PAGEABLE", s.pageable);
  s.imports = flag("HEDDLE_ZE_IMPORTS", s.imports);
  s.protects = flag("HEDDLE_ZE_PROTECT", s.protects);
  s.aborts = flag("HEDDLE_ZE_ABORT", s.aborts);
  s.immediate = flag("HEDDLE_ZE_IMMEDIATE", s.immediate);
  s.log = flag("HEDDLE_ZE_LOG", s.log);
  const std::string hierarchy = text("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE");
  if (hierarchy != "COMPOSITE" && hierarchy != "FLAT" && hierarchy != "COMBINED") {
    refuse("ZE_FLAT_DEVICE_HIERARCHY", hierarchy.c_str(), "COMPOSITE, FLAT or COMBINED");
  }
  s.flat = hierarchy != "COMPOSITE";
  s.affinity = text("ZE_AFFINITY_MASK", "");
  s.opencl = text("HEDDLE_ZE_OPENCL", "libOpenCL.so.1");
  s.platform = text("HEDDLE_ZE_PLATFORM", "");
  s.translator = text("HEDDLE_ZE_LLVM_SPIRV", "llvm-spirv-15");
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings once = read();
  return once;
}

}  // namespace heddle::level_zero_stand_in
