// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of narrow element types, and the verifiers of their ops.
#include "compiler/ir/narrow.h"

#include "heddle/types.h"
#include "llvm/ADT/STLExtras.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"

#include "narrow_dialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "narrow_types.cpp.inc"
#define GET_OP_CLASSES
#include "narrow_ops.cpp.inc"

using namespace mlir;

namespace heddle::tx {
namespace {

constexpr NarrowFormat formats[] = {
    {"f8e4m3", HEDDLE_TYPE_F8E4M3, 4, 3, 7, 0x7E, 0, 0x7F, false},
    {"f8e4m3fnuz", HEDDLE_TYPE_F8E4M3FNUZ, 4, 3, 8, 0x7F, 0, 0x80, true},
    {"f8e5m2", HEDDLE_TYPE_F8E5M2, 5, 2, 15, 0x7B, 0x7C, 0x7E, false},
    {"f8e5m2fnuz", HEDDLE_TYPE_F8E5M2FNUZ, 5, 2, 16, 0x7F, 0, 0x80, true},
    {"f8e8m0", HEDDLE_TYPE_F8E8M0, 8, 0, 127, 0xFE, 0, 0xFF, false},
    {"f4e2m1", HEDDLE_TYPE_F4E2M1, 2, 1, 1, 0x7, 0, 0, false},
    {"i4", HEDDLE_TYPE_I4, 0, 0, 0, 0, 0, 0, false},
    {"u4", HEDDLE_TYPE_U4, 0, 0, 0, 0, 0, 0, false},
    {"i2", HEDDLE_TYPE_I2, 0, 0, 0, 0, 0, 0, false},
    {"u2", HEDDLE_TYPE_U2, 0, 0, 0, 0, 0, 0, false},
};

LogicalResult verify_conversion(Operation* op, Value narrow, Value wide, StringRef format) {
  const NarrowFormat* known = narrow_format(format);
  if (!known || !known->is_float()) return op->emitOpError("has no format of floats: ") << format;
  if (element_of(narrow) != stored_type(*known, op->getContext()) || !element_of(wide).isF32() ||
      extents(tensor(narrow)) != extents(tensor(wide)))
    return op->emitOpError("converts between ui8 and f32 of one shape");
  return success();
}

}  // namespace

void NarrowDialect::initialize() {
  addTypes<NarrowType>();
}

const NarrowFormat* narrow_format(StringRef name) {
  auto found = llvm::find_if(formats, [&](const NarrowFormat& format) { return format.name == name; });
  return found == std::end(formats) ? nullptr : found;
}

const NarrowFormat* narrow_format(Type element) {
  auto narrow = llvm::dyn_cast<NarrowType>(element);
  return narrow ? narrow_format(narrow.getName()) : nullptr;
}

IntegerType stored_type(const NarrowFormat& format, MLIRContext* context) {
  return IntegerType::get(context, 8, format.is_unsigned() ? IntegerType::Unsigned : IntegerType::Signless);
}

RankedTensorType packed_type(RankedTensorType narrow) {
  const NarrowFormat& format = *narrow_format(narrow.getElementType());
  Type byte = IntegerType::get(narrow.getContext(), 8, IntegerType::Unsigned);
  if (format.per_byte() == 1) return with_element_type(narrow, byte);
  AffineExpr bytes = (element_count(narrow) + (format.per_byte() - 1)).floorDiv(format.per_byte());
  return tensor_type(SmallVector<AffineExpr>{bytes}, byte);
}

std::optional<Nibbles> Nibbles::named(StringRef name) {
  Nibbles known;
  if (!block_type(name) || !name.consume_front("u4x") || name.consumeInteger(10, known.elements)) return std::nullopt;
  known.has_halves = name.consume_front("h");
  known.has_zeros = name.consume_front("z");
  return known;
}

std::string Nibbles::name() const {
  return "u4x" + std::to_string(elements) + (has_halves ? "h" : "") + (has_zeros ? "z" : "");
}

RankedTensorType declared_type(Type type, DictionaryAttr attributes) {
  auto narrow = attributes ? attributes.getAs<TypeAttr>(narrow_attr) : TypeAttr();
  return llvm::cast<RankedTensorType>(narrow ? narrow.getValue() : type);
}

LogicalResult NarrowType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef name) {
  if (narrow_format(name)) return success();
  return emitError() << "there is no narrow type '" << name << "'";
}

LogicalResult StoredOp::verify() {
  const NarrowFormat *from = narrow_format(element_of(getInput())), *to = narrow_format(element_of(getResult()));
  const bool is_one = static_cast<bool>(from) != static_cast<bool>(to);
  if (!is_one || element_of(from ? getResult() : getInput()) != stored_type(from ? *from : *to, getContext()) ||
      extents(tensor(getInput())) != extents(tensor(getResult())))
    return emitOpError("has a narrow type and the type that it is stored as, of one shape");
  return success();
}

LogicalResult PackedOp::verify() {
  if (!narrow_format(element_of(getInput())) || tensor(getResult()) != packed_type(tensor(getInput())))
    return emitOpError("makes ") << getType() << " of " << getInput().getType() << ", not the bytes of a narrow type";
  return success();
}

LogicalResult DequantizeOp::verify() {
  RankedTensorType bytes = tensor(getInput()), result = tensor(getResult());
  const auto axis = static_cast<int64_t>(getAxis()), block = static_cast<int64_t>(getBlock());
  if (bytes.getRank() != 2 || !bytes.hasStaticShape() || !bytes.getElementType().isUnsignedInteger(8) || result.getRank() != 2 ||
      !result.hasStaticShape() || !result.getElementType().isF32())
    return emitOpError("makes ") << result << " of " << bytes << ", not a matrix of f32 of one of ui8";
  if (result.getDimSize(0) != bytes.getDimSize(0) || result.getDimSize(1) % 2 != 0 || result.getDimSize(1) / 2 != bytes.getDimSize(1))
    return emitOpError("makes ") << result << " of " << bytes << ", which does not have two elements in each byte";
  if (axis < 0 || axis > 1 || block < 16 || !llvm::isPowerOf2_64(static_cast<uint64_t>(block)) || result.getDimSize(axis) % block != 0)
    return emitOpError("has blocks of ") << block << " elements along axis " << axis << " of " << result;
  SmallVector<int64_t> blocks(result.getShape());
  blocks[static_cast<size_t>(axis)] /= block;
  auto is_float = [](Type type) { return type.isF32() || type.isF16() || type.isBF16(); };
  if (tensor(getScales()).getShape() != ArrayRef(blocks) || !is_float(element_of(getScales())))
    return emitOpError("has scales of ") << tensor(getScales()) << ", not one float for each block";
  if (!getZeros()) return success();
  Type zero = element_of(getZeros());
  const bool is_own = getIsSigned() ? zero.isSignlessInteger(8) : zero.isUnsignedInteger(8);
  if (tensor(getZeros()).getShape() != ArrayRef(blocks) || !(is_float(zero) || is_own))
    return emitOpError("has zeros of ") << tensor(getZeros()) << ", not one float or integer for each block";
  return success();
}

LogicalResult DecodeFloatOp::verify() {
  return verify_conversion(*this, getInput(), getResult(), getFormat());
}

LogicalResult EncodeFloatOp::verify() {
  if (auto round = getRound(); round && *round != "nearest" && *round != "up" && *round != "down")
    return emitOpError("rounds by nearest, up or down, not ") << *round;
  return verify_conversion(*this, getResult(), getInput(), getFormat());
}

}  // namespace heddle::tx
