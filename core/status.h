// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statuses in C++: the owning wrapper Status, Result<T>, and error texts built with fmt.
// Used by every directory of core and by heddle-probe; knows nothing of plugins or configuration.
#ifndef HEDDLE_CORE_STATUS_H_
#define HEDDLE_CORE_STATUS_H_

#include <fmt/core.h>

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "heddle/status.h"

namespace heddle {

inline std::string_view view(heddle_string_t text) {
  return {text.data ? text.data : "", text.data ? text.size : 0};
}
inline heddle_string_t to_c(std::string_view text) {
  return {text.data(), text.size()};
}

// Creates a status with a copy of its text; never NULL: if memory is exhausted, it is a static RESOURCE_EXHAUSTED (HD-S-01).
[[gnu::cold]] heddle_status_t* status_create(heddle_status_code_t code, std::string_view message, std::string_view domain = {},
                                             int64_t native_code = 0) noexcept;
// Adds a reference; NULL gives NULL.
heddle_status_t* status_clone(const heddle_status_t* status) noexcept;
// Stores value under key; the last of several under one key is found. Earlier borrowed payloads stay valid.
void status_set_payload(heddle_status_t* status, std::string_view key, std::string_view value) noexcept;

// Failures are handled in code of their own, separate from the code of the success path: a call touches fewer lines of code.
extern "C" [[gnu::cold]] void heddle_status_free(heddle_status_t* status);

// Owns one reference to a status; empty is success.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // Takes ownership; NULL is success.
  explicit Status(heddle_status_t* owned) : status_(owned) {}
  Status(heddle_status_code_t code, std::string_view message) : status_(status_create(code, message)) {}
  Status(Status&& other) noexcept : status_(std::exchange(other.status_, nullptr)) {}
  Status& operator=(Status&& other) noexcept {
    if (this != &other) {
      if (status_) [[unlikely]]
        heddle_status_free(status_);
      status_ = std::exchange(other.status_, nullptr);
    }
    return *this;
  }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  // Checked inline: a call creates a dozen statuses that are OK.
  ~Status() {
    if (status_) [[unlikely]]
      heddle_status_free(status_);
  }

  bool ok() const { return status_ == nullptr; }
  heddle_status_code_t code() const { return heddle_status_code(status_); }
  std::string_view message() const { return view(heddle_status_message(status_)); }
  const heddle_status_t* get() const { return status_; }
  // Gives up ownership, for returning across the C ABI.
  heddle_status_t* release() { return std::exchange(status_, nullptr); }
  Status clone() const { return Status(status_clone(status_)); }
  Status&& payload(std::string_view key, std::string_view value) && {
    if (status_) status_set_payload(status_, key, value);
    return std::move(*this);
  }
  // "NOT_FOUND: text", or "OK".
  std::string to_string() const;

 private:
  heddle_status_t* status_ = nullptr;
};

// An error status with a formatted text: error(HEDDLE_STATUS_NOT_FOUND, "host: device {} ...", alias).
// Never throws: if formatting runs out of memory, it returns the static status.
[[gnu::cold]] Status error_v(heddle_status_code_t code, fmt::string_view format, fmt::format_args arguments) noexcept;
template <typename... Arguments>
Status error(heddle_status_code_t code, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return error_v(code, format, fmt::make_format_args(arguments...));
}
// The same code, domain and payloads, with `context: ` prepended to the text: one layer adds its facts.
[[gnu::cold]] Status wrap(Status&& status, std::string_view context) noexcept;

// A value, or the status that tells why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                                          // NOLINT: implicit on purpose
  Result(Status&& status) : status_(std::move(status)) { assert(!status_.ok() && "OK needs a value"); }  // NOLINT
  Result(Result&&) = default;
  Result& operator=(Result&&) = default;

  bool ok() const { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Status& status() const& { return status_; }
  Status&& status() && { return std::move(status_); }
  Status take_status() { return std::move(status_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace heddle

// Returns the status of `expression` from the function unless it is OK. Works for Status and, through the C function pointers of a table, for
// heddle_status_t* wrapped as Status(call).
#define HEDDLE_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                               \
    if (::heddle::Status heddle_status_ = (expression); !heddle_status_.ok()) return heddle_status_; \
  } while (0)

#endif  // HEDDLE_CORE_STATUS_H_
