/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The compiler as a library: a model file in, a .heddle file out. Exported by libheddle_compiler, which needs LLVM; the runtime
 * never loads it. Used by `heddle compile` and by language bindings. */
#ifndef HEDDLE_COMPILER_H_
#define HEDDLE_COMPILER_H_

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_COMPILE_NO_CACHE 1u /* all code is made anew, and none is kept */

typedef struct heddle_compile_params {
  uint32_t struct_size;
  uint32_t threads;                /* of the compiler; 0: all cores */
  heddle_string_t input_path;      /* .onnx, or .mlir in the tx dialect */
  heddle_string_t output_path;     /* appears only when it is complete */
  heddle_string_t targets;         /* comma separated: "cpu" (x86-64-v3 and v4), "cpu:x86-64-v3"; empty: "cpu" */
  heddle_string_t parameters_path; /* .safetensors to write parameters to; empty: into the module */
  heddle_string_t dump_after;      /* pass name; its IR goes to dump_path */
  heddle_string_t dump_path;
  heddle_string_t report_path;     /* JSON: fusion decisions, kernels, resources, times; empty: none */
  heddle_string_t reproducer_path; /* where a failing pass leaves its input; empty: nowhere */
  /* Called now and then with what is done; returning 0 goes on, anything else cancels with CANCELLED. May be NULL. [callback] */
  uint32_t (*progress)(void* context, heddle_string_t stage, uint32_t done, uint32_t total);
  void* context;
  /* NVIDIA's assembler, a path or a name on PATH: targets of cuda get machine code beside PTX, so that a driver need not translate it; empty: PTX
   * alone. UNAVAILABLE if it does not run or refuses. */
  heddle_string_t ptxas;
  /* What runs where: "PATTERN=@slot", a glob over names of nodes; "op:PATTERN=@slot" over operators, "input:" and "output:" over those of
   * the model. Of several that fit, the last decides; the rest is on the slot "default". One that fits nothing is INVALID_ARGUMENT. */
  uint32_t placement_count;
  uint32_t slot_count;
  const heddle_string_t* placements;
  const heddle_string_t* slots;  /* "@slot=family": the slot is for devices of that family, whatever the others are for */
  heddle_string_t affinity_path; /* text: where every op's operands and results are, and what decided it; empty: none */
  /* What kernels may do to floats. "strict": products and sums in the operands' type or a wider one; "fast": on CUDA, products of f32 round
   * their operands to TF32 (10 bits of mantissa) for the tensor cores, sums stay f32; on the CPU nothing changes. "default" or empty: strict. */
  heddle_string_t math;
  /* Manifests of library plugins, or folders of some: their [[operator]] tables say what operators of foreign domains take and give. The plugins
   * themselves are not needed. Since ABI 0.2. */
  uint32_t operator_count;
  uint32_t flags; /* HEDDLE_COMPILE_* */
  const heddle_string_t* operators;
  /* Where code of kernels is kept, so that it need not be made again: a folder that is the user's alone; empty: $XDG_CACHE_HOME/heddle/kernels or
   * ~/.cache/heddle/kernels. Several processes may use it; it holds some 256 MiB, and may be removed at any time. What it cannot do is
   * no error. Since ABI 0.2. */
  heddle_string_t cache_path;
  /* Which plans of kernels were the fastest where `heddle tune` wrote this file; empty: the best by estimate. What it says of other kernels is passed
   * over. Since ABI 0.2. */
  heddle_string_t tuned_path;
} heddle_compile_params_t;

/* Compiles. UNIMPLEMENTED names operator, node and opset; the same input and parameters give the same bytes. On failure no
 * output file is left. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_compile(const heddle_compile_params_t* params);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_COMPILER_H_ */
