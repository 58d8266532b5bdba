// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stored tensors as constants and parameters, and element types.
#include "compiler/import/onnx_graph.h"

#include "compiler/import/onnx_compound.h"
#include "compiler/import/onnx_narrow.h"
#include "compiler/import/specializations.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Constants up to this size are in the IR; larger ones are parameters.
constexpr uint64_t largest_dense_bytes = 64 * 1024;

std::string parameter_name(const std::string& name) {
  return StringRef(name).starts_with(tx::derived_prefix) ? "onnx." + name : name;
}

}  // namespace

Type element_type(MLIRContext* context, int64_t onnx_type, const std::string& who, bool may_be_narrow) {
  Builder builder(context);
  switch (onnx_type) {
    case onnx::TensorProto::FLOAT:
      return builder.getF32Type();
    case onnx::TensorProto::DOUBLE:
      return builder.getF64Type();
    case onnx::TensorProto::FLOAT16:
      return builder.getF16Type();
    case onnx::TensorProto::BFLOAT16:
      return builder.getBF16Type();
    case onnx::TensorProto::BOOL:
      return builder.getI1Type();
    case onnx::TensorProto::INT8:
      return builder.getIntegerType(8);
    case onnx::TensorProto::UINT8:
      return builder.getIntegerType(8, false);
    case onnx::TensorProto::INT16:
      return builder.getIntegerType(16);
    case onnx::TensorProto::UINT16:
      return builder.getIntegerType(16, false);
    case onnx::TensorProto::INT32:
      return builder.getI32Type();
    case onnx::TensorProto::UINT32:
      return builder.getIntegerType(32, false);
    case onnx::TensorProto::INT64:
      return builder.getI64Type();
    case onnx::TensorProto::UINT64:
      return builder.getIntegerType(64, false);
    default: {
      const auto number = static_cast<int32_t>(onnx_type);
      const std::string_view narrow = number == onnx_type ? narrow_name(number) : std::string_view();
      if (may_be_narrow && !narrow.empty()) return tx::NarrowType::get(context, StringRef(narrow));
      const std::string name = number == onnx_type ? element_type_name(number) : std::to_string(onnx_type),
                        cause = "element type " + name + " is not supported";
      throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "onnx: importing " + who + " failed: " + cause, cause, name,
                    number == onnx_type ? nearest_element_type(number) : ""};
    }
  }
}

DenseElementsAttr known_elements(Value value) {
  auto constant = value.getDefiningOp<tx::ConstantOp>();
  return constant ? llvm::dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
}

// Scales, zero points and quantized constants, which belong to the weights whatever their rank.
void Graph::find_quantized() {
  for (const auto& node : file->model.graph().node()) {
    if (!node.domain().empty() && node.domain() != default_domain) continue;
    if (node.op_type() != "QuantizeLinear" && node.op_type() != "DequantizeLinear") continue;
    quantized_.insert(node.input().begin(), node.input().end());
  }
}

bool Graph::is_weight(const onnx::TensorProto& tensor, const std::string& name) const {
  if (llvm::is_contained(tensor.dims(), 0)) return false;
  if (quantized_.contains(name)) return true;
  if (tensor.dims_size() == 0) return false;
  switch (tensor.data_type()) {
    case onnx::TensorProto::COMPLEX64:
    case onnx::TensorProto::COMPLEX128:
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::DOUBLE:
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
      return true;
    default:
      return !narrow_name(tensor.data_type()).empty();
  }
}

void Graph::need_elements(Value value) {
  if (!names_weights()) return;
  SmallVector<Value> open{value};
  llvm::SmallPtrSet<Operation*, 16> seen;
  std::set<std::string> found;
  while (!open.empty()) {
    Operation* op = open.pop_back_val().getDefiningOp();
    if (!op || op->getNumRegions() != 0) return;  // it depends on inputs of the model, so its elements are never known
    if (!seen.insert(op).second) continue;
    llvm::append_range(open, op->getOperands());
    auto parameter = llvm::dyn_cast<tx::ParameterOp>(op);
    if (!parameter || tx::byte_size(tx::tensor(parameter.getResult())) > largest_dense_bytes) continue;
    auto left = left_.find(op);
    found.insert(left == left_.end() ? parameter.getName().str() : parameter_name(left->second.name));
  }
  structure_.merge(found);
}

bool Graph::is_zero(Value value) const {
  if (DenseElementsAttr known = known_elements(value)) {
    return llvm::all_of(known.getValues<APInt>(), [](const APInt& element) { return element.isZero(); });
  }
  auto parameter = value.getDefiningOp<tx::ParameterOp>();
  if (!parameter) return false;
  std::vector<char> data(tx::byte_size(tx::tensor(value)));
  auto is_all_zero = [&] { return llvm::all_of(data, [](char byte) { return byte == 0; }); };
  if (auto left = left_.find(parameter); left != left_.end()) {
    std::string error = read_tensor(*file, *left->second.tensor, 0, data.size(), data.data());
    if (error.empty()) return is_all_zero();
    throw Failure{HEDDLE_STATUS_DATA_LOSS, "onnx: reading tensor '" + left->second.name + "' failed: " + error +
                                               "; the compiler has to know whether a zero point is 0, so the model has to have its value"};
  }
  std::string error = parameters.find(parameter.getName().str())->second.read(0, data.size(), data.data());
  if (!error.empty()) throw Failure{HEDDLE_STATUS_DATA_LOSS, error};
  return is_all_zero();
}

