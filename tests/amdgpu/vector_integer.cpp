// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector instructions on integers and bits: what one lane computes. Names and sources as in vector_float.cpp.
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

int64_t signed24(uint32_t x) {
  return static_cast<int32_t>(x << 8) >> 8;
}
int64_t unsigned24(uint32_t x) {
  return x & 0xffffff;
}
template <class T>
T median(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
uint32_t bfe_u32(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t offset = b & 31, width = c & 31;
  return width == 0 ? 0 : a >> offset & ((1u << width) - 1);
}
int32_t bfe_i32(int32_t a, uint32_t b, uint32_t c) {
  const uint32_t offset = b & 31, width = c & 31;
  if (width == 0) return 0;
  if (offset + width >= 32) return a >> offset;
  return static_cast<int32_t>(static_cast<uint32_t>(a) << (32 - offset - width)) >> (32 - width);
}
uint32_t perm(uint32_t a, uint32_t b, uint32_t select) {
  const uint64_t data = uint64_t{a} << 32 | b;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t s = select >> 8 * i & 255;
    uint32_t byte = 0;
    if (s >= 13) {
      byte = 255;
    } else if (s == 12) {
      byte = 0;
    } else if (s >= 8) {
      byte = (data >> ((s - 8) * 16 + 15) & 1) != 0 ? 255 : 0;  // the signs of the bytes 1, 3, 5, 7
    } else {
      byte = data >> 8 * s & 255;
    }
    result |= byte << 8 * i;
  }
  return result;
}
uint32_t difference(uint32_t a, uint32_t b) {
  return a > b ? a - b : b - a;
}
uint32_t sad_bytes(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (int i = 0; i < 32; i += 8) sum += difference(a >> i & 255, b >> i & 255);
  return sum;
}
uint32_t lerp(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result = 0;
  for (int i = 0; i < 32; i += 8) result |= (((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) >> 1 & 255) << i;
  return result;
}
template <class A, class B>
int64_t dot4(uint32_t a, uint32_t b) {
  int64_t sum = 0;
  for (int i = 0; i < 32; i += 8) sum += int64_t{static_cast<A>(a >> i)} * static_cast<B>(b >> i);
  return sum;
}
template <bool kSignedA, bool kSignedB>
int64_t dot8(uint32_t a, uint32_t b) {
  int64_t sum = 0;
  for (int i = 0; i < 32; i += 4) {
    const int64_t x = kSignedA ? static_cast<int32_t>(a >> i << 28) >> 28 : static_cast<int32_t>(a >> i & 15);
    const int64_t y = kSignedB ? static_cast<int32_t>(b >> i << 28) >> 28 : static_cast<int32_t>(b >> i & 15);
    sum += x * y;
  }
  return sum;
}
template <class T>
int64_t dot2(uint32_t a, uint32_t b) {
  return int64_t{static_cast<T>(a)} * static_cast<T>(b) + int64_t{static_cast<T>(a >> 16)} * static_cast<T>(b >> 16);
}
uint32_t reversed(uint32_t x) {
  uint32_t result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1) << (31 - i);
  return result;
}
int32_t sign_bits(int32_t x) {  // the position of the first bit, from the top, that differs from the sign
  const uint32_t y = x < 0 ? ~static_cast<uint32_t>(x) : static_cast<uint32_t>(x);
  return y == 0 ? -1 : std::countl_zero(y);
}
uint32_t saturate(int64_t v, int64_t low, int64_t high) {
  return static_cast<uint32_t>(std::clamp(v, low, high)) & 0xffff;
}
uint32_t pack(uint32_t low, uint32_t high) {
  return (low & 0xffff) | high << 16;
}
uint32_t sat_byte(int16_t v) {
  return static_cast<uint32_t>(std::clamp<int>(v, 0, 255));
}

