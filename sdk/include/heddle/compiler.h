/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The compiler as a library: reads a model file and writes a .heddle file. Exported by libheddle_compiler, which needs LLVM; the runtime
 * never loads it. Used by `heddle compile` and by language bindings. */
#ifndef HEDDLE_COMPILER_H_
#define HEDDLE_COMPILER_H_

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_COMPILE_NO_CACHE 1u /* compiles all code again, and stores none */
/* Reads the values of weights that are left to files, once, and records their hashes in the module, for HEDDLE_INSTANCE_CHECK_HASHES. Since ABI 0.2. */
#define HEDDLE_COMPILE_HASH_PARAMETER_FILES 2u
/* Weights that are left to files become values when they are loaded, also those that kernels could read in the blocks of a GGUF file. The module then
 * takes any file with such tensors, and overlays and refits of another type. Since ABI 0.2. */
#define HEDDLE_COMPILE_PARAMETER_VALUES 4u
/* reproducer_path is written as soon as the model is imported, and stays whether compiling fails or not, so that it is there after a crash. Its first
 * line is "// at: STEP", the pass or stage that the compiler is at. Since ABI 0.3. */
#define HEDDLE_COMPILE_KEEP_REPRODUCER 8u
/* Plugins of kind "target" may return code of formats that their target does not own (target.h). Since ABI 0.3. */
#define HEDDLE_COMPILE_FOREIGN_FORMATS 16u

