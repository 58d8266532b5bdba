// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that is the template but for the rule that the environment variable ODD_LIBRARY names, which it breaks.
#include <fenv.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "heddle/ext/library.h"
#include "heddle/sdk/negotiate.h"
#include "odd_names.h"

// The template's entry, renamed by the build.
extern "C" const heddle_plugin_t* heddle_template_entry(heddle_negotiation_t* negotiation);

namespace heddle::odd {
namespace {

using Status = heddle_status_t*;

const heddle_plugin_t* template_table() {
  heddle_negotiation_t record = {};
  record.struct_size = sizeof record;
  record.host_min_minor = record.host_max_minor = HEDDLE_ABI_MINOR;
  return heddle_template_entry(&record);
}

constexpr char kVariable[] = "ODD_LIBRARY";
bool chosen(std::string_view name) {
  return is_named(kVariable, name);
}

const heddle_host_t* host = nullptr;
heddle_library_interface_t good, odd;

// What fails becomes a success.
Status swallow(Status status, heddle_status_code_t code) {
  if (!status || host->status_code(host->self, status) != code) return status;
  host->status_free(host->self, status);
  return nullptr;
}

// With what a newer host has behind what is known here.
using Copy = std::vector<uint64_t>;
Copy copy_of(const void* from, uint64_t bytes, uint64_t least = 0) {
  Copy copy((std::max(bytes, least) + 7) / 8);
  if (bytes) std::memcpy(copy.data(), from, bytes);
  return copy;
}
template <class T>
T* in_copy(Copy& copy, uint64_t bytes_before = 0) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(copy.data()) + bytes_before);
}

// Changes a request before anybody looks at it, for query and prepare.
template <auto change>
void change_requests() {
  odd.query = [](heddle_plugin_instance_t* instance, const heddle_operation_request_t* in,
                 heddle_operation_properties_t* out) noexcept -> Status {
    Copy request = copy_of(in, in->struct_size, sizeof *in);
    change(in_copy<heddle_operation_request_t>(request));
    return good.query(instance, in_copy<heddle_operation_request_t>(request), out);
  };
  odd.prepare = [](heddle_plugin_instance_t* instance, const heddle_operation_request_t* in, heddle_operation_t** out) noexcept -> Status {
    Copy request = copy_of(in, in->struct_size, sizeof *in);
    change(in_copy<heddle_operation_request_t>(request));
    return good.prepare(instance, in_copy<heddle_operation_request_t>(request), out);
  };
}

template <auto change>
void change_properties() {
  odd.query = [](heddle_plugin_instance_t* instance, const heddle_operation_request_t* in,
                 heddle_operation_properties_t* out) noexcept -> Status {
    Status status = good.query(instance, in, out);
    if (!status) change(out);
    return status;
  };
}

// Does something around a run.
template <auto before, auto after>
void change_runs() {
  odd.enqueue = [](heddle_operation_t* operation, const heddle_operation_call_t* call) noexcept -> Status {
    before(call);
    Status status = good.enqueue(operation, call);
    after(call);
    return status;
  };
}

constexpr auto nothing = [](const heddle_operation_call_t*) {};
char* last_operand(const heddle_operation_call_t* call) {
  return static_cast<char*>(call->operands[call->operand_count - 1]);
}
uint64_t last_bytes(const heddle_operation_call_t* call) {
  return call->operand_bytes[call->operand_count - 1];
}

// Changes what a request says of its last operand, by its first.
template <auto change>
void change_results() {
  change_requests<[](heddle_operation_request_t* request) {
    static thread_local Copy operands;
    const uint64_t count = request->input_count + request->output_count, stride = request->operand_stride;
    if (!count) return;
    operands = copy_of(request->operands, count * stride);
    change(in_copy<heddle_operand_t>(operands), in_copy<heddle_operand_t>(operands, (count - 1) * stride));
    request->operands = in_copy<heddle_operand_t>(operands);
  }>();
}

template <auto change>
void change_attributes() {
  change_requests<[](heddle_operation_request_t* request) {
    static thread_local Copy attributes;
    const uint64_t stride = request->attribute_stride;
    attributes = copy_of(request->attributes, request->attribute_count * stride);
    for (uint32_t i = 0; i < request->attribute_count; ++i) change(in_copy<heddle_attribute_t>(attributes, i * stride));
    request->attributes = in_copy<heddle_attribute_t>(attributes);
  }>();
}

