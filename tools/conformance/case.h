// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A case of the kit, and how it reports findings. A case runs alone in a child process: a requirement that does not hold ends the process, so that
// no case unwinds through a plugin in an unknown state. Knows nothing of plugins.
#ifndef HEDDLE_CONFORMANCE_CASE_H_
#define HEDDLE_CONFORMANCE_CASE_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::conformance {

enum class Kind { kAny, kDriver, kAllocator, kLibrary, kTarget };

struct Case {
  const char* name;       // area.behaviour
  const char* behaviour;  // one sentence: the required behavior
  void (*run)();
  Kind kind;
  bool fresh = false;  // only the plugin's entry has run in this process before; otherwise one complete use precedes the case
  bool twice =
      false;  // leftovers are counted after a second run: it uses another plugin, whose vendor library opens resources once and keeps them
};

// One function per file of cases.
using Cases = std::vector<Case>;
void add_manifest_cases(Cases* out);
void add_plugin_cases(Cases* out);
void add_device_cases(Cases* out);
void add_buffer_cases(Cases* out);
void add_transfer_cases(Cases* out);
void add_param_io_cases(Cases* out);
void add_blocks_cases(Cases* out);
void add_dispatch_cases(Cases* out);
void add_portable_cases(Cases* out);
void add_recording_cases(Cases* out);
void add_timeline_cases(Cases* out);
void add_failure_cases(Cases* out);
void add_lifetime_cases(Cases* out);
void add_concurrency_cases(Cases* out);
void add_allocator_cases(Cases* out);
void add_allocator_order_cases(Cases* out);
void add_allocator_usage_cases(Cases* out);
void add_library_cases(Cases* out);
void add_library_run_cases(Cases* out);
void add_operation_cases(Cases* out);
void add_target_cases(Cases* out);
void add_target_input_cases(Cases* out);

// Only for plugins whose manifest sets load.unloadable.
inline constexpr const char* kUnloadCases[] = {"lifetime.unload", "lifetime.unload_last"};

// ---- used inside a case, from any thread

// Records a failure and continues.
[[gnu::format(printf, 1, 2)]] void fail(const char* format, ...);
// Records a failure and ends the case.
[[noreturn, gnu::format(printf, 1, 2)]] void stop(const char* format, ...);
// The plugin does not offer the subject of this case, which is optional: ends the case, which counts as neither passed nor failed.
[[noreturn, gnu::format(printf, 1, 2)]] void absent(const char* format, ...);
// The process is about to end, by abort() or exit() in code of the vendor, as the driver says of itself: if it does, the case is absent with this text.
// If it does not, the case has to fail.
[[gnu::format(printf, 1, 2)]] void expect_end(const char* format, ...);
// Information for a report, shown if the case passes.
[[gnu::format(printf, 1, 2)]] void note(const char* format, ...);
bool failed();
// The command line or a file in the plugin's directory does not match the plugin: nothing is tested, and the kit ends with exit code 2.
[[noreturn, gnu::format(printf, 1, 2)]] void misuse(const char* format, ...);

// Files of cases: the path of one in $TMPDIR or /tmp, whose name begins with the prefix. A case tells the parent process which it has made, and the
// parent removes those that are left when the case ends in a failure, a crash or a timeout.
inline constexpr std::string_view kTemporaryPrefix = "heddle-conformance-";
std::string temporary_path(const std::string& name);
void made_file(const std::string& name);

// A plugin's text in quotes, for a text of the kit: bytes that would move a cursor, end the text or begin a terminal command are written as \0 and
// \x1b, and a text with such bytes is followed by its size.
std::string shown(std::string_view text);

// False for text with bytes that `shown` escapes.
bool is_plain(std::string_view text);

// Records the plugin call that this thread is in, for its lifetime; a crash or an exit meanwhile is reported with it.
class Inside {
 public:
  explicit Inside(const char* call);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const char* before_;
};
// The last plugin call that this thread made.
const char* last_call();

#define CHECK(condition, ...)                                   \
  do {                                                          \
    if (!(condition)) ::heddle::conformance::fail(__VA_ARGS__); \
  } while (false)
#define REQUIRE(condition, ...)                                 \
  do {                                                          \
    if (!(condition)) ::heddle::conformance::stop(__VA_ARGS__); \
  } while (false)

// Seeded by --seed and the case's name; for the case's first thread.
std::mt19937_64& random_numbers();
inline uint64_t random_below(uint64_t end) {
  return random_numbers()() % end;
}
std::vector<char> random_bytes(uint64_t size);

inline unsigned long long number(uint64_t value) {
  return value;
}

// ---- used by the runner of cases

// The descriptor for findings, and the seed of the random numbers.
void begin_case(int findings_descriptor, uint64_t seed, const std::string& name);
void end_case();

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_CASE_H_
