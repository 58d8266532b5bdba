// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of a function. Its arguments are in arguments.cpp, its results in results.cpp, what both may share in overlap.cpp.
#ifndef HEDDLE_PYTHON_INVOCATION_H_
#define HEDDLE_PYTHON_INVOCATION_H_

#include <optional>

#include "function.h"

namespace heddle::python {

// A time on CLOCK_MONOTONIC, for heddle_call_params_t; 0: never.
uint64_t deadline_after(double seconds);
// "'x', 'y'", or "none".
std::string names_of(const std::deque<Value>& values);

inline bool same_dims(heddle_tensor_t* tensor, const Source& source) {
  if (heddle_tensor_rank(tensor) != source.rank || heddle_tensor_element_type(tensor) != source.type->type) return false;
  const int64_t* dims = heddle_tensor_dims(tensor);
  for (uint32_t i = 0; i < source.rank; ++i) {
    if (dims[i] != source.dims[i]) return false;
  }
  return true;
}

// NULL if the object is no heddle.Tensor.
inline Tensor* as_tensor(PyObject* object) {
  if (Py_TYPE(object) != tensor_class) return nullptr;
  return &self_of<Tensor>(object);
}

struct CallAtLoad;

// Made, used and destroyed with the GIL.
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
  bool is_ordered = false;                        // with the stream
  bool waits = true;                              // false: the call returns when its work is on the stream
  std::vector<std::unique_ptr<Source>> borrowed;  // by a call that does not wait: memory that stays valid by the order of the stream
  bool abandoned = false;                         // the call may still run
  // Donated tensors whose handles the call has until it has begun or failed: another thread could use them meanwhile.
  struct Taken {
    nb::object tensor;
    heddle_tensor_t* handle;
  };
  std::vector<Taken> taken;

  explicit Invocation(Function& called);
  Invocation(const Invocation&) = delete;
  ~Invocation();
  [[noreturn]] void refuse(const std::string& why, const char* code = "TYPE") const;

  // Arguments, results, then tensors for both, in this order.
  void place_arguments(PyObject* arguments, PyObject* named);  // fills frame->objects
  void take_results();                                         // those that the caller gave, in `out`
  void make_arguments();
  void make_results();  // those that the caller did not give

  // Calls the function and waits.
  void run();
  // Calls the function and returns when its work is on the stream. What Python gets: a new reference.
  PyObject* enqueue();
  // Starts the call, for a Call, which waits for it. Others may not use its tensors again before it is over, even if they are dropped.
  heddle_call_t* start();
  // The same for a call that has to wait for parameters: until it is decided, `this` must live. NULL: they are loaded, and it can be started.
  std::shared_ptr<CallAtLoad> start_at_load();
  // What Python gets when the call is over. A new reference.
  PyObject* results();

 private:
  // Memory that the call writes to, or an array's. No bytes: unknown.
  struct Range {
    uint64_t address = 0, size_bytes = 0;
    explicit Range(const Source& source) : address(reinterpret_cast<uint64_t>(source.data)), size_bytes(source.size_bytes) {}
    explicit Range(heddle_tensor_t* tensor);
    bool operator==(const Range&) const = default;
    bool overlaps(const Range& other) const;
  };
  mutable std::vector<std::optional<Range>> ranges;  // of the results that the caller gave, by result, as far as they are known
  const Range& range_of(size_t given_result) const;

  void place_named(PyObject* named);
  void use_state(nb::handle object);
  size_t find(PyObject* key) const;  // the index of the argument, or the number of arguments
  heddle_tensor_t* make_argument(size_t index, PyObject* object);
  bool is_taken(PyObject* object) const;                           // for the donation of this call
  heddle_tensor_t* take_tensor(PyObject* object, Tensor& tensor);  // the handle of an argument, which stays valid until the call has begun
  void give_back_donated();
  void donate_one(PyObject* name);
  void donate_arguments();

  // The given result that takes the argument's memory, if it is written to just that memory: the call then updates it in place.
  std::optional<size_t> updated_in(size_t argument, const Range& range) const;
  bool is_written(const Range& range) const;
  // Of two results in one memory, the one that is copied would overwrite the other.
  void check_apart(size_t index, const Range& range) const;

  PyObject* given_result(size_t index) const;
  nb::object result(size_t index);
  [[noreturn]] void refuse_result(size_t index, const Source& source, heddle_element_type_t type, const int64_t* dims, uint32_t rank,
                                  const heddle_string_t* symbols = nullptr) const;
  void read_result(size_t index, Source& source);

  const heddle_call_params_t* call_params();
  // Until the parameters of a module are there that are loaded in the background, or the call's deadline has passed.
  void wait_until_loaded();
  // The call goes on; libheddle keeps its tensors alive.
  void abandon(heddle_call_t* call);
  void share_tensors();
  void discard_results();
};

// Function.start, as a PyCFunction.
PyObject* start_call(PyObject* self, PyObject* positional, PyObject* named);
void bind_call(nb::module_& module);

}  // namespace heddle::python

#endif  // HEDDLE_PYTHON_INVOCATION_H_
