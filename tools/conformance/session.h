// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The basis of most cases: an instance, a device with a queue, lists of commands. Objects created through a session are destroyed with it, in the
// right order, and destroying them must succeed; afterwards nothing of the plugin may be left.
#ifndef HEDDLE_CONFORMANCE_SESSION_H_
#define HEDDLE_CONFORMANCE_SESSION_H_

#include <deque>
#include <functional>
#include <memory>

#include "case.h"
#include "plugin.h"

namespace heddle::conformance {

// Size of the end that a newer host's struct has in the cases about sizes: longer than the additions of a few minors, so that a plugin of one of
// them does not know its last word either.
constexpr size_t kTailWords = 64;

// Waits of a case give up after this time, so that a hang is reported as the missing event: below the time limit of a case, and longer for cases
// that move gigabytes (--large).
inline uint64_t patience_ns() {
  return settings().patience_s * (settings().large ? 10 : 1) * 1000000000;
}

// Each names the function of the headers that was called last, followed by the call in the kit's source.
#define HEDDLE_KIT_STATUS_IS_(check, condition, expected, call)                                                                     \
  do {                                                                                                                              \
    ::heddle::conformance::Result result_(call);                                                                                    \
    check((condition), "%s returned %s; %s was expected: %s", ::heddle::conformance::last_call(), result_.text().c_str(), expected, \
          #call);                                                                                                                   \
  } while (false)
#define EXPECT_OK(call) HEDDLE_KIT_STATUS_IS_(CHECK, result_.ok(), "success", call)
#define REQUIRE_OK(call) HEDDLE_KIT_STATUS_IS_(REQUIRE, result_.ok(), "success", call)
#define EXPECT_CODE(call, code_wanted) \
  HEDDLE_KIT_STATUS_IS_(CHECK, result_.code() == (code_wanted), ::heddle::conformance::code_name(code_wanted).c_str(), call)
// Refused as invalid: both codes are accepted where the contract names neither.
#define EXPECT_REFUSED(call)                                                                                                     \
  HEDDLE_KIT_STATUS_IS_(CHECK, result_.code() == HEDDLE_STATUS_INVALID_ARGUMENT || result_.code() == HEDDLE_STATUS_OUT_OF_RANGE, \
                        "INVALID_ARGUMENT or OUT_OF_RANGE", call)

class Instance {
 public:
  Instance();
  explicit Instance(std::vector<OptionValue> options);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  // The caller has destroyed the instance, or wants to leave it alive.
  void forget() { handle = nullptr; }

  Host host;
  heddle_plugin_instance_t* handle = nullptr;
  Tables tables = {};
  heddle_driver_api_t api = {};
};

class Kernels;

// Commands and all memory to which they point.
class List {
 public:
  List& barrier();
  List& copy(heddle_buffer_t* source, uint64_t source_offset, heddle_buffer_t* target, uint64_t target_offset, uint64_t length);
  List& fill(heddle_buffer_t* target, uint64_t offset, uint64_t length, uint64_t pattern, uint32_t pattern_bytes);
  List& update(heddle_buffer_t* target, uint64_t offset, const void* source, uint64_t length);
  List& copy_2d(heddle_binding_t source, heddle_binding_t target, uint64_t source_stride, uint64_t target_stride, uint64_t row_bytes,
                uint64_t rows);
  List& dispatch(const Kernels& kernels, const std::string& entry, std::vector<heddle_binding_t> bindings, std::vector<int64_t> constants,
                 uint32_t x, uint32_t y = 1, uint32_t z = 1);
  List& dispatch(heddle_entry_t* entry, std::vector<heddle_binding_t> bindings, std::vector<int64_t> constants, uint32_t x, uint32_t y = 1,
                 uint32_t z = 1);
  // Overwrites all memory to which the commands point, as a caller may do as soon as submit has returned.
  void scribble();

  std::vector<heddle_command_t> commands;
  std::deque<std::vector<heddle_binding_t>> bindings;
  std::deque<std::vector<int64_t>> constants;
};

class Session {
 public:
  explicit Session(uint32_t ordinal = 0);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  heddle_buffer_t* buffer(uint64_t size, uint32_t memory = 0);
  heddle_timeline_t* timeline(uint64_t initial_value = 0);
  heddle_point_t point(uint64_t value = 1) { return {timeline(), value}; }
  void free(heddle_buffer_t* buffer);
  void destroy(heddle_timeline_t* timeline);
  // A second queue; the case is absent if the device has only one.
  heddle_queue_t* other_queue();
  // The same; the first queue if the device has only one.
  heddle_queue_t* other_queue_or_first();
  heddle_queue_t* try_queue(Result* out_failure);
  void destroy_queue(heddle_queue_t* queue);

  void upload(heddle_buffer_t* buffer, uint64_t offset, const void* bytes, uint64_t length);
  std::vector<char> download(heddle_buffer_t* buffer, uint64_t offset, uint64_t length);
  Result submit(const List& list, const std::vector<heddle_point_t>& waits, const std::vector<heddle_point_t>& signals,
                heddle_queue_t* on = nullptr);
  // Submits and waits; returns the failure of either.
  Result try_run(const List& list, heddle_queue_t* on = nullptr);
  void run(const List& list, heddle_queue_t* on = nullptr);
  Result wait(heddle_point_t point, uint64_t timeout_ns = patience_ns());
  // Waits, and must succeed.
  void reach(heddle_point_t point);
  // Enqueues work of about 30 milliseconds that signals the point. The first call measures how much work that is, at least 15 milliseconds
  // as the machine was then; on a machine with other work that comes and goes it may be less later.
  void keep_busy(heddle_point_t signal, heddle_queue_t* on = nullptr);
  // Doubles the work of later calls of keep_busy, which must have been called; false if that is the most already.
  bool keep_busy_longer();

  // At most `wanted`, limited so that several fit on a small device.
  uint64_t fitting(uint64_t wanted) const;
  uint64_t alignment() const { return description.min_alignment_bytes; }
  uint64_t round_up(uint64_t size) const { return (size + alignment() - 1) / alignment() * alignment(); }
  bool has_memory(uint32_t kinds) const { return (description.memory_kinds & kinds) == kinds; }
  // A memory kind that can be mapped; the case is absent without one.
  uint32_t mappable() const;
  const Tables& tables() const { return instance.tables; }
  heddle_sync_t sync(const std::vector<heddle_point_t>& waits, const std::vector<heddle_point_t>& signals) const;

  Instance instance;
  heddle_device_description_t description = {};
  heddle_device_t* device = nullptr;
  heddle_queue_t* queue = nullptr;

 private:
  std::vector<heddle_queue_t*> queues_;
  std::vector<heddle_buffer_t*> buffers_;
  std::vector<heddle_timeline_t*> timelines_;
  List fills_of_busy(uint32_t fills) const;

  heddle_buffer_t* busy_ = nullptr;
  uint64_t busy_bytes_ = 0;
  uint32_t busy_fills_ = 0;
};

heddle_device_t* open_device(Instance* instance, uint32_t ordinal, Result* out_failure);
heddle_device_description_t describe_device(Instance* instance, uint32_t ordinal);

// The kit's kernels, in a format that the device runs; the case is absent if there is none.
class Kernels {
 public:
  explicit Kernels(Session* session);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  // The case is absent without that entry.
  heddle_entry_t* entry(const std::string& name) const;
  const KernelSet& set() const { return *set_; }
  // Parameters of the set's entries, in order.
  static std::vector<heddle_entry_params_t> params_of(const KernelSet& set);
  static heddle_executable_params_t executable_of(const KernelSet& set, const std::vector<heddle_entry_params_t>& entries);
  // The first set for which the device returns a rank; NULL if there is none.
  static const KernelSet* choose(Session* session);
  uint32_t groups_of(uint64_t elements) const {
    return static_cast<uint32_t>((elements + set_->elements_per_workgroup - 1) / set_->elements_per_workgroup);
  }
  // At most `wanted`, limited to what `add` can do in one row of the device's grid.
  uint64_t fitting(uint64_t wanted) const;
  heddle_executable_t* executable = nullptr;

 private:
  Session* session_;
  const KernelSet* set_;
};

// The sets that are built into the kit.
const std::vector<KernelSet>& known_kernels();

// `life`, repeated for as long as the budget lasts, must leave no descriptor, thread, mapping or memory behind: at most 8 MiB of it.
void expect_no_growth(const char* what, int rounds, uint64_t budget_ns, const std::function<void()>& life);

// An open file with these contents, in $TMPDIR. Removed with the object; if the case ends before, by the parent process.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<char>& contents);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  int descriptor = -1;
  std::string path;
};

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_SESSION_H_
