// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the GPU tests in PTX, written by hand to the ABI of code.h. kPtx80 runs on every supported device, kPtx90a on Hopper only.
#ifndef HEDDLE_TESTS_GPU_PTX_H_
#define HEDDLE_TESTS_GPU_PTX_H_

namespace heddle::test {

inline constexpr const char* kPtx80 = R"(
.version 7.0
.target sm_80
.address_size 64

.extern .shared .align 16 .b8 heap[];

// out[i] = a[i] + b[i] + bias, for i < count
.visible .entry add_f32(.param .u64 a, .param .u64 b, .param .u64 out, .param .s64 count, .param .s64 bias)
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
  ld.param.s64 %rd7, [bias];
  add.u64 %rd4, %rd4, %rd1;
  add.u64 %rd5, %rd5, %rd1;
  add.u64 %rd6, %rd6, %rd1;
  ld.global.f32 %f1, [%rd4];
  ld.global.f32 %f2, [%rd5];
  cvt.rn.f32.s64 %f3, %rd7;
  add.f32 %f4, %f1, %f2;
  add.f32 %f5, %f4, %f3;
  st.global.f32 [%rd6], %f5;
DONE:
  ret;
}

// One more in the word of every thread, numbered through the grid, x fastest.
.visible .entry count_threads(.param .u64 counts)
{
  .reg .b32 %r<20>; .reg .b64 %rd<4>;
  mov.u32 %r1, %ctaid.z;
  mov.u32 %r2, %nctaid.y;
  mov.u32 %r3, %ctaid.y;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r2, %nctaid.x;
  mov.u32 %r3, %ctaid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r4, %tid.z;
  mov.u32 %r5, %ntid.y;
  mov.u32 %r6, %tid.y;
  mad.lo.u32 %r4, %r4, %r5, %r6;
  mov.u32 %r7, %ntid.x;
  mov.u32 %r8, %tid.x;
  mad.lo.u32 %r4, %r4, %r7, %r8;
  mov.u32 %r9, %ntid.z;
  mul.lo.u32 %r10, %r7, %r5;
  mul.lo.u32 %r10, %r10, %r9;
  mad.lo.u32 %r1, %r1, %r10, %r4;
  ld.param.u64 %rd1, [counts];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  red.global.add.u32 [%rd1], 1;
  ret;
}

// value[0] = value[0] * 3 + step
.visible .entry chain(.param .u64 value, .param .s64 step)
{
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [value];
  ld.param.u64 %rd2, [step];
  ld.global.u64 %rd3, [%rd1];
  mad.lo.u64 %rd3, %rd3, 3, %rd2;
  st.global.u64 [%rd1], %rd3;
  ret;
}

// out[i] = in[count - 1 - i], through dynamic shared memory of `count` words
.visible .entry reverse(.param .u64 in, .param .u64 out, .param .s64 count)
{
  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, heap;
  mov.u32 %r5, %r2;
LOAD:
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra LOADED;
  mul.wide.u32 %rd3, %r5, 4;
  add.u64 %rd3, %rd1, %rd3;
  ld.global.u32 %r6, [%rd3];
  shl.b32 %r7, %r5, 2;
  add.u32 %r7, %r4, %r7;
  st.shared.u32 [%r7], %r6;
  add.u32 %r5, %r5, %r3;
  bra LOAD;
LOADED:
  bar.sync 0;
  mov.u32 %r5, %r2;
STORE:
  setp.ge.u32 %p2, %r5, %r1;
  @%p2 bra STORED;
  sub.u32 %r8, %r1, %r5;
  sub.u32 %r8, %r8, 1;
  shl.b32 %r8, %r8, 2;
  add.u32 %r8, %r4, %r8;
  ld.shared.u32 %r9, [%r8];
  mul.wide.u32 %rd4, %r5, 4;
  add.u64 %rd4, %rd2, %rd4;
  st.global.u32 [%rd4], %r9;
  add.u32 %r5, %r5, %r3;
  bra STORE;
STORED:
  ret;
}

