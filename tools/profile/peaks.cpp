// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the module that peaks_module.cpp wrote, with the times of its commands on the device. The fastest of a few calls counts.
#include "tools/profile/peaks.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/heddle/session.h"
#include "tools/profile/peaks_work.h"

extern "C" const char heddle_peaks_module_begin[];
extern "C" const char heddle_peaks_module_end[];
__asm__(".section .rodata\n.balign 64\nheddle_peaks_module_begin:\n.incbin \"" HEDDLE_PEAKS_MODULE
        "\"\nheddle_peaks_module_end:\n.byte 0\n.previous\n");

namespace heddle::tool {
namespace {

// Many short calls, since something else may run on the device at times.
constexpr double kMostSeconds = 0.08;  // for each function, until its last call starts
constexpr int kLeastCalls = 2, kMostCalls = 200;

double seconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Of the cache that all of the device shares. Drivers of GPUs do not report it; those that run the kernels have more.
int64_t cache_bytes(const std::string& family) {
  constexpr int64_t kOtherwise = 8 << 20, kOfGpus = 32 << 20;
  if (family != "cpu") return kOfGpus;
  long kib = 0;  // sysconf is wrong on some virtual machines
  if (std::FILE* file = std::fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re")) {
    if (std::fscanf(file, "%ldK", &kib) != 1) kib = 0;
    std::fclose(file);
  }
  return kib > 0 && kib < 1 << 22 ? int64_t{kib} << 10 : kOtherwise;
}

// More than caches hold.
int64_t memory_bytes(const std::string& family) {
  constexpr int64_t kLeast = 32 << 20, kMost = 256 << 20;
  return family == "cpu" ? std::clamp<int64_t>(2 * cache_bytes(family), kLeast, kMost) & ~int64_t{4095} : kMost;
}

// A file without a name that has the module.
class ModuleFile {
 public:
  ModuleFile() : descriptor_(memfd_create("heddle-peaks", MFD_CLOEXEC)) {
    const size_t size = static_cast<size_t>(heddle_peaks_module_end - heddle_peaks_module_begin);
    for (size_t done = 0; descriptor_ >= 0 && done < size;) {
      const ssize_t count = write(descriptor_, heddle_peaks_module_begin + done, size - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        close(descriptor_);
        descriptor_ = -1;
        break;
      }
      done += static_cast<size_t>(count);
    }
  }
  ~ModuleFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;
  bool exists() const { return descriptor_ >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

std::string reason(heddle_status_t* status) {
  const std::string text(view(heddle_status_message(status)));
  heddle_status_free(status);
  return text;
}

// The shortest time of a command, in ns; 0: it did not run.
double shortest(const Json& rows, std::string_view region, std::string_view kind) {
  for (const Json& row : rows) {
    if (row.value("region", "") == region && row.value("kind", "") == kind) return static_cast<double>(number(row, "min_ns"));
  }
  return 0;
}

heddle_status_t* call_often(heddle_instance_t* instance, std::string_view name, int64_t size, int64_t& units) {
  heddle_function_t* function = nullptr;
  if (heddle_status_t* status = heddle_instance_function(instance, view(name), &function)) return status;
  const int64_t dims[] = {0, size};
  heddle_tensor_t *argument = nullptr, *result = nullptr;
  if (heddle_status_t* status = heddle_tensor_from_host(function, 0, HEDDLE_TYPE_U8, dims, 2, nullptr, 0, &argument)) return status;
  const Tensor owned(argument);
  Tensor owned_result;
  const double begin = seconds();
  for (int i = 0; i < kMostCalls && (i < kLeastCalls || seconds() - begin < kMostSeconds); ++i) {
    if (heddle_status_t* status = heddle_call(function, &argument, 1, &result, 1)) return status;
    owned_result.release();
    owned_result.reset(result);
  }
  units = heddle_tensor_dims(result)[1];
  return nullptr;
}

}  // namespace

std::optional<double> Peaks::flops_for(const std::string& element_type) const {
  const bool is_half = element_type == "f16" || element_type == "bf16";
  if (is_half && family != "cpu") return matrix_flops_per_ns > 0 ? std::optional(matrix_flops_per_ns) : std::nullopt;
  // CPUs compute 16-bit floats in f32.
  return (is_half || element_type == "f32") && flops_per_ns > 0 ? std::optional(flops_per_ns) : std::nullopt;
}

Json Peaks::json() const {
  if (!unmeasured.empty()) return Json{{"unmeasured", unmeasured}};
  Json out{{"units", units},
           {"gflops", flops_per_ns},
           {"copy_gbytes", copy_bytes_per_ns},
           {"read_gbytes", read_bytes_per_ns},
           {"cached_gbytes", cached_bytes_per_ns},
           {"cache_bytes", cache_bytes}};
  if (matrix_flops_per_ns > 0) out["f16_gflops"] = matrix_flops_per_ns;
  return out;
}

Peaks measure_peaks(heddle_runtime_t* runtime, const std::string& device, const std::string& family) {
  Peaks peaks;
  peaks.family = family;
  auto refuse = [&](std::string why) {
    peaks.unmeasured = std::move(why);
    return peaks;
  };
  if (family != "cpu" && family != "cuda") return refuse("there are no kernels for devices of family '" + family + "'");
  const ModuleFile file;
  if (!file.exists()) return refuse(std::string("making a file in memory failed: ") + std::strerror(errno));
  heddle_module_t* raw_module = nullptr;
  if (heddle_status_t* status = heddle_module_open(runtime, view(file.path()), nullptr, &raw_module)) return refuse(reason(status));
  const Module module(raw_module);
  const heddle_slot_binding_t slot{view(std::string_view()), view(device)};
  heddle_instance_params_t params{};
  params.struct_size = sizeof(params);
  params.slots = &slot;
  params.slot_count = 1;
  params.flags = HEDDLE_INSTANCE_PROFILE;
  heddle_instance_t* raw_instance = nullptr;
  if (heddle_status_t* status = heddle_instance_create(module.get(), &params, &raw_instance)) return refuse(reason(status));
  const Instance instance(raw_instance);
  const int64_t bytes = memory_bytes(family), iterations = kIterations.of(family);
  int64_t units = 1;
  if (heddle_status_t* status = call_often(instance.get(), "move", bytes, units)) return refuse(reason(status));
  if (heddle_status_t* status = call_often(instance.get(), "compute", iterations, units)) return refuse(reason(status));
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance.get(), view(std::string_view("profile")), &raw))
    return refuse(reason(status));
  const Json report = parse_json(text_of(Text(raw)));
  const Json& rows = array(report, "regions");
  auto rate = [](double amount, double ns) { return ns > 0 ? amount / ns : 0; };
  const double count = static_cast<double>(units), moved = static_cast<double>(bytes);
  const double multiplied = count * static_cast<double>(iterations * kGroups.of(family));
  const double cached = count * static_cast<double>(kGroups.of(family) * kCachedBytes.of(family));
  peaks.units = units;
  peaks.cache_bytes = static_cast<double>(cache_bytes(family));
  peaks.flops_per_ns = rate(multiplied * kFlops.of(family), shortest(rows, "multiply", "dispatch"));
  peaks.matrix_flops_per_ns = rate(multiplied * kMatrixFlops, shortest(rows, "multiply f16", "dispatch"));
  peaks.cached_bytes_per_ns = rate(cached * kCachedPasses, shortest(rows, "read cached", "dispatch"));
  peaks.copy_bytes_per_ns = rate(moved, shortest(rows, "", "copy"));
  peaks.read_bytes_per_ns = rate(moved, shortest(rows, "read", "dispatch"));
  if (peaks.flops_per_ns == 0 || peaks.copy_bytes_per_ns == 0 || peaks.cached_bytes_per_ns == 0)
    return refuse("the driver reports no times");
  return peaks;
}

}  // namespace heddle::tool