typedef struct heddle_compile_params {
  uint32_t struct_size;
  uint32_t threads;                /* of the compiler; 0: all cores */
  heddle_string_t input_path;      /* .onnx, or .mlir in the tx dialect */
  heddle_string_t output_path;     /* appears only when it is complete */
  heddle_string_t targets;         /* comma separated: "cpu" (x86-64-v3 and v4), "cuda" (sm_80 and sm_90a), "hip" (gfx90a, gfx942, gfx1100
                                      and gfx1201), "level_zero" (spv1.0, spv1.3-sg32, -dp4a), "portable", or one level of them, such as
                                      "cpu:x86-64-v3"; since ABI 0.3 also the target of a plugin; empty: "cpu" */
  heddle_string_t parameters_path; /* .safetensors to write parameters to; empty: into the module */
  heddle_string_t dump_after;      /* pass name; the IR after it goes to dump_path */
  heddle_string_t dump_path;
  heddle_string_t report_path;     /* JSON: fusion decisions, kernels, resources, times; empty: none */
  heddle_string_t reproducer_path; /* for the imported IR, if compiling fails after the import; empty: nowhere */
  /* Called with the stage ("import", "passes", "code", "write") and how many of all steps are done, first 0 and, when all files are written,
   * all; returning 0 continues, any other value before the last call cancels with CANCELLED. May be NULL. [callback] */
  uint32_t (*progress)(void* context, heddle_string_t stage, uint32_t done, uint32_t total);
  void* context;
  /* NVIDIA's assembler, a path or a name on PATH: CUDA targets get machine code in addition to PTX, so that a driver need not translate it;
   * empty: PTX only. UNAVAILABLE if it does not run or rejects the PTX. */
  heddle_string_t ptxas;
  /* What runs where: "PATTERN=@slot", a glob over names of nodes; "op:PATTERN=@slot" over operators; "input:" and "output:" over those of
   * the model. If several match, the last one decides; everything else is on the slot "default". A pattern that matches nothing is
   * INVALID_ARGUMENT. */
  uint32_t placement_count;
  uint32_t slot_count;
  const heddle_string_t* placements;
  const heddle_string_t* slots;  /* "@slot=family": code for this slot is made only for that family of the targets */
  heddle_string_t affinity_path; /* text: where every op's operands and results are, and why; empty: none */
  /* What kernels may do to floats. "strict": products and sums in the operands' type or a wider one. "fast": on CUDA, products of f32 round
   * their operands to TF32 (10 bits of mantissa) for the tensor cores, sums stay f32; on the CPU nothing changes. "fast-convolutions": the
   * same for the products of convolutions alone. "default" or empty: strict. */
  heddle_string_t math;
  /* Manifests of plugins with operators (kind "library"), or directories of such manifests: their [[operator]] tables define the inputs and
   * outputs of operators of custom domains. The plugins themselves are not needed. Since ABI 0.2. */
  uint32_t operator_count;
  uint32_t flags; /* HEDDLE_COMPILE_* */
  const heddle_string_t* operators;
  /* Where the code of kernels is kept, so that it need not be compiled again: a directory that belongs to the user alone; empty:
   * $XDG_CACHE_HOME/heddle/kernels or ~/.cache/heddle/kernels. Several processes may use it. It is kept below about 256 MiB, and may be removed at
   * any time. A failure of the cache is not an error. Since ABI 0.2. */
  heddle_string_t cache_path;
  /* A file of `heddle tune` with the fastest plans of kernels; empty: those estimated to be best. Its entries for other kernels are ignored.
   * Since ABI 0.2. */
  heddle_string_t tuned_path;
  /* Inputs that the function may overwrite, since its callers give them up (HEDDLE_TENSOR_TYPE_CONSUMED in runtime.h). "INPUT=OUTPUT": the output
   * takes the input's memory; INVALID_ARGUMENT if their types, extents or slots differ. "INPUT": an output does so if it can be computed in place;
   * otherwise, intermediate values may use the memory. An ONNX model can also name them in its metadata, by the key "heddle.alias.INPUT" with the
   * output as its value, or the key "heddle.donate.INPUT" with the value "true", "1" or none; "false" or "0" donates nothing. The same alias may be
   * given in both places. Since ABI 0.2. */
  const heddle_string_t* donations;
  uint32_t donation_count;
  uint32_t reserved;
  /* Receives warnings, one sentence each, borrowed; NULL: none. [callback]. Since ABI 0.2. */
  void (*warning)(void* context, heddle_string_t text);
  /* State, "INPUT=OUTPUT" each. The compiler removes both from the function's signature: the function reads INPUT from its state, which is zero at
   * first, and keeps OUTPUT there for the next call. INVALID_ARGUMENT if their types, extents or slots differ, or if an extent is not static. An ONNX model
   * can also name them in its metadata, by the key "heddle.state.INPUT" with the output as its value. Since ABI 0.2. */
  const heddle_string_t* states;
  uint32_t state_count;
  uint32_t reserved_2;
  /* Files that already contain weights of an ONNX model, "SCOPE=FILE" each; "=FILE" has the empty scope. A weight whose name is in such a file is
   * not stored in the module; each instance of the module then needs a file of that scope with that weight (heddle_parameter_file_t). The
   * ONNX model need not contain the weight's values. Only headers are read, except with HEDDLE_COMPILE_HASH_PARAMETER_FILES. INVALID_ARGUMENT if type or extents differ, or if two files
   * have the weight; NOT_FOUND if no tensor of a file is used. Since ABI 0.2. */
  const heddle_string_t* parameter_files;
  /* For weights whose name in the file is not that in the model: "WEIGHT=TENSOR" or "WEIGHT=SCOPE=TENSOR". With ":transposed" at the end, the
   * weight is the transposed matrix, which is computed when an instance is made. WEIGHT and TENSOR may have one '*' each, for the same text. Since ABI 0.2. */
  const heddle_string_t* parameter_names;
  uint32_t parameter_file_count;
  uint32_t parameter_name_count;
  /* A directory, created if needed, for each target's code as the module has it, MODULE.TARGET.FORMAT, such as "digits.gfx90a.hsaco"; portable code, and
   * what target plugins are asked, also as text, in files .txt. Empty: none. Since ABI 0.2. */
  heddle_string_t code_path;
  /* What an ONNX model is compiled for where its file leaves it open: "NAME=3", the sequence NAME has 3 elements; "NAME=absent" and "NAME=present", the
   * optional has no value or has one; "NAME=[n,4]", the shape of an input that states none, or of all elements of a sequence; "NAME[0]=[n,4]" of one. NAME
   * is an input, or a value that a node gives. A sequence is as many arguments or results as it has elements, named "NAME[0]", "NAME[1]" and so on; an
   * absent optional is none. INVALID_ARGUMENT if the model has no such value, or if the compiler finds that it has another form. A call in which a
   * value that is data makes it another one is refused. Since ABI 0.3. */
  const heddle_string_t* specializations;
  uint32_t specialization_count;
  /* Limits of each process that runs a target plugin: seconds for one call of the plugin; 0: 60. Since ABI 0.3, like the next ones. */
  uint32_t target_seconds;
  uint64_t target_memory_bytes; /* its address space; 0: 4 GiB */
  uint64_t target_code_bytes;   /* the code of one claim, at most; 0: 64 MiB */
  /* Manifests of plugins of kind "target" (target.h), or directories of manifests. They are looked through first for targets that are not built in, then
   * HEDDLE_PLUGIN_PATH and the directories plugins.d in which the runtime finds plugins. */
  const heddle_string_t* target_plugins;
  uint32_t target_plugin_count;
  uint32_t reserved_3;
  heddle_string_t target_host; /* the program heddle-target-host; empty: that which is installed with this library */
  /* A module to compare a target plugin's code with portable code: for each of its kernels, by the name that the report has, a function of that name, and
   * one with "_portable" behind it, with the same arguments and results. The first arguments are "symbol0" and so on, whose extents are the symbols.
   * With several targets of plugins, each has a module: "." and its name are appended to the path. Empty: none. */
  heddle_string_t target_verification;
  /* Kernels in the report whose code plugins are not asked for; they are portable code. "acme.c0_conv" is that of target acme; a name alone is that of
   * all targets of plugins. */
  const heddle_string_t* target_refused;
  uint32_t target_refused_count;
  uint32_t reserved_4;
} heddle_compile_params_t;

/* Compiles. UNIMPLEMENTED lists the operators, attributes and element types that are not supported, with nodes and opset. The same input and
 * parameters give the same bytes. On failure, neither output_path nor parameters_path is made or changed. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_compile(const heddle_compile_params_t* params);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_COMPILER_H_ */
