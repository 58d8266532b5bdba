// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The path of a call: names to positions, arrays to tensors, heddle_call_start and heddle_call_wait without the GIL, results to Python.
// A call with small arrays of the shapes of an earlier one allocates nothing but the Python objects of its results.
#include "function.h"

#include <algorithm>
#include <ctime>
#include <optional>
#include <unordered_set>

#include "completions.h"

namespace heddle::python {
std::shared_ptr<const Device> device_of(heddle_runtime_device_t* device) {
  heddle_runtime_device_properties_t properties{};
  properties.struct_size = sizeof(properties);
  check(heddle_runtime_device_describe(device, &properties));
  return std::make_shared<const Device>(Device{std::string(view(properties.name)), heddle_dlpack_device_of(device)});
}

namespace {

// Smaller arrays are copied: that takes less time than lending them.
constexpr uint64_t kInPlaceFrom = 4096;
constexpr uint64_t kKeptMax = 1 << 20;
constexpr uint64_t kCopiedWithGil = 64 << 10;

std::deque<Value> values_of(heddle_function_t* function, uint32_t count,
                            heddle_status_t* (*ask)(const heddle_function_t*, uint32_t, heddle_tensor_type_t*)) {
  std::deque<Value> out;
  for (uint32_t i = 0; i < count; ++i) {
    Value& value = out.emplace_back();
    value.type.struct_size = sizeof(value.type);
    check(ask(function, i, &value.type));
    value.text = view(value.type.name);
    value.name = nb::steal(PyUnicode_FromStringAndSize(value.text.data(), static_cast<Py_ssize_t>(value.text.size())));
    PyObject* interned = value.name.release().ptr();
    PyUnicode_InternInPlace(&interned);
    value.name = nb::steal(interned);
    value.device = device_of(value.type.device);
    value.in_place = value.device->on_host() && HEDDLE_TYPE_BITS(value.type.element_type) >= 8;
    value.on_cuda = value.device->on_cuda();
    for (uint32_t d = 0; d < value.type.rank; ++d) value.is_static &= value.type.dims[d] >= 0;
  }
  return out;
}

std::string names_of(const std::deque<Value>& values) {
  std::string out;
  for (const Value& value : values) out += (out.empty() ? "'" : ", '") + value.text + "'";
  return out.empty() ? "none" : out;
}

bool same_dims(heddle_tensor_t* tensor, const Source& source) {
  if (heddle_tensor_rank(tensor) != source.rank || heddle_tensor_element_type(tensor) != source.type->type) return false;
  const int64_t* dims = heddle_tensor_dims(tensor);
  for (uint32_t i = 0; i < source.rank; ++i) {
    if (dims[i] != source.dims[i]) return false;
  }
  return true;
}

Tensor* as_tensor(PyObject* object) {
  if (Py_TYPE(object) != tensor_class) return nullptr;
  return &self_of<Tensor>(object);
}

uint64_t deadline_after(double seconds) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double ns = static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec) + seconds * 1e9;
  return ns < 1 ? 1 : ns > 9e18 ? 0 : static_cast<uint64_t>(ns);
}

}  // namespace

Frame::~Frame() {
  end_call();
  drop_kept();
}

void Frame::end_call() {
  if (!process.is_this()) return;
  for (heddle_tensor_t* one : temporary) release_tensor(one);
  temporary.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] && !given[i]) release_tensor(results[i]);
    results[i] = nullptr;
    given[i] = 0;
  }
}

void Frame::drop_kept() {
  if (!process.is_this()) return;
  for (heddle_tensor_t*& one : kept) {
    if (one) release_tensor(one);
    one = nullptr;
  }
}

namespace {

// What the caller passed as `stream`: the number of a cudaStream_t, or an object of PyTorch, CuPy or cuda.core. Numbers are those of DLPack.
Stream stream_of(nb::handle object, const std::string& function) {
  nb::object number = nb::borrow(object);
  if (nb::hasattr(object, "cuda_stream")) {
    number = object.attr("cuda_stream");
  } else if (nb::hasattr(object, "__cuda_stream__")) {
    const nb::object pair = object.attr("__cuda_stream__")();  // a version and the number
    number = PyTuple_Check(pair.ptr()) && PyTuple_Size(pair.ptr()) == 2 ? nb::borrow(PyTuple_GetItem(pair.ptr(), 1)) : nb::object(pair);
  } else if (!PyLong_Check(object.ptr()) && nb::hasattr(object, "ptr")) {
    number = object.attr("ptr");
  }
  const uint64_t value = PyLong_Check(number.ptr()) ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
  if (!PyLong_Check(number.ptr()) || PyErr_Occurred()) {
    PyErr_Clear();
    raise("TYPE", "heddle: calling '" + function +
                      "' failed: stream is a cudaStream_t as a number, or an object with cuda_stream or __cuda_stream__, got " +
                      repr_of(object));
  }
  return {value == 1 ? 0 : value};
}

}  // namespace

