// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts uploads, and ends them on a thread of the host.
// Called through upload.h. The end of a copy and its tensor may come in any order; the upload's lock is between them.
#include "core/memory/upload.h"

#include <mutex>

#include "core/memory/tensor.h"

namespace heddle::memory {

Status Upload::start(Tensor& tensor, const Source& given) {
  struct Guard {
    Source source;
    ~Guard() {
      if (source.release) source.release(source.context);
    }
  } guard{given};
  HEDDLE_RETURN_IF_ERROR(tensor.check_held("uploading to a tensor"));
  Device& device = *tensor.device_;
  HEDDLE_RETURN_IF_ERROR(device.check());
  Tensor::Producer before = tensor.producer();
  if (before.call && before.host_signalled) {
    Status made = tensor.wait();
    if (!made.ok() && !tensor.has_memory()) return made;  // its extents were never determined
    before.call = nullptr;
  }
  if (given.size_bytes != tensor.size_bytes_) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: uploading {} bytes to a tensor of {} bytes failed: the sizes differ",
                 given.size_bytes, tensor.size_bytes_);
  }
  // A failed producer has finished too, as for a write.
  const bool is_after = before.call && before.timeline->pending(before.value);
  if (given.size_bytes == 0) {
    if (!is_after) tensor.set_ready();
    return Status();
  }
  const heddle_binding_t target{tensor.block_.buffer, tensor.block_.offset, given.size_bytes};
  Ref<Upload> upload = Ref<Upload>::adopt(new Upload(given));
  if (is_after) upload->before_ = before.timeline;
  const heddle_point_t wait{is_after ? before.timeline->get() : nullptr, before.value};
  Result<Device::Pending> started = device.start_upload(given.bytes, target, {&wait, is_after ? 1u : 0u});
  if (!started.ok()) {
    if (started.status().code() != HEDDLE_STATUS_UNIMPLEMENTED || !device.unified()) return started.take_status();
    // Drivers of such devices need no upload.
    return tensor.write(given.bytes, given.size_bytes);
  }
  // From here on nothing fails: the copy is in progress.
  if (tensor.upload_) tensor.upload_->belong_to(nullptr);
  if (started->timeline->reached(started->value)) {
    tensor.upload_ = {};
    tensor.set_ready();
    device.recycle(std::move(*started));
    return Status();
  }
  guard.source.release = nullptr;
  upload->timeline_ = std::move(started->timeline);
  upload->tensor_ = &tensor;
  tensor.upload_ = upload;
  tensor.set_producer(upload->timeline_, started->value, false, upload.get());
  Upload* const notified = upload.get();
  notified->retain();  // for the notification
  Status waiting = device.host().executor().prepare();
  if (waiting.ok()) {
    waiting = Status(device.api().timeline->notify(notified->timeline_->get(), started->value, reached, notified));
  }
  if (waiting.ok()) return waiting;
  notified->failed_ = !notified->timeline_->wait(started->value).ok();
  run(notified);
  return Status();
}

void Upload::belong_to(Tensor* tensor) {
  std::lock_guard lock(lock_);
  tensor_ = tensor;
}

bool Upload::keep(const heddle_block_t& block, bool is_foreign) {
  std::lock_guard lock(lock_);
  tensor_ = nullptr;
  if (over_) return false;
  kept_ = block;
  keeps_ = true;
  keeps_foreign_ = is_foreign;
  return true;
}

void Upload::reached(void* upload, const heddle_status_t* failure) {
  auto* self = static_cast<Upload*>(upload);
  self->failed_ = failure != nullptr;
  self->job_ = {run, self, nullptr};
  if (!self->timeline_->device().host().executor().run(&self->job_)) run(self);
}

void Upload::run(void* upload) {
  const Ref<Upload> self = Ref<Upload>::adopt(static_cast<Upload*>(upload));
  self->finish();
}

void Upload::finish() {
  {
    std::lock_guard lock(lock_);
    over_ = true;
    if (tensor_ && !failed_) tensor_->set_ready_by(this);
  }
  before_ = {};
  if (keeps_) Tensor::free(timeline_->device(), kept_, keeps_foreign_);
  if (source_.release) source_.release(source_.context);
}

}  // namespace heddle::memory
