// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The system of the stand-in and its agents: the host and some GPUs of gfx90a, which say of themselves what an MI210 says, except that they have no
// images and no cooperative queues.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/hsa/runtime.h"

namespace heddle::hsa {

namespace {

constexpr const char* kIsa = "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-";
constexpr uint64_t kIsaHandle = 0x15a90a;

std::atomic<uint32_t> references{0};

uint64_t number(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == 0) return otherwise;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error != std::errc() || *end != 0) die(std::string(name) + "='" + text + "' is not a number");
  return value;
}

Settings read_settings() {
  Settings s;
  s.seed = number("HEDDLE_HSA_SEED", s.seed);
  s.delay_us = number("HEDDLE_HSA_DELAY_US", s.delay_us);
  s.memory_bytes = number("HEDDLE_HSA_MEMORY_BYTES", s.memory_bytes);
  s.gpus = static_cast<uint32_t>(number("HEDDLE_HSA_GPUS", s.gpus));
  if (s.gpus > 8) die("HEDDLE_HSA_GPUS=" + std::to_string(s.gpus) + ": there can be 8 at most");
  s.large_bar = number("HEDDLE_HSA_LARGE_BAR", 0) != 0;
  s.trace = number("HEDDLE_HSA_TRACE", 0) != 0;
  if (const char* const file = std::getenv("HEDDLE_HSA_STATISTICS"); file != nullptr) s.statistics = file;
  return s;
}

void write_statistics() {
  std::FILE* const file = std::fopen(settings().statistics.c_str(), "a");
  if (file == nullptr) return;
  const Totals& t = totals();
  std::fprintf(file, "pid=%d packets=%llu kernels=%llu instructions=%llu lanes=%llu kernel_ms=%llu copies=%llu copied_bytes=%llu\n",
               static_cast<int>(::getpid()), static_cast<unsigned long long>(t.packets), static_cast<unsigned long long>(t.kernels),
               static_cast<unsigned long long>(t.instructions), static_cast<unsigned long long>(t.lanes),
               static_cast<unsigned long long>(t.kernel_ns / 1000000), static_cast<unsigned long long>(t.copies),
               static_cast<unsigned long long>(t.copied_bytes));
  std::fclose(file);
}