#define CARRY(name, flags, expression, bit)                                                                    \
  masked<B32, B32, B32, None, [](const Mode& m, uint32_t x, uint32_t y, int, bool in, bool& out) -> uint32_t { \
    const int64_t a = x, b = y, carry = in ? 1 : 0;                                                            \
    static_cast<void>(carry);                                                                                  \
    const int64_t wide = (expression);                                                                         \
    out = (bit);                                                                                               \
    if (m.clamp) return static_cast<uint32_t>(std::clamp<int64_t>(wide, 0, 0xffffffff));                       \
    return static_cast<uint32_t>(wide);                                                                        \
  }>(name, Type::U32, {Type::U32, Type::U32, Type::None}, kMaskOut | (flags))
#define COMPARE(name, T, flags, expression) \
  comparison<T, T, [](const Mode&, [[maybe_unused]] auto a, [[maybe_unused]] auto b) { return (expression); }>(name, flags)
#define COMPARES(prefix, suffix, T, flags)                                                          \
  COMPARE(prefix "f" suffix, T, flags, false), COMPARE(prefix "lt" suffix, T, flags, a < b),        \
      COMPARE(prefix "eq" suffix, T, flags, a == b), COMPARE(prefix "le" suffix, T, flags, a <= b), \
      COMPARE(prefix "gt" suffix, T, flags, a > b), COMPARE(prefix "ne" suffix, T, flags, a != b),  \
      COMPARE(prefix "ge" suffix, T, flags, a >= b), COMPARE(prefix "t" suffix, T, flags, true)
#define PACKED2(name, T, expression) \
  {name, Type::PackedI16, {Type::PackedI16, Type::PackedI16, Type::None}, each<T, T, T, None, HEDDLE_LAMBDA(expression)>, 0}
#define PACKED3(name, T, expression) \
  {name, Type::PackedI16, {Type::PackedI16, Type::PackedI16, Type::PackedI16}, each<T, T, T, T, HEDDLE_LAMBDA(expression)>, 0}

