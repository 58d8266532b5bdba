// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One failing case for every check of the verifier: the sample with one thing wrong, and the words that must name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "../temporary_folder.h"
#include "heddle/ext/library.h"
#include "module_sample.h"
#include "sdk/module/reader.h"
#include "sdk/module/verifier.h"

namespace heddle::module {
namespace {

namespace mf = module_format;
using ::testing::HasSubstr;

// The sample as a reader sees it: ranges, sizes and hashes filled in.
std::unique_ptr<mf::ModuleT> complete_sample() {
  heddle::testing::TemporaryFolder folder;
  ModuleWriter writer;
  auto module = sample::make(writer);
  if (auto failed = writer.write(module, folder.path("m.heddle"))) throw std::runtime_error(failed->message);
  auto opened = open_module(folder.path("m.heddle"));
  return std::unique_ptr<mf::ModuleT>(opened.value()->metadata().UnPack());
}

const SectionSizes kSizes{24, 8192 + 100, 160};

Status verify(const mf::ModuleT& module, const SectionSizes& sizes = kSizes) {
  flatbuffers::FlatBufferBuilder builder;
  mf::FinishModuleBuffer(builder, mf::Module::Pack(builder, &module));
  return verify_metadata({reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()}, sizes);
}

struct Wrong {
  const char* name;
  std::function<void(mf::ModuleT&)> break_it;
  const char* words;
};
void PrintTo(const Wrong& wrong, std::ostream* out) {
  *out << wrong.name;
}

mf::ProgramT& program(mf::ModuleT& m) {
  return *m.functions[0]->programs[0];
}
void set_checks(mf::ProgramT& program, std::vector<mf::KernelCheck> checks) {
  program.checks = std::make_unique<mf::KernelChecksT>();
  program.checks->all = std::move(checks);
}
mf::ExecutableT& executable(mf::ModuleT& m) {
  return *m.executables[0];
}
void set(mf::ModuleT& m, uint32_t pc, mf::Op op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0) {
  program(m).code[pc] = sample::op(op, a, b, c);
}
mf::DispatchSiteT& site(mf::ModuleT& m) {
  return *program(m).dispatches[0];
}

void donate(mf::ModuleT& m, std::vector<mf::Donation> all) {
  m.functions[0]->donations = std::make_unique<mf::DonationsT>();
  m.functions[0]->donations->all = std::move(all);
}

void set_pitches(mf::ModuleT& m, std::vector<int64_t> all) {
  site(m).binding_pitches = std::make_unique<mf::PitchesT>();
  site(m).binding_pitches->all = std::move(all);
}

// The sample's site as an operation of its three bindings: two inputs, f32 of rank 1 and 0, and an output of rank 0.
mf::OperationT& operation(mf::ModuleT& m) {
  mf::DispatchSiteT& at = site(m);
  if (at.operation) return *at.operation;
  at.candidates.clear();
  at.constants = {0};
  for (size_t i = 0; i < at.bindings.size(); ++i) {
    const mf::BindingRef& from = at.bindings[i];
    at.bindings[i] = mf::BindingRef(from.value(), from.offset_register(), from.length_register(), i < 2 ? 1 : 2);
  }
  at.operation = std::make_unique<mf::OperationT>();
  at.operation->domain = "com.acme";
  at.operation->name = "Whiten";
  at.operation->version = 1;
  at.operation->input_count = 2;
  at.operation->operands = {{HEDDLE_TYPE_F32, 1}, {HEDDLE_TYPE_F32, 0}, {HEDDLE_TYPE_F32, 0}};
  for (const char* name : {"axis", "epsilon", "mode"}) {
    at.operation->attributes.push_back(std::make_unique<mf::OperationAttributeT>());
    at.operation->attributes.back()->name = name;
  }
  at.operation->attributes[0]->kind = HEDDLE_ATTRIBUTE_INTS;
  at.operation->attributes[1]->kind = HEDDLE_ATTRIBUTE_FLOAT;
  at.operation->attributes[1]->floats = {0.5};
  at.operation->attributes[2]->kind = HEDDLE_ATTRIBUTE_STRING;
  at.operation->attributes[2]->text = {'x'};
  return *at.operation;
}

// The same beside the sample's kernels: their one constant, then the one extent.
mf::OperationT& operation_beside_kernels(mf::ModuleT& m) {
  auto candidates = std::move(site(m).candidates);
  mf::OperationT& made = operation(m);
  site(m).candidates = std::move(candidates);
  site(m).constants = {0, 0};
  return made;
}

const Wrong kWrong[] = {
    {"OperationDomain", [](auto& m) { operation(m).domain.clear(); }, "dispatch site 0: operation: domain: it is empty"},
    {"OperationName", [](auto& m) { operation(m).name = std::string("a\0b", 3); }, "operation: name: it is not UTF-8 text"},
    {"OperationVersion", [](auto& m) { operation(m).version = 0; }, "operation: version 0 is below 1"},
    {"OperationAndNoKernelOfItsExecutable",
     [](auto& m) {
       operation(m);
       site(m).executable = 1;
     },
     "operation: its site has no candidate of executable 1"},
    {"OperationAndKernelOfNoExecutable",
     [](auto& m) {
       operation_beside_kernels(m);
       site(m).executable = 1;
     },
     "dispatch site 0: executable 1 is outside 0..0"},
    {"OperationAndKernelOfOtherConstants",
     [](auto& m) {
       operation_beside_kernels(m);
       site(m).constants.push_back(0);
     },
     "dispatch site 0: 16 bytes of constants, entry 1 takes 8"},
    {"OperationAndKernelOfOtherBindings",
     [](auto& m) {
       operation_beside_kernels(m);
       executable(m).entries[1]->binding_count = 2;
     },
     "dispatch site 0: 3 bindings, entry 1 takes 2"},
    {"OperationAndKernelWithoutItsExtents", [](auto& m) { operation_beside_kernels(m).operands[1] = {HEDDLE_TYPE_F32, 2}; },
     "its operands have 3 extents, its site 2"},
    {"OperationOperands", [](auto& m) { operation(m).operands.pop_back(); }, "operation: 2 operands and 3 bindings"},
    {"OperationTooManyOperands",
     [](auto& m) {
       operation(m).operands.resize(65);
       site(m).bindings.resize(65, site(m).bindings[0]);
     },
     "operation: 65 operands are above 64"},
    {"OperationWithoutOutput", [](auto& m) { operation(m).input_count = 3; }, "of 3 operands 3 are inputs, and none is an output"},
    {"OperationType", [](auto& m) { operation(m).operands[1] = {7, 0}; }, "operation: operand 1: element type 7 is not known"},
    {"OperationRank", [](auto& m) { operation(m).operands[1] = {HEDDLE_TYPE_F32, 17}; }, "operation: operand 1: rank 17 is above 16"},
    {"OperationExtents", [](auto& m) { operation(m).operands[1] = {HEDDLE_TYPE_F32, 2}; }, "its operands have 3 extents, its site 1"},
    {"OperationWritesItsInput",
     [](auto& m) {
       operation(m);
       mf::BindingRef& first = site(m).bindings[0];
       first = mf::BindingRef(site(m).bindings[2].value(), first.offset_register(), first.length_register(), 3);
     },
     "operation: operand 0: access 3, expected 1"},
    {"OperationReadsItsOutput", [](auto& m) { operation(m).input_count = 1; }, "operation: operand 1: access 1, expected 2"},
    {"OperationAttributeOrder", [](auto& m) { operation(m).attributes[1]->name = "aaa"; }, "attribute 'aaa' is not after 'axis'"},
    {"OperationAttributeTwice", [](auto& m) { operation(m).attributes[1]->name = "axis"; }, "attribute 'axis' is not after 'axis'"},
    {"OperationAttributeKind", [](auto& m) { operation(m).attributes[1]->kind = 6; }, "attribute 'epsilon': kind 6 is not known"},
    {"OperationAttributeCount", [](auto& m) { operation(m).attributes[1]->floats.clear(); },
     "attribute 'epsilon': kind 2 with 0 ints, 0 floats and 0 bytes of text"},
    {"OperationAttributeOfTwoKinds", [](auto& m) { operation(m).attributes[0]->text = {'x'}; },
     "attribute 'axis': kind 4 with 0 ints, 0 floats and 1 bytes of text"},
    {"OperationTooManyAttributes",
     [](auto& m) {
       for (int i = 0; i < 62; ++i) {
         operation(m).attributes.push_back(std::make_unique<mf::OperationAttributeT>());
         operation(m).attributes.back()->name = "n" + std::to_string(100 + i);
         operation(m).attributes.back()->kind = HEDDLE_ATTRIBUTE_INTS;
       }
     },
     "operation: 65 attributes are above 64"},
    {"OperationConstant",
     [](auto& m) {
       operation(m);
       site(m).constants[0] = 6;
     },
     "dispatch site 0: constant register 6 is outside 0..5"},
    // module
    {"NoSlot", [](auto& m) { m.slots.clear(); }, "slots: there are 0, expected 1..64"},
    {"TooManySlots",
     [](auto& m) {
       for (int i = 0; i < 64; ++i) {
         m.slots.push_back(std::make_unique<mf::SlotT>());
         m.slots.back()->name = concat("@", i);
       }
     },
     "slots: there are 65"},
    {"SlotTwice", [](auto& m) { m.slots.push_back(std::make_unique<mf::SlotT>()); }, "slot 1: the name '' is a duplicate"},
    {"ProducerNotText", [](auto& m) { m.producer = "\xff"; }, "producer: it is not UTF-8 text"},
    {"NameTooLong", [](auto& m) { m.name.assign(65536, 'x'); }, "module name: 65536 bytes are above 65535"},
    {"ReportNotText", [](auto& m) { m.report = "\xc0\x80"; }, "report: it is not UTF-8 text"},
    {"NulInName", [](auto& m) { m.name = std::string("a\0b", 3); }, "module name: it is not UTF-8 text"},
    {"DerivedWithoutInitializer", [](auto& m) { m.initializer.clear(); }, "initializer: there is none"},
    // executables
    {"NoEntry", [](auto& m) { executable(m).entries.clear(); }, "executable 0: it has no entry"},
    {"NoVariant", [](auto& m) { executable(m).variants.clear(); }, "executable 0: it has no variant"},
    {"EntryWithoutName", [](auto& m) { executable(m).entries[1]->name.clear(); }, "executable 0: entry 1: name: it is empty"},
    {"TooManyBindings", [](auto& m) { executable(m).entries[0]->binding_count = 4097; }, "binding count 4097 is above 4096"},
    {"OddConstants", [](auto& m) { executable(m).entries[0]->constants_bytes = 12; }, "constants of 12 bytes"},
    {"TooManyConstants", [](auto& m) { executable(m).entries[0]->constants_bytes = 65544; }, "constants of 65544 bytes"},
    {"ArgumentKind", [](auto& m) { executable(m).entries[0]->arguments[0]->kind = 3; }, "argument 0: kind 3 is not known"},
    {"ArgumentBinding", [](auto& m) { executable(m).entries[0]->arguments[0]->index = 3; }, "argument 0: binding 3 is not one of 3"},
    {"ArgumentTensorMap",
     [](auto& m) {
       executable(m).entries[0]->arguments[0]->kind = 2;
       executable(m).entries[0]->arguments[0]->index = 9;
     },
     "binding 9 is not one of 3"},
    {"ArgumentConstant", [](auto& m) { executable(m).entries[0]->arguments[1]->index = 4; },
     "argument 1: 8 bytes from byte 4 are outside the constants of 8"},
    {"ArgumentConstantWraps", [](auto& m) { executable(m).entries[0]->arguments[1]->index = 0xFFFFFFFFu; },
     "argument 1: 8 bytes from byte 4294967295"},
    {"VariantWithoutFormat", [](auto& m) { executable(m).variants[0]->format.clear(); }, "variant 0: format: it is empty"},
    {"VariantWithoutTarget", [](auto& m) { executable(m).variants[0]->target.clear(); }, "variant 0: target: it is empty"},
    {"VariantWithoutFamily", [](auto& m) { executable(m).variants[0]->family.clear(); }, "variant 0: family: it is empty"},
    {"VariantWithoutCode", [](auto& m) { executable(m).variants[1]->code.reset(); }, "variant 1: its range in section code is missing"},
    {"CodeOutside", [](auto& m) { *executable(m).variants[1]->code = mf::Range(8192, 101); },
     "its 101 bytes from byte 8192 are outside section code of 8292 bytes"},
    {"CodeWraps", [](auto& m) { *executable(m).variants[1]->code = mf::Range(4096, UINT64_MAX - 4095); }, "are outside section code"},
    {"CodeUnaligned", [](auto& m) { *executable(m).variants[1]->code = mf::Range(64, 64); },
     "its start, byte 64 of section code, is not a multiple of 4096"},
    {"CodeEmpty", [](auto& m) { *executable(m).variants[1]->code = mf::Range(0, 0); }, "its code is empty"},
    {"ResourceCount", [](auto& m) { executable(m).variants[0]->resources.pop_back(); }, "resources of 1 entries, there are 2"},
    {"WorkgroupAxes", [](auto& m) { executable(m).variants[0]->resources[0]->workgroup_size.pop_back(); }, "workgroup size of 2 numbers"},
    {"WorkgroupZero", [](auto& m) { executable(m).variants[0]->resources[0]->workgroup_size[1] = 0; }, "workgroup extent 0"},
    {"WorkgroupLarge", [](auto& m) { executable(m).variants[0]->resources[0]->workgroup_size = {1024, 1024, 1}; },
     "workgroup of 1048576 threads"},
    {"Subgroup", [](auto& m) { executable(m).variants[0]->resources[0]->subgroup_size = 65537; }, "subgroup size 65537"},
    {"Workspace", [](auto& m) { executable(m).variants[0]->resources[1]->workspace_bytes = uint64_t{1} << 40; },
     "workspace of 1099511627776 bytes"},
    {"EntryFlags", [](auto& m) { executable(m).variants[0]->resources[1]->flags = 4; }, "flags 4 are unknown"},
    {"ContradictingEntryFlags", [](auto& m) { executable(m).variants[0]->resources[1]->flags = 3; }, "flags 3 are unknown"},
    {"SharedMemory", [](auto& m) { executable(m).variants[0]->resources[1]->shared_memory_bytes = uint64_t{1} << 40; },
     "shared memory of 1099511627776 bytes"},
    // parameters
    {"ParameterWithoutName", [](auto& m) { m.parameters[0]->name.clear(); }, "parameter 0: name: it is empty"},
    {"ParameterTwice", [](auto& m) { m.parameters[1]->name = "dense.weight"; }, "parameter 1: the name 'dense.weight' is a duplicate"},
    {"ParameterType", [](auto& m) { m.parameters[0]->element_type = 77; }, "parameter 0: element type 77 is not known"},
    {"ParameterRank", [](auto& m) { m.parameters[0]->dims.assign(17, 1); }, "rank 17 is above 16"},
    {"ParameterNegative", [](auto& m) { m.parameters[0]->dims = {-4, 8}; }, "its shape f32[?,8] has no size"},
    {"ParameterOverflow", [](auto& m) { m.parameters[0]->dims = {INT64_MAX, 8}; }, "has no size up to"},
    {"ParameterSize", [](auto& m) { m.parameters[0]->size_bytes = 127; }, "size of 127 bytes, its shape f32[4,8] has 128"},
    {"ParameterOfBlocks", [](auto& m) { m.parameters[0]->blocks = std::make_unique<module_format::StoredBlocksT>(); m.parameters[0]->blocks->type = "Q8_0"; }, "it has blocks, and is stored or has f32[4,8]"},
    {"ParameterNoRange", [](auto& m) { m.parameters[0]->data.reset(); }, "its range in section parameters is missing"},
    {"ParameterOutside", [](auto& m) { *m.parameters[1]->data = mf::Range(192, 32); }, "are outside section parameters of 160 bytes"},
    {"ParameterUnaligned", [](auto& m) { *m.parameters[1]->data = mf::Range(32, 32); }, "is not a multiple of 64"},
    {"ParameterLength", [](auto& m) { *m.parameters[1]->data = mf::Range(128, 16); }, "16 of 32 bytes are stored"},
    // globals
    {"GlobalSlot", [](auto& m) { m.globals[0]->slot = 1; }, "global 0: slot 1 is not one of 1"},
    {"GlobalKind", [](auto& m) { m.globals[0]->kind = static_cast<mf::GlobalKind>(4); }, "global 0: kind 4 is not known"},
    {"GlobalParameter", [](auto& m) { m.globals[0]->index = 3; }, "global 0: parameter 3 is not one of 3"},
    {"GlobalParameterSize", [](auto& m) { m.globals[0]->size_bytes = 64; }, "global 0: size of 64 bytes, its parameter has 128"},
    {"GlobalConstantNoRange", [](auto& m) { m.globals[2]->data.reset(); }, "global 2: its range in section constants is missing"},
    {"GlobalConstantOutside", [](auto& m) { *m.globals[2]->data = mf::Range(0, 25); }, "outside section constants of 24 bytes"},
    {"GlobalConstantSize", [](auto& m) { m.globals[2]->size_bytes = 23; }, "global 2: size of 23 bytes, its constant has 24"},
    {"GlobalLarge", [](auto& m) { m.globals[4]->size_bytes = UINT64_MAX; }, "global 4: size of 18446744073709551615 bytes"},
    // functions
    {"FunctionWithoutName", [](auto& m) { m.functions[0]->name.clear(); }, "function 0: name: it is empty"},
    {"FunctionTwice",
     [](auto& m) {
       m.functions.push_back(std::make_unique<mf::FunctionT>());
       m.functions[1]->name = "main";
     },
     "function 1: the name 'main' is a duplicate"},
    {"FunctionWithoutProgram", [](auto& m) { m.functions[0]->programs.clear(); }, "program count 0 is outside 1..256"},
    {"SymbolRange", [](auto& m) { m.functions[0]->symbols[0]->min = 65; }, "symbol 0: range 65..64 is empty"},
    {"SymbolDivisor", [](auto& m) { m.functions[0]->symbols[0]->divisor = 0; }, "symbol 0: divisor 0 is not positive"},
    {"ArgumentType", [](auto& m) { m.functions[0]->arguments[0]->element_type = 0; }, "function 'main': argument 0: element type 0"},
    {"ArgumentRank", [](auto& m) { m.functions[0]->arguments[0]->dims.assign(17, mf::Dim(1, -1, 0)); }, "rank 17 is above 16"},
    {"ArgumentSlot", [](auto& m) { m.functions[0]->arguments[0]->slot = 1; }, "argument 0: slot 1 is not one of 1"},
    {"ArgumentSymbol", [](auto& m) { m.functions[0]->arguments[0]->dims[0] = mf::Dim(0, 1, 0); }, "dimension 0: symbol 1 is not one of 1"},
    {"ArgumentSymbolNegative", [](auto& m) { m.functions[0]->arguments[0]->dims[0] = mf::Dim(0, -2, 0); },
     "dimension 0: symbol -2 is below -1"},
    {"ArgumentUnknownExtent", [](auto& m) { m.functions[0]->arguments[0]->dims[0] = mf::Dim(-1, -1, 0); },
     "dimension 0: extent -1 is negative"},
    {"ResultExtent", [](auto& m) { m.functions[0]->results[0]->dims[0] = mf::Dim(-2, -1, 0); },
     "result 0: dimension 0: extent -2 is negative"},
    {"ResultOverflow", [](auto& m) { m.functions[0]->results[0]->dims[1] = mf::Dim(INT64_MAX, -1, 0); }, "result 0: its shape has no size"},
    // programs
    {"Families", [](auto& m) { program(m).families.clear(); }, "it names 0 families for 1 slots"},
    {"FamilyEmpty", [](auto& m) { program(m).families[0].clear(); }, "family: it is empty"},
    {"RegisterCount", [](auto& m) { program(m).register_count = 65537; }, "register count 65537 is above 65536"},
    {"NoCode",
     [](auto& m) {
       program(m).code.clear();
       program(m).transients.clear();
       program(m).values[2] = mf::Value(mf::ValueKind::Argument, 0);
       program(m).dispatches.clear();
       program(m).copies.clear();
     },
     "it has no instruction"},
    {"LastInstruction", [](auto& m) { program(m).code.pop_back(); }, "the last one is neither Return nor Branch"},
    {"ValueKind", [](auto& m) { program(m).values[0] = mf::Value(static_cast<mf::ValueKind>(5), 0); }, "value 0: kind 5 is not known"},
    {"ValueArgument", [](auto& m) { program(m).values[0] = mf::Value(mf::ValueKind::Argument, 1); }, "value 0: argument 1 is outside 0..0"},
    {"ValueResult", [](auto& m) { program(m).values[1] = mf::Value(mf::ValueKind::Result, 1); }, "value 1: result 1 is outside 0..0"},
    {"ValueTransient", [](auto& m) { program(m).values[2] = mf::Value(mf::ValueKind::Transient, 1); },
     "value 2: transient 1 is outside 0..0"},
    {"ValueGlobal", [](auto& m) { program(m).values[3] = mf::Value(mf::ValueKind::Global, 5); }, "value 3: global 5 is outside 0..4"},
    {"ValueInitializerOnly", [](auto& m) { program(m).values[3] = mf::Value(mf::ValueKind::Global, 0); },
     "value 3: global 0 is for the initializer only"},
    {"InitializerArgument", [](auto& m) { m.initializer[0]->values[0] = mf::Value(mf::ValueKind::Argument, 0); },
     "initializer 0: value 0: argument 0 does not exist"},
    {"ValueVerdict", [](auto& m) { program(m).values[1] = mf::Value(mf::ValueKind::Verdict, 0); }, "value 1: verdict 0 does not exist"},
    {"CheckVerdict", [](auto& m) { set_checks(program(m), {{1, 0, mf::CheckKind::Index, 4, 0}}); }, "check 0: verdict 1 is outside 0..0"},
    {"CheckElsewhere",
     [](auto& m) {
       set_checks(program(m), {{0, 0, mf::CheckKind::Index, 4, 0}, {0, 0, mf::CheckKind::Index, 4, 0}, {1, 0, mf::CheckKind::Index, 4, 0}});
     },
     "check 2: check 1 has its verdict elsewhere"},
    {"VerdictRead",
     [](auto& m) {
       set_checks(program(m), {{0, 0, mf::CheckKind::Index, 4, 0}});
       program(m).values[0] = mf::Value(mf::ValueKind::Verdict, 0);
     },
     "dispatch site 0: binding 0: verdict 0 is read"},
    {"VerdictScalar",
     [](auto& m) {
       set_checks(program(m), {{0, 0, mf::CheckKind::Index, 4, 0}});
       program(m).values[4] = mf::Value(mf::ValueKind::Verdict, 0);
     },
     "instruction 13: a verdict is read"},
    {"CheckSlot", [](auto& m) { set_checks(program(m), {{0, 1, mf::CheckKind::Index, 4, 0}}); }, "check 0: slot 1 is outside 0..0"},
    {"CheckKind", [](auto& m) { set_checks(program(m), {{0, 0, static_cast<mf::CheckKind>(2), 4, 0}}); }, "check 0: kind 2 is not known"},
    {"CheckLimit", [](auto& m) { set_checks(program(m), {{0, 0, mf::CheckKind::Index, 6, 0}}); },
     "check 0: limit register 6 is outside 0..5"},
    {"KernelCheckMessage", [](auto& m) { set_checks(program(m), {{0, 0, mf::CheckKind::Divisor, 4, 1}}); },
     "check 0: message 1 is outside 0..0"},
    {"CheckOfInitializer", [](auto& m) { set_checks(*m.initializer[0], {{0, 0, mf::CheckKind::Index, 0, 0}}); },
     "initializer 0: an initializer has checks of kernels"},
    {"TransientRegister", [](auto& m) { program(m).transients[0] = mf::Transient(6, 64, 8, 12); },
     "transient 0: register 6 is outside 0..5"},
    {"TransientAlignment", [](auto& m) { program(m).transients[0] = mf::Transient(3, 48, 8, 12); }, "transient 0: alignment 48"},
    {"TransientAlignmentZero", [](auto& m) { program(m).transients[0] = mf::Transient(3, 0, 8, 12); }, "transient 0: alignment 0"},
    {"TransientAlignmentLarge", [](auto& m) { program(m).transients[0] = mf::Transient(3, 8192, 8, 12); }, "transient 0: alignment 8192"},
    {"TransientBackward", [](auto& m) { program(m).transients[0] = mf::Transient(3, 64, 12, 8); },
     "transient 0: it lives from instruction 12 to 8 of 15"},
    {"TransientBeyond", [](auto& m) { program(m).transients[0] = mf::Transient(3, 64, 8, 15); },
     "transient 0: it lives from instruction 8 to 15 of 15"},
    {"TransientDeadAtDispatch", [](auto& m) { program(m).transients[0] = mf::Transient(3, 64, 9, 12); },
     "instruction 8: transient 0 is used outside its lifetime,  9..12"},
    {"TransientDeadAtCopy", [](auto& m) { program(m).transients[0] = mf::Transient(3, 64, 8, 11); },
     "instruction 12: transient 0 is used outside its life"},
    {"MessageNotText", [](auto& m) { program(m).messages[0] = "\xed\xa0\x80"; }, "message: it is not UTF-8 text"},
    // sites
    {"SiteExecutable", [](auto& m) { site(m).executable = 1; }, "dispatch site 0: executable 1 is outside 0..0"},
    {"SiteSlot", [](auto& m) { site(m).slot = 1; }, "dispatch site 0: slot 1 is outside 0..0"},
    {"SiteNoCandidate", [](auto& m) { site(m).candidates.clear(); }, "dispatch site 0: it has no candidate"},
    {"SiteEntry", [](auto& m) { site(m).candidates[1]->entry = 2; }, "candidate 1: entry 2 is outside 0..1"},
    {"SiteBindingCount", [](auto& m) { site(m).bindings.pop_back(); }, "2 bindings, entry 1 takes 3"},
    {"SiteConstantCount", [](auto& m) { site(m).constants.clear(); }, "0 bytes of constants, entry 1 takes 8"},
    {"SiteConstant", [](auto& m) { site(m).constants[0] = 6; }, "dispatch site 0: constant register 6 is outside 0..5"},
    {"SiteGridCount", [](auto& m) { site(m).candidates[0]->grid.pop_back(); }, "grid of 2 registers"},
    {"SiteGrid", [](auto& m) { site(m).candidates[0]->grid[2] = 70; }, "candidate 0: grid register 70 is outside 0..5"},
    {"GuardRegister", [](auto& m) { site(m).candidates[0]->guards[0] = mf::Guard(6, 0, 1, 1, 1); }, "guard register 6 is outside 0..5"},
    {"GuardDivisor", [](auto& m) { site(m).candidates[0]->guards[0] = mf::Guard(0, 0, 1, 1, 0); }, "guard 0: divisor 0 is not positive"},
    {"GuardRange", [](auto& m) { site(m).candidates[0]->guards[0] = mf::Guard(0, 0, 2, 1, 1); }, "guard 0: range 2..1 is empty"},
    {"TypesTooFew", [](auto& m) { site(m).binding_types.pop_back(); }, "dispatch site 0: not every binding has a type"},
    {"TypesElement", [](auto& m) { site(m).binding_types[1] = mf::BindingType(0x99, 2); }, "element type 153 of a binding does not exist"},
    {"TypesRank", [](auto& m) { site(m).binding_types[1] = mf::BindingType(HEDDLE_TYPE_F32, 17); }, "rank 17 of a binding is above 16"},
    {"TypesDims", [](auto& m) { site(m).binding_dims.pop_back(); }, "do not add up to their dimensions"},
    {"TypesNegative", [](auto& m) { site(m).binding_dims[3] = -2; }, "dimension -2 of a binding is negative"},
    {"PitchesTooFew", [](auto& m) { set_pitches(m, {0}); }, "dispatch site 0: not every binding has a type and a pitch"},
    {"PitchOfUnknownRow", [](auto& m) { site(m).binding_dims[1] = -1, set_pitches(m, {8, 0, 0}); },
     "pitch 8 of a binding with rows of -1 is not possible"},
    {"PitchBelowRow", [](auto& m) { set_pitches(m, {0, 0, 7}); }, "pitch 7 of a binding with rows of 8 is not possible"},
    {"PitchWithoutTypes", [](auto& m) { site(m).binding_types.clear(), site(m).binding_dims.clear(), set_pitches(m, {0, 0, 8}); },
     "dispatch site 0: not every binding has a type and a pitch"},
    {"PitchOfUnknownElement",
     [](auto& m) { site(m).binding_types[2] = mf::BindingType(HEDDLE_TYPE_UNDEFINED, 2), set_pitches(m, {0, 0, 8}); },
     "pitch 8 of a binding with rows of 8 is not possible"},
    {"PitchAboveLimit", [](auto& m) { set_pitches(m, {0, 0, INT64_MAX}); }, "of a binding with rows of 8 is not possible"},
    {"BindingValue", [](auto& m) { site(m).bindings[0] = mf::BindingRef(6, sample::kAll, sample::kAll, 1); },
     "binding 0: value 6 is outside 0..5"},
    {"BindingOffset", [](auto& m) { site(m).bindings[0] = mf::BindingRef(0, 6, sample::kAll, 1); }, "binding 0: offset register 6"},
    {"BindingLength", [](auto& m) { site(m).bindings[0] = mf::BindingRef(0, sample::kAll, 6, 1); }, "binding 0: length register 6"},
    {"BindingAccess", [](auto& m) { site(m).bindings[0] = mf::BindingRef(0, sample::kAll, sample::kAll, 4); },
     "binding 0: access 4 is outside 1..3"},
    {"BindingAccessNone", [](auto& m) { site(m).bindings[0] = mf::BindingRef(0, sample::kAll, sample::kAll, 0); },
     "binding 0: access 0 is outside 1..3"},
    {"DonatedArgument", [](auto& m) { donate(m, {{9, -1}}); }, "donation 0: argument 9 is not one of"},
    {"DonatedTwice", [](auto& m) { donate(m, {{0, -1}, {0, -1}}); }, "donation 1: argument 0 is not in order"},
    {"DonatedToNoResult", [](auto& m) { donate(m, {{0, 9}}); }, "donation 0: result 9 is not one of"},
    {"DonatedToANegativeResult", [](auto& m) { donate(m, {{0, -2}}); }, "donation 0: result -2 is not one of"},
    {"DonatedToAnotherType",
     [](auto& m) {
       m.functions[0]->results[0]->element_type = HEDDLE_TYPE_F64;
       donate(m, {{0, 0}});
     },
     "donation 0: argument 0 and result 0 differ in type or slot"},
    {"DonatedAndWrittenByOthers",
     [](auto& m) {
       m.functions[0]->results[0] = std::make_unique<mf::TensorTypeT>(*m.functions[0]->arguments[0]);
       donate(m, {{0, 0}});
       site(m).bindings[0] = mf::BindingRef(0, sample::kAll, sample::kAll, 2);
     },
     "binding 0: argument 0 is written"},
    {"ArgumentWritten", [](auto& m) { site(m).bindings[0] = mf::BindingRef(0, sample::kAll, sample::kAll, 2); },
     "binding 0: argument 0 is written"},
    {"DerivedWritten", [](auto& m) { site(m).bindings[1] = mf::BindingRef(3, sample::kAll, sample::kAll, 3); },
     "binding 1: global 3 of kind 2 is written"},
    {"ConstantWritten", [](auto& m) { site(m).bindings[1] = mf::BindingRef(5, sample::kAll, sample::kAll, 3); },
     "binding 1: global 2 of kind 1 is written"},
    {"ParameterWritten", [](auto& m) { m.initializer[0]->dispatches[0]->bindings[0] = mf::BindingRef(0, sample::kAll, sample::kAll, 3); },
     "initializer 0: dispatch site 0: binding 0: global 0 of kind 0 is written"},
    {"CopySource",
     [](auto& m) { program(m).copies[0] = mf::CopySite(mf::BindingRef(2, sample::kAll, 3, 2), program(m).copies[0].target()); },
     "copy site 0: source: access 2 lacks 1"},
    {"CopyTarget",
     [](auto& m) { program(m).copies[0] = mf::CopySite(program(m).copies[0].source(), mf::BindingRef(1, sample::kAll, 3, 1)); },
     "copy site 0: target: access 1 lacks 2"},
    {"FillTarget", [](auto& m) { program(m).fills[0] = mf::FillSite(mf::BindingRef(99, sample::kAll, 3, 2), 0, 8, 0); },
     "fill site 0: target: value 99"},
    {"FillPattern", [](auto& m) { program(m).fills[0] = mf::FillSite(mf::BindingRef(4, sample::kAll, sample::kAll, 2), 0, 3, 0); },
     "fill site 0: pattern of 3 bytes"},
    // instructions
    {"Unknown", [](auto& m) { set(m, 5, static_cast<mf::Op>(26)); }, "instruction 5: operation 26 is not known"},
    {"Reserved", [](auto& m) { program(m).code[5] = mf::Instruction(0, 1, 0, 0, 0); }, "instruction 5: reserved bits 1"},
    {"LiteralTarget", [](auto& m) { set(m, 1, mf::Op::Literal, 6, 0); }, "program 0: instruction 1: register 6 is outside 0..5"},
    {"LiteralIndex", [](auto& m) { set(m, 1, mf::Op::Literal, 0, 3); }, "instruction 1: literal 3 is outside 0..2"},
    {"MoveSource", [](auto& m) { set(m, 1, mf::Op::Move, 0, 6); }, "instruction 1: register 6"},
    {"AddA", [](auto& m) { set(m, 1, mf::Op::Add, 6, 0, 0); }, "instruction 1: register 6"},
    {"AddB", [](auto& m) { set(m, 1, mf::Op::Add, 0, 6, 0); }, "instruction 1: register 6"},
    {"LessEqualC", [](auto& m) { set(m, 1, mf::Op::LessEqual, 0, 0, 6); }, "instruction 1: register 6"},
    {"Branch", [](auto& m) { set(m, 1, mf::Op::Branch, 15); }, "instruction 1: branch target 15 is outside 0..14"},
    {"BranchIf", [](auto& m) { set(m, 1, mf::Op::BranchIf, 15, 0); }, "instruction 1: branch target 15 is outside 0..14"},
    {"BranchIfRegister", [](auto& m) { set(m, 1, mf::Op::BranchIf, 0, 6); }, "instruction 1: register 6"},
    {"ArgumentDimTarget", [](auto& m) { set(m, 1, mf::Op::ArgumentDim, 6, 0, 0); }, "instruction 1: register 6"},
    {"ArgumentDimArgument", [](auto& m) { set(m, 1, mf::Op::ArgumentDim, 0, 1, 0); }, "instruction 1: argument 1 is outside 0..0"},
    {"ArgumentDimDim", [](auto& m) { set(m, 1, mf::Op::ArgumentDim, 0, 0, 2); }, "argument 0: dimension 2 is outside 0..1"},
    {"ResultDimResult", [](auto& m) { set(m, 7, mf::Op::ResultDim, 1, 0, 0); }, "instruction 7: result 1 is outside 0..0"},
    {"ResultDimDim", [](auto& m) { set(m, 7, mf::Op::ResultDim, 0, 2, 0); }, "result 0: dimension 2 is outside 0..1"},
    {"ResultDimRegister", [](auto& m) { set(m, 7, mf::Op::ResultDim, 0, 0, 6); }, "instruction 7: register 6"},
    {"CheckMessage", [](auto& m) { set(m, 6, mf::Op::Check, 1, 0); }, "instruction 6: message 1 is outside 0..0"},
    {"CheckRegister", [](auto& m) { set(m, 6, mf::Op::Check, 0, 6); }, "instruction 6: register 6"},
    {"DispatchSite", [](auto& m) { set(m, 8, mf::Op::Dispatch, 1); }, "instruction 8: dispatch site 1 is outside 0..0"},
    {"CopySite", [](auto& m) { set(m, 8, mf::Op::Copy, 1); }, "instruction 8: copy site 1 is outside 0..0"},
    {"FillSite", [](auto& m) { set(m, 8, mf::Op::Fill, 1); }, "instruction 8: fill site 1 is outside 0..0"},
    {"ReadScalarTarget", [](auto& m) { set(m, 13, mf::Op::ReadScalar, 6, 0, 0); }, "instruction 13: register 6"},
    {"ReadScalarValue", [](auto& m) { set(m, 13, mf::Op::ReadScalar, 0, 6, 0); }, "instruction 13: value 6 is outside 0..5"},
    {"ReadScalarOffset", [](auto& m) { set(m, 13, mf::Op::ReadScalar, 0, 0, 6); }, "instruction 13: register 6"},
    {"ComputeUnitsTarget", [](auto& m) { set(m, 1, mf::Op::ComputeUnits, 6, 0); }, "instruction 1: register 6"},
    {"ComputeUnitsSlot", [](auto& m) { set(m, 1, mf::Op::ComputeUnits, 0, 9); }, "instruction 1: slot 9 is outside 0.."},
    {"ReadScalarDead", [](auto& m) { set(m, 13, mf::Op::ReadScalar, 0, 2, 0); }, "instruction 13: transient 0 is used outside its life"},
};

class ModuleVerifier : public ::testing::TestWithParam<Wrong> {};

TEST_P(ModuleVerifier, Refuses) {
  auto module = complete_sample();
  GetParam().break_it(*module);
  Status failed = verify(*module);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, HEDDLE_STATUS_DATA_LOSS);
  EXPECT_THAT(failed->message, HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(Cases, ModuleVerifier, ::testing::ValuesIn(kWrong), [](const auto& info) { return info.param.name; });

TEST(ModuleVerifierStructure, AcceptsTheSample) {
  Status failed = verify(*complete_sample());
  EXPECT_FALSE(failed) << failed->message;
}

TEST(ModuleVerifierStructure, AcceptsAnOperation) {
  auto module = complete_sample();
  operation(*module);
  Status failed = verify(*module);
  EXPECT_FALSE(failed) << failed->message;
}

TEST(ModuleVerifierStructure, AcceptsAnOperationBesideKernels) {
  auto module = complete_sample();
  operation_beside_kernels(*module);
  Status failed = verify(*module);
  EXPECT_FALSE(failed) << failed->message;
}

TEST(ModuleVerifierStructure, RefusesMissingVectors) {
  flatbuffers::FlatBufferBuilder builder;
  mf::ModuleBuilder module(builder);
  mf::FinishModuleBuffer(builder, module.Finish());
  Status failed = verify_metadata({reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()}, kSizes);
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->message, HasSubstr("a vector is missing"));
}

TEST(ModuleVerifierStructure, RefusesBytesThatAreNoFlatBuffer) {
  alignas(8) std::byte zeros[64] = {};
  EXPECT_TRUE(verify_metadata(zeros, kSizes));
  EXPECT_TRUE(verify_metadata({zeros, 8}, kSizes));
  EXPECT_TRUE(verify_metadata({}, kSizes));
}

// One long scope that all parameters share, and one list of guards that all candidates share.
TEST(ModuleVerifierStructure, RefusesSharedNamesAndGuards) {
  for (bool guards : {false, true}) {
    flatbuffers::FlatBufferBuilder builder;
    builder.ForceDefaults(true);
    const auto text = builder.CreateString("");
    const auto tensors = builder.CreateVector(std::vector<flatbuffers::Offset<mf::TensorType>>{});
    const auto no_programs = builder.CreateVector(std::vector<flatbuffers::Offset<mf::Program>>{});
    std::vector<flatbuffers::Offset<mf::Parameter>> parameters;
    std::vector<flatbuffers::Offset<mf::Function>> functions;
    std::vector<flatbuffers::Offset<mf::Executable>> executables;
    if (!guards) {
      const auto scope = builder.CreateString(std::string(60000, 's'));
      const auto dims = builder.CreateVector(std::vector<int64_t>{1});
      for (int i = 0; i < 100; ++i) {
        parameters.push_back(mf::CreateParameter(builder, scope, builder.CreateString(concat("p", i)), HEDDLE_TYPE_F32, dims, 4));
      }
    } else {
      const auto list = builder.CreateVectorOfStructs(std::vector<mf::Guard>(2000, mf::Guard(0, 0, 1, 1, 1)));
      const auto grid = builder.CreateVector(std::vector<uint32_t>{0, 0, 0});
      std::vector<flatbuffers::Offset<mf::Candidate>> candidates;
      for (int i = 0; i < 1000; ++i) candidates.push_back(mf::CreateCandidate(builder, 0, list, grid));
      const auto site = mf::CreateDispatchSite(builder, text, 0, builder.CreateVector(candidates),
                                               builder.CreateVectorOfStructs(std::vector<mf::BindingRef>{}),
                                               builder.CreateVector(std::vector<uint32_t>{}), 0);
      const auto families = builder.CreateVectorOfStrings(std::vector<std::string>{"cpu"});
      const auto program = mf::CreateProgram(
          builder, families, 1, builder.CreateVector(std::vector<int64_t>{}),
          builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>{}),
          builder.CreateVectorOfStructs(std::vector<mf::Instruction>{sample::op(mf::Op::Return)}),
          builder.CreateVectorOfStructs(std::vector<mf::Value>{}), builder.CreateVectorOfStructs(std::vector<mf::Transient>{}),
          builder.CreateVector(std::vector<flatbuffers::Offset<mf::DispatchSite>>{site}),
          builder.CreateVectorOfStructs(std::vector<mf::CopySite>{}), builder.CreateVectorOfStructs(std::vector<mf::FillSite>{}));
      const auto entry =
          mf::CreateEntry(builder, builder.CreateString("e"), 0, 0, builder.CreateVector(std::vector<flatbuffers::Offset<mf::Argument>>{}));
      const mf::Range code(0, 64);
      const auto needs = mf::CreateEntryResources(builder, builder.CreateVector(std::vector<uint32_t>{}), 0, 0, 0, 0, text);
      const auto variant =
          mf::CreateVariant(builder, builder.CreateString("x86_64-elf/1"), builder.CreateString("x86-64-v3"), builder.CreateString("cpu"),
                            &code, builder.CreateVector(std::vector<flatbuffers::Offset<mf::EntryResources>>{needs}));
      executables.push_back(mf::CreateExecutable(builder, text, builder.CreateVector(std::vector<flatbuffers::Offset<mf::Entry>>{entry}),
                                                 builder.CreateVector(std::vector<flatbuffers::Offset<mf::Variant>>{variant})));
      functions.push_back(mf::CreateFunction(builder, builder.CreateString("f"), tensors, tensors,
                                             builder.CreateVector(std::vector<flatbuffers::Offset<mf::Symbol>>{}),
                                             builder.CreateVector(std::vector<flatbuffers::Offset<mf::Program>>{program})));
    }
    const auto slots = builder.CreateVector(std::vector<flatbuffers::Offset<mf::Slot>>{mf::CreateSlot(builder, text)});
    mf::FinishModuleBuffer(builder, mf::CreateModule(builder, text, text, slots, builder.CreateVector(functions), no_programs,
                                                     builder.CreateVector(executables), builder.CreateVector(parameters),
                                                     builder.CreateVector(std::vector<flatbuffers::Offset<mf::Global>>{}), text));
    Status failed = verify_metadata({reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()}, kSizes);
    ASSERT_TRUE(failed);
    EXPECT_THAT(failed->message, HasSubstr(guards ? "vectors of its candidates are shared" : "bytes are shared with others"));
  }
}

// One program that a thousand functions point to: the file is small, the work would not be.
TEST(ModuleVerifierStructure, RefusesSharedVectors) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<mf::Instruction> code(2000, sample::op(mf::Op::Return));
  const auto no_strings = builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>{});
  const auto families = builder.CreateVectorOfStrings(std::vector<std::string>{"cpu"});
  const auto program = mf::CreateProgram(
      builder, families, 1, builder.CreateVector(std::vector<int64_t>{}), no_strings, builder.CreateVectorOfStructs(code),
      builder.CreateVectorOfStructs(std::vector<mf::Value>{}), builder.CreateVectorOfStructs(std::vector<mf::Transient>{}),
      builder.CreateVector(std::vector<flatbuffers::Offset<mf::DispatchSite>>{}),
      builder.CreateVectorOfStructs(std::vector<mf::CopySite>{}), builder.CreateVectorOfStructs(std::vector<mf::FillSite>{}));
  const auto programs = builder.CreateVector(std::vector<flatbuffers::Offset<mf::Program>>{program});
  const auto tensors = builder.CreateVector(std::vector<flatbuffers::Offset<mf::TensorType>>{});
  const auto symbols = builder.CreateVector(std::vector<flatbuffers::Offset<mf::Symbol>>{});
  std::vector<flatbuffers::Offset<mf::Function>> functions;
  for (int i = 0; i < 1000; ++i) {
    functions.push_back(mf::CreateFunction(builder, builder.CreateString(concat("f", i)), tensors, tensors, symbols, programs));
  }
  const auto text = builder.CreateString("");
  const auto slots = builder.CreateVector(std::vector<flatbuffers::Offset<mf::Slot>>{mf::CreateSlot(builder, text)});
  mf::FinishModuleBuffer(builder, mf::CreateModule(builder, text, text, slots, builder.CreateVector(functions),
                                                   builder.CreateVector(std::vector<flatbuffers::Offset<mf::Program>>{}),
                                                   builder.CreateVector(std::vector<flatbuffers::Offset<mf::Executable>>{}),
                                                   builder.CreateVector(std::vector<flatbuffers::Offset<mf::Parameter>>{}),
                                                   builder.CreateVector(std::vector<flatbuffers::Offset<mf::Global>>{}), text));
  Status failed = verify_metadata({reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()}, kSizes);
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->message, HasSubstr("shared"));
}

}  // namespace
}  // namespace heddle::module
