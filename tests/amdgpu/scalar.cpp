// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalar instructions, branches and program control. Sources: AMD Instinct MI200 ISA reference guide, chapters 4 (Program flow control), 5 (Scalar ALU
// operations) and 12.1 to 12.5; RDNA3 ISA reference guide, chapters 5, 6 and 16.1 to 16.5.
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

uint64_t source(Wave& w, const Instruction& i, size_t n, Type type) {
  if (n >= i.operands.size()) fault("an operand is missing");
  return read_scalar(w, i.operands[n], type);
}
constexpr unsigned width(Type type) {
  return type == Type::B64 || type == Type::I64 || type == Type::U64 ? 2 : 1;
}

// function(wave, a, b): sets wave.scc if it changes it.
template <Type kResult, Type kA, Type kB, auto function>
void binary(Wave& w, const Instruction& i) {
  if (i.operands.size() != 3) fault("expected 3 operands");
  const uint64_t a = source(w, i, 1, kA), b = source(w, i, 2, kB);
  write_scalar(w, i.operands[0], function(w, a, b), width(kResult));
}
template <Type kResult, Type kA, auto function>
void unary(Wave& w, const Instruction& i) {
  if (i.operands.size() != 2) fault("expected 2 operands");
  const uint64_t a = source(w, i, 1, kA);
  write_scalar(w, i.operands[0], function(w, a), width(kResult));
}
template <Type kType, auto function>
void compare(Wave& w, const Instruction& i) {
  if (i.operands.size() != 2) fault("expected 2 operands");
  w.scc = function(source(w, i, 0, kType), source(w, i, 1, kType));
}
int32_t i32(uint64_t x) {
  return static_cast<int32_t>(x);
}
int64_t i64(uint64_t x) {
  return static_cast<int64_t>(x);
}
uint32_t u32(uint64_t x) {
  return static_cast<uint32_t>(x);
}

uint64_t nonzero(Wave& w, uint64_t result) {
  w.scc = result != 0;
  return result;
}
uint64_t add(Wave& w, uint64_t a, uint64_t b, uint64_t carry) {
  const uint64_t sum = a + b + carry;
  w.scc = sum >> 32 != 0;
  return u32(sum);
}
uint64_t subtract(Wave& w, uint64_t a, uint64_t b, uint64_t carry) {
  w.scc = b + carry > a;
  return u32(a - b - carry);
}
uint64_t signed_result(Wave& w, int64_t wide) {
  w.scc = wide != static_cast<int32_t>(wide);
  return u32(static_cast<uint64_t>(wide));
}
uint64_t shift_add(Wave& w, uint64_t a, uint64_t b, unsigned n) {
  const uint64_t sum = (a << n) + b;
  w.scc = sum >> 32 != 0;
  return u32(sum);
}
uint64_t bfe(uint64_t a, uint64_t spec, unsigned bits, bool is_signed) {
  const unsigned offset = spec & (bits - 1), size = spec >> 16 & 0x7f;
  // The guides' expression for the mask, (1 << size) - 1, has another meaning for each width of its arithmetic.
  if (size > bits) fault("a field of " + std::to_string(size) + " bits is wider than the operand");
  if (size == 0) return 0;
  const unsigned n = std::min(size, bits - offset);
  uint64_t v = a >> offset;
  if (n < 64) v &= (uint64_t{1} << n) - 1;
  if (is_signed && n < 64 && (v >> (n - 1) & 1) != 0) v |= ~((uint64_t{1} << n) - 1);
  return bits == 32 ? u32(v) : v;
}
template <unsigned kBits>
uint64_t find_sign_change(uint64_t a) {
  const uint64_t top = a >> (kBits - 1) & 1;
  for (unsigned n = 1; n < kBits; ++n) {
    if ((a >> (kBits - 1 - n) & 1) != top) return n;
  }
  return u32(~uint64_t{0});
}
uint64_t reverse(uint64_t a, unsigned bits) {
  uint64_t r = 0;
  for (unsigned n = 0; n < bits; ++n) r |= (a >> n & 1) << (bits - 1 - n);
  return r;
}
uint64_t quads(uint64_t a, unsigned bits, bool whole) {
  uint64_t r = 0;
  for (unsigned n = 0; n < bits; n += 4) {
    if ((a >> n & 15) != 0) r |= whole ? uint64_t{15} << n : uint64_t{1} << n / 4;
  }
  return r;
}
uint64_t replicate(uint64_t a) {
  uint64_t r = 0;
  for (unsigned n = 0; n < 32; ++n) r |= (a >> n & 1) * 3 << 2 * n;
  return r;
}

