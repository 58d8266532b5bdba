// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.Tensor: a handle of runtime.h, and its contents by the buffer protocol and DLPack without a copy.
// A Tensor that Python sees is finished: calls return when their results are filled.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "exchange.h"

namespace heddle::python {

PyTypeObject* tensor_class = nullptr;

namespace {

// The bytes of a tensor, for element types without a format: an exporter of the buffer protocol.
struct Bytes {
  nb::object tensor;
};

nb::tuple shape_of(const Tensor& tensor) {
  const uint32_t rank = heddle_tensor_rank(tensor.get());
  const int64_t* dims = heddle_tensor_dims(tensor.get());
  nb::object out = nb::steal(PyTuple_New(rank));
  for (uint32_t i = 0; i < rank; ++i) PyTuple_SetItem(out.ptr(), i, PyLong_FromLongLong(dims[i]));
  return nb::cast<nb::tuple>(out);
}

void check_on_host(const Tensor& tensor, const char* what) {
  if (tensor.device->on_host()) return;
  raise("TYPE", std::string("heddle: ") + what + " of a tensor on device '" + tensor.device->alias +
                    "' failed: its memory is not the host's; copy it with numpy()");
}

// Bytes between elements that are neighbors in each dimension.
void fill_strides(const int64_t* dims, uint32_t rank, int64_t item, int64_t* out) {
  for (uint32_t i = rank; i-- > 0;) {
    out[i] = item;
    item *= dims[i] > 0 ? dims[i] : 1;
  }
}

int fill_buffer(PyObject* self, Tensor& tensor, Py_buffer* out, int flags, bool as_bytes) {
  out->obj = nullptr;
  heddle_tensor_t* handle = tensor.get();
  check_on_host(tensor, "exporting the buffer");
  const ElementType* type = element_type(heddle_tensor_element_type(handle));
  if (as_bytes) type = element_type(HEDDLE_TYPE_U8);
  const char* refused = nullptr;
  if (!type->format) refused = "the buffer protocol has no such element type; use numpy() or from_dlpack";
  if (tensor.read_only && (flags & PyBUF_WRITABLE)) refused = "it is read-only";
  if (refused) {
    PyErr_Format(PyExc_BufferError, "heddle: exporting the buffer of a tensor of %s failed: %s", type->name, refused);
    return -1;
  }
  const uint32_t rank = as_bytes ? 1 : heddle_tensor_rank(handle);
  const int64_t size = static_cast<int64_t>(heddle_tensor_size(handle));
  const int64_t* dims = as_bytes ? &size : heddle_tensor_dims(handle);
  out->buf = reinterpret_cast<void*>(tensor.address());
  out->len = size;
  out->itemsize = HEDDLE_TYPE_BITS(type->type) / 8;
  out->readonly = tensor.read_only;
  out->ndim = static_cast<int>(rank);
  out->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(type->format) : nullptr;
  out->suboffsets = nullptr;
  int64_t* extents = new int64_t[2 * rank + 1];
  std::memcpy(extents, dims, rank * sizeof(int64_t));
  fill_strides(dims, rank, out->itemsize, extents + rank);
  out->internal = extents;
  out->shape = (flags & PyBUF_ND) ? reinterpret_cast<Py_ssize_t*>(extents) : nullptr;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? reinterpret_cast<Py_ssize_t*>(extents + rank) : nullptr;
  Py_INCREF(self);
  out->obj = self;
  ++tensor.exports;
  return 0;
}

int get_buffer(PyObject* self, Py_buffer* out, int flags) {
  return exclusively(-1, [&] {
    out->obj = nullptr;
    return fill_buffer(self, self_of<Tensor>(self), out, flags, false);
  });
}
void release_buffer(PyObject* self, Py_buffer* view) {
  delete[] static_cast<int64_t*>(view->internal);
  const Exclusive held;
  --nb::inst_ptr<Tensor>(self)->exports;
}
int get_bytes(PyObject* self, Py_buffer* out, int flags) {
  return exclusively(-1, [&] {
    out->obj = nullptr;
    return fill_buffer(self, *nb::inst_ptr<Tensor>(self_of<Bytes>(self).tensor), out, flags, true);
  });
}
void release_bytes(PyObject* self, Py_buffer* view) {
  delete[] static_cast<int64_t*>(view->internal);
  const Exclusive held;
  --nb::inst_ptr<Tensor>(nb::inst_ptr<Bytes>(self)->tensor)->exports;
}

const PyType_Slot kBytesSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_bytes)}, {Py_bf_releasebuffer, reinterpret_cast<void*>(release_bytes)}, {0, nullptr}};

