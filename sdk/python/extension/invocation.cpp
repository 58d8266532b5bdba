// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call from its arguments to its results: heddle_call_start and heddle_call_wait without the GIL. A call with small arrays of the shapes of an
// earlier one allocates nothing but the Python objects of its results.
#include "invocation.h"

#include <algorithm>
#include <ctime>

#include "calls_at_load.h"

namespace heddle::python {

uint64_t deadline_after(double seconds) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double ns = static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec) + seconds * 1e9;
  return ns < 1 ? 1 : ns > 9e18 ? 0 : static_cast<uint64_t>(ns);
}

Frame::~Frame() {
  end_call();
  drop_kept();
}

void Frame::end_call() {
  if (!process.is_this()) return;
  for (heddle_tensor_t* one : temporary) release_tensor(one);
  temporary.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] && !given[i]) release_tensor(results[i]);
    results[i] = nullptr;
    given[i] = 0;
  }
}

void Frame::drop_kept() {
  if (!process.is_this()) return;
  for (heddle_tensor_t*& one : kept) {
    if (one) release_tensor(one);
    one = nullptr;
  }
}

Invocation::Invocation(Function& called) : function(called) {
  function.session->check_open("calling a function");
  ++function.session->calls;
  if (!function.frames.empty()) {
    frame = std::move(function.frames.back());
    function.frames.pop_back();
    return;
  }
  frame = std::make_unique<Frame>();
  frame->objects.resize(function.arguments.size());
  frame->arguments.resize(function.arguments.size());
  frame->kept.resize(function.arguments.size());
  frame->results.resize(function.results.size());
  frame->given.resize(function.results.size());
}

Invocation::~Invocation() {
  give_back_donated();
  if (frame) {
    frame->end_call();
    if (abandoned) frame->drop_kept();
    if (!function.session->closed && function.frames.size() < 64) function.frames.push_back(std::move(frame));
  }
  frame.reset();
  Session& session = *function.session;
  if (--session.calls == 0 && session.closed) session.release();
}

void Invocation::refuse(const std::string& why, const char* code) const {
  raise(code, "heddle: calling '" + function.name + "' failed: " + why);
}

const heddle_call_params_t* Invocation::call_params() {
  if (function.uses_cuda && (is_ordered || cuda_is_shared)) {
    params.struct_size = sizeof(params);
    params.flags |= HEDDLE_CALL_NATIVE_STREAM;
    params.native_stream = stream.native;
  }
  if (!donated.empty()) {
    params.struct_size = sizeof(params);
    params.donated_arguments = donated.data();
    params.donated_argument_count = static_cast<uint32_t>(donated.size());
  }
  return params.struct_size ? &params : nullptr;
}

heddle_call_t* Invocation::start() {
  heddle_call_t* call = nullptr;
  const heddle_call_params_t* given = call_params();
  check_without_gil([&] {
    return heddle_call_start(function.handle, given, frame->arguments.data(), static_cast<uint32_t>(frame->arguments.size()),
                             frame->results.data(), static_cast<uint32_t>(frame->results.size()), &call);
  });
  give_back_donated();
  share_tensors();
  return call;
}

std::shared_ptr<CallAtLoad> Invocation::start_at_load() {
  Session& session = *function.session;
  if (!session.is_loading && !session.calls_at_load) [[likely]]
    return nullptr;
  const bool is_loaded = !session.is_loading || session.wait_until_loaded(0);
  session.check_open("calling a function");
  if (is_loaded && !(session.calls_at_load && session.calls_at_load->is_busy())) return nullptr;
  if (!session.calls_at_load) session.calls_at_load = std::make_shared<CallsAtLoad>(session.instance, session.path);
  if (!taken.empty()) {
    const auto text =
        std::make_shared<const std::string>("a call of '" + function.name + "', which begins when the parameters of its module are loaded");
    for (const Taken& one : taken) nb::inst_ptr<Tensor>(one.tensor)->donated_to = text;
  }
  share_tensors();
  return session.calls_at_load->add(*this, call_params());
}

