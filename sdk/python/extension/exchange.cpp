// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle._core._ExchangeCall: calls of a function with the tensors of one library, at small cost for each. heddle.torch makes one for each module.
//
// Tensors over the memory of arguments are kept from call to call, by address and extents: parameters do not move, and a program that repeats itself
// gets the same memory again and again. They own nothing: the caller holds what it passes until the call returns, and frees it in the order of
// the stream.
//
// Calls on a stream are not waited for. Those of functions that are made with `checks_late` may still fail, since their kernels check indices: these calls
// are kept, and the next call of any function raises what one of them found.
#include "exchange.h"

#include <algorithm>
#include <array>
#include <utility>

#include "function.h"

namespace heddle::python {

const ExchangeTable* ExchangeTable::of(PyObject* capsule) {
  constexpr const char* kName = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule, kName)) return nullptr;
  const auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule, kName));
  while (table && table->major != 1) table = table->earlier;
  if (!table || !table->object_of_managed || !table->view_of_object || !table->current_stream) return nullptr;
  return table;
}

namespace {

// Tensors over the memory that one argument or result had in calls before, the last one first.
class Kept {
 public:
  Kept() = default;
  Kept(Kept&& from) noexcept : entries_(std::exchange(from.entries_, {})) {}
  Kept& operator=(Kept&&) = delete;
  ~Kept() { drop(); }
  void drop() {
    for (Entry& entry : entries_) heddle_tensor_release(std::exchange(entry, {}).handle);
  }
  // NULL if there is none.
  heddle_tensor_t* find(const Value& value, uint64_t address, const int64_t* dims, uint32_t flags = 0) {
    for (size_t i = 0; i < entries_.size() && entries_[i].handle; ++i) {
      if (entries_[i].address != address || entries_[i].flags != flags) continue;
      if (!value.is_static && !std::equal(dims, dims + value.type.rank, heddle_tensor_dims(entries_[i].handle))) continue;
      std::rotate(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(i), entries_.begin() + static_cast<ptrdiff_t>(i) + 1);
      return entries_[0].handle;
    }
    return nullptr;
  }
  void add(uint64_t address, heddle_tensor_t* owned, uint32_t flags = 0) {
    heddle_tensor_release(entries_.back().handle);
    std::move_backward(entries_.begin(), entries_.end() - 1, entries_.end());
    entries_[0] = {address, owned, flags};
  }

 private:
  struct Entry {
    uint64_t address = 0;
    heddle_tensor_t* handle = nullptr;
    uint32_t flags = 0;  // HEDDLE_DEVICE_MEMORY_*
  };
  std::array<Entry, 4> entries_{};
};

// What one call needs, kept for the next one. Calls of several threads have one each.
struct Scratch {
  std::vector<Kept> argument_memory, result_memory;
  std::vector<heddle_tensor_t*> arguments, results;  // of the call; borrowed, except for results that the call makes
  std::vector<nb::object> made;                      // what Python gets, by result
  std::vector<uint8_t> given;                        // results that have a tensor before the call
  std::vector<uint8_t> is_free;                      // arguments that the call may overwrite
  Process process;
  uint64_t late_failures = 0;  // of all functions, when it was last used
  // Releases what the call has made and nobody has taken.
  void end_call() {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!given[i]) heddle_tensor_release(results[i]);
      results[i] = nullptr;
      given[i] = 0;
      made[i].reset();
    }
  }
  void forget_memory() {
    for (Kept& kept : argument_memory) kept.drop();
    for (Kept& kept : result_memory) kept.drop();
  }
};

struct ExchangeCall {
  struct Argument {
    size_t slot;                 // in the list of values
    std::vector<uint8_t> order;  // the dimensions of the tensor in the order of the argument's; empty: as they are
    int64_t updated = -1;        // the result that is written over it
    bool may_be_free = false;    // the function overwrites it, and the caller may allow that
  };
  struct Result {
    size_t slot;
    int64_t updates = -1;  // the argument over which it is written
    int64_t takes = -1;    // the argument whose memory it gets if that is free
  };

