// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allocator that is the template but for the rule that the environment variable ODD_ALLOCATOR names, which it breaks.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "heddle/allocator.h"
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
  record.host_min_minor = HEDDLE_ABI_MIN_MINOR;
  record.host_max_minor = HEDDLE_ABI_MINOR;
  return heddle_template_entry(&record);
}

constexpr char kVariable[] = "ODD_ALLOCATOR";
bool chosen(std::string_view name) {
  return is_named(kVariable, name);
}

const heddle_host_t* host = nullptr;
heddle_allocator_interface_t good, odd;
std::mutex mutex;
uint64_t made = 0;

Status refuse(heddle_status_code_t code, const char* text) {
  return host->status_create(host->self, code, {nullptr, 0}, 0, sdk::string_of(text));
}

// Changes a block that was given out.
template <auto change>
void change_blocks() {
  odd.allocate = [](heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* waits,
                    uint32_t* count) noexcept -> Status {
    Status status = good.allocate(allocator, params, out, waits, count);
    if (!status) change(params, out, count);
    return status;
  };
}

template <auto change>
void change_params() {
  odd.allocate = [](heddle_allocator_t* allocator, const heddle_block_params_t* in, heddle_block_t* out, heddle_point_t* waits,
                    uint32_t* count) noexcept -> Status {
    heddle_block_params_t params;
    std::memset(&params, 0, sizeof params);
    std::memcpy(&params, in, std::min<size_t>(in->struct_size, sizeof params));
    change(in, &params);
    return good.allocate(allocator, &params, out, waits, count);
  };
}

template <auto change>
void change_statistics() {
  odd.statistics = [](heddle_allocator_t* allocator, heddle_allocator_statistics_t* out) noexcept -> Status {
    Status status = good.statistics(allocator, out);
    change(out);
    return status;
  };
}

