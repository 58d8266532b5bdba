// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arguments of a call: names to positions, arrays to tensors, donations.
#include "invocation.h"

#include <algorithm>

namespace heddle::python {
namespace {

// Smaller arrays are copied: that takes less time than lending them.
constexpr uint64_t kInPlaceFrom = 4096;
constexpr uint64_t kKeptMax = 1 << 20;
constexpr uint64_t kCopiedWithGil = 64 << 10;

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

void Invocation::place_arguments(PyObject* arguments, PyObject* named) {
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

void Invocation::place_named(PyObject* named) {
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
    } else if (PyUnicode_CompareWithASCIIString(key, "wait") == 0) {
      if (!PyBool_Check(object)) refuse("wait is True or False, got " + repr_of(nb::handle(object)));
      waits = object == Py_True;
      if (!waits && !function.uses_cuda)
        refuse("it uses no CUDA device, whose work it could leave on a stream; leave wait out", "INVALID_ARGUMENT");
    } else {
      refuse("it has no argument " + repr_of(nb::handle(key)) + "; its arguments are " + names_of(function.arguments));
    }
  }
}

void Invocation::use_state(nb::handle object) {
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

size_t Invocation::find(PyObject* key) const {
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    if (function.arguments[i].name.ptr() == key) return i;
  }
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    if (PyUnicode_Compare(function.arguments[i].name.ptr(), key) == 0) return i;
  }
  return function.arguments.size();
}

void Invocation::make_arguments() {
  if (donate) donate_arguments();
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    PyObject* object = frame->objects[i];
    if (Tensor* tensor = as_tensor(object)) {
      if (!tensor->handle && !is_taken(object))
        tensor->refuse(function.place(function.arguments[i], "argument").text() + ": the given tensor");
      heddle_tensor_t* const handle = frame->arguments[i] = take_tensor(object, *tensor);
      // The array of the result has the tensor's memory. If both are one tensor already, nothing changes.
      const bool may_be_updated = out && (function.arguments[i].type.flags & HEDDLE_TENSOR_TYPE_ALIASED);
      if (const auto result = may_be_updated ? updated_in(i, Range(handle)) : std::nullopt) frame->results[*result] = handle;
    } else {
      frame->arguments[i] = make_argument(i, object);
    }
  }
}

bool Invocation::is_taken(PyObject* object) const {
  return std::any_of(taken.begin(), taken.end(), [&](const Taken& one) { return one.tensor.ptr() == object; });
}

heddle_tensor_t* Invocation::take_tensor(PyObject* object, Tensor& tensor) {
  for (const Taken& one : taken) {
    if (one.tensor.ptr() == object) return one.handle;  // for two arguments, which the call refuses
  }
  heddle_tensor_t* const handle = tensor.get();
  const bool is_donated = std::any_of(donated.begin(), donated.end(), [&](uint32_t i) { return frame->objects[i] == object; });
  if (!is_donated) {
    frame->temporary.push_back(heddle_tensor_retain(handle));
  } else {  // with another handle, the call would copy it
    taken.push_back({nb::borrow(object), handle});
    tensor.handle = nullptr;
    tensor.donated_to = function.about_to_begin;
  }
  return handle;
}

void Invocation::give_back_donated() {
  for (const Taken& one : taken) {
    Tensor& tensor = *nb::inst_ptr<Tensor>(one.tensor);
    tensor.handle = one.handle;
    tensor.donated_to.reset();
  }
  taken.clear();
}

heddle_tensor_t* Invocation::make_argument(size_t index, PyObject* object) {
  Value& value = function.arguments[index];
  Source own;
  Source& source = waits ? own : *borrowed.emplace_back(std::make_unique<Source>());
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
  if (!source.on_host || (waits && may_copy && value.in_place && source.size_bytes >= kInPlaceFrom)) {
    if (make_in_place(function.handle, static_cast<uint32_t>(index), false, &source, &made, waits)) {
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
    return heddle_tensor_from_host(function.handle, static_cast<uint32_t>(index), source.type->type, source.dims, source.rank, source.data,
                                   source.size_bytes, &made);
  };
  with_gil ? check(copy()) : check_without_gil(copy);
  if (source.size_bytes > kKeptMax) {
    frame->temporary.push_back(made);
    return made;
  }
  if (kept) release_tensor(kept);
  return kept = made;
}

void Invocation::donate_one(PyObject* name) {
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
  if (!tensor->handle) tensor->refuse(function.place(function.arguments[index], "argument").text() + ": the tensor to be donated");
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

void Invocation::donate_arguments() {
  std::vector<nb::object> names;
  if (PyTuple_Check(donate) || PyList_Check(donate)) {
    for (Py_ssize_t i = 0; i < PySequence_Size(donate); ++i) {
      names.push_back(nb::steal(PySequence_GetItem(donate, i)));
      if (!names.back().is_valid()) throw nb::python_error();
    }
  } else {
    names.push_back(nb::borrow(donate));
  }
  for (const nb::object& name : names) donate_one(name.ptr());
  // At once, before Python code of an array, or another thread, can use one of them.
  for (const uint32_t i : donated) take_tensor(frame->objects[i], *as_tensor(frame->objects[i]));
}

}  // namespace heddle::python
