// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the module that measures devices (peaks.h), while Heddle is built: needs no compiler of models, and depends only on the file format.
//
// usage: heddle_peaks_module OUT V3-IMAGE V4-IMAGE PTX
#include <heddle_module/module_generated.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "heddle/code.h"
#include "heddle/types.h"
#include "sdk/module/writer.h"
#include "tools/profile/peaks_work.h"

namespace {

namespace mf = heddle::module_format;

constexpr uint32_t kWhole = 0xFFFFFFFFu, kRead = 1, kWrite = 2;
struct {
  const char *format, *target, *family;
} constexpr kVariants[] = {
    {HEDDLE_CODE_X86_64_ELF, "x86-64-v3", "cpu"}, {HEDDLE_CODE_X86_64_ELF, "x86-64-v4", "cpu"}, {HEDDLE_CODE_PTX, "sm_80", "cuda"}};
struct Kernel {
  const char* name;
  uint32_t bindings, constants;
};
enum : uint32_t { kMultiply, kReadAll, kMultiplyF16 };
constexpr Kernel kKernels[] = {{"multiply", 0, 1}, {"read_all", 1, 3}, {"multiply_f16", 0, 1}};

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void add_executable(mf::ModuleT& module, const std::vector<mf::Range>& code) {
  auto executable = std::make_unique<mf::ExecutableT>();
  executable->name = "peaks";
  for (const Kernel& kernel : kKernels) {
    executable->entries.push_back(std::make_unique<mf::EntryT>());
    executable->entries.back()->name = kernel.name;
    executable->entries.back()->binding_count = kernel.bindings;
    executable->entries.back()->constants_bytes = kernel.constants * 8;
  }
  for (size_t i = 0; i < code.size(); ++i) {
    auto variant = std::make_unique<mf::VariantT>();
    variant->format = kVariants[i].format;
    variant->target = kVariants[i].target;
    variant->family = kVariants[i].family;
    variant->code = std::make_unique<mf::Range>(code[i]);
    for ([[maybe_unused]] const Kernel& kernel : kKernels) {
      auto resources = std::make_unique<mf::EntryResourcesT>();
      if (variant->family == "cuda") resources->workgroup_size = {256, 1, 1};
      resources->cost = 500'000;  // ns, so that each workgroup is handed out by itself
      variant->resources.push_back(std::move(resources));
    }
    executable->variants.push_back(std::move(variant));
  }
  module.executables.push_back(std::move(executable));
}

// A function of the module for one family, command by command.
class Program {
 public:
  explicit Program(const char* family) : program_(std::make_unique<mf::ProgramT>()) { program_->families = {family}; }

  uint32_t emit(mf::Op op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0) {
    program_->code.emplace_back(static_cast<uint16_t>(op), 0, a, b, c);
    return static_cast<uint32_t>(program_->code.size() - 1);
  }
  uint32_t compute(mf::Op op, uint32_t a, uint32_t b = 0) {
    emit(op, program_->register_count, a, b);
    return program_->register_count++;
  }
  uint32_t literal(int64_t value) {
    program_->literals.push_back(value);
    return compute(mf::Op::Literal, static_cast<uint32_t>(program_->literals.size() - 1));
  }
  // The second extent of the argument.
  uint32_t size() {
    emit(mf::Op::ArgumentDim, program_->register_count, 0, 1);
    return program_->register_count++;
  }
  // A number of workgroups for each compute unit; the number of units is the second extent of the result.
  uint32_t groups(int64_t per_unit) {
    const uint32_t units = compute(mf::Op::Max, compute(mf::Op::ComputeUnits, 0), literal(1));
    emit(mf::Op::ResultDim, 0, 1, units);
    return compute(mf::Op::Mul, units, literal(per_unit));
  }
  void dispatch(const char* name, uint32_t entry, std::vector<mf::BindingRef> bindings, std::vector<uint32_t> constants, uint32_t groups) {
    const uint32_t one = literal(1);
    auto site = std::make_unique<mf::DispatchSiteT>();
    site->name = name;
    site->bindings = std::move(bindings);
    site->constants = std::move(constants);
    site->candidates.push_back(std::make_unique<mf::CandidateT>());
    site->candidates.back()->entry = entry;
    site->candidates.back()->grid = {groups, one, one};
    program_->dispatches.push_back(std::move(site));
    emit(mf::Op::Dispatch, static_cast<uint32_t>(program_->dispatches.size() - 1));
  }
  std::unique_ptr<mf::ProgramT> take() {
    emit(mf::Op::Return);
    return std::move(program_);
  }
  mf::ProgramT& operator*() { return *program_; }