template <class T>
hsa_status_t give(void* value, T what) {
  *static_cast<T*>(value) = what;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t give_text(void* value, const std::string& text, size_t bytes) {
  std::memset(value, 0, bytes);
  std::memcpy(value, text.data(), std::min(text.size(), bytes - 1));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t host_info(int attribute, void* value) {
  switch (attribute) {
    case HSA_AGENT_INFO_NAME:
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      return give_text(value, "host of the stand-in", 64);
    case HSA_AGENT_INFO_VENDOR_NAME:
      return give_text(value, "CPU", 64);
    case HSA_AGENT_INFO_DEVICE:
      return give(value, HSA_DEVICE_TYPE_CPU);
    case HSA_AGENT_INFO_PROFILE:
      return give(value, HSA_PROFILE_FULL);
    case HSA_AGENT_INFO_FEATURE:
      return give<uint32_t>(value, 0);
    case HSA_AGENT_INFO_NODE:
      return give<uint32_t>(value, 0);
    default:
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, "hsa_agent_get_info",
                    "attribute " + hex(static_cast<uint64_t>(attribute)) + " of the host is not implemented");
  }
}

hsa_status_t gpu_info(uint32_t index, int attribute, void* value) {
  switch (attribute) {
    case HSA_AGENT_INFO_NAME:
      return give_text(value, "gfx90a", 64);
    case HSA_AGENT_INFO_VENDOR_NAME:
      return give_text(value, "AMD", 64);
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      return give_text(value, "Interpreted gfx90a", 64);
    case HSA_AGENT_INFO_FEATURE:
      return give<uint32_t>(value, HSA_AGENT_FEATURE_KERNEL_DISPATCH);
    case HSA_AGENT_INFO_MACHINE_MODEL:
      return give(value, HSA_MACHINE_MODEL_LARGE);
    case HSA_AGENT_INFO_PROFILE:
      return give(value, HSA_PROFILE_BASE);
    case HSA_AGENT_INFO_DEFAULT_FLOAT_ROUNDING_MODE:
      return give(value, HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR);
    case HSA_AGENT_INFO_FAST_F16_OPERATION:
      return give(value, true);
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
      return give<uint32_t>(value, 64);
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM: {
      const uint16_t sizes[3] = {1024, 1024, 1024};
      std::memcpy(value, sizes, sizeof(sizes));
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AGENT_INFO_WORKGROUP_MAX_SIZE:
      return give<uint32_t>(value, 1024);
    case HSA_AGENT_INFO_GRID_MAX_DIM:
      return give(value, hsa_dim3_t{0x7fffffff, 0x7fffffff, 0x7fffffff});
    case HSA_AGENT_INFO_GRID_MAX_SIZE:
      return give<uint32_t>(value, 0xffffffff);
    case HSA_AGENT_INFO_QUEUES_MAX:
      return give<uint32_t>(value, 128);
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
      return give<uint32_t>(value, 64);
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
      return give<uint32_t>(value, 131072);
    case HSA_AGENT_INFO_QUEUE_TYPE:
      return give(value, HSA_QUEUE_TYPE_MULTI);
    case HSA_AGENT_INFO_NODE:
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
      return give<uint32_t>(value, index);
    case HSA_AGENT_INFO_DEVICE:
      return give(value, HSA_DEVICE_TYPE_GPU);
    case HSA_AGENT_INFO_CACHE_SIZE: {
      const uint32_t sizes[4] = {16 * 1024, 8 * 1024 * 1024, 0, 0};
      std::memcpy(value, sizes, sizeof(sizes));
      return HSA_STATUS_SUCCESS;
    }
    case HSA_AGENT_INFO_ISA:
      return give(value, hsa_isa_t{kIsaHandle});
    case HSA_AGENT_INFO_EXTENSIONS:
      std::memset(value, 0, 128);
      return HSA_STATUS_SUCCESS;
    case HSA_AGENT_INFO_VERSION_MAJOR:
      return give<uint16_t>(value, 1);
    case HSA_AGENT_INFO_VERSION_MINOR:
      return give<uint16_t>(value, 1);
    case HSA_AMD_AGENT_INFO_CHIP_ID:
      return give<uint32_t>(value, 0x740f);
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
      return give<uint32_t>(value, 128);
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
    case HSA_AMD_AGENT_INFO_COOPERATIVE_COMPUTE_UNIT_COUNT:
      return give<uint32_t>(value, 104);
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
      return give<uint32_t>(value, 1700);
    case HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS:
      return give<uint32_t>(value, 0);
    case HSA_AMD_AGENT_INFO_BDFID:
      return give<uint32_t>(value, (2 + index) << 8);
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
      return give<uint32_t>(value, 4096);
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
      return give<uint32_t>(value, 1600);
    case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
      return give<uint32_t>(value, 32);
    case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
      return give<uint32_t>(value, 4);
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES:
      return give<uint32_t>(value, 8);
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE:
      return give<uint32_t>(value, 1);
    case HSA_AMD_AGENT_INFO_HDP_FLUSH:
      return give(value, hsa_amd_hdp_flush_t{nullptr, nullptr});
    case HSA_AMD_AGENT_INFO_DOMAIN:
      return give<uint32_t>(value, 0);
    case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
      return give(value, false);
    case HSA_AMD_AGENT_INFO_UUID:
      return give_text(value,
                       "GPU-48656464"
                       "6c65000" +
                           std::to_string(index),
                       21);
    case HSA_AMD_AGENT_INFO_ASIC_REVISION:
      return give<uint32_t>(value, 1);
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
      return give(value, false);
    default:
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, "hsa_agent_get_info",
                    "attribute " + hex(static_cast<uint64_t>(attribute)) + " of a GPU is not implemented");
  }
}

const std::map<int, const char*>& status_texts() {
  static const auto* texts = new std::map<int, const char*>{
      {HSA_STATUS_SUCCESS, "HSA_STATUS_SUCCESS: success"},
      {HSA_STATUS_INFO_BREAK, "HSA_STATUS_INFO_BREAK: a traversal was ended"},
      {HSA_STATUS_ERROR, "HSA_STATUS_ERROR: a generic error"},
      {HSA_STATUS_ERROR_INVALID_ARGUMENT, "HSA_STATUS_ERROR_INVALID_ARGUMENT: an argument is wrong"},
      {HSA_STATUS_ERROR_INVALID_QUEUE_CREATION, "HSA_STATUS_ERROR_INVALID_QUEUE_CREATION: the queue cannot be created"},
      {HSA_STATUS_ERROR_INVALID_ALLOCATION, "HSA_STATUS_ERROR_INVALID_ALLOCATION: the allocation is not valid"},
      {HSA_STATUS_ERROR_INVALID_AGENT, "HSA_STATUS_ERROR_INVALID_AGENT: there is no such agent"},
      {HSA_STATUS_ERROR_INVALID_SIGNAL, "HSA_STATUS_ERROR_INVALID_SIGNAL: there is no such signal"},
      {HSA_STATUS_ERROR_INVALID_QUEUE, "HSA_STATUS_ERROR_INVALID_QUEUE: there is no such queue"},
      {HSA_STATUS_ERROR_OUT_OF_RESOURCES, "HSA_STATUS_ERROR_OUT_OF_RESOURCES: not enough resources"},
      {HSA_STATUS_ERROR_INVALID_PACKET_FORMAT, "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT: a packet is malformed"},
      {HSA_STATUS_ERROR_NOT_INITIALIZED, "HSA_STATUS_ERROR_NOT_INITIALIZED: hsa_init was not called"},
      {HSA_STATUS_ERROR_INVALID_ISA, "HSA_STATUS_ERROR_INVALID_ISA: there is no such instruction set"},
      {HSA_STATUS_ERROR_INVALID_CODE_OBJECT, "HSA_STATUS_ERROR_INVALID_CODE_OBJECT: the code object is invalid"},
      {HSA_STATUS_ERROR_INVALID_EXECUTABLE, "HSA_STATUS_ERROR_INVALID_EXECUTABLE: there is no such executable"},
      {HSA_STATUS_ERROR_FROZEN_EXECUTABLE, "HSA_STATUS_ERROR_FROZEN_EXECUTABLE: the executable is frozen"},
      {HSA_STATUS_ERROR_INVALID_SYMBOL_NAME, "HSA_STATUS_ERROR_INVALID_SYMBOL_NAME: there is no such symbol"},
      {HSA_STATUS_ERROR_EXCEPTION, "HSA_STATUS_ERROR_EXCEPTION: a kernel caused an exception"},
      {HSA_STATUS_ERROR_INVALID_MEMORY_POOL, "HSA_STATUS_ERROR_INVALID_MEMORY_POOL: there is no such memory pool"},
      {HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION, "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION: a kernel executed an instruction that is not known"},
      {HSA_STATUS_ERROR_MEMORY_FAULT, "HSA_STATUS_ERROR_MEMORY_FAULT: a kernel accessed memory that is not accessible"},
  };
  return *texts;
}

}  // namespace