  nb::object function_object;
  Function& function;
  const ExchangeTable* table;
  nb::tuple classes;                     // of tensors, without their subclasses
  std::vector<PyObject*> known_classes;  // the same, borrowed
  nb::object is_negated;                 // of a tensor: whether its values are to be negated when they are read
  nb::object is_free;                    // of a tensor: whether nothing else has its memory
  nb::object taken;                      // of an argument and a result: the tensor of the result in the argument's memory
  nb::object allocate;                   // the library's, for results; None: the results are in Heddle's memory
  uint64_t alignment;                    // of arguments, in bytes
  bool checks_late;
  int32_t cuda_id = -1;  // the device that the function uses, if it uses one
  std::vector<Argument> arguments;
  std::vector<Result> results;
  static constexpr size_t kMostIdle = 16;
  std::vector<std::unique_ptr<Scratch>> idle;

  ExchangeCall(nb::object called, nb::handle capsule, nb::tuple given_classes, nb::object given_is_negated, nb::object given_allocate,
               uint64_t given_alignment, nb::list given_arguments, nb::list given_results, nb::list donated, nb::object given_is_free,
               nb::object given_taken, bool given_checks_late);
  ExchangeCall(const ExchangeCall&) = delete;
  ~ExchangeCall() {
    const Exclusive held;
    for (LateCall& one : late_calls) {
      if (one.of == this) one.of = nullptr;  // whoever settles the others tells of it
    }
    for (auto& scratch : idle) {
      if (!scratch->process.is_this()) static_cast<void>(scratch.release());  // its tensors are those of the parent process
    }
  }

  // Calls the function with tensors of `values`, a list, and writes the results there; those that are written over an argument leave their slot as
  // it is. Donated arguments that nothing but the list refers to may be overwritten. `made`: for each result the arguments of `allocate`. `prepared`: a list of the arguments, or None to take them from their slots.
  // Returns None; or a tuple with the indices of arguments that need other tensors, in row-major order, on the device, and aligned: then nothing
  // was called.
  nb::object call(nb::list values, nb::list made, nb::object prepared);

  // Ends late calls that are over, and waits for those of one function, or of all if it is NULL: a function has one at most while another one is
  // started, or its arenas would multiply. Raises what one of them found.
  static void settle_late_calls(const ExchangeCall* waited_for);

 private:
  friend struct Use;
  struct LateCall {
    const ExchangeCall* of;  // NULL if it is gone
    heddle_call_t* call;
    Process process{};
  };
  inline static std::vector<LateCall> late_calls;
  inline static uint64_t late_failures = 0;
  static bool is_true(const nb::object& value) { return PyObject_IsTrue(value.ptr()) == 1; }
  // The argument in whose memory the call writes the result; -1 for none.
  static int64_t place_of(const Result& result, const Scratch& scratch) {
    if (result.updates >= 0) return result.updates;
    return result.takes >= 0 && scratch.is_free[static_cast<size_t>(result.takes)] ? result.takes : -1;
  }
  std::unique_ptr<Scratch> take_scratch();
  // NULL if the tensor cannot be passed as it is.
  heddle_tensor_t* open_argument(size_t index, PyObject* object, Scratch& scratch);
  void allocate_result(size_t index, nb::handle how, Scratch& scratch);
  void run(Scratch& scratch);
};

// Scratch of one call, which goes back when it is over.
struct Use {
  ExchangeCall& call;
  std::unique_ptr<Scratch> scratch;
  bool is_over = false;
  explicit Use(ExchangeCall& made) : call(made), scratch(made.take_scratch()) {}
  Use(const Use&) = delete;
  ~Use() {
    scratch->end_call();
    if (!is_over) scratch->forget_memory();  // its tensors would return the call's failure to later calls
    if (call.idle.size() < ExchangeCall::kMostIdle) call.idle.push_back(std::move(scratch));
  }
};

