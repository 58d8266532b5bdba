// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runtime and Module of the extension, which heddle/_module.py extends, and the definition of heddle._core.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "calls_at_load.h"

namespace heddle::python {

void Session::close() {
  if (closed) return;
  closed = true;
  for (const std::weak_ptr<TensorCache>& one : caches) {
    if (const std::shared_ptr<TensorCache> cache = one.lock()) cache->clear();
  }
  CallsAtLoad::destroy_dropped();
  if (calls != 0) return;
  dropped_calls || is_loading ? release_watching_signals() : release();
  deliver_log();
}

// Refits whose threads use the instance.
class RefitsInProgress {
 public:
  void add(int32_t change) {
    const std::lock_guard lock(mutex_);
    count_ += change;
    changed_.notify_all();
  }
  // Waits until there are none. Without the GIL.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int32_t count_ = 0;
};

// A release that another thread does, since it may wait for calls in flight, or for a load to notice that it is cancelled.
struct Session::Release {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
};

std::shared_ptr<Session::Release> Session::release_in_thread() {
  const auto begun = std::make_shared<Release>();
  if (process.is_this()) {
    try {
      std::thread([begun, dropped = instance, dropped_module = module, beginner = calls_at_load, changes = refits] {
        if (beginner) beginner->finish();
        if (changes) changes->finish();
        heddle_instance_release(dropped);
        heddle_module_release(dropped_module);
        const std::lock_guard lock(begun->mutex);
        begun->is_over = true;
        begun->changed.notify_all();
      }).detach();
      instance = nullptr;
      module = nullptr;
      return begun;
    } catch (const std::system_error&) {  // no thread
    }
  }
  release();
  begun->is_over = true;
  return begun;
}

void Session::release_watching_signals() {
  const std::shared_ptr<Release> begun = release_in_thread();
  while (true) {
    bool is_over;
    {
      GilReleased released;
      std::unique_lock lock(begun->mutex);
      is_over = begun->changed.wait_for(lock, std::chrono::nanoseconds(kSliceNs), [&] { return begun->is_over; });
    }
    deliver_log();
    if (is_over) return;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void Session::wait_for_open() {
  try {
    wait_until_loaded(HEDDLE_TIMEOUT_INFINITE);
  } catch (nb::python_error&) {
    heddle_status_t* status = heddle_instance_wait(instance, 0);
    const bool goes_on = heddle_status_code(status) == HEDDLE_STATUS_DEADLINE_EXCEEDED;
    heddle_status_free(status);
    if (goes_on) release_in_thread();
    throw;
  }
}

bool Session::wait_until_loaded(uint64_t timeout_ns) {
  for (uint64_t waited_ns = 0;; waited_ns += kSliceNs) {
    const uint64_t left_ns = timeout_ns - std::min(timeout_ns, waited_ns);
    heddle_status_t* status;
    {
      GilReleased released;
      status = heddle_instance_wait(instance, std::min(left_ns, kSliceNs));
    }
    deliver_log();
    if (!status) {
      is_loading = false;
      return true;
    }
    if (heddle_status_code(status) != HEDDLE_STATUS_DEADLINE_EXCEEDED) raise(status);
    heddle_status_free(status);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (left_ns <= kSliceNs) return false;
  }
}

void Session::release() {
  heddle_instance_t* const dropped = instance;
  heddle_module_t* const dropped_module = module;
  instance = nullptr;
  module = nullptr;
  if ((!dropped && !dropped_module) || !process.is_this()) return;
  {
    GilReleased released;
    if (calls_at_load) calls_at_load->finish();
    if (refits) refits->finish();
    heddle_instance_release(dropped);
    heddle_module_release(dropped_module);
  }
  deliver_log_later();
}

void Session::check_open(const char* operation) const {
  if (closed) [[unlikely]]
    raise("FAILED_PRECONDITION", std::string("heddle: ") + operation + " of '" + path + "' failed: the module is closed");
  if (!process.is_this()) [[unlikely]] {
    raise("FAILED_PRECONDITION", std::string("heddle: ") + operation + " of '" + path +
                                     "' failed: the module was opened before this process was forked; open it again in the child");
  }
}

State::Handle::~Handle() {
  if (!state || !process.is_this()) return;
  {
    GilReleased released;
    heddle_state_release(state);
  }
  deliver_log_later();
}

void State::close() {
  handle.reset();
  deliver_log();
}

State::State(std::shared_ptr<Session> of) : session(std::move(of)), handle(std::make_shared<Handle>()) {
  session->check_open("making a state");
  const SessionInUse guard(session);
  check_without_gil([&] { return heddle_state_create(session->instance, &handle->state); });
}

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_of(nb::list list) {
  Pairs out;
  for (nb::handle entry : list) {
    const auto pair = nb::cast<nb::tuple>(entry);
    out.emplace_back(nb::cast<std::string>(pair[0]), nb::cast<std::string>(pair[1]));
  }
  return out;
}

template <class Ask>
nb::object report_text(Ask ask) {
  heddle_text_t* text = nullptr;
  check_without_gil([&] { return ask(&text); });
  const std::unique_ptr<heddle_text_t, void (*)(heddle_text_t*)> owned(text, heddle_text_free);
  const std::string_view content = view(heddle_text_view(text));
  return nb::steal(PyUnicode_DecodeUTF8(content.data(), static_cast<Py_ssize_t>(content.size()), "replace"));
}

struct Runtime {
  heddle_runtime_t* handle = nullptr;
  uint32_t uses = 0;  // calls in progress
  bool closed = false;
  Process process;

  Runtime(const std::string& config, const std::string& config_text, nb::list plugin_paths, bool environment) {
    std::vector<std::string> texts;
    for (nb::handle path : plugin_paths) texts.push_back(nb::cast<std::string>(path));
    std::vector<heddle_string_t> paths;
    for (const std::string& path : texts) paths.push_back(c_string(path));
    heddle_runtime_params_t params{};
    params.struct_size = sizeof(params);
    params.flags = environment ? 0 : HEDDLE_RUNTIME_NO_CONFIG;
    params.config_path = c_string(config);
    params.config_text = c_string(config_text);
    params.plugin_paths = paths.data();
    params.plugin_path_count = static_cast<uint32_t>(paths.size());
    params.log = write_log;
    check_without_gil([&] { return heddle_runtime_create(&params, &handle); });
  }
  Runtime(const Runtime&) = delete;
  ~Runtime() {
    const Exclusive held;
    release();
  }
  void close() {
    closed = true;
    if (uses == 0) release();
    deliver_log();
  }
  void release() {
    heddle_runtime_t* const dropped = handle;
    handle = nullptr;
    if (!dropped || !process.is_this()) return;
    {
      GilReleased released;
      heddle_runtime_release(dropped);
    }
    deliver_log_later();
  }
  // Runs an operation on the handle, which other threads may close meanwhile.
  template <class Operation>
  auto use(std::string_view what, Operation operation) {
    if (closed)
      raise("FAILED_PRECONDITION", "heddle: " + std::string(what) + " failed: the runtime is closed; make another heddle.Runtime");
    if (!process.is_this()) {
      raise("FAILED_PRECONDITION",
            "heddle: " + std::string(what) +
                " failed: the runtime was made before this process was forked; make another heddle.Runtime in the child");
    }
    struct Use {
      Runtime& runtime;
      ~Use() {
        if (--runtime.uses == 0 && runtime.closed) runtime.release();
      }
    } guard{*this};
    ++uses;
    return operation();
  }
  nb::object report(const std::string& topic) {
    return use("asking for a report",
               [&] { return report_text([&](heddle_text_t** out) { return heddle_runtime_report(handle, c_string(topic), out); }); });
  }
};

// A tensor with a copy of an array, for every function on that device.
nb::object make_device_tensor(Runtime& runtime, const std::string& name, nb::handle array) {
  return runtime.use("making a tensor", [&] {
    heddle_runtime_device_t* opened = nullptr;
    check_without_gil([&] { return heddle_runtime_device(runtime.handle, c_string(name), &opened); });
    const std::unique_ptr<heddle_runtime_device_t, void (*)(heddle_runtime_device_t*)> owned(opened, heddle_runtime_device_release);
    const std::shared_ptr<const Device> device = device_of(opened);
    Source source;
    const Place place = {{}, {}, {}, nullptr, device.get()};
    open_source(array.ptr(), place, false, Stream(), &source);
    if (!source.on_host)
      raise("UNIMPLEMENTED", place.text() + ": copying an array of that device is not implemented; use it as an argument");
    heddle_tensor_t* made = nullptr;
    check_without_gil(
        [&] { return heddle_tensor_create(opened, source.type->type, source.dims, source.rank, source.data, source.size_bytes, &made); });
    return make_tensor(made, device);
  });
}

bool is_small(const std::string& path) {
  constexpr off_t kSmallBytes = 4 << 20;
  struct stat known;
  return stat(path.c_str(), &known) == 0 && known.st_size <= kSmallBytes;
}

// Scopes and paths, with their texts.
struct Files {
  explicit Files(nb::list list) : texts(pairs_of(list)) {
    for (const auto& [scope, path] : texts) files.push_back({c_string(scope), c_string(path)});
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  const Pairs texts;
  std::vector<heddle_parameter_file_t> files;
};

// New values for parameters, by a thread of its own, so that Ctrl-C can end it.
struct Refit : std::enable_shared_from_this<Refit> {
  Refit(nb::list given, nb::list laid_over) : files(given), overlays(laid_over) {
    params.struct_size = sizeof(params);
    params.parameter_files = files.files.data();
    params.parameter_file_count = static_cast<uint32_t>(files.files.size());
    params.overlays = overlays.files.data();
    params.overlay_count = static_cast<uint32_t>(overlays.files.size());
    params.cancel = &cancel;
  }
  Refit(const Refit&) = delete;
  ~Refit() { heddle_status_free(status); }

  // Throws what a handler of a signal raises. The old values stay then, unless it was nearly over; it may take a while until the thread has ended.
  heddle_status_t* status_watching_signals(Session& session) {
    if (!session.refits) session.refits = std::make_shared<RefitsInProgress>();
    RefitsInProgress& all = *session.refits;
    all.add(1);
    try {
      std::thread([self = shared_from_this(), others = session.refits, instance = session.instance] {
        self->work(instance);
        others->add(-1);
      }).detach();
    } catch (const std::system_error&) {  // no thread
      const GilReleased released;
      work(session.instance);
      all.add(-1);
    }
    constexpr std::chrono::milliseconds kLook{5};  // short, so that a signal in a refit that is soon over can still end it
    while (true) {
      bool ended;
      {
        const GilReleased released;
        std::unique_lock lock(mutex);
        ended = changed.wait_for(lock, kLook, [&] { return is_over; });
      }
      deliver_log();
      if (ended) return std::exchange(status, nullptr);
      if (PyErr_CheckSignals() == 0) continue;
      __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
      session.dropped_calls = true;  // closing the module may have to wait
      throw nb::python_error();
    }
  }

 private:
  void work(heddle_instance_t* instance) {
    heddle_status_t* const outcome = heddle_instance_refit(instance, &params);
    const std::lock_guard lock(mutex);
    status = outcome;
    is_over = true;
    changed.notify_all();
  }

  const Files files, overlays;
  heddle_refit_params_t params{};
  uint8_t cancel = 0;
  std::mutex mutex;
  std::condition_variable changed;
  heddle_status_t* status = nullptr;
  bool is_over = false;
};

struct Module {
  std::shared_ptr<Session> session;
  nb::object main;  // the Function that a call of the module calls

  Module(Runtime& runtime, const std::string& path, nb::list slots, nb::list parameters, nb::list over, uint32_t flags) {
    session = std::make_shared<Session>();
    session->path = path;
    const Pairs slot_texts = pairs_of(slots);
    const Files files(parameters), overlays(over);
    std::vector<heddle_slot_binding_t> bindings;
    for (const auto& [slot, device] : slot_texts) bindings.push_back({c_string(slot), c_string(device)});
    heddle_instance_params_t params{};
    params.struct_size = sizeof(params);
    params.slots = bindings.data();
    params.slot_count = static_cast<uint32_t>(bindings.size());
    params.parameter_files = files.files.data();
    params.parameter_file_count = static_cast<uint32_t>(files.files.size());
    params.overlays = overlays.files.data();
    params.overlay_count = static_cast<uint32_t>(overlays.files.size());
    params.flags = flags;
    // In the background, so that Ctrl-C can end the load. A module that is loaded in no time does without the thread.
    if (!files.files.empty() || !overlays.files.empty() || !is_small(path)) params.flags |= HEDDLE_INSTANCE_IN_BACKGROUND;
    runtime.use("opening '" + path + "'", [&] {
      check_without_gil([&] { return heddle_module_open(runtime.handle, c_string(path), nullptr, &session->module); });
      check_without_gil([&] { return heddle_instance_create(session->module, &params, &session->instance); });
      session->is_loading = params.flags & HEDDLE_INSTANCE_IN_BACKGROUND;
      if (session->is_loading && !(flags & HEDDLE_INSTANCE_IN_BACKGROUND)) session->wait_for_open();
    });
  }

  template <class Operation>
  auto use(const char* what, Operation operation) const {
    session->check_open(what);
    const SessionInUse guard(session);
    return operation();
  }
  void refit(nb::list parameters, nb::list over) const {
    const auto refit = std::make_shared<Refit>(parameters, over);
    use("replacing parameters", [&] { check(refit->status_watching_signals(*session)); });
  }
  void close() { session->close(); }
  nb::object module_report() const {
    return use("asking for a report",
               [&] { return report_text([&](heddle_text_t** out) { return heddle_module_report(session->module, out); }); });
  }
  nb::object instance_report(const std::string& topic) const {
    return use("asking for a report", [&] {
      return report_text([&](heddle_text_t** out) { return heddle_instance_report(session->instance, c_string(topic), out); });
    });
  }
};

// Whether the parameters are loaded, or will be after that time.
bool wait_for_parameters(const Module& module, nb::handle timeout) {
  return module.use("waiting for parameters", [&] {
    if (!module.session->is_loading) return true;
    uint64_t timeout_ns = HEDDLE_TIMEOUT_INFINITE;
    if (!timeout.is_none()) {
      const double seconds = seconds_of(timeout, "heddle: waiting for the parameters of '" + module.session->path + "' failed: ");
      timeout_ns = static_cast<uint64_t>(std::clamp(seconds * 1e9, 0.0, 9e18));
    }
    return module.session->wait_until_loaded(timeout_ns);
  });
}

constexpr const char* kClose = "close($self, /)\n--\n\nReleases what it holds; using it later is an error.";

PyObject* call_module(PyObject* self, PyObject* arguments, PyObject* named) {
  return exclusively<PyObject*>(nullptr, [&] {
    Module& module = self_of<Module>(self);
    if (!module.main.is_valid()) [[unlikely]] {
      nb::object made = nb::handle(self).attr("function")();
      if (!module.main.is_valid()) module.main = std::move(made);  // another thread may have been faster, and calls it already
    }
    return nb::inst_ptr<Function>(module.main)->call(arguments, named);
  });
}
PyMethodDef kModuleMethods[] = {{"close", as_method(without_parameters<Module, &Module::close>), METH_NOARGS, kClose},
                                {nullptr, nullptr, 0, nullptr}};
const PyType_Slot kModuleSlots[] = {{Py_tp_call, reinterpret_cast<void*>(call_module)}, {Py_tp_methods, kModuleMethods}, {0, nullptr}};
PyMethodDef kRuntimeMethods[] = {{"close", as_method(without_parameters<Runtime, &Runtime::close>), METH_NOARGS, kClose},
                                 {nullptr, nullptr, 0, nullptr}};
const PyType_Slot kRuntimeSlots[] = {{Py_tp_methods, kRuntimeMethods}, {0, nullptr}};
PyMethodDef kStateMethods[] = {{"close", as_method(without_parameters<State, &State::close>), METH_NOARGS,
                                "close($self, /)\n--\n\n"
                                "Frees the memory, once calls that use it are over. Later calls with the state are errors."},
                               {nullptr, nullptr, 0, nullptr}};
const PyType_Slot kStateSlots[] = {{Py_tp_methods, kStateMethods}, {Py_tp_new, reinterpret_cast<void*>(refuse_new)}, {0, nullptr}};

}  // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // objects that live at exit are the application's
  module.doc() = "The part of heddle that is written in C++; use the package heddle.";
  Process::watch();
  Exclusive::prepare();
  bind_tensor(module);
  bind_completions(module);
  bind_function(module);
  bind_call(module);
  bind_exchange(module);
  start_log();
  nb::class_<Runtime>(module, "Runtime", nb::type_slots(kRuntimeSlots), nb::is_weak_referenceable())
      .def(nb::init<const std::string&, const std::string&, nb::list, bool>())
      .def("_report", &Runtime::report, Locked())
      .def("_tensor", &make_device_tensor, nb::arg("device"), nb::arg("array").none(), Locked())
      .def_prop_ro("closed", [](const Runtime& self) { return self.closed; }, Locked());
  nb::class_<State>(module, "State", nb::type_slots(kStateSlots), nb::is_weak_referenceable(),
                    "Values that functions of a module keep between calls, zero at first: function(x, state=s). Made by `Module.state`.")
      .def_prop_ro(
          "closed", [](const State& self) { return !self.handle; }, Locked(), "Whether it has been closed.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__", [](State& self, nb::args) { self.close(); }, Locked())
      .def(
          "__repr__", [](const State& self) { return "<heddle.State of " + self.session->path + (self.handle ? ">" : ", closed>"); },
          Locked());
  nb::class_<Module>(module, "Module", nb::type_slots(kModuleSlots), nb::is_weak_referenceable())
      .def(nb::init<Runtime&, const std::string&, nb::list, nb::list, nb::list, uint32_t>(), Locked())
      .def("_module_report", &Module::module_report, Locked())
      .def("_instance_report", &Module::instance_report, Locked())
      .def("_refit", &Module::refit, Locked())
      .def("_wait", &wait_for_parameters, nb::arg("timeout").none(), Locked())
      .def(
          "_state", [](const Module& self) { return new State(self.session); }, Locked())
      .def(
          "_function", [](const Module& self, const std::string& name) { return new Function(self.session, name); }, Locked())
      .def_prop_ro("path", [](const Module& self) { return self.session->path; })
      .def_prop_ro("closed", [](const Module& self) { return self.session->closed; }, Locked());
}

}  // namespace heddle::python