#define S2(name, R, A, B, expression)                                                        \
  {name, binary<Type::R, Type::A, Type::B, [](Wave& w, uint64_t a, uint64_t b) -> uint64_t { \
     static_cast<void>(w);                                                                   \
     return (expression);                                                                    \
   }>}
#define S1(name, R, A, expression)                                     \
  {name, unary<Type::R, Type::A, [](Wave& w, uint64_t a) -> uint64_t { \
     static_cast<void>(w);                                             \
     return (expression);                                              \
   }>}
#define SC(name, T, expression) {name, compare<Type::T, [](uint64_t a, uint64_t b) -> bool { return (expression); }>}
#define BITWISE(name, expression) \
  S2("s_" name "_b32", B32, B32, B32, nonzero(w, u32(expression))), S2("s_" name "_b64", B64, B64, B64, nonzero(w, expression))

// Saves EXEC in the destination and combines it with the source.
template <unsigned kWidth, bool kSave, auto function>
void save_exec(Wave& w, const Instruction& i) {
  if ((kWidth == 2) != (w.size == 64)) fault("the width of the mask is not that of the wave");
  const uint64_t a = source(w, i, 1, kWidth == 2 ? Type::B64 : Type::B32), exec = w.exec();
  const uint64_t result = function(a, exec) & w.mask();
  write_scalar(w, i.operands[0], kSave ? exec : result, kWidth);
  w.set_exec(result);
  w.scc = result != 0;
}
#define SAVE(name, expression)                                                                                        \
  {"s_" name "_saveexec_b64", save_exec<2, true, [](uint64_t s, uint64_t e) -> uint64_t { return (expression); }>}, { \
    "s_" name "_saveexec_b32", save_exec<1, true, [](uint64_t s, uint64_t e) -> uint64_t { return (expression); }>    \
  }
#define WREXEC(name, expression)                                                                                     \
  {"s_" name "_wrexec_b64", save_exec<2, false, [](uint64_t s, uint64_t e) -> uint64_t { return (expression); }>}, { \
    "s_" name "_wrexec_b32", save_exec<1, false, [](uint64_t s, uint64_t e) -> uint64_t { return (expression); }>    \
  }

int64_t immediate(const Instruction& i) {
  return static_cast<int16_t>(i.words[0] & 0xffff);
}
void jump(Wave& w, const Instruction& i) {
  w.pc = i.address + 4 + static_cast<uint64_t>(immediate(i) * 4);
}
template <auto condition>
void branch(Wave& w, const Instruction& i) {
  if (condition(w)) jump(w, i);
}
uint64_t loaded(const Wave& w, uint64_t address) {
  return w.machine->load_address + address;
}
void set_pc(Wave& w, uint64_t address) {
  w.pc = address - w.machine->load_address;
}

