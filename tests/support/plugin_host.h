// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tiny host for tests of plugins: gives a plugin its heddle_host_t, loads it through its one entry, and counts what it leaves
// behind. Used by unit tests of drivers and allocators; knows nothing of libheddle.
#ifndef HEDDLE_TESTS_PLUGIN_HOST_H_
#define HEDDLE_TESTS_PLUGIN_HOST_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/allocator.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"

// What the opaque type is in these tests.
struct heddle_status {
  std::map<std::string, std::string> payloads;
  std::atomic<int> references{1};
  heddle_status_code_t code;
  std::string domain;
  int64_t native_code;
  std::string message;
};

namespace heddle::test {

inline heddle_string_t string_of(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string text_of(heddle_string_t text) {
  return std::string(text.data ? text.data : "", text.data ? text.size : 0);
}

// Owns a status; prints as its text.
class Result {
 public:
  Result(heddle_status_t* status) : status_(status) {}  // NOLINT: converts on purpose
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result();
  heddle_status_code_t code() const { return status_ ? status_->code : HEDDLE_STATUS_OK; }
  std::string message() const { return status_ ? status_->message : ""; }
  std::string payload(const std::string& key) const { return status_ && status_->payloads.count(key) ? status_->payloads.at(key) : ""; }
  bool ok() const { return status_ == nullptr; }

 private:
  heddle_status_t* status_;
};

class PluginHost {
 public:
  PluginHost() {
    table_.struct_size = sizeof table_;
    table_.abi_minor = HEDDLE_ABI_MINOR;
    table_.self = this;
    table_.memory_allocate = [](void* self, uint64_t size, uint64_t alignment) -> void* {
      auto* host = static_cast<PluginHost*>(self);
      if (host->fail_allocation_.load() >= 0 && host->fail_allocation_.fetch_sub(1) == 0) return nullptr;
      void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
      if (memory) ++host->live_memory;
      return memory;
    };
    table_.memory_free = [](void* self, void* memory) {
      if (memory) --static_cast<PluginHost*>(self)->live_memory;
      std::free(memory);
    };
    table_.status_create = [](void*, heddle_status_code_t code, heddle_string_t domain, int64_t native, heddle_string_t message) {
      ++live_statuses();
      auto* status = new heddle_status;
      status->code = code;
      status->domain = text_of(domain);
      status->native_code = native;
      status->message = text_of(message);
      return status;
    };
    table_.status_set_payload = [](void*, heddle_status_t* status, heddle_string_t key, heddle_string_t value) {
      status->payloads[text_of(key)] = text_of(value);
    };
    table_.status_clone = [](void*, const heddle_status_t* status) {
      auto* same = const_cast<heddle_status_t*>(status);
      if (same) ++same->references;
      return same;
    };
    table_.status_code = [](void*, const heddle_status_t* status) -> heddle_status_code_t {
      return status ? status->code : HEDDLE_STATUS_OK;
    };
    table_.status_message = [](void*, const heddle_status_t* status) {
      return status ? string_of(status->message) : heddle_string_t{nullptr, 0};
    };
    table_.status_free = [](void*, heddle_status_t* status) { free_status(status); };
    table_.log_level = [](void*) -> uint32_t { return HEDDLE_LOG_DEBUG; };
    table_.log = [](void* self, uint32_t, heddle_string_t, uint32_t, heddle_string_t message) {
      auto* host = static_cast<PluginHost*>(self);
      std::lock_guard<std::mutex> lock(host->mutex_);
      host->logged_.push_back(text_of(message));
    };
    table_.trace_begin = [](void*, heddle_string_t, heddle_string_t) {};
    table_.trace_end = [](void*) {};
    table_.trace_counter = [](void*, heddle_string_t, int64_t) {};
    table_.execute = [](void*, void (*function)(void*), void* context) -> heddle_status_t* {
      function(context);
      return nullptr;
    };
    table_.option = [](void* self, heddle_string_t name, heddle_option_t* out) -> heddle_status_t* {
      auto* host = static_cast<PluginHost*>(self);
      auto found = host->options_.find(text_of(name));
      if (found == host->options_.end()) return host->table_.status_create(self, HEDDLE_STATUS_NOT_FOUND, {}, 0, name);
      *out = found->second;
      return nullptr;
    };
    table_.clock_ns = [](void*) -> uint64_t { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); };
    table_.is_forked_child = [](void* self) -> uint32_t { return static_cast<PluginHost*>(self)->forked_child ? 1 : 0; };
  }
  ~PluginHost() { EXPECT_EQ(live_memory.load(), 0) << "the plugin kept memory of the host"; }
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  const heddle_host_t* table() const { return &table_; }

  void set_int(const std::string& name, int64_t value) {
    heddle_option_t& option = options_[name];
    option = {sizeof option, HEDDLE_OPTION_INT, {}, value, 0, {}};
  }
  void set_bool(const std::string& name, bool value) {
    set_int(name, value);
    options_[name].kind = HEDDLE_OPTION_BOOL;
  }
  void set_float(const std::string& name, double value) {
    options_[name] = {sizeof(heddle_option_t), HEDDLE_OPTION_FLOAT, {}, 0, value, {}};
  }
  void set_string(const std::string& name, const std::string& value) {
    texts_.push_back(std::make_unique<std::string>(value));
    options_[name] = {sizeof(heddle_option_t), HEDDLE_OPTION_STRING, {}, 0, 0, string_of(*texts_.back())};
  }
  std::vector<std::string> logged_lines() {
    std::lock_guard<std::mutex> lock(mutex_);
    return logged_;
  }
  // The n-th next allocation fails; -1: none.
  void fail_allocation(int n) { fail_allocation_ = n; }

  // What the plugin logged, a line each.
  std::string logged() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string lines;
    for (const std::string& line : logged_) lines += line + "\n";
    return lines;
  }

