// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an instance's commands took on their devices, summed up by region. Frames add to it, the report "profile" reads it.
#ifndef HEDDLE_CORE_SUBMIT_PROFILE_H_
#define HEDDLE_CORE_SUBMIT_PROFILE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace heddle::host {
class Trace;
}
namespace heddle::memory {
class Device;
}

namespace heddle::submit {

class Profile {
 public:
  // trace: where each command goes too; NULL: nowhere.
  explicit Profile(host::Trace* trace) : trace_(trace) {}
  // region: empty for copies and fills. begin_ns: of CLOCK_MONOTONIC, as well as it is known.
  void add(const char* kind, const std::string& region, const std::string& device, uint64_t begin_ns, uint64_t duration_ns);
  // A copy between devices, from when it is asked for to when it is handed to `to`. For the trace alone.
  void add_crossing(const std::string& from, const std::string& to, uint64_t begin_ns, uint64_t duration_ns);
  // What the device's pool holds now. For the trace alone.
  void add_memory(memory::Device& device);
  // {"regions": [{"region", "kind", "device", "count", "total_ns", "min_ns", "max_ns"}]}, the longest in all first.
  std::string json() const;

 private:
  struct Row {
    uint64_t count = 0, total_ns = 0, min_ns = UINT64_MAX, max_ns = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // region, kind, device
  host::Trace* const trace_;
  mutable std::mutex mutex_;
  std::map<Key, Row> rows_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PROFILE_H_
