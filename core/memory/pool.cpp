// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stacks of allocators: each is created over the one below it, and is the provider of the one above it.
// Called through pool.h; knows nothing of tensors or programs.
#include "core/memory/pool.h"

#include <algorithm>

namespace heddle::memory {

Result<std::unique_ptr<Pool>> Pool::create(heddle_device_t* device, const heddle_driver_api_t& api, std::string name,
                                           const heddle_device_description_t& description, const std::vector<host::AllocatorLayer>& stack) {
  std::unique_ptr<Pool> pool(new Pool(device, api, description));
  pool->min_alignment_bytes_ = std::max<uint64_t>(description.min_alignment_bytes, 64);
  for (size_t i = stack.size(); i-- > 0;) HEDDLE_RETURN_IF_ERROR(pool->add(stack[i], name));
  return pool;
}

Status Pool::add(const host::AllocatorLayer& layer, const std::string& name) {
  auto stacked = std::make_unique<Stacked>();
  stacked->interface = &layer.allocator->allocator;
  stacked->id = layer.allocator->id;
  stacked->abi_minor = layer.allocator->abi_minor;
  stacked->below = top_;
  std::vector<heddle_option_t> options = host::to_c(layer.options);
  heddle_allocator_params_t params{};
  params.struct_size = sizeof(params);
  params.option_count = static_cast<uint32_t>(options.size());
  params.provider = top_;
  params.options = options.data();
  params.option_stride = sizeof(heddle_option_t);
  params.name = to_c(name);
  HEDDLE_RETURN_IF_ERROR(Status(stacked->interface->create(layer.allocator->instance, &params, &stacked->allocator)));
  heddle_provider_t& provider = stacked->provider;
  provider.struct_size = sizeof(provider);
  provider.self = stacked.get();
  provider.allocate = [](void* self, const heddle_block_params_t* block_params, heddle_block_t* out_block, heddle_point_t* out_waits,
                         uint32_t* out_wait_count) {
    auto* at = static_cast<Stacked*>(self);
    heddle_block_params_t without_hint;
    if (at->abi_minor < 3 && HEDDLE_HAS(block_params, soon_bytes)) {  // which it would refuse as unknown
      without_hint = *block_params;
      without_hint.struct_size = sizeof(without_hint);
      without_hint.soon_bytes = 0;
      block_params = &without_hint;
    }
    return at->interface->allocate(at->allocator, block_params, out_block, out_waits, out_wait_count);
  };
  provider.free = [](void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t point_count) {
    auto* at = static_cast<Stacked*>(self);
    at->interface->free(at->allocator, block, points, point_count);
  };
  provider.statistics = [](void* self, heddle_allocator_statistics_t* out_statistics) {
    auto* at = static_cast<Stacked*>(self);
    return at->interface->statistics(at->allocator, out_statistics);
  };
  provider.trim = [](void* self, uint64_t keep_bytes) {
    auto* at = static_cast<Stacked*>(self);
    return at->interface->trim(at->allocator, keep_bytes);
  };
  provider.holders = [](void* self, heddle_holder_visitor_t visit, void* context) {
    auto* at = static_cast<Stacked*>(self);
    return at->interface->holders(at->allocator, visit, context);
  };
  provider.reached = [](void* self, heddle_point_t point) {
    auto* at = static_cast<Stacked*>(self);
    return at->below->reached(at->below->self, point);
  };
  top_ = &provider;
  stack_.push_back(std::move(stacked));
  return Status();
}

Pool::~Pool() {
  static_cast<void>(end());
}

Status Pool::end() {
  while (!stack_.empty()) {
    HEDDLE_RETURN_IF_ERROR(Status(stack_.back()->interface->destroy(stack_.back()->allocator)));
    top_ = stack_.back()->below;
    stack_.pop_back();
  }
  return Status();
}

Status Pool::allocate(uint64_t size_bytes, uint64_t alignment_bytes, const heddle_string_t& owner, heddle_block_t* out_block,
                      uint64_t soon_bytes) {
  heddle_block_params_t params{};
  params.struct_size = sizeof(params);
  params.size_bytes = std::max<uint64_t>(size_bytes, 1);  // every value has an address, so that drivers need no special case
  params.alignment_bytes = std::max(alignment_bytes, min_alignment_bytes_);
  params.owner = &owner;
  params.soon_bytes = soon_bytes;
  uint32_t wait_count = 0;
  return Status(top_->allocate(top_->self, &params, out_block, nullptr, &wait_count));
}

void Pool::free(const heddle_block_t& block) {
  if (block.buffer) top_->free(top_->self, &block, nullptr, 0);
}

Status Pool::trim(uint64_t keep_bytes) {
  return Status(top_->trim(top_->self, keep_bytes));
}

std::vector<Pool::Layer> Pool::layers() const {
  std::vector<Layer> layers;
  auto add = [&](std::string id, const heddle_provider_t& provider) {
    heddle_allocator_statistics_t statistics{};
    statistics.struct_size = sizeof(statistics);
    // An allocator without statistics counts as zero.
    if (!Status(provider.statistics(provider.self, &statistics)).ok()) statistics = {};
    layers.push_back({std::move(id), statistics});
  };
  for (size_t i = stack_.size(); i-- > 0;) add(stack_[i]->id, stack_[i]->provider);
  add("", memory_.provider());
  return layers;
}

std::vector<Pool::Holder> Pool::holders() const {
  std::vector<Holder> holders;
  auto visit = [](void* context, const heddle_holder_t* holder) {
    static_cast<std::vector<Holder>*>(context)->push_back({std::string(view(holder->owner)), holder->blocks, holder->requested});
  };
  if (!Status(top_->holders(top_->self, visit, &holders)).ok()) holders.clear();  // the allocator does not support this
  return holders;
}

}  // namespace heddle::memory
