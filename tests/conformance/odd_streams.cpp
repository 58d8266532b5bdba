// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allocator with stream order, made wrong from outside: every call goes to the allocator whose library ODD_STREAMS_OVER names, over a provider that
// lies about points as ODD_STREAMS says. So the mutants break stream order alone, and stay what they are when the allocator changes inside.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "heddle/allocator.h"
#include "odd_over.h"

namespace heddle::odd {
namespace {

using Allocators = Over<heddle_allocator_interface_t>;

constexpr char kVariable[] = "ODD_STREAMS";
const Change kMutations[] = {{"any_stream"}, {"first_point_alone"}, {"no_points"}, {"one_point"}, {"any_place"}};
bool chosen(std::string_view name) {
  return is_named(kVariable, name);
}

const heddle_provider_t* provider = nullptr;  // the kit's, of the allocator that was made last
heddle_provider_t lying;
std::mutex mutex;
std::vector<heddle_point_t> later;                 // of each free all points but the first
thread_local heddle_point_t after = {nullptr, 0};  // of the allocate that this thread is in

bool is_later(heddle_point_t point) {
  std::lock_guard<std::mutex> lock(mutex);
  return std::any_of(later.begin(), later.end(),
                     [&](heddle_point_t each) { return each.timeline == point.timeline && each.value == point.value; });
}

uint32_t reached(void* self, heddle_point_t point) {
  if (after.timeline && chosen("any_stream") && point.value <= after.value) return 1;
  if (after.timeline && chosen("first_point_alone") && is_later(point)) return 1;
  return provider->reached(self, point);
}

Status create(heddle_plugin_instance_t* instance, const heddle_allocator_params_t* in, heddle_allocator_t** out) noexcept {
  heddle_allocator_params_t params = *in;
  if (params.provider) {
    provider = params.provider;
    lying = *params.provider;
    lying.reached = reached;
    params.provider = &lying;
  }
  return Allocators::good.create(instance, &params, out);
}

Status allocate(heddle_allocator_t* allocator, const heddle_block_params_t* in, heddle_block_t* out, heddle_point_t* out_waits,
                uint32_t* out_wait_count) noexcept {
  heddle_block_params_t anywhere;
  if (in->struct_size >= offsetof(heddle_block_params_t, owner)) after = in->after;
  if (after.timeline && chosen("any_place")) {
    std::memcpy(&anywhere, in, std::min<size_t>(in->struct_size, sizeof anywhere));
    anywhere.after.value = HEDDLE_TIMELINE_MAX_VALUE;
    in = &anywhere;
  }
  Status status = Allocators::good.allocate(allocator, in, out, out_waits, out_wait_count);
  after = {nullptr, 0};
  if (!status && chosen("no_points")) *out_wait_count = 0;
  if (!status && chosen("one_point")) *out_wait_count = std::min(*out_wait_count, 1u);
  return status;
}

void free(heddle_allocator_t* allocator, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) noexcept {
  if (count > 1) {
    std::lock_guard<std::mutex> lock(mutex);
    later.insert(later.end(), points + 1, points + count);
  }
  Allocators::good.free(allocator, block, points, count);
}

void change(heddle_allocator_interface_t* odd) {
  odd->create = create;
  odd->allocate = allocate;
  odd->free = free;
}

}  // namespace
}  // namespace heddle::odd

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin =
      odd::Allocators::plugin(HEDDLE_PLUGIN_ALLOCATOR, "test.odd_streams", "ODD_STREAMS_OVER", HEDDLE_ALLOCATOR_INTERFACE, odd::change);
  odd::expect_known(odd::kVariable, odd::kMutations);
  return sdk::negotiate(negotiation, "test.odd_streams", &plugin);
}
