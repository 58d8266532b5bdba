// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See cuda_run.h. Functions and numbers as in cuda.h, which is not needed to build this.
#include "tests/compiler/cuda_run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "compiler/targets/cuda/cuda.h"

using namespace mlir;

namespace heddle::tests {

namespace {

constexpr int capability_major = 75, capability_minor = 76;  // CU_DEVICE_ATTRIBUTE_*
constexpr int max_dynamic_shared_bytes = 8;                  // CU_FUNC_ATTRIBUTE_*
constexpr int jit_error_log = 5, jit_error_log_bytes = 6;    // CU_JIT_*
constexpr uint64_t usual_shared_bytes = 48 * 1024;           // more must be asked for

// Around every binding: before_results, so that what is read there shows in the results too. The front one leaves the binding on the 64 bytes
// that ptx/1 promises, and on no more.
constexpr size_t front_bytes = 4096 + 64, back_bytes = 4096;

struct Functions {
  int (*cuInit)(unsigned flags);
  int (*cuGetErrorName)(int result, const char** name);
  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDevicePrimaryCtxRetain)(void** context, int device);
  int (*cuCtxSetCurrent)(void* context);
  int (*cuCtxSynchronize)();
  int (*cuMemAlloc_v2)(uint64_t* address, size_t bytes);
  int (*cuMemFree_v2)(uint64_t address);
  int (*cuMemcpyHtoD_v2)(uint64_t to, const void* from, size_t bytes);
  int (*cuMemcpyDtoH_v2)(void* to, uint64_t from, size_t bytes);
  int (*cuModuleLoadDataEx)(void** module, const void* image, unsigned count, int* options, void** values);
  int (*cuModuleUnload)(void* module);
  int (*cuModuleGetFunction)(void** function, void* module, const char* name);
  int (*cuFuncSetAttribute)(void* function, int attribute, int value);
  int (*cuLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra);
};

// The library, the device for each chip, and whether a kernel has ended the context, which nothing can be done with then.
class Cuda {
 public:
  static Cuda& get() {
    static Cuda cuda;
    return cuda;
  }

  const std::vector<std::string>& chips() const { return chips_; }
  const std::string& reason() const { return reason_; }  // why there are no chips
  const Functions& functions() const { return functions_; }
  bool lost = false;

  // EXPECTs success. what: the call.
  bool succeeded(int result, const char* what) const {
    if (result != 0) ADD_FAILURE() << what << ": " << name_of(result);
    return result == 0;
  }

  // Makes the chip's device the one of this thread.
  bool select(const std::string& chip) {
    int device = devices_.at(chip);
    void*& context = contexts_[device];
    if (!context && !succeeded(functions_.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain")) return false;
    return succeeded(functions_.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  }

 private:
  Cuda() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      reason_ = dlerror();
      return;
    }
    bool all = true;
#define FIND(name) all &= (functions_.name = reinterpret_cast<decltype(Functions::name)>(dlsym(library, #name))) != nullptr
    FIND(cuInit);
    FIND(cuGetErrorName);
    FIND(cuDeviceGetCount);
    FIND(cuDeviceGet);
    FIND(cuDeviceGetAttribute);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuCtxSynchronize);
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemcpyHtoD_v2);
    FIND(cuMemcpyDtoH_v2);
    FIND(cuModuleLoadDataEx);
    FIND(cuModuleUnload);
    FIND(cuModuleGetFunction);
    FIND(cuFuncSetAttribute);
    FIND(cuLaunchKernel);
#undef FIND
    if (!all) {
      reason_ = "libcuda.so.1 lacks a function";
      return;
    }
    int count = 0, result = functions_.cuInit(0);
    if (result == 0) result = functions_.cuDeviceGetCount(&count);
    if (result != 0) reason_ = "cuInit: " + name_of(result);
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      int device = 0, major = 0, minor = 0;
      if (functions_.cuDeviceGet(&device, ordinal) != 0) continue;
      functions_.cuDeviceGetAttribute(&major, capability_major, device);
      functions_.cuDeviceGetAttribute(&minor, capability_minor, device);
      if (major >= 8) devices_.try_emplace("sm_80", device);
      if (major == 9 && minor == 0) devices_.try_emplace("sm_90a", device);
    }
    for (const auto& [chip, device] : devices_) chips_.push_back(chip);
    if (chips_.empty() && reason_.empty()) reason_ = "no device of compute capability 8.0 or newer";
  }

  std::string name_of(int result) const {
    const char* name = nullptr;
    return functions_.cuGetErrorName(result, &name) == 0 && name ? name : "error " + std::to_string(result);
  }

  Functions functions_ = {};
  std::vector<std::string> chips_;
  std::map<std::string, int> devices_;
  std::map<int, void*> contexts_;
  std::string reason_;
};