  static std::atomic<int64_t>& live_statuses() {
    static std::atomic<int64_t> count{0};
    return count;
  }
  static void free_status(heddle_status_t* status) {
    if (!status || --status->references != 0) return;
    --live_statuses();
    delete status;
  }

  std::atomic<int64_t> live_memory{0};
  bool forked_child = false;

 private:
  heddle_host_t table_ = {};
  std::map<std::string, heddle_option_t> options_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::atomic<int> fail_allocation_{-1};
  std::mutex mutex_;
  std::vector<std::string> logged_;
};

inline Result::~Result() {
  PluginHost::free_status(status_);
}

#define EXPECT_OK(call)                             \
  do {                                              \
    ::heddle::test::Result result_(call);           \
    EXPECT_TRUE(result_.ok()) << result_.message(); \
  } while (false)
#define ASSERT_OK(call)                             \
  do {                                              \
    ::heddle::test::Result result_(call);           \
    ASSERT_TRUE(result_.ok()) << result_.message(); \
  } while (false)
// The call fails with that code and a text that holds `part`.
#define EXPECT_FAILS(call, expected_code, part)                                      \
  do {                                                                               \
    ::heddle::test::Result result_(call);                                            \
    EXPECT_EQ(result_.code(), (expected_code)) << result_.message();                 \
    EXPECT_NE(result_.message().find(part), std::string::npos) << result_.message(); \
  } while (false)

// A plugin, loaded by its path.
class LoadedPlugin {
 public:
  explicit LoadedPlugin(const std::string& path) {
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) {
      ADD_FAILURE() << dlerror();
      return;
    }
    auto entry = reinterpret_cast<heddle_plugin_entry_fn_t>(dlsym(library_, HEDDLE_PLUGIN_ENTRY_NAME));
    if (!entry) {
      ADD_FAILURE() << path << " has no entry";
      return;
    }
    heddle_negotiation_t negotiation = {};
    negotiation.struct_size = sizeof negotiation;
    negotiation.host_min_minor = HEDDLE_ABI_MIN_MINOR;
    negotiation.host_max_minor = HEDDLE_ABI_MINOR;
    plugin_ = entry(&negotiation);
    if (!plugin_) ADD_FAILURE() << std::string(negotiation.reason, negotiation.reason_size);
  }
  // Never unloaded (HD-L-02).
  const heddle_plugin_t* operator->() const { return plugin_; }
  const heddle_plugin_t* get() const { return plugin_; }
  void* library() const { return library_; }

 private:
  void* library_ = nullptr;
  const heddle_plugin_t* plugin_ = nullptr;
};

