// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Settings, devices and their properties, errors.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "runtime.h"

namespace heddle::test::hip {
namespace {

// The N of libamdhip64.so.N, which is the path of this library; 6 for one without, unless a setting says otherwise.
int major_of_path() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&major_of_path), &info) || !info.dli_fname) return 6;
  const std::string path = info.dli_fname;
  const size_t dot = path.rfind(".so.");
  return dot == std::string::npos ? 6 : std::atoi(path.c_str() + dot + 4);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Settings read_settings() {
  Settings settings;
  settings.major = major_of_path();
  const char* given = std::getenv("HEDDLE_HIP_STAND_IN");
  for (const std::string& part : split(given ? given : "")) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals), value = equals == std::string::npos ? "1" : part.substr(equals + 1);
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 0);
    if (key == "chip") {
      settings.chip = value;
    } else if (key == "devices") {
      settings.devices = static_cast<int>(number);
    } else if (key == "major") {
      settings.major = static_cast<int>(number);
    } else if (key == "seed") {
      settings.seed = number;
    } else if (key == "latency_us") {
      settings.latency_us = number;
    } else if (key == "memory") {
      settings.memory_bytes = number;
    } else if (key == "queues") {
      settings.queues = number;
    } else if (key == "signal_waits") {
      settings.signal_waits = number != 0;
    } else if (key == "pools") {
      settings.pools = number != 0;
    } else if (key == "claims_pools") {
      settings.claims_pools = number != 0;
    } else if (key == "aborts") {
      settings.aborts = number != 0;
    } else if (key == "peers") {
      settings.peers = number != 0;
    } else if (key == "verbose") {
      settings.verbose = number != 0;
    } else {
      std::fprintf(stderr, "hip stand-in: HEDDLE_HIP_STAND_IN has the unknown setting '%s'\n", key.c_str());
      std::abort();
    }
  }
  const char* visible = std::getenv("HIP_VISIBLE_DEVICES");
  for (int i = 0; !visible && i < settings.devices; ++i) settings.visible.push_back(i);
  for (const std::string& part : split(visible ? visible : "")) {
    char* end = nullptr;
    const long number = std::strtol(part.c_str(), &end, 10);
    if (end == part.c_str() || number < 0 || number >= settings.devices) break;  // HIP ignores what follows an unknown one
    settings.visible.push_back(static_cast<int>(number));
  }
  return settings;
}

thread_local int current_ordinal = 0;
thread_local int error_of_thread = 0;
thread_local int capture_mode = 0;
std::atomic<int> unloaded{kSuccess};  // what every call returns, once the library has ended

std::vector<std::unique_ptr<Device>>& devices() {
  static auto* all = [] {
    auto* made = new std::vector<std::unique_ptr<Device>>;
    for (size_t i = 0; i < settings().visible.size(); ++i) {
      made->push_back(std::make_unique<Device>());
      made->back()->ordinal = static_cast<int>(i);
      for (uint64_t q = 0; q < settings().queues; ++q) {
        made->back()->queues.push_back(std::make_unique<LateStream>(&made->back()->ended, next_seed(), settings().latency_us));
      }
    }
    return made;
  }();
  return *all;
}

// The members of hipDeviceProp_t that are set, with their offsets in HIP 5 and in HIP 6 and 7.
class PropertyWriter {
 public:
  PropertyWriter(char* out, bool is_old) : out_(out), is_old_(is_old) { std::memset(out, 0, is_old ? 792 : 1472); }
  template <typename T>
  void set(size_t old_at, size_t new_at, T value) {
    std::memcpy(out_ + (is_old_ ? old_at : new_at), &value, sizeof value);
  }
  void set_text(size_t old_at, size_t new_at, const std::string& text) { std::strcpy(out_ + (is_old_ ? old_at : new_at), text.c_str()); }

 private:
  char* out_;
  bool is_old_;
};

