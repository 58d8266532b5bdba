// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory instructions by name: their space, sizes and atomic operations. Sources: AMD Instinct MI200 ISA reference guide, chapters 12.10 to 12.16; RDNA3
// and RDNA4 ISA reference guides, the chapters of the encodings.
#include <algorithm>

#include "tests/amdgpu/memory.h"

namespace heddle::amdgpu {
namespace {

bool take(std::string_view& s, std::string_view prefix) {
  if (!starts(s, prefix)) return false;
  s.remove_prefix(prefix.size());
  return true;
}

struct Size {
  const char* name;
  uint8_t bytes;
  bool is_signed, d16, high;
};
const Size kLoads[] = {
    {"ubyte", 1, false, false, false},      {"sbyte", 1, true, false, false},      {"ushort", 2, false, false, false},
    {"sshort", 2, true, false, false},      {"dword", 4, false, false, false},     {"dwordx2", 8, false, false, false},
    {"dwordx3", 12, false, false, false},   {"dwordx4", 16, false, false, false},  {"dwordx8", 32, false, false, false},
    {"dwordx16", 64, false, false, false},  {"ubyte_d16", 1, false, true, false},  {"ubyte_d16_hi", 1, false, true, true},
    {"sbyte_d16", 1, true, true, false},    {"sbyte_d16_hi", 1, true, true, true}, {"short_d16", 2, false, true, false},
    {"short_d16_hi", 2, false, true, true}, {"u8", 1, false, false, false},        {"i8", 1, true, false, false},
    {"u16", 2, false, false, false},        {"i16", 2, true, false, false},        {"b32", 4, false, false, false},
    {"b64", 8, false, false, false},        {"b96", 12, false, false, false},      {"b128", 16, false, false, false},
    {"b256", 32, false, false, false},      {"b512", 64, false, false, false},     {"d16_u8", 1, false, true, false},
    {"d16_hi_u8", 1, false, true, true},    {"d16_i8", 1, true, true, false},      {"d16_hi_i8", 1, true, true, true},
    {"d16_b16", 2, false, true, false},     {"d16_hi_b16", 2, false, true, true},  {"u8_d16", 1, false, true, false},
    {"u8_d16_hi", 1, false, true, true},    {"i8_d16", 1, true, true, false},      {"i8_d16_hi", 1, true, true, true},
    {"u16_d16", 2, false, true, false},     {"u16_d16_hi", 2, false, true, true}};
const Size kStores[] = {
    {"byte", 1, false, false, false},      {"short", 2, false, false, false},      {"dword", 4, false, false, false},
    {"dwordx2", 8, false, false, false},   {"dwordx3", 12, false, false, false},   {"dwordx4", 16, false, false, false},
    {"byte_d16_hi", 1, false, true, true}, {"short_d16_hi", 2, false, true, true}, {"b8", 1, false, false, false},
    {"b16", 2, false, false, false},       {"b32", 4, false, false, false},        {"b64", 8, false, false, false},
    {"b96", 12, false, false, false},      {"b128", 16, false, false, false},      {"d16_hi_b8", 1, false, true, true},
    {"d16_hi_b16", 2, false, true, true},  {"b8_d16_hi", 1, false, true, true},    {"b16_d16_hi", 2, false, true, true}};

bool is_scalar(std::string_view name, unsigned bytes) {  // a size of s_load
  return bytes >= 4 || name == "u8" || name == "i8" || name == "u16" || name == "i16";
}

bool set_size(Memo& m, std::string_view name, std::span<const Size> sizes) {
  for (const Size& s : sizes) {
    if (name == s.name) {
      m.bytes = s.bytes;
      m.is_signed = s.is_signed;
      m.d16 = s.d16;
      m.high = s.high;
      m.registers = static_cast<uint8_t>((s.bytes + 3) / 4);
      return true;
    }
  }
  return false;
}

struct AtomicName {
  const char* name;
  Atomic operation;
  uint8_t bytes;
};
const AtomicName kAtomics[] = {
    // GFX9: global, flat, buffer
    {"swap", Swap, 4},
    {"swap_x2", Swap, 8},
    {"cmpswap", CompareSwap, 4},
    {"cmpswap_x2", CompareSwap, 8},
    {"add", Add, 4},
    {"add_x2", Add, 8},
    {"sub", Sub, 4},
    {"sub_x2", Sub, 8},
    {"smin", MinI, 4},
    {"smin_x2", MinI, 8},
    {"umin", MinU, 4},
    {"umin_x2", MinU, 8},
    {"smax", MaxI, 4},
    {"smax_x2", MaxI, 8},
    {"umax", MaxU, 4},
    {"umax_x2", MaxU, 8},
    {"and", And, 4},
    {"and_x2", And, 8},
    {"or", Or, 4},
    {"or_x2", Or, 8},
    {"xor", Xor, 4},
    {"xor_x2", Xor, 8},
    {"inc", Inc, 4},
    {"inc_x2", Inc, 8},
    {"dec", Dec, 4},
    {"dec_x2", Dec, 8},
    {"pk_add_f16", PackedAddF16, 4},
    {"pk_add_bf16", PackedAddBf16, 4},
    // GFX11, and LDS
    {"swap_b32", Swap, 4},
    {"swap_b64", Swap, 8},
    {"cmpswap_b32", CompareSwap, 4},
    {"cmpswap_b64", CompareSwap, 8},
    {"add_u32", Add, 4},
    {"add_u64", Add, 8},
    {"sub_u32", Sub, 4},
    {"sub_u64", Sub, 8},
    {"rsub_u32", ReverseSub, 4},
    {"rsub_u64", ReverseSub, 8},
    {"min_i32", MinI, 4},
    {"min_i64", MinI, 8},
    {"min_u32", MinU, 4},
    {"min_u64", MinU, 8},
    {"max_i32", MaxI, 4},
    {"max_i64", MaxI, 8},
    {"max_u32", MaxU, 4},
    {"max_u64", MaxU, 8},
    {"and_b32", And, 4},
    {"and_b64", And, 8},
    {"or_b32", Or, 4},
    {"or_b64", Or, 8},
    {"xor_b32", Xor, 4},
    {"xor_b64", Xor, 8},
    {"inc_u32", Inc, 4},
    {"inc_u64", Inc, 8},
    {"dec_u32", Dec, 4},
    {"dec_u64", Dec, 8},
    {"add_f32", AddF, 4},
    {"add_f64", AddF, 8},
    {"min_f32", MinF, 4},
    {"min_f64", MinF, 8},
    {"max_f32", MaxF, 4},
    {"max_f64", MaxF, 8},
    {"wrxchg_b32", Swap, 4},
    {"wrxchg_b64", Swap, 8},
    {"storexchg_b32", Swap, 4},
    {"storexchg_b64", Swap, 8},
    {"cmpst_b32", CompareSwap, 4},
    {"cmpst_b64", CompareSwap, 8},
    {"cmpstore_b32", CompareSwap, 4},
    {"cmpstore_b64", CompareSwap, 8}};

bool set_atomic(Memo& m, std::string_view name) {
  for (const AtomicName& a : kAtomics) {
    if (name == a.name) {
      m.action = Memo::Atomic;
      m.atomic = a.operation;
      m.bytes = a.bytes;
      m.registers = a.bytes / 4;
      return true;
    }
  }
  return false;
}

}  // namespace

bool find_memory(Instruction& i) {
  std::string_view name = i.mnemonic;
  Memo& m = i.memo;
  if (name == "ds_bpermute_b32" || name == "ds_permute_b32" || name == "ds_swizzle_b32") {
    m.space = Memo::Lds;
    m.action = Memo::Load;
    i.execute = name == "ds_bpermute_b32" ? execute_bpermute : name == "ds_permute_b32" ? execute_permute : execute_swizzle;
    return true;
  }
  if (name == "s_memtime" || name == "s_memrealtime") {
    m.space = Memo::ScalarMemory;
    m.action = Memo::Load;
    m.registers = 2;
    i.execute = execute_memtime;
    return true;
  }
  if (take(name, "s_load_") || take(name, "s_buffer_load_")) {
    m.space = Memo::ScalarMemory;
    m.action = Memo::Load;
    i.execute = execute_scalar_memory;
    return set_size(m, name, kLoads) && is_scalar(name, m.bytes);
  }
  if (take(name, "ds_")) {
    m.space = Memo::Lds;
    i.execute = execute_lds;
    const auto two = [&](std::string_view rest, Memo::Action action, bool st64) {
      m.action = action;
      m.parts = 2;
      if (rest != "b32" && rest != "b64") return false;
      m.bytes = rest == "b32" ? 4 : 8;
      m.registers = m.bytes / 4;
      m.stride = static_cast<uint16_t>(m.bytes * (st64 ? 64 : 1));
      return true;
    };
    if (take(name, "read2st64_") || take(name, "load_2addr_stride64_")) return two(name, Memo::Load, true);
    if (take(name, "read2_") || take(name, "load_2addr_")) return two(name, Memo::Load, false);
    if (take(name, "write2st64_") || take(name, "store_2addr_stride64_")) return two(name, Memo::Store, true);
    if (take(name, "write2_") || take(name, "store_2addr_")) return two(name, Memo::Store, false);
    if (take(name, "read_") || take(name, "load_")) {
      m.action = Memo::Load;
      return set_size(m, name, kLoads);
    }
    if (take(name, "write_") || take(name, "store_")) {
      m.action = Memo::Store;
      return set_size(m, name, kStores);
    }
    std::string plain(name);
    if (const auto rtn = plain.find("_rtn_"); rtn != std::string::npos) {
      m.returns = true;
      plain.erase(rtn, 4);
    }
    return set_atomic(m, plain);
  }
  if (take(name, "global_")) {
    m.space = Memo::Global;
  } else if (take(name, "flat_")) {
    m.space = Memo::Flat;
  } else if (take(name, "scratch_")) {
    m.space = Memo::Scratch;
  } else if (take(name, "buffer_")) {
    m.space = Memo::Buffer;
  } else {
    return false;
  }
  i.execute = execute_vector_memory;
  if (take(name, "load_")) {
    m.action = Memo::Load;
    m.in_order = m.space != Memo::Flat;
    return set_size(m, name, kLoads);
  }
  if (take(name, "store_")) {
    m.action = Memo::Store;
    return set_size(m, name, kStores);
  }
  if (!take(name, "atomic_") || !set_atomic(m, name)) return false;
  // With a result: a buffer atomic has glc, the others one operand more.
  const size_t plain = m.space == Memo::Flat ? 2 : 3;
  const auto th = i.modifiers.find("th");
  const bool marked = i.modifiers.count("glc") != 0 || i.modifiers.count("sc0") != 0 ||
                      (th != i.modifiers.end() && th->second.find("RETURN") != std::string::npos);
  m.returns = m.space == Memo::Buffer ? marked : i.operands.size() > plain;
  return true;
}

void list_memory(std::vector<std::string>& names) {
  for (const char* space : {"global_", "flat_", "scratch_", "buffer_"}) {
    for (const Size& s : kLoads) {
      if (s.bytes <= 16) names.push_back(std::string(space) + "load_" + s.name);
    }
    for (const Size& s : kStores) names.push_back(std::string(space) + "store_" + s.name);
    if (std::string_view(space) == "scratch_") continue;
    for (const AtomicName& a : kAtomics) names.push_back(std::string(space) + "atomic_" + a.name);
  }
  for (const Size& s : kLoads) {
    if (is_scalar(s.name, s.bytes)) names.push_back(std::string("s_load_") + s.name);
  }
  for (const char* name : {"ds_bpermute_b32",   "ds_permute_b32",   "ds_swizzle_b32", "ds_read2_b32",         "ds_read2_b64",
                           "ds_read2st64_b32",  "ds_read2st64_b64", "ds_write2_b32",  "ds_write2_b64",        "ds_write2st64_b32",
                           "ds_write2st64_b64", "s_memtime",        "s_waitcnt",      "s_waitcnt_vscnt",      "s_wait_loadcnt",
                           "s_wait_storecnt",   "s_wait_dscnt",     "s_wait_kmcnt",   "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt"}) {
    names.emplace_back(name);
  }
}

}  // namespace heddle::amdgpu
