// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The threads of the runtime may not wait for the GIL, so they only leave a key and wake the event loop, which waits for a descriptor anyway.
#include "completions.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

namespace heddle::python {

struct Completions::Watched {
  std::shared_ptr<Shared> shared;
  uint64_t key;
  std::unique_ptr<Watched> next;
};

// Lives as long as a call that is watched.
struct Completions::Shared {
  int descriptor = -1;
  std::mutex mutex;
  std::unique_ptr<Watched> over;
  ~Shared() {
    if (descriptor >= 0) close(descriptor);
  }
};

Completions::Completions() : shared_(std::make_shared<Shared>()) {
  shared_->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (shared_->descriptor < 0)
    raise("RESOURCE_EXHAUSTED", std::string("heddle: awaiting a call failed: eventfd: ") + std::strerror(errno) + "; close files");
}

void Completions::watch(heddle_call_t* call, uint64_t key) {
  auto watched = std::make_unique<Watched>(Watched{shared_, key, nullptr});
  check(heddle_call_notify(call, note, watched.get()));
  static_cast<void>(watched.release());
}

bool Completions::try_watch(heddle_call_t* call, uint64_t key) {
  auto watched = std::make_unique<Watched>(Watched{shared_, key, nullptr});
  heddle_status_t* const refused = heddle_call_notify(call, note, watched.get());
  heddle_status_free(refused);
  if (!refused) static_cast<void>(watched.release());
  return !refused;
}

void Completions::add(uint64_t key) {
  note(new Watched{shared_, key, nullptr});
}

void Completions::note(void* context) {
  std::unique_ptr<Watched> watched(static_cast<Watched*>(context));
  const std::shared_ptr<Shared> shared = std::move(watched->shared);
  std::lock_guard lock(shared->mutex);
  watched->next = std::move(shared->over);
  shared->over = std::move(watched);
  eventfd_write(shared->descriptor, 1);  // can only fail if the counter is full, and then the loop has been woken
}

int Completions::descriptor() const {
  return shared_->descriptor;
}

nb::list Completions::take() {
  std::unique_ptr<Watched> over;
  {
    std::lock_guard lock(shared_->mutex);
    eventfd_t ignored;
    eventfd_read(shared_->descriptor, &ignored);
    over = std::move(shared_->over);
  }
  nb::list keys;
  for (; over; over = std::move(over->next)) keys.append(over->key);
  return keys;
}

void bind_completions(nb::module_& module) {
  nb::class_<Completions>(module, "_Completions").def(nb::init<>()).def("fileno", &Completions::descriptor).def("take", &Completions::take);
}

}  // namespace heddle::python
