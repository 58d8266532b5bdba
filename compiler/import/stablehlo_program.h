// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A StableHLO program while it is translated to tx: the values made so far, and what the translation of an op needs. Used only by the
// stablehlo_*.cpp files of this directory; errors are thrown as Failure and caught in stablehlo_importer.cpp. Tensors of integers that extents are
// computed from, symbols, and translations of ONNX operators with the same meaning are those of onnx_graph.h.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/mlir_text.h"
#include "compiler/import/onnx_graph.h"
#include "compiler/import/stablehlo_attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::import::stablehlo {

// The value of an operand or a result.
struct Data {
  // One tensor; of complex numbers two, the real and the imaginary parts; none for a token, a tuple, and integers of which only `elements` are set.
  llvm::SmallVector<mlir::Value, 2> parts;
  // Of integers or bools (0 or 1) of rank 0 or 1, at most most_shape_elements, that are known or follow from extents.
  std::optional<std::vector<mlir::AffineExpr>> elements{};
  int64_t rank = 0;                                  // of `elements`
  std::shared_ptr<const std::vector<Data>> tuple{};  // its members

  bool is_complex() const { return parts.size() == 2; }
};

// The values of a block. What it does not define is looked up outside. In a block that is applied to each element of tensors, all values have the
// extents `lead` in front of their own.
struct Scope {
  const Scope* outside = nullptr;
  Extents lead{};
  llvm::DenseMap<mlir::Value, Data> values{};
};

class Op;
using Translate = void (*)(Op&);
// What a translation can do:
enum Can : unsigned {
  kEach = 1,  // works on each element, so it can be part of a block that is applied to each element of tensors
  kByParts =
      2,  // moves elements: it is translated once for the real and once for the imaginary parts of complex numbers, and knows narrow types
  kComplex = 4,  // reads complex operands by Op::data
  kNarrow = 8,   // knows narrow types; for others, they are widened before and narrowed after
};
struct Entry {
  Translate translate;
  unsigned can;
};
// The table of one subject: op, by its full name, to translation.
using Table = std::map<std::string, Entry, std::less<>>;
const Table& bit_ops();
const Table& elementwise_ops();
const Table& shape_ops();
const Table& contraction_ops();
const Table& reduction_ops();
const Table& indexing_ops();
const Table& control_ops();
const Table& dynamic_ops();
const Table& linear_algebra_ops();
const Table& random_ops();
const Table& batch_norm_ops();
// Null if no table has it.
const Entry* find_entry(llvm::StringRef name);

class Program {
 public:
  Program(Graph& graph, mlir::ModuleOp source) : graph(graph), builder(graph.builder), source(source), functions_(source) {}

  Graph& graph;
  mlir::OpBuilder& builder;  // inserts where the translation is
  mlir::ModuleOp source;
  int64_t parts = 0;  // functions made for branches and loops so far, for their names

  // Throws if the function, with others in place of their calls, has too many ops. The time is that of reading the program once.
  void check_size(mlir::func::FuncOp entry) const;
  // Translates the block's ops at the insertion point; `scope` gets its values. Returns the operands of its terminator.
  std::vector<Data> translate(mlir::Block& block, llvm::ArrayRef<Data> arguments, Scope& scope);
  // The same for the function of that name. `from` calls it.
  std::vector<Data> call(const Op& from, llvm::StringRef name, llvm::ArrayRef<Data> arguments);
  // Applies the region to each element of the arguments, which have the extents `lead` in front of those that the region declares.
  std::vector<Data> apply(const Op& from, mlir::Region& region, llvm::ArrayRef<Data> arguments, llvm::ArrayRef<mlir::AffineExpr> lead);

  // The type of elements in tx; of complex numbers, that of their parts. Throws for types that are not supported.
  mlir::Type element_type(mlir::Type type, const std::string& who) const;

 private:
  friend class Op;
  void translate_op(mlir::Operation& source, Scope& scope);
  void check_made(Op& op, mlir::Operation* before);
  [[noreturn]] void refuse_size() const;
  int64_t count_ops(mlir::func::FuncOp function, llvm::DenseMap<mlir::Operation*, int64_t>& known, int depth) const;

  mlir::SymbolTable functions_;
  int64_t translated_ = 0;          // ops
  int depth_ = 0;                   // of calls and regions
  std::vector<std::string> calls_;  // the functions that are being translated, outermost first
};

// One op: operands, attributes and results. Throws if something is missing or of the wrong kind.
class Op {
 public:
  Op(Program& program, mlir::Operation& source, Scope& scope, mlir::Location location, Node& node)
      : program(program), builder(program.builder), node(node), source_(source), scope_(scope), location_(location) {}

  Program& program;
  mlir::OpBuilder& builder;
  Node& node;  // for what onnx_*.h have: Arithmetic, Integers

  mlir::Operation& source() const { return source_; }
  mlir::Location location() const { return location_; }
  Scope& scope() const { return scope_; }
  // Extents in front of those that the program states, in a block that is applied to each element.
  llvm::ArrayRef<mlir::AffineExpr> lead() const { return scope_.lead; }
  std::string name() const { return source_.getName().getStringRef().str(); }
  // "'stablehlo.add' at model.mlir:12:10"
  std::string describe() const;

