// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the module that the matrix of versions runs: one function, its kernel in every code format that a plugin of this tree takes.
// Run by matrix_test.py for today's format; kernels-0.1.heddle is what it wrote as format 0.1.
//
// usage: compat_kernels_module OUT IMAGE      (IMAGE: x86_64-elf/1, with the kit's kernel `add`)
#include <cstdio>

#include "module_builder.h"

namespace {

using namespace heddle::testing;  // NOLINT: the whole file is about it

// The kernel `add`: out[i] = a[i] + b[i] for i < constant 0, one element a workgroup; constant 1 is the 1.
constexpr char kStack[] = "kernel add 3 16\n  group const 0 less require\n  group  group load32 0  group load32 1  addf  store32 2\n";
constexpr char kFixed[] = "sample-fixed add end";
constexpr char kPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 out, .param .s64 count, .param .s64 each)
{
  .reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<10>; .reg .f32 %f<6>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd1, %r1, %r2;
  cvt.u64.u32 %rd2, %r3;
  add.u64 %rd1, %rd1, %rd2;
  ld.param.u64 %rd3, [count];
  setp.ge.s64 %p1, %rd1, %rd3;
  @%p1 bra DONE;
  shl.b64 %rd1, %rd1, 2;
  ld.param.u64 %rd4, [a];
  ld.param.u64 %rd5, [b];
  ld.param.u64 %rd6, [out];
  add.u64 %rd4, %rd4, %rd1;
  add.u64 %rd5, %rd5, %rd1;
  add.u64 %rd6, %rd6, %rd1;
  ld.global.f32 %f1, [%rd4];
  ld.global.f32 %f2, [%rd5];
  add.f32 %f4, %f1, %f2;
  st.global.f32 [%rd6], %f4;
DONE:
  ret;
}
)";

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: compat_kernels_module OUT IMAGE\n");
    return 2;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::vector<char> image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (image.empty()) {
    std::fprintf(stderr, "compat_kernels_module: reading %s failed\n", argv[2]);
    return 1;
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
  add_variant(builder, *executable, "x86_64-elf/1", "x86-64-v3", "cpu", image);
  add_variant(builder, *executable, "sample-stack/1", "generic", "sample", std::span(kStack, sizeof kStack - 1));
  add_variant(builder, *executable, "sample-fixed/1", "generic", "sample_c", std::span(kFixed, sizeof kFixed - 1));
  add_variant(builder, *executable, "ptx/1", "sm_80", "cuda", std::span(kPtx, sizeof kPtx - 1));
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
    P p({family});
    const uint32_t count = p.literal(kCount), one = p.literal(1);
    p.dispatch("add", 0, {P::whole(p.argument(0), kRead), P::whole(p.global(global), kRead), P::whole(p.result(0), kWrite)}, {count, one},
               {count, one, one});
    p.copy(P::whole(p.argument(0), kRead), P::whole(p.result(1), kWrite));
    p.fill(P::whole(p.result(2), kWrite), 0x3f800000, 4);
    function.programs.push_back(p.finish());
  }
  if (std::string failure = builder.write(argv[1]); !failure.empty()) {
    std::fprintf(stderr, "compat_kernels_module: %s\n", failure.c_str());
    return 1;
  }
  return 0;
}