std::atomic<uint32_t> counter{0};
heddle_operation_t* newest = nullptr;
std::mutex mutex;
std::vector<char> kept;

struct Change {
  const char* name;
  void (*apply)();
};
const Change kMutations[] = {
    {"shuts_down_with_operations", [] {}},  // in shutdown
    {"takes_any_operator", [] { change_requests<[](heddle_operation_request_t* request) { request->domain = {"org.example", 11}; }>(); }},
    {"takes_any_target", [] { change_requests<[](heddle_operation_request_t* request) { request->target = {"host/1", 6}; }>(); }},
    {"guesses", [] { change_requests<[](heddle_operation_request_t* request) { request->attribute_count = 0; }>(); }},
    {"takes_ints_for_floats",
     [] {
       change_attributes<[](heddle_attribute_t* attribute) {
         static thread_local double value;
         if (sdk::view_of(attribute->name) != "epsilon" || attribute->kind != HEDDLE_ATTRIBUTE_INT) return;
         value = static_cast<double>(attribute->ints[0]);
         attribute->kind = HEDDLE_ATTRIBUTE_FLOAT;
         attribute->floats = &value;
       }>();
     }},
    {"has_defaults_for_what_it_cannot_read",
     [] {
       change_attributes<[](heddle_attribute_t* attribute) {
         static const double fallback = 1e-5;
         if (sdk::view_of(attribute->name) != "epsilon" || attribute->kind == HEDDLE_ATTRIBUTE_FLOAT) return;
         attribute->kind = HEDDLE_ATTRIBUTE_FLOAT;
         attribute->floats = &fallback;
       }>();
     }},
    {"workspace_on_3", [] { change_properties<[](heddle_operation_properties_t* out) { out->workspace_alignment_bytes = 3; }>(); }},
    {"changes_its_mind", [] { change_properties<[](heddle_operation_properties_t* out) { out->cost_ns = ++counter; }>(); }},
    {"overwrites_properties",
     [] { change_properties<[](heddle_operation_properties_t* out) { reinterpret_cast<char*>(out)[sizeof *out - 1] = 1; }>(); }},
    {"ignores_tails", [] { change_requests<[](heddle_operation_request_t* request) { request->struct_size = sizeof *request; }>(); }},
    {"counts_in_results",
     [] {
       change_runs<nothing, [](const heddle_operation_call_t* call) {
         if (last_bytes(call)) *last_operand(call) = static_cast<char>(++counter);
       }>();
     }},
    {"writes_inputs",
     [] {
       change_runs<nothing, [](const heddle_operation_call_t* call) {
         if (call->operand_bytes[0]) ++*static_cast<char*>(call->operands[0]);
       }>();
     }},
    {"writes_beyond", [] { change_runs<nothing, [](const heddle_operation_call_t* call) { ++last_operand(call)[last_bytes(call)]; }>(); }},
    {"skips_the_end",
     [] {
       odd.enqueue = [](heddle_operation_t* operation, const heddle_operation_call_t* call) noexcept -> Status {
         const uint64_t bytes = last_bytes(call);
         const char before = bytes ? last_operand(call)[bytes - 1] : 0;
         Status status = good.enqueue(operation, call);
         if (bytes) last_operand(call)[bytes - 1] = before;
         return status;
       };
     }},
    {"needs_the_first_shard",
     [] {
       odd.enqueue = [](heddle_operation_t* operation, const heddle_operation_call_t* call) noexcept -> Status {
         return call->first_shard == 0 ? good.enqueue(operation, call) : nullptr;
       };
     }},
    {"one_call_at_a_time",
     [] {  // between the two halves another call may come
       change_runs<[](const heddle_operation_call_t* call) {
         {
           std::lock_guard<std::mutex> lock(mutex);
           kept.assign(static_cast<char*>(call->operands[0]), static_cast<char*>(call->operands[0]) + call->operand_bytes[0]);
         }
         std::this_thread::sleep_for(std::chrono::microseconds(200));
       },
                   [](const heddle_operation_call_t* call) {
                     std::lock_guard<std::mutex> lock(mutex);
                     const size_t bytes = std::min<size_t>(kept.size(), call->operand_bytes[0]);
                     if (bytes && std::memcmp(kept.data(), call->operands[0], bytes) != 0) ++*last_operand(call);
                   }>();
     }},
    {"takes_memory",
     [] {
       change_runs<nothing,
                   [](const heddle_operation_call_t*) { host->memory_free(host->self, host->memory_allocate(host->self, 64, 8)); }>();
     }},
    {"clobbers_rounding", [] { change_runs<nothing, [](const heddle_operation_call_t*) { fesetround(FE_UPWARD); }>(); }},
    {"exhaustion_is_internal",
     [] {
       odd.prepare = [](heddle_plugin_instance_t* instance, const heddle_operation_request_t* in,
                        heddle_operation_t** out) noexcept -> Status {
         Status status = good.prepare(instance, in, out);
         if (!status) return nullptr;
         host->status_free(host->self, status);
         return host->status_create(host->self, HEDDLE_STATUS_INTERNAL, {nullptr, 0}, 0, {"odd", 3});
       };
     }},
    {"attributes_of_the_newest",
     [] {
       odd.prepare = [](heddle_plugin_instance_t* instance, const heddle_operation_request_t* in,
                        heddle_operation_t** out) noexcept -> Status {
         Status status = good.prepare(instance, in, out);
         if (!status) newest = *out;
         return status;
       };
       odd.enqueue = [](heddle_operation_t* operation, const heddle_operation_call_t* call) noexcept -> Status {
         return good.enqueue(newest ? newest : operation, call);
       };
       odd.destroy = [](heddle_operation_t* operation) noexcept {
         if (operation == newest) newest = nullptr;
         good.destroy(operation);
       };
     }},
    {"results_of_any_extents",
     [] { change_results<[](const heddle_operand_t* x, heddle_operand_t* y) { y->rank = x->rank, y->dims = x->dims; }>(); }},
    {"results_of_any_type",
     [] { change_results<[](const heddle_operand_t* x, heddle_operand_t* y) { y->element_type = x->element_type; }>(); }},
    {"gives_more_results",
     [] { change_requests<[](heddle_operation_request_t* request) { request->output_count = std::min(request->output_count, 1u); }>(); }},
    {"ignores_attribute_strides",
     [] { change_requests<[](heddle_operation_request_t* request) { request->attribute_stride = sizeof(heddle_attribute_t); }>(); }},
    {"leaves_prepared_tables",
     [] {
       odd.destroy = [](heddle_operation_t* operation) noexcept {
         static std::atomic<char*> last{nullptr};
         last = new char[4096];
         std::memset(last, 1, 4096);
         good.destroy(operation);
       };
     }},
    {"leaves_its_output",
     [] {
       odd.prepare = [](heddle_plugin_instance_t* instance, const heddle_operation_request_t* in,
                        heddle_operation_t** out) noexcept -> Status {
         heddle_operation_t* made = nullptr;
         Status status = good.prepare(instance, in, &made);
         if (!status) *out = made;
         return status;
       };
     }},
    {"works_in_children",
     [] {
       odd.enqueue = [](heddle_operation_t* operation, const heddle_operation_call_t* call) noexcept -> Status {
         return swallow(good.enqueue(operation, call), HEDDLE_STATUS_FAILED_PRECONDITION);
       };
     }},
    {"destroys_null",
     [] {
       odd.destroy = [](heddle_operation_t* operation) noexcept {
         volatile char first = *reinterpret_cast<char*>(operation);
         (void)first;
         good.destroy(operation);
       };
     }},
};

Status create(const heddle_host_t* from, heddle_plugin_instance_t** out) noexcept {
  host = from;
  return template_table()->create(from, out);
}

Status shutdown(heddle_plugin_instance_t* instance) noexcept {
  Status status = template_table()->shutdown(instance);
  return chosen("shuts_down_with_operations") ? swallow(status, HEDDLE_STATUS_FAILED_PRECONDITION) : status;
}

const void* get_interface(heddle_plugin_instance_t* instance, heddle_string_t id) noexcept {
  const void* table = template_table()->get_interface(instance, id);
  if (!table) return nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  std::memcpy(&good, table, sizeof good);
  odd = good;
  for (const Change& change : kMutations) {
    if (chosen(change.name)) change.apply();
  }
  return &odd;
}

}  // namespace
}  // namespace heddle::odd

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin = {
      sizeof(heddle_plugin_t), HEDDLE_PLUGIN_LIBRARY, {"test.odd_library", 16}, {"0.1.0", 5}, nullptr, odd::create,
      odd::shutdown,           odd::get_interface};
  odd::expect_known(odd::kVariable, odd::kMutations);
  return sdk::negotiate(negotiation, "test.odd_library", &plugin, 2);
}
