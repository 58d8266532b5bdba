// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver's context, shared by its devices, and the events in it. An event is taken for one signal, and reused once nothing refers to it.
#ifndef HEDDLE_LEVEL_ZERO_SIGNALS_H_
#define HEDDLE_LEVEL_ZERO_SIGNALS_H_

#include <memory>
#include <mutex>

#include "level_zero/imports.h"

namespace heddle::level_zero {

class SharedContext {
 public:
  // That of the driver; made if no device of the driver is open. NULL if *out_result is an error.
  static std::shared_ptr<SharedContext> of(const Api& api, ze_driver_handle_t driver, ze_result_t* out_result);
  SharedContext(const Api& its_api, ze_driver_handle_t driver, ze_context_handle_t its_handle) noexcept
      : api(its_api), handle(its_handle), imports(its_api, driver) {}
  ~SharedContext();
  SharedContext(const SharedContext&) = delete;
  SharedContext& operator=(const SharedContext&) = delete;

  const Api& api;
  const ze_context_handle_t handle;
  Imports imports;

 private:
  friend class Signal;
  ze_result_t take(ze_event_handle_t* out);
  void give(ze_event_handle_t event) noexcept;

  std::mutex mutex_;
  std::vector<ze_event_pool_handle_t> pools_;  // under mutex_, like the rest
  std::vector<ze_event_handle_t> all_, idle_;
};

// One point of a stream that can be waited for: an event that is signalled once. The event is reset when the last owner of the signal is gone, so
// everything that waits for it on a device owns it.
class Signal {
 public:
  static ze_result_t make(const std::shared_ptr<SharedContext>& context, std::shared_ptr<Signal>* out);
  Signal(std::shared_ptr<SharedContext> context, ze_event_handle_t event) noexcept : context_(std::move(context)), event_(event) {}
  ~Signal() { context_->give(event_); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  ze_event_handle_t event() const noexcept { return event_; }
  // ZE_RESULT_NOT_READY: not yet.
  ze_result_t query() const noexcept { return context_->api.zeEventQueryStatus(event_); }
  ze_result_t wait() const noexcept { return context_->api.zeEventHostSynchronize(event_, UINT64_MAX); }

 private:
  std::shared_ptr<SharedContext> context_;
  ze_event_handle_t event_;
};

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_SIGNALS_H_
