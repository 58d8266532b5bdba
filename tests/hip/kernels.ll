; SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
; The kernels of the conformance kit (tools/conformance/kernels.cpp) for AMD GPUs, as code.h has hsaco/1: bindings, then constants, nothing hidden.
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
declare void @llvm.trap()

define amdgpu_kernel void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out, i64 %n, i64 %e) #0 {
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %wide = zext i32 %group to i64
  %first = shl i64 %wide, 8
  %thread = zext i32 %item to i64
  %i = add i64 %first, %thread
  %inside = icmp slt i64 %i, %n
  br i1 %inside, label %work, label %done
work:
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %i
  %po = getelementptr float, ptr addrspace(1) %out, i64 %i
  %va = load float, ptr addrspace(1) %pa
  %vb = load float, ptr addrspace(1) %pb
  %sum = fadd float %va, %vb
  store float %sum, ptr addrspace(1) %po
  br label %done
done:
  ret void
}

; A workgroup has one thread, so the grid's threads in the dispatch packet (bytes 12 and 16) are its workgroups.
define amdgpu_kernel void @count(ptr addrspace(1) %counts) #1 {
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %px = getelementptr i8, ptr addrspace(4) %packet, i64 12
  %py = getelementptr i8, ptr addrspace(4) %packet, i64 16
  %nx = load i32, ptr addrspace(4) %px
  %ny = load i32, ptr addrspace(4) %py
  %x = call i32 @llvm.amdgcn.workgroup.id.x()
  %y = call i32 @llvm.amdgcn.workgroup.id.y()
  %z = call i32 @llvm.amdgcn.workgroup.id.z()
  %zy = mul i32 %z, %ny
  %zy1 = add i32 %zy, %y
  %zyx = mul i32 %zy1, %nx
  %index = add i32 %zyx, %x
  %wide = zext i32 %index to i64
  %p = getelementptr i32, ptr addrspace(1) %counts, i64 %wide
  %old = atomicrmw add ptr addrspace(1) %p, i32 1 syncscope("agent") monotonic
  ret void
}

define amdgpu_kernel void @chain(ptr addrspace(1) %value, i64 %c) #1 {
  %old = load i64, ptr addrspace(1) %value
  %three = mul i64 %old, 3
  %new = add i64 %three, %c
  store i64 %new, ptr addrspace(1) %value
  ret void
}

; A store to an address that no memory has.
define amdgpu_kernel void @lose(ptr addrspace(1) %unused) #1 {
  store volatile i32 1, ptr addrspace(1) inttoptr (i64 4096 to ptr addrspace(1))
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="256,256" }
attributes #1 = { nounwind "amdgpu-flat-work-group-size"="1,64" }
