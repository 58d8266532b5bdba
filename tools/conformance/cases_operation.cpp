// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of drivers that run operations of library plugins on "host/1": the kit is the library.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "session.h"

// The kit's operation: adds its two operands, of int64 or f32, where each shard adds its elements, and counts calls.
struct heddle_operation {
  uint32_t shards = 1;
  bool is_f32 = false;
  bool fails = false;
  std::atomic<uint32_t> runs{0}, wrong{0};
  std::atomic<uint32_t> shards_seen[64] = {};
};

namespace heddle::conformance {
namespace {

constexpr uint64_t kElements = 1000;  // elements of int64
constexpr uint64_t kBytes = 8 * kElements;
constexpr uint64_t kWorkspaceBytes = 4096;

template <class T>
void add_shard(const heddle_operation& operation, const heddle_operation_call_t& call, uint64_t shard) {
  const uint64_t elements = kBytes / sizeof(T);
  const T *a = static_cast<const T*>(call.operands[0]), *b = static_cast<const T*>(call.operands[1]);
  T* sum = static_cast<T*>(call.operands[2]);
  for (uint64_t i = elements * shard / operation.shards; i < elements * (shard + 1) / operation.shards; ++i) sum[i] = a[i] + b[i];
}

heddle_status_t* add_operands(heddle_operation_t* operation, const heddle_operation_call_t* call) {
  ++operation->runs;
  const bool right = call->struct_size >= offsetof(heddle_operation_call_t, stream) + sizeof call->stream && call->operand_count == 3 &&
                     call->operands && call->operand_bytes && call->stream == 0 && call->workspace_bytes == kWorkspaceBytes &&
                     reinterpret_cast<uintptr_t>(call->workspace) % 64 == 0 && call->workspace && call->first_shard < call->last_shard &&
                     call->last_shard <= operation->shards;
  if (!right || std::any_of(call->operand_bytes, call->operand_bytes + 3, [](uint64_t bytes) { return bytes != kBytes; })) {
    ++operation->wrong;
    return nullptr;
  }
  if (operation->fails) return make_status(HEDDLE_STATUS_DATA_LOSS, "the kit's operation fails on purpose");
  for (uint64_t shard = call->first_shard; shard < call->last_shard; ++shard) {
    ++operation->shards_seen[shard];
    operation->is_f32 ? add_shard<float>(*operation, *call, shard) : add_shard<int64_t>(*operation, *call, shard);
  }
  return nullptr;
}

const heddle_library_interface_t& kit_library() {
  static const heddle_library_interface_t table = {sizeof table, 0, nullptr, nullptr, nullptr, add_operands};
  return table;
}

// The operation, loaded on the session's device.
class Loaded {
 public:
  Loaded(Session* session, heddle_operation_t* operation) : session_(*session) {
    if (text_of(session_.description.operation_target) != HEDDLE_LIBRARY_TARGET_HOST)
      absent("it does not run operations for host/1, which is optional");
    heddle_operation_params_t params = params_of(operation);
    REQUIRE_OK(session_.tables().dispatch.operation_load(session_.device, &params, &executable_));
    REQUIRE_OK(session_.tables().dispatch.entry(executable_, 0, &entry_));
    REQUIRE(entry_, "entry 0 of an operation is NULL");
  }
  ~Loaded() { session_.tables().dispatch.executable_unload(executable_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  static heddle_operation_params_t params_of(heddle_operation_t* operation) {
    return {sizeof(heddle_operation_params_t),
            3,
            string_of("org.example.kit::Add/1"),
            string_of(HEDDLE_LIBRARY_TARGET_HOST),
            &kit_library(),
            operation,
            kWorkspaceBytes,
            0};
  }

  void add(List* list, heddle_buffer_t* a, heddle_buffer_t* b, heddle_buffer_t* sum, heddle_buffer_t* workspace, uint32_t shards,
           uint32_t region) const {
    list->bindings.push_back({{a, 0, kBytes}, {b, 0, kBytes}, {sum, 0, kBytes}, {workspace, 0, kWorkspaceBytes}});
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_DISPATCH;
    command.as.dispatch = {entry_, list->bindings.back().data(), nullptr, 4, 0, {shards, 1, 1}, region};
    list->commands.push_back(command);
  }

 private:
  Session& session_;
  heddle_executable_t* executable_ = nullptr;
  heddle_entry_t* entry_ = nullptr;
};

void runs_in_its_place() {
  Session session;
  heddle_operation operation;
  operation.shards = 7;
  Loaded loaded(&session, &operation);
  const uint64_t bytes = kBytes;
  heddle_buffer_t *a = session.buffer(bytes), *b = session.buffer(bytes), *sum = session.buffer(bytes), *more = session.buffer(bytes);
  heddle_buffer_t* workspace = session.buffer(kWorkspaceBytes);
  List list;  // a = 3s; sum = a + a; more = sum + a
  list.fill(a, 0, bytes, 3, 8).fill(b, 0, bytes, 5, 8).barrier();
  loaded.add(&list, a, b, sum, workspace, 7, 0);
  list.barrier();
  loaded.add(&list, sum, a, more, workspace, 7, 1);
  session.run(list);
  CHECK(operation.wrong.load() == 0, "an operation was called with operands, lengths, shards or a workspace that differ from its dispatch");
  for (uint32_t shard = 0; shard < 7; ++shard) {
    CHECK(operation.shards_seen[shard].load() == 2, "shard %u of 7 ran %u times in two dispatches", shard,
          operation.shards_seen[shard].load());
  }
  const std::vector<char> result = session.download(more, 0, bytes);
  for (uint64_t i = 0; i < kElements; ++i) {
    int64_t value;
    std::memcpy(&value, result.data() + 8 * i, 8);
    REQUIRE(value == 11, "element %llu of 3 + 5 + 3 is %lld: an operation did not run in its place", number(i),
            static_cast<long long>(value));
  }
}

// The same arithmetic in both ways in which a region may run: inexact results, and results so small that a wrong floating-point state makes them 0,
// must be identical to the bit.
void same_as_a_kernel() {
  Session session;
  heddle_operation operation;
  operation.shards = 3;
  operation.is_f32 = true;
  Loaded loaded(&session, &operation);
  Kernels kernels(&session);
  heddle_buffer_t *a = session.buffer(kBytes), *b = session.buffer(kBytes), *by_operation = session.buffer(kBytes);
  heddle_buffer_t *by_kernel = session.buffer(kBytes), *workspace = session.buffer(kWorkspaceBytes);
  const uint64_t elements = kBytes / sizeof(float);
  for (heddle_buffer_t* input : {a, b}) {
    std::vector<float> values(elements);
    for (size_t i = 0; i < elements; ++i) {
      const float unit = static_cast<float>(random_below(1 << 24)) / (1 << 24) - 0.5f;
      values[i] = i % 3 ? unit : unit * 0x1p-126f;
    }
    session.upload(input, 0, values.data(), kBytes);
  }
  List list;
  list.fill(by_operation, 0, kBytes, 0, 1).fill(by_kernel, 0, kBytes, 1, 1).barrier();
  loaded.add(&list, a, b, by_operation, workspace, 3, 0);
  const auto each = static_cast<int64_t>(kernels.set().elements_per_workgroup);
  list.dispatch(kernels, "add", {{a, 0, kBytes}, {b, 0, kBytes}, {by_kernel, 0, kBytes}}, {static_cast<int64_t>(elements), each},
                kernels.groups_of(elements));
  session.run(list);
  const std::vector<char> operations = session.download(by_operation, 0, kBytes), kernels_own = session.download(by_kernel, 0, kBytes);
  for (size_t i = 0; i < elements; ++i) {
    float one, other;
    std::memcpy(&one, operations.data() + 4 * i, 4);
    std::memcpy(&other, kernels_own.data() + 4 * i, 4);
    REQUIRE(std::memcmp(&one, &other, 4) == 0, "element %zu of a sum is %a by the operation and %a by the kernel 'add' [HD-O-04]", i,
            static_cast<double>(one), static_cast<double>(other));
  }
}

void failure_is_told() {
  Session session;
  heddle_operation operation;
  operation.shards = 3;
  operation.fails = true;
  Loaded loaded(&session, &operation);
  heddle_buffer_t* buffer = session.buffer(kBytes);
  heddle_buffer_t* workspace = session.buffer(kWorkspaceBytes);
  List list;
  loaded.add(&list, buffer, buffer, buffer, workspace, 3, 41);
  Result outcome = session.try_run(list);
  CHECK(outcome.code() == HEDDLE_STATUS_DATA_LOSS && outcome.message().find("on purpose") != std::string::npos,
        "a failing operation returned %s; its own status was expected [HD-O-04]", outcome.text().c_str());
  CHECK(outcome.payload("region") == "41", "the failure's payload region is '%s', but 41 was dispatched",
        outcome.payload("region").c_str());
  // The failure has no lasting effect.
  List fine;
  session.run(fine.fill(buffer, 0, kBytes, 1, 8));
}

void other_targets_are_refused() {
  Session session;
  heddle_operation operation;
  heddle_operation_params_t params = Loaded::params_of(&operation);
  params.target = string_of("nowhere/1");
  heddle_executable_t* executable = nullptr;
  Result status(session.tables().dispatch.operation_load(session.device, &params, &executable));
  if (text_of(session.description.operation_target).empty()) {
    CHECK(status.code() == HEDDLE_STATUS_UNIMPLEMENTED, "a driver that runs no operations returned %s; UNIMPLEMENTED was expected",
          status.text().c_str());
    return;
  }
  CHECK(status.code() == HEDDLE_STATUS_INVALID_ARGUMENT, "an operation for 'nowhere/1' returned %s; INVALID_ARGUMENT was expected",
        status.text().c_str());
}

}  // namespace

void add_operation_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"operation.in_its_place", "an operation runs between the commands around it, each shard once", runs_in_its_place, Kind::kDriver},
       {"operation.same_as_kernel", "an operation and a kernel that compute the same give the same bytes", same_as_a_kernel, Kind::kDriver},
       {"operation.failure", "a failing operation fails its submission, with its own status", failure_is_told, Kind::kDriver},
       {"operation.other_target", "an operation for another target is refused", other_targets_are_refused, Kind::kDriver}});
}

}  // namespace heddle::conformance
