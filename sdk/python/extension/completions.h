// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle._core._Completions: tells an event loop which calls are over.
#ifndef HEDDLE_PYTHON_COMPLETIONS_H_
#define HEDDLE_PYTHON_COMPLETIONS_H_

#include "extension.h"

namespace heddle::python {

// A descriptor that becomes readable when a call is over, and the keys of the calls that are. One per event loop.
class Completions {
 public:
  Completions();
  // `key` will be among those of take() once the call is over. UNIMPLEMENTED if its driver cannot tell. Needs the GIL.
  void watch(heddle_call_t* call, uint64_t key);
  // The same without the GIL; false if that is not possible.
  bool try_watch(heddle_call_t* call, uint64_t key);
  // The same for a call that is over. Needs no GIL.
  void add(uint64_t key);
  int descriptor() const;
  // The keys since the last time.
  nb::list take();

 private:
  struct Shared;
  struct Watched;
  static void note(void* context);  // also the callback of heddle_call_notify: on a thread of the runtime, without the GIL
  std::shared_ptr<Shared> shared_;
};

void bind_completions(nb::module_& module);

}  // namespace heddle::python

#endif  // HEDDLE_PYTHON_COMPLETIONS_H_
