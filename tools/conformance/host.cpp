// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See host.h.
#include "host.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "case.h"
#include "plugin.h"

// The kit's definition of the opaque type. `alive` detects a status that is used after it was freed.
struct heddle_status {
  uint32_t alive = 0x57a705u;
  std::atomic<int> references{1};
  heddle_status_code_t code = HEDDLE_STATUS_OK;
  std::string message;
  std::map<std::string, std::string> payloads;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// From sanitizer/allocator_interface.h, which GCC does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* memory);
#endif

namespace heddle::conformance {
namespace {

std::atomic<int64_t> statuses{0};

heddle_status_t* checked(const heddle_status_t* status) {
  if (status && status->alive != 0x57a705u) stop("a status was used after it was freed [HD-S-01]");
  return const_cast<heddle_status_t*>(status);
}

void free_status(heddle_status_t* status) {
  if (!checked(status) || --status->references != 0) return;
  --statuses;
  status->alive = 0;
  delete status;
}

uint64_t count_entries(const char* folder) {
  DIR* open = opendir(folder);
  if (!open) return 0;
  uint64_t count = 0;
  while (const dirent* entry = readdir(open)) count += entry->d_name[0] != '.';
  closedir(open);
  return count;
}

// ThreadSanitizer maps a trace for every thread that ever ran, at these addresses on x86-64.
bool is_of_sanitizer([[maybe_unused]] unsigned long long address) {
#if defined(__SANITIZE_THREAD__)
  return address >= 0x600000000000 && address < 0x620000000000;
#else
  return false;
#endif
}

// The number after `key` in /proc/self/status, in bytes.
uint64_t status_bytes(const char* key) {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  char line[256];
  unsigned long long kib = 0;
  while (file && std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, key, std::strlen(key)) == 0) std::sscanf(line + std::strlen(key), ": %llu", &kib);
  }
  if (file) std::fclose(file);
  return kib * 1024;
}

}  // namespace

std::string code_name(heddle_status_code_t code) {
  static const char* const names[] = {"OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
                                      "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
                                      "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
                                      "DATA_LOSS", "UNAUTHENTICATED", "DEVICE_LOST"};
  return code < sizeof names / sizeof *names ? names[code] : "code " + std::to_string(code);
}

heddle_status_t* make_status(heddle_status_code_t code, std::string_view message) {
  auto* status = new heddle_status;
  ++statuses;
  status->code = code;
  status->message = message;
  return status;
}

namespace {

// The C library's allocator may try to open system files that do not exist. Host functions must not change the plugin's errno.
class KeepErrno {
 public:
  ~KeepErrno() { errno = saved_; }

 private:
  const int saved_ = errno;
};

}  // namespace

Host::Host(std::vector<OptionValue> options) : options_(std::move(options)) {
  table_.struct_size = sizeof table_;
  table_.abi_minor = plugin().chosen_minor;
  table_.self = this;
  table_.memory_allocate = [](void* self, uint64_t size, uint64_t alignment) {
    const KeepErrno keep;
    return from(self)->allocate(size, alignment);
  };
  table_.memory_free = [](void* self, void* memory) {
    if (memory) --from(self)->live_memory_;
    std::free(memory);
  };
  table_.status_create = [](void* self, heddle_status_code_t code, heddle_string_t, int64_t, heddle_string_t message) {
    const KeepErrno keep;
    ++from(self)->statuses_made_;
    if (code == HEDDLE_STATUS_OK || code > HEDDLE_STATUS_DEVICE_LOST) fail("a status was created with code %u [HD-S-01]", code);
    return make_status(code, std::string_view(message.data, message.size));
  };
  table_.status_set_payload = [](void*, heddle_status_t* status, heddle_string_t key, heddle_string_t value) {
    const KeepErrno keep;
    checked(status)->payloads[text_of(key)] = text_of(value);
  };
  table_.status_clone = [](void*, const heddle_status_t* status) {
    heddle_status_t* same = checked(status);
    if (same) ++same->references;
    return same;
  };
  table_.status_code = [](void*, const heddle_status_t* status) { return status ? checked(status)->code : HEDDLE_STATUS_OK; };
  table_.status_message = [](void*, const heddle_status_t* status) {
    return status ? string_of(checked(status)->message) : heddle_string_t{nullptr, 0};
  };
  table_.status_free = [](void*, heddle_status_t* status) { free_status(status); };
  table_.log_level = [](void*) -> uint32_t { return HEDDLE_LOG_TRACE; };
  table_.log = [](void*, uint32_t, heddle_string_t, uint32_t, heddle_string_t) {};
  table_.trace_begin = [](void*, heddle_string_t, heddle_string_t) {};
  table_.trace_end = [](void*) {};
  table_.trace_counter = [](void*, heddle_string_t, int64_t) {};
  table_.execute = [](void* self, void (*function)(void*), void* context) -> heddle_status_t* {
    const KeepErrno keep;
    sigset_t all, before;  // a host's threads block signals, too
    sigfillset(&all);
    std::lock_guard<std::mutex> lock(from(self)->mutex_);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    from(self)->threads_.emplace_back(function, context);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return nullptr;
  };
  table_.option = [](void* self, heddle_string_t name, heddle_option_t* out) -> heddle_status_t* {
    const KeepErrno keep;
    heddle_option_t value = {};
    heddle_status_t* missing = nullptr;
    const std::vector<OptionValue>& options = from(self)->options_;
    const auto found =
        std::find_if(options.begin(), options.end(), [&](const OptionValue& option) { return option.name == text_of(name); });
    if (found != options.end()) {
      value = {0, found->kind, string_of(found->name), found->int_value, found->float_value, string_of(found->string_value)};
    } else {
      missing = make_status(HEDDLE_STATUS_NOT_FOUND, "the manifest does not declare option '" + text_of(name) + "'");
    }
    value.struct_size = out->struct_size;
    std::memcpy(out, &value, std::min<size_t>(out->struct_size, sizeof value));
    return missing;
  };
  table_.clock_ns = [](void*) { return now_ns(); };
  table_.is_forked_child = [](void* self) -> uint32_t { return getpid() != from(self)->process_; };
}

