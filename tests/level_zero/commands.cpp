// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Command queues, command lists and what is appended to them. What the application may change after a call is copied in it: the arguments of a kernel,
// the pattern of a fill, the arrays of events. What it must keep is only looked at when the command runs.
#include <algorithm>
#include <cstring>

#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace heddle::level_zero_stand_in {

namespace {

constexpr uint32_t kGroups = 2;  // the second one only copies
// Flags of later versions of the specification than the headers'.
constexpr uint32_t kListInOrder = 8, kQueueInOrder = 2;

void begin(Stream* stream, Device* device, Context* context) {
  stream->device = device;
  stream->context = context;
  state().streams.push_back(stream);
}

// A stream is kept: the thread that runs commands may still know it.
void end(Stream* stream, const char* what) {
  if (!stream->unfinished.empty()) broken_rule(stream->device, std::string(what) + " is destroyed before its commands have ended");
  drop(stream);
  auto& all = state().streams;
  all.erase(std::find(all.begin(), all.end(), stream));
}

ze_result_t check_queue(const ze_command_queue_desc_t& desc) {
  if (desc.ordinal >= kGroups) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return desc.index >= (desc.ordinal == 0 ? 4u : 2u) ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_SUCCESS;
}

bool is_synchronous(const ze_command_queue_desc_t& desc) {
  return desc.mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
}

// The list of a handle, if something can be appended to it.
ze_result_t open_list(ze_command_list_handle_t handle, List** out) {
  auto* list = object_of<List>(handle);
  if (list == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (list->device->root->lost) return state().loss;
  if (list->closed) {
    broken_rule(list->device, "a command is appended to a closed command list");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  *out = list;
  return ZE_RESULT_SUCCESS;
}

// Whether the event can be signaled or waited for by the list.
bool is_usable_in(const List& list, Event* event) {
  if (event == nullptr) return false;
  if (event->pool->context == list.context) return true;
  broken_rule(list.device, "an event of another context is used in a command list");
  return false;
}

// Adds the events, then appends the command or, to an immediate list, submits it.
ze_result_t append(Lock& lock, List* list, Command command, ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t* waits) {
  if (wait_count > 0 && waits == nullptr) return ZE_RESULT_ERROR_INVALID_SIZE;
  for (uint32_t i = 0; i < wait_count; ++i) {
    auto* event = waits[i] == nullptr ? nullptr : object_of<Event>(waits[i]);
    if (!is_usable_in(*list, event)) return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
    command.waits.push_back(event);
  }
  if (signal != nullptr) {
    command.signal = object_of<Event>(signal);
    if (!is_usable_in(*list, command.signal)) return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
  }
  if (list->device->root->lost) return state().loss;
  auto shared = std::make_shared<const Command>(std::move(command));
  if (list->stream == nullptr) {
    list->commands.push_back(std::move(shared));
    return ZE_RESULT_SUCCESS;
  }
  submit(list->stream.get(), std::move(shared), list);
  if (!list->synchronous) return ZE_RESULT_SUCCESS;
  return wait_until(lock, list->device, UINT64_MAX, [list] { return list->stream->unfinished.empty(); });
}

// Whether a command of the list may access the bytes; else reports it.
bool can_access(const List& list, const Context* other, const void* address, size_t size, const char* what) {
  if (size == 0) return true;
  const std::string wrong = check_access(*list.device, list.context, other, address, size);
  if (!wrong.empty()) broken_rule(list.device, std::string(what) + ": " + wrong + " when it is appended");
  return wrong.empty();
}

ze_result_t append_copy(Lock& lock, ze_command_list_handle_t handle, Command command, ze_event_handle_t signal, uint32_t wait_count,
                        ze_event_handle_t* waits) {
  List* list = nullptr;
  if (const ze_result_t result = open_list(handle, &list); result != ZE_RESULT_SUCCESS) return result;
  const CopyWork& copy = command.copy;
  const size_t to_size = copy.width == 0 ? 0 : (copy.depth - 1) * copy.to_slice + (copy.height - 1) * copy.to_pitch + copy.width;
  const size_t from_size = copy.width == 0 ? 0 : (copy.depth - 1) * copy.from_slice + (copy.height - 1) * copy.from_pitch + copy.width;
  if (!can_access(*list, copy.from_context, copy.to, to_size, "the destination of a copy") ||
      !can_access(*list, copy.from_context, copy.from, from_size, "the source of a copy")) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  const auto to = reinterpret_cast<uintptr_t>(copy.to), from = reinterpret_cast<uintptr_t>(copy.from);
  if (copy.height == 1 && copy.depth == 1 && to < from + from_size && from < to + to_size) {
    broken_rule(list->device, "the source and the destination of a copy overlap");
    return ZE_RESULT_ERROR_OVERLAPPING_REGIONS;
  }
  return append(lock, list, std::move(command), signal, wait_count, waits);
}

// The launch of a kernel, with all that it takes from the kernel's state.
ze_result_t make_launch(const List& list, Kernel& kernel, const ze_group_count_t& count, Command* out) {
  const auto refuse = [&](ze_result_t result, const std::string& why) {
    broken_rule(list.device, "a launch of '" + kernel.info->name + "': " + why);
    return result;
  };
  if (list.ordinal != 0) return refuse(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, "the command list is for a queue that only copies");
  if (kernel.module->device->root != list.device->root) {
    return refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "its module is of another device than the command list");
  }
  if (!kernel.has_group) return refuse(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, "zeKernelSetGroupSize was not called");
  uint64_t local_bytes = kernel.info->local_bytes;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const ArgumentValue& value = kernel.arguments[i];
    if (!value.is_set) return refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "argument " + std::to_string(i) + " is not set");
    local_bytes += value.local_bytes;
    if (kernel.info->arguments[i].kind != ArgumentInfo::kGlobal) continue;
    const void* address = nullptr;
    memcpy(&address, value.bytes.data(), sizeof address);
    if (address == nullptr) continue;
    const std::string wrong = check_access(*list.device, list.context, nullptr, address, 1);
    if (!wrong.empty()) return refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "argument " + std::to_string(i) + ": " + wrong);
  }
  if (local_bytes > settings().local_bytes) {
    return refuse(
        ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY,
        "it needs " + std::to_string(local_bytes) + " bytes of local memory; a workgroup has " + std::to_string(settings().local_bytes));
  }
  out->work = Work::kLaunch;
  out->kernel = &kernel;
  out->arguments = kernel.arguments;
  std::copy_n(kernel.group, 3, out->group);
  out->count = count;
  return ZE_RESULT_SUCCESS;
}

}  // namespace

}  // namespace heddle::level_zero_stand_in