// What a recipe gave: out[0..3] = the constants, out[4] = in[0]
.visible .entry recipe(.param .u32 a, .param .u64 out, .param .u64 b, .param .u64 in, .param .u8 c, .param .u16 d)
{
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  ld.param.u32 %rd3, [a];
  ld.param.u64 %rd4, [b];
  ld.param.u8 %rd5, [c];
  ld.param.u16 %rd6, [d];
  ld.global.u64 %rd7, [%rd2];
  st.global.u64 [%rd1], %rd3;
  st.global.u64 [%rd1 + 8], %rd4;
  st.global.u64 [%rd1 + 16], %rd5;
  st.global.u64 [%rd1 + 24], %rd6;
  st.global.u64 [%rd1 + 32], %rd7;
  ret;
}

// Lasts for about that many nanoseconds.
.visible .entry linger(.param .s64 nanoseconds)
{
  .reg .pred %p<2>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [nanoseconds];
  mov.u64 %rd2, %globaltimer;
LOOP:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra LOOP;
  ret;
}

// Writes to an address that the caller chooses.
.visible .entry store_wild(.param .s64 address)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [address];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry trap_now()
{
  trap;
  ret;
}
)";

inline constexpr const char* kPtx90a = R"(
.version 8.0
.target sm_90a
.address_size 64

// out[i] = in[(i + shift) % count] * 3 + 1; it may be started early, and every thread waits before it touches memory
.visible .entry shuffle(.param .u64 in, .param .u64 out, .param .s64 count, .param .s64 shift)
{
  .reg .pred %p<2>; .reg .b32 %r<10>; .reg .b64 %rd<8>;
  griddepcontrol.wait;
  griddepcontrol.launch_dependents;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [count];
  setp.ge.u32 %p1, %r1, %r4;
  @%p1 bra DONE;
  ld.param.u32 %r5, [shift];
  add.u32 %r6, %r1, %r5;
  rem.u32 %r6, %r6, %r4;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mul.wide.u32 %rd3, %r6, 4;
  add.u64 %rd1, %rd1, %rd3;
  mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd2, %rd2, %rd4;
  ld.global.u32 %r7, [%rd1];
  mad.lo.u32 %r7, %r7, 3, 1;
  st.global.u32 [%rd2], %r7;
DONE:
  ret;
}

// Copies the tile of 8 rows of 32 words at (x, y) of a tensor to out.
.visible .entry copy_tile(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y)
{
  .shared .align 128 .b8 tile[1024];
  .shared .align 8 .b64 arrived;
  .reg .pred %p<5>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  griddepcontrol.wait;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, tile;
  mov.u32 %r4, arrived;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra STARTED;
  mbarrier.init.shared::cta.b64 [%r4], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [%r4], 1024;
  ld.param.u32 %r5, [x];
  ld.param.u32 %r6, [y];
  mov.b64 %rd2, map;
  cvta.param.u64 %rd3, %rd2;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd3, {%r5, %r6}], [%r4];
STARTED:
  bar.sync 0;
  mov.u32 %r7, 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
  @%p2 bra ARRIVED;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p3, %r7, 10000000;
  @%p3 bra WAIT;
  trap;
ARRIVED:
  ld.param.u64 %rd4, [out];
  mov.u32 %r8, %r1;
STORE:
  setp.ge.u32 %p4, %r8, 256;
  @%p4 bra DONE;
  shl.b32 %r9, %r8, 2;
  add.u32 %r9, %r3, %r9;
  ld.shared.u32 %r10, [%r9];
  mul.wide.u32 %rd5, %r8, 4;
  add.u64 %rd5, %rd4, %rd5;
  st.global.u32 [%rd5], %r10;
  add.u32 %r8, %r8, %r2;
  bra STORE;
DONE:
  ret;
}
)";

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_GPU_PTX_H_
