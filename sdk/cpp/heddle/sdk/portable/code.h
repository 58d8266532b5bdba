// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Portable code, the format "portable/1" (HEDDLE_CODE_PORTABLE): what kernels compute, for any device. A kernel is a list of nodes, each of which makes
// tensors from tensors, element by element, by scalar expressions. Nothing says how: no loops, no order of memory, no workgroups. Made by the
// compiler; read and verified here; run by an interpreter (interpreter.h), or translated by a driver. Frozen: the numbers and the meaning of everything
// here stay as they are, and what is added is of a later version (the page portable-code.md, section Versions).
#ifndef HEDDLE_SDK_PORTABLE_CODE_H_
#define HEDDLE_SDK_PORTABLE_CODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/types.h"

namespace heddle::sdk::portable {

// Types of scalars. Integers have no sign; instructions do. Elements in memory have HEDDLE_TYPE_*: a bool is a byte, 0 or not, and an i1 here.
enum class Scalar : uint8_t { kI1, kI8, kI16, kI32, kI64, kF16, kBf16, kF32, kF64 };
inline constexpr uint32_t kScalars = 9;
inline constexpr uint32_t kBytesOfScalar[kScalars] = {1, 1, 2, 4, 8, 2, 2, 4, 8};
constexpr uint32_t bytes_of(Scalar type) {
  return kBytesOfScalar[static_cast<uint32_t>(type)];
}
constexpr uint32_t width_of(Scalar type) {  // in bits
  return type == Scalar::kI1 ? 1 : 8 * bytes_of(type);
}
constexpr bool is_float(Scalar type) {
  return type >= Scalar::kF16;
}
// Without the bits above the type's width.
constexpr uint64_t masked(Scalar type, uint64_t bits) {
  return width_of(type) == 64 ? bits : bits & ((uint64_t{1} << width_of(type)) - 1);
}
// Whether elements of the type can be in a tensor, and the scalar that they are read as.
bool scalar_of(heddle_element_type_t element, Scalar* out);

// Indices and extents: expressions over the kernel's symbols, whose values a call gives as constants, and the dimensions of a node's domain. Operands come
// earlier in the kernel's list. Arithmetic of 64 bits that wraps; quotients are rounded down (kCeilDiv: up), and by a number that is not positive they, and
// remainders, are 0.
struct Expression {
  enum Kind : uint8_t { kConstant, kDimension, kSymbol, kAdd, kMul, kFloorDiv, kCeilDiv, kMod };
  Kind kind;
  int64_t value = 0;      // the constant, or the number of the dimension or symbol
  uint32_t a = 0, b = 0;  // indices of expressions
};

struct Tensor {
  heddle_element_type_t type;
  std::vector<uint32_t> extents;  // expressions over symbols; elements are dense, in row-major order
};

// Where a node reads an element of a tensor, for an index of its domain. No place is in a tensor without elements, which reads as `outside` if the read
// has that, and as 0 if it has not.
struct Read {
  uint32_t tensor = 0;
  // An expression for each dimension of the tensor, over the dimensions of the domain and, after those, one for each of `gathers`. Such a dimension
  // stands alone: it is the element of that read, an integer; a negative one counts from the end, and one that is then still outside is clamped.
  std::vector<uint32_t> place;
  bool has_outside = false;       // places that are not in the tensor have the value below; without it, every place is inside
  uint64_t outside = 0;           // bits of the scalar; those above its width do not count, and verify() clears them
  std::vector<uint32_t> gathers;  // earlier reads of the same body, counted from its first
};

enum class Op : uint8_t {
  kConstant,  // value: bits; those above the width of the type do not count, and verify() clears them
  kExtent,    // value: an expression over symbols; i64
  // Of floats f32 and f64. kPowF, kExpF, kLogF, kTanhF, kCosF, kSinF and kErfF are within 16 units in the last place; all others give the exact result,
  // rounded to nearest even. kMaximumF and kMinimumF give NaN if an operand is one. Which NaN a result is, is open, and which of two zeros they give.
  kAddF,
  kSubF,
  kMulF,
  kDivF,
  kMaximumF,
  kMinimumF,
  kPowF,
  kNegF,
  kAbsF,
  kCeilF,
  kFloorF,
  kRoundEvenF,
  kSqrtF,
  kExpF,
  kLogF,
  kTanhF,
  kCosF,
  kSinF,
  kErfF,
  // Of integers; they wrap. A quotient is rounded toward zero, and a remainder has the sign of the first operand; both are 0 for a divisor of 0. Shifts by
  // the width or more, which is a number without sign, give 0, or for kShrSI the sign. An i1 with sign is 0 or -1.
  kAddI,
  kSubI,
  kMulI,
  kDivSI,
  kDivUI,
  kRemSI,
  kRemUI,
  kMaxSI,
  kMinSI,
  kMaxUI,
  kMinUI,
  kAndI,
  kOrI,
  kXOrI,
  kShlI,
  kShrUI,
  kShrSI,
  kCompareF,  // value: Predicate of floats; i1
  kCompareI,  // value: Predicate of integers; i1
  kSelect,    // a: i1, then the two values
  // To `type`. Floats are rounded to nearest even; whether f64 is rounded to f32 on the way to f16 or bf16 is open. Floats to integers truncate; what does
  // not fit becomes the nearest value that does, and NaN 0. To an i1, that is done for an i8, whose lowest bit it is.
  kExtF,
  kTruncF,
  kExtSI,
  kExtUI,
  kTruncI,
  kSIToF,
  kUIToF,
  kFToSI,
  kFToUI,
  kBitcast,
};
inline constexpr uint32_t kOps = static_cast<uint32_t>(Op::kBitcast) + 1;

// How many operands it has, and whether `value` means something.
constexpr uint32_t operand_count(Op op) {
  if (op <= Op::kExtent) return 0;
  if (op == Op::kSelect) return 3;
  return (op >= Op::kNegF && op <= Op::kErfF) || op > Op::kSelect ? 1 : 2;
}
constexpr bool has_value(Op op) {
  return op <= Op::kExtent || op == Op::kCompareF || op == Op::kCompareI;
}

// Predicates of kCompareF: ordered ones are false for a NaN, those with kOr true. Of kCompareI: with and without sign.
enum class Predicate : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,  // ordered; of integers with sign
  kUnordered,
  kOrdered,
  kOrEqual,
  kOrNotEqual,
  kOrLess,
  kOrLessEqual,
  kOrGreater,
  kOrGreaterEqual,  // of floats only
  kBelow,
  kBelowEqual,
  kAbove,
  kAboveEqual,  // of integers without sign
};
inline constexpr uint32_t kPredicates = static_cast<uint32_t>(Predicate::kAboveEqual) + 1;