ze_result_t zeCommandQueueCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice, const ze_command_queue_desc_t* desc,
                                 ze_command_queue_handle_t* phCommandQueue) {
  const Lock lock(state().mutex);
  auto* context = object_of<Context>(hContext);
  auto* device = object_of<Device>(hDevice);
  if (context == nullptr || device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (device->root->lost) return state().loss;
  if (const ze_result_t result = check_queue(*desc); result != ZE_RESULT_SUCCESS) return result;
  auto* queue = new Queue();
  queue->ordinal = desc->ordinal;
  queue->synchronous = is_synchronous(*desc);
  queue->stream.in_order = (desc->flags & kQueueInOrder) != 0;
  begin(&queue->stream, device, context);
  *phCommandQueue = reinterpret_cast<ze_command_queue_handle_t>(static_cast<Object*>(queue));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandQueueDestroy(ze_command_queue_handle_t hCommandQueue) {
  const Lock lock(state().mutex);
  auto* queue = object_of<Queue>(hCommandQueue);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  end(&queue->stream, "a command queue");
  queue->destroyed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t hCommandQueue, uint32_t numCommandLists,
                                              ze_command_list_handle_t* phCommandLists, ze_fence_handle_t hFence) {
  Lock lock(state().mutex);
  auto* queue = object_of<Queue>(hCommandQueue);
  auto* fence = hFence == nullptr ? nullptr : object_of<Fence>(hFence);
  if (queue == nullptr || (hFence != nullptr && fence == nullptr)) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Device* device = queue->stream.device;
  if (device->root->lost) return state().loss;
  if (fence != nullptr && fence->queue != queue) {
    broken_rule(device, "command lists are executed with a fence of another queue");
    return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
  }
  if (state().refused_lists > 0) {
    --state().refused_lists;
    return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  }
  for (uint32_t i = 0; i < numCommandLists; ++i) {
    auto* list = object_of<List>(phCommandLists[i]);
    if (list == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    std::string wrong;
    if (list->stream != nullptr) wrong = "is an immediate one";
    if (!list->closed) wrong = "is not closed";
    if (list->ordinal != queue->ordinal) wrong = "is for another group of queues";
    if (list->context != queue->stream.context) wrong = "is of another context";
    if (list->device->root != device->root) wrong = "is of another device";
    if (is_in_use(*list) && list->runs_on != &queue->stream) wrong = "still runs on another queue";
    for (const auto& command : list->commands) {
      if (command->kernel != nullptr && command->kernel->destroyed) wrong = "has the launch of a destroyed kernel";
      if (command->signal != nullptr && command->signal->destroyed) wrong = "signals a destroyed event";
      if (std::any_of(command->waits.begin(), command->waits.end(), [](const Event* e) { return e->destroyed; }))
        wrong = "waits for a destroyed event";
    }
    if (!wrong.empty()) {
      broken_rule(device, "a command list that is executed " + wrong);
      return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    list->runs_on = &queue->stream;
    for (const auto& command : list->commands) submit(&queue->stream, command, list);
    // The device is at the end of a list for a while after the last command has ended.
    Command end;
    end.work = Work::kListEnd;
    submit(&queue->stream, std::make_shared<const Command>(std::move(end)), list);
  }
  if (fence != nullptr) {
    Command command;
    command.work = Work::kFence;
    command.fence = fence;
    submit(&queue->stream, std::make_shared<const Command>(std::move(command)), nullptr);
  }
  if (!queue->synchronous) return ZE_RESULT_SUCCESS;
  return wait_until(lock, device, UINT64_MAX, [queue] { return queue->stream.unfinished.empty(); });
}

ze_result_t zeCommandQueueSynchronize(ze_command_queue_handle_t hCommandQueue, uint64_t timeout) {
  Lock lock(state().mutex);
  auto* queue = object_of<Queue>(hCommandQueue);
  if (queue == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return wait_until(lock, queue->stream.device, timeout, [queue] { return queue->stream.unfinished.empty(); });
}

ze_result_t zeCommandListCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice, const ze_command_list_desc_t* desc,
                                ze_command_list_handle_t* phCommandList) {
  const Lock lock(state().mutex);
  auto* context = object_of<Context>(hContext);
  auto* device = object_of<Device>(hDevice);
  if (context == nullptr || device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (device->root->lost) return state().loss;
  if (desc->commandQueueGroupOrdinal >= kGroups) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if ((desc->flags & kListInOrder) != 0)
    return unsupported("zeCommandListCreate with the flag for lists in order, which is later than version 1.5");
  auto* list = new List();
  list->context = context;
  list->device = device;
  list->ordinal = desc->commandQueueGroupOrdinal;
  *phCommandList = reinterpret_cast<ze_command_list_handle_t>(static_cast<Object*>(list));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListCreateImmediate(ze_context_handle_t hContext, ze_device_handle_t hDevice, const ze_command_queue_desc_t* altdesc,
                                         ze_command_list_handle_t* phCommandList) {
  const Lock lock(state().mutex);
  if (!settings().immediate) return unsupported("zeCommandListCreateImmediate, since HEDDLE_ZE_IMMEDIATE is 0");
  auto* context = object_of<Context>(hContext);
  auto* device = object_of<Device>(hDevice);
  if (context == nullptr || device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (device->root->lost) return state().loss;
  if (const ze_result_t result = check_queue(*altdesc); result != ZE_RESULT_SUCCESS) return result;
  auto* list = new List();
  list->context = context;
  list->device = device;
  list->ordinal = altdesc->ordinal;
  list->synchronous = is_synchronous(*altdesc);
  list->stream = std::make_unique<Stream>();
  list->stream->in_order = (altdesc->flags & kQueueInOrder) != 0;
  begin(list->stream.get(), device, context);
  *phCommandList = reinterpret_cast<ze_command_list_handle_t>(static_cast<Object*>(list));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListDestroy(ze_command_list_handle_t hCommandList) {
  const Lock lock(state().mutex);
  auto* list = object_of<List>(hCommandList);
  if (list == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (list->stream != nullptr) {
    end(list->stream.get(), "an immediate command list");
  } else if (is_in_use(*list)) {
    broken_rule(list->device, "a command list is destroyed before its commands have ended");
  }
  list->destroyed = true;
  list->commands.clear();
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListClose(ze_command_list_handle_t hCommandList) {
  const Lock lock(state().mutex);
  auto* list = object_of<List>(hCommandList);
  if (list == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  list->closed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListReset(ze_command_list_handle_t hCommandList) {
  const Lock lock(state().mutex);
  auto* list = object_of<List>(hCommandList);
  if (list == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (list->stream == nullptr && is_in_use(*list)) broken_rule(list->device, "a command list is reset before its commands have ended");
  list->closed = false;
  list->commands.clear();
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t hCommandList, void* dstptr, const void* srcptr, size_t size,
                                          ze_event_handle_t hSignalEvent, uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  Command command;
  command.work = Work::kCopy;
  command.copy.to = dstptr;
  command.copy.from = srcptr;
  command.copy.width = size;
  return append_copy(lock, hCommandList, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendMemoryCopyFromContext(ze_command_list_handle_t hCommandList, void* dstptr, ze_context_handle_t hContextSrc,
                                                     const void* srcptr, size_t size, ze_event_handle_t hSignalEvent,
                                                     uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  auto* context = object_of<Context>(hContextSrc);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Command command;
  command.work = Work::kCopy;
  command.copy.to = dstptr;
  command.copy.from = srcptr;
  command.copy.width = size;
  command.copy.from_context = context;
  return append_copy(lock, hCommandList, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendMemoryCopyRegion(ze_command_list_handle_t hCommandList, void* dstptr, const ze_copy_region_t* dstRegion,
                                                uint32_t dstPitch, uint32_t dstSlicePitch, const void* srcptr,
                                                const ze_copy_region_t* srcRegion, uint32_t srcPitch, uint32_t srcSlicePitch,
                                                ze_event_handle_t hSignalEvent, uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  const auto offset = [](const ze_copy_region_t& r, uint32_t pitch, uint32_t slice) {
    return size_t{r.originZ} * slice + size_t{r.originY} * pitch + r.originX;
  };
  Command command;
  command.work = Work::kCopy;
  CopyWork& copy = command.copy;
  if (dstRegion->width != srcRegion->width || dstRegion->height != srcRegion->height || dstRegion->depth != srcRegion->depth) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  copy.width = dstRegion->width;
  copy.height = dstRegion->height;
  copy.depth = std::max(dstRegion->depth, 1u);  // 0 for two dimensions
  if (copy.height == 0) copy.width = 0;
  if ((copy.height > 1 && (dstPitch < copy.width || srcPitch < copy.width)) ||
      (copy.depth > 1 && (dstSlicePitch < size_t{dstPitch} * copy.height || srcSlicePitch < size_t{srcPitch} * copy.height))) {
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  // As kernels of Intel's driver did until 2025.
  if (copy.height > 1 && (copy.height - 1) * uint64_t{std::max(dstPitch, srcPitch)} > UINT32_MAX) {
    List* list = nullptr;
    if (const ze_result_t result = open_list(hCommandList, &list); result != ZE_RESULT_SUCCESS) return result;
    broken_rule(list->device, "the rows of a copy are further apart than 32 bits count");
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  copy.to = static_cast<std::byte*>(dstptr) + offset(*dstRegion, dstPitch, dstSlicePitch);
  copy.from = static_cast<const std::byte*>(srcptr) + offset(*srcRegion, srcPitch, srcSlicePitch);
  copy.to_pitch = dstPitch;
  copy.to_slice = dstSlicePitch;
  copy.from_pitch = srcPitch;
  copy.from_slice = srcSlicePitch;
  return append_copy(lock, hCommandList, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t hCommandList, void* ptr, const void* pattern, size_t pattern_size,
                                          size_t size, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                          ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  List* list = nullptr;
  if (const ze_result_t result = open_list(hCommandList, &list); result != ZE_RESULT_SUCCESS) return result;
  if (pattern_size == 0 || (pattern_size & (pattern_size - 1)) != 0 || pattern_size > (list->ordinal == 0 ? 128u : 16u)) {
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  if (!can_access(*list, nullptr, ptr, size, "a fill")) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Command command;
  command.work = Work::kFill;
  command.copy.to = ptr;
  command.copy.width = size;
  const auto* bytes = static_cast<const std::byte*>(pattern);
  command.pattern.assign(bytes, bytes + pattern_size);
  return append(lock, list, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

static ze_result_t append_plain(ze_command_list_handle_t hCommandList, Work work, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  List* list = nullptr;
  if (const ze_result_t result = open_list(hCommandList, &list); result != ZE_RESULT_SUCCESS) return result;
  Command command;
  command.work = work;
  return append(lock, list, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t hCommandList, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                       ze_event_handle_t* phWaitEvents) {
  return append_plain(hCommandList, Work::kBarrier, hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendMemoryRangesBarrier(ze_command_list_handle_t hCommandList, uint32_t, const size_t*, const void**,
                                                   ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                                   ze_event_handle_t* phWaitEvents) {
  return append_plain(hCommandList, Work::kBarrier, hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendSignalEvent(ze_command_list_handle_t hCommandList, ze_event_handle_t hEvent) {
  return append_plain(hCommandList, Work::kSignal, hEvent, 0, nullptr);
}

ze_result_t zeCommandListAppendWaitOnEvents(ze_command_list_handle_t hCommandList, uint32_t numEvents, ze_event_handle_t* phEvents) {
  return append_plain(hCommandList, Work::kWait, nullptr, numEvents, phEvents);
}

ze_result_t zeCommandListAppendEventReset(ze_command_list_handle_t hCommandList, ze_event_handle_t hEvent) {
  Lock lock(state().mutex);
  List* list = nullptr;
  if (const ze_result_t result = open_list(hCommandList, &list); result != ZE_RESULT_SUCCESS) return result;
  auto* event = object_of<Event>(hEvent);
  if (!is_usable_in(*list, event)) return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
  Command command;
  command.work = Work::kReset;
  command.reset = event;
  return append(lock, list, std::move(command), nullptr, 0, nullptr);
}

ze_result_t zeCommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t hCommandList, uint64_t* dstptr, ze_event_handle_t hSignalEvent,
                                                    uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  List* list = nullptr;
  if (const ze_result_t result = open_list(hCommandList, &list); result != ZE_RESULT_SUCCESS) return result;
  if (!can_access(*list, nullptr, dstptr, sizeof *dstptr, "a timestamp")) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Command command;
  command.work = Work::kTimestamp;
  command.copy.to = dstptr;
  command.copy.width = sizeof *dstptr;
  return append(lock, list, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendQueryKernelTimestamps(ze_command_list_handle_t hCommandList, uint32_t numEvents, ze_event_handle_t* phEvents,
                                                     void* dstptr, const size_t* pOffsets, ze_event_handle_t hSignalEvent,
                                                     uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  List* list = nullptr;
  if (const ze_result_t result = open_list(hCommandList, &list); result != ZE_RESULT_SUCCESS) return result;
  Command command;
  command.work = Work::kQueryTimestamps;
  command.copy.to = dstptr;
  command.copy.width = 0;
  for (uint32_t i = 0; i < numEvents; ++i) {
    auto* event = phEvents[i] == nullptr ? nullptr : object_of<Event>(phEvents[i]);
    if (!is_usable_in(*list, event)) return ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT;
    if ((event->pool->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) == 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    command.queried.push_back(event);
    const size_t offset = pOffsets == nullptr ? i * sizeof(ze_kernel_timestamp_result_t) : pOffsets[i];
    command.offsets.push_back(offset);
    command.copy.width = std::max(command.copy.width, offset + sizeof(ze_kernel_timestamp_result_t));
  }
  if (!can_access(*list, nullptr, dstptr, command.copy.width, "a query of timestamps")) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return append(lock, list, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zeCommandListAppendLaunchKernel(ze_command_list_handle_t hCommandList, ze_kernel_handle_t hKernel,
                                            const ze_group_count_t* pLaunchFuncArgs, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                            ze_event_handle_t* phWaitEvents) {
  Lock lock(state().mutex);
  List* list = nullptr;
  if (const ze_result_t result = open_list(hCommandList, &list); result != ZE_RESULT_SUCCESS) return result;
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Command command;
  if (const ze_result_t result = make_launch(*list, *kernel, *pLaunchFuncArgs, &command); result != ZE_RESULT_SUCCESS) return result;
  return append(lock, list, std::move(command), hSignalEvent, numWaitEvents, phWaitEvents);
}

// Hints.
ze_result_t zeCommandListAppendMemoryPrefetch(ze_command_list_handle_t, const void*, size_t) {
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeCommandListAppendMemAdvise(ze_command_list_handle_t, ze_device_handle_t, const void*, size_t, ze_memory_advice_t) {
  return ZE_RESULT_SUCCESS;
}
