// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Findings are printed as lines, one write each, so that a crash right afterwards loses none: "fail TEXT", "absent TEXT", "note TEXT", "misuse
// TEXT", "ends TEXT" before an expected end of the process, "file NAME" for a temporary file, "done", and, from a process that ends inside a call of the
// plugin, "inside CALL".
#include "case.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sdk/module/printable.h"

namespace heddle::conformance {
namespace {

int findings = -1;
std::atomic<uint32_t> failures{0};
std::mt19937_64 numbers;

thread_local const char* current_call = nullptr;
thread_local const char* last = "the plugin";

void say(const char* word, const char* format, va_list arguments) {
  char text[1400];
  const int written = std::vsnprintf(text, sizeof text, format, arguments);
  std::string line = std::string(word) + " ";
  line += module::escaped({text, written > 0 ? std::min(static_cast<size_t>(written), sizeof text - 1) : 0});
  line += '\n';
  if (write(findings, line.data(), line.size()) < 0) _exit(3);  // the parent no longer listens
}

// ---- where a process ends. Async-signal-safe: it only writes.

constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
struct sigaction before[sizeof kFatal / sizeof *kFatal];

void note_where() {
  const char* where = current_call;
  if (!where && syscall(SYS_gettid) != getpid()) where = "no call, in a thread of the plugin";
  if (!where) return;
  char line[200] = "inside ";
  size_t size = 7;
  while (*where && size < sizeof line - 1) line[size++] = *where++;
  line[size++] = '\n';
  if (write(findings, line, size) < 0) return;  // the process ends anyway
}

// The previous handler, a sanitizer's or the default, gets the same signal: the instruction runs again, or the signal is sent again.
void on_fatal_signal(int signal, siginfo_t* info, void*) {
  note_where();
  for (size_t i = 0; i < sizeof kFatal / sizeof *kFatal; ++i) {
    if (kFatal[i] == signal) sigaction(signal, &before[i], nullptr);
  }
  if (info->si_code <= 0) raise(signal);
}

void watch_the_end() {
  static char stack[64 << 10];  // for a stack overflow
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_fatal_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof kFatal / sizeof *kFatal; ++i) sigaction(kFatal[i], &action, &before[i]);
  std::atexit([] {
    if (current_call) note_where();
  });
}

}  // namespace

void fail(const char* format, ...) {
  if (failures.fetch_add(1) >= 8) return;  // the first ones are sufficient
  va_list arguments;
  va_start(arguments, format);
  say("fail", format, arguments);
  va_end(arguments);
}

void stop(const char* format, ...) {
  failures.fetch_add(1);
  va_list arguments;
  va_start(arguments, format);
  say("fail", format, arguments);
  va_end(arguments);
  _exit(1);
}

void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say("note", format, arguments);
  va_end(arguments);
}

void expect_end(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say("ends", format, arguments);
  va_end(arguments);
}

void absent(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say("absent", format, arguments);
  va_end(arguments);
  _exit(0);
}

void misuse(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say("misuse", format, arguments);
  va_end(arguments);
  _exit(2);
}

std::string temporary_path(const std::string& name) {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder && *folder ? folder : "/tmp") + "/" + name;
}

void made_file(const std::string& name) {
  const std::string line = "file " + name + "\n";
  if (write(findings, line.data(), line.size()) < 0) _exit(3);
}

bool failed() {
  return failures.load() != 0;
}

bool is_plain(std::string_view text) {
  return module::escaped(text) == text;
}

std::string shown(std::string_view text) {
  std::string out = "'" + module::escaped(text.substr(0, 256));
  out += text.size() > 256 ? "...'" : "'";
  return is_plain(text) ? out : out + " (" + std::to_string(text.size()) + " bytes)";
}

Inside::Inside(const char* call) : before_(current_call) {
  current_call = last = call;
}

Inside::~Inside() {
  current_call = before_;
}

const char* last_call() {
  return last;
}

std::mt19937_64& random_numbers() {
  return numbers;
}

std::vector<char> random_bytes(uint64_t size) {
  std::vector<char> bytes(size);
  for (uint64_t i = 0; i < size; i += 8) {
    const uint64_t word = numbers();
    std::memcpy(bytes.data() + i, &word, std::min<uint64_t>(8, size - i));
  }
  return bytes;
}

void begin_case(int findings_descriptor, uint64_t seed, const std::string& name) {
  findings = findings_descriptor;
  uint64_t hash = 1469598103934665603u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  numbers.seed(seed ^ hash);
  watch_the_end();
}

void end_case() {
  if (write(findings, "done\n", 5) != 5) _exit(3);
}

}  // namespace heddle::conformance
