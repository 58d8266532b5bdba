/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* heddle.target/1, the interface of compiler targets: libraries that translate parts of a model into code of a vendor's own format while the model is
 * compiled. Implemented by plugins of kind HEDDLE_PLUGIN_TARGET. The compiler never loads them itself: it starts heddle-target-host, a process with limits,
 * which calls the functions below and answers over a pipe. The runtime never loads them either; a driver loads the code. Since ABI 0.3.
 *
 * Glossary
 *   target     a name for --target, and the family of the devices whose programs get the code: "acme"
 *   graph      the computing ops of one function that are on slots of this family, after all passes that every device shares
 *   node       an op of the graph: its name, and a kernel of portable code ("portable/1", heddle/sdk/portable/code.h), which says what it computes
 *   group      the nodes that the compiler would make one kernel of, if no node was claimed
 *   claim      nodes that the plugin wants to be one kernel in its own format. They are convex: no path between two of them has a node, or
 *              anything else, that is not claimed with them. What no claim has is compiled to portable code
 *   symbol     an extent that a call decides. Symbols are numbered alike in the whole function; their values are a kernel's constants
 *
 * Course of a compilation
 *   open -> claim, for each function -> emit, for each different claimed kernel -> inspect, of each code that was emitted -> close. After a crash, a hang
 *   or a malformed answer, the host starts a new process, opens the plugin again and goes on with the next claim; the one that failed becomes portable
 *   code, with a warning. So calls must not depend on earlier ones, except on open, and the same arguments must give the same answers: the
 *   same model and options give the same file.
 *
 * What the host checks
 *   of claims    that nodes exist and are claimed once, and that claims are convex
 *   of code      the format, the size (64 MiB at most, or what the user allows), names of entries, expressions, guards, and that bindings, constants,
 *                threads and memory of each entry agree with the kernel, with the limits in the manifest, and with what `inspect` reads from the code
 *
 * Formats
 *   The id of a format is NAME/VERSION. A plugin returns formats whose name is that of its target, or begins with it and '-', '_' or '.': target "acme"
 *   owns "acme/1" and "acme-elf/2". Others need a flag of the user (HEDDLE_COMPILE_FOREIGN_FORMATS).
 *
 * Limits of version 1
 *   Grids and workgroups have one dimension. The code of a claim is one executable of the module; the code of several claims is not linked. Results have
 *   memory of their own. No node has work that differs from call to call other than by extents. */
#ifndef HEDDLE_TARGET_H_
#define HEDDLE_TARGET_H_

#include "heddle/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_TARGET_INTERFACE "heddle.target/1"

/* An open target: the plugin's state for one compilation. */
typedef struct heddle_target heddle_target_t;

/* Kinds of expressions over symbols, in 64 bits that wrap, with the numbers and the meaning of portable code: quotients are rounded down
 * (CEIL_DIVIDE: up), and by a number that is not positive they, and remainders, are 0. 1 is not used. */
#define HEDDLE_TARGET_CONSTANT 0u /* value */
#define HEDDLE_TARGET_SYMBOL 2u   /* the symbol of the number `value` */
#define HEDDLE_TARGET_ADD 3u      /* of the expressions a and b, which come earlier in the list; likewise below */
#define HEDDLE_TARGET_MULTIPLY 4u
#define HEDDLE_TARGET_FLOOR_DIVIDE 5u
#define HEDDLE_TARGET_CEIL_DIVIDE 6u
#define HEDDLE_TARGET_MODULO 7u

/* Frozen. */
typedef struct heddle_target_expression {
  uint32_t kind; /* HEDDLE_TARGET_* */
  uint32_t a;
  uint32_t b;
  uint32_t reserved;
  int64_t value;
} heddle_target_expression_t;

