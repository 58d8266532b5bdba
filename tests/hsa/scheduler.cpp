// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes packets from queues, runs kernels, moves copies. Source of the packets' meaning: HSA Runtime Programmer's Reference Manual 1.2 and HSA
// Platform System Architecture Specification 1.2, "Architected Queuing Language"; AMD's packet in hsa_ext_amd.h.
#include "tests/hsa/scheduler.h"

#include <sys/mman.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstring>
#include <thread>

namespace heddle::hsa {

namespace {

constexpr uint64_t kChunk = 256 << 10;  // of a copy, at most, before something else may happen

uint32_t bits(uint32_t value, unsigned first, unsigned count) {
  return value >> first & ((1u << count) - 1);
}

uint32_t packet_type(uint16_t header) {
  return bits(header, HSA_PACKET_HEADER_TYPE, HSA_PACKET_HEADER_WIDTH_TYPE);
}

std::byte* packet_at(const Queue& q, uint64_t index) {
  return static_cast<std::byte*>(q.shared->hsa_queue.base_address) + index % q.shared->hsa_queue.size * 64;
}

uint16_t header_at(const Queue& q, uint64_t index) {
  return __atomic_load_n(reinterpret_cast<uint16_t*>(packet_at(q, index)), __ATOMIC_ACQUIRE);
}

template <class Packet>
Packet read_packet(const Queue& q, uint64_t index) {
  static_assert(sizeof(Packet) == 64);
  Packet p;
  std::memcpy(&p, packet_at(q, index), sizeof(p));
  return p;
}

bool zero(hsa_signal_t signal, const char* where) {
  return signal.handle == 0 || load(signal_of(signal, where)) == 0;
}

// Whether the packet at the front may be taken as far as other signals are concerned.
bool dependencies_hold(const Queue& q, uint16_t header) {
  switch (packet_type(header)) {
    case HSA_PACKET_TYPE_BARRIER_AND: {
      const auto p = read_packet<hsa_barrier_and_packet_t>(q, q.read);
      return std::all_of(std::begin(p.dep_signal), std::end(p.dep_signal), [](hsa_signal_t s) { return zero(s, "a barrier-AND packet"); });
    }
    case HSA_PACKET_TYPE_BARRIER_OR: {
      const auto p = read_packet<hsa_barrier_or_packet_t>(q, q.read);
      bool any = true, holds = false;
      for (const hsa_signal_t s : p.dep_signal) {
        if (s.handle == 0) continue;
        any = false;
        holds |= zero(s, "a barrier-OR packet");
      }
      return any || holds;
    }
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC: {
      const auto p = read_packet<hsa_amd_barrier_value_packet_t>(q, q.read);
      if (p.header.AmdFormat != HSA_AMD_PACKET_TYPE_BARRIER_VALUE || p.signal.handle == 0) return true;
      return holds(load(signal_of(p.signal, "a barrier-value packet")) & p.mask, static_cast<hsa_signal_condition_t>(p.cond), p.value);
    }
    default:
      return true;
  }
}

hsa_status_t status_of(const std::string& fault) {
  if (fault.find("not implemented") != std::string::npos) return static_cast<hsa_status_t>(HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION);
  if (fault.find("bytes at 0x") != std::string::npos || fault.find("outside") != std::string::npos)
    return static_cast<hsa_status_t>(HSA_STATUS_ERROR_MEMORY_FAULT);
  return HSA_STATUS_ERROR_EXCEPTION;
}

}  // namespace

// The interpreter needs little; LLVM's disassembler and its printer need more.
constexpr size_t kStackBytes = 1 << 20;

Fiber::~Fiber() {
  if (stack_ != nullptr) ::munmap(stack_, kStackBytes);
}

void Fiber::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(uint64_t{high} << 32 | low);
  self->work_();
  self->active_ = false;
  ::swapcontext(&self->there_, &self->here_);  // and never come back
}

