// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See opencl_run.h.
#include "tests/compiler/opencl_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "compiler/targets/spirv/spirv.h"
#include "tests/support/opencl.h"
#include "tests/temporary_folder.h"

using namespace mlir;

namespace heddle::tests {

namespace {

using namespace heddle::test;

constexpr uint64_t fine_grain_buffer = 2;              // CL_DEVICE_SVM_FINE_GRAIN_BUFFER
constexpr uint64_t read_write = 1, fine_grain = 1024;  // CL_MEM_READ_WRITE, CL_MEM_SVM_FINE_GRAIN_BUFFER

class OpenCl : public OpenClFunctions {
 public:
  static OpenCl& get() {
    static OpenCl opencl;
    return opencl;
  }
  std::string reason;  // why there is no device
  void* device = nullptr;
  void* context = nullptr;
  void* queue = nullptr;

 private:
  OpenCl() : OpenClFunctions{} { reason = open(); }

  std::string open() {
    if (std::string why = find("libOpenCL.so.1"); !why.empty()) return why;
    void* platform = nullptr;
    if (clGetPlatformIDs(1, &platform, nullptr) != 0) return "OpenCL has no platform";
    if (clGetDeviceIDs(platform, kOpenClAll, 1, &device, nullptr) != 0) return "OpenCL has no device";
    if (text(device, kOpenClIlVersion).find("SPIR-V") == std::string::npos) return "the OpenCL device takes no SPIR-V";
    uint64_t shared = 0;
    clGetDeviceInfo(device, kOpenClSvm, sizeof shared, &shared, nullptr);
    if (!(shared & fine_grain_buffer)) return "the OpenCL device shares no memory with the host";
    int error = 0;
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    if (error == 0) queue = clCreateCommandQueueWithProperties(context, device, nullptr, &error);
    return error == 0 ? "" : "OpenCL gave error " + std::to_string(error);
  }
};

// Memory of a binding between guards; what it holds at first is in the guards too.
class SharedBytes {
 public:
  explicit SharedBytes(const std::vector<char>& bytes) : size_(bytes.size()) {
    start_ = static_cast<char*>(opencl_.clSVMAlloc(opencl_.context, read_write | fine_grain, size_ + 2 * guard, guard));
    if (!start_) return;
    memset(start_, fill, size_ + 2 * guard);
    std::copy(bytes.begin(), bytes.end(), data());
  }
  ~SharedBytes() {
    if (start_) opencl_.clSVMFree(opencl_.context, start_);
  }
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  bool usable() const { return start_; }
  char* data() const { return start_ + guard; }
  bool has_guards() const {
    auto is_guard = [](char byte) { return byte == fill; };
    return std::all_of(start_, data(), is_guard) && std::all_of(data() + size_, data() + size_ + guard, is_guard);
  }

  static constexpr char fill = static_cast<char>(0xff);  // NaN as a float