// What a DLPack export owns. Its deleter may run on any thread, without the GIL.
template <class Struct>
struct Export {
  Struct managed{};
  heddle_tensor_t* handle = nullptr;  // NULL: `copied` has the bytes
  void* copied = nullptr;
  Process process;
  int64_t extents[2 * HEDDLE_MAX_RANK];

  static void destroy(Struct* managed) {
    auto* self = static_cast<Export*>(managed->context);
    if (self->process.is_this()) heddle_tensor_release(self->handle);
    std::free(self->copied);
    delete self;
  }
};

template <class Struct>
std::unique_ptr<Export<Struct>> make_export(heddle_tensor_t* handle, const Device& device) {
  const uint32_t rank = heddle_tensor_rank(handle);
  uint64_t address = 0;
  check(heddle_tensor_address(handle, &address));
  auto made = std::make_unique<Export<Struct>>();
  std::memcpy(made->extents, heddle_tensor_dims(handle), rank * sizeof(int64_t));
  fill_strides(made->extents, rank, 1, made->extents + rank);
  made->managed.tensor = {reinterpret_cast<void*>(address),
                          device.dlpack,
                          static_cast<int32_t>(rank),
                          heddle_dlpack_type_of(heddle_tensor_element_type(handle)),
                          made->extents,
                          made->extents + rank,
                          0};
  made->managed.context = made.get();
  made->managed.deleter = Export<Struct>::destroy;
  return made;
}

template <class Struct>
PyObject* export_as(Tensor& tensor, const char* name, bool copy) {
  heddle_tensor_t* handle = tensor.get();
  auto made = make_export<Struct>(handle, *tensor.device);
  std::unique_ptr<void, void (*)(void*)> copied(nullptr, std::free);
  if (copy) {
    constexpr uint64_t kAlignment = 64;
    const uint64_t size = heddle_tensor_size(handle);
    copied.reset(std::aligned_alloc(kAlignment, size / kAlignment * kAlignment + kAlignment));
    if (!copied) throw std::bad_alloc();
    const std::unique_ptr<heddle_tensor_t, void (*)(heddle_tensor_t*)> held(heddle_tensor_retain(handle), release_tensor);
    check_without_gil([&] { return heddle_tensor_read(handle, copied.get(), size); });
    made->managed.tensor.data = copied.get();
  }
  if constexpr (std::is_same_v<Struct, heddle_dlpack_managed_t>) {
    made->managed.major = 1;
    constexpr uint64_t kIsCopied = 2;  // DLPACK_FLAG_BITMASK_IS_COPIED
    made->managed.flags = copy ? kIsCopied : tensor.read_only ? HEDDLE_DLPACK_READ_ONLY : 0;
  }
  auto drop = [](PyObject* capsule) {  // the name changes if a consumer has taken it
    const char* unused = std::is_same_v<Struct, heddle_dlpack_managed_t> ? kVersionedName : kOldName;
    if (!PyCapsule_IsValid(capsule, unused)) return;
    auto* managed = static_cast<Struct*>(PyCapsule_GetPointer(capsule, unused));
    managed->deleter(managed);
  };
  PyObject* capsule = PyCapsule_New(&made->managed, name, drop);
  if (!capsule) throw nb::python_error();
  made->copied = copied.release();
  if (!copy) {
    made->handle = heddle_tensor_retain(handle);
    tensor.shared = true;
  }
  static_cast<void>(made.release());
  return capsule;
}

