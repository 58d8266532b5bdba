// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Findings leave as lines, one write each, so that a crash right after loses none: "fail TEXT", "absent TEXT", "done".
#include "case.h"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace heddle::conformance {
namespace {

int findings = -1;
std::atomic<uint32_t> failures{0};
std::mt19937_64 numbers;

void say(const char* word, const char* format, va_list arguments) {
  char line[1500];
  size_t used = static_cast<size_t>(std::snprintf(line, sizeof line, "%s ", word));
  const int written = std::vsnprintf(line + used, sizeof line - used - 1, format, arguments);
  if (written > 0) used += std::min(static_cast<size_t>(written), sizeof line - used - 2);
  for (size_t i = 0; i < used; ++i) {
    if (static_cast<unsigned char>(line[i]) < 0x20) line[i] = ' ';
  }
  line[used++] = '\n';
  if (write(findings, line, used) < 0) _exit(3);  // nobody listens any more
}

}  // namespace

void fail(const char* format, ...) {
  if (failures.fetch_add(1) >= 8) return;  // the first ones say enough
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

void absent(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say("absent", format, arguments);
  va_end(arguments);
  _exit(0);
}

bool failed() {
  return failures.load() != 0;
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
}

void end_case() {
  if (write(findings, "done\n", 5) != 5) _exit(3);
}

}  // namespace heddle::conformance