void Invocation::wait_until_loaded() {
  Session& session = *function.session;
  if (!session.is_loading && !session.calls_at_load) [[likely]]
    return;
  auto left_ns = [&]() -> uint64_t {
    return params.deadline_ns == 0 ? HEDDLE_TIMEOUT_INFINITE : params.deadline_ns - std::min(params.deadline_ns, deadline_after(0));
  };
  bool is_loaded = !session.is_loading || session.wait_until_loaded(left_ns());
  const std::shared_ptr<CallsAtLoad> before = session.calls_at_load;
  while (is_loaded && before && before->is_busy()) {  // calls that were started earlier
    {
      GilReleased released;
      before->is_busy_after(std::min(left_ns(), kSliceNs));
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    is_loaded = left_ns() != 0;
  }
  if (!is_loaded) {
    refuse("the parameters of '" + session.path + "' are still being loaded after its timeout; wait for them with wait() of the module",
           "DEADLINE_EXCEEDED");
  }
  session.check_open("calling a function");
}

void Invocation::run() {
  wait_until_loaded();
  heddle_call_t* call = nullptr;
  const heddle_call_params_t* given = call_params();
  heddle_status_t* status;
  bool over;
  auto wait = [&] {
    status = heddle_call_wait(call, kSliceNs);
    over = heddle_status_code(status) != HEDDLE_STATUS_DEADLINE_EXCEEDED || heddle_status_payload(status, c_string("deadline")).size != 0;
    if (over) heddle_call_release(call);
  };
  {
    GilReleased released;
    status = heddle_call_start(function.handle, given, frame->arguments.data(), static_cast<uint32_t>(frame->arguments.size()),
                               frame->results.data(), static_cast<uint32_t>(frame->results.size()), &call);
    over = status != nullptr;
    if (!over) wait();
  }
  while (!over) {
    heddle_status_free(status);
    if (PyErr_CheckSignals() != 0) {
      abandon(call);
      throw nb::python_error();
    }
    GilReleased released;
    wait();
  }
  deliver_log();
  if (status) [[unlikely]] {
    discard_results();
    raise(status);
  }
}

PyObject* Invocation::enqueue() {
  bool all_given = copied_results.empty() && is_ordered && out.is_valid();
  for (size_t i = 0; all_given && i < frame->results.size(); ++i) all_given = frame->given[i] && function.results[i].on_cuda;
  if (!all_given)
    refuse("wait=False needs out= with an array on the device for every result (" + names_of(function.results) + ")", "INVALID_ARGUMENT");
  wait_until_loaded();
  heddle_call_t* call = nullptr;
  const heddle_call_params_t* given = call_params();
  heddle_status_t* status;
  bool runs = false;
  {
    GilReleased released;
    status = heddle_call_start(function.handle, given, frame->arguments.data(), static_cast<uint32_t>(frame->arguments.size()),
                               frame->results.data(), static_cast<uint32_t>(frame->results.size()), &call);
    if (!status) {
      status = heddle_call_wait(call, 0);  // calls that check indices are over
      runs = heddle_status_code(status) == HEDDLE_STATUS_DEADLINE_EXCEEDED && heddle_status_payload(status, c_string("deadline")).size == 0;
      heddle_call_release(call);
    }
  }
  deliver_log();
  if (runs) {
    heddle_status_free(status);
    abandoned = function.session->dropped_calls = true;
    share_tensors();
  } else if (status) {
    discard_results();
    raise(status);
  }
  return results();
}

void Invocation::abandon(heddle_call_t* call) {
  abandoned = function.session->dropped_calls = true;
  heddle_call_cancel(call);
  heddle_call_release(call);
  share_tensors();
  deliver_log_later();
}

void Invocation::share_tensors() {
  for (PyObject* object : frame->objects) {
    if (Tensor* tensor = as_tensor(object)) tensor->shared = true;
  }
  discard_results();
}

void Invocation::discard_results() {
  for (size_t i = 0; out.is_valid() && i < frame->results.size(); ++i) {
    PyObject* object = given_result(i);
    if (Tensor* tensor = object ? as_tensor(object) : nullptr) tensor->shared = true;
  }
}

}  // namespace heddle::python
