/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The ABI of compiled code, per format id (HD-C-01): how a kernel's entry looks, how bindings and constants reach it, what it may
 * import. For authors of code generators and of loaders for images; frozen per format id.
 *
 * "x86_64-elf/1": a position-independent ELF64 shared image for x86-64.
 *   Targets    "x86-64-v3" (AVX2, FMA), "x86-64-v4" (AVX-512 F, BW, CD, DQ, VL)
 *   Entry      a global function symbol in .dynsym, of type heddle_x86_64_kernel_t, System V calling convention
 *   Imports    none: no needed libraries, no undefined symbols, no TLS, no constructors; only R_X86_64_RELATIVE relocations
 *   Segments   W^X: none is both writable and executable; executable code is mapped read-only
 *   State      MXCSR has its default (round to nearest, no flush to zero, exceptions masked); upper halves of vector registers
 *              may be dirty on return; AMX state is released on return
 *   Stack      at most 64 KiB below the entry's frame, 16-byte aligned
 *   Alignment  callers align every binding to 64 bytes, or to less if the module says so; kernels assume only that of the element type
 *   Remainders a kernel reads and writes only inside its bindings' lengths
 *
 * "ptx/1": PTX text for NVIDIA GPUs. "cubin/1": the same kernels as machine code, one ELF64 file as ptxas writes it.
 *   Targets    "sm_80": devices of compute capability 8.0 and newer. "sm_90a": only 9.0, as PTX defines targets
 *              with 'a'. As cubin, a target without 'a' runs only on the same major with the same or a higher minor
 *   Text       ends at code_bytes; one NUL at its end is allowed
 *   Entry      a `.visible .entry` of the name. One CUDA block is one workgroup: %ctaid is the workgroup, %nctaid the grid,
 *              %ntid the entry's workgroup_size
 *   Arguments  in this order: one `.param .u64` per binding, in the entry's order, its global address (0 for an empty binding); then one
 *              `.param .s64` per constant, constants_bytes / 8 of them. If the entry lists its arguments (heddle_entry_params_t.arguments),
 *              the parameters are these instead, in the order of the list, each aligned as PTX lays parameters out:
 *                BINDING     `.param .u64`: the address of binding `index`
 *                CONSTANT    `.param` of size_bytes (1, 2, 4 or 8): size_bytes bytes of the constants, from byte offset `index` on
 *                TENSOR_MAP  `.param .align 64 .b8 [128]`: a descriptor for the Tensor Memory Accelerator, made by the driver from the address
 *                            of binding `index` and the payload, a heddle_tensor_map_t
 *   Shared     `.extern .shared` memory has shared_memory_bytes; static shared memory is additional
 *   Limits     256 bindings, 2,048 bytes of constants, 4,096 bytes of arguments
 *   Alignment  buffers are aligned to 256 bytes, each binding as its module says (64 for intermediate values)
 *   Imports    none: no unresolved `.extern .func`, no textures, no surfaces. `.global` variables are allowed and are zero or as initialized
 *              when loaded; all calls share them
 *   Early      for sm_90 and newer targets, every thread executes `griddepcontrol.wait` before it touches memory: a driver may start
 *              a kernel while the one that it depends on still runs. An entry with HEDDLE_ENTRY_IN_ORDER need not, and starts later
 *   Failure    `trap` and every memory fault lose the device (HD-S-02), so failed checks of values are stored in a binding instead
 *
 * "hsaco/1": machine code for AMD GPUs, an ELF64 shared object for the AMD HSA runtime (LLVM's AMDGPUUsage), code object version 4. No GPU has
 * run it yet, and this text may change until one has.
 *   Targets    "gfx90a", "gfx942", "gfx1100", "gfx1201". An image runs only on its own chip: a driver compares the name of the device up to
 *              the first ':'. XNACK and SRAM ECC may be on or off on the device (EF_AMDGPU_FEATURE_*_ANY_V4), or do not exist there
 *   Header     e_machine EM_AMDGPU, OS ABI ELFOSABI_AMDGPU_HSA, ABI version 2, e_type ET_DYN; EF_AMDGPU_MACH of e_flags is the target's
 *   Entry      a symbol of the name in .dynsym, with the code, and NAME.kd, the kernel descriptor of 64 bytes. One workgroup has the entry's
 *              workgroup_size, which the code relies on; only x of the grid and of the workgroup is more than 1
 *   Arguments  the kernarg segment has one 64-bit value per binding, in the entry's order, its global address (0 for an empty binding); then one
 *              per constant, constants_bytes / 8 of them; nothing else, and no hidden arguments. It starts on 64 bytes
 *   Shared     local memory is static: group_segment_fixed_size of the descriptor is shared_memory_bytes, and a launch adds none
 *   Subgroup   subgroup_size is that of a wave: 64 on gfx90a and gfx942, 32 on gfx1100 and gfx1201
 *   Private    private_segment_fixed_size bytes per thread, which the runtime provides
 *   Metadata   one note NT_AMDGPU_METADATA with all entries; their arguments, sizes and limits are those of the descriptors
 *   Limits     256 bindings, 2,048 bytes of constants, 65,536 bytes of local memory, 1,024 threads in a workgroup; the grid has fewer than
 *              2^32 threads
 *   Alignment  as for ptx/1
 *   State      the descriptor's: round to nearest even, denormals kept
 *   Imports    none: no undefined symbols, no relocations. Constants in the image are read-only; there are no variables
 *   Failure    a memory fault loses the device (HD-S-02), so failed checks of values are stored in a binding instead
 *
 * "spirv/1": a SPIR-V module for Khronos' OpenCL environments, as drivers of Level Zero take it.
 *   Targets    "spv1.0": SPIR-V 1.0, any size of subgroups. "spv1.3-sg32": SPIR-V 1.3, for subgroups of 32 whose threads exchange values
 *              (ZE_extension_subgroups), the next 32 invocations each. Either with "-dp4a": for SPV_KHR_integer_dot_product on four bytes
 *   Model      addressing Physical64, memory model OpenCL, little-endian. Capabilities: Addresses, Linkage, Kernel, Int8, Int16, Int64, Vector16,
 *              Float16Buffer, Groups, GenericPointer; also Float16, Float64 and Int64Atomics, which some devices lack and then refuse; for
 *              sg32 SubgroupDispatch, GroupNonUniform, GroupNonUniformShuffle; for dp4a DotProduct, DotProductInput4x8BitPacked
 *   Entry      an OpEntryPoint of the name, execution model Kernel. If it has a LocalSize, that is the entry's workgroup_size
 *   Arguments  in this order: one pointer to CrossWorkgroup memory per binding, in the entry's order, its address (null for an empty binding); then
 *              one 64-bit integer per constant, constants_bytes / 8 of them. If the entry lists its arguments, these instead, in the order of the
 *              list: a pointer for a BINDING, an integer of size_bytes for a CONSTANT
 *   Shared     if shared_memory_bytes is not 0, the last argument is a pointer to Workgroup memory of that many bytes, aligned to 16. Workgroup
 *              variables are additional
 *   Subgroup   subgroup_size is 0, since the driver chooses and the code does not rely on a size; for spv1.3-sg32 32, and a SubgroupSize of 32
 *   Limits     256 bindings, 2,048 bytes of constants and arguments
 *   Alignment  as for ptx/1
 *   Imports    only variables with a BuiltIn decoration; no functions
 *   Failure    a memory fault loses the device (HD-S-02), so failed checks of values are stored in a binding instead
 *
 * "portable/1": what kernels compute, for any device, without saying how: heddle/sdk/portable/code.h of the SDK, whose library reads, verifies and
 * interprets it. What is added to the format gets the id "portable/2", and so on, and an image has the lowest id that suffices. A driver that reads a
 * version reads the earlier ones, and lists them all. "portable/0" was not frozen, and nothing reads it.
 *   Targets    "generic"
 *   Entry      a kernel of the name
 *   Workgroups the grid is one workgroup of one thread, which computes everything: a device divides the work as it likes
 *   Arguments  the bindings are the kernel's inputs, its outputs, perhaps one more (Memory); constants are its symbols, of 8 bytes each
 *   Memory     workspace_bytes is 0: what a call keeps beside its tensors is in one more binding, of a multiple of 64 bytes, or where a driver likes
 *   Alignment  that of the element type
 *   Failure    a failed check of a place is the kernel's own failure; no memory is accessed outside of bindings */
#ifndef HEDDLE_CODE_H_
#define HEDDLE_CODE_H_

#include "heddle/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_CODE_X86_64_ELF "x86_64-elf/1"
#define HEDDLE_CODE_PTX "ptx/1"
#define HEDDLE_CODE_CUBIN "cubin/1"
#define HEDDLE_CODE_HSACO "hsaco/1"       /* Since ABI 0.2. */
#define HEDDLE_CODE_SPIRV "spirv/1"       /* Since ABI 0.2. */
#define HEDDLE_CODE_PORTABLE "portable/1" /* Since ABI 0.3. */

/* The first argument of a kernel. Frozen for x86_64-elf/1. */
typedef struct heddle_x86_64_dispatch {
  void* const* bindings;           /* start of each binding, in the entry's order */
  const uint64_t* binding_lengths; /* bytes */
  const int64_t* constants;        /* constants_bytes / 8 values */
  uint32_t grid[3];                /* workgroups in x, y, z */
  uint32_t binding_count;
} heddle_x86_64_dispatch_t;

/* Runs workgroups [first, last) of the grid, numbered x fastest: x + grid[0] * (y + grid[1] * z). Called concurrently for disjoint ranges.
 * workspace: workspace_bytes of the entry, aligned to 64, private to the call, contents undefined; NULL if 0. Returns 0, or a positive
 * number that the driver reports as the kernel's own failure. */
typedef int32_t (*heddle_x86_64_kernel_t)(const heddle_x86_64_dispatch_t* dispatch, uint64_t first, uint64_t last, void* workspace);

#define HEDDLE_TENSOR_MAP_RANK 5u
#define HEDDLE_TENSOR_MAP_TF32 1u     /* f32 is rounded to TF32 when it is copied */
#define HEDDLE_TENSOR_MAP_FILL_NAN 2u /* elements outside the tensor read as NaN, not 0 */

/* The payload of HEDDLE_ARGUMENT_TENSOR_MAP: a tiled view of a binding. Dimension 0 varies fastest; its stride is the element's size.
 * Extents and strides may come from the constants, so that one kernel takes tensors of any size. Frozen for ptx/1 and cubin/1. */
typedef struct heddle_tensor_map {
  heddle_element_type_t element_type;
  uint32_t rank;               /* 1 to 5 */
  uint32_t swizzle_bytes;      /* 0, 32, 64 or 128 */
  uint32_t l2_promotion_bytes; /* 0, 64, 128 or 256 */
  uint32_t flags;              /* bits HEDDLE_TENSOR_MAP_* */
  uint32_t box[5];             /* elements of one copy, each at most 256 */
  uint32_t element_strides[5]; /* 1 to 8 */
  int32_t dim_constant[5];     /* index of the constant (of 8 bytes) with the extent; -1: dims has it */
  int32_t stride_constant[4];  /* the same for the stride of dimension i + 1; -1: strides has it */
  uint64_t dims[5];            /* elements */
  uint64_t strides[4];         /* bytes from one index of dimension i + 1 to the next, a multiple of 16 */
} heddle_tensor_map_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_CODE_H_ */