ExchangeCall::ExchangeCall(nb::object called, nb::handle capsule, nb::tuple given_classes, nb::object given_is_negated,
                           nb::object given_allocate, uint64_t given_alignment, nb::list given_arguments, nb::list given_results,
                           nb::list donated, nb::object given_is_free, nb::object given_taken, bool given_checks_late)
    : function_object(std::move(called)),
      function(nb::cast<Function&>(function_object)),
      table(ExchangeTable::of(capsule.ptr())),
      classes(std::move(given_classes)),
      is_negated(std::move(given_is_negated)),
      is_free(std::move(given_is_free)),
      taken(std::move(given_taken)),
      allocate(std::move(given_allocate)),
      alignment(std::max<uint64_t>(given_alignment, 1)),
      checks_late(given_checks_late) {
  idle.reserve(kMostIdle);
  for (nb::handle one : classes) known_classes.push_back(one.ptr());
  for (const auto* values : {&function.arguments, &function.results}) {
    for (const Value& value : *values) {
      if (value.on_cuda) cuda_id = value.device->dlpack.id;
    }
  }
  const std::string failed = "heddle: preparing calls of '" + function.name + "' failed: ";
  if (!table) raise("UNIMPLEMENTED", failed + "expected a capsule of DLPack 1's table of functions, got " + repr_of(capsule));
  if (nb::len(given_arguments) != function.arguments.size() || nb::len(given_results) != function.results.size()) {
    raise("INVALID_ARGUMENT", failed + "it has " + std::to_string(function.arguments.size()) + " arguments and " +
                                  std::to_string(function.results.size()) + " results, got " + std::to_string(nb::len(given_arguments)) +
                                  " and " + std::to_string(nb::len(given_results)));
  }
  for (nb::handle given : given_arguments) {
    const auto pair = nb::cast<nb::tuple>(given);
    Argument& made = arguments.emplace_back(Argument{nb::cast<size_t>(pair[0]), {}});
    if (pair[1].is_none()) continue;
    const uint32_t rank = function.arguments[arguments.size() - 1].type.rank;
    uint32_t seen = 0;
    for (nb::handle dimension : pair[1]) {
      made.order.push_back(nb::cast<uint8_t>(dimension));
      if (made.order.back() < rank) seen |= 1u << made.order.back();
    }
    if (made.order.size() != rank || seen != (1u << rank) - 1) {
      raise("INVALID_ARGUMENT",
            failed + "the order of argument '" + function.arguments[arguments.size() - 1].text + "' is no permutation of its dimensions");
    }
  }
  for (nb::handle given : given_results) {
    const auto pair = nb::cast<nb::tuple>(given);
    Result& made = results.emplace_back(Result{nb::cast<size_t>(pair[0])});
    if (pair[1].is_none()) continue;
    made.updates = nb::cast<int64_t>(pair[1]);
    const size_t updated = static_cast<size_t>(made.updates);
    const heddle_tensor_type_t* type = made.updates >= 0 && updated < arguments.size() ? &function.arguments[updated].type : nullptr;
    if (!type || !(type->flags & HEDDLE_TENSOR_TYPE_ALIASED) || type->alias != results.size() - 1) {
      raise("INVALID_ARGUMENT", failed + "result '" + function.results[results.size() - 1].text + "' is not written over argument " +
                                    std::to_string(made.updates));
    }
    arguments[updated].updated = static_cast<int64_t>(results.size() - 1);
  }
  for (nb::handle given : donated) {
    const auto index = nb::cast<size_t>(given);
    if (index >= arguments.size()) raise("OUT_OF_RANGE", failed + "argument " + std::to_string(index) + " is donated, and there is none");
    const heddle_tensor_type_t& type = function.arguments[index].type;
    if (!(type.flags & HEDDLE_TENSOR_TYPE_CONSUMED) || arguments[index].updated >= 0) continue;
    arguments[index].may_be_free = true;
    if (type.flags & HEDDLE_TENSOR_TYPE_ALIASED) results[type.alias].takes = static_cast<int64_t>(index);
  }
}

// Whether the call is over; then *out_failure is its failure, or NULL. Otherwise *out_checks_late tells whether it may fail although it is on a stream.
bool call_is_over(heddle_call_t* call, uint64_t timeout_ns, heddle_status_t** out_failure, bool* out_checks_late = nullptr) {
  *out_failure = heddle_call_wait(call, timeout_ns);
  if (heddle_status_code(*out_failure) != HEDDLE_STATUS_DEADLINE_EXCEEDED ||
      heddle_status_payload(*out_failure, c_string("deadline")).size != 0)
    return true;
  if (out_checks_late) *out_checks_late = heddle_status_payload(*out_failure, c_string("checks")).size != 0;
  heddle_status_free(std::exchange(*out_failure, nullptr));
  return false;
}