struct Instruction {
  Op op;
  Scalar type;                   // of the result
  uint32_t a = 0, b = 0, c = 0;  // values of the body, as many as the op has operands
  uint64_t value = 0;
};

// Scalars from scalars, without branches. Values are numbered: arguments, then the results of instructions, in order.
struct Body {
  std::vector<Scalar> arguments;  // not stored: they follow from the node
  std::vector<Instruction> instructions;
  std::vector<uint32_t> yields;
};

// What a node computes. The domain has parallel dimensions, then `reduced` ones. Bodies, with their arguments: index is an i64 for each dimension of the
// whole domain, parallel one for each parallel dimension; reads are those of `reads` that belong to the body, in order.
//   kMap       body(parallel, reads) -> elements
//   kFold      init() -> accumulators; step(index, first reads, accumulators) -> accumulators; merge(two sets) -> accumulators, of the parts of the
//              reduced elements, which may be visited in any order; finish(parallel, other reads, accumulators) -> elements
//   kScan      along dimension `along`, from its end if `reverse`: init(); step(parallel, first reads, accumulators);
//              finish(parallel, other reads, accumulators before, after) -> elements. If `is_placed`, the first accumulator is an i64, which step also
//              gets as one more index
//   kContract  factors(index, first reads) -> two of type `accumulator`; their products are added up, in any order (integers wrap);
//              finish(parallel, other reads, sum) -> elements
//   kScatter   init(parallel, last reads) -> elements; then for each index of the one reduced dimension, in order: place(index, first reads) -> i64
//              along `along`, dropped if outside; step(index, second reads, elements there) -> elements that replace them
//   kSort      element(index, reads) -> keys; before(keys, keys) -> i1. The element is the index, along the reduced dimension, of the key that comes
//              after as many as the index along `along`; equal keys keep their order
//   kSieve     limit(parallel, first reads) -> i64; init(parallel, last reads) -> i1, whether an element of the line along `along` is there. In order,
//              one that is there stays, up to the limit, and removes each later one for which removes(index, second reads) -> i1 holds: the later
//              one is along `along`, the one that stays is the reduced dimension
//   kWalk      init(parallel) -> elements; then for each index of the one reduced dimension: start(index, first reads) -> place; `steps` times
//              next(index, place, second reads) -> place; then, at each index along `along`, update(index, place, other reads, elements there)
// Dimension `along` is 0 in bodies that are computed once for a line: place, step, element, limit, start and next.
enum class NodeKind : uint8_t { kMap, kFold, kScan, kContract, kScatter, kSort, kSieve, kWalk };
inline constexpr uint32_t kNodeKinds = 8;

