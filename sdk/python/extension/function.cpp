// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.Function: what is known of an entry point, tensors for its arguments, and its binding.
#include "function.h"

#include <unordered_set>

#include "invocation.h"

namespace heddle::python {

std::shared_ptr<const Device> device_of(heddle_runtime_device_t* device) {
  heddle_runtime_device_properties_t properties{};
  properties.struct_size = sizeof(properties);
  check(heddle_runtime_device_describe(device, &properties));
  return std::make_shared<const Device>(Device{std::string(view(properties.name)), heddle_dlpack_device_of(device)});
}

namespace {

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
    // The function may be asked for its types after the instance is gone.
    value.type.name = c_string(value.text);
    value.type.device = nullptr;
    for (uint32_t d = 0; d < value.type.rank; ++d)
      value.type.symbols[d] = c_string(value.symbols.emplace_back(view(value.type.symbols[d])));
  }
  return out;
}

}  // namespace

std::string names_of(const std::deque<Value>& values) {
  std::string out;
  for (const Value& value : values) out += (out.empty() ? "'" : ", '") + value.text + "'";
  return out.empty() ? "none" : out;
}

namespace {

// A name that lives as long as the process, as those of the fields of a type must.
const char* lasting(const std::string& name) {
  static auto* const names = new std::unordered_set<std::string>;
  return names->insert(name).first->c_str();
}

}  // namespace

Function::Function(std::shared_ptr<Session> given, std::string_view wanted) : session(std::move(given)), name(wanted) {
  session->check_open("getting a function");
  about_to_begin = std::make_shared<const std::string>("a call of '" + name + "', which is about to begin");
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
  nb::list names;  // as of a namedtuple
  for (const Value& value : results) names.append(value.text);
  nb::setattr(reinterpret_cast<PyObject*>(results_class), "_fields", nb::tuple(names));
}

Function::~Function() {
  const Exclusive held;
  frames.clear();
  if (cache) cache->clear();
  Py_XDECREF(reinterpret_cast<PyObject*>(results_class));
}

PyObject* Function::call(PyObject* positional, PyObject* named) {
  Invocation call(*this);
  call.place_arguments(positional, named);
  if (call.out) call.take_results();
  call.make_arguments();
  if (!call.waits) return call.enqueue();
  call.make_results();
  call.run();
  return call.results();
}

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
  return exclusively<PyObject*>(nullptr, [&] { return self_of<Function>(self).call(arguments, named); });
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
  if (PyLong_Check(argument.ptr()) && !PyBool_Check(argument.ptr())) {
    const int64_t index = PyLong_AsLongLong(argument.ptr());
    if (index == -1) PyErr_Clear();  // too large
    if (index >= 0 && index < static_cast<int64_t>(function.arguments.size())) return static_cast<size_t>(index);
  }
  raise("TYPE", "heddle: making a tensor failed: '" + function.name + "' has no argument " + repr_of(argument) + "; its arguments are " +
                    names_of(function.arguments));
}

nb::object make_argument_tensor(Function& function, nb::handle argument, nb::handle array, nb::handle copy) {
  function.session->check_open("making a tensor");
  const SessionInUse guard(function.session);
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
  return exclusively<PyObject*>(nullptr, [&]() -> PyObject* {
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
const PyType_Slot kFunctionSlots[] = {{Py_tp_call, reinterpret_cast<void*>(call_function)},
                                      {Py_tp_methods, kFunctionMethods},
                                      {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                                      {0, nullptr}};

}  // namespace

void bind_function(nb::module_& module) {
  nb::class_<Function>(
      module, "Function", nb::type_slots(kFunctionSlots), nb::is_weak_referenceable(),
      "A function of an open module, called with one array per argument, by position or by name: function(x, mask=m).\n\n"
      "out      an array or a tensor to write the result to; for several results, a list of them with None for a new one\n"
      "donate   the name of an argument, or a tuple of names: these tensors are given up, and the function may overwrite them. Using such "
      "a\n"
      "         tensor later is an error that names the call\n"
      "state    a heddle.State of the module, whose values the call reads and updates; without it, those of the module\n"
      "timeout  in seconds: after it, no more work of the call is enqueued, and DeadlineExceededError is raised\n"
      "stream   on a CUDA device: the stream with which the call is ordered, such as torch.cuda.current_stream(); the default stream\n"
      "wait     False, on a CUDA device and with out= for every result: returns as soon as the work is on the stream, as a kernel launch "
      "does\n\n"
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
          Locked(), "How many bytes of arrays calls used in place, and how many they copied.")
      .def("__repr__", [](const Function& self) { return "<heddle.Function " + self.signature() + ">"; });
}

}  // namespace heddle::python