// One driver with one open device and one queue.
class OpenDriver {
 public:
  // wrap: puts other tables in the place of the driver's, before anything is made through them.
  explicit OpenDriver(const std::string& path, PluginHost* host, const std::string& cpus = "",
                      const std::function<void(heddle_driver_api_t*)>& wrap = {})
      : plugin_(path), host_(host) {
    Result created(plugin_->create(host->table(), &instance_));
    if (!created.ok()) {
      ADD_FAILURE() << created.message();
      return;
    }
    device_api = static_cast<const heddle_device_interface_t*>(interface(HEDDLE_DEVICE_INTERFACE));
    buffer_api = static_cast<const heddle_buffer_interface_t*>(interface(HEDDLE_BUFFER_INTERFACE));
    transfer_api = static_cast<const heddle_transfer_interface_t*>(interface(HEDDLE_TRANSFER_INTERFACE));
    param_io_api = static_cast<const heddle_param_io_interface_t*>(interface(HEDDLE_PARAM_IO_INTERFACE));
    dispatch_api = static_cast<const heddle_dispatch_interface_t*>(interface(HEDDLE_DISPATCH_INTERFACE));
    timeline_api = static_cast<const heddle_timeline_interface_t*>(interface(HEDDLE_TIMELINE_INTERFACE));
    native_api =
        static_cast<const heddle_native_interface_t*>(interface(HEDDLE_NATIVE_INTERFACE));  // NULL where there is none, like the next
    profile_api = static_cast<const heddle_profile_interface_t*>(interface(HEDDLE_PROFILE_INTERFACE));
    blocks_api = static_cast<const heddle_blocks_interface_t*>(interface(HEDDLE_BLOCKS_INTERFACE));
    api = {sizeof api,   0,          host->table(), instance_, device_api, buffer_api, transfer_api, param_io_api, dispatch_api,
           timeline_api, native_api, profile_api,   blocks_api};
    if (wrap) {
      wrap(&api);
      device_api = api.device;
      buffer_api = api.buffer;
      transfer_api = api.transfer;
      param_io_api = api.param_io;
      dispatch_api = api.dispatch;
      timeline_api = api.timeline;
      native_api = api.native;
      profile_api = api.profile;
      blocks_api = api.blocks;
    }
    device = open(0, cpus);
    if (device) queue = make_queue(device);
  }
  ~OpenDriver() {
    if (queue) EXPECT_OK(device_api->queue_destroy(queue));
    if (device) EXPECT_OK(device_api->close(device));
    if (instance_) EXPECT_OK(shut_down ? shut_down(instance_) : plugin_->shutdown(instance_));
  }
  OpenDriver(const OpenDriver&) = delete;
  OpenDriver& operator=(const OpenDriver&) = delete;

