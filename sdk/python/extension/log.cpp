// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The log of a runtime, for Python's logging. The runtime writes lines on any thread and with locks held, where waiting for the GIL could block
// for ever. So they are kept until a thread that holds the GIL delivers them: one that returns from the runtime, or else the main thread.
#include <pthread.h>

#include <atomic>
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
  bool requested = false;  // the main thread will deliver
  std::atomic<bool> any{false};
  std::atomic<bool> ended{false};  // the interpreter is about to end: lines go to stderr
};
Lines& all() {
  static Lines* one = new Lines;
  return *one;
}

// Never throws: an error of a handler is not one of the caller. What Ctrl-C raises in a handler is raised in the main thread, as soon as it is back in
// Python or looks for signals.
void deliver(const Line& line) noexcept {
  auto text = [](const std::string& s) { return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace")); };
  guarded(0, [&] {
    nb::module_::import_("heddle._log").attr("write")(line.level, text(line.component), text(line.message));
    return 0;
  });
  if (!PyErr_Occurred()) return;
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    PyErr_Clear();
    PyErr_SetInterrupt();
  } else {
    PyErr_WriteUnraisable(nullptr);
  }
}

int deliver_pending(void*) {
  deliver_log();
  return 0;
}

// Fails while many such calls are pending; a thread that returns from the runtime delivers the lines then.
void request_main_thread(Lines& log) {
  if (Py_AddPendingCall(deliver_pending, nullptr) == 0) return;
  std::lock_guard lock(log.mutex);
  log.requested = false;
}

// What a handler does may write lines, too: those wait until this thread is done with the ones before, so that handlers do not nest.
thread_local bool delivering = false;

}  // namespace

void deliver_log() noexcept {
  Lines& log = all();
  if (!log.any.load(std::memory_order_acquire) || delivering) [[likely]]
    return;
  delivering = true;
  std::deque<Line> lines;
  uint64_t dropped;
  {
    std::lock_guard lock(log.mutex);
    lines.swap(log.lines);
    dropped = std::exchange(log.dropped, 0);
    log.requested = false;
    log.any.store(false, std::memory_order_release);
  }
  PyObject *type, *value, *traceback;  // of the exception that the caller may be about to pass on
  PyErr_Fetch(&type, &value, &traceback);
  for (const Line& line : lines) deliver(line);
  if (dropped != 0) deliver({HEDDLE_LOG_WARN, "host", std::to_string(dropped) + " lines of the log were dropped"});
  PyErr_Restore(type, value, traceback);
  delivering = false;
  if (log.any.load(std::memory_order_acquire)) {
    {
      std::lock_guard lock(log.mutex);
      log.requested = true;
    }
    request_main_thread(log);
  }
}

void start_log() {
  constexpr auto lock = [] { all().mutex.lock(); };
  constexpr auto unlock = [] { all().mutex.unlock(); };
  pthread_atfork(lock, unlock, unlock);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    deliver_log();
    all().ended = true;
  }));
}

void write_log(void*, uint32_t level, heddle_string_t component, heddle_string_t message) noexcept try {
  Lines& log = all();
  if (log.ended) {
    std::string text = std::string(view(component)) + ": " + std::string(view(message));
    for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  bool request = false;
  {
    std::lock_guard lock(log.mutex);
    if (log.lines.size() < Lines::kMost) {
      log.lines.push_back({level, std::string(view(component)), std::string(view(message))});
    } else {
      ++log.dropped;
    }
    log.any.store(true, std::memory_order_release);
    request = !std::exchange(log.requested, true);
  }
  if (request) request_main_thread(log);
} catch (const std::bad_alloc&) {  // a line less
}

}  // namespace heddle::python
