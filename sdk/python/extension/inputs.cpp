// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays of other libraries as memory for tensors: the buffer protocol, then DLPack, then NumPy's arrays of types that neither of them has.
// A lease keeps the array alive. libheddle releases it on any thread; without the GIL, it waits in a list for the next thread that has it.
#include <atomic>
#include <cstring>
#include <utility>

#include "extension.h"

namespace heddle::python {

bool cuda_is_shared = false;

struct Lease {
  Py_buffer buffer;  // obj is NULL if there is none
  OldManaged* managed = nullptr;
  heddle_dlpack_managed_t* versioned = nullptr;
  bool offered = false;  // to make_in_place, which keeps it if the device refuses
  Lease* next = nullptr;
};

namespace {

std::atomic<Lease*> pending{nullptr};
std::atomic<bool> drain_is_due{false};

// Of a thread in release_tensor. Leases end after libheddle has returned: what they run is Python code, which may use libheddle, too, or wait for a
// thread that does.
struct Releasing {
  Lease* leases = nullptr;
  Releasing* const outer;
  inline static thread_local Releasing* innermost = nullptr;
  Releasing() : outer(std::exchange(innermost, this)) {}
  Releasing(const Releasing&) = delete;
  ~Releasing() { innermost = outer; }
};

// It may run Python code, and libheddle may call it, so it is noexcept (daemon_threads.cpp).
void end_lease(Lease* lease) noexcept {
  if (lease->buffer.obj) PyBuffer_Release(&lease->buffer);
  if (lease->managed && lease->managed->deleter) lease->managed->deleter(lease->managed);
  if (lease->versioned && lease->versioned->deleter) lease->versioned->deleter(lease->versioned);
  delete lease;
}

void end_leases(Lease* first) noexcept {
  while (first) {
    Lease* next = first->next;
    end_lease(first);
    first = next;
  }
}

int drain(void*) {
  drain_is_due.store(false);
  end_leases(pending.exchange(nullptr));
  return 0;
}

// [callback] of heddle_device_memory_t.
void lease_released(void* context) {
  auto* lease = static_cast<Lease*>(context);
  if (lease->offered) return;
  if (Releasing* const here = Releasing::innermost) {
    lease->next = std::exchange(here->leases, lease);
    return;
  }
  lease->next = pending.load();
  while (!pending.compare_exchange_weak(lease->next, lease)) {
  }
  if (!drain_is_due.exchange(true) && !ask_main_thread(drain)) drain_is_due.store(false);  // open_source does it then
}

// "a Parameter", or "an ndarray of datetime64[s]".
std::string text_of(PyObject* object) {
  const std::string name = class_name(object);
  std::string out = (std::string_view("aeiouAEIOU").find(name[0]) == std::string_view::npos && name != "ndarray" ? "a " : "an ") + name;
  if (!PyType_Check(object) && nb::hasattr(object, "dtype")) out += " of " + str_of(nb::object(nb::handle(object).attr("dtype")));
  return out;
}

[[noreturn]] void refuse(const Place& place, const std::string& got, const char* next, const char* code = "TYPE") {
  raise(code, place.text() + ": got " + got + "; " + next);
}

// The exception that is set, or that a method of an object has raised, as a reason. Rethrows those that are no Exception, such as KeyboardInterrupt.
std::string reason_of(nb::python_error& error) {
  if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw error;
  return class_name(error.value()) + ": " + str_of(error.value());
}

// NumPy's masked arrays export all of their elements.
bool is_masked(PyObject* object) {
  static PyObject* last = nullptr;  // the last type that is none of them, usually numpy.ndarray
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type == last) [[likely]]
    return false;
  if (nb::hasattr(type, "mask") && nb::hasattr(type, "filled")) return true;
  Py_INCREF(type);
  PyObject* before = std::exchange(last, type);
  Py_XDECREF(before);
  return false;
}

bool open_buffer(PyObject* object, Source* out) {
  if (!PyObject_CheckBuffer(object)) return false;
  if (PyObject_GetBuffer(object, &out->lease->buffer, PyBUF_STRIDES | PyBUF_FORMAT) == 0) return true;
  out->lease->buffer.obj = nullptr;
  PyErr_Clear();
  return false;
}

void describe_buffer(const Place& place, Source* out) {
  const Py_buffer& buffer = out->lease->buffer;
  if (!out->type) out->type = element_type_of_format(buffer.format, buffer.itemsize);
  if (!out->type) {
    refuse(place, "an array with elements of format '" + std::string(buffer.format ? buffer.format : "B") + "'",
           "convert it to the element type that is expected");
  }
  if (buffer.ndim > static_cast<int>(HEDDLE_MAX_RANK)) {
    refuse(place, "an array of " + std::to_string(buffer.ndim) + " dimensions", "a tensor has at most 16", "INVALID_ARGUMENT");
  }
  out->rank = static_cast<uint32_t>(buffer.ndim);
  for (uint32_t i = 0; i < out->rank; ++i) out->dims[i] = buffer.shape[i];
  out->data = static_cast<char*>(buffer.buf);
  out->size_bytes = static_cast<uint64_t>(buffer.len);
  out->read_only = buffer.readonly != 0;
  if (!PyBuffer_IsContiguous(&buffer, 'C')) {
    refuse(place, "an array of " + type_text(out->type->type, out->dims, out->rank) + " that is not contiguous in row-major order",
           "pass numpy.ascontiguousarray of it", "INVALID_ARGUMENT");
  }
}

[[noreturn]] void refuse_export(const Place& place, PyObject* object, const std::string& why) {
  refuse(place, text_of(object), ("its memory cannot be shared: " + why).c_str(), "INVALID_ARGUMENT");
}

// Of __dlpack_device__; false if the object has none.
bool dlpack_device(PyObject* object, const Place& place, int32_t* out_type, int32_t* out_id) {
  nb::handle source(object);
  if (!nb::hasattr(source, "__dlpack__") || !nb::hasattr(source, "__dlpack_device__")) return false;
  nb::object device;
  try {
    device = source.attr("__dlpack_device__")();
  } catch (nb::python_error& error) {
    refuse_export(place, object, reason_of(error));
  }
  if (!PyTuple_Check(device.ptr()) || PyTuple_Size(device.ptr()) != 2) {
    refuse_export(place, object, "its __dlpack_device__ returned " + repr_of(device) + " instead of two numbers");
  }
  *out_type = static_cast<int32_t>(PyLong_AsLong(PyTuple_GetItem(device.ptr(), 0)));
  *out_id = static_cast<int32_t>(PyErr_Occurred() ? 0 : PyLong_AsLong(PyTuple_GetItem(device.ptr(), 1)));
  if (PyErr_Occurred()) {
    PyErr_Clear();
    refuse_export(place, object, "its __dlpack_device__ returned " + repr_of(device) + " instead of two numbers");
  }
  return true;
}

nb::object capsule_of(PyObject* object, bool on_cuda, Stream stream) {
  nb::object method = nb::borrow(object).attr("__dlpack__");
  try {
    if (on_cuda) return method(nb::arg("stream") = stream.dlpack(), nb::arg("max_version") = nb::make_tuple(1, 0));
    return method(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  // A producer of before DLPack 1.0.
  return on_cuda ? method(nb::arg("stream") = stream.dlpack()) : method();
}

std::string device_text(int32_t type, int32_t id) {
  if (type == HEDDLE_DLPACK_CPU || type == HEDDLE_DLPACK_CUDA_HOST) return "host memory";
  if (type == HEDDLE_DLPACK_CUDA) return "CUDA device " + std::to_string(id);
  return "device (" + std::to_string(type) + ", " + std::to_string(id) + ") of DLPack";
}

template <class Struct>
Struct* take(const nb::object& capsule, const char* name, const char* used) {
  if (!PyCapsule_IsValid(capsule.ptr(), name)) return nullptr;
  auto* managed = static_cast<Struct*>(PyCapsule_GetPointer(capsule.ptr(), name));
  PyCapsule_SetName(capsule.ptr(), used);
  return managed;
}

void open_dlpack(PyObject* object, const Place& place, bool on_cuda, Stream stream, Source* out) {
  out->on_host = !on_cuda;
  nb::object capsule;
  try {
    nb::handle source(object);
    // PyTorch's lazy negation, which DLPack does not know.
    if (nb::hasattr(source, "is_neg") && PyObject_IsTrue(source.attr("is_neg")().ptr()) == 1)
      refuse(place, "a tensor whose values are to be negated when they are read", "pass resolve_neg() of it", "INVALID_ARGUMENT");
    capsule = capsule_of(object, on_cuda, stream);
  } catch (nb::python_error& error) {
    refuse_export(place, object, reason_of(error));
  }
  out->lease->versioned = take<heddle_dlpack_managed_t>(capsule, kVersionedName, kUsedVersionedName);
  if (!out->lease->versioned) out->lease->managed = take<OldManaged>(capsule, kOldName, kUsedOldName);
  if (!out->lease->versioned && !out->lease->managed)
    refuse(place, "a DLPack capsule that is neither of version 0 nor 1", "pass a new one");
  if (out->lease->versioned && out->lease->versioned->major != 1) {
    refuse(place, "DLPack " + std::to_string(out->lease->versioned->major), "this version of heddle knows DLPack 1");
  }
  const heddle_dlpack_tensor_t& array = out->lease->versioned ? out->lease->versioned->tensor : out->lease->managed->tensor;
  const bool is_host = array.device.type == HEDDLE_DLPACK_CPU || array.device.type == HEDDLE_DLPACK_CUDA_HOST;
  if (on_cuda ? array.device.type != HEDDLE_DLPACK_CUDA || array.device.id != place.device->dlpack.id : !is_host) {
    refuse(place, "a DLPack capsule on " + device_text(array.device.type, array.device.id) + " for " + place.device->text(),
           "its __dlpack_device__ says otherwise; report it to its library", "INVALID_ARGUMENT");
  }
  out->read_only = out->lease->versioned && (out->lease->versioned->flags & HEDDLE_DLPACK_READ_ONLY);
  out->type = element_type(heddle_dlpack_element_type(array.type));
  if (!out->type) {
    refuse(place, "an array with DLPack's element type (" + std::to_string(array.type.code) + ", " + std::to_string(array.type.bits) + ")",
           "convert it to the element type that is expected");
  }
  if (array.rank < 0 || array.rank > static_cast<int32_t>(HEDDLE_MAX_RANK)) {
    refuse(place, "an array of " + std::to_string(array.rank) + " dimensions", "a tensor has at most 16", "INVALID_ARGUMENT");
  }
  out->rank = static_cast<uint32_t>(array.rank);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < out->rank; ++i) {
    out->dims[i] = array.shape[i];
    if (array.shape[i] < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(array.shape[i]), &elements)) {
      refuse(place, "an array whose size overflows", "pass a smaller one", "INVALID_ARGUMENT");
    }
  }
  if (__builtin_mul_overflow(elements, uint64_t{HEDDLE_TYPE_BITS(out->type->type) / 8}, &out->size_bytes)) {
    refuse(place, "an array whose size overflows", "pass a smaller one", "INVALID_ARGUMENT");
  }
  int64_t dense = 1;
  for (uint32_t i = out->rank; array.strides && elements != 0 && i-- > 0;) {
    if (array.shape[i] != 1 && array.strides[i] != dense) {
      refuse(place, "an array of " + type_text(out->type->type, out->dims, out->rank) + " that is not contiguous in row-major order",
             "pass contiguous() of it", "INVALID_ARGUMENT");
    }
    dense *= array.shape[i];
  }
  out->data = static_cast<char*>(array.data) + array.byte_offset;
  if (!array.data && out->size_bytes != 0) {
    refuse(place, "a DLPack capsule of " + type_text(out->type->type, out->dims, out->rank) + " at address 0",
           "its memory is gone, or its library does not share it", "INVALID_ARGUMENT");
  }
  if (out->size_bytes == 0) out->on_host = true;  // nothing to share, and its address may be NULL
}

// NumPy's arrays of ml_dtypes, strings and complex numbers, which are passed as arrays of other elements.
bool open_bits(PyObject* object, Source* out) {
  const nb::object found = nb::module_::import_("heddle._arrays").attr("bits_of")(nb::handle(object));
  if (found.is_none()) return false;
  const auto pair = nb::cast<nb::tuple>(found);
  const std::string name = nb::cast<std::string>(pair[1]);
  for (const heddle_element_type_t type : {HEDDLE_TYPE_U8, HEDDLE_TYPE_F32, HEDDLE_TYPE_F64, HEDDLE_TYPE_BF16, HEDDLE_TYPE_F8E4M3,
                                           HEDDLE_TYPE_F8E5M2, HEDDLE_TYPE_F8E4M3FNUZ, HEDDLE_TYPE_F8E5M2FNUZ, HEDDLE_TYPE_F8E8M0}) {
    if (name == element_type(type)->numpy) out->type = element_type(type);
  }
  return out->type && open_buffer(nb::object(pair[0]).ptr(), out);
}

}  // namespace

