// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From statuses to Python exceptions: heddle/_errors.py has the classes and picks one. Not on the path of a call that succeeds.
#include "extension.h"

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

void raise(heddle_status_t* failure) {
  const std::unique_ptr<heddle_status_t, void (*)(heddle_status_t*)> owned(failure, heddle_status_free);
  nb::dict payload;
  for (const std::string_view key : kPayloads) {
    const std::string_view value = view(heddle_status_payload(failure, c_string(key)));
    if (!value.empty()) payload[nb::str(key.data(), key.size())] = nb::str(value.data(), value.size());
  }
  throw_error(view(heddle_status_code_name(heddle_status_code(failure))), view(heddle_status_message(failure)),
              view(heddle_status_domain(failure)), heddle_status_native_code(failure), payload);
}

void raise(const char* code, const std::string& message) {
  throw_error(code, message, "", 0, nb::dict());
}

}  // namespace heddle::python
