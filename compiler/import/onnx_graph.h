// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph while it is translated from ONNX to tx: the values made so far, and helpers for the translation of a node. Used only by the onnx_*.cpp
// files of this directory; errors are thrown as Failure and caught in onnx_importer.cpp.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/onnx_extents.h"
#include "compiler/import/onnx_file.h"
#include "compiler/import/onnx_importer.h"
#include "compiler/import/onnx_symbols.h"
#include "mlir/IR/Builders.h"

namespace heddle::import {

using Extents = llvm::SmallVector<mlir::AffineExpr>;

struct Sequence;        // onnx_collections.h
struct Map;             // likewise
class Specializations;  // specializations.h

// Whether a value is an optional, and if so, whether it has a value.
enum class Optional { kNo, kPresent, kAbsent };

// The value of a name. Small tensors of integers or bools carry their elements, so that shapes can be computed here.
struct Operand {
  mlir::Value value;                                      // null if only `elements` is set
  std::optional<std::vector<mlir::AffineExpr>> elements;  // of a tensor of rank 0 to 2, at most most_shape_elements; a bool is 0 or 1
  int64_t rank = 0;                                       // of `elements`
  std::optional<int32_t> refused_type{};                  // ONNX's number of the element type, if it is not supported; with a value,
                                                          // its elements are compound (onnx_compound.h), which only some operators know
  unsigned bits = 64;                                     // width of the integers in `elements`; 1 for bools, 0 for unsigned ones
  int64_t columns = 0;                                    // of `elements` of rank 2
  bool is_assumed = false;                     // computed from the result of an unsupported node, with the type that the model states
  bool is_unknown = false;                     // the same, and the model does not state the type
  std::shared_ptr<const Sequence> sequence{};  // of a sequence, and of an optional one; `value` and `elements` are then not set
  std::shared_ptr<const Map> map{};            // of a map; the same
  Optional optional = Optional::kNo;

  bool is_tensor() const { return !sequence && !map && optional == Optional::kNo; }
  bool is_compound() const { return refused_type && value; }
  // Whether a computation on elements may replace one on the tensor.
  bool is_folded() const { return elements && bits != 0 && rank < 2; }
  bool is_matrix() const { return elements && rank == 2; }
  // The same for integers.
  bool is_shape() const { return is_folded() && bits != 1; }
  // A tensor; of compound elements if ONNX's number of their type is given.
  static Operand of(mlir::Value value, std::optional<int32_t> compound) {
    Operand operand{value, {}, 0};
    operand.refused_type = compound;
    return operand;
  }
};

// What a node expects of integers (onnx_checks.h). Without an extent, they are divisors.
struct Expected {
  mlir::Value value;
  std::optional<int64_t> column;  // of the last dimension
  mlir::AffineExpr extent;
  std::string where;
};
// The check that this became: the verdict has to stay below the limit.
struct Check {
  mlir::Value verdict;
  mlir::AffineExpr limit;
  bool is_index;
  mlir::Location location;
  std::string where;
};

class Graph {
 public:
  Graph(mlir::OpBuilder& builder, tx::ParameterStore& parameters, Meanings& meanings, std::shared_ptr<OnnxFile> file, bool all_weights,
        ParameterFiles* files)
      : builder(builder),
        parameters(parameters),
        file(std::move(file)),
        all_weights(all_weights),
        files(files),
        symbols(builder.getContext(), meanings),
        structure_(meanings.structure) {
    if (names_weights()) find_quantized();
  }

  mlir::OpBuilder& builder;
  tx::ParameterStore& parameters;
  std::shared_ptr<OnnxFile> file;
  int64_t opset = 0;  // of the default domain, as the current node means it
  const bool all_weights;
  ParameterFiles* const files;  // null if no weight is left to a file
  std::map<std::string, Operand> operands;
  Symbols symbols;
  Specializations* specializations = nullptr;  // null if there are none
  std::vector<Expected> expected;              // by the current node
  std::vector<Check> checks;
  std::vector<Failure> unsupported;  // attributes and outputs of the current node
  mlir::Value calls;                 // how many calls there were, an i64 of rank 0; null if no node needs it (onnx_random.h)
  int64_t random_nodes = 0;          // that need it
  llvm::DenseMap<mlir::Value, std::pair<int64_t, int64_t>> ranges;  // of integers, as far as they were computed