// One call.
struct Invocation {
  Function& function;
  std::unique_ptr<Frame> frame;
  nb::object out;  // what the caller passed to write the result to; for several results a tuple, since a list may change during the call
  std::vector<std::unique_ptr<Source>> copied_results;  // arrays that are filled after the call, by result; usually empty
  heddle_call_params_t params{};
  PyObject* donate = nullptr;     // what the caller passed as `donate`; borrowed
  std::vector<uint32_t> donated;  // indices of arguments
  std::shared_ptr<State::Handle> state;
  Stream stream;
  bool is_ordered = false;  // with the stream
  bool abandoned = false;   // the call may still run

  explicit Invocation(Function& called) : function(called) {
    function.session->check_open("calling a function");
    ++function.session->calls;
    if (!function.frames.empty()) {
      frame = std::move(function.frames.back());
      function.frames.pop_back();
      return;
    }
    frame = std::make_unique<Frame>();
    frame->objects.resize(function.arguments.size());
    frame->arguments.resize(function.arguments.size());
    frame->kept.resize(function.arguments.size());
    frame->results.resize(function.results.size());
    frame->given.resize(function.results.size());
  }
  ~Invocation() {
    if (frame) {
      frame->end_call();
      if (abandoned) frame->drop_kept();
      if (!function.session->closed && function.frames.size() < 64) function.frames.push_back(std::move(frame));
    }
    frame.reset();
    Session& session = *function.session;
    if (--session.calls == 0 && session.closed) session.release();
  }

  [[noreturn]] void refuse(const std::string& why, const char* code = "TYPE") const {
    raise(code, "heddle: calling '" + function.name + "' failed: " + why);
  }

  // Fills frame->objects.
  void place_arguments(PyObject* arguments, PyObject* named) {
    const size_t count = function.arguments.size();
    const size_t positional = static_cast<size_t>(NB_TUPLE_GET_SIZE(arguments));
    if (positional > count) {
      refuse("it takes " + std::to_string(count) + " arguments (" + names_of(function.arguments) + "), got " + std::to_string(positional));
    }
    for (size_t i = 0; i < positional; ++i) frame->objects[i] = NB_TUPLE_GET_ITEM(arguments, static_cast<Py_ssize_t>(i));
    for (size_t i = positional; i < count; ++i) frame->objects[i] = nullptr;
    if (named) place_named(named);
    for (size_t i = positional; i < count; ++i) {
      if (!frame->objects[i]) {
        const Value& value = function.arguments[i];
        refuse("argument '" + value.text + "' is missing, " +
               type_text(value.type.element_type, value.type.dims, value.type.rank, value.type.symbols));
      }
    }
  }

  void place_named(PyObject* named) {
    PyObject *key, *object;
    Py_ssize_t at = 0;
    while (PyDict_Next(named, &at, &key, &object)) {
      const size_t index = find(key);
      if (index < function.arguments.size()) {
        if (frame->objects[index]) refuse("argument '" + function.arguments[index].text + "' is given twice");
        frame->objects[index] = object;
      } else if (PyUnicode_CompareWithASCIIString(key, "out") == 0) {
        if (object != Py_None) out = nb::borrow(object);
      } else if (PyUnicode_CompareWithASCIIString(key, "timeout") == 0) {
        if (object == Py_None) continue;
        params.struct_size = sizeof(params);
        params.deadline_ns = deadline_after(seconds_of(object, "heddle: calling '" + function.name + "' failed: "));
      } else if (PyUnicode_CompareWithASCIIString(key, "donate") == 0) {
        if (object != Py_None) donate = object;
      } else if (PyUnicode_CompareWithASCIIString(key, "state") == 0) {
        if (object != Py_None) use_state(object);
      } else if (PyUnicode_CompareWithASCIIString(key, "stream") == 0) {
        if (object == Py_None) continue;
        if (!function.uses_cuda) refuse("it uses no CUDA device, which a stream is for; leave stream out", "INVALID_ARGUMENT");
        stream = stream_of(object, function.name);
        is_ordered = true;
      } else {
        refuse("it has no argument " + repr_of(nb::handle(key)) + "; its arguments are " + names_of(function.arguments));
      }
    }
  }

  void use_state(nb::handle object) {
    State* given = nullptr;
    if (!nb::try_cast(object, given) || !given) {
      refuse("state is a heddle.State, which module.state() makes, got " + repr_of(object));
    }
    if (!given->handle) refuse("the state is closed; make another one with module.state()", "FAILED_PRECONDITION");
    if (given->session != function.session) {
      refuse("the state is one of another module, '" + given->session->path + "'; pass one that module.state() of '" +
                 function.session->path + "' made",
             "INVALID_ARGUMENT");
    }
    state = given->handle;
    params.struct_size = sizeof(params);
    params.state = state->state;
  }