void Graph::take_as_symmetric(Value value) {
  auto left = left_.find(value.getDefiningOp());
  if (left == left_.end()) return;
  const std::string& name = left->second.name;
  const ParameterFiles::Match* match = files->find(name);
  if (match->is_named) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT,
                  "onnx: taking tensor '" + name + "' from '" + match->path +
                      "' failed: the model's zero point is 0, so its quantization is symmetric for every file; remove its --param-name, or "
                      "export the model with a zero point that is not 0"};
  }
  if (!symmetric_.insert(name).second) return;
  files->note_kept({name, tx::byte_size(tx::tensor(value)), /*is_parameter=*/false, /*is_expected_of_file=*/true,
                    "the model's zero point is 0, so quantization is symmetric"});
}

std::string Graph::why_known(const onnx::TensorProto& tensor, const std::string& name) const {
  if (structure_.contains(parameter_name(name))) return "a shape or an attribute depends on them";
  if (tensor.dims_size() == 0) return "it is a scalar, with which formulas are simplified";
  return "it is a small tensor of integers or bools, such as a shape or indices";
}

Value Graph::leave_to_file(const onnx::TensorProto& tensor, const std::string& name, const ParameterFiles::Match& match,
                           RankedTensorType type, Location location) {
  const std::string cause = files->refuse(name, match, tx::element_type_code(type.getElementType()), type.getShape());
  if (!cause.empty()) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: taking tensor '" + name + "' from " +
                                                      (match.path.empty() ? "a file" : "'" + match.path + "'") + " failed: " + cause};
  }
  files->note_taken(match);
  auto stored = RankedTensorType::get(ParameterFiles::stored_dims(match, type.getShape()), type.getElementType());
  auto blocks = match.entry->block ? builder.getStringAttr(match.entry->block->name) : StringAttr();
  auto parameter =
      builder.create<tx::ParameterOp>(location, stored, builder.getStringAttr(match.name), builder.getStringAttr(match.scope), blocks);
  left_[parameter] = {name, &tensor};
  if (!match.is_transposed) return parameter;
  return builder.create<tx::TransposeOp>(location, type, parameter, SmallVector<int64_t>{1, 0});
}

Value Graph::narrow_constant(RankedTensorType type, ArrayRef<char> bytes, Location location) {
  const tx::NarrowFormat& format = *tx::narrow_format(type.getElementType());
  RankedTensorType stored = tx::with_element_type(type, tx::stored_type(format, builder.getContext()));
  SmallVector<APInt> elements;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    const unsigned at = static_cast<unsigned>(i) % format.per_byte() * format.bits();
    const auto byte = static_cast<unsigned char>(bytes[static_cast<size_t>(i) / format.per_byte()]);
    const APInt element(format.bits(), (static_cast<uint64_t>(byte) >> at) & ((1u << format.bits()) - 1));
    elements.push_back(format.is_unsigned() ? element.zext(8) : element.sext(8));
  }
  Value integers = builder.create<tx::ConstantOp>(location, stored, DenseElementsAttr::get(stored, elements));
  return builder.create<tx::StoredOp>(location, type, integers);
}

double number_of(Attribute element, bool without_sign) {
  if (auto number = llvm::dyn_cast<FloatAttr>(element)) return number.getValueAsDouble();
  APInt bits = llvm::cast<IntegerAttr>(element).getValue();
  return without_sign ? static_cast<double>(bits.getZExtValue()) : static_cast<double>(bits.getSExtValue());
}

// Two nodes may have one name, and their parameters must not.
std::string Graph::unique_parameter(const std::string& base) {
  std::string unique = base;
  while (parameters.count(unique)) unique = base + "#" + std::to_string(++copies_.try_emplace(base, 1).first->second);
  return unique;
}

Value Graph::made_tensor(RankedTensorType type, std::vector<char> bytes, const std::string& name, Location location) {
  if (bytes.size() <= largest_dense_bytes)
    return builder.create<tx::ConstantOp>(location, type, DenseElementsAttr::getFromRawBuffer(type, bytes));
  const std::string unique = unique_parameter(parameter_name(name));
  auto held = std::make_shared<std::vector<char>>(std::move(bytes));
  parameters[unique] = {type, [held, unique](uint64_t offset, uint64_t size, char* target) -> std::string {
                          if (offset > held->size() || size > held->size() - offset)
                            return "onnx: reading tensor '" + unique + "' failed: it has " + std::to_string(held->size()) + " bytes";
                          std::memcpy(target, held->data() + offset, size);
                          return {};
                        }};
  return builder.create<tx::ParameterOp>(location, type, builder.getStringAttr(unique), StringAttr());
}

