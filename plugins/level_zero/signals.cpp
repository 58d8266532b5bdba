// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "level_zero/signals.h"

#include <map>

namespace heddle::level_zero {
namespace {

constexpr uint32_t kEventsPerPool = 256;

}  // namespace

std::shared_ptr<SharedContext> SharedContext::of(const Api& api, ze_driver_handle_t driver, ze_result_t* out_result) {
  struct Known {
    std::mutex mutex;
    std::map<ze_driver_handle_t, std::weak_ptr<SharedContext>> contexts;
  };
  static Known& known = *new Known;  // never destroyed (HD-L-02)
  std::lock_guard<std::mutex> lock(known.mutex);
  std::weak_ptr<SharedContext>& place = known.contexts[driver];
  *out_result = ZE_RESULT_SUCCESS;
  if (std::shared_ptr<SharedContext> living = place.lock()) return living;
  const auto description = structure<ze_context_desc_t>(ZE_STRUCTURE_TYPE_CONTEXT_DESC);
  ze_context_handle_t handle = nullptr;
  *out_result = api.zeContextCreate(driver, &description, &handle);
  if (*out_result != ZE_RESULT_SUCCESS) return nullptr;
  auto made = std::make_shared<SharedContext>(api, driver, handle);
  place = made;
  return made;
}

SharedContext::~SharedContext() {
  for (ze_event_handle_t event : all_) api.zeEventDestroy(event);
  for (ze_event_pool_handle_t pool : pools_) api.zeEventPoolDestroy(pool);
  api.zeContextDestroy(handle);
}

ze_result_t SharedContext::take(ze_event_handle_t* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) {
    auto pool = structure<ze_event_pool_desc_t>(ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
    pool.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
    pool.count = kEventsPerPool;
    pools_.reserve(pools_.size() + 1);
    all_.reserve(all_.size() + kEventsPerPool);
    idle_.reserve(all_.size() + kEventsPerPool);  // so that give() needs no memory
    ze_event_pool_handle_t made = nullptr;
    if (const ze_result_t bad = api.zeEventPoolCreate(handle, &pool, 0, nullptr, &made)) return bad;
    pools_.push_back(made);
    for (uint32_t i = 0; i < kEventsPerPool; ++i) {
      // A signal is seen by the host and by other devices, and whoever waits for it sees what was written before.
      auto description = structure<ze_event_desc_t>(ZE_STRUCTURE_TYPE_EVENT_DESC);
      description.index = i;
      description.signal = ZE_EVENT_SCOPE_FLAG_HOST;
      description.wait = ZE_EVENT_SCOPE_FLAG_HOST;
      ze_event_handle_t event = nullptr;
      if (const ze_result_t bad = api.zeEventCreate(made, &description, &event)) {
        if (idle_.empty()) return bad;
        break;
      }
      all_.push_back(event);
      idle_.push_back(event);
    }
  }
  *out = idle_.back();
  idle_.pop_back();
  return ZE_RESULT_SUCCESS;
}

void SharedContext::give(ze_event_handle_t event) noexcept {
  // If it was not signalled, its device is lost, or it was never appended to a list; it is then of no use any more.
  if (api.zeEventQueryStatus(event) != ZE_RESULT_SUCCESS || api.zeEventHostReset(event) != ZE_RESULT_SUCCESS) return;
  std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(event);
}

ze_result_t Signal::make(const std::shared_ptr<SharedContext>& context, std::shared_ptr<Signal>* out) {
  ze_event_handle_t event = nullptr;
  if (const ze_result_t bad = context->take(&event)) return bad;
  struct Holder {
    SharedContext& context;
    ze_event_handle_t event;
    ~Holder() {
      if (event) context.give(event);
    }
  } holder{*context, event};
  *out = std::make_shared<Signal>(context, event);
  holder.event = nullptr;
  return ZE_RESULT_SUCCESS;
}

}  // namespace heddle::level_zero
