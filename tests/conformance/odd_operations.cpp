// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver that runs operations, made wrong from outside: every call goes to the driver whose library ODD_OPERATIONS_OVER names, and operations
// come to it wrapped, as ODD_OPERATIONS says.
#include <xmmintrin.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <vector>

#include "heddle/ext/library.h"
#include "odd_over.h"

namespace heddle::odd {
namespace {

using Driver = Over<heddle_dispatch_interface_t>;

constexpr char kVariable[] = "ODD_OPERATIONS";
const Change kMutations[] = {
    {"shards_run_twice"}, {"runs_operations_first"}, {"swallows_failures"}, {"takes_any_target"}, {"flushes_denormals"},
};
bool chosen(std::string_view name) {
  return is_named(kVariable, name);
}

struct Wrapped {
  const heddle_library_interface_t* library;
  heddle_operation_t* operation;
};
std::mutex mutex;
std::deque<Wrapped> wrapped;  // for the life of the process, as a plugin's code
std::set<heddle_executable_t*> operations;
std::set<heddle_entry_t*> entries;  // of operations

Status enqueue(heddle_operation_t* handle, const heddle_operation_call_t* call) noexcept {
  const Wrapped& to = *reinterpret_cast<Wrapped*>(handle);
  const unsigned state = _mm_getcsr();
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
  if (chosen("flushes_denormals")) _mm_setcsr(state | kFlushToZero | kDenormalsAreZero);
  Status status = to.library->enqueue(to.operation, call);
  if (!status && chosen("shards_run_twice")) status = to.library->enqueue(to.operation, call);
  _mm_setcsr(state);
  if (!status || !chosen("swallows_failures")) return status;
  Driver::host->status_free(Driver::host->self, status);
  return nullptr;
}

Status operation_load(heddle_device_t* device, const heddle_operation_params_t* in, heddle_executable_t** out) noexcept {
  static const heddle_library_interface_t library = {sizeof library, 0, nullptr, nullptr, nullptr, enqueue};
  heddle_operation_params_t params = *in;
  std::lock_guard<std::mutex> lock(mutex);
  wrapped.push_back({in->library, in->operation});
  params.library = &library;
  params.operation = reinterpret_cast<heddle_operation_t*>(&wrapped.back());
  if (chosen("takes_any_target")) params.target = sdk::string_of(HEDDLE_LIBRARY_TARGET_HOST);
  Status status = Driver::good.operation_load(device, &params, out);
  if (!status) operations.insert(*out);
  return status;
}

Status entry(heddle_executable_t* executable, uint32_t index, heddle_entry_t** out) noexcept {
  Status status = Driver::good.entry(executable, index, out);
  std::lock_guard<std::mutex> lock(mutex);
  if (!status && operations.count(executable)) entries.insert(*out);
  return status;
}

Status submit(heddle_queue_t* queue, const heddle_submission_t* in) noexcept {
  if (!chosen("runs_operations_first") || !in->commands) return Driver::good.submit(queue, in);
  std::vector<heddle_command_t> commands(in->commands, in->commands + in->command_count);
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::stable_partition(commands.begin(), commands.end(), [](const heddle_command_t& command) {
      return command.kind == HEDDLE_COMMAND_DISPATCH && entries.count(command.as.dispatch.entry);
    });
  }
  heddle_submission_t other = *in;
  other.commands = commands.data();
  return Driver::good.submit(queue, &other);
}

void change(heddle_dispatch_interface_t* odd) {
  odd->operation_load = operation_load;
  odd->entry = entry;
  odd->submit = submit;
}

}  // namespace
}  // namespace heddle::odd

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin =
      odd::Driver::plugin(HEDDLE_PLUGIN_DRIVER, "test.odd_operations", "ODD_OPERATIONS_OVER", HEDDLE_DISPATCH_INTERFACE, odd::change);
  odd::expect_known(odd::kVariable, odd::kMutations);
  return sdk::negotiate(negotiation, "test.odd_operations", &plugin);
}
