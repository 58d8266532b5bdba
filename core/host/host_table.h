// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of host functions that a plugin instance gets (heddle_host_t), and the state it uses.
// Created by host.cpp and by heddle-probe, one per plugin; plugins know only the table.
#ifndef HEDDLE_CORE_HOST_HOST_TABLE_H_
#define HEDDLE_CORE_HOST_HOST_TABLE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/config.h"
#include "core/host/executor.h"
#include "core/host/log.h"
#include "core/host/process.h"
#include "heddle/plugin.h"

namespace heddle::host {

// Receives plugins' trace events.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void begin(std::string_view category, std::string_view name) noexcept = 0;
  virtual void end() noexcept = 0;
  virtual void counter(std::string_view name, int64_t value) noexcept = 0;
};

// State that the plugin hosts of one host share. Outlives the host itself while an instance with live children exists.
struct HostServices {
  ForkMark fork;
  Log log;
  Executor executor;
  std::unique_ptr<TraceSink> trace;  // NULL: no trace
  HostServices(LogSink sink, uint32_t level, std::map<std::string, uint32_t> components, uint32_t max_threads)
      : log(sink, level, std::move(components)), executor(max_threads) {}
};

// Does not move until the instance is shut down: plugins keep a pointer to table.
struct PluginHost {
  heddle_host_t table;
  std::string component;  // the plugin's id, for the log
  std::shared_ptr<HostServices> services;
  std::vector<OptionValue> options;

  PluginHost(const PluginHost&) = delete;
  PluginHost(std::string component, uint32_t abi_minor, std::shared_ptr<HostServices> services, std::vector<OptionValue> options);
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_HOST_TABLE_H_