  size_t find(PyObject* key) const {
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      if (function.arguments[i].name.ptr() == key) return i;
    }
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      if (PyUnicode_Compare(function.arguments[i].name.ptr(), key) == 0) return i;
    }
    return function.arguments.size();
  }

  // Memory that the call writes to, or an array's. No bytes: unknown.
  struct Range {
    uint64_t address = 0, size_bytes = 0;
    explicit Range(const Source& source) : address(reinterpret_cast<uint64_t>(source.data)), size_bytes(source.size_bytes) {}
    explicit Range(heddle_tensor_t* tensor) : size_bytes(heddle_tensor_size(tensor)) {
      heddle_status_t* const unknown = heddle_tensor_address(tensor, &address);  // such as that of a donated one, which the call refuses
      if (unknown) size_bytes = 0;
      heddle_status_free(unknown);
    }
    bool operator==(const Range&) const = default;
    bool overlaps(const Range& other) const {
      return std::max(address, other.address) < std::min(address + size_bytes, other.address + other.size_bytes);
    }
  };

  // The given result that takes the argument's memory, if it is written to just that memory: the call then updates it in place.
  std::optional<size_t> updated_in(size_t argument, const Range& range) const {
    const heddle_tensor_type_t& type = function.arguments[argument].type;
    if (!(type.flags & HEDDLE_TENSOR_TYPE_ALIASED) || !frame->given[type.alias]) return {};
    if (range.size_bytes == 0 || Range(frame->results[type.alias]) != range) return {};
    return type.alias;
  }

  bool is_written(const Range& range) const {
    for (size_t i = 0; i < frame->results.size(); ++i) {
      if (frame->given[i] && Range(frame->results[i]).overlaps(range)) return true;
    }
    return false;
  }

  // After take_results.
  void make_arguments() {
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      PyObject* object = frame->objects[i];
      if (const Tensor* tensor = as_tensor(object)) {
        frame->arguments[i] = tensor->get();
        // The array of the result has the tensor's memory. If both are one tensor already, nothing changes.
        const bool may_be_updated = out && (function.arguments[i].type.flags & HEDDLE_TENSOR_TYPE_ALIASED);
        if (const auto result = may_be_updated ? updated_in(i, Range(tensor->get())) : std::nullopt)
          frame->results[*result] = tensor->get();
      } else {
        frame->arguments[i] = make_argument(i, object);
      }
    }
    if (donate) donate_arguments();
  }

  heddle_tensor_t* make_argument(size_t index, PyObject* object) {
    Value& value = function.arguments[index];
    Source source;
    open_source(object, function.place(value, "argument"), false, stream, &source);
    heddle_tensor_t*& kept = frame->kept[index];
    heddle_tensor_t* made = nullptr;
    if (!source.on_host) is_ordered = true;
    bool may_copy = source.on_host;
    if (out) {
      const Range range(source);
      if (const auto result = updated_in(index, range); result && same_dims(frame->results[*result], source)) {
        function.bytes_in_place += source.size_bytes;
        return frame->results[*result];
      }
      may_copy &= !is_written(range);
    }
    // The call refuses memory of a device that overlaps a result's.
    if (!source.on_host || (may_copy && value.in_place && source.size_bytes >= kInPlaceFrom)) {
      if (make_in_place(function.handle, static_cast<uint32_t>(index), false, &source, &made)) {
        frame->temporary.push_back(made);
        function.bytes_in_place += source.size_bytes;
        return made;
      }
    }
    function.bytes_copied += source.size_bytes;
    const bool with_gil = value.device->on_host() && source.size_bytes <= kCopiedWithGil;
    if (kept && same_dims(kept, source)) {
      auto write = [&] { return heddle_tensor_write(kept, source.data, source.size_bytes); };
      with_gil ? check(write()) : check_without_gil(write);
      return kept;
    }
    auto copy = [&] {
      return heddle_tensor_from_host(function.handle, static_cast<uint32_t>(index), source.type->type, source.dims, source.rank,
                                     source.data, source.size_bytes, &made);
    };
    with_gil ? check(copy()) : check_without_gil(copy);
    if (source.size_bytes > kKeptMax) {
      frame->temporary.push_back(made);
      return made;
    }
    if (kept) release_tensor(kept);
    return kept = made;
  }

  void donate_one(PyObject* name) {
    const size_t index = PyUnicode_Check(name) ? find(name) : function.arguments.size();
    if (index == function.arguments.size()) {
      refuse("donate names an argument, or several in a tuple or a list, got " + repr_of(name) + "; its arguments are " +
             names_of(function.arguments));
    }
    const std::string& text = function.arguments[index].text;
    Tensor* tensor = as_tensor(frame->objects[index]);
    if (!tensor) {
      refuse("argument '" + text + "' is to be donated and is an array, which stays yours; donate a heddle.Tensor, such as a result, or " +
             function.name + ".tensor('" + text + "', array)");
    }
    if (tensor->exports != 0) {
      refuse("argument '" + text + "' is to be donated, and " + std::to_string(tensor->exports) +
                 " arrays use its memory; delete them first, or donate a copy",
             "FAILED_PRECONDITION");
    }
    if (tensor->read_only) refuse("argument '" + text + "' is to be donated and is read-only; donate a copy", "INVALID_ARGUMENT");
    // With another user, the contents are copied.
    if (tensor->lends) frame->temporary.push_back(heddle_tensor_retain(tensor->get()));
    tensor->cache = nullptr;
    donated.push_back(static_cast<uint32_t>(index));
  }

  void donate_arguments() {
    if (!PyTuple_Check(donate) && !PyList_Check(donate)) return donate_one(donate);
    for (Py_ssize_t i = 0; i < PySequence_Size(donate); ++i) {
      const nb::object name = nb::steal(PySequence_GetItem(donate, i));
      if (!name.is_valid()) throw nb::python_error();
      donate_one(name.ptr());
    }
  }

  PyObject* given_result(size_t index) const {
    if (function.results.size() == 1) return out.ptr();
    PyObject* object = PyTuple_GetItem(out.ptr(), static_cast<Py_ssize_t>(index));
    return object == Py_None ? nullptr : object;
  }

  // Those that the caller did not give.
  void make_results() {
    for (size_t i = 0; i < frame->results.size(); ++i) {
      auto& idle = function.cache->results[i];
      if (frame->given[i] || idle.empty() || (!copied_results.empty() && copied_results[i])) continue;
      frame->results[i] = idle.back();
      idle.pop_back();
    }
  }

  void take_results() {
    const size_t count = function.results.size();
    if (count != 1 && (PyList_Check(out.ptr()) || PyTuple_Check(out.ptr()))) {
      out = nb::steal(PySequence_Tuple(out.ptr()));
      if (!out.is_valid()) throw nb::python_error();
    }
    if (count != 1 && (!PyTuple_Check(out.ptr()) || PyTuple_Size(out.ptr()) != static_cast<Py_ssize_t>(count))) {
      refuse("out must be a list or a tuple of " + std::to_string(count) + " arrays, one per result (" + names_of(function.results) +
             "); None for a new one");
    }
    for (size_t i = 0; i < count; ++i) {
      PyObject* object = given_result(i);
      if (!object) continue;
      const Value& value = function.results[i];
      if (const Tensor* tensor = as_tensor(object)) {
        if (tensor->read_only) {
          raise("INVALID_ARGUMENT", function.place(value, "result").text() + ": got a read-only tensor to write to; pass a writable one");
        }
        if (!copied_results.empty()) check_apart(i, Range(tensor->get()));
        // Another thread may release the tensor during the call.
        frame->temporary.push_back(heddle_tensor_retain(tensor->get()));
        frame->results[i] = tensor->get();
        frame->given[i] = 1;
        continue;
      }
      auto source = std::make_unique<Source>();
      open_source(object, function.place(value, "result"), true, stream, source.get());
      check_apart(i, Range(*source));
      heddle_tensor_t* made = nullptr;
      if (!source->on_host) is_ordered = true;
      if ((value.in_place || !source->on_host) && make_in_place(function.handle, static_cast<uint32_t>(i), true, source.get(), &made)) {
        frame->results[i] = made;
        frame->given[i] = 1;
        frame->temporary.push_back(made);
        continue;
      }
      // Extents with symbols are compared when the call is over.
      bool fits = source->type->type == value.type.element_type && source->rank == value.type.rank;
      for (uint32_t k = 0; fits && k < value.type.rank; ++k) fits = value.type.dims[k] < 0 || value.type.dims[k] == source->dims[k];
      if (!fits) refuse_result(i, *source, value.type.element_type, value.type.dims, value.type.rank, value.type.symbols);
      copied_results.resize(count);
      copied_results[i] = std::move(source);
    }
  }

  // Of two results in one memory, the one that is copied would overwrite the other.
  void check_apart(size_t index, const Range& range) const {
    for (size_t i = 0; i < index; ++i) {
      const bool is_copied = !copied_results.empty() && copied_results[i];
      if (!is_copied && !frame->given[i]) continue;
      if (!(is_copied ? Range(*copied_results[i]) : Range(frame->results[i])).overlaps(range)) continue;
      refuse("result '" + function.results[index].text + "' is to be written to memory that overlaps that of result '" +
                 function.results[i].text + "'; pass another array, or None for a new one",
             "INVALID_ARGUMENT");
    }
  }

  const heddle_call_params_t* call_params() {
    if (function.uses_cuda && (is_ordered || cuda_is_shared)) {
      params.struct_size = sizeof(params);
      params.flags |= HEDDLE_CALL_NATIVE_STREAM;
      params.native_stream = stream.native;
    }
    if (!donated.empty()) {
      params.struct_size = sizeof(params);
      params.donated_arguments = donated.data();
      params.donated_argument_count = static_cast<uint32_t>(donated.size());
    }
    return params.struct_size ? &params : nullptr;
  }

  // Starts the call, for a Call, which waits for it. Others may not use its tensors again before it is over, even if they are dropped.
  heddle_call_t* start() {
    wait_until_loaded();
    heddle_call_t* call = nullptr;
    const heddle_call_params_t* given = call_params();
    check_without_gil([&] {
      return heddle_call_start(function.handle, given, frame->arguments.data(), static_cast<uint32_t>(frame->arguments.size()),
                               frame->results.data(), static_cast<uint32_t>(frame->results.size()), &call);
    });
    share_tensors();
    return call;
  }

  // Until the parameters of a module are there that are loaded in the background, or the call's deadline has passed.
  void wait_until_loaded() {
    Session& session = *function.session;
    if (!session.is_loading) [[likely]]
      return;
    uint64_t left_ns = HEDDLE_TIMEOUT_INFINITE;
    if (params.deadline_ns != 0) left_ns = params.deadline_ns - std::min(params.deadline_ns, deadline_after(0));
    if (!session.wait_until_loaded(left_ns)) {
      refuse("the parameters of '" + session.path + "' are still being loaded after its timeout; wait for them with wait() of the module",
             "DEADLINE_EXCEEDED");
    }
    session.check_open("calling a function");
  }

  void run() {
    wait_until_loaded();
    heddle_call_t* call = nullptr;
    const heddle_call_params_t* given = call_params();
    heddle_status_t* status;
    bool over;
    auto wait = [&] {
      status = heddle_call_wait(call, kSliceNs);
      over = heddle_status_code(status) != HEDDLE_STATUS_DEADLINE_EXCEEDED || heddle_status_payload(status, c_string("deadline")).size != 0;
      if (over) heddle_call_release(call);
    };
    {
      GilReleased released;
      status = heddle_call_start(function.handle, given, frame->arguments.data(), static_cast<uint32_t>(frame->arguments.size()),
                                 frame->results.data(), static_cast<uint32_t>(frame->results.size()), &call);
      over = status != nullptr;
      if (!over) wait();
    }
    while (!over) {
      heddle_status_free(status);
      if (PyErr_CheckSignals() != 0) {
        abandon(call);
        throw nb::python_error();
      }
      GilReleased released;
      wait();
    }
    deliver_log();
    if (status) [[unlikely]] {
      discard_results();
      raise(status);
    }
  }

  // The call goes on; libheddle keeps its tensors alive.
  void abandon(heddle_call_t* call) {
    abandoned = function.session->dropped_calls = true;
    heddle_call_cancel(call);
    heddle_call_release(call);
    share_tensors();
  }

  void share_tensors() {
    for (PyObject* object : frame->objects) {
      if (Tensor* tensor = as_tensor(object)) tensor->shared = true;
    }
    discard_results();
  }

  void discard_results() {
    for (size_t i = 0; out.is_valid() && i < frame->results.size(); ++i) {
      PyObject* object = given_result(i);
      if (Tensor* tensor = object ? as_tensor(object) : nullptr) tensor->shared = true;
    }
  }

  nb::object result(size_t index) {
    if (out.is_valid()) {
      PyObject* object = given_result(index);
      if (object && !copied_results.empty() && copied_results[index]) read_result(index, *copied_results[index]);
      if (object) return nb::borrow(object);
    }
    const Value& value = function.results[index];
    nb::object made = make_tensor(frame->results[index], value.device);
    frame->results[index] = nullptr;
    if (value.is_static && heddle_tensor_size(nb::inst_ptr<Tensor>(made)->handle) <= TensorCache::kMaxBytes) {
      nb::inst_ptr<Tensor>(made)->cache = function.cache;
      nb::inst_ptr<Tensor>(made)->index = static_cast<uint32_t>(index);
    }
    return made;
  }

  [[noreturn]] void refuse_result(size_t index, const Source& source, heddle_element_type_t type, const int64_t* dims, uint32_t rank,
                                  const heddle_string_t* symbols = nullptr) const {
    refuse("result '" + function.results[index].text + "' is " + type_text(type, dims, rank, symbols) + ", got an array of " +
               type_text(source.type->type, source.dims, source.rank) + " to write it to",
           "INVALID_ARGUMENT");
  }

  void read_result(size_t index, Source& source) {
    heddle_tensor_t* tensor = frame->results[index];
    if (!same_dims(tensor, source)) {
      refuse_result(index, source, heddle_tensor_element_type(tensor), heddle_tensor_dims(tensor), heddle_tensor_rank(tensor));
    }
    function.bytes_copied += source.size_bytes;
    check_without_gil([&] { return heddle_tensor_read(tensor, source.data, source.size_bytes); });
  }

  PyObject* results() {
    if (frame->results.size() == 1) return result(0).release().ptr();
    nb::object out_tuple = nb::steal(PyStructSequence_New(function.results_class));
    if (!out_tuple.is_valid()) throw nb::python_error();
    for (size_t i = 0; i < frame->results.size(); ++i) {
      PyStructSequence_SetItem(out_tuple.ptr(), static_cast<Py_ssize_t>(i), result(i).release().ptr());
    }
    return out_tuple.release().ptr();
  }
};

