// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Events, their pools, and fences.
#include <cstdio>

#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace heddle::level_zero_stand_in {

namespace {

ze_event_handle_t handle_of(Event* event) {
  return reinterpret_cast<ze_event_handle_t>(static_cast<Object*>(event));
}

}  // namespace

}  // namespace heddle::level_zero_stand_in

ze_result_t zeEventPoolCreate(ze_context_handle_t hContext, const ze_event_pool_desc_t* desc, uint32_t numDevices,
                              ze_device_handle_t* phDevices, ze_event_pool_handle_t* phEventPool) {
  const Lock lock(state().mutex);
  auto* context = object_of<Context>(hContext);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < numDevices; ++i) {
    if (object_of<Device>(phDevices[i]) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  if (desc->count == 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  if ((desc->flags & ZE_EVENT_POOL_FLAG_IPC) != 0) return unsupported("zeEventPoolCreate with ZE_EVENT_POOL_FLAG_IPC");
  auto* pool = new EventPool();
  pool->context = context;
  pool->count = desc->count;
  pool->flags = desc->flags;
  *phEventPool = reinterpret_cast<ze_event_pool_handle_t>(static_cast<Object*>(pool));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t hEventPool) {
  const Lock lock(state().mutex);
  auto* pool = object_of<EventPool>(hEventPool);
  if (pool == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!pool->used.empty())
    broken_rule(nullptr, "an event pool is destroyed before " + std::to_string(pool->used.size()) + " of its events");
  pool->destroyed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventCreate(ze_event_pool_handle_t hEventPool, const ze_event_desc_t* desc, ze_event_handle_t* phEvent) {
  const Lock lock(state().mutex);
  auto* pool = object_of<EventPool>(hEventPool);
  if (pool == nullptr || desc->index >= pool->count) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!pool->used.insert(desc->index).second) {
    broken_rule(nullptr, "index " + std::to_string(desc->index) + " of an event pool is used by two events");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  auto* event = new Event();
  event->pool = pool;
  event->index = desc->index;
  event->signal_scope = desc->signal;
  *phEvent = handle_of(event);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventDestroy(ze_event_handle_t hEvent) {
  const Lock lock(state().mutex);
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (is_in_use(*event)) broken_rule(nullptr, "an event is destroyed before the commands that use it have ended");
  event->pool->used.erase(event->index);
  event->destroyed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventHostSignal(ze_event_handle_t hEvent) {
  const Lock lock(state().mutex);
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  event->signaled = true;
  state().changed.notify_all();
  state().work.notify_one();
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventHostSynchronize(ze_event_handle_t hEvent, uint64_t timeout) {
  Lock lock(state().mutex);
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if ((event->pool->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE) == 0) {
    broken_rule(nullptr, "the host waits for an event whose pool is not visible to it");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  // The loss of any device ends the wait: a pool may be for several.
  const ze_result_t result =
      wait_until(lock, state().driver.all.front().get(), timeout, [event] { return event->signaled || is_any_lost(); });
  return event->signaled ? ZE_RESULT_SUCCESS : is_any_lost() ? state().loss : result;
}

ze_result_t zeEventQueryStatus(ze_event_handle_t hEvent) {
  const Lock lock(state().mutex);
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if ((event->pool->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE) == 0) {
    broken_rule(nullptr, "the host asks for the status of an event whose pool is not visible to it");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  return event->signaled ? ZE_RESULT_SUCCESS : is_any_lost() ? state().loss : ZE_RESULT_NOT_READY;
}

ze_result_t zeEventHostReset(ze_event_handle_t hEvent) {
  const Lock lock(state().mutex);
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  event->signaled = false;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeEventQueryKernelTimestamp(ze_event_handle_t hEvent, ze_kernel_timestamp_result_t* dstptr) {
  const Lock lock(state().mutex);
  auto* event = object_of<Event>(hEvent);
  if (event == nullptr || (event->pool->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) == 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!event->signaled) return ZE_RESULT_NOT_READY;
  *dstptr = {{event->start, event->end}, {event->start, event->end}};
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeFenceCreate(ze_command_queue_handle_t hCommandQueue, const ze_fence_desc_t* desc, ze_fence_handle_t* phFence) {
  const Lock lock(state().mutex);
  auto* queue = object_of<Queue>(hCommandQueue);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  auto* fence = new Fence();
  fence->queue = queue;
  fence->signaled = (desc->flags & ZE_FENCE_FLAG_SIGNALED) != 0;
  *phFence = reinterpret_cast<ze_fence_handle_t>(static_cast<Object*>(fence));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeFenceDestroy(ze_fence_handle_t hFence) {
  const Lock lock(state().mutex);
  auto* fence = object_of<Fence>(hFence);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (is_in_use(*fence)) broken_rule(fence->queue->stream.device, "a fence is destroyed before it is signaled");
  fence->destroyed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeFenceHostSynchronize(ze_fence_handle_t hFence, uint64_t timeout) {
  Lock lock(state().mutex);
  auto* fence = object_of<Fence>(hFence);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return wait_until(lock, fence->queue->stream.device, timeout, [fence] { return fence->signaled; });
}

ze_result_t zeFenceQueryStatus(ze_fence_handle_t hFence) {
  const Lock lock(state().mutex);
  auto* fence = object_of<Fence>(hFence);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (fence->queue->stream.device->root->lost) return state().loss;
  return fence->signaled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

ze_result_t zeFenceReset(ze_fence_handle_t hFence) {
  const Lock lock(state().mutex);
  auto* fence = object_of<Fence>(hFence);
  if (fence == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (is_in_use(*fence)) broken_rule(fence->queue->stream.device, "a fence is reset before it is signaled");
  fence->signaled = false;
  return ZE_RESULT_SUCCESS;
}