void getpc(Wave& w, const Instruction& i) {
  write_scalar(w, i.operands[0], loaded(w, i.address + i.bytes), 2);
}
void setpc(Wave& w, const Instruction& i) {
  set_pc(w, source(w, i, 0, Type::B64));
}
void swappc(Wave& w, const Instruction& i) {
  const uint64_t target = source(w, i, 1, Type::B64);
  write_scalar(w, i.operands[0], loaded(w, i.address + i.bytes), 2);
  set_pc(w, target);
}
void call(Wave& w, const Instruction& i) {
  write_scalar(w, i.operands[0], loaded(w, i.address + i.bytes), 2);
  jump(w, i);
}
void cmov32(Wave& w, const Instruction& i) {
  if (w.scc) write_scalar(w, i.operands[0], source(w, i, 1, Type::B32), 1);
}
void cmov64(Wave& w, const Instruction& i) {
  if (w.scc) write_scalar(w, i.operands[0], source(w, i, 1, Type::B64), 2);
}
template <auto function>
void with_immediate(Wave& w, const Instruction& i) {  // SOPK: the destination is a source
  write_scalar(w, i.operands[0], function(w, source(w, i, 0, Type::B32), immediate(i)), 1);
}
void movk(Wave& w, const Instruction& i) {
  write_scalar(w, i.operands[0], u32(static_cast<uint64_t>(immediate(i))), 1);
}
void cmovk(Wave& w, const Instruction& i) {
  if (w.scc) movk(w, i);
}
template <auto function>
void compare_signed(Wave& w, const Instruction& i) {
  w.scc = function(i32(source(w, i, 0, Type::B32)), static_cast<int32_t>(immediate(i)));
}
template <auto function>
void compare_unsigned(Wave& w, const Instruction& i) {
  w.scc = function(u32(source(w, i, 0, Type::B32)), i.words[0] & 0xffff);
}
template <unsigned kWidth, bool kValue>
void bitset(Wave& w, const Instruction& i) {
  const uint64_t bit = uint64_t{1} << (source(w, i, 1, Type::B32) & (kWidth * 32 - 1));
  const uint64_t old = source(w, i, 0, kWidth == 2 ? Type::B64 : Type::B32);
  write_scalar(w, i.operands[0], kValue ? old | bit : old & ~bit, kWidth);
}

struct Register {
  unsigned offset = 0, bits = 32;
};
// hwreg(HW_REG_MODE, 4, 2). No other register is known.
Register mode_register(const std::string& text) {
  if (text.substr(0, 17) != "hwreg(HW_REG_MODE" && text.substr(0, 22) != "hwreg(HW_REG_WAVE_MODE")
    fault("register " + text + " is not implemented");
  Register r;
  const auto comma = text.find(',');
  if (comma != std::string::npos) {
    const auto second = text.find(',', comma + 1);
    if (second == std::string::npos) fault("'" + text + "' is no register");
    r.offset = static_cast<unsigned>(std::stoul(text.substr(comma + 1)));
    r.bits = static_cast<unsigned>(std::stoul(text.substr(second + 1)));
  }
  if (r.bits == 0 || r.offset + r.bits > 32) fault("'" + text + "' is no register");
  return r;
}
void write_mode(Wave& w, Register r, uint64_t value) {
  const uint64_t mask = ((uint64_t{1} << r.bits) - 1) << r.offset;
  w.set_mode(u32((w.mode_bits & ~mask) | (value << r.offset & mask)));
}
void getreg(Wave& w, const Instruction& i) {
  const Register r = mode_register(i.operands.at(1).text);
  write_scalar(w, i.operands[0], w.mode_bits >> r.offset & ((uint64_t{1} << r.bits) - 1), 1);
}
void setreg(Wave& w, const Instruction& i) {
  write_mode(w, mode_register(i.operands.at(0).text), source(w, i, 1, Type::B32));
}
void denorm_mode(Wave& w, const Instruction& i) {
  write_mode(w, {4, 4}, i.words[0] & 15);
}
void round_mode(Wave& w, const Instruction& i) {
  write_mode(w, {0, 4}, i.words[0] & 15);
}

