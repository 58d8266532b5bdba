// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host functions that plugins call. Each catches every exception: no C++ exception crosses the boundary (HD-B-01).
#include "core/host/host_table.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/status.h"

namespace heddle::host {
namespace {

PluginHost& host_of(void* self) {
  return *static_cast<PluginHost*>(self);
}

void* memory_allocate(void*, uint64_t size_bytes, uint64_t alignment_bytes) noexcept {
  if (alignment_bytes < 8 || (alignment_bytes & (alignment_bytes - 1)) != 0) return nullptr;
  if (size_bytes > PTRDIFF_MAX || alignment_bytes > PTRDIFF_MAX) return nullptr;
  void* memory = nullptr;
  return posix_memalign(&memory, alignment_bytes, size_bytes ? size_bytes : 1) == 0 ? memory : nullptr;
}

void memory_free(void*, void* memory) noexcept {
  std::free(memory);
}

heddle_status_t* create_status(void*, heddle_status_code_t code, heddle_string_t domain, int64_t native_code,
                               heddle_string_t message) noexcept {
  return status_create(code, view(message), view(domain), native_code);
}

void set_payload(void*, heddle_status_t* status, heddle_string_t key, heddle_string_t value) noexcept {
  status_set_payload(status, view(key), view(value));
}

heddle_status_t* clone(void*, const heddle_status_t* status) noexcept {
  return status_clone(status);
}
heddle_status_code_t code(void*, const heddle_status_t* status) noexcept {
  return heddle_status_code(status);
}
heddle_string_t message(void*, const heddle_status_t* status) noexcept {
  return heddle_status_message(status);
}
void free_status(void*, heddle_status_t* status) noexcept {
  heddle_status_free(status);
}

uint32_t log_level(void* self) noexcept {
  return host_of(self).services->log.level(host_of(self).component);
}

void log(void* self, uint32_t level, heddle_string_t file, uint32_t line, heddle_string_t text) noexcept {
  PluginHost& host = host_of(self);
  if (level < host.services->log.level(host.component)) return;
  if (file.size == 0) return host.services->log.write(level, host.component, view(text));
  try {
    host.services->log.write(level, host.component, fmt::format("{} ({}:{})", view(text), view(file), line));
  } catch (...) {
    host.services->log.write(level, host.component, view(text));
  }
}

void trace_begin(void* self, heddle_string_t category, heddle_string_t name) noexcept {
  if (TraceSink* trace = host_of(self).services->trace.get()) trace->begin(view(category), view(name));
}
void trace_end(void* self) noexcept {
  if (TraceSink* trace = host_of(self).services->trace.get()) trace->end();
}
void trace_counter(void* self, heddle_string_t name, int64_t value) noexcept {
  if (TraceSink* trace = host_of(self).services->trace.get()) trace->counter(view(name), value);
}

heddle_status_t* execute(void* self, void (*function)(void* context), void* context) noexcept {
  if (!function) return status_create(HEDDLE_STATUS_INVALID_ARGUMENT, "host: running a host call failed: no function was given");
  return host_of(self).services->executor.execute(function, context).release();
}

heddle_status_t* option(void* self, heddle_string_t name, heddle_option_t* out_option) noexcept {
  const PluginHost& host = host_of(self);
  // A callee writes at most the caller's struct_size (HD-E-04).
  const uint32_t caller_size = out_option->struct_size;
  if (caller_size < sizeof(uint32_t)) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "host: reading option '{}' of {} failed: struct_size is {} [HD-E-04]", view(name),
                 host.component, caller_size)
        .release();
  }
  heddle_option_t value{};
  heddle_status_t* failure = nullptr;
  const OptionValue* found = nullptr;
  for (const OptionValue& candidate : host.options) {
    if (candidate.name == view(name)) found = &candidate;
  }
  if (found) {
    value = {0, found->kind, heddle::to_c(found->name), found->int_value, found->float_value, heddle::to_c(found->string_value)};
  } else {
    failure = error(HEDDLE_STATUS_NOT_FOUND, "host: reading option '{}' failed: the manifest of {} does not declare it", view(name),
                    host.component)
                  .release();
  }
  value.struct_size = caller_size;
  std::memcpy(out_option, &value, std::min<size_t>(caller_size, sizeof(value)));
  return failure;
}

uint64_t clock(void*) noexcept {
  return clock_ns();
}
uint32_t forked(void* self) noexcept {
  return host_of(self).services->fork.in_forked_child() ? 1 : 0;
}

}  // namespace

PluginHost::PluginHost(std::string component_id, uint32_t abi_minor, std::shared_ptr<HostServices> shared, std::vector<OptionValue> values)
    : table{}, component(std::move(component_id)), services(std::move(shared)), options(std::move(values)) {
  table.struct_size = sizeof(table);
  table.abi_minor = abi_minor;
  table.self = this;
  table.memory_allocate = memory_allocate;
  table.memory_free = memory_free;
  table.status_create = create_status;
  table.status_set_payload = set_payload;
  table.status_clone = clone;
  table.status_code = code;
  table.status_message = message;
  table.status_free = free_status;
  table.log_level = log_level;
  table.log = host::log;
  table.trace_begin = trace_begin;
  table.trace_end = trace_end;
  table.trace_counter = trace_counter;
  table.execute = execute;
  table.option = option;
  table.clock_ns = clock;
  table.is_forked_child = forked;
}

}  // namespace heddle::host
