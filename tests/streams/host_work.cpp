// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host_work.h"

#include <algorithm>
#include <cstring>

#include "heddle/sdk/stream/code.h"

namespace heddle::test {

using stream::Address;
using stream::kSuccess;
using stream::Result;

HostKernel::HostKernel(const stream::Launch& launch) : function_(reinterpret_cast<const HostFunction*>(launch.entry.function)) {
  const stream::Entry& entry = launch.entry;
  std::copy_n(launch.grid, 3, grid_);
  if (entry.plain) {
    bindings_.resize(entry.binding_count);
    constants_.resize(entry.constants_bytes / 8);
    if (!bindings_.empty()) std::memcpy(bindings_.data(), launch.arguments, bindings_.size() * 8);
    if (!constants_.empty()) std::memcpy(constants_.data(), launch.arguments + bindings_.size() * 8, entry.constants_bytes);
    return;
  }
  for (const stream::Argument& argument : entry.arguments) {
    uint64_t value = 0;
    std::memcpy(&value, launch.arguments + argument.at, argument.size_bytes);
    if (argument.kind == HEDDLE_ARGUMENT_BINDING) {
      bindings_.push_back(value);
    } else {
      constants_.push_back(static_cast<int64_t>(value));
    }
  }
}

Result HostKernel::interpret() const {
  std::vector<uint64_t> sizes;
  uint64_t workspace = 0;
  std::string reason;
  if (!function_->program->binding_bytes(constants_.data(), constants_.size(), &sizes, &reason, &workspace)) return kKernelFailed;
  sizes.push_back(workspace);  // which not every entry has
  std::vector<sdk::portable::Memory> memory;
  std::vector<std::shared_ptr<void>> keep(bindings_.size());
  for (size_t i = 0; i < bindings_.size(); ++i) {
    char* bytes = sizes[i] == 0 ? nullptr : bytes_at(bindings_[i], sizes[i], &keep[i]);
    if (!bytes && sizes[i] != 0) return kBadAddress;
    memory.push_back({bytes, sizes[i]});
  }
  return function_->program->run(memory, constants_.data(), constants_.size(), &reason) ? kSuccess : kKernelFailed;
}

Result HostKernel::run(std::mt19937_64& random) const {
  if (function_->program) return grid_[0] == 0 ? kSuccess : interpret();
  std::vector<void*> pointers;
  std::vector<uint64_t> lengths;
  std::vector<std::shared_ptr<void>> keep;
  for (Address address : bindings_) {
    GpuMemory::Block block;
    uint64_t offset = 0;
    if (address && !GpuMemory::all().find(address, 0, &block, &offset)) return kBadAddress;
    keep.push_back(block.keeps_bytes);
    pointers.push_back(address ? block.bytes + offset : nullptr);
    lengths.push_back(address ? block.size - offset : 0);
  }
  const heddle_x86_64_dispatch_t record = {
      pointers.data(), lengths.data(), constants_.data(), {grid_[0], grid_[1], grid_[2]}, static_cast<uint32_t>(pointers.size())};
  const uint64_t workspace_bytes = (function_->workspace_bytes + 63) / 64 * 64;
  const std::unique_ptr<void, decltype(&std::free)> workspace(workspace_bytes ? std::aligned_alloc(64, workspace_bytes) : nullptr,
                                                              &std::free);
  const uint64_t workgroups = uint64_t{grid_[0]} * grid_[1] * grid_[2], count = std::min<uint64_t>(workgroups, 13);
  std::vector<uint64_t> order(count);
  for (uint64_t i = 0; i < count; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (uint64_t i : order) {
    const uint64_t first = workgroups / count * i + std::min(i, workgroups % count);
    const uint64_t last = first + workgroups / count + (i < workgroups % count ? 1 : 0);
    if (function_->kernel(&record, first, last, workspace.get()) != 0) return kKernelFailed;
  }
  return kSuccess;
}

int64_t HostKernel::known_result() const {
  if (!function_->returns_its_constant) return 0;
  return constants_.empty() ? 1 : constants_[0];
}

char* bytes_at(Address address, uint64_t size, std::shared_ptr<void>* keep) {
  GpuMemory::Block block;
  uint64_t offset = 0;
  if (!GpuMemory::all().find(address, size, &block, &offset)) return nullptr;
  *keep = block.keeps_bytes;
  return block.bytes + offset;
}

Result run_copy(const stream::Copy2d& copy) {
  std::shared_ptr<void> keep[2];
  const char* from = bytes_at(copy.from, (copy.rows - 1) * copy.from_stride + copy.row_bytes, &keep[0]);
  char* to = bytes_at(copy.to, (copy.rows - 1) * copy.to_stride + copy.row_bytes, &keep[1]);
  if (!from || !to) return kBadAddress;
  copy_rows(to, copy.to_stride, from, copy.from_stride, copy.row_bytes, copy.rows);
  return kSuccess;
}

Result run_fill(const stream::Fill& fill, uint64_t pitch) {
  std::shared_ptr<void> keep;
  char* to = bytes_at(fill.to, (fill.count - 1) * pitch + fill.unit, &keep);
  if (!to) return kBadAddress;
  fill_units(to, fill.count, fill.unit, fill.value, pitch);
  return kSuccess;
}

Result run_graph(const HostGraph& nodes, std::mt19937_64& random) {
  auto run = [&](const HostNode& node) -> Result {
    if (!node.is_enabled) return kSuccess;
    switch (node.kind) {
      case HostNode::Kind::kKernel:
        return node.kernel.run(random);
      case HostNode::Kind::kCopy:
        return run_copy(node.copy);
      case HostNode::Kind::kFill:
        return run_fill(node.fill, node.fill.unit);
      default:
        return kSuccess;
    }
  };
  return run_in_any_order(
      nodes.size(), random, [&](size_t i) -> const std::vector<uintptr_t>& { return nodes[i].before; },
      [&](size_t i) { return run(nodes[i]); });
}

}  // namespace heddle::test
