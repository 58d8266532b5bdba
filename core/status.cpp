// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statuses: one allocation each, which includes the text, a reference count, and payloads in an append-only list, so that borrowed payloads
// stay valid. Called from every thread.
#include "core/status.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

struct Payload {
  Payload* next;
  uint64_t key_size;
  uint64_t value_size;
  char* text() { return reinterpret_cast<char*>(this + 1); }
};

}  // namespace

struct heddle_status {
  std::atomic<uint32_t> references;
  heddle_status_code_t code;
  int64_t native_code;
  uint64_t message_size;
  uint64_t domain_size;
  std::atomic<Payload*> payloads;
  const char* text;  // message, then domain
};

namespace {

constexpr char kOutOfMemoryText[] = "host: creating a status failed: out of memory; free memory and try again [HD-S-01]";
// Never freed and never counted.
constinit heddle_status out_of_memory{1, HEDDLE_STATUS_RESOURCE_EXHAUSTED, 0, sizeof(kOutOfMemoryText) - 1, 0, nullptr, kOutOfMemoryText};

}  // namespace

namespace heddle {

heddle_status_t* status_create(heddle_status_code_t code, std::string_view message, std::string_view domain, int64_t native_code) noexcept {
  if (code == HEDDLE_STATUS_OK) code = HEDDLE_STATUS_UNKNOWN;  // a status object is a failure: success is NULL
  size_t size;
  if (__builtin_add_overflow(message.size(), domain.size(), &size) || __builtin_add_overflow(size, sizeof(heddle_status), &size)) {
    return &out_of_memory;
  }
  void* memory = std::malloc(size);
  if (!memory) return &out_of_memory;
  char* text = static_cast<char*>(memory) + sizeof(heddle_status);
  if (!message.empty()) std::memcpy(text, message.data(), message.size());
  if (!domain.empty()) std::memcpy(text + message.size(), domain.data(), domain.size());
  return new (memory) heddle_status{1, code, native_code, message.size(), domain.size(), nullptr, text};
}

heddle_status_t* status_clone(const heddle_status_t* status) noexcept {
  auto* shared = const_cast<heddle_status_t*>(status);
  if (shared && shared != &out_of_memory) shared->references.fetch_add(1, std::memory_order_relaxed);
  return shared;
}

void status_set_payload(heddle_status_t* status, std::string_view key, std::string_view value) noexcept {
  if (!status || status == &out_of_memory) return;
  size_t size;
  if (__builtin_add_overflow(key.size(), value.size(), &size) || __builtin_add_overflow(size, sizeof(Payload), &size)) return;
  void* memory = std::malloc(size);
  if (!memory) return;  // losing a payload must not lose the status
  auto* payload = new (memory) Payload{nullptr, key.size(), value.size()};
  if (!key.empty()) std::memcpy(payload->text(), key.data(), key.size());
  if (!value.empty()) std::memcpy(payload->text() + key.size(), value.data(), value.size());
  payload->next = status->payloads.load(std::memory_order_relaxed);
  while (!status->payloads.compare_exchange_weak(payload->next, payload, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

Status error_v(heddle_status_code_t code, fmt::string_view format, fmt::format_args arguments) noexcept {
  try {
    fmt::memory_buffer text;
    fmt::detail::vformat_to(text, format, arguments);
    return Status(code, std::string_view(text.data(), text.size()));
  } catch (const std::bad_alloc&) {
    return Status(&out_of_memory);
  } catch (...) {  // a format that does not match its arguments: a bug, but the failure itself must be returned
    return Status(code, std::string_view(format.data(), format.size()));
  }
}

namespace {

// The payload that a look-up returns: the newest of several under one key, which comes first.
template <typename Function>
void for_each_payload(const heddle_status_t* status, Function function) {
  Payload* const newest = status->payloads.load(std::memory_order_acquire);
  for (Payload* p = newest; p; p = p->next) {
    const std::string_view key(p->text(), p->key_size);
    Payload* newer = newest;
    while (newer != p && std::string_view(newer->text(), newer->key_size) != key) newer = newer->next;
    if (newer == p) function(key, std::string_view(p->text() + p->key_size, p->value_size));
  }
}

}  // namespace

Status wrap(Status&& status, std::string_view context) noexcept {
  if (status.ok()) return std::move(status);
  try {
    std::string text;
    text.reserve(context.size() + 2 + status.message().size());
    text.append(context).append(": ").append(status.message());
    Status wrapped(status_create(status.code(), text, view(heddle_status_domain(status.get())), heddle_status_native_code(status.get())));
    for_each_payload(status.get(), [&](std::string_view key, std::string_view value) { wrapped = std::move(wrapped).payload(key, value); });
    return wrapped;
  } catch (...) {
    return std::move(status);
  }
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(view(heddle_status_code_name(code()))).append(": ").append(message());
}

}  // namespace heddle

extern "C" {

heddle_status_code_t heddle_status_code(const heddle_status_t* status) {
  return status ? status->code : HEDDLE_STATUS_OK;
}

heddle_string_t heddle_status_message(const heddle_status_t* status) {
  return status ? heddle_string_t{status->text, status->message_size} : heddle_string_t{"", 0};
}

heddle_string_t heddle_status_domain(const heddle_status_t* status) {
  return status ? heddle_string_t{status->text + status->message_size, status->domain_size} : heddle_string_t{"", 0};
}

int64_t heddle_status_native_code(const heddle_status_t* status) {
  return status ? status->native_code : 0;
}

heddle_string_t heddle_status_payload(const heddle_status_t* status, heddle_string_t key) {
  if (status) {
    for (Payload* p = status->payloads.load(std::memory_order_acquire); p; p = p->next) {
      if (std::string_view(p->text(), p->key_size) == heddle::view(key)) return {p->text() + p->key_size, p->value_size};
    }
  }
  return {"", 0};
}

heddle_string_t heddle_status_code_name(heddle_status_code_t code) {
  static constexpr std::string_view kNames[] = {
      "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED", "DEVICE_LOST"};
  constexpr uint32_t kCount = sizeof(kNames) / sizeof(kNames[0]);
  return heddle::to_c(code < kCount ? kNames[code] : std::string_view("UNKNOWN_CODE"));
}

heddle_status_t* heddle_status_create(heddle_status_code_t code, heddle_string_t message) {
  return code == HEDDLE_STATUS_OK ? nullptr : heddle::status_create(code, heddle::view(message));
}

void heddle_status_free(heddle_status_t* status) {
  if (!status || status == &out_of_memory) return;
  if (status->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (Payload* p = status->payloads.load(std::memory_order_acquire); p;) {
    Payload* next = p->next;
    std::free(p);
    p = next;
  }
  status->~heddle_status();
  std::free(status);
}

}  // extern "C"