  // ------------------------------------------------------------------------------------------------------- operands
  unsigned input_count() const { return source_.getNumOperands(); }
  const Data& data(unsigned index) const;
  // A tensor. With kByParts, the part of complex numbers that is being translated.
  mlir::Value input(unsigned index);
  static mlir::RankedTensorType type_of(mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }
  static Extents extents_of(mlir::Value value) { return tx::extents(type_of(value)); }
  static int64_t rank_of(mlir::Value value) { return type_of(value).getRank(); }
  // A static extent; throws for others.
  int64_t extent(mlir::Value value, int64_t dimension) const;
  std::vector<int64_t> static_extents(mlir::Value value) const;
  // Elements of an integer operand that are known when the program is compiled.
  std::optional<std::vector<int64_t>> known_integers(unsigned index) const;
  // Fails unless the op has so many operands, results and regions.
  void expect(unsigned operands, unsigned results = 1, unsigned regions = 0) const;

  // ----------------------------------------------------------------------------------------------------- attributes
  mlir::Attribute attribute(llvm::StringRef name) const;  // null if it is not there
  int64_t integer(llvm::StringRef name, std::optional<int64_t> otherwise = {}) const;
  // Of any form that lists of integers or bools have had.
  std::vector<int64_t> integers(llvm::StringRef name, std::optional<std::vector<int64_t>> otherwise = {}) const;
  std::string word(llvm::StringRef name, const std::string& otherwise) const;
  bool flag(llvm::StringRef name) const;

  // -------------------------------------------------------------------------------------------------------- results
  // The type that the program declares for a result, with the lead. Dynamic extents become those of `like`, if it is given and has the same rank;
  // throws for others.
  mlir::RankedTensorType result_type(unsigned index = 0, mlir::Value like = {}) const;
  mlir::Type result_element(unsigned index = 0) const;
  void set_result(mlir::Value value, unsigned index = 0);
  void set_data(Data data, unsigned index = 0);
  void set_elements(std::vector<mlir::AffineExpr> elements, int64_t rank, unsigned index = 0);

  [[noreturn]] void fail(const std::string& cause, heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT) const;
  [[noreturn]] void unsupported(const std::string& cause) const { fail(cause, HEDDLE_STATUS_UNIMPLEMENTED); }

  // ------------------------------------------------------------------------------------------------------------ ops
  template <typename OpT, typename... Args>
  mlir::Value make(mlir::RankedTensorType type, Args&&... args) {
    return builder.create<OpT>(location_, type, std::forward<Args>(args)...);
  }
  mlir::Value splat(mlir::RankedTensorType type, double value) { return node.splat(type, value); }
  mlir::Value number(mlir::Value like, double value) { return node.splat(type_of(like), value); }
  mlir::Value converted(mlir::Value value, mlir::Type element);  // as stablehlo.convert, narrow types included
  mlir::Value widened(mlir::Value value);                        // of a narrow type: in one that kernels compute in
  mlir::Type widened_type(mlir::Type element) const;
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents) { return node.reshape(value, extents); }
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> extents);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation) { return node.transpose(value, permutation); }
  // The value's dimension i becomes dimension dimensions[i], which rise.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents, llvm::ArrayRef<int64_t> dimensions);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> dimensions);
  // Elements start, start + stride, .. below limit along one dimension. The stride may be negative.
  mlir::Value slice(mlir::Value value, int64_t dimension, int64_t start, int64_t limit, int64_t stride = 1);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> values, int64_t dimension);
  mlir::Value iota(llvm::ArrayRef<int64_t> extents, int64_t dimension, mlir::Type element);
  mlir::Value integers_constant(llvm::ArrayRef<int64_t> values, mlir::Type element);  // a vector
  template <typename OpT>
  mlir::Value binary(mlir::Value a, mlir::Value b) {
    return make<OpT>(type_of(a), a, b);
  }
  mlir::Value compare(tx::CompareKind kind, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  // Results of an operator of ONNX's default domain, newest opset, that has a table of its own (onnx_graph.h).
  std::vector<mlir::Value> by_onnx(const std::string& type, llvm::ArrayRef<Operand> inputs, int outputs = 1,
                                   llvm::function_ref<void(onnx::NodeProto&)> attributes = {});

 private:
  friend class Program;
  Program& program_() const { return program; }
  mlir::Operation& source_;
  Scope& scope_;
  mlir::Location location_;
  std::vector<Data> results_;
  std::vector<Data> inputs_;
  int part_ = 0;  // of complex numbers, with kByParts
};

// "tensor<2x3xf32>"
std::string text_of(mlir::Type type);

// The constant of an op stablehlo.constant, and the like.
Data constant(Op& op, mlir::ElementsAttr value);

// A value with low and high elements of `filler`, a scalar, around it along the dimension, or without as many where they are negative, and with as many
// between each two as `interior` says.
mlir::Value padded(Op& op, mlir::Value value, mlir::Value filler, int64_t dimension, int64_t low, int64_t high, int64_t interior = 0);

// How two values become one in the body of a reduction, a window or a scatter.
enum class Combine { add, mul, min, max, land, lor, lxor };
// Nothing if the region's result `index` is something else. `count`: how many values are combined; the arguments are as many of the first kind, then of the second.
std::optional<Combine> combination(mlir::Region& region, unsigned index = 0, unsigned count = 1);
// The two values combined, element by element.
mlir::Value combined(Op& op, Combine kind, mlir::Value a, mlir::Value b);

// The operand with padding along a dimension that is data: i64 of rank 0 for the elements in front, which may be negative, and those between two
// elements. The result has this extent.
mlir::Value padded_by(Op& op, mlir::Value x, mlir::Value filler, int64_t dimension, mlir::Value low, mlir::Value interior,
                      mlir::AffineExpr extent);

// Folds an op on integers that extents follow from (Data::elements), and true; else false.
bool fold_extents(Op& op);

}  // namespace heddle::import::stablehlo