void end_program(Wave& w, const Instruction&) {
  finish_all(w);
  w.state = Wave::Ended;
}
void barrier(Wave& w, const Instruction& i) {
  w.barrier_address = i.address;
  if (w.machine->options.check_barriers && w.exec() != w.launched) {
    fault("a barrier that only a part of the wave reaches: EXEC is " + hex(w.exec()) + ", but the wave has the work items " +
          hex(w.launched));
  }
  w.state = Wave::Barrier;
}
// GFX12 has two halves: what a wave did before the first is visible to those that have passed the second.
void barrier_signal(Wave& w, const Instruction& i) {
  if (i.operands.size() != 1 || i.operands[0].text != "-1") fault("a barrier other than that of the workgroup is not implemented");
  if (w.signaled) fault("a barrier is signaled twice without a wait");
  w.signaled = true;
  w.lds_signaled = w.lds_retired;
}
void barrier_wait(Wave& w, const Instruction& i) {
  if (!w.signaled) fault("a wait for a barrier that the wave has not signaled");
  barrier(w, i);
}
void sendmsg(Wave&, const Instruction& i) {
  if (i.operands.size() == 1 && i.operands[0].text == "sendmsg(MSG_DEALLOC_VGPRS)") return;
  fault("messages are not implemented");
}
void trap(Wave&, const Instruction& i) {
  fault("the kernel ran into " + i.mnemonic + " " + std::to_string(i.words[0] & 0xffff));
}
void sleep(Wave&, const Instruction&) {}