Operand Graph::import_tensor(const onnx::TensorProto& tensor, const std::string& name, Location location, bool is_attribute,
                             const std::string& reader) {
  const std::string of = reader.empty() ? "" : " of " + reader, who = "tensor '" + name + "'" + of;
  const bool is_complex = is_compound(tensor.data_type()) && tensor.data_type() != onnx::TensorProto::STRING;
  Type type = is_complex ? number_type(builder.getContext(), tensor.data_type())
                         : element_type(builder.getContext(), tensor.data_type(), who, /*may_be_narrow=*/true);
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  if (is_complex) shape.push_back(2);
  Extents extents;
  for (int64_t dim : shape) extents.push_back(builder.getAffineConstantExpr(dim));
  if (std::string cause = refuse_extents(extents); !cause.empty()) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + who + " failed: " + cause};
  }
  auto ranked = RankedTensorType::get(shape, type);
  const uint64_t bytes = tx::byte_size(ranked);  // at most 2^45 elements of 8 bytes
  if (std::string cause = refuse_excess(tensor, bytes); !cause.empty())
    throw Failure{HEDDLE_STATUS_DATA_LOSS, "onnx: importing " + who + " failed: " + cause};
  Operand operand;
  if (is_complex) operand.refused_type = tensor.data_type();
  const std::string base = parameter_name(name);
  const bool is_large = bytes > largest_dense_bytes;
  const bool may_be_outside = !is_attribute && is_weight(tensor, name) && !structure_.contains(base);
  const bool is_outside = is_large || (all_weights && may_be_outside);
  const ParameterFiles::Match* match = files && !is_attribute ? files->find(name) : nullptr;
  if (match && (is_large || may_be_outside)) {
    operand.value = leave_to_file(tensor, name, *match, ranked, location);
    return operand;
  }
  const std::string why = match ? why_known(tensor, name) : "";
  if (match && match->is_named) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: taking tensor '" + name + "' from '" + match->path +
                                                      "' failed: the compiler has to know its values, because " + why +
                                                      "; remove its --param-name, so that those of the model are used"};
  }
  if (is_outside) {
    std::shared_ptr<OnnxFile> keep = file;
    const std::string unique = unique_parameter(base);
    parameters[unique] = {ranked, [keep, &tensor, unique, of](uint64_t offset, uint64_t size, char* target) -> std::string {
                            std::string error = read_tensor(*keep, tensor, offset, size, target);
                            if (error.empty()) return error;
                            return "onnx: reading tensor '" + unique + "'" + of + " of '" + keep->path + "' failed: " + error +
                                   "; copy or export the model again, with all of its files";
                          }};
    operand.value = builder.create<tx::ParameterOp>(location, ranked, builder.getStringAttr(unique), StringAttr());
    if (files) files->note_kept({unique, bytes, /*is_parameter=*/true, llvm::isa<FloatType>(type), ""});
    return operand;
  }
  std::vector<char> data(bytes);
  std::string error = read_tensor(*file, tensor, 0, bytes, data.data());
  if (!error.empty()) {
    if (match) error += "; the compiler has to know its values, because " + why + ", so the model has to have them";
    if (files && !match && !is_attribute) error += files->advice(name);
    throw Failure{HEDDLE_STATUS_DATA_LOSS, "onnx: importing " + who + " failed: " + error};
  }
  if (files && (match || may_be_outside)) files->note_kept({name, bytes, /*is_parameter=*/false, llvm::isa<FloatType>(type), why});
  if (tx::narrow_format(type)) {
    operand.value = narrow_constant(ranked, data, location);
    return operand;
  }
  DenseElementsAttr value;
  if (type.isInteger(1)) {
    SmallVector<bool> flags(data.begin(), data.end());
    value = DenseElementsAttr::get(ranked, flags);
  } else {
    value = DenseElementsAttr::getFromRawBuffer(ranked, data);
  }
  operand.value = builder.create<tx::ConstantOp>(location, ranked, value);
  bool is_shape_like = type.isInteger(64) || type.isInteger(32) || type.isInteger(1);
  if (is_shape_like && ranked.getRank() <= 1 && ranked.getNumElements() <= static_cast<int64_t>(most_shape_elements)) {
    operand.elements.emplace();
    operand.rank = ranked.getRank();
    operand.bits = type.isUnsignedInteger() ? 0 : type.getIntOrFloatBitWidth();
    for (const APInt& element : value.getValues<APInt>()) {
      bool is_unsigned = type.isUnsignedInteger() || type.isInteger(1);
      if (is_unsigned && element.getActiveBits() > 63) {  // not a shape's
        operand.elements.reset();
        break;
      }
      operand.elements->push_back(
          builder.getAffineConstantExpr(is_unsigned ? static_cast<int64_t>(element.getZExtValue()) : element.getSExtValue()));
    }
  }
  return operand;
}

std::optional<int64_t> Graph::stated_length(const std::string& name) const {
  return specializations ? specializations->length_of(name) : std::nullopt;
}

std::optional<bool> Graph::stated_presence(const std::string& name) const {
  return specializations ? specializations->presence_of(name) : std::nullopt;
}

}  // namespace heddle::import