const Settings& settings() {
  static const auto* s = new Settings(read_settings());
  return *s;
}

Totals& totals() {
  static auto* t = new Totals;
  return *t;
}

bool initialized() {
  return references != 0;
}

uint64_t Random::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

hsa_status_t refuse(hsa_status_t status, const char* where, const std::string& text) {
  std::fprintf(stderr, "hsa stand-in: %s: %s\n", where, text.c_str());
  return status;
}

void die(const std::string& text) {
  std::fprintf(stderr, "hsa stand-in: %s\n", text.c_str());
  std::abort();
}

void trace(const std::string& text) {
  if (settings().trace) std::fprintf(stderr, "hsa stand-in: trace: %s\n", text.c_str());
}

bool agent_index(hsa_agent_t agent, uint32_t& index) {
  if (agent.handle < kAgentBase || agent.handle > kAgentBase + settings().gpus) return false;
  index = static_cast<uint32_t>(agent.handle - kAgentBase);
  return true;
}

}  // namespace heddle::hsa

using namespace heddle::hsa;

extern "C" {

hsa_status_t hsa_init() {
  settings();
  if (references++ == 0) {
    static std::once_flag once;
    std::call_once(once, [] {
      if (!settings().statistics.empty()) std::atexit(write_statistics);
      start_scheduler();
      start_handlers();
    });
  }
  return HSA_STATUS_SUCCESS;
}

// Work that was enqueued goes on, and what was created stays.
hsa_status_t hsa_shut_down() {
  return guarded(__func__, [&](const char*) {
    --references;
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_status_string(hsa_status_t status, const char** status_string) {
  if (status_string == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const auto found = status_texts().find(status);
  *status_string = found == status_texts().end() ? "a status that the stand-in does not know" : found->second;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void* value) {
  return guarded(__func__, [&](const char* where) {
    if (value == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    switch (static_cast<int>(attribute)) {
      case HSA_SYSTEM_INFO_VERSION_MAJOR:
        return give<uint16_t>(value, 1);
      case HSA_SYSTEM_INFO_VERSION_MINOR:
        return give<uint16_t>(value, 1);
      case HSA_SYSTEM_INFO_TIMESTAMP:
        return give<uint64_t>(value, now());
      case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
        return give<uint64_t>(value, 1'000'000'000);
      case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
        return give<uint64_t>(value, UINT64_MAX);
      case HSA_SYSTEM_INFO_ENDIANNESS:
        return give(value, HSA_ENDIANNESS_LITTLE);
      case HSA_SYSTEM_INFO_MACHINE_MODEL:
        return give(value, HSA_MACHINE_MODEL_LARGE);
      case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
      case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
        return give(value, false);
      default:
        return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "attribute " + hex(attribute) + " is not implemented");
    }
  });
}

hsa_status_t hsa_system_extension_supported(uint16_t, uint16_t, uint16_t, bool* result) {
  return guarded(__func__, [&](const char* where) {
    if (result == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    *result = false;
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_agent_extension_supported(uint16_t extension, hsa_agent_t, uint16_t major, uint16_t minor, bool* result) {
  return hsa_system_extension_supported(extension, major, minor, result);
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t, void*), void* data) {
  return guarded(__func__, [&](const char* where) {
    if (callback == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no callback");
    for (uint32_t n = 0; n <= settings().gpus; ++n) {
      const hsa_status_t status = callback(agent_handle(n), data);
      if (status != HSA_STATUS_SUCCESS) return status;
    }
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void* value) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    if (!agent_index(agent, index)) return refuse(HSA_STATUS_ERROR_INVALID_AGENT, where, "no such agent");
    if (value == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    return index == 0 ? host_info(attribute, value) : gpu_info(index, attribute, value);
  });
}

hsa_status_t hsa_agent_iterate_isas(hsa_agent_t agent, hsa_status_t (*callback)(hsa_isa_t, void*), void* data) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    if (!agent_index(agent, index) || callback == nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_AGENT, where, "no such agent, or no callback");
    return index == 0 ? HSA_STATUS_SUCCESS : callback({kIsaHandle}, data);
  });
}

hsa_status_t hsa_isa_get_info_alt(hsa_isa_t isa, hsa_isa_info_t attribute, void* value) {
  return guarded(__func__, [&](const char* where) {
    if (isa.handle != kIsaHandle || value == nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_ISA, where, "no such instruction set, or no result pointer");
    if (attribute == HSA_ISA_INFO_NAME_LENGTH) return give<uint32_t>(value, static_cast<uint32_t>(std::strlen(kIsa) + 1));
    if (attribute == HSA_ISA_INFO_NAME) return give_text(value, kIsa, std::strlen(kIsa) + 1);
    return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "attribute " + std::to_string(attribute) + " is not implemented");
  });
}

// All memory is coherent.
hsa_status_t hsa_amd_coherency_set_type(hsa_agent_t, hsa_amd_coherency_type_t type) {
  return guarded(__func__, [&](const char* where) {
    if (type == HSA_AMD_COHERENCY_TYPE_COHERENT) return HSA_STATUS_SUCCESS;
    return refuse(HSA_STATUS_ERROR, where, "memory without coherence is not implemented");
  });
}

}  // extern "C"
