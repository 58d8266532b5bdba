// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of donated arguments that no result takes: once an argument is no longer needed, values between regions are in its place, and the arena is
// smaller by as much. Only in programs on one slot whose commands run once, in order.
#include <algorithm>

#include "compiler/emit/scheduler.h"

using namespace mlir;

namespace heddle::emit {

namespace {

constexpr uint64_t place_alignment = 256;  // what all drivers accept

// The memory of an argument, and what is placed there.
struct Room {
  struct Part {
    uint32_t first, last;  // instructions, both inclusive
    uint64_t offset, bytes;
  };
  uint32_t value;
  uint64_t bytes;
  llvm::SmallVector<Part> parts;

  // The first gap that is free for all of a lifetime.
  std::optional<uint64_t> gap(uint32_t first, uint32_t last, uint64_t wanted) const {
    SmallVector<std::pair<uint64_t, uint64_t>> taken;
    for (const Part& part : parts) {
      if (part.first <= last && first <= part.last) taken.emplace_back(part.offset, part.offset + part.bytes);
    }
    llvm::sort(taken);
    uint64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (begin >= offset && begin - offset >= wanted) break;
      offset = std::max(offset, llvm::alignTo(end, place_alignment));
    }
    return offset <= bytes && bytes - offset >= wanted ? std::optional(offset) : std::nullopt;
  }
};

// All references of a program to ranges of values.
template <typename Visit>
void for_each_range(mf::ProgramT& program, Visit visit) {
  for (auto& site : program.dispatches) llvm::for_each(site->bindings, visit);
  for (mf::CopySite& copy : program.copies) {
    mf::BindingRef source = copy.source(), target = copy.target();
    visit(source);
    visit(target);
    copy = mf::CopySite(source, target);
  }
}

}  // namespace

void Scheduler::reuse_donated_arguments() {
  const bool runs_once = llvm::all_of(commands_, [](const mf::Instruction& at) {
    return llvm::is_contained({mf::Op::Dispatch, mf::Op::Copy, mf::Op::Barrier}, static_cast<mf::Op>(at.op()));
  });
  if (initializer_ || target_.size() != 1 || !runs_once) return;
  std::vector<Room> rooms;
  for (BlockArgument argument : function_.getArguments()) {
    const RankedTensorType type = tx::tensor(argument);
    if (!tx::is_donated(argument) || tx::alias_of(argument) || !type.hasStaticShape()) continue;
    const uint32_t value = locate(argument);
    Room room{value, tx::byte_size(type), {}};
    if (auto used = argument_uses_.find(value); used != argument_uses_.end())
      room.parts.push_back({0, lifetime({0, used->second}).second, 0, room.bytes});
    rooms.push_back(std::move(room));
  }
  if (rooms.empty()) return;

  // A range up to the end of a value does not end there any more.
  llvm::DenseSet<uint32_t> unfit;
  for_each_range(*program_, [&](const mf::BindingRef& range) {
    if (range.offset_register() != whole && range.length_register() == whole) unfit.insert(range.value());
  });
  struct Slice {
    uint32_t value, index;
    uint64_t bytes;
  };
  std::vector<Slice> slices;
  for (auto [value, described] : llvm::enumerate(program_->values)) {
    if (described.kind() != mf::ValueKind::Transient || unfit.contains(value)) continue;
    const uint64_t bytes = static_bytes_.lookup(described.index());
    if (bytes != 0) slices.push_back({static_cast<uint32_t>(value), described.index(), bytes});
  }
  llvm::stable_sort(slices, [](const Slice& a, const Slice& b) { return a.bytes > b.bytes; });

  struct Placed {
    const Room* room;
    uint64_t offset, bytes;
  };
  llvm::DenseMap<uint32_t, Placed> placed;
  for (const Slice& slice : slices) {
    const auto [first, last] = lifetime(uses_[slice.index]);
    Room* best = nullptr;
    for (Room& room : rooms) {
      if ((!best || room.bytes < best->bytes) && room.gap(first, last, slice.bytes)) best = &room;
    }
    if (!best) continue;
    const uint64_t offset = *best->gap(first, last, slice.bytes);
    best->parts.push_back({first, last, offset, slice.bytes});
    placed[slice.value] = {best, offset, slice.bytes};
  }
  if (placed.empty()) return;
  for_each_range(*program_, [&](mf::BindingRef& range) {
    auto found = placed.find(range.value());
    if (found == placed.end()) return;
    const auto [room, offset, bytes] = found->second;
    uint32_t start = range.offset_register(), length = range.length_register();
    if (offset != 0) start = start == whole ? registers_.literal(offset) : registers_.sum(start, registers_.literal(offset));
    if (length == whole && bytes != room->bytes) length = registers_.literal(bytes);
    range = mf::BindingRef(room->value, start, length, range.access());
  });
  remove_transients([&](uint32_t value) { return placed.contains(value); });
}

void Scheduler::remove_transients(llvm::function_ref<bool(uint32_t value)> is_removed) {
  std::vector<uint32_t> moved(program_->values.size(), 0);
  std::vector<mf::Value> values;
  std::vector<mf::Transient> transients;
  decltype(uses_) uses;
  for (auto [value, described] : llvm::enumerate(program_->values)) {
    if (is_removed(value)) continue;
    moved[value] = static_cast<uint32_t>(values.size());
    if (described.kind() != mf::ValueKind::Transient) {
      values.push_back(described);
      continue;
    }
    values.emplace_back(described.kind(), static_cast<uint32_t>(transients.size()));
    transients.push_back(program_->transients[described.index()]);
    uses.push_back(uses_[described.index()]);
  }
  program_->values = std::move(values);
  program_->transients = std::move(transients);
  uses_ = std::move(uses);
  for_each_range(*program_, [&](mf::BindingRef& range) {
    range = mf::BindingRef(moved[range.value()], range.offset_register(), range.length_register(), range.access());
  });
}

}  // namespace heddle::emit