// Two numbers in a tuple, as DLPack passes them.
bool read_pair(nb::handle pair, int64_t* first, int64_t* second) {
  if (!PyTuple_Check(pair.ptr()) || PyTuple_Size(pair.ptr()) != 2) return false;
  int64_t* const out[] = {first, second};
  for (Py_ssize_t i = 0; i < 2; ++i) {
    PyObject* item = PyTuple_GetItem(pair.ptr(), i);
    if (!PyIndex_Check(item)) return false;
    const nb::object number = nb::steal(PyNumber_Index(item));
    *out[i] = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : -1;
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

nb::object to_dlpack(Tensor& tensor, nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
  const auto check_type = [](bool is_right, const char* what, nb::handle got) {
    if (!is_right) raise("TYPE", std::string("heddle: exporting a tensor by DLPack failed: ") + what + ", got " + repr_of(got));
  };
  int64_t major = 0, minor = 0;
  check_type(max_version.is_none() || read_pair(max_version, &major, &minor), "max_version is a tuple of two numbers or None", max_version);
  const Device& device = *tensor.device;
  int64_t wanted_type = device.dlpack.type, wanted_id = device.dlpack.id;
  check_type(dl_device.is_none() || read_pair(dl_device, &wanted_type, &wanted_id), "dl_device is a tuple of two numbers or None",
             dl_device);
  check_type(copy.is_none() || PyBool_Check(copy.ptr()), "copy is None, True or False", copy);
  int64_t stream_number = -1;
  if (!stream.is_none()) {
    const nb::object number = nb::steal(PyNumber_Index(stream.ptr()));
    if (number.is_valid()) stream_number = PyLong_AsLongLong(number.ptr());
    const bool is_number = !PyErr_Occurred();
    PyErr_Clear();
    check_type(is_number, "stream is a number or None", stream);
  }
  const ElementType* type = element_type(heddle_tensor_element_type(tensor.get()));
  const bool copies = copy.is(Py_True);
  const bool versioned = major >= 1;
  std::string refused;
  if (heddle_dlpack_type_of(type->type).bits == 0) refused = std::string("DLPack has no element type ") + type->name;
  if (device.dlpack.type == 0) refused = "DLPack has no number for device '" + device.alias + "'";
  if (copies && !device.on_host()) {
    refused =
        "a copy of a tensor on device '" + device.alias + "' is not implemented; copy the array that the consumer makes, or use numpy()";
  }
  if (wanted_type != device.dlpack.type || wanted_id != device.dlpack.id) {
    refused = "it is on device '" + device.alias + "', and copies to another device are not implemented; use numpy()";
  }
  // The contents are complete, so any stream of the consumer may use them at once.
  if (device.on_host() && stream_number != -1) refused = "a tensor in host memory has no stream";
  if (device.on_cuda() && !stream.is_none() && stream_number == 0) {
    refused = "stream 0 is ambiguous; pass 1 for the default stream, 2 for that of each thread, or a cudaStream_t";
  }
  if (!versioned && tensor.read_only && !copies) refused = "it is read-only, which only DLPack 1.0 can say; pass max_version=(1, 0)";
  if (!refused.empty()) {
    PyErr_Format(PyExc_BufferError, "heddle: exporting a tensor by DLPack failed: %s", refused.c_str());
    throw nb::python_error();
  }
  cuda_is_shared |= device.on_cuda();
  return nb::steal(versioned ? export_as<heddle_dlpack_managed_t>(tensor, kVersionedName, copies)
                             : export_as<OldManaged>(tensor, kOldName, copies));
}

PyObject* dlpack_of(PyObject* self, PyObject* positional, PyObject* named) {
  return exclusively<PyObject*>(nullptr, [&]() -> PyObject* {
    static const char* const kNames[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    PyObject *stream = Py_None, *max_version = Py_None, *dl_device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "|$OOOO", const_cast<char**>(kNames), &stream, &max_version, &dl_device, &copy)) {
      return nullptr;
    }
    return to_dlpack(self_of<Tensor>(self), stream, max_version, dl_device, copy).release().ptr();
  });
}

// What is written in Python, since NumPy is imported there.
nb::object in_python(PyObject* self, const char* function) {
  self_of<Tensor>(self);
  return nb::module_::import_("heddle._arrays").attr(function);
}

PyObject* numpy_of(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return in_python(self, "as_numpy")(nb::handle(self)).release().ptr(); });
}

PyObject* array_of(PyObject* self, PyObject* positional, PyObject* named) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    static const char* const kNames[] = {"dtype", "copy", nullptr};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(positional, named, "|OO", const_cast<char**>(kNames), &dtype, &copy)) return nullptr;
    return in_python(self, "array_of")(nb::handle(self), nb::handle(dtype), nb::handle(copy)).release().ptr();
  });
}

PyObject* list_of(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return in_python(self, "as_numpy")(nb::handle(self)).attr("tolist")().release().ptr(); });
}

PyObject* item_of(PyObject* self, PyObject*) {
  return guarded<PyObject*>(nullptr, [&] { return in_python(self, "item_of")(nb::handle(self)).release().ptr(); });
}

