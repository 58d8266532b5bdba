// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How sdk/module reports expected failure: a code of heddle/status.h and a message. The core and the compiler turn it into their own
// status; this room knows neither of them, and no exception of its functions reaches a caller.
#pragma once

#include <cstdint>
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

// Empty is success.
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

namespace detail {
inline void append(std::string& out, std::string_view text) {
  out.append(text);
}
template <typename T>
  requires std::is_integral_v<T>
void append(std::string& out, T value) {
  out.append(std::to_string(value));
}
}  // namespace detail

// The parts, one after the other; integers in decimal.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

// Text in single quotes, cut at 200 bytes so that a hostile name does not flood a terminal; control characters become '?'.
inline std::string in_quotes(std::string_view text) {
  std::string out = "'";
  out.append(one_line(text.substr(0, 200)));
  out.append(text.size() > 200 ? "...'" : "'");
  return out;
}

}  // namespace heddle::module
