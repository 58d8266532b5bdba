// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.Call: a call that was started, for result() and await.
#include <algorithm>
#include <ctime>

#include "calls_at_load.h"

namespace heddle::python {
namespace {

// The Python object Call.
struct Call {
  CallInFlight flight;  // no invocation: the call is over. The arrays that it uses live until then
  heddle_call_t* handle = nullptr;
  std::shared_ptr<CallAtLoad> later;   // NULL once it is known that the call has begun or failed
  heddle_status_t* failure = nullptr;  // of a call that has not begun, until an exception is made of it
  bool is_being_finished = false;      // by a thread that reads results without the GIL
  nb::object value, error;
  Process process;

  Call() = default;
  Call(Call&&) = delete;
  ~Call() {
    const Exclusive held;
    end();
    flight.invocation.reset();
  }
  // Gives up the handle: the object is dropped.
  void end() {
    if (!process.is_this()) return;
    if (later && CallsAtLoad::drop(*later, flight)) return;
    take_decision();
    heddle_status_free(failure);
    if (!handle) return;
    heddle_call_t* const dropped = handle;
    handle = nullptr;
    Session& session = *function().session;
    if (flight.invocation) flight.invocation->abandoned = session.dropped_calls = true;
    if (flight.invocation || session.closed) {  // if this is the last handle of a closed module, its other calls are waited for
      GilReleased released;
      heddle_call_release(dropped);
    } else {
      heddle_call_release(dropped);
    }
    deliver_log_later();
  }
  Function& function() const { return *nb::inst_ptr<Function>(flight.function); }
  void check_process() const {
    if (!process.is_this()) [[unlikely]]
      raise("FAILED_PRECONDITION", "heddle: waiting for a call of '" + function().name +
                                       "' failed: it was started before this process was forked; open the module in the child, too");
  }

  void take_decision() {
    if (!later) return;
    handle = later->handle;
    failure = later->failure;
    later.reset();
  }

  // Whether the call has begun or failed, or will after that time.
  bool has_begun(uint64_t timeout_ns) {
    const std::shared_ptr<CallAtLoad> waited = later;
    if (!waited) return true;
    bool is_decided;
    {
      GilReleased released;
      is_decided = CallsAtLoad::wait(*waited, timeout_ns);
    }
    deliver_log();
    if (is_decided) take_decision();
    return is_decided;
  }

  // Whether the call is over, or will be after a while of that many nanoseconds. Other threads may do the same.
  bool wait(uint64_t timeout_ns) {
    if (!flight.invocation) return true;
    check_process();
    if (later) {
      const uint64_t end_ns = deadline_after(static_cast<double>(timeout_ns) * 1e-9);
      if (!has_begun(timeout_ns)) return false;
      timeout_ns = end_ns - std::min(end_ns, deadline_after(0));
    }
    heddle_status_t* status = nullptr;
    bool runs = false;
    if (handle) {
      {
        GilReleased released;
        status = heddle_call_wait(handle, timeout_ns);
      }
      deliver_log();
      runs = heddle_status_code(status) == HEDDLE_STATUS_DEADLINE_EXCEEDED && heddle_status_payload(status, c_string("deadline")).size == 0;
    }
    if (runs || !flight.invocation || is_being_finished) {
      heddle_status_free(status);
      return !runs && !flight.invocation;
    }
    is_being_finished = true;
    if (!handle) status = std::exchange(failure, nullptr);
    try {
      check(status);
      value = nb::steal(flight.invocation->results());
    } catch (nb::python_error& failed) {
      error = nb::borrow(failed.value());
    } catch (const std::bad_alloc&) {
      error = nb::borrow(PyExc_MemoryError)();
    }
    flight.invocation.reset();
    return true;
  }

  bool is_over() { return wait(0); }

