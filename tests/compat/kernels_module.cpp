// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the modules that the matrix of versions runs: one function, its kernel in every code format that a plugin of this tree takes.
// Run by matrix_test.py for today's format; the frozen kernels-*.heddle are what it wrote as the format of their time.
//
// usage: compat_kernels_module OUT kernels IMAGE            IMAGE: x86_64-elf/1, with the kit's kernel `add`
//        compat_kernels_module OUT operations IMAGE         the copy in it is org.example::Scale/1 by 1, of the library template in C
//        compat_kernels_module OUT cubin TARGET=FILE...     cubin/1 for each target: `ptxas -arch=TARGET -o FILE add.ptx`
#include <cstdio>
#include <cstdlib>

#include "heddle/ext/library.h"
#include "module_builder.h"

namespace {

using namespace heddle::testing;  // NOLINT: the whole file is about it

// The kernel `add`: out[i] = a[i] + b[i] for i < constant 0, one element a workgroup; constant 1 is the 1.
constexpr char kStack[] = "kernel add 3 16\n  group const 0 less require\n  group  group load32 0  group load32 1  addf  store32 2\n";
constexpr char kFixed[] = "sample-fixed add end";

void add_variant(ModuleBuilder& builder, mf::ExecutableT& executable, const char* format, const char* target, const char* family,
                 std::span<const char> code) {
  auto variant = std::make_unique<mf::VariantT>();
  variant->format = format;
  variant->target = target;
  variant->family = family;
  variant->code = std::make_unique<mf::Range>(builder.writer.add_code(std::as_bytes(code)));
  auto resources = std::make_unique<mf::EntryResourcesT>();
  resources->workgroup_size = {1, 1, 1};
  resources->cost = 10;
  variant->resources.push_back(std::move(resources));
  executable.variants.push_back(std::move(variant));
}

std::vector<char> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty()) {
    std::fprintf(stderr, "compat_kernels_module: reading %s failed\n", path.c_str());
    std::exit(1);
  }
  return bytes;
}

// target = source * 1, of as many floats as r[count] says.
void scale_by_one(ProgramBuilder& p, uint32_t source, uint32_t target, uint32_t count) {
  auto operation = std::make_unique<mf::OperationT>();
  operation->domain = "org.example";
  operation->name = "Scale";
  operation->version = 1;
  operation->input_count = 1;
  operation->operands = {{HEDDLE_TYPE_F32, 1}, {HEDDLE_TYPE_F32, 1}};
  auto factor = std::make_unique<mf::OperationAttributeT>();
  factor->name = "factor";
  factor->kind = HEDDLE_ATTRIBUTE_FLOAT;
  factor->floats = {1};
  operation->attributes.push_back(std::move(factor));
  auto site = std::make_unique<mf::DispatchSiteT>();
  site->name = "scale";
  site->bindings = {ProgramBuilder::whole(source, kRead), ProgramBuilder::whole(target, kWrite)};
  site->constants = {count, count};
  site->operation = std::move(operation);
  p.program->dispatches.push_back(std::move(site));
  p.emit(mf::Op::Dispatch, static_cast<uint32_t>(p.program->dispatches.size() - 1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 3 ? argv[2] : "";
  const bool cubin = wanted == "cubin", operations = wanted == "operations";
  if (!cubin && (argc != 4 || (!operations && wanted != "kernels"))) {
    std::fprintf(stderr, "usage: compat_kernels_module OUT kernels|operations IMAGE, or OUT cubin TARGET=FILE...\n");
    return 2;
  }
  ModuleBuilder builder;
  builder.module.name = "kernels of every code format";
  auto executable = std::make_unique<mf::ExecutableT>();
  executable->name = "kernels";
  auto entry = std::make_unique<mf::EntryT>();
  entry->name = "add";
  entry->binding_count = 3;
  entry->constants_bytes = 16;
  executable->entries.push_back(std::move(entry));
  for (int i = 3; cubin && i < argc; ++i) {
    const std::string word = argv[i];
    const size_t end = word.find('=');
    add_variant(builder, *executable, "cubin/1", word.substr(0, end).c_str(), "cuda", read(word.substr(end + 1)));
  }
  if (!cubin) {
    add_variant(builder, *executable, "x86_64-elf/1", "x86-64-v3", "cpu", read(argv[3]));
    add_variant(builder, *executable, "sample-stack/1", "generic", "sample", std::span(kStack, sizeof kStack - 1));
    add_variant(builder, *executable, "sample-fixed/1", "generic", "sample_c", std::span(kFixed, sizeof kFixed - 1));
    add_variant(builder, *executable, "ptx/1", "sm_80", "cuda", read(HEDDLE_COMPAT_FOLDER "/add.ptx"));
  }
  builder.module.executables.push_back(std::move(executable));

  constexpr int64_t kCount = 64;
  std::vector<float> weights;
  for (int i = 0; i < kCount; ++i) weights.push_back(0.5f * static_cast<float>(i));
  builder.add_parameter("", "weights", {kCount}, std::as_bytes(std::span<const float>(weights)));
  const uint32_t global = builder.add_global("weights", mf::GlobalKind::Parameter, 0);

  // sum = a + weights by the kernel, twin = a by a copy, ones by a fill.
  mf::FunctionT& function = builder.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(kCount)}));
  for (const char* name : {"sum", "twin", "ones"}) function.results.push_back(ModuleBuilder::type(name, {ModuleBuilder::extent(kCount)}));
  for (const char* family : {"cpu", "sample", "sample_c", "cuda"}) {
    using P = ProgramBuilder;
    if ((cubin && std::string_view(family) != "cuda") || (operations && std::string_view(family) != "cpu")) continue;
    P p({family});
    const uint32_t count = p.literal(kCount), one = p.literal(1);
    p.dispatch("add", 0, {P::whole(p.argument(0), kRead), P::whole(p.global(global), kRead), P::whole(p.result(0), kWrite)}, {count, one},
               {count, one, one});
    if (operations) {
      scale_by_one(p, p.argument(0), p.result(1), count);
    } else {
      p.copy(P::whole(p.argument(0), kRead), P::whole(p.result(1), kWrite));
    }
    p.fill(P::whole(p.result(2), kWrite), 0x3f800000, 4);
    function.programs.push_back(p.finish());
  }
  if (std::string failure = builder.write(argv[1]); !failure.empty()) {
    std::fprintf(stderr, "compat_kernels_module: %s\n", failure.c_str());
    return 1;
  }
  return 0;
}
