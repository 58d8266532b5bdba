// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images for AMD GPUs: what they say of their kernels, several kernels in one image, kernels that a chip cannot run, and damaged metadata. The code
// of many more regions is compiled and disassembled by other tests (kernel_run.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "compiler/targets/amdgpu/amdgpu.h"
#include "compiler/targets/amdgpu/image.h"
#include "compiler/targets/amdgpu/metadata.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

using targets::KernelResources;
using targets::LinkedKernel;
using targets::amdgpu::Chip;
using targets::amdgpu::CodeObject;

const std::string add = one_op({"1000xf32", "1000xf32"}, "1000xf32", "add %0, %1 : tensor<1000xf32>");
const std::string sum = one_op({"3x2000xf32"}, "3xf32", "reduce sum %0 {axes = array<i64: 1>} : tensor<3x2000xf32> -> tensor<3xf32>");

llvm::StringRef view(const std::vector<char>& bytes) {
  return {bytes.data(), bytes.size()};
}

std::string error_of(llvm::Error error) {
  return error ? llvm::toString(std::move(error)) : "no error";
}

// A kernel of an image, of which it is the only one.
struct Compiled {
  CompiledKernel kernel;
  LinkedKernel linked;

  std::string inspect(const Chip& chip) const {
    KernelResources resources = kernel.resources;
    return error_of(targets::amdgpu::inspect_image(kernel.code, chip, linked, resources));
  }
  // The same with another number in the metadata. Both are below 128, so that each takes one byte.
  std::string inspect_with(const Chip& chip, const std::string& key, char old, char number) const {
    Compiled changed = *this;
    const size_t at = view(kernel.code).find(key) + key.size();
    EXPECT_EQ(changed.kernel.code.at(at), old) << key;
    changed.kernel.code.at(at) = number;
    return changed.inspect(chip);
  }
};

Compiled compile(const std::string& text, const Chip& chip, uint32_t arguments) {
  ParsedRegion parsed(text);
  auto kernel = compile_region(*targets::make_amdgpu_target(chip.name), parsed.region());
  return {kernel.value_or(CompiledKernel()), {"kernel", "kernel", arguments}};
}

TEST(AmdgpuImage, KnowsFourChips) {
  EXPECT_EQ(targets::amdgpu_chips(), (std::vector<std::string>{"gfx90a", "gfx942", "gfx1100", "gfx1201"}));
  for (const char* other : {"gfx950", "gfx908", "gfx90", "gfx90a:xnack+", ""}) EXPECT_EQ(targets::make_amdgpu_target(other), nullptr);
}

TEST(AmdgpuImage, ReadsBackResources) {
  for (const Chip& chip : targets::amdgpu::chips) {
    SCOPED_TRACE(std::string(chip.name));
    const Compiled compiled = compile(sum, chip, 2);
    KernelResources resources = compiled.kernel.resources;
    ASSERT_EQ(error_of(targets::amdgpu::inspect_image(compiled.kernel.code, chip, compiled.linked, resources)), "no error");
    EXPECT_EQ(resources.subgroup_size, chip.wave_size);
    EXPECT_GT(resources.registers, 3u);
    EXPECT_EQ(resources.spilled_bytes, 0u);
    EXPECT_EQ(resources.shared_memory_bytes, uint64_t{resources.workgroup_size / 32 * 4});  // a sum for each subgroup
    ASSERT_TRUE(resources.machine);
    EXPECT_GT(resources.machine->scalar_registers, 3u);
    EXPECT_EQ(resources.machine->private_bytes, 0u);
    EXPECT_EQ(resources.machine->argument_bytes, 16u);
    EXPECT_EQ(resources.machine->occupancy, chip.most_waves);
    auto code = targets::amdgpu::read_metadata(view(compiled.kernel.code));
    ASSERT_TRUE(static_cast<bool>(code)) << llvm::toString(code.takeError());
    EXPECT_EQ(code->target, "amdgcn-amd-amdhsa--" + std::string(chip.name));
  }
}

