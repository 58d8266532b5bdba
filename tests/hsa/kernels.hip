// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of amd_hip_test.cpp and hsa_test.cpp, in HIP's language without a library: only clang's builtins.
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))

DEVICE inline unsigned item() {
  return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
}

KERNEL saxpy(const float* x, float* y, float a, unsigned n) {
  const unsigned i = item();
  if (i < n) y[i] = a * x[i] + y[i];
}

KERNEL add_one(unsigned* x, unsigned n) {
  const unsigned i = item();
  if (i < n) x[i] += 1;
}

// The sizes that a kernel sees: of a workgroup and of the grid, per axis.
KERNEL sizes(unsigned* out) {
  if (__builtin_amdgcn_workgroup_id_x() + __builtin_amdgcn_workgroup_id_y() + __builtin_amdgcn_workgroup_id_z() != 0) return;
  if (__builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workitem_id_y() + __builtin_amdgcn_workitem_id_z() != 0) return;
  out[0] = __builtin_amdgcn_workgroup_size_x();
  out[1] = __builtin_amdgcn_workgroup_size_y();
  out[2] = __builtin_amdgcn_workgroup_size_z();
  out[3] = __builtin_amdgcn_grid_size_x();
  out[4] = __builtin_amdgcn_grid_size_y();
  out[5] = __builtin_amdgcn_grid_size_z();
}

// Reverses each workgroup's items, 128 at most and below 2^31, in LDS that the launch adds after the static one.
extern SHARED unsigned dynamic[];
KERNEL reverse(unsigned* x) {
  SHARED static unsigned fixed[128];
  const unsigned n = __builtin_amdgcn_workgroup_size_x(), t = __builtin_amdgcn_workitem_id_x();
  dynamic[t] = x[item()];
  fixed[t] = x[item()] >> 31;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  x[item()] = dynamic[n - 1 - t] + fixed[n - 1 - t];
}

DEVICE unsigned table[4] = {2, 3, 5, 7};
KERNEL look_up(unsigned* out) {
  const unsigned t = __builtin_amdgcn_workitem_id_x();
  out[t] = table[t & 3];
  if (t == 0) table[0] += 100;
}

struct Pair {
  long first;
  unsigned char second;
};
KERNEL by_value(long* out, Pair pair, unsigned char byte, double number) {
  out[0] = pair.first;
  out[1] = pair.second;
  out[2] = byte;
  out[3] = static_cast<long>(number);
}

// Waits until the host or another kernel has stored the value.
KERNEL wait_for(const unsigned* flag, unsigned value) {
  while (__atomic_load_n(flag, __ATOMIC_RELAXED) != value) __builtin_amdgcn_s_sleep(1);
}

KERNEL store(unsigned* flag, unsigned value) {
  __atomic_store_n(flag, value, __ATOMIC_RELAXED);
}

// Takes some time.
KERNEL slow(unsigned* out, unsigned rounds) {
  unsigned v = item();
  for (unsigned n = 0; n < rounds; ++n) v = v * 1664525 + 1013904223;
  out[item()] = v;
}
