// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds modules by hand for tests of the core: an assembler for host programs, and an executable of the kernels in test_kernels.c.
// Knows the format's object API; knows nothing of the core.
#ifndef HEDDLE_TESTS_MODULE_BUILDER_H_
#define HEDDLE_TESTS_MODULE_BUILDER_H_

#include <heddle_module/module_generated.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/types.h"
#include "sdk/module/writer.h"

namespace heddle::testing {

namespace mf = module_format;

constexpr uint32_t kWhole = 0xFFFFFFFFu;
constexpr uint32_t kRead = 1, kWrite = 2, kReadWrite = 3;

// One host program, instruction by instruction. Registers are handed out once and never reused.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::vector<std::string> families = {"cpu"}) : program(std::make_unique<mf::ProgramT>()) {
    program->families = std::move(families);
  }

  uint32_t next_instruction() const { return static_cast<uint32_t>(program->code.size()); }
  uint32_t emit(mf::Op op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0) {
    program->code.emplace_back(static_cast<uint16_t>(op), 0, a, b, c);
    return next_instruction() - 1;
  }
  uint32_t reg() { return program->register_count++; }
  uint32_t literal(int64_t value) {
    program->literals.push_back(value);
    uint32_t to = reg();
    emit(mf::Op::Literal, to, static_cast<uint32_t>(program->literals.size() - 1));
    return to;
  }
  uint32_t arithmetic(mf::Op op, uint32_t b, uint32_t c) {
    uint32_t to = reg();
    emit(op, to, b, c);
    return to;
  }
  uint32_t argument_dim(uint32_t argument, uint32_t dim) {
    uint32_t to = reg();
    emit(mf::Op::ArgumentDim, to, argument, dim);
    return to;
  }
  void check(uint32_t condition, const std::string& message) {
    program->messages.push_back(message);
    emit(mf::Op::Check, static_cast<uint32_t>(program->messages.size() - 1), condition);
  }
  uint32_t value(mf::ValueKind kind, uint32_t index) {
    for (uint32_t i = 0; i < program->values.size(); ++i) {
      if (program->values[i].kind() == kind && program->values[i].index() == index) return i;
    }
    program->values.emplace_back(kind, index);
    return static_cast<uint32_t>(program->values.size() - 1);
  }
  uint32_t argument(uint32_t index) { return value(mf::ValueKind::Argument, index); }
  uint32_t result(uint32_t index) { return value(mf::ValueKind::Result, index); }
  uint32_t global(uint32_t index) { return value(mf::ValueKind::Global, index); }
  // Lives through the whole program until lives() says otherwise.
  uint32_t transient(uint32_t size_register) {
    program->transients.emplace_back(size_register, 64, 0, 0xFFFFFFFFu);
    return value(mf::ValueKind::Transient, static_cast<uint32_t>(program->transients.size() - 1));
  }
  void lives(uint32_t transient_value, uint32_t first, uint32_t last) {
    mf::Transient& slot = program->transients[program->values[transient_value].index()];
    slot = mf::Transient(slot.size_register(), slot.alignment(), first, last);
  }
  static mf::BindingRef whole(uint32_t value, uint32_t access) { return {value, kWhole, kWhole, access}; }

  uint32_t dispatch(const std::string& name, uint32_t entry, std::vector<mf::BindingRef> bindings, std::vector<uint32_t> constants,
                    std::vector<uint32_t> grid, uint32_t slot = 0) {
    auto site = std::make_unique<mf::DispatchSiteT>();
    site->name = name;
    site->bindings = std::move(bindings);
    site->constants = std::move(constants);
    site->slot = slot;
    auto candidate = std::make_unique<mf::CandidateT>();
    candidate->entry = entry;
    candidate->grid = std::move(grid);
    site->candidates.push_back(std::move(candidate));
    program->dispatches.push_back(std::move(site));
    return emit(mf::Op::Dispatch, static_cast<uint32_t>(program->dispatches.size() - 1));
  }
  // What the bindings of the dispatch before hold.
  void types(const std::vector<std::pair<heddle_element_type_t, std::vector<int64_t>>>& bindings) {
    for (const auto& [element_type, dims] : bindings) {
      program->dispatches.back()->binding_types.emplace_back(element_type, static_cast<uint32_t>(dims.size()));
      auto& all = program->dispatches.back()->binding_dims;
      all.insert(all.end(), dims.begin(), dims.end());
    }
  }
  uint32_t copy(mf::BindingRef source, mf::BindingRef target) {
    program->copies.emplace_back(source, target);
    return emit(mf::Op::Copy, static_cast<uint32_t>(program->copies.size() - 1));
  }
  uint32_t fill(mf::BindingRef target, uint64_t pattern, uint32_t pattern_bytes) {
    program->fills.emplace_back(target, pattern, pattern_bytes, 0);
    return emit(mf::Op::Fill, static_cast<uint32_t>(program->fills.size() - 1));
  }
  uint32_t barrier() { return emit(mf::Op::Barrier); }

  std::unique_ptr<mf::ProgramT> finish() {
    emit(mf::Op::Return);
    for (mf::Transient& slot : program->transients) {
      if (slot.last() == 0xFFFFFFFFu) slot = mf::Transient(slot.size_register(), slot.alignment(), slot.first(), next_instruction() - 1);
    }
    if (program->register_count == 0) program->register_count = 1;
    return std::move(program);
  }

  std::unique_ptr<mf::ProgramT> program;
};

