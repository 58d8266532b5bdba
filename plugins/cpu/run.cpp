// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs lowered lists in the caller's thread, or spread over the device's workers.
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "cpu/commands.h"
#include "heddle/sdk/futex.h"

namespace heddle::cpu {

using sdk::status;

namespace {

constexpr uint64_t kSplitCopyBytes = 1 << 20;  // larger copies are split over workers
constexpr uint64_t kCopyPieceBytes = 256 << 10;
constexpr uint64_t kMinPieceNs = 2000;  // a smaller piece is not worth another worker
constexpr uint64_t kMinForkNs = 4000;

// Kernels may leave the upper halves of vector registers set, which slows down the caller's SSE code.
__attribute__((target("avx"))) void clear_upper_halves() noexcept {
  _mm256_zeroupper();
}

void fill_range(const Op::Fill& fill, uint64_t first, uint64_t last) noexcept {
  char* target = fill.target;
  if (fill.pattern_bytes == 1) {
    std::memset(target + first, static_cast<int>(fill.pattern & 0xff), last - first);
    return;
  }
  // A range starts at a multiple of 8, so it starts with a whole pattern, which is repeated to 8 bytes.
  uint64_t word = fill.pattern;
  if (fill.pattern_bytes == 2) word = (word & 0xffff) * 0x0001000100010001u;
  if (fill.pattern_bytes == 4) word = (word & 0xffffffffu) * 0x0000000100000001u;
  uint64_t at = first;
  for (; at + 8 <= last; at += 8) std::memcpy(target + at, &word, 8);
  if (at < last) std::memcpy(target + at, &word, last - at);
}

void copy_rows(const Op::Copy2d& copy, uint64_t first, uint64_t last) noexcept {
  for (uint64_t row = first; row < last; ++row) {
    std::memcpy(copy.target + row * copy.target_stride, copy.source + row * copy.source_stride, copy.row_bytes);
  }
}

// Records when an op of a work ran, if its caller requested times.
class OpTimer {
 public:
  OpTimer(const Work& work, const Op& op, uint64_t start_ns) noexcept
      : work_(work), op_(op), start_ns_(start_ns), begin_ns_(now_if_timed(work)) {}
  ~OpTimer() {
    if (work_.times) [[unlikely]]
      work_.times[op_.command] = {begin_ns_ - start_ns_, sdk::monotonic_ns() - start_ns_};
  }
  static uint64_t now_if_timed(const Work& work) noexcept { return work.times ? sdk::monotonic_ns() : 0; }