/* Arguments of open; borrowed for the call. */
typedef struct heddle_target_params {
  uint32_t struct_size;
  uint32_t fact_count;
  heddle_string_t name;         /* as in --target, without the level */
  heddle_string_t level;        /* what follows ':' in --target; empty: none */
  const heddle_option_t* facts; /* the table [facts] of the manifest, sorted by name: what is known of the machine */
  uint64_t fact_stride;         /* bytes from one to the next (HD-E-04), as all strides below */
  uint32_t fast_math;           /* 1: products may round their operands (heddle_compile_params_t.math) */
  uint32_t reserved;
} heddle_target_params_t;

/* Bits of a value. */
#define HEDDLE_TARGET_VALUE_KNOWN 1u  /* its elements are known when the model is loaded: a weight, or computed from weights */
#define HEDDLE_TARGET_VALUE_LEAVES 2u /* read by something that is no node of the graph, such as the function's result */

/* A tensor of the graph: dense, row-major. */
typedef struct heddle_target_value {
  uint32_t struct_size;
  heddle_element_type_t element_type;
  uint32_t rank;
  uint32_t flags;          /* HEDDLE_TARGET_VALUE_* */
  const uint32_t* extents; /* an expression of the graph for each dimension */
} heddle_target_value_t;

typedef struct heddle_target_node {
  uint32_t struct_size;
  uint32_t kernel;          /* its kernel: the number in the graph's code, in which equal kernels are once */
  heddle_string_t name;     /* of the op: "conv", "matmul", "add". A hint; the kernel is what counts, and has the op's attributes */
  heddle_string_t location; /* of the model's node, for texts; may be empty */
  const uint32_t* inputs;   /* values, in the order of the kernel's bindings */
  const uint32_t* outputs;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t group; /* 0 to group_count - 1 */
  uint32_t reserved;
} heddle_target_node_t;

/* Nodes are in an order in which each comes after those that it reads. Borrowed for the call. */
typedef struct heddle_target_graph {
  uint32_t struct_size;
  uint32_t symbol_count;
  heddle_string_t function; /* its name */
  heddle_string_t code;     /* portable code: the kernels of all nodes, each with symbol_count symbols */
  const heddle_target_expression_t* expressions;
  const heddle_target_value_t* values;
  const heddle_target_node_t* nodes;
  uint64_t value_stride;
  uint64_t node_stride;
  uint32_t expression_count;
  uint32_t value_count;
  uint32_t node_count;
  uint32_t group_count;
} heddle_target_graph_t;

/* Nodes that are to become one kernel. */
typedef struct heddle_target_claim {
  uint32_t struct_size;
  uint32_t node_count;
  const uint32_t* nodes;  /* at least one, each once, and in no other claim */
  heddle_string_t name;   /* what it is, for reports, 1 to 64 printable bytes: "acme.gemm" */
  heddle_string_t reason; /* one line for reports: why, or how; may be empty */
  uint64_t cost_ns;       /* estimate of one call; 0: unknown */
} heddle_target_claim_t;

/* Why a node is not claimed. */
typedef struct heddle_target_refusal {
  uint32_t struct_size;
  uint32_t node;
  heddle_string_t reason; /* one line */
} heddle_target_refusal_t;

/* What claim answers. Arrays and texts belong to the target, and are valid until the next call with it. */
typedef struct heddle_target_answer {
  uint32_t struct_size;
  uint32_t claim_count;
  const heddle_target_claim_t* claims;
  const heddle_target_refusal_t* refusals; /* of any nodes; need not be complete */
  uint64_t claim_stride;
  uint64_t refusal_stride;
  uint32_t refusal_count;
  uint32_t reserved;
} heddle_target_answer_t;

/* A claimed kernel that is to be translated. Claims whose kernels are equal are one. Borrowed for the call. */
typedef struct heddle_target_kernel {
  uint32_t struct_size;
  uint32_t symbol_count;
  heddle_string_t name;  /* unique in the module: letters, digits and '_'; that of an entry is the same, or begins with it and '_' */
  heddle_string_t claim; /* the name that the claim has */
  heddle_string_t code;  /* portable code of one kernel: all nodes of the claim, joined where one reads another */
  uint32_t input_count;  /* its bindings, inputs first: an entry of the code that is emitted has the same */
  uint32_t output_count;
} heddle_target_kernel_t;

