// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The log of a runtime, for Python's logging. The runtime writes lines on any thread and with locks held, where waiting for the GIL could block
// for ever. So they are kept until a thread that holds the GIL delivers them: one that returns from the runtime, or else a thread that the main thread
// starts for them. The main thread cannot do it itself: it may be in the middle of anything, such as a queue's put(), whose lock a handler needs.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>

#include "extension.h"

namespace heddle::python {
namespace {

struct Line {
  uint32_t level;
  std::string component, message;
};

// Never destroyed: threads of the runtime may write while the process exits.
struct Lines {
  static constexpr size_t kMost = 10'000;
  std::mutex mutex;
  std::deque<Line> lines;
  uint64_t dropped = 0;
  bool requested = false;  // a thread for them
  uint32_t threads = 0;    // that exist just for the lines
  std::condition_variable thread_ended;
  std::atomic<bool> any{false};
  std::atomic<bool> ended{false};  // the interpreter is about to end: lines go to stderr
};
Lines& all() {
  static Lines* one = new Lines;
  return *one;
}

// Of Python; never released.
PyObject* start_new_thread = nullptr;
PyObject* begin_thread = nullptr;
PyObject* work_of_thread = nullptr;

void print(std::string_view component, std::string_view message) {
  std::string text = std::string(component) + ": " + std::string(message);
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  std::fprintf(stderr, "%s\n", text.c_str());
}

// What Ctrl-C raises in a handler is raised in the main thread, as soon as it is back in Python or looks for signals. True if it was that.
bool pass_on_interrupt() {
  if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return false;
  PyErr_Clear();
  PyErr_SetInterrupt();
  return true;
}

// A function of heddle._log. Invalid if `logging` is being imported, perhaps by the code that this thread is in the middle of.
nb::object in_python(const char* function) noexcept {
  nb::object out = guarded(nb::object(), [&] { return nb::object(nb::module_::import_("heddle._log").attr(function)); });
  if (PyErr_Occurred() && !pass_on_interrupt()) PyErr_Clear();
  return out;
}

// Never throws: an error of a handler is not one of the caller.
void deliver(const nb::object& write, const Line& line) noexcept {
  auto text = [](const std::string& s) { return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace")); };
  guarded(0, [&] {
    write(line.level, text(line.component), text(line.message));
    return 0;
  });
  if (PyErr_Occurred() && !pass_on_interrupt()) PyErr_WriteUnraisable(nullptr);
}

// False: there are none.
bool take(Lines& log, Line* out) {
  std::lock_guard lock(log.mutex);
  if (!log.lines.empty()) {
    *out = std::move(log.lines.front());
    log.lines.pop_front();
    return true;
  }
  if (const uint64_t dropped = std::exchange(log.dropped, 0)) {
    *out = {HEDDLE_LOG_WARN, "host", std::to_string(dropped) + " lines of the log were dropped"};
    return true;
  }
  log.requested = false;
  log.any.store(false, std::memory_order_release);
  return false;
}

// What a handler does may write lines, too: those wait until this thread is done with the ones before, so that handlers do not nest.
thread_local bool delivering = false;

// A thread that delivers lines and does nothing else. Without one, a thread that returns from the runtime delivers them.
void thread_is_over(Lines& log) {
  std::lock_guard lock(log.mutex);
  --log.threads;
  log.requested = false;
  log.thread_ended.notify_all();
}

// Calls a function of Python whose result says nothing. False if it fails.
template <class... Arguments>
bool call_python(PyObject* function, Arguments... arguments) noexcept {
  const nb::object result = nb::steal(PyObject_CallFunctionObjArgs(function, arguments..., nullptr));
  if (!result.is_valid() && !pass_on_interrupt()) PyErr_Clear();
  return result.is_valid();
}

// By the main thread, between two steps of its Python code. To start a threading.Thread takes locks of that module, so a bare thread does it.
int start_thread(void*) {
  Lines& log = all();
  {
    std::lock_guard lock(log.mutex);
    if (log.lines.empty() || delivering) log.requested = false;
    if (log.lines.empty() || delivering || log.threads != 0) return 0;  // such a thread asks again if it leaves any
    ++log.threads;
  }
  const nb::object none = nb::steal(PyTuple_New(0));
  if (!none.is_valid() || !call_python(start_new_thread, begin_thread, none.ptr())) thread_is_over(log);
  return 0;
}

// If it cannot be asked, a thread that returns from the runtime delivers the lines.
void request_thread(Lines& log) {
  {
    std::lock_guard lock(log.mutex);
    if (std::exchange(log.requested, true)) return;
  }
  if (ask_main_thread(start_thread)) return;
  std::lock_guard lock(log.mutex);
  log.requested = false;
}

// False if it has left lines that could not be delivered. Lines that come meanwhile may be left, too.
bool deliver_lines(Lines& log) noexcept {
  delivering = true;
  PyObject *type, *value, *traceback;  // of the exception that the caller may be about to pass on
  PyErr_Fetch(&type, &value, &traceback);
  size_t count;
  {
    std::lock_guard lock(log.mutex);
    count = log.lines.size() + 1;  // and perhaps one about those that were dropped
  }
  const nb::object write = in_python("write");
  Line line;
  while (write.is_valid() && count-- > 0 && take(log, &line)) deliver(write, line);
  PyErr_Restore(type, value, traceback);
  delivering = false;
  return write.is_valid();
}

void begin() noexcept {
  const nb::object start = in_python("start");
  if (!start.is_valid() || !call_python(start.ptr(), work_of_thread)) thread_is_over(all());
}

void work() noexcept {
  Lines& log = all();
  const bool delivered = deliver_lines(log);
  thread_is_over(log);
  if (delivered) deliver_log_later();
}

}  // namespace

void deliver_log() noexcept {
  Lines& log = all();
  if (!log.any.load(std::memory_order_acquire) || delivering) [[likely]]
    return;
  if (deliver_lines(log)) deliver_log_later();
}

void deliver_log_later() noexcept {
  Lines& log = all();
  if (log.any.load(std::memory_order_acquire)) request_thread(log);
}

void start_log() {
  constexpr auto lock = [] { all().mutex.lock(); };
  constexpr auto unlock = [] { all().mutex.unlock(); };
  constexpr auto unlock_in_child = [] {
    all().threads = 0;
    all().mutex.unlock();
  };
  pthread_atfork(lock, unlock, unlock_in_child);
  start_new_thread = nb::object(nb::module_::import_("_thread").attr("start_new_thread")).release().ptr();
  begin_thread = nb::cpp_function(begin).release().ptr();
  work_of_thread = nb::cpp_function(work).release().ptr();
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    Lines& log = all();
    end_asking_main_thread();
    deliver_log();
    {
      GilReleased released;  // a line that a thread has begun with, unless its handler takes long
      std::unique_lock lock(log.mutex);
      log.thread_ended.wait_for(lock, std::chrono::seconds(1), [&] { return log.threads == 0; });
    }
    log.ended = true;
    for (Line line; take(log, &line);) print(line.component, line.message);
  }));
}

void write_log(void*, uint32_t level, heddle_string_t component, heddle_string_t message) noexcept try {
  Lines& log = all();
  if (log.ended) {
    print(view(component), view(message));
    return;
  }
  {
    std::lock_guard lock(log.mutex);
    if (log.lines.size() < Lines::kMost) {
      log.lines.push_back({level, std::string(view(component)), std::string(view(message))});
    } else {
      ++log.dropped;
    }
    log.any.store(true, std::memory_order_release);
  }
  if (!GilReleased::is_here) request_thread(log);  // else this thread delivers the line when it returns
} catch (const std::bad_alloc&) {                  // a line less
}

}  // namespace heddle::python
