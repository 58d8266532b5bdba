// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How sdk/module reports expected failures: a code of heddle/status.h and a message. The core and the compiler convert it to their own
// status; this code knows neither of them, and its functions let no exception escape.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "heddle/status.h"
#include "sdk/module/printable.h"

namespace heddle::module {

struct Error {
  heddle_status_code_t code;
  std::string message;
};

// Empty means success.
using Status = std::optional<Error>;

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: a value is a result
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: and so is an error
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

// A text, or an integer in decimal.
class Part {
 public:
  template <typename T>
    requires std::is_convertible_v<const T&, std::string_view>
  Part(const T& text) : text_(text) {}  // NOLINT: implicit on purpose
  template <typename T>
    requires std::is_integral_v<T>
  Part(T value)  // NOLINT: implicit on purpose
      : magnitude_(value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)),
        kind_(value < 0 ? kNegative : kPositive) {}
  void append_to(std::string& out) const {
    if (kind_ == kNegative) out.push_back('-');
    out.append(kind_ == kText ? std::string(text_) : std::to_string(magnitude_));
  }

 private:
  enum Kind : uint8_t { kText, kPositive, kNegative };
  std::string_view text_;
  uint64_t magnitude_ = 0;
  Kind kind_ = kText;
};

// One function for all calls: separate code for each list of types would be a tenth of the library.
[[gnu::noinline]] inline std::string join(std::initializer_list<Part> parts) {
  std::string out;
  for (const Part& part : parts) part.append_to(out);
  return out;
}

// The parts, one after the other.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  return join({Part(parts)...});
}

// Text in single quotes, truncated to 200 bytes so that a hostile name does not flood a terminal; control characters become '?'.
inline std::string in_quotes(std::string_view text) {
  std::string out = "'";
  out.append(one_line(text.substr(0, 200)));
  out.append(text.size() > 200 ? "...'" : "'");
  return out;
}

// "No such file or directory; check the path": why a file cannot be opened for reading, and what to do about it.
[[gnu::noinline]] inline std::string why_not_opened(int error_number) {
  std::string_view next = "; check the path";
  if (error_number == EACCES || error_number == EPERM) next = "; give this user the right to read it";
  if (error_number == EBADF) next = "; pass a descriptor that is open for reading";
  return concat(std::strerror(error_number), next);
}

// "No space left on device; free space, or choose a directory on another disk": the same for a file that cannot be written.
[[gnu::noinline]] inline std::string why_not_written(int error_number) {
  std::string_view next = "check the directory and its free space";
  if (error_number == ENOENT) next = "create the directory first";
  if (error_number == ENOTDIR) next = "a directory in its path is a file: choose another path";
  if (error_number == EISDIR) next = "name a file in it";
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS) next = "choose a directory that this user may write to";
  if (error_number == ENOSPC || error_number == EDQUOT) next = "free space, or choose a directory on another disk";
  if (error_number == EFBIG) next = "raise the limit for the size of files, such as with ulimit -f";
  return concat(std::strerror(error_number), "; ", next);
}

}  // namespace heddle::module
