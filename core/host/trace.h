// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// [trace]: events over time, in the JSON format of Chrome's trace viewer, which Perfetto also reads. Owned by the services of a host; plugins add
// events through their host table, submit adds those of devices. This file knows neither.
#ifndef HEDDLE_CORE_HOST_TRACE_H_
#define HEDDLE_CORE_HOST_TRACE_H_

#include <map>
#include <mutex>
#include <string>

#include "core/host/config.h"
#include "core/host/host_table.h"
#include "core/status.h"

namespace heddle::host {

class Trace final : public TraceSink {
 public:
  Trace(const TraceConfig& config, const Log& log) : config_(config), log_(log) {}
  // Writes the end. The file of a killed process lacks it, which viewers accept.
  ~Trace() override;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Creates the file, once: until there is work to trace, nothing is overwritten. Earlier events are kept. Fails if the file cannot be written.
  Status start();
  // Writes the events so far and an end, which later events overwrite. Returns the failure of this or of an earlier write, which removed the
  // file: a trace is complete or absent. [any]
  Status finish();

  const std::string& path() const { return config_.sink; }
  bool wants(uint32_t category) const { return (config_.categories & category) != 0; }
  // An event with a duration. track: the device. Times are of CLOCK_MONOTONIC. [any]
  void span(const char* category, std::string_view name, std::string_view track, uint64_t begin_ns, uint64_t duration_ns) noexcept;
  // The value of a counter from now on. [any]
  void value(const char* category, std::string_view name, int64_t value) noexcept;

  void begin(std::string_view category, std::string_view name) noexcept override;
  void end() noexcept override;
  void counter(std::string_view name, int64_t value) noexcept override;

 private:
  void add(const std::string& event);
  bool complete();
  bool flush();
  void discard();  // removes the file after a failed write
  std::string failure_text() const;
  Status failure() const;

  const TraceConfig config_;
  const Log& log_;
  std::mutex mutex_;  // protects everything below
  std::string text_;  // text that is not written yet
  std::map<std::string, uint32_t, std::less<>> tracks_;
  int descriptor_ = -1;
  bool any_ = false;
  size_t end_bytes_ = 0;  // length of the end if the file has one
  int errno_ = 0;         // of a write that failed
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TRACE_H_
