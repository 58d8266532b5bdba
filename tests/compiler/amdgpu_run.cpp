// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See amdgpu_run.h.
#include "tests/compiler/amdgpu_run.h"

#include <gtest/gtest.h>

#include <stdlib.h>

#include <cstring>
#include <set>
#include <span>
#include <string>

#include "compiler/targets/amdgpu/amdgpu.h"
#include "compiler/targets/kernel_builder.h"
#include "llvm/ADT/StringExtras.h"
#ifdef HEDDLE_AMDGPU_INTERPRETER
#include "tests/amdgpu/covered_names.h"
#include "tests/amdgpu/interpreter.h"
#include "tests/amdgpu/mnemonics.h"
#else

#include "tests/temporary_folder.h"
#endif

namespace heddle::tests {
namespace {

constexpr const char* unknown = "<unknown>";  // as llvm-objdump says it

#ifdef HEDDLE_AMDGPU_INTERPRETER

// By LLVM's disassembler in this process: it takes a small part of the time that a run of llvm-objdump takes.
std::string disassemble(const CompiledKernel& kernel) {
  std::string text = "<kernel>:\n";
  for (const amdgpu::Line& line : amdgpu::CodeObject::load(std::as_bytes(std::span(kernel.code)))->listing("kernel"))
    text += (line.text.empty() ? unknown : line.text) + "\n";
  return text;
}

#else

// By HEDDLE_OBJDUMP, if there is one.
std::string disassemble(const CompiledKernel& kernel) {
  const char* objdump = getenv("HEDDLE_OBJDUMP");
  if (!objdump) return "";
  const testing::TemporaryFolder folder;
  const std::string image = folder.path("kernel.hsaco"), text = folder.path("kernel.s");
  testing::write_file(image, {kernel.code.data(), kernel.code.size()});
  const std::string command = std::string(objdump) + " -d --no-show-raw-insn '" + image + "' > '" + text + "'";
  EXPECT_EQ(system(command.c_str()), 0) << command;
  return testing::read_file(text);
}

#endif

// EXPECTs that the disassembler knows all instructions of the kernel, that one of them stores, and that threads that share memory wait for each other.
void check_assembly(const CompiledKernel& kernel) {
  const std::string assembly = disassemble(kernel);
  if (assembly.empty()) return;
  for (const char* needed : {"<kernel>", "s_endpgm", "global_store"}) EXPECT_NE(assembly.find(needed), std::string::npos) << assembly;
  EXPECT_EQ(assembly.find(unknown), std::string::npos) << assembly;
  if (kernel.resources.shared_memory_bytes == 0) return;
  for (const char* needed : {"s_barrier", "ds_"}) EXPECT_NE(assembly.find(needed), std::string::npos) << assembly;
}

#ifdef HEDDLE_AMDGPU_INTERPRETER

// With HEDDLE_AMDGPU_COVERAGE, EXPECTs that tests of the interpreter execute every instruction of the kernel.
void check_coverage(const CompiledKernel& kernel) {
  static const bool is_asked = getenv("HEDDLE_AMDGPU_COVERAGE") != nullptr;
  if (!is_asked) return;
  static const std::set<std::string> covered = amdgpu::covered_names();
  std::set<std::string> missing;
  for (const amdgpu::Line& line : amdgpu::CodeObject::load(std::as_bytes(std::span(kernel.code)))->listing("kernel")) {
    for (const std::string& name : amdgpu::mnemonics_of(line.text)) {
      if (!covered.contains(name)) missing.insert(name);
    }
  }
  EXPECT_TRUE(missing.empty()) << "without a test in tests/amdgpu: " << llvm::join(missing, " ");
}

constexpr char fill = '\x5a';
constexpr uint64_t first_address = uint64_t{1} << 40,
                   address_step = uint64_t{1} << 36;  // far from each other, so that no access misses one for another

void interpret(const CompiledKernel& kernel, tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted,
               const CheckOptions& options, const std::string& chip) {
  auto code = amdgpu::CodeObject::load(std::as_bytes(std::span(kernel.code)));
  const amdgpu::Kernel* entry = code->kernel("kernel");
  ASSERT_NE(entry, nullptr);
  std::vector<std::vector<char>> contents;
  for (auto [i, input] : llvm::enumerate(region.getInputs())) contents.push_back(to_bytes(operands[i], tx::tensor(input).getElementType()));
  for (unsigned i = 0; i < region.getNumResults(); ++i) contents.emplace_back(RowsInMemory::of(region, i, options.symbols).bytes(), fill);
  amdgpu::Memory memory;
  std::vector<int64_t> arguments;
  for (auto [i, bytes] : llvm::enumerate(contents)) {
    const uint64_t address = bytes.empty() ? 0 : first_address + i * address_step;
    arguments.push_back(static_cast<int64_t>(address));
    if (!bytes.empty()) memory.map(address, bytes.data(), bytes.size(), i >= operands.size(), "binding " + std::to_string(i));
  }
  arguments.insert(arguments.end(), options.symbols.begin(), options.symbols.end());
  const uint32_t threads = kernel.resources.workgroup_size;
  amdgpu::Dispatch dispatch;
  dispatch.block.x = threads;
  dispatch.grid.x = static_cast<uint32_t>(threads * kernel.workgroups(options.symbols));
  dispatch.kernarg = std::as_bytes(std::span(arguments));
  amdgpu::Options how;
  how.seed = options.seed;
  if (dispatch.grid.x > 0) {
    const amdgpu::Outcome outcome = amdgpu::run(*code, *entry, dispatch, memory, how);
    ASSERT_EQ(outcome.fault, "");
  }
  std::vector<Tensor> got;
  for (auto [i, output] : llvm::enumerate(region.getOutputs())) {
    std::vector<char> rows = RowsInMemory::of(region, static_cast<unsigned>(i), options.symbols)
                                 .together(contents[operands.size() + i].data(), fill, chip + ", result " + std::to_string(i));
    got.push_back(from_bytes(rows.data(), wanted.by_ops[i].shape, tx::tensor(output).getElementType()));
  }
  expect_results(got, wanted, options, chip);
}

#endif

void check_kernel(const targets::Target& target, tx::DispatchOp region, const CompiledKernel& compiled, const std::vector<Tensor>& operands,
                  const Expected& wanted, const CheckOptions& options) {
  const auto arguments =
      static_cast<uint32_t>(region.getInputs().size() + region.getNumResults() + static_cast<size_t>(targets::symbol_count(region)));
  targets::KernelResources resources = compiled.resources;
  EXPECT_TRUE(
      mlir::succeeded(target.inspect(compiled.code, targets::LinkedKernel{"kernel", "kernel", arguments}, resources, region.getLoc())));
  EXPECT_LE(resources.shared_memory_bytes, compiled.resources.shared_memory_bytes);
  EXPECT_TRUE(resources.machine && resources.machine->private_bytes == 0 && resources.spilled_bytes == 0)
      << "registers are spilled: " << resources.registers << " are used, " << resources.spilled_bytes << " bytes spilled, "
      << resources.machine->private_bytes << " bytes private, " << resources.machine->spilled_scalar_registers << " scalar";
  check_assembly(compiled);
#ifdef HEDDLE_AMDGPU_INTERPRETER
  check_coverage(compiled);
  interpret(compiled, region, operands, wanted, options, target.name());
#else
  (void)operands;
  (void)wanted;
  (void)options;
#endif
}

}  // namespace

#ifdef HEDDLE_AMDGPU_INTERPRETER

bool has_amdgpu_interpreter() {
  return true;
}

std::string run_workgroups(const CompiledKernel& kernel, llvm::ArrayRef<llvm::MutableArrayRef<char>> bindings, size_t results,
                           llvm::ArrayRef<uint64_t> workgroups, uint64_t* instructions) {
  auto code = amdgpu::CodeObject::load(std::as_bytes(std::span(kernel.code)));
  const amdgpu::Kernel* entry = code->kernel("kernel");
  if (!entry) return "there is no kernel";
  amdgpu::Memory memory;
  std::vector<uint64_t> arguments;
  for (auto [i, bytes] : llvm::enumerate(bindings)) {
    arguments.push_back(first_address + i * address_step);
    memory.map(arguments.back(), bytes.data(), bytes.size(), i + results >= bindings.size(), "binding " + std::to_string(i));
  }
  amdgpu::Dispatch dispatch;
  dispatch.block.x = kernel.resources.workgroup_size;
  dispatch.grid.x = static_cast<uint32_t>(dispatch.block.x * kernel.workgroups());
  dispatch.kernarg = std::as_bytes(std::span(arguments));
  dispatch.only = std::span(workgroups.data(), workgroups.size());
  amdgpu::Options options;
  options.max_instructions = UINT64_MAX;
  const amdgpu::Outcome outcome = amdgpu::run(*code, *entry, dispatch, memory, options);
  if (instructions) *instructions = outcome.statistics.instructions;
  return outcome.fault;
}

#else

bool has_amdgpu_interpreter() {
  return false;
}

std::string run_workgroups(const CompiledKernel&, llvm::ArrayRef<llvm::MutableArrayRef<char>>, size_t, llvm::ArrayRef<uint64_t>,
                           uint64_t*) {
  return "";
}

#endif

std::string assembly_of(const CompiledKernel& kernel) {
  return disassemble(kernel);
}

void check_on_amdgpu(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options) {
  for (const std::string& chip : targets::amdgpu_chips()) {
    SCOPED_TRACE(chip);
    auto target = targets::make_amdgpu_target(chip);
    for (size_t plan : plans_to_check(*target, region, options.strategy)) {
      auto compiled = compile_region(*target, region, options.strategy, plan);
      if (!compiled) continue;
      SCOPED_TRACE(compiled->plan.strategy + " " + compiled->plan.choice.text);
      check_kernel(*target, region, *compiled, operands, wanted, options);
    }
  }
}

}  // namespace heddle::tests