namespace {

// A name that lives as long as the process, as those of the fields of a type must.
const char* lasting(const std::string& name) {
  static auto* const names = new std::unordered_set<std::string>;
  return names->insert(name).first->c_str();
}

}  // namespace

Function::Function(std::shared_ptr<Session> given, std::string_view wanted) : session(std::move(given)), name(wanted) {
  session->check_open("getting a function");
  check(heddle_instance_function(session->instance, c_string(wanted), &handle));
  const uint32_t argument_count = heddle_function_argument_count(handle), result_count = heddle_function_result_count(handle);
  arguments = values_of(handle, argument_count, heddle_function_argument);
  results = values_of(handle, result_count, heddle_function_result);
  for (const Value& value : arguments) uses_cuda |= value.on_cuda;
  for (const Value& value : results) uses_cuda |= value.on_cuda;
  cache = std::make_shared<TensorCache>();
  cache->results.resize(result_count);
  for (auto& kept : cache->results) kept.reserve(TensorCache::kMaxPerResult);
  session->caches.push_back(cache);
  if (result_count == 1) return;
  std::vector<PyStructSequence_Field> fields;
  for (const Value& value : results) fields.push_back({lasting(value.text), "a result"});
  fields.push_back({nullptr, nullptr});
  PyStructSequence_Desc description = {"heddle.Results", "The results of a function, by position and by name.", fields.data(),
                                       static_cast<int>(result_count)};
  results_class = PyStructSequence_NewType(&description);
  if (!results_class) throw nb::python_error();
}