PyMethodDef kTensorMethods[] = {{"numpy", as_method(numpy_of), METH_NOARGS,
                                 "numpy($self, /)\n--\n\nA NumPy array: over the tensor's memory if that is the host's, else a copy."},
                                {"__array__", as_method(array_of), METH_VARARGS | METH_KEYWORDS,
                                 "__array__($self, /, dtype=None, copy=None)\n--\n\nnumpy.asarray calls it."},
                                {"tolist", as_method(list_of), METH_NOARGS, "tolist($self, /)\n--\n\nNested lists of the elements."},
                                {"release", as_method(without_parameters<Tensor, &Tensor::release_unexported>), METH_NOARGS,
                                 "release($self, /)\n--\n\nReturns the memory now, instead of when the last reference is gone."},
                                {"item", as_method(item_of), METH_NOARGS, "item($self, /)\n--\n\nThe only element."},
                                {"__dlpack__", as_method(dlpack_of), METH_VARARGS | METH_KEYWORDS,
                                 "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
                                 "A DLPack capsule over the same memory, or over a copy in host memory."},
                                {nullptr, nullptr, 0, nullptr}};

const PyType_Slot kTensorSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                                    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                                    {Py_tp_methods, kTensorMethods},
                                    {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                                    {0, nullptr}};

// Version 3, for numba and others that know no DLPack.
nb::object cuda_array_interface(Tensor& tensor) {
  const ElementType* type = element_type(heddle_tensor_element_type(tensor.get()));
  std::string refused;
  if (!tensor.device->on_cuda()) refused = "it is on device '" + tensor.device->alias + "', which is no CUDA device";
  if (!type->format) refused = std::string("the interface has no element type ") + type->name + "; use DLPack";
  if (!refused.empty()) {
    PyErr_Format(PyExc_AttributeError, "heddle: getting __cuda_array_interface__ of a tensor failed: %s", refused.c_str());
    throw nb::python_error();
  }
  const uint64_t bytes = HEDDLE_TYPE_BITS(type->type) / 8;
  const char* kind = std::string_view(type->numpy).starts_with("float")  ? "f"
                     : std::string_view(type->numpy).starts_with("uint") ? "u"
                     : std::string_view(type->numpy) == "bool"           ? "b"
                                                                         : "i";
  nb::dict out;
  out["shape"] = shape_of(tensor);
  out["typestr"] = nb::str(((bytes == 1 ? "|" : "<") + std::string(kind) + std::to_string(bytes)).c_str());
  out["data"] = nb::make_tuple(heddle_tensor_size(tensor.get()) == 0 ? 0 : tensor.address(), tensor.read_only);
  out["strides"] = nb::none();
  out["stream"] = nb::none();  // the contents are complete
  out["version"] = 3;
  tensor.shared = tensor.lends = true;
  cuda_is_shared = true;
  return out;
}

// Copies the contents into a writable buffer of the same number of bytes.
void read_into(const Tensor& tensor, nb::object object) {
  Py_buffer to;
  if (PyObject_GetBuffer(object.ptr(), &to, PyBUF_WRITABLE) != 0) throw nb::python_error();
  struct Guard {
    Py_buffer* buffer;
    ~Guard() { PyBuffer_Release(buffer); }
  } guard{&to};
  heddle_tensor_t* handle = tensor.get();
  const std::unique_ptr<heddle_tensor_t, void (*)(heddle_tensor_t*)> held(heddle_tensor_retain(handle), release_tensor);
  check_without_gil([&] { return heddle_tensor_read(handle, to.buf, static_cast<uint64_t>(to.len)); });
}

}  // namespace

heddle_dlpack_managed_t* export_owned(heddle_tensor_t* owned, const Device& device) {
  auto made = make_export<heddle_dlpack_managed_t>(owned, device);
  made->managed.major = 1;
  made->handle = owned;
  return &made.release()->managed;
}

void TensorCache::clear() {
  closed = true;
  if (!process.is_this()) return;
  for (auto& handles : results) {
    for (heddle_tensor_t* handle : std::exchange(handles, {})) release_tensor(handle);
  }
}

void Tensor::release() {
  if (!handle) return;
  heddle_tensor_t* const dropped = handle;
  handle = nullptr;
  if (!device->process.is_this()) return;
  if (cache && !shared && !cache->closed) {
    auto& kept = cache->results[index];
    if (kept.size() < TensorCache::kMaxPerResult) {
      kept.push_back(dropped);  // within its capacity
      return;
    }
  }
  release_tensor(dropped);
}

void Tensor::release_unexported() {
  if (exports != 0) {
    PyErr_Format(PyExc_BufferError, "heddle: releasing a tensor failed: %u arrays use its memory; delete them first", exports);
    throw nb::python_error();
  }
  release();
}

void Tensor::refuse(const std::string& what) const {
  if (!donated_to) raise("FAILED_PRECONDITION", what + " has been released");
  raise("FAILED_PRECONDITION", what + " was donated to " + *donated_to);
}

uint64_t Tensor::address() const {
  uint64_t out = 0;
  check(heddle_tensor_address(get(), &out));
  return out;
}

