// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rates that a device reaches at most, measured on the device itself, by kernels that do nothing else. Used by profile.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "heddle/runtime.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {

struct Peaks {
  std::string unmeasured;          // why there are no figures; empty: there are
  std::string family;              // "cpu", "cuda"
  double flops_per_ns = 0;         // fused multiply-adds of f32 in registers, each of them 2
  double matrix_flops_per_ns = 0;  // products of f16 with f32 sums on tensor cores; 0: not measured
  double copy_bytes_per_ns = 0;    // what a copy in memory reads and writes
  double read_bytes_per_ns = 0;    // of memory that no cache holds
  double cached_bytes_per_ns = 0;  // reads of what caches hold
  double cache_bytes = 0;          // a region that moves at most half of this may find it in caches
  int64_t units = 0;               // cores or multiprocessors, all of which were used

  double bytes_per_ns(double moved_bytes) const {
    const double memory = std::max(copy_bytes_per_ns, read_bytes_per_ns);
    return moved_bytes <= cache_bytes / 2 ? std::max(memory, cached_bytes_per_ns) : memory;
  }
  // For products with results of this type ("f32"); none if no kernel measures such products.
  std::optional<double> flops_for(const std::string& element_type) const;
  Json json() const;
};

// Takes about 0.2 s. `device`: its alias; it should be idle. A reason why it cannot be measured is not an error.
Peaks measure_peaks(heddle_runtime_t* runtime, const std::string& device, const std::string& family);

}  // namespace heddle::tool
