// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The negotiation in a plugin's entry (HD-E-02). Pure: no allocation, no threads, no output.
#ifndef HEDDLE_SDK_NEGOTIATE_H_
#define HEDDLE_SDK_NEGOTIATE_H_

#include <cstdio>

#include "heddle/sdk/status.h"

namespace heddle::sdk {

// Chooses the highest minor version that host and plugin support; NULL and a reason if there is none.
inline const heddle_plugin_t* negotiate(heddle_negotiation_t* in_out, const char* id, const heddle_plugin_t* plugin,
                                        uint32_t min_minor = HEDDLE_ABI_MIN_MINOR, uint32_t max_minor = HEDDLE_ABI_MINOR) noexcept {
  heddle_negotiation_t record = {};
  uint64_t ignored;
  if (!in_out || !read_struct(in_out, &record, &ignored)) return nullptr;
  record.plugin_min_minor = min_minor;
  record.plugin_max_minor = max_minor;
  const uint32_t highest = record.host_max_minor < max_minor ? record.host_max_minor : max_minor;
  const bool agreed = highest >= record.host_min_minor && highest >= min_minor;
  record.chosen_minor = agreed ? highest : 0;
  record.reason_size = 0;
  if (!agreed) {
    const int written =
        std::snprintf(record.reason, sizeof record.reason,
                      "%s supports ABI %d.%u to %d.%u and the host %d.%u to %d.%u; install a version of either that overlaps [HD-E-02]", id,
                      HEDDLE_ABI_MAJOR, min_minor, HEDDLE_ABI_MAJOR, max_minor, HEDDLE_ABI_MAJOR, record.host_min_minor, HEDDLE_ABI_MAJOR,
                      record.host_max_minor);
    const int most = static_cast<int>(sizeof record.reason) - 1;
    record.reason_size = static_cast<uint32_t>(written < 0 ? 0 : written < most ? written : most);
  }
  write_struct(record, in_out);
  return agreed ? plugin : nullptr;
}

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_NEGOTIATE_H_
