// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One kernel of each kind for each AMD GPU, with the instructions that threads work together by. Also images to run elsewhere: nothing here runs them.
// RUN: rm -rf %t.code
// RUN: heddle compile %s -o %t.heddle --target hip --dump-code %t.code
// RUN: heddle explain --full %t.heddle | FileCheck %s --check-prefix=REPORT
// REPORT: kernel: k0_add, strategy: generic
// REPORT: kernel: k1_cast, strategy: generic
// REPORT: kernel: k2_softmax, strategy: rows
// REPORT: shared_memory_bytes: 0,
// REPORT: kernel: k3_reduce, strategy: rows
// REPORT: shared_memory_bytes: {{[1-9]}}
// REPORT: kernel: k4_matmul, strategy: gemv
// REPORT: shared_memory_bytes: {{[1-9]}}
// REPORT: kernel: k5_conv, strategy: tiles
// REPORT: kernel: k6_matmul, strategy: tiles

// RUN: %llvm/llvm-objdump -d --no-show-raw-insn %t.code/amdgpu_kernels.gfx90a.hsaco | FileCheck %s --check-prefixes=CODE,GFX9
// RUN: %llvm/llvm-objdump -d --no-show-raw-insn %t.code/amdgpu_kernels.gfx942.hsaco | FileCheck %s --check-prefixes=CODE,GFX9
// RUN: %llvm/llvm-objdump -d --no-show-raw-insn %t.code/amdgpu_kernels.gfx1100.hsaco | FileCheck %s --check-prefixes=CODE,RDNA
// RUN: %llvm/llvm-objdump -d --no-show-raw-insn %t.code/amdgpu_kernels.gfx1201.hsaco | FileCheck %s --check-prefixes=CODE,RDNA
// CODE-LABEL: <k0_add>:
// CODE: v_pk_add_f16
// CODE: s_endpgm
// CODE-LABEL: <k2_softmax>:
// CODE-NOT: s_barrier
// CODE: ds_bpermute_b32
// CODE-NOT: s_barrier
// CODE: s_endpgm
// CODE-LABEL: <k3_reduce>:
// CODE: ds_bpermute_b32
// GFX9: ds_write_b32
// RDNA: ds_store_b32
// CODE: s_barrier
// GFX9: ds_read
// RDNA: ds_load
// CODE: s_endpgm
// CODE-LABEL: <k4_matmul>:
// GFX9: global_load_dwordx4
// RDNA: global_load_b128
// CODE: s_barrier
// CODE: s_endpgm
// CODE-LABEL: <k5_conv>:
// GFX9: v_mfma_f32_16x16x4{{_?}}f32
// RDNA: v_{{.*}}fma{{.*}}_f32
// CODE: s_endpgm
// CODE-LABEL: <k6_matmul>:
// GFX9: v_mfma_f32_16x16x16{{.*}}bf16
// RDNA: v_wmma_f32_16x16x16_bf16
// CODE: s_endpgm
// CODE-NOT: <unknown>
func.func @main(%a: tensor<8x96xf16>, %b: tensor<8x96xf16>, %q: tensor<?x24xi8, #tx.dims<()[s0] -> (s0, 24)>>,
                %s: tensor<?x70xf32, #tx.dims<()[s0] -> (s0, 70)>>, %r: tensor<3x2000xf32>,
                %v: tensor<1x200xf32>, %m: tensor<200x768xf32>, %x: tensor<1x9x7x16xf32>, %f: tensor<3x3x16x32xf32>,
                %p: tensor<20x33xbf16>, %w: tensor<33x17xbf16>)
    -> (tensor<8x96xf16>, tensor<?x24xf32, #tx.dims<()[s0] -> (s0, 24)>>, tensor<?x70xf32, #tx.dims<()[s0] -> (s0, 70)>>,
        tensor<3xf32>, tensor<1x768xf32>, tensor<1x9x7x32xf32>, tensor<20x17xbf16>) attributes {tx.symbols = ["n"]} {
  %0 = tx.add %a, %b : tensor<8x96xf16>
  %1 = tx.cast %q : tensor<?x24xi8, #tx.dims<()[s0] -> (s0, 24)>> -> tensor<?x24xf32, #tx.dims<()[s0] -> (s0, 24)>>
  %2 = tx.softmax %s {axis = 1 : i64} : tensor<?x70xf32, #tx.dims<()[s0] -> (s0, 70)>>
  %3 = tx.reduce sum %r {axes = array<i64: 1>} : tensor<3x2000xf32> -> tensor<3xf32>
  %4 = tx.matmul %v, %m : tensor<1x200xf32>, tensor<200x768xf32> -> tensor<1x768xf32>
  %5 = tx.conv %x, %f {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x9x7x16xf32>, tensor<3x3x16x32xf32> -> tensor<1x9x7x32xf32>
  %6 = tx.matmul %p, %w : tensor<20x33xbf16>, tensor<33x17xbf16> -> tensor<20x17xbf16>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<8x96xf16>, tensor<?x24xf32, #tx.dims<()[s0] -> (s0, 24)>>, tensor<?x70xf32, #tx.dims<()[s0] -> (s0, 70)>>, tensor<3xf32>, tensor<1x768xf32>, tensor<1x9x7x32xf32>, tensor<20x17xbf16>
}
