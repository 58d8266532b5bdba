// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a case of the kit is and how it says what it found. A case runs alone in a child process: a requirement that does not hold ends that
// process, so that no case unwinds through a plugin in a state that nobody knows. Knows nothing of plugins.
#ifndef HEDDLE_CONFORMANCE_CASE_H_
#define HEDDLE_CONFORMANCE_CASE_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::conformance {

enum class Kind { kAny, kDriver, kAllocator, kLibrary };

struct Case {
  const char* name;       // area.behaviour
  const char* behaviour;  // one sentence: what must hold
  void (*run)();
  Kind kind;
  bool fresh = false;  // the plugin has done nothing but its entry in this process before; else one life is over when the case begins
  bool twice =
      false;  // what it leaves behind counts the second time: it uses another plugin, whose vendor's library opens things once and keeps them
};

// One function per file of cases.
using Cases = std::vector<Case>;
void add_manifest_cases(Cases* out);
void add_plugin_cases(Cases* out);
void add_device_cases(Cases* out);
void add_buffer_cases(Cases* out);
void add_transfer_cases(Cases* out);
void add_param_io_cases(Cases* out);
void add_dispatch_cases(Cases* out);
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

// Only about plugins whose manifest says load.unloadable.
inline constexpr const char* kUnloadCases[] = {"lifetime.unload", "lifetime.unload_last"};

// ---- used inside a case, from any thread

// Notes a failure and goes on.
[[gnu::format(printf, 1, 2)]] void fail(const char* format, ...);
// Notes a failure, and the case ends here.
[[noreturn, gnu::format(printf, 1, 2)]] void stop(const char* format, ...);
// The plugin does not offer what this case is about, and may: the case ends here and is counted as neither passed nor failed.
[[noreturn, gnu::format(printf, 1, 2)]] void absent(const char* format, ...);
// What a report may want to know, shown where the case passes.
[[gnu::format(printf, 1, 2)]] void note(const char* format, ...);
bool failed();
// The command line or a file beside the plugin does not fit the plugin: nothing was found out, and the kit ends with exit code 2.
[[noreturn, gnu::format(printf, 1, 2)]] void misuse(const char* format, ...);

// What a plugin says, between quotes, for a text of the kit: bytes that would move a cursor, end the text or begin a terminal's command are
// written as \0 and \x1b, and what holds any has its size behind it.
std::string shown(std::string_view text);

// False for text with bytes that `shown` escapes.
bool is_plain(std::string_view text);

// Says which call of the plugin this thread is in, for as long as it lives; a crash or an exit meanwhile is reported with it.
class Inside {
 public:
  explicit Inside(const char* call);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const char* before_;
};
// The last call of the plugin that this thread made.
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

// Where findings go, and what the numbers start from.
void begin_case(int findings_descriptor, uint64_t seed, const std::string& name);
void end_case();

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_CASE_H_
