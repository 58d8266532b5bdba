// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the commands of a profile did in their time, and which share of their devices' peaks that is. Used by profile.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tools/heddle/report_view.h"
#include "tools/profile/peaks.h"

namespace heddle::tool {

// Operations and bytes, and the shortest times that they take at a device's peaks. Sums are over the commands for which the amount is known.
struct Amounts {
  struct One {
    double count = 0, time_ns = 0;         // time of the commands that did `count`
    double least_ns = 0, compared_ns = 0;  // at the peak; the time of the commands for which there is a peak
    void add(const One& other);
  };
  One flops, bytes, both;  // both: the longer of the two shortest times, by which the roofline is defined
  void add(const Amounts& other);
  // Adds "flops", "gflops", "flops_share", "bytes", "gbytes", "bytes_share" and "roofline", as far as they are known.
  void add_to(Json& row) const;
};

class Roofline {
 public:
  // module_report: with "route". symbols: the extents of the call. All are kept by reference.
  Roofline(const Json& module_report, const std::map<std::string, int64_t>& symbols, const std::map<std::string, Peaks>& peaks);
  // Of a row of the profile, per call.
  Amounts of(const Json& row) const;

 private:
  std::optional<double> amount(const Json& region, const char* field) const;
  std::optional<double> peak_flops(const Json& region, const Peaks& peaks) const;

  const std::map<std::string, int64_t>& symbols_;
  const std::map<std::string, Peaks>& peaks_;
  std::map<std::string, const Json*> regions_;  // of the compiler's report, by the first word of their names
  bool is_fast_ = false;                        // --math fast or fast-convolutions
};

}  // namespace heddle::tool