const std::pair<const char*, Execute> kTable[] = {
    // arithmetic
    S2("s_add_u32", U32, U32, U32, add(w, a, b, 0)),
    S2("s_sub_u32", U32, U32, U32, subtract(w, a, b, 0)),
    S2("s_add_i32", I32, I32, I32, signed_result(w, int64_t{i32(a)} + i32(b))),
    S2("s_sub_i32", I32, I32, I32, signed_result(w, int64_t{i32(a)} - i32(b))),
    S2("s_addc_u32", U32, U32, U32, add(w, a, b, w.scc ? 1 : 0)),
    S2("s_subb_u32", U32, U32, U32, subtract(w, a, b, w.scc ? 1 : 0)),
    S2("s_min_i32", I32, I32, I32, (w.scc = i32(a) < i32(b)) ? a : b),
    S2("s_min_u32", U32, U32, U32, (w.scc = u32(a) < u32(b)) ? a : b),
    S2("s_max_i32", I32, I32, I32, (w.scc = i32(a) >= i32(b)) ? a : b),
    S2("s_max_u32", U32, U32, U32, (w.scc = u32(a) >= u32(b)) ? a : b),
    S2("s_mul_i32", I32, I32, I32, u32(a* b)),
    S2("s_mul_hi_u32", U32, U32, U32, a* b >> 32),
    S2("s_mul_hi_i32", I32, I32, I32, u32(static_cast<uint64_t>(int64_t{i32(a)} * i32(b)) >> 32)),
    S2("s_lshl1_add_u32", U32, U32, U32, shift_add(w, a, b, 1)),
    S2("s_lshl2_add_u32", U32, U32, U32, shift_add(w, a, b, 2)),
    S2("s_lshl3_add_u32", U32, U32, U32, shift_add(w, a, b, 3)),
    S2("s_lshl4_add_u32", U32, U32, U32, shift_add(w, a, b, 4)),
    S2("s_absdiff_i32", I32, I32, I32, nonzero(w, i32(a - b) < 0 ? u32(b - a) : u32(a - b))),
    S1("s_abs_i32", I32, I32, nonzero(w, i32(a) < 0 ? u32(-a) : a)),
    S1("s_sext_i32_i8", I32, I32, u32(static_cast<uint64_t>(int64_t{static_cast<int8_t>(a)}))),
    S1("s_sext_i32_i16", I32, I32, u32(static_cast<uint64_t>(int64_t{static_cast<int16_t>(a)}))),
    {"s_addk_i32", with_immediate<[](Wave& w, uint64_t a, int64_t k) { return signed_result(w, i32(a) + k); }>},
    {"s_mulk_i32", with_immediate<[](Wave&, uint64_t a, int64_t k) -> uint64_t { return u32(static_cast<uint64_t>(i32(a) * k)); }>},
    S2("s_add_nc_u64", U64, U64, U64, a + b),
    S2("s_sub_nc_u64", U64, U64, U64, a - b),
    S2("s_mul_u64", U64, U64, U64, a* b),
    // moves
    S1("s_mov_b32", B32, B32, a),
    S1("s_mov_b64", B64, B64, a),
    {"s_cmov_b32", cmov32},
    {"s_cmov_b64", cmov64},
    {"s_movk_i32", movk},
    {"s_cmovk_i32", cmovk},
    S2("s_cselect_b32", B32, B32, B32, w.scc ? a : b),
    S2("s_cselect_b64", B64, B64, B64, w.scc ? a : b),
    S2("s_pack_ll_b32_b16", B32, B32, B32, (a & 0xffff) | u32(b << 16)),
    S2("s_pack_lh_b32_b16", B32, B32, B32, (a & 0xffff) | (b & 0xffff0000)),
    S2("s_pack_hh_b32_b16", B32, B32, B32, (a >> 16) | (b & 0xffff0000)),
    S2("s_pack_hl_b32_b16", B32, B32, B32, (a >> 16) | u32(b << 16)),
    // bits
    BITWISE("and", a& b),
    BITWISE("or", a | b),
    BITWISE("xor", a ^ b),
    BITWISE("andn2", a & ~b),
    BITWISE("orn2", a | ~b),
    BITWISE("nand", ~(a& b)),
    BITWISE("nor", ~(a | b)),
    BITWISE("xnor", ~(a ^ b)),
    S1("s_not_b32", B32, B32, nonzero(w, u32(~a))),
    S1("s_not_b64", B64, B64, nonzero(w, ~a)),
    S2("s_lshl_b32", B32, B32, U32, nonzero(w, u32(a << (b & 31)))),
    S2("s_lshl_b64", B64, B64, U32, nonzero(w, a << (b & 63))),
    S2("s_lshr_b32", B32, B32, U32, nonzero(w, a >> (b & 31))),
    S2("s_lshr_b64", B64, B64, U32, nonzero(w, a >> (b & 63))),
    S2("s_ashr_i32", I32, I32, U32, nonzero(w, u32(static_cast<uint64_t>(i32(a) >> (b & 31))))),
    S2("s_ashr_i64", I64, I64, U32, nonzero(w, static_cast<uint64_t>(i64(a) >> (b & 63)))),
    S2("s_bfm_b32", B32, B32, B32, u32(((uint64_t{1} << (a & 31)) - 1) << (b & 31))),
    S2("s_bfm_b64", B64, B32, B32, ((uint64_t{1} << (a & 63)) - 1) << (b & 63)),
    S2("s_bfe_u32", U32, U32, U32, nonzero(w, bfe(a, b, 32, false))),
    S2("s_bfe_i32", I32, I32, U32, nonzero(w, bfe(a, b, 32, true))),
    S2("s_bfe_u64", U64, U64, U32, nonzero(w, bfe(a, b, 64, false))),
    S2("s_bfe_i64", I64, I64, U32, nonzero(w, bfe(a, b, 64, true))),
    S1("s_brev_b32", B32, B32, reverse(a, 32)),
    S1("s_brev_b64", B64, B64, reverse(a, 64)),
    S1("s_bcnt0_i32_b32", B32, B32, nonzero(w, 32u - static_cast<unsigned>(std::popcount(a)))),
    S1("s_bcnt0_i32_b64", B32, B64, nonzero(w, 64u - static_cast<unsigned>(std::popcount(a)))),
    S1("s_bcnt1_i32_b32", B32, B32, nonzero(w, static_cast<unsigned>(std::popcount(a)))),
    S1("s_bcnt1_i32_b64", B32, B64, nonzero(w, static_cast<unsigned>(std::popcount(a)))),
    S1("s_ff0_i32_b32", B32, B32, u32(a) == 0xffffffff ? 0xffffffff : static_cast<unsigned>(std::countr_one(a))),
    S1("s_ff0_i32_b64", B32, B64, ~a == 0 ? 0xffffffff : static_cast<unsigned>(std::countr_one(a))),
    S1("s_ff1_i32_b32", B32, B32, a == 0 ? 0xffffffff : static_cast<unsigned>(std::countr_zero(a))),
    S1("s_ff1_i32_b64", B32, B64, a == 0 ? 0xffffffff : static_cast<unsigned>(std::countr_zero(a))),
    S1("s_flbit_i32_b32", B32, B32, a == 0 ? 0xffffffff : static_cast<unsigned>(std::countl_zero(u32(a)))),
    S1("s_flbit_i32_b64", B32, B64, a == 0 ? 0xffffffff : static_cast<unsigned>(std::countl_zero(a))),
    S1("s_flbit_i32", B32, B32, find_sign_change<32>(a)),
    S1("s_flbit_i32_i64", B32, B64, find_sign_change<64>(a)),
    {"s_bitset0_b32", bitset<1, false>},
    {"s_bitset1_b32", bitset<1, true>},
    {"s_bitset0_b64", bitset<2, false>},
    {"s_bitset1_b64", bitset<2, true>},
    S1("s_quadmask_b32", B32, B32, nonzero(w, quads(a, 32, false))),
    S1("s_quadmask_b64", B64, B64, nonzero(w, quads(a, 64, false))),
    S1("s_wqm_b32", B32, B32, nonzero(w, quads(a, 32, true))),
    S1("s_wqm_b64", B64, B64, nonzero(w, quads(a, 64, true))),
    S1("s_bitreplicate_b64_b32", B64, B32, replicate(a)),
    SAVE("and", s& e),
    SAVE("or", s | e),
    SAVE("xor", s ^ e),
    SAVE("andn2", s & ~e),
    SAVE("orn2", s | ~e),
    SAVE("andn1", ~s& e),
    SAVE("orn1", ~s | e),
    SAVE("nand", ~(s& e)),
    SAVE("nor", ~(s | e)),
    SAVE("xnor", ~(s ^ e)),
    WREXEC("andn1", ~s& e),
    WREXEC("andn2", s & ~e),
    // comparisons
    SC("s_cmp_eq_i32", I32, i32(a) == i32(b)),
    SC("s_cmp_lg_i32", I32, i32(a) != i32(b)),
    SC("s_cmp_gt_i32", I32, i32(a) > i32(b)),
    SC("s_cmp_ge_i32", I32, i32(a) >= i32(b)),
    SC("s_cmp_lt_i32", I32, i32(a) < i32(b)),
    SC("s_cmp_le_i32", I32, i32(a) <= i32(b)),
    SC("s_cmp_eq_u32", U32, a == b),
    SC("s_cmp_lg_u32", U32, a != b),
    SC("s_cmp_gt_u32", U32, a > b),
    SC("s_cmp_ge_u32", U32, a >= b),
    SC("s_cmp_lt_u32", U32, a < b),
    SC("s_cmp_le_u32", U32, a <= b),
    SC("s_cmp_eq_u64", U64, a == b),
    SC("s_cmp_lg_u64", U64, a != b),
    SC("s_bitcmp0_b32", B32, (a >> (b & 31) & 1) == 0),
    SC("s_bitcmp1_b32", B32, (a >> (b & 31) & 1) == 1),
    {"s_bitcmp0_b64",
     [](Wave& w, const Instruction& i) { w.scc = (source(w, i, 0, Type::B64) >> (source(w, i, 1, Type::B32) & 63) & 1) == 0; }},
    {"s_bitcmp1_b64",
     [](Wave& w, const Instruction& i) { w.scc = (source(w, i, 0, Type::B64) >> (source(w, i, 1, Type::B32) & 63) & 1) == 1; }},
    {"s_cmpk_eq_i32", compare_signed<[](int32_t a, int32_t b) { return a == b; }>},
    {"s_cmpk_lg_i32", compare_signed<[](int32_t a, int32_t b) { return a != b; }>},
    {"s_cmpk_gt_i32", compare_signed<[](int32_t a, int32_t b) { return (a > b); }>},
    {"s_cmpk_ge_i32", compare_signed<[](int32_t a, int32_t b) { return (a >= b); }>},
    {"s_cmpk_lt_i32", compare_signed<[](int32_t a, int32_t b) { return a < b; }>},
    {"s_cmpk_le_i32", compare_signed<[](int32_t a, int32_t b) { return a <= b; }>},
    {"s_cmpk_eq_u32", compare_unsigned<[](uint32_t a, uint32_t b) { return a == b; }>},
    {"s_cmpk_lg_u32", compare_unsigned<[](uint32_t a, uint32_t b) { return a != b; }>},
    {"s_cmpk_gt_u32", compare_unsigned<[](uint32_t a, uint32_t b) { return (a > b); }>},
    {"s_cmpk_ge_u32", compare_unsigned<[](uint32_t a, uint32_t b) { return (a >= b); }>},
    {"s_cmpk_lt_u32", compare_unsigned<[](uint32_t a, uint32_t b) { return a < b; }>},
    {"s_cmpk_le_u32", compare_unsigned<[](uint32_t a, uint32_t b) { return a <= b; }>},
    // control
    {"s_branch", jump},
    {"s_cbranch_scc0", branch<[](const Wave& w) { return !w.scc; }>},
    {"s_cbranch_scc1", branch<[](const Wave& w) { return w.scc; }>},
    {"s_cbranch_vccz", branch<[](const Wave& w) { return w.read_mask(kVcc) == 0; }>},
    {"s_cbranch_vccnz", branch<[](const Wave& w) { return w.read_mask(kVcc) != 0; }>},
    {"s_cbranch_execz", branch<[](const Wave& w) { return w.exec() == 0; }>},
    {"s_cbranch_execnz", branch<[](const Wave& w) { return w.exec() != 0; }>},
    {"s_getpc_b64", getpc},
    {"s_setpc_b64", setpc},
    {"s_swappc_b64", swappc},
    {"s_call_b64", call},
    {"s_getreg_b32", getreg},
    {"s_setreg_b32", setreg},
    {"s_setreg_imm32_b32", setreg},
    {"s_denorm_mode", denorm_mode},
    {"s_round_mode", round_mode},
    {"s_endpgm", end_program},
    {"s_barrier", barrier},
    {"s_barrier_signal", barrier_signal},
    {"s_barrier_wait", barrier_wait},
    {"s_sendmsg", sendmsg},
    {"s_trap", trap},
    {"s_sleep", sleep},
};

}  // namespace