Function::~Function() {
  frames.clear();
  if (cache) cache->clear();
  Py_XDECREF(reinterpret_cast<PyObject*>(results_class));
}

PyObject* Function::call(PyObject* positional, PyObject* named) {
  Invocation call(*this);
  call.place_arguments(positional, named);
  if (call.out) call.take_results();
  call.make_arguments();
  call.make_results();
  call.run();
  return call.results();
}

// A call in flight. Its Invocation lives until it is over, and with it the arrays that the call uses.
struct Call {
  nb::object function;
  std::unique_ptr<Invocation> invocation;  // NULL once it is over
  heddle_call_t* handle = nullptr;
  bool is_being_finished = false;  // by a thread that reads results without the GIL
  nb::object value, error;
  Process process;

  Call() = default;
  Call(Call&&) = delete;
  ~Call() {
    if (!process.is_this() || !handle) return;
    heddle_call_t* const dropped = handle;
    handle = nullptr;
    Session& session = *nb::inst_ptr<Function>(function)->session;
    if (invocation) invocation->abandoned = session.dropped_calls = true;
    if (invocation || session.closed) {  // if this is the last handle of a closed module, its other calls are waited for
      GilReleased released;
      heddle_call_release(dropped);
    } else {
      heddle_call_release(dropped);
    }
  }
  void check_process() const {
    if (!process.is_this()) [[unlikely]]
      raise("FAILED_PRECONDITION", "heddle: waiting for a call of '" + nb::inst_ptr<Function>(function)->name +
                                       "' failed: it was started before this process was forked; open the module in the child, too");
  }

