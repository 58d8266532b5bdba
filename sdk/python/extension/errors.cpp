// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From statuses to Python exceptions: heddle/_errors.py has the classes and picks one. Not on the path of a call that succeeds.
#include "extension.h"

#include <pthread.h>

#include <cmath>

namespace heddle::python {
namespace {

// The payloads that status.h names; there is no function that lists those of a status.
constexpr std::string_view kPayloads[] = {"region", "region_name", "operator", "deadline", "extent"};

[[noreturn]] void throw_error(std::string_view code, std::string_view message, std::string_view domain, int64_t native_code,
                              nb::dict payload) {
  auto text = [](std::string_view s) { return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace")); };
  nb::object error =
      nb::module_::import_("heddle._errors").attr("make")(text(code), text(message), text(domain), nb::int_(native_code), payload);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace

uint32_t Process::current = 0;

#ifdef Py_GIL_DISABLED
PyObject* Exclusive::object = nullptr;

void Exclusive::prepare() {
  object =
      PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));  // never released: destructors may run while the process exits
  if (!object) throw nb::python_error();
}
#else
void Exclusive::prepare() {}
#endif

void Process::watch() {
  pthread_atfork(nullptr, nullptr, [] { ++current; });
}

std::string str_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "replace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

std::string class_name(nb::handle object) {
  return str_of(nb::object(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__")));
}

std::string repr_of(nb::handle object) {
  constexpr size_t kMost = 80;
  const nb::object ascii = nb::steal(PyObject_ASCII(object.ptr()));
  if (!ascii.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
    PyErr_Clear();
    return "an object of class " + class_name(object);
  }
  std::string text = str_of(ascii);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

PyObject* refuse_new(PyTypeObject* type, PyObject*, PyObject*) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const std::string name = str_of(nb::object(nb::handle(reinterpret_cast<PyObject*>(type)).attr("__name__")));
    raise("TYPE", "heddle: making an object of class " + name + " failed: only heddle makes such objects; see help(heddle." + name + ")");
  });
}

double seconds_of(nb::handle timeout, const std::string& doing) {
  const double seconds = PyFloat_AsDouble(timeout.ptr());
  const bool failed = seconds == -1.0 && PyErr_Occurred();
  if (!failed && !std::isnan(seconds)) return seconds;
  const bool is_type = failed && !PyErr_ExceptionMatches(PyExc_OverflowError);
  PyErr_Clear();
  raise(is_type ? "TYPE" : "INVALID_ARGUMENT", doing + "timeout is a number of seconds, got " + repr_of(timeout) + "; pass one, or None");
}

void raise(heddle_status_t* failure, const std::string& before) {
  const std::unique_ptr<heddle_status_t, void (*)(heddle_status_t*)> owned(failure, heddle_status_free);
  nb::dict payload;
  for (const std::string_view key : kPayloads) {
    const std::string_view value = view(heddle_status_payload(failure, c_string(key)));
    if (!value.empty()) payload[nb::str(key.data(), key.size())] = nb::str(value.data(), value.size());
  }
  throw_error(view(heddle_status_code_name(heddle_status_code(failure))), before + std::string(view(heddle_status_message(failure))),
              view(heddle_status_domain(failure)), heddle_status_native_code(failure), payload);
}

void raise(const char* code, const std::string& message) {
  throw_error(code, message, "", 0, nb::dict());
}

}  // namespace heddle::python
