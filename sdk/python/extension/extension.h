// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the Python extension share: errors, element types, sessions, tensors. The extension is heddle._core, over runtime.h.
// All state of the extension is guarded by the GIL, which is released where a function of runtime.h may block. A free-threaded Python has none: there
// Exclusive takes its place.
#ifndef HEDDLE_PYTHON_EXTENSION_H_
#define HEDDLE_PYTHON_EXTENSION_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/ext/dlpack.h"
#include "heddle/runtime.h"

namespace heddle::python {

namespace nb = nanobind;

// ------------------------------------------------------------------------------------------------------------- errors

inline std::string_view view(heddle_string_t text) {
  return {text.data, text.size};
}
inline heddle_string_t c_string(std::string_view text) {
  return {text.data(), text.size()};
}

// Throws the Python exception of a failure, which it frees. `before` comes before its text.
[[noreturn]] void raise(heddle_status_t* failure, const std::string& before = {});
// An error that the extension itself finds. `code` is a name of status.h, or "TYPE" for a TypeError.
[[noreturn]] void raise(const char* code, const std::string& message);
inline void check(heddle_status_t* status) {
  if (status) [[unlikely]]
    raise(status);
}
// Receives lines of the log (heddle_runtime_params_t). [any]
void write_log(void* log_context, uint32_t level, heddle_string_t component, heddle_string_t message) noexcept;
// Passes the lines so far to Python's logging. Keeps an exception that is set. With the GIL, and where the caller expects Python code to run: handlers
// take locks.
void deliver_log() noexcept;
// The same by another thread, later. For destructors, since Python code may be in the middle of anything there. With the GIL.
void deliver_log_later() noexcept;
// Once, when the extension is loaded.
void start_log();

// Lets the main thread call work(NULL) soon, between two steps of whatever Python code it runs. False if too many such calls are pending, or if the
// interpreter is about to end. [any]
bool ask_main_thread(int (*work)(void*)) noexcept;
// No more calls from here on: the interpreter is about to end.
void end_asking_main_thread() noexcept;

// Held by whatever uses state of the extension: functions that Python calls, and destructors. Empty where there is a GIL. In a free-threaded Python it
// is a critical section on one object, of which one thread at a time is in. As with the GIL, others may enter while the thread waits for anything:
// inside GilReleased, and wherever Python is called. May be nested, which is slow up to Python 3.13. Needs an attached thread. While the interpreter
// ends, only one thread runs, and one of those that have stopped for ever may own the critical section, so it is not entered.
class Exclusive {
 public:
#ifdef Py_GIL_DISABLED
  Exclusive() : is_entered_(!Py_IsFinalizing()) {
    if (is_entered_) PyCriticalSection_Begin(&section_, object);
  }
  ~Exclusive() {
    if (is_entered_) PyCriticalSection_End(&section_);
  }
#else
  Exclusive() {}
#endif
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;
  static void prepare();  // once, when the extension is loaded

 private:
#ifdef Py_GIL_DISABLED
  static PyObject* object;
  const bool is_entered_;
  PyCriticalSection section_;
#endif
};
// Of functions that nanobind binds.
using Locked = nb::call_guard<Exclusive>;

// Releases the GIL, or detaches the thread from a free-threaded interpreter. While the interpreter ends, a daemon thread that wants it back stops for
// ever (daemon_threads.cpp). The thread may write lines of the log meanwhile, so deliver_log() or deliver_log_later() has to follow.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) { is_here = true; }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    is_here = false;
    PyEval_RestoreThread(state_);
  }
  inline static thread_local bool is_here = false;  // this thread has released it

 private:
  PyThreadState* state_;
};

// The time between two looks for signals, such as that of Ctrl-C.
constexpr uint64_t kSliceNs = 50'000'000;

// The process in which an object was made. In a forked child, objects of the parent cannot be used: their threads do not exist there, other threads
// may have held their locks, and their devices belong to the parent. So nothing of them is released, either.
class Process {
 public:
  bool is_this() const { return number_ == current; }
  static void watch();  // once, when the extension is loaded

 private:
  static uint32_t current;
  uint32_t number_ = current;
};

// Calls a function of runtime.h without the GIL.
template <class Function>
void check_without_gil(Function function) {
  heddle_status_t* status;
  {
    GilReleased released;
    status = function();
  }
  deliver_log();
  check(status);
}
// Runs the body of a slot of a type, which may not throw. `failed` is the slot's value after an exception, which is then set. The body uses no state of
// the extension; exclusively() is for those that do.
template <class Failed, class Body>
auto guarded(Failed failed, Body body) noexcept -> Failed {
  try {
    return body();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_SystemError, error.what());
  }
  return failed;
}
template <class Failed, class Body>
auto exclusively(Failed failed, Body body) noexcept -> Failed {
  const Exclusive held;
  return guarded(failed, body);
}

