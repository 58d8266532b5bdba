// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph of PyTorch's ATen operators while it is translated to tx: the values made so far, and what the translation of an operator needs. Used only by
// the aten_*.cpp files of this directory; errors are thrown as Failure and caught in aten_importer.cpp.
//
// Text of an operator: "aten.add.Tensor"(%0, %1) {operands = ["self", "other"], alpha = 1} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>.
// `operands` has the name that the operator's schema gives to each operand; members of a list are "tensors.0", "tensors.1" and so on. An argument that
// is None is not there. Numbers, bools, texts and lists of them are attributes; a number that depends on symbols is a text, such as "2*s0 + 1".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/mlir_text.h"
#include "compiler/import/onnx_arithmetic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::import::aten {

using mlir::AffineExpr;
using mlir::Type;
using mlir::Value;

class Op;
using Translate = void (*)(Op&);
// The table of one subject: operator with its overload, such as "aten.add.Tensor", to translation.
using Table = std::map<std::string, Translate, std::less<>>;
const Table& elementwise_ops();
const Table& binary_ops();
const Table& shape_ops();
const Table& creation_ops();
const Table& reduction_ops();
const Table& linear_ops();
const Table& pooling_ops();
const Table& indexing_ops();
const Table& scatter_ops();
const Table& normalization_ops();
// Null if no table has it.
Translate find_translation(llvm::StringRef name);
// Operators that have a translation, sorted.
std::vector<std::string> known_ops();

// An argument that may be a tensor or a number.
struct Term {
  Value value{};             // null for a number
  mlir::Attribute number{};  // a bool, an integer or a float
};

// An expression of symbols: names, whole numbers, + - *, floordiv, mod and parentheses. Null if the text is something else, if `symbol` gives null for a
// name, or if a number in it is out of range.
AffineExpr read_expression(llvm::StringRef text, mlir::MLIRContext* context, llvm::function_ref<AffineExpr(llvm::StringRef name)> symbol);

class Program {
 public:
  explicit Program(Graph& graph) : graph(graph), builder(graph.builder) {}

  Graph& graph;
  mlir::OpBuilder& builder;
  llvm::DenseMap<Value, Value> values;        // of the source, and what they became
  std::vector<std::string> unsupported;       // "'aten.x' at 'node': cause"
  std::map<std::string, AffineExpr> symbols;  // by name, as meant inside

  // Translates the op. What it does not support is noted in `unsupported`; its results are then zeros, so that the translation can go on.
  void translate(mlir::Operation& source);
  // The type of elements; throws for types that are not supported.
  Type element_type(Type type, const std::string& who) const;
  // The extents that the type and the attribute, a list of numbers and expressions, state. Throws if they do not fit.
  Extents stated_extents(mlir::RankedTensorType type, mlir::Attribute extents, const std::string& who) const;
  AffineExpr expression(mlir::Attribute attribute) const;  // null if it is none
};

class Op {
 public:
  Op(Program& program, mlir::Operation& source, mlir::Location location, Node& node)
      : program(program), builder(program.builder), node(node), m(node), source_(source), location_(location) {}

  Program& program;
  mlir::OpBuilder& builder;
  Node& node;
  const Arithmetic m;

  mlir::Operation& source() const { return source_; }
  mlir::Location location() const { return location_; }
  std::string name() const { return source_.getName().getStringRef().str(); }
  std::string describe() const;  // "'aten.add.Tensor' at 'add_1'"

  // ------------------------------------------------------------------------------------------------------- arguments
  bool has(llvm::StringRef name) const;        // a tensor, or an attribute
  Value optional(llvm::StringRef name) const;  // a tensor; null if it is not there
  Value tensor(llvm::StringRef name) const;    // throws if it is not there
  // A list of tensors, with null for those that are None.
  llvm::SmallVector<Value> tensors(llvm::StringRef name) const;
  Term term(llvm::StringRef name) const;  // throws if it is not there
  mlir::Attribute attribute(llvm::StringRef name) const { return source_.getAttr(name); }
  double number(llvm::StringRef name, std::optional<double> otherwise = {}) const;
  int64_t integer(llvm::StringRef name, std::optional<int64_t> otherwise = {}) const;
  bool flag(llvm::StringRef name, bool otherwise = false) const;
  std::string word(llvm::StringRef name, const std::string& otherwise) const;
  std::vector<int64_t> integers(llvm::StringRef name, std::optional<std::vector<int64_t>> otherwise = {}) const;
  // Numbers, some of which may depend on symbols.
  std::vector<AffineExpr> expressions(llvm::StringRef name) const;
  AffineExpr expression(llvm::StringRef name, std::optional<int64_t> otherwise = {}) const;
  // A dimension of a tensor of that rank; a number is one of rank 1.
  int64_t dimension(int64_t given, int64_t rank) const;
  // Sorted, each once. Without any, or with an empty list, all dimensions.
  llvm::SmallVector<int64_t> dimensions(llvm::StringRef name, int64_t rank, bool empty_is_all = true) const;

