// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the kernels that measure peaks do, as the module and the program that runs it must both know.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle::tool {

struct OfFamily {
  int64_t cpu, cuda;
  constexpr int64_t of(std::string_view family) const { return family == "cpu" ? cpu : cuda; }
};

// Workgroups per compute unit: of `multiply`, `multiply f16` and `read cached`; of `read`.
constexpr OfFamily kGroups{2, 8};
constexpr int64_t kReadGroups = 8;
// Operations of one workgroup of `multiply` and of `multiply f16` per iteration; the iterations take a fraction of a millisecond.
constexpr OfFamily kFlops{12 * 16 * 2, 256 * 16 * 2}, kIterations{20'000, 2'000};
constexpr double kMatrixFlops = 8 * 8 * (16 * 8 * 16 * 2);
// Bytes that a workgroup of `read cached` reads, and how often: more than a first-level cache.
constexpr OfFamily kCachedBytes{256 << 10, 16 << 10};
constexpr int64_t kCachedPasses = 16;

}  // namespace heddle::tool
