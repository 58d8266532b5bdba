// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels that the kit dispatches. In every format they are:
//   add    bindings a, b, out of f32; constants n, e: workgroup w computes out[i] = a[i] + b[i] for the e elements from w*e on that are below n
//   count  binding of u32: adds 1 to element w of the workgroup w, counted x fastest through the grid
//   chain  binding of u64, constant c: value = value * 3 + c, once per workgroup
//   fail   an unused binding: the kernel fails (if a kernel can)
//   lose   an unused binding: the device is lost (if a kernel can cause that)
// Each constant has 8 bytes.
#include <algorithm>

#include "heddle/code.h"
#include "session.h"

#if defined(__x86_64__)
extern "C" const char heddle_conformance_x86_64[];
extern "C" const char heddle_conformance_x86_64_end[];
__asm__(".section .rodata\n.balign 64\n.globl heddle_conformance_x86_64\nheddle_conformance_x86_64:\n.incbin \"" HEDDLE_CONFORMANCE_IMAGE
        "\"\n.globl heddle_conformance_x86_64_end\nheddle_conformance_x86_64_end:\n.byte 0\n.previous\n");
#endif

#ifdef HEDDLE_CONFORMANCE_SPIRV
extern "C" const char heddle_conformance_spirv[];
extern "C" const char heddle_conformance_spirv_end[];
__asm__(".section .rodata\n.balign 64\n.globl heddle_conformance_spirv\nheddle_conformance_spirv:\n.incbin \"" HEDDLE_CONFORMANCE_SPIRV
        "\"\n.globl heddle_conformance_spirv_end\nheddle_conformance_spirv_end:\n.byte 0\n.previous\n");
#endif

namespace heddle::conformance {
namespace {

const char kPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 out, .param .s64 n, .param .s64 e)
{
  .reg .pred %p1; .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .f32 %f<4>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd1, %r1, %r2;
  cvt.u64.u32 %rd2, %r3;
  add.u64 %rd1, %rd1, %rd2;
  ld.param.u64 %rd3, [n];
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
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd6], %f3;
DONE:
  ret;
}

.visible .entry count(.param .u64 counts)
{
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  mov.u32 %r1, %ctaid.z;
  mov.u32 %r2, %nctaid.y;
  mov.u32 %r3, %ctaid.y;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r2, %nctaid.x;
  mov.u32 %r3, %ctaid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u64 %rd1, [counts];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  red.global.add.u32 [%rd1], 1;
  ret;
}

.visible .entry chain(.param .u64 value, .param .s64 c)
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [value];
  ld.param.u64 %rd2, [c];
  ld.global.u64 %rd3, [%rd1];
  mad.lo.u64 %rd3, %rd3, 3, %rd2;
  st.global.u64 [%rd1], %rd3;
  ret;
}

.visible .entry lose(.param .u64 unused)
{
  trap;
  ret;
}
)";

}  // namespace

const std::vector<KernelSet>& known_kernels() {
  static const std::vector<KernelSet> known = [] {
    std::vector<KernelSet> sets;
#if defined(__x86_64__)
    sets.push_back({HEDDLE_CODE_X86_64_ELF,
                    "x86-64-v3",
                    {heddle_conformance_x86_64, heddle_conformance_x86_64_end},
                    1000,
                    1,
                    {"add", "count", "chain", "fail", "lose"}});
#endif
    sets.push_back({HEDDLE_CODE_PTX, "sm_80", kPtx, 256, 256, {"add", "count", "chain", "lose"}});
#ifdef HEDDLE_CONFORMANCE_SPIRV
    sets.push_back({HEDDLE_CODE_SPIRV,
                    "spv1.0",
                    {heddle_conformance_spirv, heddle_conformance_spirv_end},
                    256,
                    256,
                    {"add", "count", "chain", "lose"}});
#endif
    return sets;
  }();
  return known;
}

std::vector<heddle_entry_params_t> Kernels::params_of(const KernelSet& set) {
  std::vector<heddle_entry_params_t> entries;
  for (const std::string& name : set.entries) {
    heddle_entry_params_t entry = {};
    entry.struct_size = sizeof entry;
    entry.name = string_of(name);
    entry.binding_count = name == "add" ? 3 : 1;
    entry.constants_bytes = name == "add" ? 16 : name == "chain" ? 8 : 0;
    entry.workgroup_size[0] = name == "add" ? set.workgroup_size : 1;
    entry.workgroup_size[1] = entry.workgroup_size[2] = 1;
    entries.push_back(entry);
  }
  return entries;
}

heddle_executable_params_t Kernels::executable_of(const KernelSet& set, const std::vector<heddle_entry_params_t>& entries) {
  return {sizeof(heddle_executable_params_t),
          static_cast<uint32_t>(entries.size()),
          string_of(set.format),
          string_of(set.target),
          set.code.data(),
          set.code.size(),
          entries.data(),
          sizeof(heddle_entry_params_t),
          string_of("conformance"),
          {}};
}

const KernelSet* Kernels::choose(Session* session) {
  for (const std::vector<KernelSet>* sets : {&settings().kernels, &known_kernels()}) {
    for (const KernelSet& set : *sets) {
      uint32_t rank = 0;
      REQUIRE_OK(session->tables().dispatch.variant_rank(session->device, string_of(set.format), string_of(set.target), &rank));
      if (rank) return &set;
    }
  }
  return nullptr;
}

Kernels::Kernels(Session* session) : session_(session), set_(choose(session)) {
  if (!set_) absent("the device runs none of the kit's code formats; give it kernels in its own with conformance/kernels.toml");
  const std::vector<heddle_entry_params_t> entries = params_of(*set_);
  const heddle_executable_params_t params = executable_of(*set_, entries);
  Result loaded(session->tables().dispatch.executable_load(session->device, &params, &executable));
  if (loaded.code() == HEDDLE_STATUS_NOT_FOUND) {
    std::string asked;
    for (const std::string& name : set_->entries) asked += (asked.empty() ? "" : ", ") + name;
    const bool is_own = set_ >= settings().kernels.data() && set_ < settings().kernels.data() + settings().kernels.size();
    stop("%s returned %s: the kit asked for the kernels %s%s%s", last_call(), loaded.text().c_str(), asked.c_str(),
         is_own ? "; `entries` lists those that the code has, in " : "", is_own ? settings().kernels_file.c_str() : "");
  }
  REQUIRE_OK(loaded.release());
  REQUIRE(executable, "executable_load returned neither a status nor an executable");
}

Kernels::~Kernels() {
  session_->tables().dispatch.executable_unload(executable);
}

uint64_t Kernels::fitting(uint64_t wanted) const {
  const uint64_t most = session_->description.max_workgroup_count[0];
  return most ? std::min(wanted, most * set_->elements_per_workgroup) : wanted;
}

heddle_entry_t* Kernels::entry(const std::string& name) const {
  const auto found = std::find(set_->entries.begin(), set_->entries.end(), name);
  if (found == set_->entries.end()) set_->lacks(name);
  heddle_entry_t* entry = nullptr;
  REQUIRE_OK(session_->tables().dispatch.entry(executable, static_cast<uint32_t>(found - set_->entries.begin()), &entry));
  REQUIRE(entry, "entry returned neither a status nor an entry");
  return entry;
}

}  // namespace heddle::conformance