void release_tensor(heddle_tensor_t* handle) {
  Lease* ended;
  {
    Releasing here;
    heddle_tensor_release(handle);
    ended = here.leases;
  }
  end_leases(ended);
}

std::string Place::text() const {
  if (!expected) return "heddle: making a tensor on " + device->text() + " failed";
  return "heddle: " + std::string(kind) + " '" + std::string(name) + "' of '" + std::string(function) + "' is " +
         type_text(expected->element_type, expected->dims, expected->rank, expected->symbols);
}

std::string Device::text() const {
  return "device '" + alias + "'";
}

Source::~Source() {
  if (lease) end_lease(lease);
}

void open_source(PyObject* object, const Place& place, bool writable, Stream stream, Source* out) {
  if (pending.load(std::memory_order_relaxed)) drain(nullptr);
  out->lease = new Lease;
  out->lease->buffer.obj = nullptr;
  int32_t type = HEDDLE_DLPACK_CPU, id = 0;
  if (is_masked(object)) {
    refuse(place, text_of(object) + ", whose mask would be ignored", "pass array.filled(value), or array.data", "INVALID_ARGUMENT");
  }
  if (open_buffer(object, out)) {
    Py_buffer& buffer = out->lease->buffer;
    if (!element_type_of_format(buffer.format, buffer.itemsize)) {  // strings, complex numbers, or something that is refused
      PyBuffer_Release(&buffer);
      if (!open_bits(object, out)) open_buffer(object, out);
    }
    describe_buffer(place, out);
  } else if (open_bits(object, out)) {
    describe_buffer(place, out);
  } else if (dlpack_device(object, place, &type, &id)) {
    const bool on_host = type == HEDDLE_DLPACK_CPU || type == HEDDLE_DLPACK_CUDA_HOST;
    if (!on_host && (type != place.device->dlpack.type || id != place.device->dlpack.id)) {
      raise("INVALID_ARGUMENT", place.text() + " on " + place.device->text() + ": got a " + class_name(object) + " on " +
                                    device_text(type, id) + "; move it to that device or to the host, or open the module on its device");
    }
    open_dlpack(object, place, !on_host, stream, out);
  } else {
    refuse(place, "an object of class " + class_name(object), "pass a NumPy array, a heddle.Tensor or another array with __dlpack__");
  }
  if (writable && out->read_only) refuse(place, "a read-only array to write to", "pass a writable one", "INVALID_ARGUMENT");
}

bool make_in_place(heddle_function_t* function, uint32_t index, bool is_result, Source* source, heddle_tensor_t** out, bool gives_lease) {
  const heddle_device_memory_t memory = {
      sizeof(memory),     is_result ? HEDDLE_DEVICE_MEMORY_RESULT : 0, reinterpret_cast<uint64_t>(source->data),
      source->size_bytes, gives_lease ? lease_released : nullptr,      gives_lease ? source->lease : nullptr};
  source->lease->offered = true;
  heddle_status_t* status = heddle_tensor_from_device(function, index, source->type->type, source->dims, source->rank, &memory, out);
  source->lease->offered = false;
  if (!status) {
    if (gives_lease) source->lease = nullptr;
    return true;
  }
  const heddle_status_code_t code = heddle_status_code(status);
  if (!source->on_host) raise(status);  // the message has the reason, such as the alignment
  if (code != HEDDLE_STATUS_UNIMPLEMENTED && code != HEDDLE_STATUS_INVALID_ARGUMENT) raise(status);
  heddle_status_free(status);
  return false;
}

}  // namespace heddle::python