void ExchangeCall::settle_late_calls(const ExchangeCall* waited_for) {
  for (size_t i = 0; i < late_calls.size();) {
    const LateCall one = late_calls[i];
    const bool is_here = one.process.is_this();
    heddle_status_t* failure = nullptr;
    bool ended = !is_here || call_is_over(one.call, 0, &failure);
    if (!ended && waited_for && one.of != waited_for) {
      ++i;
      continue;
    }
    late_calls.erase(late_calls.begin() + static_cast<ptrdiff_t>(i));  // other threads may come here while this one waits
    while (!ended) {
      if (PyErr_CheckSignals() != 0) {
        late_calls.push_back(one);
        throw nb::python_error();
      }
      GilReleased released;
      ended = call_is_over(one.call, kSliceNs, &failure);
    }
    if (is_here) heddle_call_release(one.call);
    deliver_log();
    if (failure) {
      ++late_failures;
      raise(failure, "heddle: an earlier call failed after it was started, and its results are undefined: ");
    }
    i = 0;
  }
}

std::unique_ptr<Scratch> ExchangeCall::take_scratch() {
  if (!idle.empty()) {
    std::unique_ptr<Scratch> out = std::move(idle.back());
    idle.pop_back();
    // Its tensors may be of a call that failed.
    if (std::exchange(out->late_failures, late_failures) != late_failures) out->forget_memory();
    return out;
  }
  auto out = std::make_unique<Scratch>();
  out->late_failures = late_failures;
  out->argument_memory.resize(arguments.size());
  out->arguments.resize(arguments.size());
  out->is_free.resize(arguments.size());
  out->result_memory.resize(results.size());
  out->results.resize(results.size());
  out->given.resize(results.size());
  out->made.resize(results.size());
  return out;
}

heddle_tensor_t* ExchangeCall::open_argument(size_t index, PyObject* object, Scratch& scratch) {
  const Argument& argument = arguments[index];
  const Value& value = function.arguments[index];
  const bool is_known = std::ranges::find(known_classes, reinterpret_cast<PyObject*>(Py_TYPE(object))) != known_classes.end();
  if (!is_known || PyObject_IsTrue(is_negated(nb::handle(object)).ptr()) != 0) return nullptr;
  heddle_dlpack_tensor_t view{};
  if (table->view_of_object(object, &view) != 0) {  // without memory, or on a device that DLPack does not know
    PyErr_Clear();
    return nullptr;
  }
  const heddle_dlpack_type_t type = heddle_dlpack_type_of(value.type.element_type);
  const bool is_here = value.device->on_host() ? view.device.type == HEDDLE_DLPACK_CPU || view.device.type == HEDDLE_DLPACK_CUDA_HOST
                                               : view.device.type == value.device->dlpack.type && view.device.id == value.device->dlpack.id;
  if (!is_here || view.type.code != type.code || view.type.bits != type.bits || view.type.lanes != 1 ||
      view.rank != static_cast<int32_t>(value.type.rank))
    return nullptr;
  int64_t dims[HEDDLE_MAX_RANK];
  uint64_t dense = 1;  // cannot overflow: the tensor has memory, or no elements
  bool is_dense = true;
  for (uint32_t k = value.type.rank; k-- > 0;) {
    const uint32_t d = argument.order.empty() ? k : argument.order[k];
    dims[k] = view.shape[d];
    if (value.type.dims[k] >= 0 && value.type.dims[k] != dims[k]) return nullptr;
    is_dense &= dims[k] == 1 || !view.strides || view.strides[d] == static_cast<int64_t>(dense);
    dense *= static_cast<uint64_t>(dims[k]);
  }
  const uint64_t size = dense * (HEDDLE_TYPE_BITS(value.type.element_type) / 8);
  if (size != 0 && (!is_dense || (!view.strides && !argument.order.empty()))) return nullptr;
  const uint64_t address = size == 0 ? 0 : reinterpret_cast<uint64_t>(view.data) + view.byte_offset;
  if (address % alignment != 0) return nullptr;
  function.bytes_in_place += size;
  Kept& kept = scratch.argument_memory[index];
  const uint32_t flags = scratch.is_free[index] ? HEDDLE_DEVICE_MEMORY_CONSUMABLE : 0;
  if (heddle_tensor_t* found = kept.find(value, address, dims, flags)) return found;
  heddle_tensor_t* made = nullptr;
  if (size == 0) {  // at any address
    check(heddle_tensor_from_host(function.handle, static_cast<uint32_t>(index), value.type.element_type, dims, value.type.rank, nullptr, 0,
                                  &made));
  } else {
    const heddle_device_memory_t memory = {sizeof(memory), flags, address, size, nullptr, nullptr};
    check(heddle_tensor_from_device(function.handle, static_cast<uint32_t>(index), value.type.element_type, dims, value.type.rank, &memory,
                                    &made));
  }
  kept.add(address, made, flags);
  return made;
}