 private:
  static constexpr size_t guard = 128;
  OpenCl& opencl_ = OpenCl::get();
  size_t size_;
  char* start_ = nullptr;
};

constexpr uint32_t of_half = 9, of_double = 10, of_shuffles = 65, of_dots = 6019;  // Float16, Float64, GroupNonUniformShuffle, DotProduct

// Whether the module declares the capability. Capabilities come first, after five words.
bool has_capability(const std::vector<char>& code, uint32_t capability) {
  constexpr uint32_t of_capability = 2u << 16 | 17;
  for (size_t at = 20; at + 8 <= code.size(); at += 8) {
    uint32_t words[2];
    memcpy(words, code.data() + at, sizeof words);
    if (words[0] != of_capability) return false;
    if (words[1] == capability) return true;
  }
  return false;
}

}  // namespace

const std::string& no_opencl_device() {
  return OpenCl::get().reason;
}

namespace {

bool has_doubles(tx::DispatchOp region) {
  auto is_double = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  return region
      ->walk([&](Operation* op) {
        const bool found = llvm::any_of(op->getOperandTypes(), is_double) || llvm::any_of(op->getResultTypes(), is_double);
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

void check_level(const std::string& level, tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted,
                 const CheckOptions& options) {
  auto compiled = compile_region(*targets::make_spirv_target(level), region, options.strategy);
  if (!compiled) return;
  // Otherwise the kernel is the same as for a lower level.
  const bool with_subgroups = level.find("sg32") != std::string::npos, with_dots = level.find("dp4a") != std::string::npos;
  EXPECT_TRUE(!with_dots || options.strategy != "dots" || has_capability(compiled->code, of_dots)) << level;
  if (with_dots ? !has_capability(compiled->code, of_dots) : with_subgroups && !has_capability(compiled->code, of_shuffles)) return;
  EXPECT_TRUE(has_doubles(region) || !has_capability(compiled->code, of_double)) << level << ": a region without f64 needs Float64";
  if (const char* validator = getenv("HEDDLE_SPIRV_VAL")) {
    const testing::TemporaryFolder folder;
    const std::string path = folder.path("kernel.spv");
    testing::write_file(path, {compiled->code.data(), compiled->code.size()});
    // The narrowest of OpenCL's environments, in which arithmetic in f16 is an option that the validator does not know.
    const char* where = with_subgroups ? "spv1.3" : has_capability(compiled->code, of_half) ? "spv1.0" : "opencl1.2";
    const std::string command = std::string(validator) + " --target-env " + where + " '" + path + "'";
    EXPECT_EQ(system(command.c_str()), 0) << command;
  }
  if (!no_opencl_device().empty()) return;
  OpenCl& cl = OpenCl::get();

  int error = 0;
  void* program = cl.clCreateProgramWithIL(cl.context, compiled->code.data(), compiled->code.size(), &error);
  ASSERT_EQ(error, 0) << "clCreateProgramWithIL";
  std::unique_ptr<void, int (*)(void*)> release_program(program, cl.clReleaseProgram);
  if (cl.clBuildProgram(program, 1, &cl.device, "", nullptr, nullptr) != 0) {
    FAIL() << "clBuildProgram: " << cl.build_log(program, cl.device);
  }
  void* kernel = cl.clCreateKernel(program, "kernel", &error);
  ASSERT_EQ(error, 0) << "clCreateKernel";
  std::unique_ptr<void, int (*)(void*)> release_kernel(kernel, cl.clReleaseKernel);

  std::vector<std::unique_ptr<SharedBytes>> memory;
  for (auto [i, input] : llvm::enumerate(region.getInputs()))
    memory.push_back(std::make_unique<SharedBytes>(to_bytes(operands[i], tx::tensor(input).getElementType())));
  for (unsigned i = 0; i < region.getNumResults(); ++i) {
    size_t bytes = RowsInMemory::of(region, i, options.symbols).bytes();
    memory.push_back(std::make_unique<SharedBytes>(std::vector<char>(bytes, SharedBytes::fill)));
  }
  unsigned argument = 0;
  for (const auto& one : memory) {
    ASSERT_TRUE(one->usable()) << "clSVMAlloc";
    ASSERT_EQ(cl.clSetKernelArgSVMPointer(kernel, argument++, one->data()), 0);
  }
  for (int64_t symbol : options.symbols) ASSERT_EQ(cl.clSetKernelArg(kernel, argument++, sizeof symbol, &symbol), 0);
  const size_t shared = compiled->resources.shared_memory_bytes;
  if (shared) {
    ASSERT_EQ(cl.clSetKernelArg(kernel, argument++, shared, nullptr), 0);
  }
  size_t local = compiled->resources.workgroup_size, global = local * compiled->workgroups(options.symbols);
  if (global > 0) {
    ASSERT_EQ(cl.clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr), 0);
    ASSERT_EQ(cl.clFinish(cl.queue), 0);
  }
  for (const auto& one : memory) EXPECT_TRUE(one->has_guards()) << "written outside of a binding";
  std::vector<Tensor> got;
  for (auto [i, output] : llvm::enumerate(region.getOutputs())) {
    std::vector<char> rows = RowsInMemory::of(region, static_cast<unsigned>(i), options.symbols)
                                 .together(memory[operands.size() + i]->data(), SharedBytes::fill, "OpenCL, result " + std::to_string(i));
    got.push_back(from_bytes(rows.data(), wanted.by_ops[i].shape, tx::tensor(output).getElementType()));
  }
  expect_results(got, wanted, options, "OpenCL, " + level);
}

}  // namespace

void check_on_opencl(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options) {
  for (const std::string& level : targets::spirv_levels()) check_level(level, region, operands, wanted, options);
}

}  // namespace heddle::tests
