// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors: memory, producers, and copies to and from the host.
// Called through tensor.h; the caller that creates a tensor has checked the sizes.
#include "core/memory/tensor.h"

#include <algorithm>
#include <memory>
#include <mutex>

namespace heddle::memory {

Result<Ref<Tensor>> Tensor::create(Device& device, heddle_element_type_t type, std::span<const int64_t> dims, uint64_t size_bytes) {
  Ref<Tensor> tensor = create_empty(device, type, static_cast<uint32_t>(dims.size()));
  tensor->made_late_ = false;
  HEDDLE_RETURN_IF_ERROR(tensor->allocate(dims, size_bytes));
  return tensor;
}

Ref<Tensor> Tensor::create_empty(Device& device, heddle_element_type_t type, uint32_t rank) {
  Ref<Tensor> tensor = Ref<Tensor>::adopt(new Tensor(device));
  tensor->type_ = type;
  tensor->rank_ = rank;
  tensor->made_late_ = true;
  std::fill(tensor->dims_, tensor->dims_ + rank, 0);
  return tensor;
}

Result<Ref<Tensor>> Tensor::create_over(Device& device, heddle_element_type_t type, std::span<const int64_t> dims, uint64_t size_bytes,
                                        uint64_t address, void (*release)(void* context), void* context, bool is_consumable) {
  struct Guard {
    void (*release)(void* context);
    void* context;
    ~Guard() {
      if (release) release(context);
    }
  } guard{release, context};
  const uint64_t alignment = device.description().min_alignment_bytes;
  HEDDLE_RETURN_IF_ERROR(device.check());
  if (alignment && address % alignment != 0) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "heddle: making a tensor over {} bytes at {:#x} failed: device '{}' requires a multiple of {} bytes; copy the data to "
                 "such an address",
                 size_bytes, address, device.alias(), alignment);
  }
  Ref<Tensor> tensor = create_empty(device, type, static_cast<uint32_t>(dims.size()));
  heddle_buffer_t* buffer = nullptr;
  guard.release = nullptr;  // from here on the driver calls it
  Status imported = device.noted(Status(device.api().native->buffer_import(device.get(), address, size_bytes, release, context, &buffer)));
  if (!imported.ok()) return wrap(std::move(imported), fmt::format("heddle: making a tensor on device '{}' failed", device.alias()));
  tensor->block_ = {buffer, 0, size_bytes, 0};
  tensor->made_late_ = false;
  tensor->is_foreign_ = true;
  tensor->is_consumable_ = is_consumable;
  std::copy(dims.begin(), dims.end(), tensor->dims_);
  tensor->size_bytes_ = size_bytes;
  return tensor;
}

Status Tensor::allocate(std::span<const int64_t> dims, uint64_t size_bytes) {
  HEDDLE_RETURN_IF_ERROR(device_->allocate(size_bytes, 64, kTensors, &block_));
  std::copy(dims.begin(), dims.end(), dims_);
  size_bytes_ = size_bytes;
  return Status();
}

namespace {

void move_upload(Ref<Upload>& from, Ref<Upload>& to, Tensor* tensor) {
  if (from) from->belong_to(tensor);
  to = std::move(from);
}

}  // namespace

Ref<Tensor> Tensor::take(std::string to) {
  Ref<Tensor> taken = create_empty(*device_, type_, rank_);
  forbid(std::move(to));
  std::copy(dims_, dims_ + rank_, taken->dims_);
  taken->size_bytes_ = size_bytes_;
  taken->made_late_ = false;
  taken->is_foreign_ = is_foreign_;
  is_foreign_ = false;
  taken->block_ = std::exchange(block_, {});
  move_upload(upload_, taken->upload_, taken.get());
  if (const Producer now = producer(); now.call) taken->set_producer(now.timeline, now.value, now.host_signalled, now.call);
  return taken;
}

void Tensor::give_back(Tensor* taken) {
  if (taken) {
    block_ = std::exchange(taken->block_, {});
    is_foreign_ = taken->is_foreign_;
    taken->is_foreign_ = false;
    move_upload(taken->upload_, upload_, this);
  }
  is_donated_.store(false, std::memory_order_release);
}

Status Tensor::check_held(std::string_view action) const {
  if (!donated()) [[likely]]
    return Status();
  return error(HEDDLE_STATUS_FAILED_PRECONDITION, "heddle: {} failed: {} took it; use what that call returned, or donate a copy [HD-F-02]",
               action, *donated_to_);
}

Tensor::~Tensor() {
  // Calls hold their arguments and results until their work is complete, so nothing but an upload uses the block any more.
  if (upload_ && upload_->keep(block_, is_foreign_)) [[unlikely]]
    return;
  free(*device_, block_, is_foreign_);
}

void Tensor::free(Device& device, heddle_block_t& block, bool is_foreign) {
  if (is_foreign) {
    device.api().buffer->free(block.buffer);
  } else {
    device.pool().free(block);
  }
}