// A reduced element counts only where 0 <= index < bound; both are expressions, the bound over symbols.
struct Within {
  uint32_t index, bound;
};

// Fields that its kind does not use are as here.
struct Node {
  NodeKind kind = NodeKind::kMap;
  std::vector<uint32_t> extents;  // of the domain: expressions over symbols
  uint32_t reduced = 0;           // dimensions, the last ones
  std::vector<Within> within;     // of kFold and kContract
  std::vector<Read> reads;
  uint32_t first_reads = 0, second_reads = 0;  // of the first and second body that has reads
  uint32_t along = 0;
  bool reverse = false, is_placed = false;
  Scalar accumulator = Scalar::kF32;
  uint64_t steps = 0;
  std::vector<Body> bodies;       // in the order above, but the init of kScatter, kSieve and kWalk is the last one
  std::vector<uint32_t> results;  // tensors; their elements are those of the parallel domain, in row-major order

  uint32_t rank() const { return static_cast<uint32_t>(extents.size()); }
  uint32_t parallel_rank() const { return rank() - reduced; }
};

// What a body gets: the number of index arguments, its reads, and whether other arguments follow.
struct BodyShape {
  uint32_t indices, first_read, end_read;
};
BodyShape shape_of(const Node& node, uint32_t body);
uint32_t body_count(NodeKind kind);

// The value of an attribute of an op; AttributeType is its index. Numbers are of 64 bits, text is the name of something, such as of a kind.
enum class AttributeType : uint8_t { kBoolean, kInteger, kFloat, kText, kIntegers, kFloats };
using AttributeValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

struct Attribute {
  std::string name;
  AttributeValue value;
  AttributeType type() const { return static_cast<AttributeType>(value.index()); }
};

// An op of the model that the kernel is made of, for drivers that have kernels of their own, and for reports: "conv", version 1, "strides" 2 and 2. A
// hint: the nodes are what counts. ops.h has the names, the attributes of each, and what they mean. An op's version is higher than before wherever its
// meaning is another, or it has an attribute that it did not have: whoever does not know the version does not know the op.
struct NamedOp {
  std::string name;
  uint32_t version = 1;
  std::vector<Attribute> attributes;  // sorted by name, each name once
  std::vector<Tensor> results;        // their element types and extents
  std::vector<uint32_t> operands;     // values: the kernel's inputs, then the results of all ops, in order; those of earlier ops only
};

