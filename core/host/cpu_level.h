// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The x86-64 level of this CPU, from CPUID and XGETBV: features that the processor has and the kernel enables for programs.
// Used by preflight, so that a plugin built for a higher level is refused with a reason instead of causing a SIGILL.
#ifndef HEDDLE_CORE_HOST_CPU_LEVEL_H_
#define HEDDLE_CORE_HOST_CPU_LEVEL_H_

#include <string>
#include <string_view>
#include <vector>

namespace heddle::host {

// 1 to 4, as the psABI numbers them; 0 on another architecture.
uint32_t cpu_level();
// The level of "x86-64" (1), "x86-64-v2" ...; 0 if the name is not known.
uint32_t level_from_name(std::string_view name);
// Features of that level that this CPU lacks, e.g. {"avx512bw"}.
std::vector<std::string> missing_features(uint32_t level);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CPU_LEVEL_H_