void ExchangeCall::allocate_result(size_t index, nb::handle how, Scratch& scratch) {
  const Value& value = function.results[index];
  scratch.made[index] = nb::steal(PyObject_Call(allocate.ptr(), how.ptr(), nullptr));
  if (!scratch.made[index].is_valid()) throw nb::python_error();
  heddle_dlpack_tensor_t view{};
  if (table->view_of_object(scratch.made[index].ptr(), &view) != 0) throw nb::python_error();
  uint64_t size = HEDDLE_TYPE_BITS(value.type.element_type) / 8;
  int64_t dims[HEDDLE_MAX_RANK];
  const heddle_dlpack_type_t type = heddle_dlpack_type_of(value.type.element_type);
  bool fits = view.rank == static_cast<int32_t>(value.type.rank) && view.type.code == type.code && view.type.bits == type.bits &&
              view.device.type == value.device->dlpack.type && view.device.id == value.device->dlpack.id;
  for (uint32_t k = 0; fits && k < value.type.rank; ++k) {
    dims[k] = view.shape[k];
    fits = value.type.dims[k] < 0 || value.type.dims[k] == dims[k];
    size *= static_cast<uint64_t>(dims[k]);
  }
  if (!fits) {
    raise("INTERNAL", function.place(value, "result").text() + ": what was allocated for it is of another type, or elsewhere; report it");
  }
  if (size == 0) return;  // the call makes an empty tensor, which nobody needs
  const uint64_t address = reinterpret_cast<uint64_t>(view.data) + view.byte_offset;
  heddle_tensor_t* handle = scratch.result_memory[index].find(value, address, dims);
  if (!handle) {
    const heddle_device_memory_t memory = {sizeof(memory), HEDDLE_DEVICE_MEMORY_RESULT, address, size, nullptr, nullptr};
    check(heddle_tensor_from_device(function.handle, static_cast<uint32_t>(index), value.type.element_type, dims, value.type.rank, &memory,
                                    &handle));
    scratch.result_memory[index].add(address, handle);
  }
  scratch.results[index] = handle;
  scratch.given[index] = 1;
}

void ExchangeCall::run(Scratch& scratch) {
  Session& session = *function.session;
  heddle_call_params_t params{};
  params.struct_size = sizeof(params);
  const bool on_cuda = cuda_id >= 0;
  if (on_cuda) {
    void* stream = nullptr;
    if (table->current_stream(HEDDLE_DLPACK_CUDA, cuda_id, &stream) != 0) throw nb::python_error();
    params.flags = HEDDLE_CALL_NATIVE_STREAM | (checks_late ? HEDDLE_CALL_LATE_CHECKS : 0u);
    params.native_stream = reinterpret_cast<uint64_t>(stream);
  }
  heddle_call_t* call = nullptr;
  heddle_status_t* status = nullptr;
  bool runs = true;
  bool may_fail_late = false;
  auto wait = [&](uint64_t timeout_ns) { runs = !call_is_over(call, timeout_ns, &status, &may_fail_late); };
  auto release = [&] {
    heddle_status_free(status);
    status = nullptr;
    heddle_call_release(call);
  };
  {
    GilReleased released;
    status = heddle_call_start(function.handle, &params, scratch.arguments.data(), static_cast<uint32_t>(scratch.arguments.size()),
                               scratch.results.data(), static_cast<uint32_t>(scratch.results.size()), &call);
    if (!status) wait(on_cuda ? 0 : kSliceNs);  // on a stream, calls that check indices are over, unless they do so late
  }
  while (call && runs && !on_cuda) {
    if (PyErr_CheckSignals() != 0) {
      nb::python_error raised;
      {
        GilReleased released;  // the caller may free its memory after this
        heddle_call_cancel(call);
        wait(HEDDLE_TIMEOUT_INFINITE);
        release();
      }
      deliver_log_later();
      throw raised;
    }
    GilReleased released;
    wait(kSliceNs);
  }
  const bool is_left = call && runs;
  if (is_left && may_fail_late) late_calls.push_back({this, std::exchange(call, nullptr)});
  if (call) {
    GilReleased released;
    heddle_call_release(call);
  }
  deliver_log();
  if (is_left) {
    session.dropped_calls = true;
  } else if (status) {
    raise(status);
  }
}

