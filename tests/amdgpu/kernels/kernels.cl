// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of kernels_test.cpp, in OpenCL C without a library: only clang's builtins.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define GROUP_X __builtin_amdgcn_workgroup_id_x()
#define GROUP_Y __builtin_amdgcn_workgroup_id_y()
#define ITEM_X __builtin_amdgcn_workitem_id_x()
#define ITEM_Y __builtin_amdgcn_workitem_id_y()
#define ITEM_Z __builtin_amdgcn_workitem_id_z()

static void barrier_of_workgroup(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

kernel void saxpy(global const float* restrict x, global float* restrict y, float a, int n) {
  const int i = GROUP_X * 256 + ITEM_X;
  if (i < n) y[i] = a * x[i] + y[i];
}

kernel void axpy_half2(global const half2* restrict x, global half2* restrict y, half a, int n) {
  const int i = GROUP_X * 256 + ITEM_X;
  if (i < n) y[i] = (half2)(a, a) * x[i] + y[i];
}

kernel void scale_half(global const half* restrict x, global half* restrict y, half a, int n) {
  const int i = GROUP_X * 256 + ITEM_X;
  if (i < n) y[i] = (x[i] + a) / (half)3.0f;
}

// int8 to f32, scaled, and back.
kernel void requantize(global const char4* restrict x, global char4* restrict y, float scale, int n) {
  const int i = GROUP_X * 256 + ITEM_X;
  if (i >= n) return;
  const char4 v = x[i];
  char4 r;
  for (int k = 0; k < 4; ++k) {
    const float f = __builtin_rintf((float)v[k] * scale);
    r[k] = (char)(int)__builtin_fminf(__builtin_fmaxf(f, -128.0f), 127.0f);
  }
  y[i] = r;
}

kernel void dot_i8(global const uint* restrict x, global const uint* restrict y, global int* restrict out, int n) {
  const int i = GROUP_X * 64 + ITEM_X;
  int sum = 0;
  for (int k = 0; k < n; ++k) {
    const char4 a = __builtin_astype(x[i * n + k], char4), b = __builtin_astype(y[i * n + k], char4);
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  out[i] = sum;
}

kernel void reduce(global const float* x, global float* y) {
  local float s[256];
  const int t = ITEM_X;
  s[t] = x[GROUP_X * 256 + t];
  for (int d = 128; d > 0; d >>= 1) {
    barrier_of_workgroup();
    if (t < d) s[t] += s[t + d];
  }
  if (t == 0) y[GROUP_X] = s[0];
}

// A sum over 32 lanes by exchanges.
kernel void exchange(global const int* x, global int* y) {
  const int t = ITEM_X, i = GROUP_X * 64 + t;
  int v = x[i];
  for (int d = 1; d < 32; d <<= 1) v += __builtin_amdgcn_ds_bpermute(((t ^ d) & 63) << 2, v);
  int w = x[i];
  w += __builtin_amdgcn_ds_swizzle(w, 0x041f);                         // xor 1
  w += __builtin_amdgcn_update_dpp(0, w, 0x4e, 0xf, 0xf, true);        // quad_perm:[2,3,0,1]
  w += __builtin_amdgcn_update_dpp(0, w, 0x141, 0xf, 0xf, true);       // row_half_mirror
  w += __builtin_amdgcn_update_dpp(0, w, 0x140, 0xf, 0xf, true);       // row_mirror
  y[2 * i] = v;
  y[2 * i + 1] = w + __builtin_amdgcn_readfirstlane(t);
}

#define TILE 16
kernel void matmul(global const float* restrict a, global const float* restrict b, global float* restrict c, int m, int n, int k) {
  local float ta[TILE][TILE], tb[TILE][TILE];
  const int x = ITEM_X, y = ITEM_Y, column = GROUP_X * TILE + x, row = GROUP_Y * TILE + y;
  float sum = 0;
  for (int at = 0; at < k; at += TILE) {
    ta[y][x] = row < m && at + x < k ? a[row * k + at + x] : 0;
    tb[y][x] = column < n && at + y < k ? b[(at + y) * n + column] : 0;
    barrier_of_workgroup();
    for (int i = 0; i < TILE; ++i) sum = __builtin_fmaf(ta[y][i], tb[i][x], sum);
    barrier_of_workgroup();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

kernel void divide(global const int* a, global const int* b, global int* out, global const long* c, global const long* d, global long* wide) {
  const int i = GROUP_X * 64 + ITEM_X;
  out[4 * i] = a[i] / b[i];
  out[4 * i + 1] = a[i] % b[i];
  out[4 * i + 2] = (int)((uint)a[i] / (uint)b[i]);
  out[4 * i + 3] = (int)((uint)a[i] % (uint)b[i]);
  wide[4 * i] = c[i] / d[i];
  wide[4 * i + 1] = c[i] % d[i];
  wide[4 * i + 2] = (long)((ulong)c[i] / (ulong)d[i]);
  wide[4 * i + 3] = a[i] / 7 + (long)(c[i] / 1000003);
}

kernel void divide_float(global const float* a, global const float* b, global float* out, int n) {
  const int i = GROUP_X * 64 + ITEM_X;
  if (i >= n) return;
  out[2 * i] = a[i] / b[i];
  out[2 * i + 1] = __builtin_sqrtf(a[i]);
}

kernel void divide_double(global const double* a, global const double* b, global double* out, int n) {
  const int i = GROUP_X * 64 + ITEM_X;
  if (i >= n) return;
  out[2 * i] = a[i] / b[i];
  out[2 * i + 1] = __builtin_sqrt(a[i]);
}

kernel void functions(global const float* x, global float* y, int n) {
  const int i = GROUP_X * 64 + ITEM_X;
  if (i >= n) return;
  const float v = x[i];
  y[6 * i] = __builtin_expf(v);
  y[6 * i + 1] = __builtin_logf(__builtin_fabsf(v));
  y[6 * i + 2] = __builtin_exp2f(v);
  y[6 * i + 3] = __builtin_log2f(__builtin_fabsf(v));
  y[6 * i + 4] = __builtin_floorf(v) + __builtin_truncf(v) + __builtin_ceilf(v) + __builtin_rintf(v);
  y[6 * i + 5] = __builtin_sinf(v);
}

// Different numbers of steps per lane, nested branches.
kernel void collatz(global const uint* x, global uint* y) {
  const int i = GROUP_X * 64 + ITEM_X;
  uint v = x[i], steps = 0, odd = 0;
  while (v != 1 && steps < 1000) {
    if (v & 1) {
      v = 3 * v + 1;
      if (++odd % 5 == 0) {
        switch (v & 3) {
          case 0: steps += 1; break;
          case 1: steps += 2; break;
          default: odd += 1;
        }
      }
    } else {
      v >>= 1;
    }
    ++steps;
  }
  y[i] = steps * 1000 + odd;
}

kernel void gather_far(global const int* x, global const long* index, global int* y, long stride) {
  const int i = GROUP_X * 64 + ITEM_X;
  y[i] = x[index[i] * stride - 3];
}

kernel void atomics(global int* counters, global uint* bits, global float* sum, global ulong* wide) {
  local int histogram[16];
  const int t = ITEM_X, i = GROUP_X * 128 + t;
  if (t < 16) histogram[t] = 0;
  barrier_of_workgroup();
  __opencl_atomic_fetch_add((local atomic_int*)&histogram[i * 7 % 16], i, memory_order_relaxed, memory_scope_work_group);
  barrier_of_workgroup();
  if (t < 16) __opencl_atomic_fetch_add((global atomic_int*)&counters[t], histogram[t], memory_order_relaxed, memory_scope_device);
  __opencl_atomic_fetch_max((global atomic_int*)&counters[16], i, memory_order_relaxed, memory_scope_device);
  __opencl_atomic_fetch_min((global atomic_int*)&counters[17], -i, memory_order_relaxed, memory_scope_device);
  __opencl_atomic_fetch_or((global atomic_uint*)&bits[i / 32], 1u << (i & 31), memory_order_relaxed, memory_scope_device);
  // Compare and swap until it works.
  uint old = __opencl_atomic_load((global atomic_uint*)&bits[64], memory_order_relaxed, memory_scope_device);
  while (!__opencl_atomic_compare_exchange_strong((global atomic_uint*)&bits[64], &old, old + 3, memory_order_relaxed, memory_order_relaxed,
                                                  memory_scope_device)) {
  }
  __opencl_atomic_fetch_add((global atomic_ulong*)wide, (ulong)i << 30, memory_order_relaxed, memory_scope_device);
  __opencl_atomic_fetch_add((global atomic_float*)sum, 0.5f, memory_order_relaxed, memory_scope_device);
}

kernel void private_array(global const int* x, global int* y) {
  const int i = GROUP_X * 64 + ITEM_X;
  volatile int a[24];
  for (int k = 0; k < 24; ++k) a[k] = x[i] * k;
  y[i] = a[(x[i] & 0x7fffffff) % 24] + a[i % 24];
}

__attribute__((noinline)) static int weigh(int* pointer, int n) {
  int sum = 0;
  for (int k = 0; k < n; ++k) sum += pointer[k] * (k + 1);
  return sum;
}
// A function, and generic pointers to each kind of memory.
kernel void calls(global int* x, global int* y) {
  local int s[256];
  int p[4];
  const int t = ITEM_X, i = GROUP_X * 64 + t;
  for (int k = 0; k < 4; ++k) {
    p[k] = x[4 * i + k] + 1;
    s[4 * t + k] = x[4 * i + k] + 2;
  }
  int result = weigh((int*)p, 4);
  result = result * 31 + weigh((int*)&s[4 * t], 4);
  result = result * 31 + weigh((int*)&x[4 * i], 4);
  y[i] = result;
}

constant int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
kernel void look_up(global const int* x, global int* y) {
  const int i = GROUP_X * 64 + ITEM_X;
  y[i] = table[x[i] & 15] * 10 + table[GROUP_X & 15];
}

kernel void sizes(global uint* y) {
  const uint x = ITEM_X, z = ITEM_Z, wx = __builtin_amdgcn_workgroup_size_x(), wy = __builtin_amdgcn_workgroup_size_y();
  const uint local_id = (z * wy + ITEM_Y) * wx + x;
  const uint group = (__builtin_amdgcn_workgroup_id_z() * 3 + GROUP_Y) * 2 + GROUP_X;
  y[group * wx * wy * 2 + local_id] = wx * 1000000 + wy * 1000 + local_id + __builtin_amdgcn_grid_size_x();
}

kernel void buffer(global float* x, global float* y, int bytes) {
  const int i = GROUP_X * 64 + ITEM_X;
  const __amdgpu_buffer_rsrc_t r = __builtin_amdgcn_make_buffer_rsrc(x, 0, bytes, 0x27000);
  const float v = __builtin_astype(__builtin_amdgcn_raw_buffer_load_b32(r, i * 4, 0, 0), float);
  y[i] = v;
}