// A number of seconds that was given as `timeout`. `doing` begins the error, such as "heddle: calling 'main' failed: ".
double seconds_of(nb::handle timeout, const std::string& doing);
// The object as C++ has it, in a slot or a method of its type.
template <class Object>
Object& self_of(PyObject* self) {
  if (!nb::inst_ready(self)) [[unlikely]]
    raise("TYPE", "heddle: using an object failed: it was made by __new__ alone; objects of this class are made by heddle");
  return *nb::inst_ptr<Object>(self);
}
// A function with keywords, for PyMethodDef.
template <class Method>
PyCFunction as_method(Method method) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method));
}
// A method without parameters, of a class of the extension: void, or what nb::cast takes.
template <class Object, auto method>
PyObject* without_parameters(PyObject* self, PyObject*) {
  return exclusively<PyObject*>(nullptr, [&]() -> PyObject* {
    Object& object = self_of<Object>(self);
    if constexpr (std::is_void_v<decltype((object.*method)())>) {
      (object.*method)();
      return nb::none().release().ptr();
    } else {
      return nb::cast((object.*method)()).release().ptr();
    }
  });
}
// Py_tp_new of classes whose objects only heddle makes.
PyObject* refuse_new(PyTypeObject* type, PyObject* positional, PyObject* named);
std::string str_of(nb::handle object);
std::string class_name(nb::handle object);
std::string repr_of(nb::handle object);  // shortened if it is long

// ------------------------------------------------------------------------------------------------------------- element types

struct ElementType {
  heddle_element_type_t type;
  const char* name;    // "f32", as in all texts of Heddle
  const char* numpy;   // "float32"
  const char* format;  // of the buffer protocol; NULL if it has none
};
const ElementType* element_type(heddle_element_type_t type);  // never NULL for a type of a module
const ElementType* element_type_of_format(const char* format, Py_ssize_t item_bytes);
// "f32[2,batch]"; symbols may be NULL.
std::string type_text(heddle_element_type_t type, const int64_t* dims, uint32_t rank, const heddle_string_t* symbols = nullptr);

// ------------------------------------------------------------------------------------------------------------- objects

// A device as the package knows it.
struct Device {
  std::string alias;
  heddle_dlpack_device_t dlpack;
  Process process{};
  bool on_host() const { return dlpack.type == HEDDLE_DLPACK_CPU; }
  bool on_cuda() const { return dlpack.type == HEDDLE_DLPACK_CUDA; }
  std::string text() const;  // "device 'cuda:0'"
};

// A stream on which other libraries work, as DLPack and heddle_call_params_t name it.
struct Stream {
  uint64_t native = 0;  // cudaStream_t; 0 is the default stream
  int64_t dlpack() const { return native == 0 ? 1 : static_cast<int64_t>(native); }
};
// Set once memory of a CUDA device is shared with another library. From then on, calls on such a device are ordered with a stream: memory that a
// library has dropped may still be used by its work there.
extern bool cuda_is_shared;

// An instance and its module, shared by the Python objects Module and Function. Released when all of them are gone, or closed and not in a call.
struct Session {
  std::string path;
  heddle_module_t* module = nullptr;
  heddle_instance_t* instance = nullptr;
  uint32_t calls = 0;  // in progress
  bool closed = false;
  bool is_loading = false;     // parameters, in the background, as far as is known
  bool dropped_calls = false;  // calls may be in flight that nobody can wait for
  Process process;
  std::vector<std::weak_ptr<struct TensorCache>> caches;
  std::shared_ptr<class CallsAtLoad> calls_at_load;  // NULL until a call is started while parameters are loaded
  std::shared_ptr<class RefitsInProgress> refits;    // NULL until the first one
  ~Session() {
    const Exclusive held;
    release();
  }
  // Throws what a handler of a signal raises, such as KeyboardInterrupt; calls in flight are then waited for by another thread.
  void close();
  void release();
  void check_open(const char* operation) const;
  // Whether the parameters are loaded, or will be after that time; looks for signals now and then. Throws the error of the load. Others may do the
  // same.
  bool wait_until_loaded(uint64_t timeout_ns);
  // The same without a timeout, for a session that is given up if a handler of a signal raises something.
  void wait_for_open();

 private:
  struct Release;
  std::shared_ptr<Release> release_in_thread();
  void release_watching_signals();
};

// Keeps a session from being released while Python code, or another thread, may close it.
class SessionInUse {
 public:
  explicit SessionInUse(std::shared_ptr<Session> session) : session_(std::move(session)) { ++session_->calls; }
  SessionInUse(const SessionInUse&) = delete;
  ~SessionInUse() {
    if (--session_->calls == 0 && session_->closed) session_->release();
  }

