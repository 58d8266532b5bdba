// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The results of a call: where the caller wants them, and the objects that Python gets.
#include "invocation.h"

namespace heddle::python {

PyObject* Invocation::given_result(size_t index) const {
  if (function.results.size() == 1) return out.ptr();
  PyObject* object = PyTuple_GetItem(out.ptr(), static_cast<Py_ssize_t>(index));
  return object == Py_None ? nullptr : object;
}

void Invocation::make_results() {
  for (size_t i = 0; i < frame->results.size(); ++i) {
    auto& idle = function.cache->results[i];
    if (frame->given[i] || idle.empty() || (!copied_results.empty() && copied_results[i])) continue;
    frame->results[i] = idle.back();
    idle.pop_back();
  }
}

void Invocation::take_results() {
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
      if (!tensor->handle) tensor->refuse(function.place(value, "result").text() + ": the tensor to write it to");
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
    if ((value.in_place || !source->on_host) &&
        make_in_place(function.handle, static_cast<uint32_t>(i), true, source.get(), &made, waits)) {
      if (!waits) borrowed.push_back(std::move(source));
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

nb::object Invocation::result(size_t index) {
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

void Invocation::refuse_result(size_t index, const Source& source, heddle_element_type_t type, const int64_t* dims, uint32_t rank,
                               const heddle_string_t* symbols) const {
  refuse("result '" + function.results[index].text + "' is " + type_text(type, dims, rank, symbols) + ", got an array of " +
             type_text(source.type->type, source.dims, source.rank) + " to write it to",
         "INVALID_ARGUMENT");
}

void Invocation::read_result(size_t index, Source& source) {
  heddle_tensor_t* tensor = frame->results[index];
  if (!same_dims(tensor, source)) {
    refuse_result(index, source, heddle_tensor_element_type(tensor), heddle_tensor_dims(tensor), heddle_tensor_rank(tensor));
  }
  function.bytes_copied += source.size_bytes;
  check_without_gil([&] { return heddle_tensor_read(tensor, source.data, source.size_bytes); });
}

PyObject* Invocation::results() {
  if (frame->results.size() == 1) return result(0).release().ptr();
  nb::object out_tuple = nb::steal(PyStructSequence_New(function.results_class));
  if (!out_tuple.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < frame->results.size(); ++i) {
    PyStructSequence_SetItem(out_tuple.ptr(), static_cast<Py_ssize_t>(i), result(i).release().ptr());
  }
  return out_tuple.release().ptr();
}

}  // namespace heddle::python
