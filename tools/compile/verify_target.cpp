// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See verify_target.h. The child keeps a line of JSON with what it has found, and with the kernel that it is at.
#include "tools/compile/verify_target.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "heddle/runtime.h"
#include "tools/compile/reproducer.h"
#include "tools/heddle/comparison.h"
#include "tools/heddle/inputs.h"
#include "tools/heddle/made_up_inputs.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

// Extents of symbols: different ones, so that none is taken for another, and no multiples of what kernels are divided by.
constexpr int64_t kFirstExtent = 13;

// Exit code of a child that did not get to the last kernel.
constexpr int kGoOn = 77;

std::string taken(heddle_status_t* status) {
  std::string text(view(heddle_status_message(status)));
  heddle_status_free(status);
  return text;
}

// By the number of products that may have been added in another order, and the rounding of each. Integers are equal.
double tolerance_of(heddle_element_type_t type) {
  switch (type) {
    case HEDDLE_TYPE_F64:
      return 1e-9;
    case HEDDLE_TYPE_F32:
      return 1e-4;
    case HEDDLE_TYPE_F16:
      return 4e-3;
    case HEDDLE_TYPE_BF16:
      return 3e-2;
    default:
      return 0;
  }
}

class Session {
 public:
  std::string open(const std::string& module) {
    flags_.path = module;
    RuntimeFlags runtime;
    // What the code is compared with is interpreted, also where the driver has kernels of its own.
    runtime.settings = "interpreted = \"allow\"\n[[prefer]]\nop = \"*_portable\"\nuse = [\"interpreted\"]\n";
    if (heddle_status_t* failed = create_runtime(runtime, runtime_)) return taken(failed);
    if (heddle_status_t* failed = open_module(runtime_.get(), flags_, module_)) return taken(failed);
    if (heddle_status_t* failed = create_instance(module_.get(), flags_, {}, instance_)) return taken(failed);
    return {};
  }

  // An error text, or nothing. `like`, if not empty: the results of another call with the same arguments. Then this one writes its results over bytes that
  // are none of theirs, so that what it leaves out is not there from that call.
  std::string run(const std::string& function_name, const std::vector<HostTensor>& like, std::vector<HostTensor>& results) {
    Function function;
    if (heddle_status_t* failed = find_function(instance_.get(), function_name, function)) return taken(failed);
    MadeUpInputs made_up;
    std::vector<std::string> dims;
    int64_t extent = kFirstExtent;
    const Json report = function_report(module_.get(), function_name);
    for (const Json& symbol : array(report, "symbols")) dims.push_back(text(symbol, "name") + "=" + std::to_string(extent++));
    Wrong wrong = made_up.parse(dims);
    if (wrong.empty()) wrong = made_up.find_symbols(module_.get(), function_name);
    std::vector<HostTensor> values(function.arguments.size());
    for (size_t i = 0; wrong.empty() && i < values.size(); ++i) wrong = made_up.make(function, i, 1, values[i]);
    if (!wrong.empty()) return wrong;
    std::vector<Tensor> inputs;
    if (heddle_status_t* failed = upload_inputs(function, values, inputs)) return taken(failed);
    std::vector<heddle_tensor_t*> given, made(function.results.size());
    for (const Tensor& input : inputs) given.push_back(input.get());
    heddle_status_t* failed = nullptr;
    for (size_t i = 0; i < like.size() && !failed; ++i) failed = make_unwritten(function, i, like[i], &made[i]);
    if (!failed)
      failed =
          heddle_call(function.handle, given.data(), static_cast<uint32_t>(given.size()), made.data(), static_cast<uint32_t>(made.size()));
    std::vector<Tensor> owned;
    for (heddle_tensor_t* one : made) owned.emplace_back(one);
    if (failed) return taken(failed);
    for (const Tensor& one : owned) {
      if (heddle_status_t* unread = read_tensor(one.get(), results.emplace_back())) return taken(unread);
    }
    return {};
  }

  // Of the kernel's executable, which has the family before its name.
  size_t entries_of(const std::string& kernel) {
    heddle_text_t* raw = nullptr;
    if (heddle_status_t* failed = heddle_module_report(module_.get(), &raw)) {
      heddle_status_free(failed);
      return 0;
    }
    const Json report = parse_json(text_of(Text(raw)));
    for (const Json& executable : array(report, "executables")) {
      if (text(executable, "name").ends_with("." + kernel)) return array(executable, "entries").size();
    }
    return 0;
  }

  // How many dispatches of portable code the devices have interpreted so far, of those that count them.
  uint64_t interpreted() {
    heddle_text_t* raw = nullptr;
    if (heddle_status_t* failed = heddle_instance_report(instance_.get(), view(std::string_view("statistics")), &raw)) {
      heddle_status_free(failed);
      return 0;
    }
    const Json report = parse_json(text_of(Text(raw)));
    uint64_t sum = 0;
    for (const Json& device : array(report, "devices")) sum += number(part(device, "driver_counts"), "interpreted");
    return sum;
  }

  bool has(const std::string& function_name) {
    Function function;
    heddle_status_t* absent = find_function(instance_.get(), function_name, function);
    if (absent) heddle_status_free(absent);
    return !absent;
  }

 private:
  // Floats that are not numbers, integers of -1.
  static heddle_status_t* make_unwritten(const Function& function, size_t result, const HostTensor& like, heddle_tensor_t** out) {
    heddle_tensor_type_t type = {};
    type.struct_size = sizeof type;
    if (heddle_status_t* failed = heddle_function_result(function.handle, static_cast<uint32_t>(result), &type)) return failed;
    const std::vector<std::byte> unwritten(like.bytes.size(), std::byte{0xff});
    return heddle_tensor_create(type.device, like.shape.element_type, like.shape.dims.data(), static_cast<uint32_t>(like.shape.dims.size()),
                                unwritten.data(), unwritten.size(), out);
  }

