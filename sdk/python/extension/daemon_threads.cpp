// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Daemon threads that are in heddle when the interpreter ends: they stop for ever where they are, as Python 3.14 does it with every such thread.
//
// Up to 3.13, Python ends a daemon thread that wants the GIL from an interpreter that ends by pthread_exit, which unwinds its stack. This may happen
// wherever Python code runs: in GilReleased, in an array's __dlpack__, in a handler of logging, in the __del__ of an object whose last reference goes.
// In the frames of C++ that have called it, the unwinding would run destructors that release Python objects without the GIL, and abort the process at
// the first function that is noexcept, as those of nanobind are.
//
// The unwinder asks the personality routine about every frame in which it would do something. The linker redirects the extension's references to
// this routine to the one below (--wrap), so the innermost of such frames stops the thread, before anything in it has changed. Frames of other
// libraries below it, such as those of libheddle that call back, are not asked: a function of the extension that they call is noexcept.
#include <unistd.h>
#include <unwind.h>

extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context) {
  while (actions & _UA_FORCE_UNWIND) pause();
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}

}  // extern "C"