 private:
  const std::shared_ptr<Session> session_;
};

// Tensors that a function keeps for later calls: handles of results that Python has dropped.
struct TensorCache {
  static constexpr size_t kMaxPerResult = 4;
  static constexpr uint64_t kMaxBytes = 1 << 20;
  std::vector<std::vector<heddle_tensor_t*>> results;
  bool closed = false;
  Process process;
  ~TensorCache() { clear(); }
  void clear();
};

// The Python object Tensor.
struct Tensor {
  heddle_tensor_t* handle = nullptr;  // NULL: released
  std::shared_ptr<const Device> device;
  std::shared_ptr<TensorCache> cache;  // where the handle goes when the object is dropped; may be NULL
  uint32_t index = 0;                  // of the result in the cache
  bool shared = false;                 // others may hold the handle: it may not be used again
  bool read_only = false;
  bool lends = false;    // an array has the memory, too, or another library its address: a donation may not take it
  uint32_t exports = 0;  // of the buffer protocol
  std::shared_ptr<const std::string> donated_to;  // "a call of 'main' ...", which has the handle

  Tensor() = default;
  Tensor(Tensor&&) = delete;
  ~Tensor() {
    const Exclusive held;
    release();
  }
  void release();
  void release_unexported();  // BufferError if arrays use its memory
  heddle_tensor_t* get() const {
    if (!handle) [[unlikely]]
      refuse("heddle: using a tensor failed: it");
    return handle;
  }
  // What it is wanted for, in a text that goes on with "has been released" or "was donated to ...".
  [[noreturn]] void refuse(const std::string& what) const;
  uint64_t address() const;
};

// The Python object State. Calls that use it keep its handle.
struct State {
  struct Handle {
    heddle_state_t* state = nullptr;
    Process process;
    Handle() = default;
    Handle(const Handle&) = delete;
    ~Handle();
  };
  std::shared_ptr<Session> session;
  std::shared_ptr<Handle> handle;  // empty: closed
  explicit State(std::shared_ptr<Session> session);
  void close();
};

extern PyTypeObject* tensor_class;
nb::object make_tensor(heddle_tensor_t* owned, std::shared_ptr<const Device> device);

// Releases a handle of a thread that holds the GIL, so that memory of Python objects under it is released at once. Runs what their finalizers run.
void release_tensor(heddle_tensor_t* handle);

// ------------------------------------------------------------------------------------------------------------- inputs

// Capsules of DLPack, and the struct of those before version 1.0 (DLManagedTensor).
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kUsedVersionedName = "used_dltensor_versioned";
constexpr const char* kOldName = "dltensor";
constexpr const char* kUsedOldName = "used_dltensor";
struct OldManaged {
  heddle_dlpack_tensor_t tensor;
  void* context;
  void (*deleter)(OldManaged*);
};

// Memory of a Python object: a buffer or a DLPack tensor. Released by the object's thread, or later if a call still uses it.
struct Lease;

struct Source {
  Lease* lease = nullptr;
  const ElementType* type = nullptr;
  uint32_t rank = 0;
  bool read_only = false;
  bool on_host = true;
  int64_t dims[HEDDLE_MAX_RANK];
  char* data = nullptr;
  uint64_t size_bytes = 0;

  Source() = default;
  Source(const Source&) = delete;
  ~Source();
};
// The argument or result that an array is for, for errors.
struct Place {
  std::string_view function, kind, name;  // "main", "argument", "x"
  const heddle_tensor_type_t* expected;   // NULL: a tensor for any function
  const Device* device;
  std::string text() const;  // "heddle: argument 'x' of 'main' is f32[4]"
};
// Opens an array in host memory or on the place's device: contiguous, of an element type that a tensor may have. The array is then ready for work
// on the stream.
void open_source(PyObject* object, const Place& place, bool writable, Stream stream, Source* out);
std::shared_ptr<const Device> device_of(heddle_runtime_device_t* device);
// A tensor over the source's memory, which then belongs to the tensor unless the source is to keep it. False, and nothing changes, if the device does
// not take it; an error if the source is not in host memory.
bool make_in_place(heddle_function_t* function, uint32_t index, bool is_result, Source* source, heddle_tensor_t** out,
                   bool gives_lease = true);

// ------------------------------------------------------------------------------------------------------------- parts

void bind_exchange(nb::module_& module);
void bind_tensor(nb::module_& module);
void bind_function(nb::module_& module);
void bind_module(nb::module_& module);

}  // namespace heddle::python

#endif  // HEDDLE_PYTHON_EXTENSION_H_
