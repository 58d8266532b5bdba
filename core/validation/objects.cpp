// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records and uses. Called through objects.h with the registry's mutex held.
#include "core/validation/objects.h"

#include <pthread.h>

namespace heddle::validation {

namespace {

constexpr size_t kKeptUses = 512;  // above this, uses that are known to have finished are dropped
constexpr size_t kKeptTransfers = 1024;

}  // namespace

Registry& registry() {
  // Never destroyed: plugins may call back while the process ends. A fork happens while the mutex is free and the records are consistent.
  static Registry* one = [] {
    auto* made = new Registry;
    constexpr auto lock = [] { registry().mutex.lock(), registry().transfers_mutex.lock(); };
    constexpr auto unlock = [] { registry().transfers_mutex.unlock(), registry().mutex.unlock(); };
    pthread_atfork(lock, unlock, unlock);
    return made;
  }();
  return *one;
}

Plugin* Registry::add(std::unique_ptr<Plugin> plugin) {
  Plugin* added = plugin.get();
  by_instance_[plugin->instance] = added;
  plugins_.push_back(std::move(plugin));
  return added;
}

void Registry::end(Plugin& plugin) {
  plugin.ended = true;
  by_instance_.erase(plugin.instance);
  {
    std::lock_guard lock(transfers_mutex);
    std::erase_if(transfers_, [&](const auto& one) { return one.second.plugin == &plugin; });
  }
  // Leftover objects: their addresses may be reused by others.
  std::apply([&](auto&... live) { (std::erase_if(live, [&](const auto& one) { return one.second->plugin == &plugin; }), ...); }, live_);
}

Plugin* Registry::any() {
  auto found = std::find_if(plugins_.rbegin(), plugins_.rend(), [](const auto& plugin) { return !plugin->ended; });
  return found == plugins_.rend() ? nullptr : found->get();
}

void* Registry::add_callback(const Callback& callback) {
  callbacks_[++next_callback_] = callback;
  return reinterpret_cast<void*>(next_callback_);
}

bool Registry::take_callback(void* number, Callback* out) {
  auto found = callbacks_.find(reinterpret_cast<uint64_t>(number));
  if (found == callbacks_.end()) return false;
  *out = found->second;
  callbacks_.erase(found);
  return true;
}

size_t Registry::drop_callbacks(const Plugin& plugin) {
  return std::erase_if(callbacks_, [&](const auto& one) { return one.second.plugin == &plugin; });
}

void* Registry::add_transfer(Transfer transfer) {
  std::lock_guard lock(transfers_mutex);
  for (auto one = transfers_.begin(); transfers_.size() >= kKeptTransfers && one != transfers_.end();) {
    one = one->second.over && !one->second.inside ? transfers_.erase(one) : std::next(one);
  }
  transfers_.emplace(++next_transfer_, std::move(transfer));
  return reinterpret_cast<void*>(next_transfer_);
}

namespace {

struct Postponed {
  void (*notified)(void* number, const heddle_status_t* failure);
  void* number;
  const heddle_host_t* host;
  heddle_status_t* failure;
};
thread_local std::vector<Postponed> all_postponed;
thread_local const heddle_host_t* asking = nullptr;  // the host of the driver that this thread asks with the mutex held

}  // namespace

bool postpone(void (*notified)(void* number, const heddle_status_t* failure), void* number, const heddle_status_t* failure) {
  if (!asking) return false;
  all_postponed.push_back({notified, number, asking, failure ? asking->status_clone(asking->self, failure) : nullptr});
  return true;
}

void tell_postponed() noexcept {
  while (!all_postponed.empty()) {
    const Postponed first = all_postponed.front();
    all_postponed.erase(all_postponed.begin());
    first.notified(first.number, first.failure);
    if (first.failure) first.host->status_free(first.host->self, first.failure);
  }
}

bool Timeline::ask(uint64_t* out_value) {
  // [no-block] and allowed on any thread, so it may be called with the mutex held.
  asking = plugin->host;
  heddle_status_t* failed = plugin->driver.timeline->query(static_cast<heddle_timeline_t*>(const_cast<void*>(handle)), out_value);
  asking = nullptr;
  if (failed) plugin->host->status_free(plugin->host->self, failed);
  return failed != nullptr;
}

bool Timeline::over(uint64_t value) {
  if (seen_over(value)) return true;
  uint64_t now = 0;
  if (ask(&now)) return true;  // poisoned: later values are not waited for
  reached = std::max(reached, now);
  return reached >= value;
}

void Uses::add(const std::shared_ptr<Timeline>& timeline, uint64_t value, uint64_t begin, uint64_t end) {
  if (uses_.size() >= kKeptUses) std::erase_if(uses_, [](const auto& one) { return one.second.timeline->seen_over(one.second.value); });
  uses_.insert_or_assign({begin, end, timeline.get()}, Use{timeline, value});
}

const Use* Uses::unfinished(uint64_t begin, uint64_t end) {
  for (auto one = uses_.begin(); one != uses_.end();) {
    const auto& [from, to, timeline] = one->first;
    if (one->second.timeline->seen_over(one->second.value)) {
      one = uses_.erase(one);
    } else if (from < end && begin < to && !one->second.timeline->over(one->second.value)) {
      return &one->second;
    } else {
      ++one;
    }
  }
  return nullptr;
}

}  // namespace heddle::validation
