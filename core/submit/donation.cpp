// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments that their callers give up, and arguments that a function overwrites. The part of Function's check that few calls need.
#include <algorithm>

#include "core/submit/function.h"

namespace heddle::submit {

namespace {

using memory::Ref;
using memory::Tensor;

bool same_type(const Tensor& a, const Tensor& b) {
  return a.element_type() == b.element_type() && std::equal(a.dims(), a.dims() + a.rank(), b.dims(), b.dims() + b.rank()) &&
         &a.device() == &b.device();
}

}  // namespace

Invocation::TakenTensors Invocation::give_back() {
  TakenTensors taken;
  if (replaced) taken.swap(replaced->taken);
  for (auto& [tensor, memory] : taken) tensor->give_back(memory.get());
  return taken;
}

bool Function::in_place(std::span<Tensor* const> arguments, std::span<Tensor* const> results, size_t index) const {
  const int32_t argument = signature_.results[index].alias;
  return argument >= 0 && arguments[static_cast<size_t>(argument)] == results[index] &&
         std::ranges::count(arguments, results[index]) == 1 && std::ranges::count(results, results[index]) == 1;
}

bool Function::consumes_in_place(const Tensor& argument, size_t index) const {
  const open::TensorSignature& expected = signature_.arguments[index];
  return expected.is_consumed && expected.alias < 0 && argument.is_consumable() && argument.size_bytes() != 0;
}

bool Function::all_apart(std::span<Tensor* const> arguments, std::span<Tensor* const> results) const {
  struct Range {
    uint64_t begin, end;
    bool is_result;
  };
  std::vector<Range> ranges;
  ranges.reserve(arguments.size() + results.size());
  auto add = [&](const Tensor& tensor, bool is_result) {
    if (tensor.size_bytes() == 0) return !is_result;
    const Result<uint64_t> begin = tensor.has_memory() ? tensor.place() : Result<uint64_t>(uint64_t{0});
    if (!begin.ok() || *begin == 0) return false;
    ranges.push_back({*begin, *begin + tensor.size_bytes(), is_result});
    return true;
  };
  std::vector<bool> is_updated(arguments.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    if (!add(*results[i], true)) return false;
    const int32_t alias = signature_.results[i].alias;
    // If the tensor is passed once more, it is found twice.
    if (alias >= 0 && arguments[static_cast<size_t>(alias)] == results[i]) is_updated[static_cast<size_t>(alias)] = true;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_updated[i] && !add(*arguments[i], consumes_in_place(*arguments[i], i))) return false;
  }
  // Addresses of different drivers are compared, too: if they are equal by chance, this is just no proof.
  std::ranges::sort(ranges, {}, &Range::begin);
  uint64_t end = 0, end_of_results = 0;
  for (const Range& range : ranges) {
    if (range.begin < (range.is_result ? end : end_of_results)) return false;
    end = std::max(end, range.end);
    if (range.is_result) end_of_results = std::max(end_of_results, range.end);
  }
  return true;
}

Status Function::check_shared(std::span<Tensor* const> arguments, std::span<Tensor* const> results, size_t index) const {
  const Tensor* const result = results[index];
  const bool is_in_place = in_place(arguments, results, index);
  for (size_t i = 0; i < arguments.size() + index; ++i) {
    const bool is_argument = i < arguments.size();
    const Tensor* const other = is_argument ? arguments[i] : results[i - arguments.size()];
    const bool is_same = other == result;
    if (!other || (is_same ? is_in_place : !other->overlaps(*result))) continue;
    return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "result '{}' is to be written to {} {} '{}'; pass another one, or none for a new tensor{} [HD-F-01]",
                 signature_.results[index].name, is_same ? "the tensor that is also" : "a tensor that overlaps",
                 is_argument ? "argument" : "result",
                 is_argument ? signature_.arguments[i].name : signature_.results[i - arguments.size()].name,
                 is_argument ? "; compile the model with --alias to update an input in place" : "");
  }
  return Status();
}