  // Whether the call is over, or will be after a while of that many nanoseconds. Other threads may do the same.
  bool wait(uint64_t timeout_ns) {
    if (!invocation) return true;
    check_process();
    heddle_status_t* status;
    {
      GilReleased released;
      status = heddle_call_wait(handle, timeout_ns);
    }
    deliver_log();
    const bool runs =
        heddle_status_code(status) == HEDDLE_STATUS_DEADLINE_EXCEEDED && heddle_status_payload(status, c_string("deadline")).size == 0;
    if (runs || !invocation || is_being_finished) {
      heddle_status_free(status);
      return !runs && !invocation;
    }
    is_being_finished = true;
    try {
      check(status);
      value = nb::steal(invocation->results());
    } catch (nb::python_error& failure) {
      error = nb::borrow(failure.value());
    } catch (const std::bad_alloc&) {
      error = nb::borrow(PyExc_MemoryError)();
    }
    invocation.reset();
    return true;
  }

  // Waits, and looks for signals now and then. False after the timeout.
  bool wait_for(nb::handle timeout) {
    double left = 1;
    const bool has_end = !timeout.is_none();
    if (has_end) left = seconds_of(timeout, "heddle: waiting for a call of '" + nb::inst_ptr<Function>(function)->name + "' failed: ");
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
    if (!invocation) return completions.add(key);
    completions.watch(handle, key);
  }

  nb::object result(nb::handle timeout) {
    if (!wait_for(timeout)) {
      raise("DEADLINE_EXCEEDED", "heddle: waiting for a call of '" + nb::inst_ptr<Function>(function)->name +
                                     "' failed: it still runs after " + repr_of(timeout) + " s; wait again, or cancel it");
    }
    if (error.is_valid()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
      throw nb::python_error();
    }
    return value;
  }
};

PyObject* start_call(PyObject* self, PyObject* positional, PyObject* named) {
  return guarded<PyObject*>(nullptr, [&] {
    Function& function = self_of<Function>(self);
    nb::object out = nb::cast(new Call(), nb::rv_policy::take_ownership);
    Call& call = *nb::inst_ptr<Call>(out);
    call.function = nb::borrow(self);
    auto invocation = std::make_unique<Invocation>(function);
    invocation->place_arguments(positional, named);
    if (invocation->out.is_valid()) invocation->take_results();
    invocation->make_arguments();
    invocation->make_results();
    call.handle = invocation->start();
    call.invocation = std::move(invocation);
    return out.release().ptr();
  });
}

// The only parameter of result() and exception().
nb::object timeout_of(PyObject* positional, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  PyObject* timeout = Py_None;
  if (!PyArg_ParseTupleAndKeywords(positional, named, "|O", const_cast<char**>(kNames), &timeout)) throw nb::python_error();
  return nb::borrow(timeout);
}

PyObject* result_of_call(PyObject* self, PyObject* positional, PyObject* named) {
  return guarded<PyObject*>(nullptr, [&] { return self_of<Call>(self).result(timeout_of(positional, named)).release().ptr(); });
}

PyObject* exception_of_call(PyObject* self, PyObject* positional, PyObject* named) {
  return guarded<PyObject*>(nullptr, [&] {
    Call& call = self_of<Call>(self);
    if (!call.wait_for(timeout_of(positional, named))) call.result(nb::int_(0));
    return (call.error.is_valid() ? call.error : nb::none()).release().ptr();
  });
}

