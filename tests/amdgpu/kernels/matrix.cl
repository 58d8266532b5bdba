// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// c = a * transposed(b), for row-major matrices a [m][k], b [n][k], c [m][n]: one wave for each tile of c, 32 x 32 with MFMA and 16 x 16 with WMMA. k is a
// multiple of 16. What a lane loads and stores follows the layouts that AMD documents.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

#define VECTOR(type, count) typedef type type##_##count __attribute__((ext_vector_type(count)))
VECTOR(half, 4);
VECTOR(half, 16);
VECTOR(short, 4);
VECTOR(short, 16);
VECTOR(int, 2);
VECTOR(int, 4);
VECTOR(int, 8);
VECTOR(int, 16);
VECTOR(float, 8);
VECTOR(float, 16);
#define LOAD(type, count, address) (*(const global type##_##count*)(address))

// Each function adds the products of `a` and `b` at the lane's addresses to the lane's part of the tile.
#if defined(__gfx90a__) || defined(__gfx942__)

#define TILE 32
#define WAVE 64
typedef float_16 floats;
typedef int_16 ints;
static int row_of(int element, int lane) { return 8 * (element / 4) + 4 * (lane / 32) + element % 4; }

#define STEP_F16 8
#define TOGETHER_F16 4  // consecutive elements of a lane
static floats add_f16(const global half* a, const global half* b, floats sum) {
  return __builtin_amdgcn_mfma_f32_32x32x8f16(LOAD(half, 4, a), LOAD(half, 4, b), sum, 0, 0, 0);
}
static floats add_bf16(const global short* a, const global short* b, floats sum) {
  return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(LOAD(short, 4, a), LOAD(short, 4, b), sum, 0, 0, 0);
}
#ifdef __gfx90a__
#define STEP_I8 8
#define TOGETHER_I8 4
static ints add_i8(const global char* a, const global char* b, ints sum) {
  return __builtin_amdgcn_mfma_i32_32x32x8i8(*(const global int*)a, *(const global int*)b, sum, 0, 0, 0);
}
#else
#define STEP_I8 16
#define TOGETHER_I8 8
static ints add_i8(const global char* a, const global char* b, ints sum) {
  return __builtin_amdgcn_mfma_i32_32x32x16_i8(*(const global long*)a, *(const global long*)b, sum, 0, 0, 0);
}
#endif
#define STEP_F32 2
#define TOGETHER_F32 1
static floats add_f32(const global float* a, const global float* b, floats sum) {
  return __builtin_amdgcn_mfma_f32_32x32x2f32(*a, *b, sum, 0, 0, 0);
}

#else

#define TILE 16
#define WAVE 32
typedef float_8 floats;
typedef int_8 ints;
#define STEP_F16 16
#define STEP_I8 16

#ifdef __gfx1100__
static int row_of(int element, int lane) { return 2 * element + lane / 16; }

#define TOGETHER_F16 0  // the lanes from 16 on load the same again
#define TOGETHER_I8 0
static floats add_f16(const global half* a, const global half* b, floats sum) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(LOAD(half, 16, a), LOAD(half, 16, b), sum);
}
static floats add_bf16(const global short* a, const global short* b, floats sum) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(LOAD(short, 16, a), LOAD(short, 16, b), sum);
}
static ints add_i8(const global char* a, const global char* b, ints sum) {
  return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, LOAD(int, 4, a), true, LOAD(int, 4, b), sum, false);
}
#else
static int row_of(int element, int lane) { return 8 * (lane / 16) + element; }

#define TOGETHER_F16 4
#define TOGETHER_I8 8
#define PIECES(type, address) __builtin_shufflevector(LOAD(type, 4, address), LOAD(type, 4, (address) + 8), 0, 1, 2, 3, 4, 5, 6, 7)
static floats add_f16(const global half* a, const global half* b, floats sum) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(PIECES(half, a), PIECES(half, b), sum);
}
static floats add_bf16(const global short* a, const global short* b, floats sum) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(PIECES(short, a), PIECES(short, b), sum);
}
static ints add_i8(const global char* a, const global char* b, ints sum) {
  return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, LOAD(int, 2, a), true, LOAD(int, 2, b), sum, false);
}
#endif
#endif

#define PRODUCT(name, in, out, sums, add, step, together)                                                                   \
  __attribute__((reqd_work_group_size(WAVE, 1, 1))) kernel void name(const global in* a, const global in* b, global out* c, \
                                                                     const int n, const int k) {                            \
    __builtin_assume(k > 0);                                                                                                \
    const int lane = __builtin_amdgcn_workitem_id_x();                                                                      \
    const int row = __builtin_amdgcn_workgroup_id_y() * TILE, column = __builtin_amdgcn_workgroup_id_x() * TILE;            \
    const int offset = (together) * (lane / TILE);                                                                          \
    a += (long)(row + lane % TILE) * k + offset;                                                                            \
    b += (long)(column + lane % TILE) * k + offset;                                                                         \
    sums sum = 0;                                                                                                           \
    for (int at = 0; at < k; at += step) sum = add(a + at, b + at, sum);                                                    \
    for (int e = 0; e < (int)(sizeof(sum) / 4); ++e) {                                                                      \
      c[(long)(row + row_of(e, lane)) * n + column + lane % TILE] = sum[e];                                                 \
    }                                                                                                                       \
  }
PRODUCT(product_f16, half, float, floats, add_f16, STEP_F16, TOGETHER_F16)
PRODUCT(product_bf16, short, float, floats, add_bf16, STEP_F16, TOGETHER_F16)
PRODUCT(product_i8, char, int, ints, add_i8, STEP_I8, TOGETHER_I8)
#ifdef STEP_F32
PRODUCT(product_f32, float, float, floats, add_f32, STEP_F32, TOGETHER_F32)
#endif
