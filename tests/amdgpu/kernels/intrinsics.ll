; SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
; A kernel of kernels_test.cpp that OpenCL C has no words for.
target triple = "amdgcn-amd-amdhsa"

define amdgpu_kernel void @intrinsics(ptr addrspace(1) %x, ptr addrspace(1) %y) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %at = getelementptr float, ptr addrspace(1) %x, i32 %t
  %v = load float, ptr addrspace(1) %at
  %m = call float @llvm.amdgcn.fmed3.f32(float %v, float -2.0, float 3.5)
  %p = call <2 x half> @llvm.amdgcn.cvt.pkrtz(float %v, float %m)
  %q = fadd <2 x half> %p, <half 1.0, half 1.0>
  %b = bitcast <2 x half> %q to i32
  %s = call i32 @llvm.fshl.i32(i32 %b, i32 %t, i32 7)
  %c = call i32 @llvm.ctpop.i32(i32 %s)
  %l = call i32 @llvm.ctlz.i32(i32 %t, i1 false)
  %r = call i32 @llvm.bitreverse.i32(i32 %t)
  %sat = call i32 @llvm.uadd.sat.i32(i32 %r, i32 2147483648)
  %i0 = mul i32 %t, 5
  %at0 = getelementptr i32, ptr addrspace(1) %y, i32 %i0
  store i32 %b, ptr addrspace(1) %at0
  %at1 = getelementptr i32, ptr addrspace(1) %at0, i32 1
  store i32 %s, ptr addrspace(1) %at1
  %at2 = getelementptr i32, ptr addrspace(1) %at0, i32 2
  store i32 %c, ptr addrspace(1) %at2
  %at3 = getelementptr i32, ptr addrspace(1) %at0, i32 3
  store i32 %l, ptr addrspace(1) %at3
  %at4 = getelementptr i32, ptr addrspace(1) %at0, i32 4
  store i32 %sat, ptr addrspace(1) %at4
  ret void
}

declare i32 @llvm.amdgcn.workitem.id.x()
declare float @llvm.amdgcn.fmed3.f32(float, float, float)
declare <2 x half> @llvm.amdgcn.cvt.pkrtz(float, float)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i32 @llvm.bitreverse.i32(i32)
declare i32 @llvm.uadd.sat.i32(i32, i32)
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
