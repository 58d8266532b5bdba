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

bool Timeline::over(uint64_t value) {
  if (seen_over(value)) return true;
  // [no-block] and allowed on any thread, so it may be called with the mutex held.
  uint64_t now = 0;
  heddle_status_t* failed = plugin->driver.timeline->query(static_cast<heddle_timeline_t*>(const_cast<void*>(handle)), &now);
  if (failed) {
    plugin->host->status_free(plugin->host->self, failed);
    return true;  // poisoned: later values are not waited for
  }
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