void Fiber::begin(std::function<void()> work) {
  if (stack_ == nullptr) {
    void* const p = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) die("the host has no memory for the stack of a kernel");
    stack_ = static_cast<std::byte*>(p);
    ::mprotect(stack_, 4096, PROT_NONE);
  }
  work_ = std::move(work);
  active_ = true;
  ::getcontext(&there_);
  there_.uc_stack.ss_sp = stack_;
  there_.uc_stack.ss_size = kStackBytes;
  there_.uc_link = nullptr;
  const auto self = reinterpret_cast<uint64_t>(this);
  ::makecontext(&there_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void Fiber::turn() {
  ::swapcontext(&here_, &there_);
}

void Fiber::yield() {
  ::swapcontext(&there_, &here_);
}

Scheduler& scheduler() {
  static auto* s = new Scheduler;
  return *s;
}

void Scheduler::start() {
  std::thread([this] { loop(); }).detach();
}

void Scheduler::add(std::shared_ptr<Queue> queue) {
  const std::lock_guard hold(mutex_);
  queues_.push_back(std::move(queue));
}

std::shared_ptr<Queue> Scheduler::find(const hsa_queue_t* queue) {
  const std::lock_guard hold(mutex_);
  for (const auto& q : queues_) {
    if (&q->shared->hsa_queue == queue) return q;
  }
  return nullptr;
}

// Packets that were not taken are dropped, as the specification says; the kernel that runs goes on to its end.
void Scheduler::remove(const hsa_queue_t* queue) {
  std::shared_ptr<Queue> gone = find(queue);
  if (gone == nullptr) return;
  for (;;) {
    {
      const std::lock_guard hold(mutex_);
      gone->broken = true;
      if (!gone->fiber.active()) {
        std::erase(queues_, gone);
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Scheduler::add(Copy copy) {
  {
    const std::lock_guard hold(mutex_);
    copies_.push_back({std::move(copy)});
  }
  changed();
}

void start_scheduler() {
  scheduler().start();
}

void start_copy(Copy copy) {
  scheduler().add(std::move(copy));
}

// When something that could happen now is allowed to happen.
uint64_t Scheduler::delay() {
  const uint64_t unit = settings().delay_us * 1000;
  if (unit == 0) return now();
  const uint64_t kind = random_.below(16);
  if (kind < 8) return now();
  return now() + (kind < 15 ? random_.below(unit) : random_.below(unit * 20));
}

void Scheduler::complete(hsa_signal_t signal, uint64_t started) {
  if (signal.handle == 0) return;
  amd_signal_t* const s = signal_of(signal, "a completion signal");
  s->start_ts = started;
  s->end_ts = now();
  hsa::add(s, -1);
}

void Scheduler::break_queue(Queue& q, hsa_status_t status, const std::string& text) {
  q.broken = true;
  std::fprintf(stderr, "hsa stand-in: queue %s: %s\n", hex(reinterpret_cast<uint64_t>(&q.shared->hsa_queue)).c_str(), text.c_str());
  if (q.callback == nullptr) die("the queue has no callback that could hear of it");
  // The callback may wait for anything; the other queues go on.
  std::thread([callback = q.callback, queue = &q.shared->hsa_queue, data = q.data, status] { callback(status, queue, data); }).detach();
}

bool Scheduler::packet_ready(Queue& q, uint64_t& not_before) {
  // A packet counts once the doorbell has told of it.
  if (load(q.doorbell) < static_cast<int64_t>(q.read) || q.read >= __atomic_load_n(&q.shared->write_dispatch_id, __ATOMIC_ACQUIRE))
    return false;
  const uint16_t header = header_at(q, q.read);
  if (packet_type(header) == HSA_PACKET_TYPE_INVALID) return false;
  const bool idle = !q.fiber.active() && q.launched.empty();
  if (bits(header, HSA_PACKET_HEADER_BARRIER, HSA_PACKET_HEADER_WIDTH_BARRIER) != 0 && !idle) return false;
  if (q.launched.size() >= 8 || !dependencies_hold(q, header)) return false;
  if (q.head_seen != q.read + 1) {
    q.head_seen = q.read + 1;
    q.head_not_before = delay();
  }
  not_before = q.head_not_before;
  return true;
}

void Scheduler::take_packet(Queue& q) {
  const uint64_t index = q.read, started = now();
  const uint16_t header = header_at(q, index);
  const auto any = read_packet<hsa_barrier_and_packet_t>(q, index);
  // The slot is free from here on.
  std::memset(packet_at(q, index) + 4, 0xee, 60);
  __atomic_store_n(reinterpret_cast<uint32_t*>(packet_at(q, index)), uint32_t{HSA_PACKET_TYPE_INVALID}, __ATOMIC_RELEASE);
  ++q.read;
  __atomic_store_n(&q.shared->read_dispatch_id, q.read, __ATOMIC_RELEASE);
  ++totals().packets;
  if (settings().trace) {
    trace("queue " + hex(reinterpret_cast<uint64_t>(&q.shared->hsa_queue)) + ", packet " + std::to_string(index) + ", header " +
          hex(header) + ", completion signal " + hex(any.completion_signal.handle));
  }
  switch (packet_type(header)) {
    case HSA_PACKET_TYPE_KERNEL_DISPATCH: {
      Queue::Kernel kernel{};
      std::memcpy(&kernel.packet, &any, sizeof(kernel.packet));
      kernel.not_before = delay();
      q.launched.push_back(kernel);
      return;
    }
    case HSA_PACKET_TYPE_BARRIER_AND:
    case HSA_PACKET_TYPE_BARRIER_OR:
      complete(any.completion_signal, started);
      return;
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC: {
      hsa_amd_barrier_value_packet_t packet;
      std::memcpy(&packet, &any, sizeof(packet));
      if (packet.header.AmdFormat == HSA_AMD_PACKET_TYPE_BARRIER_VALUE) {
        complete(packet.completion_signal, started);
        return;
      }
      break_queue(q, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT,
                  "AMD's packet of format " + std::to_string(packet.header.AmdFormat) + " is not implemented");
      return;
    }
    default:
      break_queue(q, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT,
                  "packets of type " + std::to_string(packet_type(header)) + " are not implemented");
      return;
  }
}

void Scheduler::start_kernel(Queue& q, size_t index) {
  q.packet = q.launched[index].packet;
  q.launched.erase(q.launched.begin() + static_cast<ptrdiff_t>(index));
  q.started = now();
  q.fault.clear();
  q.fiber.begin([this, &q] { run_kernel(q); });
  continue_kernel(q);
}

// On the stack of the kernel.
void Scheduler::run_kernel(Queue& q) {
  const hsa_kernel_dispatch_packet_t& p = q.packet;
  LoadedKernel found;
  if (!find_kernel(p.kernel_object, found)) {
    q.fault = "the kernel object " + hex(p.kernel_object) + " of a packet is not a kernel of an executable that is loaded and frozen";
    return;
  }
  const amdgpu::Kernel& kernel = *found.kernel;
  const unsigned dimensions = bits(p.setup, HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS, HSA_KERNEL_DISPATCH_PACKET_SETUP_WIDTH_DIMENSIONS);
  const std::string who = "the packet for kernel '" + kernel.name + "'";
  if (dimensions == 0 || (dimensions < 2 && p.grid_size_y != 1) || (dimensions < 3 && p.grid_size_z != 1)) {
    q.fault = who + " has " + std::to_string(dimensions) + " dimensions and a grid of " + std::to_string(p.grid_size_x) + " x " +
              std::to_string(p.grid_size_y) + " x " + std::to_string(p.grid_size_z);
  } else if (p.group_segment_size < kernel.lds_bytes) {
    q.fault = who + " has " + std::to_string(p.group_segment_size) + " bytes of LDS; the kernel needs " + std::to_string(kernel.lds_bytes);
  } else if (p.private_segment_size < kernel.private_bytes) {
    q.fault = who + " has " + std::to_string(p.private_segment_size) + " bytes of private memory; the kernel needs " +
              std::to_string(kernel.private_bytes);
  }
  if (!q.fault.empty()) return;
  amdgpu::Dispatch dispatch;
  dispatch.grid = {p.grid_size_x, p.grid_size_y, p.grid_size_z};
  dispatch.block = {p.workgroup_size_x, p.workgroup_size_y, p.workgroup_size_z};
  dispatch.dynamic_lds_bytes = p.group_segment_size - kernel.lds_bytes;
  if (kernel.kernarg_bytes != 0) {
    std::string problem;
    const std::byte* const arguments = memory().find(reinterpret_cast<uint64_t>(p.kernarg_address), kernel.kernarg_bytes, false, problem);
    if (arguments == nullptr) {
      q.fault = who + " has arguments that the GPU cannot read: " + problem;
      return;
    }
    dispatch.kernarg = {arguments, kernel.kernarg_bytes};
  }
  amdgpu::Options options;
  options.seed = q.random.next();
  options.max_instructions = UINT64_MAX;
  options.add_code = false;
  options.between_turns = [&q] {
    if (q.quanta > 0) {
      --q.quanta;
    } else {
      q.fiber.yield();
    }
    return true;
  };
  q.waits = kernel.name.find("streamOpsWait") != std::string::npos;
  memory().begin_use();
  amdgpu::Outcome outcome = amdgpu::run(*found.code, kernel, dispatch, memory().for_kernel(), options);
  memory().end_use();
  q.fault = std::move(outcome.fault);
  q.statistics = std::move(outcome.statistics);
  if (settings().trace) {
    trace("kernel '" + kernel.name + "', " + std::to_string(q.statistics.workgroups) + " workgroups, " +
          std::to_string(q.statistics.instructions) + " instructions");
  }
}

void Scheduler::continue_kernel(Queue& q) {
  const uint64_t start = now();
  q.quanta = q.waits ? 4 : 1 + random_.below(64);
  q.fiber.turn();
  totals().kernel_ns += now() - start;
  if (!q.fiber.active()) finish_kernel(q);
}

void Scheduler::finish_kernel(Queue& q) {
  ++totals().kernels;
  totals().instructions += q.statistics.instructions;
  totals().lanes += q.statistics.lanes;
  q.statistics = {};
  q.waits = false;
  if (!q.fault.empty()) {
    break_queue(q, status_of(q.fault), q.fault);
    return;
  }
  complete(q.packet.completion_signal, q.started);
}

void Scheduler::move_copy(size_t index) {
  PendingCopy& c = copies_[index];
  if (c.started == 0) c.started = now();
  uint64_t budget = 1 + random_.below(kChunk);
  while (budget > 0 && c.part < c.copy.parts.size()) {
    const Copy::Part& part = c.copy.parts[c.part];
    const uint64_t bytes = std::min(budget, part.bytes - c.done);
    std::string problem;
    std::byte* const to = memory().find(part.destination + c.done, bytes, true, problem);
    const std::byte* const from = memory().find(part.source + c.done, bytes, false, problem);
    if (!problem.empty())
      die("a copy of " + std::to_string(part.bytes) + " bytes from " + hex(part.source) + " to " + hex(part.destination) + ": " + problem);
    std::memmove(to, from, bytes);
    budget -= bytes;
    c.done += bytes;
    totals().copied_bytes += bytes;
    if (c.done == part.bytes) {
      ++c.part;
      c.done = 0;
    }
  }
  if (c.part < c.copy.parts.size()) return;
  ++totals().copies;
  const hsa_signal_t completion = c.copy.completion;
  const uint64_t started = c.started;
  copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(index));
  complete(completion, started);
}

void Scheduler::loop() {
  // Not that of the thread that called hsa_init: the interpreter computes with the processor's operations.
  std::fesetenv(FE_DFL_ENV);
  uint64_t seen = 0;
  std::vector<Choice> choices;
  for (;;) {
    seen = changes();
    choices.clear();
    uint64_t next = UINT64_MAX;  // when something may happen
    bool pending = false, only_waits = true;
    std::unique_lock hold(mutex_);
    const uint64_t time = now();
    const auto offer = [&](Choice choice, uint64_t not_before, bool waits) {
      if (not_before > time) {
        next = std::min(next, not_before);
      } else {
        choices.push_back(choice);
        only_waits &= waits;
      }
    };
    for (const auto& q : queues_) {
      if (q->fiber.active()) {
        offer({Step::ContinueKernel, q.get()}, 0, q->waits);
        if (q->broken) continue;
      }
      if (q->broken) continue;
      if (!q->fiber.active()) {
        for (size_t n = 0; n < q->launched.size(); ++n) offer({Step::StartKernel, q.get(), n}, q->launched[n].not_before, false);
      }
      uint64_t not_before = 0;
      if (packet_ready(*q, not_before)) {
        offer({Step::TakePacket, q.get()}, not_before, false);
      } else {
        pending |= load(q->doorbell) >= static_cast<int64_t>(q->read);
      }
    }
    for (size_t n = 0; n < copies_.size(); ++n) {
      PendingCopy& c = copies_[n];
      if (c.not_before == 0) {
        const auto& all = c.copy.dependencies;
        if (!std::all_of(all.begin(), all.end(), [](hsa_signal_t s) { return zero(s, "a copy"); })) {
          pending = true;
          continue;
        }
        c.not_before = delay();
      }
      offer({Step::MoveCopy, nullptr, n}, c.not_before, false);
    }
    if (choices.empty()) {
      hold.unlock();
      const uint64_t longest = pending ? 200'000 : 100'000'000;  // the host may store into a signal's value directly
      wait_for_change(seen, next == UINT64_MAX ? longest : std::min(longest, next - time));
      continue;
    }
    const Choice choice = choices[random_.below(choices.size())];
    switch (choice.step) {
      case Step::TakePacket:
        take_packet(*choice.queue);
        break;
      case Step::StartKernel:
        start_kernel(*choice.queue, choice.index);
        break;
      case Step::ContinueKernel:
        continue_kernel(*choice.queue);
        break;
      case Step::MoveCopy:
        move_copy(choice.index);
        break;
    }
    hold.unlock();
    // Kernels that wait for the host leave it the processor.
    if (only_waits) wait_for_change(seen, std::min<uint64_t>(50'000, next == UINT64_MAX ? 50'000 : next - time));
  }
}

}  // namespace heddle::hsa

using namespace heddle::hsa;

extern "C" {

hsa_status_t hsa_queue_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                              void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data, uint32_t, uint32_t, hsa_queue_t** queue) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    if (!agent_index(agent, index) || index == 0) return refuse(HSA_STATUS_ERROR_INVALID_AGENT, where, "no such GPU");
    if (queue == nullptr || size < 64 || size > 131072 || (size & (size - 1)) != 0)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "a size of " + std::to_string(size) + " packets, or no result pointer");
    if (type != HSA_QUEUE_TYPE_MULTI && type != HSA_QUEUE_TYPE_SINGLE)
      return refuse(HSA_STATUS_ERROR_INVALID_QUEUE_CREATION, where, "queues of type " + std::to_string(type) + " are not implemented");
    static std::atomic<uint64_t> count{0};
    const uint64_t number = ++count;
    auto q = std::make_shared<Queue>(settings().seed * 1000 + number);
    q->shared_bytes = sizeof(amd_queue_t) + uint64_t{size} * 64;
    void* const p = ::mmap(nullptr, q->shared_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return refuse(HSA_STATUS_ERROR_OUT_OF_RESOURCES, where, "the host has no memory for a queue");
    hsa_signal_t doorbell{};
    const hsa_status_t status = create_signal(-1, AMD_SIGNAL_KIND_USER, &doorbell);
    if (status != HSA_STATUS_SUCCESS) return status;
    q->shared = new (p) amd_queue_t{};
    q->gpu = index;
    q->callback = callback;
    q->data = data;
    q->doorbell = signal_of(doorbell, where);
    hsa_queue_t& h = q->shared->hsa_queue;
    h.type = type;
    h.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
    h.base_address = static_cast<std::byte*>(p) + sizeof(amd_queue_t);
    h.doorbell_signal = doorbell;
    h.size = size;
    h.id = number;
    // Apertures as the interpreter has them.
    q->shared->group_segment_aperture_base_hi = 0x10000;
    q->shared->private_segment_aperture_base_hi = 0x20000;
    for (uint32_t n = 0; n < size; ++n) *reinterpret_cast<uint32_t*>(packet_at(*q, n)) = HSA_PACKET_TYPE_INVALID;
    *queue = &h;
    scheduler().add(std::move(q));
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_queue_destroy(hsa_queue_t* queue) {
  return guarded(__func__, [&](const char* where) {
    const auto q = scheduler().find(queue);
    if (q == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_QUEUE, where, "no such queue");
    scheduler().remove(queue);
    const hsa_status_t status = hsa_signal_destroy(queue->doorbell_signal);
    memory().retire_queue(q->shared, q->shared_bytes);
    return status;
  });
}

uint64_t hsa_queue_add_write_index_screlease(const hsa_queue_t* queue, uint64_t value) {
  auto* const q = reinterpret_cast<amd_queue_t*>(const_cast<hsa_queue_t*>(queue));
  return __atomic_fetch_add(&q->write_dispatch_id, value, __ATOMIC_ACQ_REL);
}

uint64_t hsa_queue_load_read_index_relaxed(const hsa_queue_t* queue) {
  return __atomic_load_n(&reinterpret_cast<const amd_queue_t*>(queue)->read_dispatch_id, __ATOMIC_RELAXED);
}

uint64_t hsa_queue_load_read_index_scacquire(const hsa_queue_t* queue) {
  return __atomic_load_n(&reinterpret_cast<const amd_queue_t*>(queue)->read_dispatch_id, __ATOMIC_ACQUIRE);
}

uint64_t hsa_queue_load_write_index_relaxed(const hsa_queue_t* queue) {
  return __atomic_load_n(&reinterpret_cast<const amd_queue_t*>(queue)->write_dispatch_id, __ATOMIC_RELAXED);
}

hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t* queue, hsa_amd_queue_priority_t) {
  return guarded(__func__, [&](const char* where) {
    // A priority is a hint; the seed chooses anyhow.
    if (scheduler().find(queue) == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_QUEUE, where, "no such queue");
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t*, uint32_t, const uint32_t*) {
  return guarded(__func__, [&](const char* where) { return refuse(HSA_STATUS_ERROR, where, "it is not implemented"); });
}

hsa_status_t hsa_amd_memory_async_copy(void* dst, hsa_agent_t dst_agent, const void* src, hsa_agent_t src_agent, size_t size,
                                       uint32_t num_dep_signals, const hsa_signal_t* dep_signals, hsa_signal_t completion_signal) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    if (dst == nullptr || src == nullptr || !agent_index(dst_agent, index) || !agent_index(src_agent, index))
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no memory, or no such agent");
    if ((num_dep_signals == 0) != (dep_signals == nullptr) && num_dep_signals != 0)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "signals are counted and not given");
    Copy copy;
    if (size != 0) copy.parts.push_back({reinterpret_cast<uint64_t>(dst), reinterpret_cast<uint64_t>(src), size});
    copy.dependencies.assign(dep_signals, dep_signals + num_dep_signals);
    copy.completion = completion_signal;
    if (settings().trace) {
      trace("copy of " + std::to_string(size) + " bytes from " + hex(reinterpret_cast<uint64_t>(src)) + " to " +
            hex(reinterpret_cast<uint64_t>(dst)) + ", " + std::to_string(num_dep_signals) + " dependencies, completion signal " +
            hex(completion_signal.handle));
    }
    start_copy(std::move(copy));
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_memory_async_copy_rect(const hsa_pitched_ptr_t* dst, const hsa_dim3_t* dst_offset, const hsa_pitched_ptr_t* src,
                                            const hsa_dim3_t* src_offset, const hsa_dim3_t* range, hsa_agent_t copy_agent,
                                            hsa_amd_copy_direction_t, uint32_t num_dep_signals, const hsa_signal_t* dep_signals,
                                            hsa_signal_t completion_signal) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    if (dst == nullptr || src == nullptr || dst_offset == nullptr || src_offset == nullptr || range == nullptr ||
        !agent_index(copy_agent, index))
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no memory, no range, or no such agent");
    // Engines for copies address whole dwords in rectangles.
    for (const uint64_t value : {reinterpret_cast<uint64_t>(dst->base), reinterpret_cast<uint64_t>(src->base), uint64_t{dst->pitch},
                                 uint64_t{src->pitch}, uint64_t{dst->slice}, uint64_t{src->slice}}) {
      if (value % 4 != 0)
        return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "an address or a pitch, " + hex(value) + ", is not a multiple of 4");
    }
    Copy copy;
    const auto at = [](const hsa_pitched_ptr_t& p, const hsa_dim3_t& offset, uint64_t y, uint64_t z) {
      return reinterpret_cast<uint64_t>(p.base) + (offset.z + z) * p.slice + (offset.y + y) * p.pitch + offset.x;
    };
    for (uint64_t z = 0; z < range->z; ++z) {
      for (uint64_t y = 0; y < range->y; ++y) {
        if (range->x != 0) copy.parts.push_back({at(*dst, *dst_offset, y, z), at(*src, *src_offset, y, z), range->x});
      }
    }
    copy.dependencies.assign(dep_signals, dep_signals + num_dep_signals);
    copy.completion = completion_signal;
    start_copy(std::move(copy));
    return HSA_STATUS_SUCCESS;
  });
}

}  // extern "C"