  // A tensor of the file as a value: dense, splat or parameter, depending on its size and on whether it is a weight. An attribute is none.
  // `reader`: the node that reads it, for errors; may be empty.
  Operand import_tensor(const onnx::TensorProto& tensor, const std::string& name, mlir::Location location, bool is_attribute = false,
                        const std::string& reader = {});
  // How many elements the sequence has in all calls that the model is compiled for, and whether the optional has a value, if that was stated.
  std::optional<int64_t> stated_length(const std::string& name) const;
  std::optional<bool> stated_presence(const std::string& name) const;
  // A tensor that the importer made, from the row-major bytes of its elements: a constant, or a parameter if it is large.
  mlir::Value made_tensor(mlir::RankedTensorType type, std::vector<char> bytes, const std::string& name, mlir::Location location);
  // Whether some weights, or all, are parameters whatever their size, by the names that they have in the model.
  bool names_weights() const { return all_weights || files; }
  // The translation of a node needs the elements of this value: stored tensors that it is computed from are in the IR from the next import on.
  void need_elements(mlir::Value value);
  // Whether the value is a stored tensor of zeros.
  bool is_zero(mlir::Value value) const;
  // The value is a zero point of zeros that is not used. Notes, or refuses, that a file has another one.
  void take_as_symmetric(mlir::Value value);

 private:
  void find_quantized();
  std::string unique_parameter(const std::string& base);
  bool is_weight(const onnx::TensorProto& tensor, const std::string& name) const;
  // A constant of the IR of a narrow type, from its packed bytes.
  mlir::Value narrow_constant(mlir::RankedTensorType type, llvm::ArrayRef<char> bytes, mlir::Location location);
  // Why the elements of a tensor have to be known, although a file has the tensor.
  std::string why_known(const onnx::TensorProto& tensor, const std::string& name) const;
  // The tensor of a file in place of one of the model.
  mlir::Value leave_to_file(const onnx::TensorProto& tensor, const std::string& name, const ParameterFiles::Match& match,
                            mlir::RankedTensorType type, mlir::Location location);

  // A tensor of the model that is left to a file.
  struct Left {
    std::string name;
    const onnx::TensorProto* tensor;
  };
  std::map<std::string, int64_t> copies_;  // number of parameters with a name
  llvm::DenseMap<mlir::Operation*, Left> left_;
  std::set<std::string>& structure_;
  std::set<std::string> symmetric_;  // names of zero points that files have, and that are not used
  std::set<std::string> quantized_;  // names of inputs of QuantizeLinear and DequantizeLinear
};

// What reads the outputs of a graph, as if it were a node's operator.
inline constexpr const char* outputs_operator = "graph output";

// "[n,4]", with the names of symbols.
std::string shape_text(llvm::ArrayRef<mlir::AffineExpr> extents, const std::vector<std::string>& symbols);

// "node 'x' (operator Conv, opset 17)"
std::string described(const onnx::NodeProto& node, int64_t opset);

// The element type for ONNX's enumeration; throws for one that tx has no type for, and for narrow ones unless they are accepted.
mlir::Type element_type(mlir::MLIRContext* context, int64_t onnx_type, const std::string& who, bool may_be_narrow = false);

// The elements of a constant that is in the IR; null for any other value.
mlir::DenseElementsAttr known_elements(mlir::Value value);
// One of them as a number.
double number_of(mlir::Attribute element, bool without_sign = false);

// One node: operands, attributes and results by ONNX's names. Throws if something is missing or of the wrong kind.
class Node {
 public:
  Node(Graph& graph, const onnx::NodeProto& proto, mlir::Location location)
      : graph(graph), builder(graph.builder), proto_(proto), location_(location) {}

  Graph& graph;
  mlir::OpBuilder& builder;

  mlir::Location location() const { return location_; }
  int64_t opset() const { return graph.opset; }
  const std::string& type() const { return proto_.op_type(); }
  int input_count() const { return proto_.input_size(); }
  int output_count() const { return proto_.output_size(); }
  bool has_input(int index) const { return index < proto_.input_size() && !proto_.input(index).empty(); }
  bool wants_output(int index) const { return index < proto_.output_size() && !proto_.output(index).empty(); }
  const std::string& output(int index) const;      // fails for one that the node does not have
  const std::string& input_name(int index) const;  // the same; also for one that is left out

  const Operand& any_operand(int index) const;  // also a sequence or an optional
  const Operand& operand(int index) const;      // a tensor; throws for other values
  mlir::Value input(int index);                 // as a tensor
  mlir::Value value_of(const Operand& tensor);  // the same for an operand
  bool is_compound(int index) const;            // a tensor whose elements are strings or complex numbers (onnx_compound.h)
  bool is_text(int index) const;
  mlir::Value text(int index) const;                        // strings, as onnx_text.h has them
  std::vector<mlir::AffineExpr> elements(int index) const;  // of a shape-like input
  std::vector<int64_t> integers(int index) const;           // the same, if all are known