Host::~Host() {
  for (std::thread& thread : threads_) thread.join();
}

void* Host::allocate(uint64_t size, uint64_t alignment) {
  ++allocations_;
  if (alignment < 8 || (alignment & (alignment - 1))) {
    fail("host memory was requested with alignment %llu, which is not a power of two of at least 8", number(alignment));
    return nullptr;
  }
  if (fail_after_.load() >= 0 && fail_after_.fetch_sub(1) <= 0) {
    ++allocations_failed_;
    if (fail_more_.fetch_sub(1) > 0) fail_after_.store(0);
    return nullptr;
  }
  if (size > PTRDIFF_MAX - alignment) return nullptr;
  void* memory = std::aligned_alloc(alignment, (std::max<uint64_t>(size, 1) + alignment - 1) / alignment * alignment);
  if (memory) {
    ++live_memory_;
    std::memset(memory, 0xa5, size);  // not zero, since zeroed memory is not guaranteed
  }
  return memory;
}

void Host::fail_allocation(int64_t after, int64_t more) {
  fail_more_.store(more);
  allocations_failed_.store(0);
  fail_after_.store(after);
}

int64_t Host::live_statuses() {
  return statuses.load();
}

Result::~Result() {
  free_status(status_);
}
heddle_status_code_t Result::code() const {
  return status_ ? checked(status_)->code : HEDDLE_STATUS_OK;
}
std::string Result::message() const {
  return status_ ? checked(status_)->message : std::string();
}
std::string Result::payload(const std::string& key) const {
  if (!status_) return {};
  const auto found = checked(status_)->payloads.find(key);
  return found == status_->payloads.end() ? std::string() : found->second;
}
std::string Result::text() const {
  return ok() ? "success" : code_name(code()) + " (" + message() + ")";
}

uint64_t count_descriptors() {
  return count_entries("/proc/self/fd");
}
uint64_t count_threads() {
  return count_entries("/proc/self/task");
}
std::set<std::string> thread_ids() {
  std::set<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(entry.path().filename().string());
  return ids;
}
uint64_t blocked_signals(const std::string& thread_id) {
  std::ifstream status("/proc/self/task/" + thread_id + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("SigBlk:", 0) == 0) return std::stoull(line.substr(7), nullptr, 16);
  }
  return UINT64_MAX;
}
uint64_t count_mappings() {
  std::FILE* file = std::fopen("/proc/self/maps", "re");
  uint64_t count = 0;
  for (unsigned long long start = 0; file && std::fscanf(file, "%llx%*[^\n]", &start) == 1;) count += !is_of_sanitizer(start);
  if (file) std::fclose(file);
  return count;
}
uint64_t address_space_bytes() {
  return status_bytes("VmSize");
}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// mallinfo2 returns zeros under a sanitizer, and the sanitizer's own count includes freed memory.
int64_t heap_bytes() {
  static std::atomic<int64_t> bytes{0};
  [[maybe_unused]] static const int hooks = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, size_t size) { bytes += static_cast<int64_t>(size); },
      [](const volatile void* memory) { bytes -= static_cast<int64_t>(__sanitizer_get_allocated_size(memory)); });
  return bytes;
}
#else
int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}
#endif
uint64_t peak_resident_bytes() {
  return status_bytes("VmHWM");
}
uint64_t resident_bytes() {
  return status_bytes("VmRSS");
}
void reset_peak_memory() {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file >= 0 && write(file, "5", 1) != 1) fail("resetting the peak of the resident memory failed");
  if (file >= 0) close(file);
}
uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace heddle::conformance