int write_properties(void* out, int ordinal, bool is_old) {
  if (!out || !device(ordinal)) return kInvalidDevice;
  PropertyWriter writer(static_cast<char*>(out), is_old);
  const bool is_cdna = settings().chip.starts_with("gfx9");
  writer.set_text(0, 0, "AMD " + settings().chip + " (interpreted)");
  writer.set_text(396, 1160, settings().chip + (settings().chip == "gfx90a" || settings().chip == "gfx942" ? ":sramecc+:xnack-" : ""));
  writer.set<size_t>(256, 288, settings().memory_bytes);
  writer.set<size_t>(264, 296, 65536);           // sharedMemPerBlock
  writer.set<int>(272, 304, 65536);              // regsPerBlock
  writer.set<int>(276, 308, is_cdna ? 64 : 32);  // warpSize
  writer.set<int>(280, 320, 1024);               // maxThreadsPerBlock
  for (size_t i = 0; i < 3; ++i) {
    writer.set<int>(284 + 4 * i, 324 + 4 * i, 1024);                       // maxThreadsDim
    writer.set<int>(296 + 4 * i, 336 + 4 * i, i == 0 ? INT32_MAX : 4096);  // maxGridSize
  }
  writer.set<int>(336, 388, 3);  // multiProcessorCount
  return kSuccess;
}

}  // namespace

namespace {

std::atomic<uint64_t> kernels_run{0}, instructions_run{0};

void write_statistics() {
  std::FILE* file = std::fopen(std::getenv("HEDDLE_HIP_STATISTICS"), "a");
  if (!file) return;
  std::fprintf(file, "pid=%d kernels=%llu instructions=%llu\n", static_cast<int>(::getpid()),
               static_cast<unsigned long long>(kernels_run.load()), static_cast<unsigned long long>(instructions_run.load()));
  std::fclose(file);
}

}  // namespace

void count_kernel(uint64_t instructions) {
  static const bool is_written = std::getenv("HEDDLE_HIP_STATISTICS") && std::atexit(write_statistics) == 0;
  if (!is_written) return;
  ++kernels_run;
  instructions_run += instructions;
}

const Settings& settings() {
  static const auto* read = new Settings(read_settings());
  return *read;
}
uint64_t next_seed() {
  static std::atomic<uint64_t> given{0};
  return settings().seed * 1000003 + ++given;
}
Device* device(int ordinal) {
  return ordinal >= 0 && static_cast<size_t>(ordinal) < devices().size() ? devices()[static_cast<size_t>(ordinal)].get() : nullptr;
}
Device* current() {
  return device(current_ordinal);
}
int& last_error() {
  return error_of_thread;
}
int result(int error) {
  if (const int ended = unloaded) error = ended;
  if (error != kSuccess) error_of_thread = error;
  return error;
}
void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("hip stand-in: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
}

