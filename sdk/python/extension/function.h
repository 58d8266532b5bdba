// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.Function: one entry point of an instance. Module calls its main function through this, too.
#ifndef HEDDLE_PYTHON_FUNCTION_H_
#define HEDDLE_PYTHON_FUNCTION_H_

#include <deque>

#include "extension.h"

namespace heddle::python {

// An argument or a result.
struct Value {
  nb::object name;  // interned
  std::string text;
  std::deque<std::string> symbols;
  heddle_tensor_type_t type;  // with texts of this
  std::shared_ptr<const Device> device;
  bool in_place = false;  // the device takes memory of the process
  bool on_cuda = false;   // the device takes memory of other libraries on it
  bool is_static = true;  // its extents are known
};

// What one call needs, kept for the next one.
struct Frame {
  std::vector<PyObject*> objects;           // borrowed from the caller
  std::vector<heddle_tensor_t*> arguments;  // of the call; borrowed
  std::vector<heddle_tensor_t*> temporary;  // released after the call
  std::vector<heddle_tensor_t*> kept;       // copies of small arrays, one per argument; the next call overwrites them
  std::vector<heddle_tensor_t*> results;    // before the call: borrowed or NULL; after it: owned where it was NULL
  std::vector<uint8_t> given;               // results that the caller gave
  Process process;
  ~Frame();
  void end_call();
  void drop_kept();
};

struct Function {
  std::shared_ptr<Session> session;
  heddle_function_t* handle = nullptr;
  std::string name;
  std::deque<Value> arguments, results;
  std::shared_ptr<TensorCache> cache;
  std::vector<std::unique_ptr<Frame>> frames;  // idle
  PyTypeObject* results_class = nullptr;       // a named tuple, for several results
  uint64_t bytes_in_place = 0, bytes_copied = 0;
  bool uses_cuda = false;
  std::shared_ptr<const std::string> about_to_begin;  // Tensor::donated_to, while a call takes its arguments

  Function(std::shared_ptr<Session> session, std::string_view name);
  Function(const Function&) = delete;
  ~Function();
  // `arguments` is a tuple, `named` a dictionary or NULL. Returns a new reference.
  PyObject* call(PyObject* arguments, PyObject* named);
  std::string signature() const;
  Place place(const Value& value, const char* kind) const { return {name, kind, value.text, &value.type, value.device.get()}; }

 private:
  friend struct Invocation;
};

}  // namespace heddle::python

#endif  // HEDDLE_PYTHON_FUNCTION_H_