  ModuleFlags flags_;
  Runtime runtime_;
  Module module_;
  Instance instance_;
};

// Why the results are not those of portable code; empty: they are.
std::string compare_results(const std::vector<HostTensor>& got, const std::vector<HostTensor>& expected) {
  for (size_t i = 0; i < got.size(); ++i) {
    const double rtol = tolerance_of(expected[i].shape.element_type);
    HostTensor zero = expected[i];
    std::fill(zero.bytes.begin(), zero.bytes.end(), std::byte{});
    const double largest = compare(expected[i], zero, 0, 0).largest;
    const Comparison compared = compare(got[i], expected[i], rtol, std::isfinite(largest) ? rtol * largest : 0);
    if (!compared.equal) return "result " + std::to_string(i) + " differs from that of portable code: " + compared.explanation;
  }
  return {};
}

// In the child: kernels from `next` on. Keeps what was found after each, and the number of the kernel that comes next.
int compare_all(const std::string& module, const std::vector<std::string>& kernels, size_t next, unsigned seconds,
                const std::function<void(const std::string&)>& keep) {
  Json found{{"next", next}, {"compared", 0}, {"wrong", Json::array()}, {"skipped", Json::array()}, {"failure", ""}, {"portable", false},
             {"failed", 0},  {"entries", 0},  {"unreached", 0}};
  signal(SIGALRM, SIG_DFL);
  Session session;
  found["failure"] = session.open(module);
  keep(dump_json(found, -1));
  if (found["failure"] != "") return 1;
  size_t compared = 0, entries = 0, unreached = 0;
  for (; next < kernels.size(); ++next) {
    if (!session.has(kernels[next])) continue;
    // A call that does not return ends the process: the device may be in any state then.
    auto limited = [&](const std::string& function, bool is_portable, const std::vector<HostTensor>& like,
                       std::vector<HostTensor>& results) {
      found["next"] = next;
      found["portable"] = is_portable;
      keep(dump_json(found, -1));
      alarm(seconds);
      const std::string wrong = session.run(function, like, results);
      alarm(0);
      return wrong;
    };
    auto note = [&](const char* list, const std::string& reason) {
      found[list].push_back(Json{{"kernel", kernels[next]}, {"reason", reason.substr(0, found[list].size() < 32 ? 500 : 0)}});
    };
    std::vector<HostTensor> got, expected;
    const std::string skipped = limited(kernels[next] + "_portable", true, {}, expected);
    const uint64_t before = session.interpreted();
    const std::string failed = skipped.empty() ? limited(kernels[next], false, expected, got) : "";
    if (!skipped.empty()) note("skipped", skipped);
    if (!failed.empty()) {
      note("wrong", failed);
      found["failed"] = 1;  // the last one of this process
    }
    if (skipped.empty()) {
      // The call took one entry, or none, and then portable code.
      const size_t all = session.entries_of(kernels[next]);
      found["compared"] = ++compared;
      found["entries"] = entries += all;
      found["unreached"] = unreached += all - (all > 0 && session.interpreted() == before);
    }
    if (!skipped.empty() || !failed.empty()) {  // the device may be lost
      found["next"] = next + 1;
      keep(dump_json(found, -1));
      return kGoOn;
    }
    if (const std::string wrong = compare_results(got, expected); !wrong.empty()) note("wrong", wrong);
  }
  found["next"] = next;
  keep(dump_json(found, -1));
  return 0;
}

}  // namespace

Verified verify_target(const std::string& module, const std::vector<std::string>& kernels, unsigned seconds) {
  Verified verified;
  size_t next = 0;
  // After a kernel that ends its process, the next ones get another.
  while (next < kernels.size() && verified.failure.empty()) {
    std::string kept;
    const ChildEnd end = run_in_child([&](const auto& keep) { return compare_all(module, kernels, next, seconds, keep); }, kept);
    const Json found = parse_json(kept);
    if (!end.wrong.empty() || end.interrupted || !found.is_object()) {
      verified.failure = !end.wrong.empty() ? end.wrong : "the process that compares them ended with " + std::to_string(end.code);
      break;
    }
    verified.compared += number(found, "compared");
    verified.entries += number(found, "entries");
    verified.unreached += number(found, "unreached");
    for (const Json& one : array(found, "skipped")) verified.skipped.push_back({text(one, "kernel"), text(one, "reason")});
    for (const Json& one : array(found, "wrong")) verified.wrong.push_back({text(one, "kernel"), text(one, "reason")});
    verified.failed += number(found, "failed");
    verified.failure = found.value("failure", std::string());
    verified.has_no_device = !verified.failure.empty();
    next = number(found, "next");
    if (end.code == 0 || next >= kernels.size() || !verified.failure.empty()) break;
    if (end.code == kGoOn) continue;
    if (end.signal == SIGALRM) {
      const std::string late = "it did not end within " + std::to_string(seconds) + " s (--target-seconds)";
      const bool is_portable = found.value("portable", false);
      (is_portable ? verified.skipped : verified.wrong).push_back({kernels[next++], late});
      if (!is_portable) ++verified.failed;
      continue;
    }
    const std::string how = end.signal != 0 ? std::string("signal ") + strsignal(end.signal) : "exit code " + std::to_string(end.code);
    verified.wrong.push_back({kernels[next++], "running it ended the process, with " + how});
    ++verified.failed;
  }
  return verified;
}

}  // namespace heddle::tool