// Entries of the executable that ModuleBuilder makes, in order.
enum KernelEntry : uint32_t { kAdd, kCount, kChainStep, kFailing, kSlowly, kEmpty, kKernelCount };

class ModuleBuilder {
 public:
  explicit ModuleBuilder(std::string family = "cpu", std::vector<std::string> slots = {""}) : family_(std::move(family)) {
    module.producer = "tests";
    module.name = "by hand";
    for (const std::string& name : slots) {
      auto slot = std::make_unique<mf::SlotT>();
      slot->name = name;
      module.slots.push_back(std::move(slot));
    }
  }

  // Needed once, before functions that dispatch.
  void add_kernels(const std::string& image_path, const std::string& target = "x86-64-v3") {
    std::ifstream file(image_path, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    auto executable = std::make_unique<mf::ExecutableT>();
    executable->name = "test_kernels";
    const struct {
      const char* name;
      uint32_t bindings, constants;
      uint64_t cost;
    } entries[kKernelCount] = {{"add_f32", 3, 2, 1}, {"count_workgroups", 1, 0, 1}, {"chain", 1, 1, 1},
                               {"fail", 0, 1, 1},    {"slow", 1, 1, 1'000'000},     {"nothing", 0, 0, 1}};
    auto variant = std::make_unique<mf::VariantT>();
    variant->format = "x86_64-elf/1";
    variant->target = target;
    variant->family = family_;
    variant->code = std::make_unique<mf::Range>(writer.add_code(std::as_bytes(std::span<const char>(bytes))));
    for (const auto& one : entries) {
      auto entry = std::make_unique<mf::EntryT>();
      entry->name = one.name;
      entry->binding_count = one.bindings;
      entry->constants_bytes = one.constants * 8;
      executable->entries.push_back(std::move(entry));
      auto resources = std::make_unique<mf::EntryResourcesT>();
      resources->cost = one.cost;
      variant->resources.push_back(std::move(resources));
    }
    executable->variants.push_back(std::move(variant));
    module.executables.push_back(std::move(executable));
  }

  static std::unique_ptr<mf::TensorTypeT> type(const std::string& name, std::vector<mf::Dim> dims, uint32_t element_type = HEDDLE_TYPE_F32,
                                               uint32_t slot = 0) {
    auto made = std::make_unique<mf::TensorTypeT>();
    made->name = name;
    made->element_type = element_type;
    made->dims = std::move(dims);
    made->slot = slot;
    return made;
  }
  static mf::Dim extent(int64_t value) { return {value, -1, 0}; }
  static mf::Dim symbol(int32_t index) { return {-1, index, 0}; }
  static mf::Dim unknown() { return {-1, -1, 0}; }

  mf::FunctionT& add_function(const std::string& name) {
    module.functions.push_back(std::make_unique<mf::FunctionT>());
    module.functions.back()->name = name;
    return *module.functions.back();
  }
  static void add_symbol(mf::FunctionT& function, const std::string& name, int64_t min, int64_t max, int64_t divisor) {
    auto made = std::make_unique<mf::SymbolT>();
    made->name = name;
    made->min = min;
    made->max = max;
    made->divisor = divisor;
    function.symbols.push_back(std::move(made));
  }
  uint32_t add_global(const std::string& name, mf::GlobalKind kind, uint64_t size_bytes, uint32_t index = 0, bool initializer_only = false,
                      uint32_t slot = 0) {
    auto made = std::make_unique<mf::GlobalT>();
    made->name = name;
    made->kind = kind;
    made->size_bytes = size_bytes;
    made->index = index;
    made->initializer_only = initializer_only;
    made->slot = slot;
    module.globals.push_back(std::move(made));
    return static_cast<uint32_t>(module.globals.size() - 1);
  }
  // data empty: looked for in a file of its scope.
  uint32_t add_parameter(const std::string& scope, const std::string& name, std::vector<int64_t> dims, std::span<const std::byte> data) {
    auto made = std::make_unique<mf::ParameterT>();
    made->scope = scope;
    made->name = name;
    made->element_type = HEDDLE_TYPE_F32;
    uint64_t elements = 1;
    for (int64_t dim : dims) elements *= static_cast<uint64_t>(dim);
    made->size_bytes = elements * 4;
    made->dims = std::move(dims);
    uint32_t index = static_cast<uint32_t>(module.parameters.size());
    module.parameters.push_back(std::move(made));
    if (!data.empty()) writer.set_parameter(index, module::ParameterSource{data.size(), data, nullptr});
    return index;
  }

  // Empty, or why not.
  std::string write(const std::string& path) {
    module::Status status = writer.write(module, path);
    return status ? status->message : std::string();
  }

  mf::ModuleT module;
  module::ModuleWriter writer;

 private:
  std::string family_;
};

}  // namespace heddle::testing

#endif  // HEDDLE_TESTS_MODULE_BUILDER_H_