PyObject* await_call(PyObject* self) {
  return guarded<PyObject*>(
      nullptr, [&] { return nb::object(nb::module_::import_("heddle._async").attr("await_call")(nb::handle(self))).release().ptr(); });
}

// As PyMethodDef, since inspect.signature knows these, and since Python code may run in them, which may end a thread while the interpreter ends.
PyMethodDef kCallMethods[] = {
    {"result", as_method(result_of_call), METH_VARARGS | METH_KEYWORDS,
     "result($self, /, timeout=None)\n--\n\n"
     "Waits, at most for that many seconds, and returns what calling the function would have returned, or raises its error. After the "
     "timeout, DeadlineExceededError is raised and the call goes on."},
    {"exception", as_method(exception_of_call), METH_VARARGS | METH_KEYWORDS,
     "exception($self, /, timeout=None)\n--\n\n"
     "Waits as result() does, and returns the error instead of raising it; None if there is none."},
    {nullptr, nullptr, 0, nullptr}};
const PyType_Slot kCallSlots[] = {{Py_tp_methods, kCallMethods}, {Py_am_await, reinterpret_cast<void*>(await_call)}, {0, nullptr}};

std::string Function::signature() const {
  auto list = [](const std::deque<Value>& values) {
    std::string out;
    for (const Value& value : values) {
      out += (out.empty() ? "" : ", ") + value.text + ": " +
             type_text(value.type.element_type, value.type.dims, value.type.rank, value.type.symbols);
    }
    return '(' + out + ')';
  };
  return name + list(arguments) + " -> " + list(results);
}

namespace {

PyObject* call_function(PyObject* self, PyObject* arguments, PyObject* named) {
  return guarded<PyObject*>(nullptr, [&] { return self_of<Function>(self).call(arguments, named); });
}

// An extent is a number, the name of its symbol, or None.
nb::tuple types_of(const std::deque<Value>& values) {
  const nb::object tensor_type = nb::module_::import_("heddle._types").attr("TensorType");
  nb::list out;
  for (const Value& value : values) {
    nb::list shape;
    for (uint32_t i = 0; i < value.type.rank; ++i) {
      if (value.type.dims[i] >= 0) {
        shape.append(value.type.dims[i]);
      } else if (value.type.symbols[i].size) {
        shape.append(nb::str(value.type.symbols[i].data, value.type.symbols[i].size));
      } else {
        shape.append(nb::none());
      }
    }
    out.append(tensor_type(value.name, element_type(value.type.element_type)->numpy, nb::tuple(shape)));
  }
  return nb::tuple(out);
}

size_t argument_index(const Function& function, nb::handle argument) {
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    if (nb::isinstance<nb::str>(argument) && PyUnicode_Compare(function.arguments[i].name.ptr(), argument.ptr()) == 0) return i;
  }
  if (PyLong_Check(argument.ptr())) {
    const int64_t index = PyLong_AsLongLong(argument.ptr());
    if (index == -1) PyErr_Clear();  // too large
    if (index >= 0 && index < static_cast<int64_t>(function.arguments.size())) return static_cast<size_t>(index);
  }
  raise("TYPE", "heddle: making a tensor failed: '" + function.name + "' has no argument " + repr_of(argument) + "; its arguments are " +
                    names_of(function.arguments));
}

nb::object make_argument_tensor(Function& function, nb::handle argument, nb::handle array, nb::handle copy) {
  function.session->check_open("making a tensor");
  const size_t index = argument_index(function, argument);
  const Value& value = function.arguments[index];
  const Place place = function.place(value, "argument");
  Source source;
  open_source(array.ptr(), place, false, Stream(), &source);
  heddle_tensor_t* made = nullptr;
  if (!copy.is_none() && !PyBool_Check(copy.ptr())) {
    raise("TYPE", "heddle: making a tensor of argument '" + value.text + "' of '" + function.name +
                      "' failed: copy is None, True or False, got " + repr_of(copy));
  }
  const bool may_copy = copy.is_none() || copy.is(Py_True);
  bool in_place = false;
  if (!source.on_host) {
    if (!copy.is_none() && may_copy) {
      raise("UNIMPLEMENTED",
            place.text() + ": copying an array of " + value.device->text() + " is not implemented; pass a copy, and copy=None");
    }
    cuda_is_shared = true;  // so calls are ordered with the default stream, for which the array is ready
  }
  if (!source.on_host || (value.in_place && (copy.is_none() || !may_copy))) {
    in_place = make_in_place(function.handle, static_cast<uint32_t>(index), false, &source, &made);
  }
  if (!in_place && !may_copy) {
    raise("INVALID_ARGUMENT", place.text() + ": the array at address " + std::to_string(reinterpret_cast<uint64_t>(source.data)) +
                                  " cannot be used without a copy on device '" + value.device->alias +
                                  "'; pass copy=None, or host memory at a multiple of 64 bytes, such as heddle.empty makes");
  }
  if (!in_place) {
    check_without_gil([&] {
      return heddle_tensor_from_host(function.handle, static_cast<uint32_t>(index), source.type->type, source.dims, source.rank,
                                     source.data, source.size_bytes, &made);
    });
  }
  (in_place ? function.bytes_in_place : function.bytes_copied) += source.size_bytes;
  nb::object out = make_tensor(made, value.device);
  nb::inst_ptr<Tensor>(out)->read_only = in_place && source.read_only;
  nb::inst_ptr<Tensor>(out)->lends = in_place;
  return out;
}