 private:
  const Work& work_;
  const Op& op_;
  const uint64_t start_ns_, begin_ns_;
};

// Runs one op that is not a dispatch in this thread.
void run_transfer(const Op& op) noexcept {
  switch (op.kind) {
    case Op::Kind::kCopy:
      if (op.copy.length) std::memcpy(op.copy.target, op.copy.source, op.copy.length);
      break;
    case Op::Kind::kFill:
      if (op.fill.length) fill_range(op.fill, 0, op.fill.length);
      break;
    case Op::Kind::kCopy2d:
      copy_rows(op.copy_2d, 0, op.copy_2d.rows);
      break;
    case Op::Kind::kDispatch:
    case Op::Kind::kIo:
      break;
  }
}

// The host knows the region's name by its number.
heddle_status_t* with_region(Device* device, const Op::Dispatch& dispatch, heddle_status_t* failure) noexcept {
  sdk::set_region(device->host, failure, dispatch.region);
  return failure;
}

heddle_status_t* kernel_failed(Device* device, const Op::Dispatch& dispatch, int32_t result) noexcept {
  return with_region(
      device, dispatch,
      status(device->host, HEDDLE_STATUS_INTERNAL, "cpu: running kernel '%s' (region %u, %llu workgroups) failed: it returned %d",
             dispatch.entry->name.c_str(), dispatch.region, number(dispatch.workgroups), result));
}

heddle_status_t* no_workspace(Device* device, const Op::Dispatch& dispatch) noexcept {
  return with_region(device, dispatch,
                     status(device->host, HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                            "cpu: running kernel '%s' (region %u) failed: no memory for its workspace of %llu bytes a worker",
                            dispatch.entry->name.c_str(), dispatch.region, number(dispatch.entry->workspace_bytes)));
}

// Runs some shards of an operation of a library plugin. Thread state that it changes would affect kernels and applications, so it is restored
// (HD-O-04).
heddle_status_t* run_operation(const Op::Dispatch& dispatch, uint64_t first, uint64_t last) noexcept {
  const Entry& entry = *dispatch.entry;
  const bool has_workspace = dispatch.record.binding_count > entry.operand_count;
  const heddle_operation_call_t call = {sizeof call,
                                        entry.operand_count,
                                        dispatch.record.bindings,
                                        dispatch.record.binding_lengths,
                                        has_workspace ? dispatch.record.bindings[entry.operand_count] : nullptr,
                                        has_workspace ? dispatch.record.binding_lengths[entry.operand_count] : 0,
                                        first,
                                        last,
                                        0};
  const int saved_errno = errno;
  KernelFloatState state;
  heddle_status_t* failure = entry.library->enqueue(entry.operation, &call);
  errno = saved_errno;
  return failure;
}

// Dispatches without a barrier between them: one job over all their workgroups, one dispatch after the other. Also holds the first failure.
struct Group {
  Device* device;
  const Op* first;
  const Op* end;
  uint64_t workgroups;
  uint64_t cost_ns;  // of all dispatches; kUnknownCost: unknown
  std::atomic<heddle_status_t*> failure{nullptr};
};

uint64_t cost_of(const Op::Dispatch& dispatch) noexcept {
  uint64_t cost = 0;
  const uint64_t each = dispatch.entry->operation ? 0 : dispatch.entry->cost_ns;
  return each == 0 || __builtin_mul_overflow(each, dispatch.workgroups, &cost) ? kUnknownCost : cost;
}

int32_t failed(Group* group, heddle_status_t* failure) noexcept {
  const heddle_host_t* host = group->device->host;
  heddle_status_t* none = nullptr;
  if (!group->failure.compare_exchange_strong(none, failure)) host->status_free(host->self, failure);
  return 1;
}

int32_t dispatch_piece(void* context, uint64_t first, uint64_t last, uint32_t place) noexcept {
  auto* group = static_cast<Group*>(context);
  int32_t result = 0;
  for (const Op* op = group->first; op != group->end && first < last; op = op->next) {
    const Op::Dispatch& dispatch = op->dispatch;
    const uint64_t count = dispatch.workgroups;
    if (first < count) {
      const uint64_t end = std::min(last, count);
      if (dispatch.entry->operation) [[unlikely]] {
        if (heddle_status_t* failure = run_operation(dispatch, first, end))
          result = failed(group, with_region(group->device, dispatch, failure));
      } else {
        void* workspace = dispatch.entry->workspace_bytes ? group->device->workspaces[place].data() : nullptr;
        const int32_t failure = dispatch.entry->kernel(&dispatch.record, first, end, workspace);
        if (failure != 0) [[unlikely]]
          result = failed(group, kernel_failed(group->device, dispatch, failure));
      }
      first = end;
    }
    first -= count;
    last -= count;
  }
  clear_upper_halves();
  return result;
}

// The workgroup at share / shares of the group's cost.
uint64_t bound_of(void* context, uint64_t share, uint64_t shares) noexcept {
  const auto* group = static_cast<const Group*>(context);
  if (share == 0) return 0;
  if (share == shares) return group->workgroups;
  auto before = static_cast<uint64_t>(static_cast<__uint128_t>(group->cost_ns) * share / shares);
  uint64_t bound = 0;
  for (const Op* op = group->first; op != group->end; op = op->next) {
    const uint64_t whole = cost_of(op->dispatch);
    if (before < whole) return bound + before / op->dispatch.entry->cost_ns;
    before -= whole;
    bound += op->dispatch.workgroups;
  }
  return bound;
}

// Adds dispatches that may overlap with the group's first one, as long as all costs are known.
void extend(Group* group) noexcept {
  for (const Op* op = group->end; op && op->kind == Op::Kind::kDispatch && !op->behind_barrier; op = op->next) {
    const uint64_t more = cost_of(op->dispatch);
    uint64_t workgroups = 0, cost = 0;
    if (group->cost_ns == kUnknownCost || more == kUnknownCost || __builtin_add_overflow(group->cost_ns, more, &cost) ||
        __builtin_add_overflow(group->workgroups, op->dispatch.workgroups, &workgroups)) {
      break;
    }
    group->workgroups = workgroups;
    group->cost_ns = cost;
    group->end = op->next;
  }
}

int32_t copy_piece(void* context, uint64_t first, uint64_t last, uint32_t) noexcept {
  const Op::Copy& copy = static_cast<const Op*>(context)->copy;
  const uint64_t start = first * kCopyPieceBytes, end = std::min(copy.length, last * kCopyPieceBytes);
  std::memcpy(copy.target + start, copy.source + start, end - start);
  return 0;
}

int32_t fill_piece(void* context, uint64_t first, uint64_t last, uint32_t) noexcept {
  const Op::Fill& fill = static_cast<const Op*>(context)->fill;
  fill_range(fill, first * kCopyPieceBytes, std::min(fill.length, last * kCopyPieceBytes));
  return 0;
}

int32_t rows_piece(void* context, uint64_t first, uint64_t last, uint32_t) noexcept {
  copy_rows(static_cast<const Op*>(context)->copy_2d, first, last);
  return 0;
}

}  // namespace

heddle_status_t* run_inline(Device* device, const Work& work) noexcept {
  KernelFloatState state;
  Workspace* workspace = nullptr;
  heddle_status_t* failure = nullptr;
  const uint64_t start_ns = OpTimer::now_if_timed(work);
  for (const Op* op = work.first; op; op = op->next) {
    OpTimer timer(work, *op, start_ns);
    if (op->kind != Op::Kind::kDispatch) [[unlikely]] {
      run_transfer(*op);
      continue;
    }
    const Op::Dispatch& dispatch = op->dispatch;
    if (dispatch.workgroups == 0) continue;
    if (dispatch.entry->operation) [[unlikely]] {
      failure = run_operation(dispatch, 0, dispatch.workgroups);
      if (!failure) continue;
      with_region(device, dispatch, failure);
      break;
    }
    void* memory = nullptr;
    if (dispatch.entry->workspace_bytes) {
      if (!workspace) workspace = device->spare_workspace.exchange(nullptr, std::memory_order_acquire);
      if (!workspace) workspace = new (std::nothrow) Workspace;
      if (!workspace || !workspace->reserve(dispatch.entry->workspace_bytes)) {
        failure = no_workspace(device, dispatch);
        break;
      }
      memory = workspace->data();
    }
    const int32_t result = dispatch.entry->kernel(&dispatch.record, 0, dispatch.workgroups, memory);
    if (result != 0) [[unlikely]] {
      failure = kernel_failed(device, dispatch, result);
      break;
    }
  }
  if (work.dispatches) clear_upper_halves();
  if (workspace) delete device->spare_workspace.exchange(workspace, std::memory_order_acq_rel);
  return failure;
}

heddle_status_t* run_group(Workers::Team* team, Group* group) noexcept {
  if (group->workgroups == 0) return nullptr;
  Device* device = group->device;
  const Op::Dispatch& first = group->first->dispatch;
  const bool one = group->end == group->first->next;
  const uint64_t cost = first.entry->cost_ns;
  uint32_t members =
      team->settle(group->cost_ns < kMinForkNs ? 1 : static_cast<uint32_t>(std::min<uint64_t>(device->workers.count(), group->workgroups)));
  for (const Op* op = group->first; op != group->end; op = op->next) {
    const uint64_t bytes = op->dispatch.entry->workspace_bytes;
    for (uint32_t member = 0; bytes && member < members; ++member) {
      if (!device->workspaces[team->place(member)].reserve(bytes)) return no_workspace(device, op->dispatch);
    }
  }
  int32_t result;
  if (one) {
    result = team->run(dispatch_piece, group, group->workgroups, members, cost ? std::max<uint64_t>(kMinPieceNs / cost, 1) : 1);
  } else {
    const uint64_t pieces = group->cost_ns / kMinPieceNs;
    members = static_cast<uint32_t>(std::clamp<uint64_t>(pieces, 1, members));
    result = team->run(dispatch_piece, group, bound_of, members, pieces / members);
  }
  return result == 0 ? nullptr : group->failure.load();
}

heddle_status_t* run_on_workers(Device* device, const Work& work, bool* own_core) noexcept {
  KernelFloatState state;
  Workers::Team team(&device->workers, own_core);
  const uint32_t all = device->workers.count();
  const uint64_t start_ns = OpTimer::now_if_timed(work);
  for (const Op* op = work.first; op;) {
    OpTimer timer(work, *op, start_ns);
    const Op* next = op->next;
    void* context = const_cast<Op*>(op);
    switch (op->kind) {
      case Op::Kind::kDispatch: {
        Group group{device, op, op->next, op->dispatch.workgroups, cost_of(op->dispatch)};
        if (!work.times) extend(&group);  // separate groups if the caller requested times
        if (heddle_status_t* failure = run_group(&team, &group)) return failure;
        next = group.end;
        break;
      }
      case Op::Kind::kCopy:
      case Op::Kind::kFill: {
        const bool copy = op->kind == Op::Kind::kCopy;
        const uint64_t length = copy ? op->copy.length : op->fill.length;
        if (length < kSplitCopyBytes) {
          run_transfer(*op);
          break;
        }
        team.run(copy ? copy_piece : fill_piece, context, (length - 1) / kCopyPieceBytes + 1, team.settle(all), 1);
        break;
      }
      case Op::Kind::kCopy2d: {
        const Op::Copy2d& rows = op->copy_2d;
        if (rows.row_bytes * rows.rows < kSplitCopyBytes) {
          run_transfer(*op);
          break;
        }
        team.run(rows_piece, context, rows.rows, team.settle(all), kCopyPieceBytes / rows.row_bytes + 1);
        break;
      }
      case Op::Kind::kIo:
        if (heddle_status_t* failure = run_io(device, &team, op->io)) return failure;
        break;
    }
    op = next;
  }
  return nullptr;
}

}  // namespace heddle::cpu
