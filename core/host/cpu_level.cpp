// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The levels of the x86-64 psABI (table 3.1), feature by feature.
#include "core/host/cpu_level.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heddle::host {
namespace {

#if defined(__x86_64__)
struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

// The state that the kernel saves on a context switch; 0 without OSXSAVE.
uint64_t saved_state(const Registers& leaf1) {
  if ((leaf1.ecx >> 27 & 1) == 0) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

struct Feature {
  uint32_t level;
  const char* name;
  bool present;
};

std::vector<Feature> features() {
  const Registers one = cpuid(1);
  const Registers seven = cpuid(7);
  const Registers extended = cpuid(0x80000001u);
  const uint64_t state = saved_state(one);
  const bool ymm = (state & 0x6) == 0x6;
  const bool zmm = (state & 0xe6) == 0xe6;
  auto bit = [](uint32_t word, int index) { return (word >> index & 1) != 0; };
  return {
      {2, "cmpxchg16b", bit(one.ecx, 13)},
      {2, "lahf", bit(extended.ecx, 0)},
      {2, "popcnt", bit(one.ecx, 23)},
      {2, "sse3", bit(one.ecx, 0)},
      {2, "ssse3", bit(one.ecx, 9)},
      {2, "sse4.1", bit(one.ecx, 19)},
      {2, "sse4.2", bit(one.ecx, 20)},
      {3, "avx", bit(one.ecx, 28) && ymm},
      {3, "avx2", bit(seven.ebx, 5) && ymm},
      {3, "bmi1", bit(seven.ebx, 3)},
      {3, "bmi2", bit(seven.ebx, 8)},
      {3, "f16c", bit(one.ecx, 29) && ymm},
      {3, "fma", bit(one.ecx, 12) && ymm},
      {3, "lzcnt", bit(extended.ecx, 5)},
      {3, "movbe", bit(one.ecx, 22)},
      {3, "osxsave", bit(one.ecx, 27)},
      {4, "avx512f", bit(seven.ebx, 16) && zmm},
      {4, "avx512bw", bit(seven.ebx, 30) && zmm},
      {4, "avx512cd", bit(seven.ebx, 28) && zmm},
      {4, "avx512dq", bit(seven.ebx, 17) && zmm},
      {4, "avx512vl", bit(seven.ebx, 31) && zmm},
  };
}
#endif

}  // namespace

uint32_t level_from_name(std::string_view name) {
  if (name == "x86-64") return 1;
  if (name == "x86-64-v2") return 2;
  if (name == "x86-64-v3") return 3;
  if (name == "x86-64-v4") return 4;
  return 0;
}

std::vector<std::string> missing_features(uint32_t level) {
  std::vector<std::string> missing;
#if defined(__x86_64__)
  if (level < 2) return missing;  // every x86-64 processor has the first level; CPUID is slow in a virtual machine
  for (const Feature& feature : features()) {
    if (feature.level <= level && !feature.present) missing.emplace_back(feature.name);
  }
#else
  (void)level;
#endif
  return missing;
}

uint32_t cpu_level() {
#if defined(__x86_64__)
  uint32_t level = 4;
  for (const Feature& feature : features()) {
    if (!feature.present && feature.level <= level) level = feature.level - 1;
  }
  return level;
#else
  return 0;
#endif
}

}  // namespace heddle::host