struct Change {
  const char* name;
  void (*apply)();
};
const Change kMutations[] = {
    {"shuts_down_with_allocators", [] {}},  // in shutdown
    {"blocks_overlap",
     [] {
       change_blocks<[](const heddle_block_params_t* params, heddle_block_t* out, uint32_t*) {
         if (params->alignment_bytes <= 64 && ++made % 16 == 0 && out->offset >= 64) out->offset -= 64;
       }>();
     }},
    {"large_sizes_wrap",
     [] { change_params<[](const heddle_block_params_t*, heddle_block_params_t* params) { params->size_bytes &= UINT32_MAX; }>(); }},
    {"buffers_of_any_alignment",
     [] {
       change_params<[](const heddle_block_params_t*, heddle_block_params_t* params) {
         if (!(params->alignment_bytes & (params->alignment_bytes - 1)))
           params->alignment_bytes = std::min<uint64_t>(params->alignment_bytes, 64);
       }>();
     }},
    {"keeps_buffers", [] { odd.destroy = [](heddle_allocator_t*) noexcept -> Status { return nullptr; }; }},
    {"destroys_with_blocks",
     [] {
       odd.destroy = [](heddle_allocator_t* allocator) noexcept -> Status {
         Status status = good.destroy(allocator);
         if (!status) return nullptr;
         host->status_free(host->self, status);
         return nullptr;
       };
     }},
    {"destroys_null",
     [] {
       odd.destroy = [](heddle_allocator_t* allocator) noexcept -> Status {
         volatile char first = *reinterpret_cast<char*>(allocator);
         (void)first;
         return good.destroy(allocator);
       };
     }},
    {"gives_out_what_it_refuses",
     [] {
       odd.allocate = [](heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* waits,
                         uint32_t* count) noexcept -> Status {
         heddle_block_t block = {};
         Status status = good.allocate(allocator, params, &block, waits, count);
         if (!status) *out = block;
         return status;
       };
     }},
    {"needs_no_provider",
     [] {
       odd.create = [](heddle_plugin_instance_t* instance, const heddle_allocator_params_t* in,
                       heddle_allocator_t** out) noexcept -> Status {
         static heddle_provider_t none = {};
         none.struct_size = sizeof none;
         none.reached = [](void*, heddle_point_t) noexcept -> uint32_t { return 1; };
         heddle_allocator_params_t params = *in;
         if (!params.provider) params.provider = &none;
         return good.create(instance, &params, out);
       };
     }},
    {"never_waits",
     [] {
       odd.free = [](heddle_allocator_t* allocator, const heddle_block_t* block, const heddle_point_t*, uint32_t) noexcept {
         good.free(allocator, block, nullptr, 0);
       };
     }},
    {"waits_for_the_first_point",
     [] {
       odd.free = [](heddle_allocator_t* allocator, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) noexcept {
         good.free(allocator, block, points, std::min(count, 1u));
       };
     }},
    {"counts_nothing", [] { change_statistics<[](heddle_allocator_statistics_t* out) { out->requested = out->allocated = {}; }>(); }},
    {"forgets_peaks",
     [] { change_statistics<[](heddle_allocator_statistics_t* out) { out->allocated.peak = out->allocated.current; }>(); }},
    {"never_trims", [] { odd.trim = [](heddle_allocator_t*, uint64_t) noexcept -> Status { return nullptr; }; }},
    {"never_tries_again",
     [] {
       odd.create = [](heddle_plugin_instance_t* instance, const heddle_allocator_params_t* in,
                       heddle_allocator_t** out) noexcept -> Status {
         // The provider gives nothing larger than 16 MiB back and forth: a pool that keeps small buffers never has room for a large one.
         heddle_allocator_params_t params = *in;
         if (!params.provider) return good.create(instance, in, out);
         static heddle_provider_t real, limited;
         real = limited = *params.provider;
         limited.free = [](void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) {
           if (made == 0) real.free(self, block, points, count);
         };
         params.provider = &limited;
         return good.create(instance, &params, out);
       };
       odd.destroy = [](heddle_allocator_t* allocator) noexcept -> Status {
         made = 0;
         return good.destroy(allocator);
       };
       change_blocks<[](const heddle_block_params_t*, heddle_block_t*, uint32_t*) { made = 1; }>();
     }},
    {"has_no_limit",
     [] {
       odd.create = [](heddle_plugin_instance_t* instance, const heddle_allocator_params_t* in,
                       heddle_allocator_t** out) noexcept -> Status {
         heddle_allocator_params_t params = *in;
         params.option_count = 0;
         return good.create(instance, &params, out);
       };
     }},
    {"doubles_sizes",
     [] {
       change_params<[](const heddle_block_params_t*, heddle_block_params_t* params) {
         if (params->size_bytes < uint64_t{1} << 32) params->size_bytes *= 4;
       }>();
     }},
    {"forgets_owners",
     [] { change_params<[](const heddle_block_params_t*, heddle_block_params_t* params) { params->owner = nullptr; }>(); }},
    {"crashes_when_the_provider_fails",
     [] {
       odd.allocate = [](heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* waits,
                         uint32_t* count) noexcept -> Status {
         Status status = good.allocate(allocator, params, out, waits, count);
         if (status) std::abort();
         return nullptr;
       };
     }},
    {"ignores_tails",
     [] { change_params<[](const heddle_block_params_t*, heddle_block_params_t* params) { params->struct_size = sizeof *params; }>(); }},
    {"gives_points_without_room",
     [] { change_blocks<[](const heddle_block_params_t*, heddle_block_t*, uint32_t* count) { *count = 1; }>(); }},
    {"trusts_host_memory",
     [] {
       odd.allocate = [](heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* waits,
                         uint32_t* count) noexcept -> Status {
         void* memory = host->memory_allocate(host->self, 16, 8);
         static_cast<volatile char*>(memory)[0] = 1;
         host->memory_free(host->self, memory);
         return good.allocate(allocator, params, out, waits, count);
       };
     }},
    {"one_thread_only",
     [] {
       odd.allocate = [](heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* waits,
                         uint32_t* count) noexcept -> Status {
         if (!mutex.try_lock()) {
           *out = {};
           *count = 0;
           return refuse(HEDDLE_STATUS_INTERNAL, "odd: two threads at once");
         }
         usleep(20);
         Status status = good.allocate(allocator, params, out, waits, count);
         mutex.unlock();
         return status;
       };
     }},
};

Status create(const heddle_host_t* its_host, heddle_plugin_instance_t** out) noexcept {
  host = its_host;
  return template_table()->create(its_host, out);
}

Status shutdown(heddle_plugin_instance_t* instance) noexcept {
  Status status = template_table()->shutdown(instance);
  if (!status || !chosen("shuts_down_with_allocators")) return status;
  host->status_free(host->self, status);
  return nullptr;
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
      sizeof(heddle_plugin_t), HEDDLE_PLUGIN_ALLOCATOR, {"test.odd_allocator", 18}, {"0.1.0", 5}, nullptr, odd::create,
      odd::shutdown,           odd::get_interface};
  odd::expect_known(odd::kVariable, odd::kMutations);
  return sdk::negotiate(negotiation, "test.odd_allocator", &plugin);
}