PyObject* tensor_of_function(PyObject* self, PyObject* positional, PyObject* named) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    static const char* const kNames[] = {"argument", "array", "copy", nullptr};
    PyObject *argument, *array, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "OO|$O", const_cast<char**>(kNames), &argument, &array, &copy)) return nullptr;
    return make_argument_tensor(self_of<Function>(self), argument, array, copy).release().ptr();
  });
}

PyMethodDef kFunctionMethods[] = {
    {"start", as_method(start_call), METH_VARARGS | METH_KEYWORDS,
     "start($self, /, *arguments, **named)\n--\n\n"
     "Starts a call with the arguments of a call, and returns a heddle.Call without waiting for it."},
    {"tensor", as_method(tensor_of_function), METH_VARARGS | METH_KEYWORDS,
     "tensor($self, /, argument, array, *, copy=None)\n--\n\n"
     "A tensor for an argument, for any number of calls. copy: None if it is needed, False never, True always.\n\n"
     "Without a copy, the tensor shares the memory of the array."},
    {nullptr, nullptr, 0, nullptr}};
const PyType_Slot kFunctionSlots[] = {
    {Py_tp_call, reinterpret_cast<void*>(call_function)}, {Py_tp_methods, kFunctionMethods}, {0, nullptr}};

}  // namespace

void bind_function(nb::module_& module) {
  nb::class_<Call>(
      module, "Call", nb::type_slots(kCallSlots), nb::is_weak_referenceable(),
      "A call that was started and may still run. `await` it, or wait with result(). Arrays that it uses in place must not change, and "
      "results have no contents, before it is over. If the object is dropped, the call goes on.")
      .def(
          "done", [](Call& self) { return self.wait(0); }, "Whether the call is over, with a result or an error.")
      .def(
          "cancel",
          [](Call& self) {
            if (self.invocation && self.process.is_this()) heddle_call_cancel(self.handle);
          },
          "Drops the work that is not on the device yet. If there was any, the call fails with CancelledError; otherwise it ends as if it "
          "had not "
          "been cancelled.")
      .def("_notify", &Call::notify, nb::arg("completions"), nb::arg("key"))
      .def("__repr__", [](Call& self) {
        const char* state = self.invocation ? "running" : self.error.is_valid() ? "failed" : "over";
        return "<heddle.Call of " + nb::inst_ptr<Function>(self.function)->name + ", " + state + ">";
      });
  nb::class_<Function>(
      module, "Function", nb::type_slots(kFunctionSlots), nb::is_weak_referenceable(),
      "A function of an open module, called with one array per argument, by position or by name: function(x, mask=m).\n\n"
      "out      an array or a tensor to write the result to; for several results, a list of them with None for a new one\n"
      "donate   the name of an argument, or a tuple of names: these tensors are given up, and the function may overwrite them. Using such "
      "a\n"
      "         tensor later is an error that names the call\n"
      "state    a heddle.State of the module, whose values the call reads and updates; without it, those of the module\n"
      "timeout  in seconds: after it, no more work of the call is enqueued, and DeadlineExceededError is raised\n"
      "stream   on a CUDA device: the stream with which the call is ordered, such as torch.cuda.current_stream(); the default stream\n\n"
      "Returns a heddle.Tensor, or a named tuple of several. An argument with one of these names takes the place of the option.")
      .def_prop_ro(
          "name", [](const Function& self) { return self.name; }, "The name.")
      .def_prop_ro("signature", &Function::signature, "Arguments and results with their types.")
      .def_prop_ro(
          "arguments", [](const Function& self) { return types_of(self.arguments); }, "The types of the arguments.")
      .def_prop_ro(
          "results", [](const Function& self) { return types_of(self.results); }, "The types of the results.")
      .def_prop_ro(
          "donations",
          [](const Function& self) {
            nb::dict out;
            for (const Value& value : self.arguments) {
              if (!(value.type.flags & HEDDLE_TENSOR_TYPE_CONSUMED)) continue;
              const bool is_aliased = value.type.flags & HEDDLE_TENSOR_TYPE_ALIASED;
              out[value.name] = is_aliased ? nb::object(self.results[value.type.alias].name) : nb::object(nb::none());
            }
            return out;
          },
          "The arguments that the function overwrites, each with the name of the result that takes its memory, or None. A call copies such "
          "an "
          "argument, unless it is donated.")
      .def_prop_ro(
          "transfers",
          [](const Function& self) {
            nb::dict out;
            out["bytes_in_place"] = self.bytes_in_place;
            out["bytes_copied"] = self.bytes_copied;
            return out;
          },
          "How many bytes of arrays calls used in place, and how many they copied.")
      .def("__repr__", [](const Function& self) { return "<heddle.Function " + self.signature() + ">"; });
}

}  // namespace heddle::python