  heddle_device_t* open(uint32_t ordinal, const std::string& cpus = "") {
    heddle_device_open_params_t params = {sizeof params, 0, &api, string_of(cpus), -1, 0};
    heddle_device_t* opened = nullptr;
    EXPECT_OK(device_api->open(instance_, ordinal, &params, &opened));
    return opened;
  }
  heddle_queue_t* make_queue(heddle_device_t* of) {
    heddle_queue_params_t params = {sizeof params, 0};
    heddle_queue_t* made = nullptr;
    EXPECT_OK(device_api->queue_create(of, &params, &made));
    return made;
  }
  heddle_buffer_t* make_buffer(uint64_t size, uint32_t memory = HEDDLE_MEMORY_DEVICE, heddle_device_t* of = nullptr) {
    heddle_buffer_params_t params = {sizeof params, memory, size, 0};
    heddle_buffer_t* made = nullptr;
    EXPECT_OK(buffer_api->allocate(of ? of : device, &params, &made));
    return made;
  }
  heddle_timeline_t* make_timeline(uint64_t value = 0, heddle_device_t* of = nullptr) {
    heddle_timeline_t* made = nullptr;
    EXPECT_OK(timeline_api->create(of ? of : device, value, &made));
    return made;
  }
  Result wait(heddle_timeline_t* timeline, uint64_t value, uint64_t timeout_ns = uint64_t{60} * 1000000000) {
    heddle_point_t point = {timeline, value};
    return timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, timeout_ns);
  }

  // Blocking copies through a timeline of their own, so that tests read on any driver.
  void write(heddle_buffer_t* buffer, uint64_t offset, const void* bytes, uint64_t length) {
    heddle_timeline_t* done = make_timeline();
    heddle_point_t point = {done, 1};
    heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    heddle_binding_t binding = {buffer, offset, length};
    EXPECT_OK(await(transfer_api->upload(queue, &sync, bytes, &binding), point));
  }
  void read(heddle_buffer_t* buffer, uint64_t offset, void* bytes, uint64_t length) {
    heddle_timeline_t* done = make_timeline();
    heddle_point_t point = {done, 1};
    heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    heddle_binding_t binding = {buffer, offset, length};
    EXPECT_OK(await(transfer_api->download(queue, &sync, &binding, bytes), point));
  }
  template <class T>
  heddle_buffer_t* make_filled(const std::vector<T>& values) {
    heddle_buffer_t* buffer = make_buffer(values.size() * sizeof(T));
    if (!values.empty()) write(buffer, 0, values.data(), values.size() * sizeof(T));
    return buffer;
  }
  template <class T>
  std::vector<T> values_of(heddle_buffer_t* buffer, uint64_t count) {
    std::vector<T> values(count);
    if (count) read(buffer, 0, values.data(), count * sizeof(T));
    return values;
  }
  // Submits a list that waits for `waits` and signals `signals`.
  heddle_status_t* submit(const std::vector<heddle_command_t>& commands, const std::vector<heddle_point_t>& waits,
                          const std::vector<heddle_point_t>& signals, heddle_queue_t* on = nullptr) {
    heddle_submission_t submission = {sizeof submission,
                                      static_cast<uint32_t>(commands.size()),
                                      commands.data(),
                                      {sizeof(heddle_sync_t), static_cast<uint32_t>(waits.size()), static_cast<uint32_t>(signals.size()), 0,
                                       waits.data(), signals.data()}};
    return dispatch_api->submit(on ? on : queue, &submission);
  }
  // Submits and waits; the failure of either.
  heddle_status_t* run(const std::vector<heddle_command_t>& commands) {
    heddle_timeline_t* done = make_timeline();
    heddle_point_t point = {done, 1};
    return await(submit(commands, {}, {point}), point);
  }
  // Waits for a point unless enqueuing its work failed, and ends its timeline. One that is never reached is left alone: work may signal it.
  heddle_status_t* await(heddle_status_t* failure, heddle_point_t point) {
    if (!failure) failure = timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, patience_ns);
    if (!failure || failure->code != HEDDLE_STATUS_DEADLINE_EXCEEDED) timeline_api->destroy(point.timeline);
    return failure;
  }
  heddle_device_statistics_t statistics() {
    heddle_device_statistics_t values = {};
    values.struct_size = sizeof values;
    EXPECT_OK(device_api->statistics(device, &values));
    return values;
  }
  const void* interface(const char* id) { return plugin_->get_interface(instance_, string_of(id)); }
  heddle_plugin_instance_t* instance() const { return instance_; }
  const LoadedPlugin& plugin() const { return plugin_; }
  PluginHost& host() { return *host_; }

  const heddle_device_interface_t* device_api = nullptr;
  const heddle_buffer_interface_t* buffer_api = nullptr;
  const heddle_transfer_interface_t* transfer_api = nullptr;
  const heddle_param_io_interface_t* param_io_api = nullptr;
  const heddle_dispatch_interface_t* dispatch_api = nullptr;
  const heddle_timeline_interface_t* timeline_api = nullptr;
  const heddle_native_interface_t* native_api = nullptr;
  const heddle_profile_interface_t* profile_api = nullptr;
  const heddle_blocks_interface_t* blocks_api = nullptr;
  heddle_driver_api_t api = {};
  heddle_device_t* device = nullptr;
  heddle_queue_t* queue = nullptr;
  uint64_t patience_ns = HEDDLE_TIMEOUT_INFINITE;                        // of await
  std::function<heddle_status_t*(heddle_plugin_instance_t*)> shut_down;  // in the place of the plugin's own

 private:
  LoadedPlugin plugin_;
  PluginHost* host_;
  heddle_plugin_instance_t* instance_ = nullptr;
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_PLUGIN_HOST_H_