  bool has_attribute(const char* name) const { return find(name) != nullptr; }
  int64_t integer(const char* name, std::optional<int64_t> otherwise = {}) const;
  double number(const char* name, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> integer_list(const char* name, std::optional<std::vector<int64_t>> otherwise = {}) const;
  std::vector<double> number_list(const char* name) const;
  std::vector<std::string> text_list(const char* name) const;
  const onnx::TensorProto* tensor(const char* name) const;
  const onnx::GraphProto& subgraph(const char* name) const;

  void set_result(mlir::Value value, int index = 0);
  void set_text(mlir::Value value, int index = 0);
  void set_operand(Operand operand, int index = 0);
  void set_elements(std::vector<mlir::AffineExpr> elements, int64_t rank, unsigned bits = 64, int index = 0);
  // Computes on elements, with numpy's broadcasting, if all inputs have them and those from input `first` on have one type. `bits` is the width of
  // the result, or 0 for that of the inputs. False if an input has no elements or a result is null: the result is then computed on tensors.
  bool fold(llvm::function_ref<mlir::AffineExpr(llvm::ArrayRef<mlir::AffineExpr>)> compute, unsigned bits = 0, int first = 0);

  [[noreturn]] void fail(const std::string& cause, heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT) const;
  // The same for inputs that do not fit together: also states their types.
  [[noreturn]] void refuse_inputs(const std::string& cause) const;
  // Records an attribute or an output that is not supported, whatever the inputs are, and continues, so that all such problems of the node are
  // recorded. The ops made afterwards are never used.
  void unsupported(const std::string& cause, const std::string& nearest = {}) const;
  std::string describe() const { return described(proto_, graph.opset); }

  template <typename OpT, typename... Args>
  mlir::Value make(mlir::RankedTensorType type, Args&&... args) {
    return builder.create<OpT>(location_, type, std::forward<Args>(args)...);
  }
  static mlir::RankedTensorType type_of(mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }
  static Extents extents_of(mlir::Value value) { return tx::extents(type_of(value)); }
  int64_t axis(int64_t value, int64_t rank) const;  // negative ones count from the end
  // The type of a result; throws if no tensor can have these extents.
  mlir::RankedTensorType tensor_type(llvm::ArrayRef<mlir::AffineExpr> extents, mlir::Type element_type) const;
  // The number of elements for these extents.
  mlir::AffineExpr count_of(llvm::ArrayRef<mlir::AffineExpr> extents) const;
  // An image has a batch, channels and one or more spatial dimensions.
  void check_image(mlir::Value value) const;
  // An extent that onnx_extents.h computed; throws for null.
  mlir::AffineExpr computed(mlir::AffineExpr extent) const;
  // Whether two extents are or may be equal. If they may be, they are taken to be from here on, and a call in which they are not is refused.
  bool are_equal(mlir::AffineExpr a, mlir::AffineExpr b);
  // The tensor with extents that are equal to its own, as are_equal defines it.
  mlir::Value with_extents(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents);
  mlir::Value splat(mlir::RankedTensorType type, double value);
  // The tensor with elements converted to that type.
  mlir::Value converted(mlir::Value value, mlir::Type element);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  // numpy's broadcasting to the given extents, made explicit
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents);
  // Repeats, along each dimension, every element `counts` times, or the whole sequence as often.
  mlir::Value repeat(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> counts, bool elements);
  // The number that an extent has when the model runs: a tensor of rank 0, of i64.
  mlir::Value extent_value(mlir::AffineExpr extent);
  // The numbers that expressions have when the model runs: a vector of i64.
  mlir::Value numbers(llvm::ArrayRef<mlir::AffineExpr> expressions);
  // Tensors one behind the other along the axis; throws if their ranks or other extents differ.
  mlir::Value concatenated(llvm::SmallVector<mlir::Value> inputs, int64_t axis);
  // [N, C, spatial...] <-> [N, spatial..., C]
  mlir::Value channels_last(mlir::Value value);
  mlir::Value channels_first(mlir::Value value);

 private:
  const onnx::AttributeProto* find(const char* name) const;
  mlir::Value from_elements(const Operand& operand);
  mlir::Value symbolic_element(mlir::AffineExpr element, mlir::RankedTensorType type);
  mlir::Value floor_quotient(mlir::Value left, mlir::Value right, bool never_negative);

  const onnx::NodeProto& proto_;
  mlir::Location location_;
};

using Translate = void (*)(Node&);
// The table of one subject: operator to translation.
using Table = std::map<std::string, Translate, std::less<>>;
const Table& attention_operators();
const Table& bit_operators();
const Table& collection_operators();
const Table& detection_operators();
const Table& einsum_operators();
const Table& elementwise_operators();
const Table& image_operators();
const Table& index_operators();
const Table& linear_operators();
const Table& loss_operators();
const Table& ngram_operators();
const Table& normalize_operators();
const Table& pooling_operators();
const Table& qlinear_operators();
const Table& quantize_operators();
const Table& random_operators();
const Table& resize_operators();
const Table& select_operators();
const Table& shape_operators();
const Table& sampling_operators();
const Table& sequence_operators();
const Table& signal_operators();
const Table& slice_operators();
const Table& text_operators();
// Of the domain ai.onnx.preview.training.
const Table& training_operators();
const Table& trigonometry_operators();
// Of the domain ai.onnx.ml:
const Table& feature_operators();
const Table& linear_model_operators();
const Table& tree_operators();

}  // namespace heddle::import