Execute find_scalar(std::string_view name) {
  static const auto map = [] {
    std::unordered_map<std::string_view, Execute> result;
    for (const auto& [mnemonic, execute] : kTable) result.emplace(mnemonic, execute);
    return result;
  }();
  const auto found = map.find(name);
  return found == map.end() ? nullptr : found->second;
}

void list_scalar(std::vector<std::string>& names) {
  for (const auto& [mnemonic, execute] : kTable) names.emplace_back(mnemonic);
}

uint64_t read_scalar(Wave& w, const Operand& o, Type type) {
  const bool wide = registers_of(type) == 2;
  switch (o.form) {
    case Form::Scalar:
      return wide ? w.scalar64(o.index) : w.scalars[o.index];
    case Form::Constant:
      return constant_bits(o, type);
    case Form::Scc:
      return w.scc ? 1 : 0;
    case Form::Vccz:
      return w.read_mask(kVcc) == 0 ? 1 : 0;
    case Form::Execz:
      return w.exec() == 0 ? 1 : 0;
    case Form::Null:
      return 0;
    case Form::SharedBase:
    case Form::SharedLimit:
    case Form::PrivateBase:
    case Form::PrivateLimit: {
      if (!wide) fault("an aperture register as 32 bits, which the hardware reads as 0");
      const bool shared = o.form == Form::SharedBase || o.form == Form::SharedLimit;
      const bool limit = o.form == Form::SharedLimit || o.form == Form::PrivateLimit;
      return (shared ? w.machine->shared_base : w.machine->private_base) | (limit ? 0xffffffff : 0);
    }
    default:
      fault("operand '" + o.text + "' is no scalar source");
  }
}

void write_scalar(Wave& w, const Operand& o, uint64_t value, unsigned registers) {
  if (o.form == Form::Null) return;
  if (o.form != Form::Scalar) fault("operand '" + o.text + "' is no scalar destination");
  if (registers == 2) {
    w.set_scalar64(o.index, value);
  } else {
    w.scalars[o.index] = u32(value);
  }
}

}  // namespace heddle::amdgpu