TEST(AmdgpuImage, LinksSeveralKernels) {
  const Chip& chip = targets::amdgpu::chips[0];
  const Compiled a = compile(add, chip, 3), b = compile(sum, chip, 2);
  // The images of one kernel each are shared objects, so objects are made again.
  ParsedRegion first(add), second(sum);
  auto target = targets::make_amdgpu_target(chip.name);
  std::vector<std::vector<char>> units;
  std::vector<KernelResources> resources;
  for (auto [parsed, name] : {std::pair{&first, "unit_of_add"}, {&second, "unit_of_sum"}}) {
    auto plans = target->plans(parsed->region());
    ASSERT_TRUE(succeeded(plans));
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(parsed->context()));
    auto needs = target->emit(parsed->region(), plans->front(), name, *module);
    ASSERT_TRUE(succeeded(needs));
    resources.push_back(*needs);
    auto code = target->generate(*module);
    ASSERT_TRUE(succeeded(code));
    units.push_back(std::move(*code));
  }
  const std::vector<LinkedKernel> kernels{{"k0_add", "unit_of_add", 3}, {"k1_sum_with_a_name_longer_than_its_unit", "unit_of_sum", 2}};
  auto image = targets::amdgpu::link_image({units[0], units[1]}, chip, kernels);
  ASSERT_TRUE(static_cast<bool>(image)) << llvm::toString(image.takeError());
  EXPECT_EQ(error_of(targets::amdgpu::inspect_image(*image, chip, kernels, resources)), "no error");
  EXPECT_EQ(resources[0].machine->argument_bytes, 24u);
  EXPECT_EQ(resources[1].machine->argument_bytes, 16u);
  EXPECT_EQ(view(*image).find("unit_of"), llvm::StringRef::npos);
  auto again = targets::amdgpu::link_image({units[0], units[1]}, chip, kernels);
  ASSERT_TRUE(static_cast<bool>(again));
  EXPECT_EQ(*again, *image);

  // Units for another chip.
  ParsedRegion third(sum);
  auto other = targets::make_amdgpu_target("gfx1100");
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(third.context()));
  ASSERT_TRUE(succeeded(other->emit(third.region(), other->plans(third.region())->front(), "unit_of_sum", *module)));
  auto code = other->generate(*module);
  ASSERT_TRUE(succeeded(code));
  EXPECT_EQ(error_of(targets::amdgpu::link_image({units[0], *code}, chip, kernels).takeError()),
            "amdgpu: reading the metadata of a code object failed: units of code are for different targets");
  EXPECT_EQ(error_of(targets::amdgpu::link_image({units[0]}, chip, kernels).takeError()),
            "amdgpu: linking failed: kernels call functions of other units, which is not supported");
}

TEST(AmdgpuImage, RefusesKernelsThatAChipCannotRun) {
  const Chip& chip = targets::amdgpu::chips[0];
  const Compiled compiled = compile(sum, chip, 2);
  EXPECT_EQ(compiled.inspect(chip), "no error");
  Chip small = chip;
  small.most_registers = 1;
  EXPECT_TRUE(llvm::StringRef(compiled.inspect(small)).ends_with(" vector registers, and the chip has 1"));
  Compiled wide = compiled;
  wide.kernel.resources.workgroup_size = 2048;
  EXPECT_EQ(wide.inspect(chip), "amdgpu: kernel 'kernel' for gfx90a needs 2048 threads in a workgroup, and the chip has 1024");
  small = chip;
  small.wave_size = 32;
  EXPECT_EQ(compiled.inspect(small),
            "amdgpu: kernel 'kernel' for gfx90a was compiled for waves of 64 threads in workgroups of 256, and should be for 32 and 256");
}

// The code of a kernel in the LLVM dialect, with 64 threads and no argument; or the error.
std::string generate_code(const std::string& globals, const std::string& body, std::vector<char>& code) {
  ParsedRegion any(add);  // for its dialects
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      globals + "func.func @kernel() attributes {heddle.threads = 64 : i64} {\n" + body + "\nreturn\n}", any.context());
  EXPECT_TRUE(module);
  std::string error;
  mlir::ScopedDiagnosticHandler handler(any.context(), [&](mlir::Diagnostic& diagnostic) {
    error += diagnostic.str();
    return mlir::success();
  });
  auto bytes = targets::make_amdgpu_target("gfx90a")->generate(*module);
  EXPECT_EQ(mlir::failed(bytes), !error.empty());
  if (error.empty()) code = std::move(*bytes);
  return error;
}

// LLVM ends the process by default.
TEST(AmdgpuImage, ReportsErrorsOfTheCodeGenerator) {
  std::vector<char> code;
  EXPECT_EQ(generate_code("llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<70000 x i8>\n",
                          "%p = llvm.mlir.addressof @s : !llvm.ptr<3>\n%v = llvm.load volatile %p : !llvm.ptr<3> -> i8\n"
                          "llvm.store volatile %v, %p : i8, !llvm.ptr<3>",
                          code),
            "amdgpu: code generation for gfx90a failed: local memory (70000) exceeds limit (65536) in function 'kernel'");
}