Result<uint64_t> Tensor::address() {
  HEDDLE_RETURN_IF_ERROR(check_held("getting the address of a tensor"));
  if (pending() && producer().host_signalled) HEDDLE_RETURN_IF_ERROR(wait());
  Result<uint64_t> found = place();
  if (found.ok() && *found == 0 && size_bytes_ != 0) {
    return error(HEDDLE_STATUS_UNIMPLEMENTED,
                 "heddle: getting the address of a tensor failed: the driver of device '{}' does not provide addresses", device_->alias());
  }
  return found;
}

Result<uint64_t> Tensor::place() const {
  heddle_buffer_properties_t properties{};
  properties.struct_size = sizeof(properties);
  HEDDLE_RETURN_IF_ERROR(device_->noted(Status(device_->api().buffer->properties(block_.buffer, &properties))));
  return properties.device_address == 0 ? 0 : properties.device_address + block_.offset;
}

bool Tensor::overlaps(const Tensor& other) const {
  if ((!is_foreign_ && !other.is_foreign_) || !has_memory() || !other.has_memory() || device_->driver_id() != other.device_->driver_id()) {
    return false;
  }
  Result<uint64_t> here = place(), there = other.place();
  return here.ok() && there.ok() && *here != 0 && *there != 0 &&
         std::max(*here, *there) < std::min(*here + size_bytes_, *there + other.size_bytes_);
}

void Tensor::set_producer(const Ref<Timeline>& timeline, uint64_t value, bool host_signalled, const void* call) {
  Ref<Timeline> before;  // destroyed after the lock is released
  std::lock_guard lock(lock_);
  if (timeline_.get() != timeline.get()) {  // often the same as for the call before
    before = std::move(timeline_);
    timeline_ = timeline;
  }
  value_ = value;
  host_signalled_ = host_signalled;
  producer_.store(call, std::memory_order_release);
}

void Tensor::set_failed_by(const void* call, const Ref<Timeline>& failed) {
  Ref<Timeline> before;  // destroyed after the lock is released
  std::lock_guard lock(lock_);
  if (producer_.load(std::memory_order_relaxed) != call) return;
  before = std::exchange(timeline_, failed);
  value_ = failed->last();
  host_signalled_ = true;
}

Tensor::Producer Tensor::producer() const {
  std::lock_guard lock(lock_);
  const void* const call = producer_.load(std::memory_order_relaxed);
  if (!call) return {};
  return {call, timeline_, value_, host_signalled_};
}

Status Tensor::wait(uint64_t timeout_ns) {
  if (!pending()) return Status();
  const Producer now = producer();
  if (!now.call) return Status();
  HEDDLE_RETURN_IF_ERROR(now.timeline->wait(now.value, timeout_ns));
  set_ready_by(now.call);
  return Status();
}

Status Tensor::read(void* bytes, uint64_t size_bytes) {
  HEDDLE_RETURN_IF_ERROR(check_held("reading a tensor"));
  HEDDLE_RETURN_IF_ERROR(wait());
  if (size_bytes != size_bytes_) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: reading a tensor of {} bytes into {} bytes failed: the sizes differ", size_bytes_,
                 size_bytes);
  }
  return device_->download({block_.buffer, block_.offset, size_bytes_}, bytes);
}

Status Tensor::write(const void* bytes, uint64_t size_bytes) {
  HEDDLE_RETURN_IF_ERROR(check_held("writing to a tensor"));
  Status made = wait();
  if (!made.ok() && !has_memory()) return made;  // its extents were never determined
  if (size_bytes != size_bytes_) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: writing {} bytes to a tensor of {} bytes failed: the sizes differ", size_bytes,
                 size_bytes_);
  }
  HEDDLE_RETURN_IF_ERROR(device_->upload(bytes, {block_.buffer, block_.offset, size_bytes_}));
  set_ready();
  return Status();
}

Result<Ref<Tensor>> copy_to(Tensor& tensor, Device& device) {
  HEDDLE_RETURN_IF_ERROR(tensor.wait());
  Result<Ref<Tensor>> copy = Tensor::create(device, tensor.element_type(), {tensor.dims(), tensor.rank()}, tensor.size_bytes());
  if (!copy.ok()) return copy;
  std::unique_ptr<char[]> staging(new char[tensor.size_bytes()]);
  HEDDLE_RETURN_IF_ERROR(tensor.read(staging.get(), tensor.size_bytes()));
  HEDDLE_RETURN_IF_ERROR((*copy)->write(staging.get(), tensor.size_bytes()));
  return copy;
}

Status copy_contents(const Tensor& from, const Tensor& to) {
  if (from.size_bytes() == 0) return Status();
  heddle_command_t command{};
  command.kind = HEDDLE_COMMAND_COPY;
  command.as.copy = {from.block().buffer, to.block().buffer, from.block().offset, to.block().offset, from.size_bytes()};
  return from.device().submit_and_wait(&command, 1);
}

}  // namespace heddle::memory
