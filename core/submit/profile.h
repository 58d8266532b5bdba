// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an instance's commands took on their devices, summed up by region. Frames add to it, the report "profile" reads it.
#ifndef HEDDLE_CORE_SUBMIT_PROFILE_H_
#define HEDDLE_CORE_SUBMIT_PROFILE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace heddle::submit {

class Profile {
 public:
  // region: empty for copies and fills.
  void add(const char* kind, const std::string& region, const std::string& device, uint64_t duration_ns);
  // {"regions": [{"region", "kind", "device", "count", "total_ns", "min_ns", "max_ns"}]}, the longest in all first.
  std::string json() const;

 private:
  struct Row {
    uint64_t count = 0, total_ns = 0, min_ns = UINT64_MAX, max_ns = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // region, kind, device
  mutable std::mutex mutex_;
  std::map<Key, Row> rows_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PROFILE_H_