  // -------------------------------------------------------------------------------------------------------- results
  unsigned result_count() const { return source_.getNumResults(); }
  bool wants(unsigned index) const { return index < source_.getNumResults() && !source_.getResult(index).use_empty(); }
  Extents result_extents(unsigned index = 0) const;
  Type result_element(unsigned index = 0) const;
  mlir::RankedTensorType result_type(unsigned index = 0) const { return node.tensor_type(result_extents(index), result_element(index)); }
  // Elements are converted to the type that is declared.
  void set(Value value, unsigned index = 0);

  [[noreturn]] void fail(const std::string& cause, heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT) const;
  [[noreturn]] void unsupported(const std::string& cause) const { fail(cause, HEDDLE_STATUS_UNIMPLEMENTED); }

  // ------------------------------------------------------------------------------------------------------------ ops
  static mlir::RankedTensorType type_of(Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }
  static Extents extents_of(Value value) { return tx::extents(type_of(value)); }
  static int64_t rank_of(Value value) { return type_of(value).getRank(); }
  static Type element_of(Value value) { return type_of(value).getElementType(); }
  static bool is_float(Type type) { return llvm::isa<mlir::FloatType>(type); }
  AffineExpr constant(int64_t value) const { return builder.getAffineConstantExpr(value); }
  int64_t extent(Value value, int64_t dimension) const;  // a static one; throws for others

  template <typename OpT, typename... Args>
  Value make(mlir::RankedTensorType type, Args&&... args) {
    return builder.create<OpT>(location_, type, std::forward<Args>(args)...);
  }
  template <typename OpT>
  Value unary(Value a) {
    return make<OpT>(type_of(a), a);
  }
  // As Tensor.to(dtype): floats are cut off to integers, and bools are what is not 0.
  Value converted(Value value, Type element);
  // Floats of 16 bits as f32, integers and bools as `f32`, or the type of the result if that is f64; other floats as they are.
  Value computing(Value value);
  Value is_true(Value value);                                                  // elements that are not 0, as bools
  Value negated(Value value);                                                  // of bools
  Value flags(Value value) { return converted(value, builder.getI32Type()); }  // of bools
  // The elements' type after promotion, as torch.result_type.
  Type promoted(llvm::ArrayRef<Term> terms) const;
  // A term in that type; a number becomes a tensor of rank 0.
  Value value_of(const Term& term, Type element);
  // Terms of one type, and with the extents that they broadcast to.
  llvm::SmallVector<Value> alike(llvm::ArrayRef<Term> terms, Type element);
  // Reduced along the dimensions; they stay with an extent of 1 if `keep`.
  Value reduced(tx::ReduceKind kind, Value value, llvm::ArrayRef<int64_t> axes, bool keep);
  Value without(Value value, llvm::ArrayRef<int64_t> axes);  // extents of 1
  Value slice(Value value, int64_t dimension, AffineExpr start, AffineExpr end, int64_t step = 1);
  // `count` elements of a dimension from `start` on, as the given extent. A call in which the operand has fewer is refused.
  Value part(Value value, int64_t dimension, int64_t start, AffineExpr count);
  // Numbers as an operand that ONNX's operators read at compile time.
  static Operand known(llvm::ArrayRef<AffineExpr> values, int64_t rank = 1);
  Operand known(llvm::ArrayRef<int64_t> values, int64_t rank = 1) const;
  // Results of an operator of ONNX (main_function.h). A null value is an input that is left out.
  std::vector<Value> by_onnx(const std::string& type, llvm::ArrayRef<Operand> inputs, int outputs = 1,
                             llvm::function_ref<void(onnx::NodeProto&)> attributes = {});
  Value one_by_onnx(const std::string& type, llvm::ArrayRef<Value> inputs);

 private:
  friend class Program;
  mlir::Operation& source_;
  mlir::Location location_;
  std::vector<Value> results_;
};

}  // namespace heddle::import::aten