/* A condition on a call: min <= expression <= max. Frozen. */
typedef struct heddle_target_guard {
  uint32_t expression;
  uint32_t reserved;
  int64_t min;
  int64_t max;
} heddle_target_guard_t;

/* An entry of emitted code, with its resource record, by which the runtime refuses devices that have less. */
typedef struct heddle_target_entry {
  uint32_t struct_size;
  uint32_t guard_count;
  heddle_string_t name; /* that of the kernel, or that and '_' and more letters, digits and '_'; unique in the code */
  /* A call takes the first entry all of whose guards hold, and portable code if there is none. Only the last entry may be without. */
  const heddle_target_guard_t* guards;
  /* Number of workgroups, an expression; at least 1 in every call in which a result has elements. 0: nothing runs. If it is more than the device's
   * max_workgroup_count[0] (driver.h), a call takes the next entry whose guards hold, or portable code if the last entry has guards; if there is neither,
   * the call fails with OUT_OF_RANGE. More than 2^32 - 1 or less than 0 fails in any case. */
  uint32_t workgroups;
  uint32_t workgroup_size;  /* threads; 1 for devices without */
  uint32_t subgroup_size;   /* that the code relies on; 0: none */
  uint32_t binding_count;   /* as many as the kernel has */
  uint32_t constants_bytes; /* 8 for each symbol */
  uint32_t reserved;
  uint64_t shared_memory_bytes; /* of one workgroup */
  uint64_t workspace_bytes;     /* of one call */
  uint64_t cost_ns;             /* estimate of one workgroup; 0: unknown */
} heddle_target_entry_t;

/* What emit and inspect answer. Arrays and texts belong to the target, and are valid until the next call with it. */
typedef struct heddle_target_code {
  uint32_t struct_size;
  uint32_t entry_count;
  heddle_string_t format; /* "acme-elf/1" */
  heddle_string_t target; /* within the format, for the driver's rank: "v2" */
  heddle_string_t bytes;
  const heddle_target_expression_t* expressions;
  const heddle_target_entry_t* entries; /* in order of preference */
  uint64_t entry_stride;
  uint32_t expression_count;
  uint32_t reserved;
  heddle_string_t note; /* one line for reports: the tile that was chosen; may be empty */
} heddle_target_code_t;

typedef struct heddle_target_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* owned by the caller: close it before the instance is shut down. INVALID_ARGUMENT for facts or levels that it cannot use, with what it expects.
   * [any] [may-block] */
  heddle_status_t* (*open)(heddle_plugin_instance_t* instance, const heddle_target_params_t* params, heddle_target_t** out_target);
  /* NULL does nothing. [serial:target] */
  void (*close)(heddle_target_t* target);
  /* Which nodes it takes. A status fails the whole function, which becomes portable code then. [serial:target] [may-block] */
  heddle_status_t* (*claim)(heddle_target_t* target, const heddle_target_graph_t* graph, heddle_target_answer_t* out_answer);
  /* The code of a claimed kernel. UNIMPLEMENTED, with a reason, gives the claim back: it becomes portable code without a warning. Any other
   * status does so with one. [serial:target] [may-block] */
  heddle_status_t* (*emit)(heddle_target_t* target, const heddle_target_kernel_t* kernel, heddle_target_code_t* out_code);
  /* What is in code, read as a driver would: `code` has format, target and bytes; the answer has these entries, in any order, with everything but
   * guards, workgroups and costs, which are 0. The host calls it in another process than emit, compares, and refuses code whose entries are
   * missing or need other than was said. NULL: the host relies on emit. [serial:target] [may-block] */
  heddle_status_t* (*inspect)(heddle_target_t* target, const heddle_target_code_t* code, heddle_target_code_t* out_code);
} heddle_target_interface_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_TARGET_H_ */