Status Function::take_arguments(std::span<Tensor* const> arguments, std::span<const uint32_t> donated, bool are_apart,
                                Invocation& call) const {
  for (size_t i = 0; i < donated.size(); ++i) {
    const uint32_t index = donated[i];
    if (index >= arguments.size()) {
      return error(HEDDLE_STATUS_OUT_OF_RANGE, "argument {} is to be donated, and it takes {} [HD-F-02]", index, arguments.size());
    }
    if (std::ranges::find(donated.first(i), index) != donated.begin() + static_cast<ptrdiff_t>(i)) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT, "input '{}' is donated twice; name it once [HD-F-02]", signature_.arguments[index].name);
    }
    for (size_t other = 0; other < arguments.size(); ++other) {
      if (other == index || (arguments[other] != arguments[index] && !arguments[other]->overlaps(*arguments[index]))) continue;
      return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                   "the tensor that is donated as input '{}' is also input '{}', or overlaps it; pass a copy to one of them, or do not "
                   "donate it [HD-F-02]",
                   signature_.arguments[index].name, signature_.arguments[other].name);
    }
  }
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    const bool is_donated = std::ranges::find(donated, i) != donated.end();
    if (!is_donated && are_apart && consumes_in_place(*arguments[i], i) && call.arguments()[i] == arguments[i]) continue;
    if (is_donated || signature_.arguments[i].is_consumed) HEDDLE_RETURN_IF_ERROR(take_argument(i, *arguments[i], is_donated, call));
  }
  return Status();
}

// The application's stream may still fill the argument, or use the target.
Status Function::copy_argument(Tensor& from, Tensor& to, Invocation& call) const {
  HEDDLE_RETURN_IF_ERROR(wait_here(from, call));
  HEDDLE_RETURN_IF_ERROR(wait_here(to, call));
  if (call.stream) HEDDLE_RETURN_IF_ERROR(call.stream->wait(&instance_));
  return memory::copy_contents(from, to);
}

Status Function::take_argument(uint32_t index, Tensor& given, bool is_donated, Invocation& call) const {
  const open::TensorSignature& expected = signature_.arguments[index];
  Tensor* const target = expected.alias >= 0 ? call.results()[static_cast<size_t>(expected.alias)] : nullptr;
  if (target == &given) return Status();  // in place, and still the caller's
  Ref<Tensor>& moved = call.make_replaced().moved[index];
  const bool is_copy = static_cast<bool>(moved);  // from another device
  Tensor* tensor = is_copy ? moved.get() : &given;
  if (is_donated) {
    std::string taker = "a call of '" + signature_.name + "' (input '" + expected.name + "')";
    Ref<Tensor> memory;
    call.replaced->taken.reserve(call.replaced->taken.size() + 1);  // before anything is taken: this may throw
    bool is_free = given.only_held_once();
    if (const Tensor::Producer filling = given.producer();
        filling.call && filling.host_signalled && filling.timeline->pending(filling.value)) {
      // A call in pieces looks for the memory of its results only when it begins, and would not find it.
      if (expected.is_consumed) {
        HEDDLE_RETURN_IF_ERROR(wait_here(given, call));
      } else {
        is_free = false;
      }
    }
    if (is_free) {
      memory = given.take(std::move(taker));
      if (!is_copy) moved = memory;
    } else {
      given.forbid(std::move(taker));
    }
    call.replaced->taken.emplace_back(Ref<Tensor>(&given), std::move(memory));
    if (!expected.is_consumed || (!is_free && !is_copy)) {
      instance_.host().log(
          HEDDLE_LOG_WARN, "submit",
          fmt::format("donating input '{}' of '{}' saved nothing: its {} bytes {}", expected.name, signature_.name, given.size_bytes(),
                      expected.is_consumed ? "are copied, since the tensor has other users"
                                           : "are not overwritten by the function, only freed after the call"));
    }
  }
  if (moved) tensor = moved.get();
  if (target) {
    if (!target->has_memory() || !same_type(*tensor, *target)) return Status();  // refused when results are prepared
    HEDDLE_RETURN_IF_ERROR(copy_argument(*tensor, *target, call));
    tensor = target;
  } else if (expected.is_consumed && !moved) {
    Result<Ref<Tensor>> copy =
        Tensor::create(tensor->device(), tensor->element_type(), {tensor->dims(), tensor->rank()}, tensor->size_bytes());
    if (!copy.ok()) {
      return wrap(copy.take_status(), fmt::format("allocating {} bytes for a copy of input '{}', which the function overwrites; donate the "
                                                  "tensor if its contents are not needed",
                                                  tensor->size_bytes(), expected.name));
    }
    HEDDLE_RETURN_IF_ERROR(copy_argument(*tensor, **copy, call));
    moved = std::move(*copy);
    tensor = moved.get();
  }
  call.arguments()[index] = tensor;
  return Status();
}

}  // namespace heddle::submit