const Valu kTable[] = {
    OP1("v_mov_b32", B32, B32, a),
    OP1("v_mov_b16", B16, B16, a),
    OP1("v_mov_b64", B64, B64, a),
    OP1("v_accvgpr_read_b32", B32, B32, a),
    OP1("v_accvgpr_write_b32", B32, B32, a),
    OP1("v_accvgpr_mov_b32", B32, B32, a),
    masked<B32, B32, B32, None, [](const Mode&, uint32_t a, uint32_t b, int, bool in, bool&) { return in ? b : a; }>(
        "v_cndmask_b32", Type::B32, {Type::B32, Type::B32, Type::None}, kMaskIn),
    {"v_cndmask_b16",
     Type::B16,
     {Type::B16, Type::B16, Type::None},
     each_mask<B16, B16, B16, None, [](const Mode&, uint32_t a, uint32_t b, int, bool in, bool&) { return in ? b : a; }>,
     kMaskIn},
    OP1("v_not_b32", B32, B32, ~a),
    OP1("v_not_b16", B16, B16, ~a),
    OP1("v_bfrev_b32", B32, B32, reversed(a)),
    OP1("v_ffbh_u32", I32, U32, a == 0 ? -1 : std::countl_zero(a)),
    OP1("v_ffbl_b32", I32, U32, a == 0 ? -1 : std::countr_zero(a)),
    OP1("v_ffbh_i32", I32, I32, sign_bits(a)),
    OP1("v_sat_pk_u8_i16", B16, B32, sat_byte(static_cast<int16_t>(a)) | sat_byte(static_cast<int16_t>(a >> 16)) << 8),
    OP1("v_cvt_i32_i16", I32, I16, a),
    OP1("v_cvt_u32_u16", U32, U16, a),
    // 32 bits
    OP2("v_add_u32", U32, U32, U32, int64_t{a} + b),
    OP2("v_sub_u32", U32, U32, U32, int64_t{a} - b),
    OP2("v_subrev_u32", U32, U32, U32, int64_t{b} - a),
    OP2("v_add_i32", I32, I32, I32, int64_t{a} + b),
    OP2("v_sub_i32", I32, I32, I32, int64_t{a} - b),
    CARRY("v_add_co_u32", 0, a + b, wide > 0xffffffff),
    CARRY("v_sub_co_u32", 0, a - b, wide < 0),
    CARRY("v_subrev_co_u32", 0, b - a, wide < 0),
    CARRY("v_addc_co_u32", kMaskIn, a + b + carry, wide > 0xffffffff),
    CARRY("v_subb_co_u32", kMaskIn, a - b - carry, wide < 0),
    CARRY("v_subbrev_co_u32", kMaskIn, b - a - carry, wide < 0),
    OP2("v_mul_i32_i24", I32, U32, U32, signed24(a) * signed24(b)),
    OP2("v_mul_hi_i32_i24", I32, U32, U32, (signed24(a) * signed24(b)) >> 32),
    OP2("v_mul_u32_u24", U32, U32, U32, unsigned24(a) * unsigned24(b)),
    OP2("v_mul_hi_u32_u24", U32, U32, U32, (unsigned24(a) * unsigned24(b)) >> 32),
    OP3("v_mad_i32_i24", I32, U32, U32, I32, signed24(a) * signed24(b) + c),
    OP3("v_mad_u32_u24", U32, U32, U32, U32, unsigned24(a) * unsigned24(b) + c),
    OP2("v_mul_lo_u32", B32, U32, U32, a* b),
    OP2("v_mul_hi_u32", B32, U32, U32, uint64_t{a} * b >> 32),
    OP2("v_mul_hi_i32", B32, I32, I32, static_cast<uint64_t>(int64_t{a} * b) >> 32),
    {"v_mad_u64_u32",
     Type::U64,
     {Type::U32, Type::U32, Type::U64},
     each_mask<B64, B32, B32, B64,
               [](const Mode&, uint32_t a, uint32_t b, uint64_t c, bool, bool& out) {
                 const uint64_t p = uint64_t{a} * b, r = p + c;
                 out = r < p;
                 return r;
               }>,
     kMaskOut},
    {"v_mad_i64_i32",
     Type::I64,
     {Type::I32, Type::I32, Type::I64},
     each_mask<B64, B32, B32, B64,
               [](const Mode&, uint32_t a, uint32_t b, uint64_t c, bool, bool& out) {
                 const auto wide = __int128{int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b)} + static_cast<int64_t>(c);
                 out = ((wide >> 64 & 1) != 0);
                 return static_cast<uint64_t>(wide);
               }>,
     kMaskOut},
    OP2("v_min_i32", I32, I32, I32, std::min(a, b)),
    OP2("v_max_i32", I32, I32, I32, std::max(a, b)),
    OP2("v_min_u32", U32, U32, U32, std::min(a, b)),
    OP2("v_max_u32", U32, U32, U32, std::max(a, b)),
    OP3("v_min3_i32", I32, I32, I32, I32, std::min({a, b, c})),
    OP3("v_max3_i32", I32, I32, I32, I32, std::max({a, b, c})),
    OP3("v_med3_i32", I32, I32, I32, I32, median(a, b, c)),
    OP3("v_min3_u32", U32, U32, U32, U32, std::min({a, b, c})),
    OP3("v_max3_u32", U32, U32, U32, U32, std::max({a, b, c})),
    OP3("v_med3_u32", U32, U32, U32, U32, median(a, b, c)),
    OP3("v_maxmin_i32", I32, I32, I32, I32, std::min(std::max(a, b), c)),
    OP3("v_minmax_i32", I32, I32, I32, I32, std::max(std::min(a, b), c)),
    OP3("v_maxmin_u32", U32, U32, U32, U32, std::min(std::max(a, b), c)),
    OP3("v_minmax_u32", U32, U32, U32, U32, std::max(std::min(a, b), c)),
    OP2("v_lshrrev_b32", B32, U32, B32, b >> (a & 31)),
    OP2("v_ashrrev_i32", B32, U32, I32, static_cast<uint32_t>(b >> (a & 31))),
    OP2("v_lshlrev_b32", B32, U32, B32, b << (a & 31)),
    OP2("v_and_b32", B32, B32, B32, a& b),
    OP2("v_or_b32", B32, B32, B32, a | b),
    OP2("v_xor_b32", B32, B32, B32, a ^ b),
    OP2("v_xnor_b32", B32, B32, B32, ~(a ^ b)),
    OP3("v_xor3_b32", B32, B32, B32, B32, a ^ b ^ c),
    OP3("v_bfe_u32", B32, U32, U32, U32, bfe_u32(a, b, c)),
    OP3("v_bfe_i32", B32, I32, U32, U32, static_cast<uint32_t>(bfe_i32(a, b, c))),
    OP3("v_bfi_b32", B32, B32, B32, B32, (a & b) | (~a & c)),
    OP2("v_bfm_b32", B32, U32, U32, ((1u << (a & 31)) - 1) << (b & 31)),
    OP3("v_alignbit_b32", B32, B32, B32, U32, (uint64_t{a} << 32 | b) >> (c & 31)),
    OP3("v_alignbyte_b32", B32, B32, B32, U32, (uint64_t{a} << 32 | b) >> 8 * (c & 3)),
    OP3("v_perm_b32", B32, B32, B32, B32, perm(a, b, c)),
    OP3("v_lerp_u8", B32, B32, B32, B32, lerp(a, b, c)),
    OP3("v_sad_u8", B32, B32, B32, U32, sad_bytes(a, b) + c),
    OP3("v_sad_hi_u8", B32, B32, B32, U32, (sad_bytes(a, b) << 16) + c),
    OP3("v_sad_u16", B32, B32, B32, U32, difference(a & 0xffff, b & 0xffff) + difference(a >> 16, b >> 16) + c),
    OP3("v_sad_u32", B32, U32, U32, U32, difference(a, b) + c),
    OP3("v_xad_u32", B32, U32, U32, U32, (a ^ b) + c),
    OP3("v_lshl_add_u32", B32, U32, U32, U32, (a << (b & 31)) + c),
    OP3("v_add_lshl_u32", B32, U32, U32, U32, (a + b) << (c & 31)),
    OP3("v_add3_u32", B32, U32, U32, U32, a + b + c),
    OP3("v_lshl_or_b32", B32, U32, U32, U32, (a << (b & 31)) | c),
    OP3("v_and_or_b32", B32, U32, U32, U32, (a & b) | c),
    OP3("v_or3_b32", B32, U32, U32, U32, a | b | c),
    OP2("v_bcnt_u32_b32", B32, U32, U32, static_cast<uint32_t>(std::popcount(a)) + b),
    OP3("v_mad_u32_u16", U32, U16, U16, U32, int64_t{a} * b + c),
    OP3("v_mad_i32_i16", I32, I16, I16, I32, int64_t{a} * b + c),
    // 64 bits
    OP2("v_lshlrev_b64", B64, U32, B64, b << (a & 63)),
    OP2("v_lshrrev_b64", B64, U32, B64, b >> (a & 63)),
    OP2("v_ashrrev_i64", B64, U32, I64, static_cast<uint64_t>(b >> (a & 63))),
    OP3("v_lshl_add_u64", B64, B64, U32, B64, (a << (b & 7)) + c),
    // 16 bits
    OP2("v_add_u16", U16, U16, U16, int64_t{a} + b),
    OP2("v_sub_u16", U16, U16, U16, int64_t{a} - b),
    OP2("v_subrev_u16", U16, U16, U16, int64_t{b} - a),
    OP2("v_mul_lo_u16", U16, U16, U16, int64_t{a} * b),
    OP2("v_lshlrev_b16", B16, U16, B16, b << (a & 15)),
    OP2("v_lshrrev_b16", B16, U16, B16, b >> (a & 15)),
    OP2("v_ashrrev_i16", B16, U16, I16, static_cast<uint64_t>(b >> (a & 15))),
    OP2("v_and_b16", B16, B16, B16, a& b),
    OP2("v_or_b16", B16, B16, B16, a | b),
    OP2("v_xor_b16", B16, B16, B16, a ^ b),
    OP2("v_max_u16", U16, U16, U16, std::max(a, b)),
    OP2("v_max_i16", I16, I16, I16, std::max(a, b)),
    OP2("v_min_u16", U16, U16, U16, std::min(a, b)),
    OP2("v_min_i16", I16, I16, I16, std::min(a, b)),
    OPX("v_add_i16", I16, I16, I16, None, kKeepsHigh, int64_t{a} + b),
    OPX("v_sub_i16", I16, I16, I16, None, kKeepsHigh, int64_t{a} - b),
    OPX("v_mad_u16", U16, U16, U16, U16, kKeepsHigh, int64_t{a} * b + c),
    OPX("v_mad_i16", I16, I16, I16, I16, kKeepsHigh, int64_t{a} * b + c),
    OP3("v_mad_legacy_u16", U16, U16, U16, U16, int64_t{a} * b + c),
    OP3("v_mad_legacy_i16", I16, I16, I16, I16, int64_t{a} * b + c),
    OPX("v_min3_i16", I16, I16, I16, I16, kKeepsHigh, std::min({a, b, c})),
    OPX("v_max3_i16", I16, I16, I16, I16, kKeepsHigh, std::max({a, b, c})),
    OPX("v_med3_i16", I16, I16, I16, I16, kKeepsHigh, median(a, b, c)),
    OPX("v_min3_u16", U16, U16, U16, U16, kKeepsHigh, std::min({a, b, c})),
    OPX("v_max3_u16", U16, U16, U16, U16, kKeepsHigh, std::max({a, b, c})),
    OPX("v_med3_u16", U16, U16, U16, U16, kKeepsHigh, median(a, b, c)),
    OP2("v_pack_b32_f16", B32, B16, B16, pack(a, b)),
    // The guide's pseudocode truncates; LLVM clamps 64-bit values with it (AMDGPUPreLegalizerCombiner, matchClampI64ToI16), which needs saturation.
    OP2("v_cvt_pk_u16_u32", B32, U32, U32, pack(saturate(a, 0, 65535), saturate(b, 0, 65535))),
    OP2("v_cvt_pk_i16_i32", B32, I32, I32, pack(saturate(a, -32768, 32767), saturate(b, -32768, 32767))),
    // packed
    PACKED2("v_pk_add_u16", U16, int64_t{a} + b),
    PACKED2("v_pk_sub_u16", U16, int64_t{a} - b),
    PACKED2("v_pk_add_i16", I16, int64_t{a} + b),
    PACKED2("v_pk_sub_i16", I16, int64_t{a} - b),
    PACKED2("v_pk_mul_lo_u16", U16, int64_t{a} * b),
    PACKED2("v_pk_lshlrev_b16", U16, static_cast<uint16_t>(b << (a & 15))),
    PACKED2("v_pk_lshrrev_b16", U16, b >> (a & 15)),
    PACKED2("v_pk_ashrrev_i16", I16, b >> (a & 15)),
    PACKED2("v_pk_min_i16", I16, std::min(a, b)),
    PACKED2("v_pk_max_i16", I16, std::max(a, b)),
    PACKED2("v_pk_min_u16", U16, std::min(a, b)),
    PACKED2("v_pk_max_u16", U16, std::max(a, b)),
    PACKED3("v_pk_mad_i16", I16, int64_t{a} * b + c),
    PACKED3("v_pk_mad_u16", U16, int64_t{a} * b + c),
    {"v_pk_mov_b32", Type::PackedF32, {Type::PackedF32, Type::PackedF32, Type::None}, nullptr, 0},
    // dot products
    OPX("v_dot4_i32_i8", I32, B32, B32, I32, kOwnSelect, (dot4<int8_t, int8_t>(a, b)) + c),
    OPX("v_dot4c_i32_i8", I32, B32, B32, I32, kOwnSelect | kAccumulate, (dot4<int8_t, int8_t>(a, b)) + c),
    OPX("v_dot4_u32_u8", U32, B32, B32, U32, kOwnSelect, (dot4<uint8_t, uint8_t>(a, b)) + c),
    OPX("v_dot8_i32_i4", I32, B32, B32, I32, kOwnSelect, (dot8<true, true>(a, b)) + c),
    OPX("v_dot8_u32_u4", U32, B32, B32, U32, kOwnSelect, (dot8<false, false>(a, b)) + c),
    OPX("v_dot2_i32_i16", I32, B32, B32, I32, kOwnSelect, dot2<int16_t>(a, b) + c),
    OPX("v_dot2_u32_u16", U32, B32, B32, U32, kOwnSelect, dot2<uint16_t>(a, b) + c),
    OPX("v_dot2c_i32_i16", I32, B32, B32, I32, kOwnSelect | kAccumulate, dot2<int16_t>(a, b) + c),
    // comparisons
    COMPARES("v_cmp_", "_i16", I16, 0),
    COMPARES("v_cmp_", "_u16", U16, 0),
    COMPARES("v_cmp_", "_i32", I32, 0),
    COMPARES("v_cmp_", "_u32", U32, 0),
    COMPARES("v_cmp_", "_i64", I64, 0),
    COMPARES("v_cmp_", "_u64", U64, 0),
    COMPARES("v_cmpx_", "_i16", I16, kWritesExec),
    COMPARES("v_cmpx_", "_u16", U16, kWritesExec),
    COMPARES("v_cmpx_", "_i32", I32, kWritesExec),
    COMPARES("v_cmpx_", "_u32", U32, kWritesExec),
    COMPARES("v_cmpx_", "_i64", I64, kWritesExec),
    COMPARES("v_cmpx_", "_u64", U64, kWritesExec),
};
// v_dot4_i32_iu8: neg_lo says which of the sources are signed. Indexed by that.
const Valu kMixedDots[] = {
    OPX("v_dot4_i32_iu8", I32, B32, B32, I32, kOwnSelect, (dot4<uint8_t, uint8_t>(a, b)) + c),
    OPX("v_dot4_i32_iu8", I32, B32, B32, I32, kOwnSelect, (dot4<int8_t, uint8_t>(a, b)) + c),
    OPX("v_dot4_i32_iu8", I32, B32, B32, I32, kOwnSelect, (dot4<uint8_t, int8_t>(a, b)) + c),
    OPX("v_dot4_i32_iu8", I32, B32, B32, I32, kOwnSelect, (dot4<int8_t, int8_t>(a, b)) + c),
    OPX("v_dot8_i32_iu4", I32, B32, B32, I32, kOwnSelect, (dot8<false, false>(a, b)) + c),
    OPX("v_dot8_i32_iu4", I32, B32, B32, I32, kOwnSelect, (dot8<true, false>(a, b)) + c),
    OPX("v_dot8_i32_iu4", I32, B32, B32, I32, kOwnSelect, (dot8<false, true>(a, b)) + c),
    OPX("v_dot8_i32_iu4", I32, B32, B32, I32, kOwnSelect, (dot8<true, true>(a, b)) + c),
};

}  // namespace

const Valu* find_integer_valu(std::string_view name) {
  static const auto map = [] {
    std::unordered_map<std::string_view, const Valu*> result;
    for (const Valu& entry : kTable) result.emplace(entry.name, &entry);
    result.emplace("v_dot4_i32_iu8", &kMixedDots[0]);
    result.emplace("v_dot8_i32_iu4", &kMixedDots[4]);
    return result;
  }();
  const auto found = map.find(name);
  return found == map.end() ? nullptr : found->second;
}

void list_integer(std::vector<std::string>& names) {
  for (const Valu& entry : kTable) names.emplace_back(entry.name);
  names.emplace_back("v_dot4_i32_iu8");
  names.emplace_back("v_dot8_i32_iu4");
}

}  // namespace heddle::amdgpu
