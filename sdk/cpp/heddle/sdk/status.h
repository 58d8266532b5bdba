// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statuses, sized structs and the guard around every function that a plugin exposes to the host. Used by plugin authors;
// knows nothing of any driver.
#ifndef HEDDLE_SDK_STATUS_H_
#define HEDDLE_SDK_STATUS_H_

#include <cerrno>
#include <cfenv>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "heddle/driver.h"

namespace heddle::sdk {

constexpr heddle_string_t string_of(std::string_view text) noexcept {
  return {text.data(), text.size()};
}
inline std::string_view view_of(heddle_string_t text) noexcept {
  return text.data ? std::string_view(text.data, static_cast<size_t>(text.size)) : std::string_view();
}

// The last part of an id, which begins error texts: "acme.slab" -> "slab".
constexpr const char* short_name(const char* id) noexcept {
  const char* last = id;
  for (const char* at = id; *at; ++at) {
    if (*at == '.') last = at + 1;
  }
  return last;
}

// For %llu.
constexpr unsigned long long number(uint64_t value) noexcept {
  return value;
}

// A status with a printf-formatted message. The text is `<who>: <operation> failed: <cause>; <next step> [RULE]`.
[[gnu::format(printf, 3, 4)]] heddle_status_t* status(const heddle_host_t* host, heddle_status_code_t code, const char* format,
                                                      ...) noexcept;
// The same with domain "errno" and the number; ": <strerror>" is appended to the text.
[[gnu::format(printf, 4, 5)]] heddle_status_t* errno_status(const heddle_host_t* host, heddle_status_code_t code, int error,
                                                            const char* format, ...) noexcept;
// Stores the dispatch site under "region", as driver.h requires for a failing kernel's status.
void set_region(const heddle_host_t* host, heddle_status_t* failure, uint32_t region) noexcept;
heddle_status_t* forked_status(const heddle_host_t* host) noexcept;
heddle_status_t* exhausted_status(const heddle_host_t* host, const char* what) noexcept;
heddle_status_t* tail_status(const heddle_host_t* host, const char* what, uint64_t byte) noexcept;

// Copies a caller's struct: fields that a smaller one lacks are zero; the unknown end of a larger one must be zero (HD-E-04). On
// failure, *out_bad_byte is the first offending byte.
template <class T>
[[nodiscard]] bool read_struct(const T* in, T* out, uint64_t* out_bad_byte) noexcept {
  const uint64_t size = in->struct_size;
  std::memset(out, 0, sizeof(T));
  if (size < sizeof(uint32_t)) {
    *out_bad_byte = 0;
    return false;
  }
  std::memcpy(out, in, size < sizeof(T) ? size : sizeof(T));
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  for (uint64_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      *out_bad_byte = i;
      return false;
    }
  }
  out->struct_size = sizeof(T);
  return true;
}

// Fills in a caller's output struct, at most its struct_size (HD-E-04).
template <class T>
void write_struct(const T& value, T* out) noexcept {
  const uint32_t size = out->struct_size;
  if (size <= sizeof(uint32_t)) return;
  const auto* from = reinterpret_cast<const unsigned char*>(&value);
  auto* to = reinterpret_cast<unsigned char*>(out);
  const size_t end = size < sizeof(T) ? size : sizeof(T);
  std::memcpy(to + sizeof(uint32_t), from + sizeof(uint32_t), end - sizeof(uint32_t));
}

// Preserves the caller's errno and floating-point environment, including exception flags, which vendors' libraries change (HD-T-02).
class EnvironmentKeeper {
 public:
#ifdef __SSE__
  EnvironmentKeeper() noexcept : errno_(errno), control_(__builtin_ia32_stmxcsr()) {}
  ~EnvironmentKeeper() {
    errno = errno_;
    if (__builtin_ia32_stmxcsr() != control_) __builtin_ia32_ldmxcsr(control_);
  }
#else
  EnvironmentKeeper() noexcept : errno_(errno) { std::fegetenv(&control_); }
  ~EnvironmentKeeper() {
    errno = errno_;
    std::fesetenv(&control_);
  }
#endif
  EnvironmentKeeper(const EnvironmentKeeper&) = delete;
  EnvironmentKeeper& operator=(const EnvironmentKeeper&) = delete;

 private:
  int errno_;
#ifdef __SSE__
  unsigned int control_;  // MXCSR
#else
  std::fenv_t control_;
#endif
};

// Preserves only errno, for functions that use no floating point and call nothing that changes its environment: reading that takes as long as an
// atomic operation.
class ErrnoKeeper {
 public:
  ErrnoKeeper() noexcept : errno_(errno) {}
  ~ErrnoKeeper() { errno = errno_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int errno_;
};

// Runs function() with errno and the floating-point environment preserved, not in a forked child, and without exceptions escaping (HD-B-01,
// HD-T-01, HD-T-02).
template <class Keeper = EnvironmentKeeper, class F>
heddle_status_t* guarded(const heddle_host_t* host, const char* what, F&& function) noexcept {
  Keeper keep;
  if (host->is_forked_child(host->self)) [[unlikely]]
    return forked_status(host);
  try {
    return std::forward<F>(function)();
  } catch (const std::bad_alloc&) {
    return exhausted_status(host, what);
  } catch (const std::exception& error) {
    return status(host, HEDDLE_STATUS_INTERNAL, "%s failed: %s", what, error.what());
  } catch (...) {
    return status(host, HEDDLE_STATUS_INTERNAL, "%s failed: an unknown exception", what);
  }
}

// The same for releases: does nothing in a forked child.
template <class Keeper = EnvironmentKeeper, class F>
void guarded_release(const heddle_host_t* host, F&& function) noexcept {
  Keeper keep;
  if (host->is_forked_child(host->self)) return;
  try {
    std::forward<F>(function)();
  } catch (...) {
    host->log(host->self, HEDDLE_LOG_ERROR, string_of("status.h"), 0, string_of("an exception left a release function"));
  }
}

// Creates an object in the host's memory; NULL when exhausted.
template <class T, class... Args>
T* make(const heddle_host_t* host, Args&&... args) {
  void* memory = host->memory_allocate(host->self, sizeof(T), alignof(T) < 8 ? 8 : alignof(T));
  if (!memory) throw std::bad_alloc();
  try {
    return new (memory) T(std::forward<Args>(args)...);
  } catch (...) {
    host->memory_free(host->self, memory);
    throw;
  }
}
template <class T>
void unmake(const heddle_host_t* host, T* object) noexcept {
  if (!object) return;
  object->~T();
  host->memory_free(host->self, object);
}
template <class T>
struct Unmaker {
  const heddle_host_t* host;
  void operator()(T* object) const noexcept { unmake(host, object); }
};
// Owns what make() has made: Made<T>(make<T>(host, ...), {host}).
template <class T>
using Made = std::unique_ptr<T, Unmaker<T>>;

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_STATUS_H_