extern "C" {

// Not of HIP: ends the library, in which `error` is the result of every call from now on.
void hipStandInUnload(int error) {
  unloaded = error;
  for (const auto& each : devices()) each->ended = error;
}
int hipInit(unsigned flags) {
  return result(flags ? kInvalidValue : settings().visible.empty() ? kNoDevice : kSuccess);
}
int hipRuntimeGetVersion(int* out) {
  *out = settings().major * 10000000 + (settings().major == 5 ? 221153 : 110000);
  return kSuccess;
}
int hipGetDeviceCount(int* out) {
  *out = static_cast<int>(settings().visible.size());
  return result(*out ? kSuccess : kNoDevice);
}
int hipGetDeviceProperties(void* out, int ordinal) {
  return result(write_properties(out, ordinal, true));
}
int hipGetDevicePropertiesR0600(void* out, int ordinal) {
  return result(settings().major < 6 ? kNotSupported : write_properties(out, ordinal, false));
}
int hipDeviceGetAttribute(int* out, int attribute, int ordinal) {
  if (!device(ordinal)) return result(kInvalidDevice);
  switch (attribute) {
    case 85:  // unified addressing
      *out = 1;
      return kSuccess;
    case 88:  // memory pools
      *out = settings().claims_pools ? (settings().chip.starts_with("gfx9") ? 64 : 32) : settings().pools;
      return kSuccess;
    case 10013:  // waits for memory
      *out = 1;
      return kSuccess;
    default:
      say("hipDeviceGetAttribute of %d is not implemented", attribute);
      return result(kNotSupported);
  }
}
int hipDeviceGetPCIBusId(char* out, int length, int ordinal) {
  if (!device(ordinal) || length < 13) return result(kInvalidValue);
  std::snprintf(out, static_cast<size_t>(length), settings().major < 6 ? "0000:%02x:00.0" : "0000:%02X:00.0",
                0xa0 + settings().visible[static_cast<size_t>(ordinal)]);
  return kSuccess;
}
int hipDeviceGetUuid(char* out, int ordinal) {
  if (!device(ordinal)) return result(kInvalidDevice);
  std::memset(out, 0x5a, 16);
  out[15] = static_cast<char>(settings().visible[static_cast<size_t>(ordinal)]);
  return kSuccess;
}
int hipDeviceCanAccessPeer(int* out, int from, int to) {
  if (!device(from) || !device(to)) return result(kInvalidDevice);
  *out = from != to && settings().peers;
  return kSuccess;
}
int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags || !device(peer) || peer == current_ordinal) return result(kInvalidValue);
  if (!settings().peers) return result(kInvalidDevice);
  Device* self = current();
  std::lock_guard<std::mutex> lock(self->mutex);
  return result(self->peers.insert(peer).second ? kSuccess : kPeerAlreadyEnabled);
}
int hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t* out_type, uint32_t* out_hops) {
  if (!device(from) || !device(to)) return result(kInvalidDevice);
  *out_type = 4;  // XGMI
  *out_hops = 1;
  return kSuccess;
}
int hipGetDevice(int* out) {
  *out = current_ordinal;
  return result(device(current_ordinal) ? kSuccess : kNoDevice);
}
int hipSetDevice(int ordinal) {
  if (!device(ordinal)) return result(kInvalidDevice);
  current_ordinal = ordinal;
  return result(kSuccess);
}
int hipThreadExchangeStreamCaptureMode(int* mode) {
  if (!mode || *mode < 0 || *mode > 2) return result(kInvalidValue);
  std::swap(*mode, capture_mode);
  return result(kSuccess);
}
int hipGetLastError() {
  return std::exchange(error_of_thread, 0);
}
int hipPeekAtLastError() {
  return error_of_thread;
}
const char* hipGetErrorName(int error) {
  switch (error) {
    case kSuccess:
      return "hipSuccess";
    case kInvalidValue:
      return "hipErrorInvalidValue";
    case kOutOfMemory:
      return "hipErrorOutOfMemory";
    case kNotInitialized:
      return "hipErrorNotInitialized";
    case kDeinitialized:
      return "hipErrorDeinitialized";
    case kInvalidConfiguration:
      return "hipErrorInvalidConfiguration";
    case kNoDevice:
      return "hipErrorNoDevice";
    case kInvalidDevice:
      return "hipErrorInvalidDevice";
    case kInvalidImage:
      return "hipErrorInvalidImage";
    case kNoBinary:
      return "hipErrorNoBinaryForGpu";
    case kInvalidHandle:
      return "hipErrorInvalidHandle";
    case kNotFound:
      return "hipErrorNotFound";
    case kNotReady:
      return "hipErrorNotReady";
    case kIllegalAddress:
      return "hipErrorIllegalAddress";
    case kLaunchFailure:
      return "hipErrorLaunchFailure";
    case kNotSupported:
      return "hipErrorNotSupported";
    default:
      return "hipErrorUnknown";
  }
}
const char* hipGetErrorString(int error) {
  return error == kSuccess ? "no error" : "an error of the stand-in for HIP";
}
}

}  // namespace heddle::test::hip
