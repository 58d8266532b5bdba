// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What threads without the GIL leave to the main thread: Python's pending calls. After the end of the interpreter, its list of them is gone, and
// threads of the runtime may still work.
#include <pthread.h>

#include <mutex>

#include "extension.h"

namespace heddle::python {
namespace {

// Never destroyed: threads may ask while the process exits.
struct Asking {
  std::mutex mutex;
  bool has_ended = false;
  Asking() {
    constexpr auto lock = [] { all().mutex.lock(); };
    constexpr auto unlock = [] { all().mutex.unlock(); };
    pthread_atfork(lock, unlock, unlock);
  }
  static Asking& all() {
    static Asking* one = new Asking;
    return *one;
  }
};

}  // namespace

bool ask_main_thread(int (*work)(void*)) noexcept {
  Asking& asking = Asking::all();
  const std::lock_guard lock(asking.mutex);
  return !asking.has_ended && Py_AddPendingCall(work, nullptr) == 0;
}

void end_asking_main_thread() noexcept {
  Asking& asking = Asking::all();
  const std::lock_guard lock(asking.mutex);
  asking.has_ended = true;
}

}  // namespace heddle::python