  // Waits, and looks for signals now and then. False after the timeout.
  bool wait_for(nb::handle timeout) {
    double left = 1;
    const bool has_end = !timeout.is_none();
    if (has_end) left = seconds_of(timeout, "heddle: waiting for a call of '" + function().name + "' failed: ");
    auto now = [] {
      timespec time;
      clock_gettime(CLOCK_MONOTONIC, &time);
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
    const double end = now() + left;
    while (true) {
      if (has_end) left = std::max(end - now(), 0.0);
      const bool last = has_end && left * 1e9 <= static_cast<double>(kSliceNs);
      if (wait(last ? static_cast<uint64_t>(left * 1e9) : kSliceNs)) return true;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (last && !is_being_finished) return false;
      if (is_being_finished) {
        GilReleased released;
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
      }
    }
  }

  // `key` will be among the completions when the call is over.
  void notify(Completions& completions, uint64_t key) {
    if (later && CallsAtLoad::notify(*later, completions, key)) return;
    take_decision();
    if (!flight.invocation || !handle) return completions.add(key);
    completions.watch(handle, key);
  }

  void cancel() {
    if (!flight.invocation || !process.is_this()) return;
    if (later && CallsAtLoad::cancel(*later)) return;
    take_decision();
    if (handle) heddle_call_cancel(handle);
  }

  nb::object result(nb::handle timeout) {
    if (!wait_for(timeout)) {
      raise("DEADLINE_EXCEEDED", "heddle: waiting for a call of '" + function().name +
                                     "' failed: " + (later ? "parameters of its module are still being loaded" : "it still runs") +
                                     " after " + repr_of(timeout) + " s; wait again, or cancel it");
    }
    if (error.is_valid()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
      throw nb::python_error();
    }
    return value;
  }

  std::string text() const {
    const char* state = later ? "waiting for parameters" : flight.invocation ? "running" : error.is_valid() ? "failed" : "over";
    return "<heddle.Call of " + function().name + ", " + state + ">";
  }
};

// The only parameter of result() and exception().
nb::object timeout_of(PyObject* positional, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  PyObject* timeout = Py_None;
  if (!PyArg_ParseTupleAndKeywords(positional, named, "|O", const_cast<char**>(kNames), &timeout)) throw nb::python_error();
  return nb::borrow(timeout);
}

PyObject* result_of_call(PyObject* self, PyObject* positional, PyObject* named) {
  return exclusively<PyObject*>(nullptr, [&] { return self_of<Call>(self).result(timeout_of(positional, named)).release().ptr(); });
}

PyObject* exception_of_call(PyObject* self, PyObject* positional, PyObject* named) {
  return exclusively<PyObject*>(nullptr, [&] {
    Call& call = self_of<Call>(self);
    if (!call.wait_for(timeout_of(positional, named))) call.result(nb::int_(0));
    return (call.error.is_valid() ? call.error : nb::none()).release().ptr();
  });
}

PyObject* await_call(PyObject* self) {
  return guarded<PyObject*>(
      nullptr, [&] { return nb::object(nb::module_::import_("heddle._async").attr("await_call")(nb::handle(self))).release().ptr(); });
}

// As PyMethodDef, since inspect.signature knows these.
PyMethodDef kCallMethods[] = {
    {"result", as_method(result_of_call), METH_VARARGS | METH_KEYWORDS,
     "result($self, /, timeout=None)\n--\n\n"
     "Waits, at most for that many seconds, and returns what calling the function would have returned, or raises its error. After the "
     "timeout, DeadlineExceededError is raised and the call goes on."},
    {"exception", as_method(exception_of_call), METH_VARARGS | METH_KEYWORDS,
     "exception($self, /, timeout=None)\n--\n\n"
     "Waits as result() does, and returns the error instead of raising it; None if there is none."},
    {"done", as_method(without_parameters<Call, &Call::is_over>), METH_NOARGS,
     "done($self, /)\n--\n\nWhether the call is over, with a result or an error."},
    {"cancel", as_method(without_parameters<Call, &Call::cancel>), METH_NOARGS,
     "cancel($self, /)\n--\n\n"
     "Drops the work that is not on the device yet. If there was any, the call fails with CancelledError; otherwise it ends as if it had "
     "not been cancelled."},
    {nullptr, nullptr, 0, nullptr}};
const PyType_Slot kCallSlots[] = {{Py_tp_methods, kCallMethods},
                                  {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                                  {Py_am_await, reinterpret_cast<void*>(await_call)},
                                  {0, nullptr}};

}  // namespace

PyObject* start_call(PyObject* self, PyObject* positional, PyObject* named) {
  return exclusively<PyObject*>(nullptr, [&] {
    Function& function = self_of<Function>(self);
    nb::object out = nb::cast(new Call(), nb::rv_policy::take_ownership);
    Call& call = *nb::inst_ptr<Call>(out);
    call.flight.function = nb::borrow(self);
    auto invocation = std::make_unique<Invocation>(function);
    invocation->place_arguments(positional, named);
    if (invocation->out.is_valid()) invocation->take_results();
    invocation->make_arguments();
    invocation->make_results();
    call.later = invocation->start_at_load();
    if (!call.later) call.handle = invocation->start();
    call.flight.invocation = std::move(invocation);
    return out.release().ptr();
  });
}

void bind_call(nb::module_& module) {
  nb::class_<Call>(
      module, "Call", nb::type_slots(kCallSlots), nb::is_weak_referenceable(),
      "A call that was started and may still run. `await` it, or wait with result(). Arrays that it uses in place must not change, and "
      "results have no contents, before it is over. If the object is dropped, the call goes on.")
      .def("_notify", &Call::notify, nb::arg("completions"), nb::arg("key"), Locked())
      .def("__repr__", &Call::text, Locked());
}

}  // namespace heddle::python