TEST(AmdgpuImage, ReportsPrivateMemory) {
  std::vector<char> code;
  ASSERT_EQ(
      generate_code(
          "",
          "%n = llvm.mlir.constant(100 : i32) : i32\n%p = llvm.alloca %n x i32 : (i32) -> !llvm.ptr<5>\n"
          "%v = llvm.load volatile %p : !llvm.ptr<5> -> i32\n%q = llvm.getelementptr %p[%v] : (!llvm.ptr<5>, i32) -> !llvm.ptr<5>, i32\n"
          "llvm.store volatile %v, %q : i32, !llvm.ptr<5>",
          code),
      "");
  const LinkedKernel linked{"kernel", "kernel", 0};
  Chip chip = targets::amdgpu::chips[0];
  auto image = targets::amdgpu::link_image(llvm::ArrayRef<char>(code), chip, linked);
  ASSERT_TRUE(static_cast<bool>(image)) << llvm::toString(image.takeError());
  KernelResources resources;
  resources.workgroup_size = 64;
  ASSERT_EQ(error_of(targets::amdgpu::inspect_image(*image, chip, linked, resources)), "no error");
  EXPECT_GE(resources.machine->private_bytes, 400u);
  EXPECT_LE(resources.machine->private_bytes, 512u);
  chip.most_private_bytes = 256;
  EXPECT_TRUE(llvm::StringRef(error_of(targets::amdgpu::inspect_image(*image, chip, linked, resources)))
                  .ends_with(" bytes of private memory in each thread, and the chip has 256"));
}

TEST(AmdgpuImage, RefusesArgumentsThatDriversDoNotPass) {
  const Chip& chip = targets::amdgpu::chips[0];
  Compiled compiled = compile(sum, chip, 2);
  EXPECT_EQ(compiled.inspect_with(chip, ".kernarg_segment_size", 16, 24),
            "amdgpu: kernel 'kernel' for gfx90a reads 24 bytes of arguments, and drivers pass 16");
  EXPECT_EQ(compiled.inspect_with(chip, ".size", 8, 4),
            "amdgpu: kernel 'kernel' for gfx90a expects argument 0 (global_buffer) at byte 0, of 4 bytes; drivers pass 8 bytes at byte 0");
  EXPECT_EQ(compiled.inspect_with(chip, ".wavefront_size", 64, 32),
            "amdgpu: kernel 'kernel' for gfx90a was compiled for waves of 32 threads in workgroups of 256, and should be for 64 and 256");
  compiled.linked.argument_count = 3;
  EXPECT_EQ(compiled.inspect(chip), "amdgpu: kernel 'kernel' for gfx90a has 2 arguments, and a driver passes 3");
  compiled.linked.symbol = "other";
  EXPECT_EQ(compiled.inspect(chip), "amdgpu: the metadata of an image lacks kernel 'other'");
}

std::string read_error(llvm::StringRef bytes) {
  auto code = targets::amdgpu::read_metadata(bytes);
  return code ? "no error" : llvm::toString(code.takeError());
}

TEST(AmdgpuImage, RefusesDamagedMetadata) {
  const Compiled compiled = compile(sum, targets::amdgpu::chips[0], 2);
  const std::string whole = view(compiled.kernel.code).str(), start = "amdgpu: reading the metadata of a code object failed: ";
  ASSERT_EQ(read_error(whole), "no error");
  auto changed = [&](const std::string& old, const std::string& other) {
    std::string text = whole;
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return text.replace(at, other.size(), other);
  };
  EXPECT_EQ(read_error(""), start + "invalid buffer: the size (0) is smaller than an ELF header (64)");
  EXPECT_EQ(read_error(changed(std::string("AMDGPU\0", 7), "amdgpu")), start + "it has no note with metadata");
  EXPECT_EQ(read_error(changed(".wavefront_size", "!")), start + "an entry is missing, or not of its type");
  EXPECT_EQ(read_error(changed("kernel.kd", "kernex")), start + "the descriptor of kernel 'kernel' has another name");
  std::string other_machine = whole;
  other_machine[18] = 62;  // e_machine
  EXPECT_EQ(read_error(other_machine), start + "it is not for AMD GPUs");

  // Any other damage is an error or changes a value; nothing is read outside of the file.
  size_t refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (i == 4096) i = whole.size() - std::min<size_t>(2048, whole.size() - 4096);  // behind the note: code, then headers of sections
    for (unsigned value : {0x00u, 0x7fu, 0x80u, 0xffu, 0x01u ^ static_cast<unsigned char>(whole[i])}) {
      auto damaged = std::make_unique<char[]>(whole.size());  // with no byte behind it
      std::memcpy(damaged.get(), whole.data(), whole.size());
      damaged[i] = static_cast<char>(value);
      refused += read_error({damaged.get(), whole.size()}) != "no error";
    }
  }
  EXPECT_GT(refused, 1000u);
  for (size_t size = 0; size < whole.size(); size += 1 + size / 64) {
    auto shorter = std::make_unique<char[]>(size + 1);
    std::memcpy(shorter.get(), whole.data(), size);
    EXPECT_NE(read_error({shorter.get(), size}), "no error") << size;
  }
}

}  // namespace
}  // namespace heddle::tests