 private:
  std::unique_ptr<mf::ProgramT> program_;
};

// move(u8[0, bytes]): fills memory, copies one half of it over the other, reads it.
std::unique_ptr<mf::ProgramT> move_program(const char* family) {
  Program program(family);
  const uint32_t bytes = program.size(), groups = program.groups(heddle::tool::kReadGroups), page = program.literal(4096),
                 one = program.literal(1);
  uint32_t each = program.compute(mf::Op::CeilDiv, bytes, groups);  // whole pages for each workgroup
  each = program.compute(mf::Op::Mul, program.compute(mf::Op::CeilDiv, each, page), page);
  const uint32_t half = program.compute(mf::Op::FloorDiv, bytes, program.literal(2));
  (*program).values = {{mf::ValueKind::Transient, 0}};
  (*program).fills.emplace_back(mf::BindingRef(0, kWhole, kWhole, kWrite), 0, 4, 0);
  (*program).copies.emplace_back(mf::BindingRef(0, kWhole, half, kRead), mf::BindingRef(0, half, half, kWrite));
  const uint32_t first = program.emit(mf::Op::Fill);
  program.emit(mf::Op::Barrier);
  program.emit(mf::Op::Copy);
  program.emit(mf::Op::Barrier);
  program.dispatch("read", kReadAll, {{0, kWhole, kWhole, kRead}}, {each, bytes, one}, groups);
  const uint32_t last = program.emit(mf::Op::Barrier);
  (*program).transients = {{bytes, 4096, first, last}};
  return program.take();
}

// compute(u8[0, iterations]): multiplies in registers, and reads memory that stays in caches.
std::unique_ptr<mf::ProgramT> compute_program(const char* family) {
  Program program(family);
  const bool is_cpu = std::string_view(family) == "cpu";
  const uint32_t iterations = program.size(), groups = program.groups(heddle::tool::kGroups.of(family));
  program.dispatch("multiply", kMultiply, {}, {iterations}, groups);
  program.emit(mf::Op::Barrier);
  if (!is_cpu) program.dispatch("multiply f16", kMultiplyF16, {}, {iterations}, groups);
  const uint32_t part = program.literal(heddle::tool::kCachedBytes.of(family)), passes = program.literal(heddle::tool::kCachedPasses);
  const uint32_t bytes = program.compute(mf::Op::Mul, part, groups);
  (*program).values = {{mf::ValueKind::Transient, 0}};
  (*program).fills.emplace_back(mf::BindingRef(0, kWhole, kWhole, kWrite), 0, 4, 0);
  const uint32_t first = program.emit(mf::Op::Fill);
  program.emit(mf::Op::Barrier);
  program.dispatch("read cached", kReadAll, {{0, kWhole, kWhole, kRead}}, {part, bytes, passes}, groups);
  const uint32_t last = program.emit(mf::Op::Barrier);
  (*program).transients = {{bytes, 4096, first, last}};
  return program.take();
}

// Argument and result have no elements: their shapes are all that matters.
void add_function(mf::ModuleT& module, const char* name, std::unique_ptr<mf::ProgramT> (*program)(const char* family)) {
  auto type = [](const char* tensor, int32_t symbol) {
    auto made = std::make_unique<mf::TensorTypeT>();
    made->name = tensor;
    made->element_type = HEDDLE_TYPE_U8;
    made->dims = {{0, -1, 0}, {-1, symbol, 0}};
    return made;
  };
  auto function = std::make_unique<mf::FunctionT>();
  function->name = name;
  function->arguments.push_back(type("size", 0));
  function->results.push_back(type("units", -1));
  function->symbols.push_back(std::make_unique<mf::SymbolT>());
  function->symbols.back()->name = "n";
  function->symbols.back()->min = 1;
  for (const char* family : {"cpu", "cuda"}) function->programs.push_back(program(family));
  module.functions.push_back(std::move(function));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: heddle_peaks_module OUT V3-IMAGE V4-IMAGE PTX\n"), 2;
  mf::ModuleT module;
  heddle::module::ModuleWriter writer;
  module.producer = "heddle";
  module.name = "peaks";
  module.slots.push_back(std::make_unique<mf::SlotT>());
  std::vector<mf::Range> code;
  for (int i = 2; i < argc; ++i) {
    const std::vector<char> bytes = read(argv[i]);
    if (bytes.empty()) return std::fprintf(stderr, "heddle_peaks_module: reading %s failed\n", argv[i]), 1;
    code.push_back(writer.add_code(std::as_bytes(std::span(bytes))));
  }
  add_executable(module, code);
  add_function(module, "move", move_program);
  add_function(module, "compute", compute_program);
  if (const heddle::module::Status failed = writer.write(module, argv[1]))
    return std::fprintf(stderr, "heddle_peaks_module: %s\n", failed->message.c_str()), 1;
  return 0;
}