// A kernel's bindings are its inputs, then its outputs; its constants are the values of its symbols, 8 bytes each. An entry may have one binding more, the
// workspace, whose contents are undefined before and after: memory for the tensors between nodes, each from the next multiple of kWorkspaceAlignment on,
// and behind these what whoever runs the kernel may use as it likes. So all this is a part of what the program plans for a call.
struct Kernel {
  std::string name;
  uint32_t symbols = 0, inputs = 0, outputs = 0;
  std::vector<Expression> expressions;
  std::vector<Tensor> tensors;  // inputs, outputs, then those between nodes
  std::vector<Node> nodes;      // each reads inputs and results of earlier nodes
  std::vector<NamedOp> ops;
  std::vector<uint32_t> named_outputs;  // the value that each output is, in row-major order; empty if that is not known
};

// Limits of a kernel; one that exceeds them is refused.
inline constexpr uint32_t kMostRank = 32;  // of a domain
inline constexpr uint32_t kMostBindings = 256;
inline constexpr uint32_t kMostSymbols = 256;
inline constexpr uint32_t kMostTensors = 4096;  // also of nodes, of the reads of one, of ops, and of the attributes of one
inline constexpr uint32_t kMostExpressions = 65536;
inline constexpr uint32_t kMostInstructions = 65536;  // of a body

inline constexpr uint64_t kWorkspaceAlignment = 64;

// Whether an entry for this kernel may have that many bindings.
inline bool takes_bindings(const Kernel& kernel, uint64_t count) {
  const uint64_t own = uint64_t{kernel.inputs} + kernel.outputs;
  return count == own || count == own + 1;
}
// The same for error texts: "3 bindings, or 4 with its workspace".
inline std::string taken_bindings(const Kernel& kernel) {
  const uint64_t own = uint64_t{kernel.inputs} + kernel.outputs;
  return std::to_string(own) + " bindings, or " + std::to_string(own + 1) + " with its workspace";
}

inline constexpr std::string_view kMagic = {"HDLPORT\0", 8};
// The newest version of the format that is read here, and the one that is written: kernels are written with the lowest version that has all they use.
inline constexpr uint32_t kVersion = 1;
inline constexpr uint64_t kNamesSection = 1;

// Kernels as bytes. Numbers are LEB128 varints, seven bits a byte, lowest first; those that may be negative are zigzag. Text is its length, then its bytes.
// An image, of every version:
//   the magic; the version, which is the highest of its kernels; their number; of each its name, as text, and its bytes, as text
// Bytes of a kernel, of every version:
//   its version; if that is above 1, as text what needs it, for readers that do not know it; all that follows is as the version has it
// Of version 1: symbols, inputs, outputs, expressions, tensors and nodes, as the page portable-code.md has them; then sections to the end, each a number,
// in rising order, and its bytes, as text. What is computed is complete without them, and a reader skips those that it does not know:
//   kNamesSection  the named ops: their number; of each its bytes, as text: name, version, attributes (number; of each its name, its type, and its value,
//                  as text), operands, and results (number; of each its type and extents); then, after the ops, named_outputs. Whatever follows in the
//                  bytes of an op or of the section, and attributes of an unknown type, are skipped
// write_kernel() gives the bytes of a kernel without its name, so that kernels can be made apart.
std::string write_kernel(const Kernel& kernel);
std::string write_image(const std::vector<std::pair<std::string_view, std::string_view>>& names_and_kernels);

// Reads and verifies all kernels. The bytes may be hostile: work and memory grow with their number only, and what is read without an error can be run.
// On failure *out_error says what is wrong, and where.
bool read_image(std::string_view bytes, std::vector<Kernel>* out, std::string* out_error);

// Part of read_image(): whether the kernel obeys all rules above. It also fills in the arguments of bodies, and clears bits that do not count.
bool verify(Kernel* kernel, std::string* out_error);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_CODE_H_