nb::object ExchangeCall::call(nb::list values, nb::list made, nb::object prepared) {
  const std::string& name = function.name;
  Session& session = *function.session;
  session.check_open("calling a function");
  const SessionInUse guard(function.session);
  if (session.is_loading && !session.wait_until_loaded(HEDDLE_TIMEOUT_INFINITE)) session.check_open("calling a function");
  if (!late_calls.empty()) settle_late_calls(this);
  Use use(*this);
  Scratch& scratch = *use.scratch;
  const bool from_slots = prepared.is_none();
  const size_t value_count = nb::len(values);
  if (nb::len(made) != results.size() || (!from_slots && nb::len(prepared) != arguments.size())) {
    raise("INVALID_ARGUMENT", "heddle: calling '" + name + "' failed: expected an element for each of its arguments and results");
  }
  nb::list unready;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const size_t slot = from_slots ? arguments[i].slot : i;
    if (from_slots && slot >= value_count) raise("INVALID_ARGUMENT", "heddle: calling '" + name + "' failed: there are too few values");
    PyObject* const object = PyList_GetItem((from_slots ? values : prepared).ptr(), static_cast<Py_ssize_t>(slot));
    if (!object) throw nb::python_error();
    // The list has the only reference. Tensors that were made to pass them are not donated: what they were copied of is freed by the list.
    scratch.is_free[i] = arguments[i].may_be_free && from_slots && Py_REFCNT(object) == 1 && is_true(is_free(nb::handle(object)));
    scratch.arguments[i] = open_argument(i, object, scratch);
    if (!scratch.arguments[i]) unready.append(i);
  }
  if (nb::len(unready) != 0) {
    use.is_over = true;
    return nb::tuple(unready);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t place = place_of(results[i], scratch);
    if (place >= 0) {
      scratch.results[i] = scratch.arguments[static_cast<size_t>(place)];
      scratch.given[i] = 1;
    } else if (!allocate.is_none()) {
      allocate_result(i, made[i], scratch);
    }
  }
  run(scratch);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].updates >= 0) continue;
    if (const int64_t place = place_of(results[i], scratch); place >= 0)
      scratch.made[i] = taken(nb::handle(PyList_GET_ITEM(values.ptr(), arguments[static_cast<size_t>(place)].slot)), place, i);
    if (!scratch.made[i].is_valid()) {
      heddle_dlpack_managed_t* const managed = export_owned(scratch.results[i], *function.results[i].device);
      scratch.results[i] = nullptr;
      void* object = nullptr;
      if (table->object_of_managed(managed, &object) != 0) throw nb::python_error();
      scratch.made[i] = nb::steal(static_cast<PyObject*>(object));
    }
    if (PyList_SetItem(values.ptr(), static_cast<Py_ssize_t>(results[i].slot), scratch.made[i].release().ptr()) != 0)
      throw nb::python_error();
  }
  use.is_over = true;
  return nb::none();
}

}  // namespace

void bind_exchange(nb::module_& module) {
  nb::class_<ExchangeCall>(module, "_ExchangeCall")
      .def(nb::init<nb::object, nb::handle, nb::tuple, nb::object, nb::object, uint64_t, nb::list, nb::list, nb::list, nb::object,
                    nb::object, bool>(),
           nb::arg("function"), nb::arg("exchange"), nb::arg("classes"), nb::arg("is_negated"), nb::arg("allocate").none(),
           nb::arg("alignment"), nb::arg("arguments"), nb::arg("results"), nb::arg("donated") = nb::list(),
           nb::arg("is_free").none() = nb::none(), nb::arg("taken").none() = nb::none(), nb::arg("checks_late") = false)
      .def("__call__", &ExchangeCall::call, nb::arg("values"), nb::arg("made"), nb::arg("prepared").none() = nb::none(), Locked())
      .def_static("settle_late_calls", [] { ExchangeCall::settle_late_calls(nullptr); }, Locked());
}

}  // namespace heddle::python