nb::object make_tensor(heddle_tensor_t* owned, std::shared_ptr<const Device> device) {
  nb::object out = nb::inst_alloc(reinterpret_cast<PyObject*>(tensor_class));
  Tensor* tensor = new (nb::inst_ptr<Tensor>(out)) Tensor();
  tensor->handle = owned;
  tensor->device = std::move(device);
  nb::inst_mark_ready(out);
  return out;
}

namespace {

// As Python's number, of a tensor with one element.
nb::object only_element(nb::handle tensor, const char* number) {
  const nb::object shape = tensor.attr("shape");
  for (nb::handle extent : shape) {
    if (nb::cast<int64_t>(extent) == 1) continue;
    raise("TYPE", "heddle: making a number of a tensor failed: its shape is " + repr_of(shape.ptr()) +
                      ", and only a tensor with one element is a number; take an element of tolist() or numpy()");
  }
  nb::object value = tensor.attr("tolist")();
  while (nb::isinstance<nb::list>(value)) value = nb::object(value[0]);
  return nb::module_::import_("builtins").attr(number)(value);
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<Bytes>(module, "_Bytes", nb::type_slots(kBytesSlots));
  nb::class_<Tensor> tensor(
      module, "Tensor", nb::type_slots(kTensorSlots), nb::is_weak_referenceable(),
      "A result of a call, or an argument for several calls: an array on a device. In host memory it is an array for NumPy "
      "and every consumer of DLPack, without a copy.");
  tensor_class = reinterpret_cast<PyTypeObject*>(tensor.ptr());
  tensor.def_prop_ro("shape", shape_of, Locked(), "The extents, a tuple.");
  tensor.def_prop_ro("ndim", [](const Tensor& self) { return heddle_tensor_rank(self.get()); }, Locked(), "The number of dimensions.");
  tensor.def_prop_ro(
      "dtype", [](const Tensor& self) { return element_type(heddle_tensor_element_type(self.get()))->numpy; }, Locked(),
      "The element type by NumPy's name, such as 'float32'.");
  tensor.def_prop_ro("nbytes", [](const Tensor& self) { return heddle_tensor_size(self.get()); }, Locked(), "The size in bytes.");
  tensor.def_prop_ro("device", [](const Tensor& self) { return self.device->alias; }, "The device, such as 'cpu:0'.");
  tensor.def_prop_ro("address", [](const Tensor& self) { return self.address(); }, Locked(), "The address of the contents on the device.");
  tensor.def_prop_ro("is_host", [](const Tensor& self) { return self.device->on_host(); }, "Whether the contents are in host memory.");
  tensor.def_prop_ro("read_only", [](const Tensor& self) { return self.read_only; }, "Whether exports may not be written.");
  tensor.def_prop_ro(
      "released", [](const Tensor& self) { return !self.handle && !self.donated_to; }, Locked(), "Whether release() was called.");
  tensor.def("__dlpack_device__", [](const Tensor& self) { return nb::make_tuple(self.device->dlpack.type, self.device->dlpack.id); });
  tensor.def_prop_ro("__cuda_array_interface__", cuda_array_interface, Locked(),
                     "The memory on a CUDA device, by version 3 of the protocol of numba.");
  tensor.def(
      "__repr__",
      [](const Tensor& self) {
        if (!self.handle) return std::string(self.donated_to ? "<heddle.Tensor, donated>" : "<heddle.Tensor, released>");
        return "<heddle.Tensor " +
               type_text(heddle_tensor_element_type(self.handle), heddle_tensor_dims(self.handle), heddle_tensor_rank(self.handle)) +
               " on " + self.device->alias + ">";
      },
      Locked());
  tensor.def(
      "__len__",
      [](const Tensor& self) -> int64_t {
        if (heddle_tensor_rank(self.get()) == 0) raise("TYPE", "heddle: asking for the length of a tensor failed: it has no dimensions");
        return heddle_tensor_dims(self.handle)[0];
      },
      Locked());
  tensor.def("__float__", [](nb::handle self) { return only_element(self, "float"); });
  tensor.def("__int__", [](nb::handle self) { return only_element(self, "int"); });
  tensor.def("__enter__", [](nb::handle self) { return nb::borrow(self); });
  tensor.def("__exit__", [](nb::handle self, nb::args) { self.attr("release")(); });
  tensor.def("_read_into", read_into, Locked());
  tensor.def("_bytes", [](nb::handle self) { return Bytes{nb::borrow(self)}; });
}

}  // namespace heddle::python