// Memory of a binding, between guards. None for an empty one, whose address is 0.
class DeviceBytes {
 public:
  explicit DeviceBytes(const std::vector<char>& bytes) : bytes_(bytes) {
    if (bytes.empty()) return;
    std::vector<char> all(front_bytes + bytes.size() + back_bytes, before_results);
    std::copy(bytes.begin(), bytes.end(), all.begin() + front_bytes);
    if (!cuda_.succeeded(cuda_.functions().cuMemAlloc_v2(&start_, all.size()), "cuMemAlloc")) return;
    cuda_.succeeded(cuda_.functions().cuMemcpyHtoD_v2(start_, all.data(), all.size()), "cuMemcpyHtoD");
  }
  ~DeviceBytes() {
    if (start_) cuda_.functions().cuMemFree_v2(start_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  bool usable() const { return bytes_.empty() || start_; }
  uint64_t address() const { return bytes_.empty() ? 0 : start_ + front_bytes; }
  const std::vector<char>& given() const { return bytes_; }

  // What is there now. EXPECTs the guards as they were.
  std::vector<char> read(const std::string& what) const {
    if (bytes_.empty()) return {};
    std::vector<char> all(front_bytes + bytes_.size() + back_bytes);
    if (!cuda_.succeeded(cuda_.functions().cuMemcpyDtoH_v2(all.data(), start_, all.size()), "cuMemcpyDtoH")) return {};
    auto is_guard = [](char byte) { return byte == before_results; };
    auto begin = all.begin() + front_bytes, end = begin + static_cast<ptrdiff_t>(bytes_.size());
    EXPECT_TRUE(std::all_of(all.begin(), begin, is_guard)) << what << ": written before its start";
    EXPECT_TRUE(std::all_of(end, all.end(), is_guard)) << what << ": written behind its end";
    return {begin, end};
  }

 private:
  const Cuda& cuda_ = Cuda::get();
  std::vector<char> bytes_;
  uint64_t start_ = 0;
};

class CudaKernel {
 public:
  // Fails the current test and is not usable when compiling or loading fails.
  CudaKernel(tx::DispatchOp region, const std::string& chip, const CheckOptions& options) : region_(region), chip_(chip) {
    auto compiled = compile_region(*targets::make_cuda_target(chip, options.math, options.shared_memory_bytes), region, options.strategy);
    if (!compiled || !cuda_.select(chip)) return;
    kernel_ = std::move(*compiled);
    std::string text(kernel_.code.begin(), kernel_.code.end());
    std::vector<char> log(4096, 0);
    int jit_options[] = {jit_error_log, jit_error_log_bytes};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
    const Functions& f = cuda_.functions();
    if (!cuda_.succeeded(f.cuModuleLoadDataEx(&module_, text.c_str(), 2, jit_options, values), "cuModuleLoadDataEx")) {
      ADD_FAILURE() << chip << ": " << log.data();
      module_ = nullptr;
      return;
    }
    if (!cuda_.succeeded(f.cuModuleGetFunction(&function_, module_, "kernel"), "cuModuleGetFunction")) return;
    uint64_t shared = kernel_.resources.shared_memory_bytes;
    usable_ = shared <= usual_shared_bytes ||
              cuda_.succeeded(f.cuFuncSetAttribute(function_, max_dynamic_shared_bytes, static_cast<int>(shared)), "cuFuncSetAttribute");
  }
  ~CudaKernel() {
    if (module_) cuda_.functions().cuModuleUnload(module_);
  }
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  bool usable() const { return usable_; }

  // The results' bytes; nothing after a failure.
  std::vector<std::vector<char>> run(const std::vector<Tensor>& operands, const std::vector<int64_t>& symbols) {
    std::vector<std::unique_ptr<DeviceBytes>> memory;
    std::vector<DeviceBytes*> bindings;
    std::vector<bool> is_written(operands.size(), false);
    for (size_t i = 0; i < operands.size(); ++i) {
      memory.push_back(std::make_unique<DeviceBytes>(to_bytes(operands[i], element_of(region_.getInputs()[i]))));
      bindings.push_back(memory.back().get());
    }
    for (size_t i = 0; i < region_.getNumResults(); ++i) {
      int64_t tied = region_.getTied() ? (*region_.getTied())[i] : -1;
      if (tied >= 0) {
        is_written[static_cast<size_t>(tied)] = true;
        bindings.push_back(bindings[static_cast<size_t>(tied)]);
        continue;
      }
      size_t bytes = RowsInMemory::of(region_, static_cast<unsigned>(i), symbols).bytes();
      memory.push_back(std::make_unique<DeviceBytes>(std::vector<char>(bytes, before_results)));
      bindings.push_back(memory.back().get());
    }
    for (const auto& one : memory) {
      if (!one->usable()) return {};
    }
    if (!launch(bindings, symbols)) return {};
    std::vector<std::vector<char>> results;
    for (size_t i = 0; i < bindings.size(); ++i) {
      bool is_result = i >= operands.size();
      std::string what = chip_ + (is_result ? ", result " : ", operand ") + std::to_string(is_result ? i - operands.size() : i);
      std::vector<char> bytes = bindings[i]->read(what);
      if (is_result) {
        auto rows = RowsInMemory::of(region_, static_cast<unsigned>(i - operands.size()), symbols);
        results.push_back(rows.together(bytes.data(), before_results, what));
      } else if (!is_written[i]) {
        EXPECT_TRUE(bytes == bindings[i]->given()) << what << ": written";
      }
    }
    return results;
  }

 private:
  static Type element_of(Value value) { return llvm::cast<RankedTensorType>(value.getType()).getElementType(); }

  bool launch(const std::vector<DeviceBytes*>& bindings, const std::vector<int64_t>& symbols) {
    uint64_t workgroups = kernel_.workgroups(symbols);
    if (workgroups == 0) return true;
    std::vector<uint64_t> values;
    for (const DeviceBytes* binding : bindings) values.push_back(binding->address());
    for (int64_t symbol : symbols) values.push_back(static_cast<uint64_t>(symbol));
    std::vector<void*> parameters;
    for (uint64_t& value : values) parameters.push_back(&value);
    const targets::KernelResources& needs = kernel_.resources;
    const Functions& f = cuda_.functions();
    bool launched = cuda_.succeeded(f.cuLaunchKernel(function_, static_cast<unsigned>(workgroups), 1, 1, needs.workgroup_size, 1, 1,
                                                     static_cast<unsigned>(needs.shared_memory_bytes), nullptr, parameters.data(), nullptr),
                                    "cuLaunchKernel");
    if (!launched) return false;
    cuda_.lost = !cuda_.succeeded(f.cuCtxSynchronize(), "cuCtxSynchronize");
    return !cuda_.lost;
  }

  Cuda& cuda_ = Cuda::get();
  tx::DispatchOp region_;
  std::string chip_;
  CompiledKernel kernel_;
  void* module_ = nullptr;
  void* function_ = nullptr;
  bool usable_ = false;
};

}  // namespace

const std::vector<std::string>& runnable_chips() {
  return Cuda::get().chips();
}

bool has_cuda_device() {
  const Cuda& cuda = Cuda::get();
  const char* wish = getenv("HEDDLE_GPU");
  if (cuda.chips().empty() && wish && std::string(wish) == "required") ADD_FAILURE() << "no CUDA device: " << cuda.reason();
  return !cuda.chips().empty();
}

void run_on_cuda(tx::DispatchOp region, const std::vector<Tensor>& operands, const CheckOptions& options, const LookAtResults& look) {
  if (!has_cuda_device()) return;
  Cuda& cuda = Cuda::get();
  for (const std::string& chip : cuda.chips()) {
    if (cuda.lost) {
      ADD_FAILURE() << chip << ": not run, an earlier kernel has ended the context";
      return;
    }
    CudaKernel kernel(region, chip, options);
    if (!kernel.usable()) continue;
    auto results = kernel.run(operands, options.symbols);
    if (results.size() != region.getOutputs().size()) continue;
    look(chip, results);
    EXPECT_TRUE(kernel.run(operands, options.symbols) == results) << chip << ": other results the second time";
  }
}

void check_on_cuda(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options) {
  run_on_cuda(region, operands, options, [&](const std::string& chip, const std::vector<std::vector<char>>& results) {
    std::vector<Tensor> got;
    for (auto [i, output] : llvm::enumerate(region.getOutputs()))
      got.push_back(from_bytes(results[i].data(), wanted.by_ops[i].shape, tx::tensor(output).getElementType()));
    expect_results(got, wanted, options, chip);
  });
}

}  // namespace heddle::tests
