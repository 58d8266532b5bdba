// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tx dialect's definition: registration, verifiers, and the folds that need no pass.
#include "compiler/ir/tx.h"

#include "compiler/ir/bits.h"
#include "compiler/ir/control.h"
#include "compiler/ir/narrow.h"
#include "compiler/ir/ngrams.h"
#include "compiler/ir/parameter_store.h"
#include "compiler/ir/read.h"
#include "compiler/ir/suppress.h"
#include "compiler/ir/trees.h"
#include "heddle/types.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "tx_dialect.cpp.inc"
#include "tx_enums.cpp.inc"
#include "tx_op_interfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "tx_attrs.cpp.inc"
#define GET_OP_CLASSES
#include "tx_ops.cpp.inc"

using namespace mlir;

namespace heddle::tx {

void TxDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tx_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tx_ops.cpp.inc"
      >();
  addOperations<BitAndOp, BitCastOp, BitOrOp, BitXorOp, DecodeFloatOp, DequantizeOp, EncodeFloatOp, IfOp, LoopOp, PackedOp, RandomBitsOp,
                NgramsOp, ReadOp, StoredOp, SuppressOp, TreesOp>();
  getContext()->loadDialect<NarrowDialect>();
}

std::string describe(Operation* op) {
  std::string text = op->getName().getStringRef().str();
  if (auto name = llvm::dyn_cast<NameLoc>(op->getLoc())) text += " '" + name.getName().str() + "'";
  return text;
}

SmallVector<AffineExpr> extents(RankedTensorType type) {
  if (auto dims = llvm::dyn_cast_or_null<DimsAttr>(type.getEncoding())) {
    return SmallVector<AffineExpr>(dims.getMap().getResults());
  }
  SmallVector<AffineExpr> result;
  for (int64_t extent : type.getShape()) {
    result.push_back(getAffineConstantExpr(extent, type.getContext()));
  }
  return result;
}

RankedTensorType tensor_type(ArrayRef<AffineExpr> extents, Type element_type) {
  SmallVector<int64_t> shape;
  bool dynamic = false;
  int64_t symbols = 0;
  SmallVector<AffineExpr> simplified;
  for (AffineExpr extent : extents) {
    extent.walk([&](AffineExpr e) {
      if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(e)) {
        symbols = std::max<int64_t>(symbols, symbol.getPosition() + 1);
      }
    });
  }
  for (AffineExpr extent : extents) {
    simplified.push_back(simplifyAffineExpr(extent, 0, symbols));
    if (auto constant = llvm::dyn_cast<AffineConstantExpr>(simplified.back())) {
      shape.push_back(constant.getValue());
    } else {
      shape.push_back(ShapedType::kDynamic);
      dynamic = true;
    }
  }
  if (!dynamic) return RankedTensorType::get(shape, element_type);
  auto map = AffineMap::get(0, symbols, simplified, element_type.getContext());
  return RankedTensorType::get(shape, element_type, DimsAttr::get(element_type.getContext(), map));
}

RankedTensorType tensor_type(ArrayRef<int64_t> extents, Type element_type) {
  return RankedTensorType::get(extents, element_type);
}

RankedTensorType with_element_type(RankedTensorType type, Type element_type) {
  return RankedTensorType::get(type.getShape(), element_type, type.getEncoding());
}

AffineExpr element_count(RankedTensorType type) {
  AffineExpr product = getAffineConstantExpr(1, type.getContext());
  for (AffineExpr extent : extents(type)) product = product * extent;
  return product;
}

const BlockType* block_type(StringRef name) {
  // Those with u4: Nibbles in narrow.h.
  static constexpr BlockType known[] = {
      {"Q4_0", 32, 18},       {"Q8_0", 32, 34},      {"Q4_K", 256, 144},   {"Q5_K", 256, 176},    {"Q6_K", 256, 210},
      {"u4x32", 32, 20},      {"u4x32z", 32, 21},    {"u4x32h", 32, 18},   {"u4x32hz", 32, 19},   {"u4x64", 64, 36},
      {"u4x64z", 64, 37},     {"u4x64h", 64, 34},    {"u4x64hz", 64, 35},  {"u4x128", 128, 68},   {"u4x128z", 128, 69},
      {"u4x128h", 128, 66},   {"u4x128hz", 128, 67}, {"u4x256", 256, 132}, {"u4x256z", 256, 133}, {"u4x256h", 256, 130},
      {"u4x256hz", 256, 131},
  };
  const auto* found = llvm::find_if(known, [&](const BlockType& type) { return type.name == name; });
  return found == std::end(known) ? nullptr : found;
}

std::optional<int64_t> block_row_bytes(const BlockType& type, int64_t values) {
  int64_t bytes = 0;
  if (values < 0 || values % type.elements != 0 || __builtin_mul_overflow(values / type.elements, type.bytes, &bytes)) return std::nullopt;
  return bytes;
}

uint32_t element_type_code(Type type) {
  if (const NarrowFormat* narrow = narrow_format(type)) return narrow->code;
  if (type.isF32()) return HEDDLE_TYPE_F32;
  if (type.isF64()) return HEDDLE_TYPE_F64;
  if (type.isF16()) return HEDDLE_TYPE_F16;
  if (type.isBF16()) return HEDDLE_TYPE_BF16;
  if (type.isInteger(1)) return HEDDLE_TYPE_BOOL;
  bool is_unsigned = type.isUnsignedInteger();
  if (type.isInteger(8)) return is_unsigned ? HEDDLE_TYPE_U8 : HEDDLE_TYPE_I8;
  if (type.isInteger(16)) return is_unsigned ? HEDDLE_TYPE_U16 : HEDDLE_TYPE_I16;
  if (type.isInteger(32)) return is_unsigned ? HEDDLE_TYPE_U32 : HEDDLE_TYPE_I32;
  if (type.isInteger(64)) return is_unsigned ? HEDDLE_TYPE_U64 : HEDDLE_TYPE_I64;
  return HEDDLE_TYPE_UNDEFINED;
}

uint64_t byte_size(RankedTensorType type) {
  const NarrowFormat* narrow = narrow_format(type.getElementType());
  unsigned bits = narrow ? narrow->bits() : type.getElementType().getIntOrFloatBitWidth();
  uint64_t elements = static_cast<uint64_t>(type.getNumElements());
  return bits == 1 ? elements : (elements * bits + 7) / 8;  // a bool takes one byte
}

unsigned given_symbol_count(Operation* function) {
  auto count = [&](StringRef name) {
    auto all = function->getAttrOfType<ArrayAttr>(name);
    return all ? static_cast<unsigned>(all.size()) : 0;
  };
  unsigned all = count(symbols_attr);
  return all - std::min(all, count(defined_symbols_attr));
}

bool never_negative(AffineExpr extent) {
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(extent)) return constant.getValue() >= 0;
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(extent);
  if (!binary) return true;  // a symbol
  bool right = never_negative(binary.getRHS());
  return right && (binary.getKind() == AffineExprKind::Mod || never_negative(binary.getLHS()));
}

bool is_positive(AffineExpr extent) {
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(extent)) return constant.getValue() > 0;
  if (llvm::isa<AffineSymbolExpr>(extent)) return true;
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(extent);
  bool grows = binary && (binary.getKind() == AffineExprKind::Add || binary.getKind() == AffineExprKind::Mul);
  return grows && is_positive(binary.getLHS()) && is_positive(binary.getRHS());
}

bool is_never_zero(AffineExpr extent) {
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(extent)) return constant.getValue() > 0;
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(extent);
  if (!binary) return false;  // a symbol
  AffineExpr left = binary.getLHS(), right = binary.getRHS();
  if (binary.getKind() == AffineExprKind::Mul) return is_never_zero(left) && is_never_zero(right);
  if (binary.getKind() != AffineExprKind::Add) return false;
  return (is_never_zero(left) && never_negative(right)) || (never_negative(left) && is_never_zero(right));
}

namespace {

void append_factors(AffineExpr extent, SmallVectorImpl<AffineExpr>& factors) {
  auto product = llvm::dyn_cast<AffineBinaryOpExpr>(extent);
  if (!product || product.getKind() != AffineExprKind::Mul) return factors.push_back(extent);
  append_factors(product.getLHS(), factors);
  append_factors(product.getRHS(), factors);
}

// What a quotient is of that is rounded up, so that both are 0 together; null for anything else.
AffineExpr rounded_up(AffineExpr extent) {
  auto quotient = llvm::dyn_cast<AffineBinaryOpExpr>(extent);
  auto unit =
      quotient && quotient.getKind() == AffineExprKind::FloorDiv ? llvm::dyn_cast<AffineConstantExpr>(quotient.getRHS()) : AffineExpr();
  if (!unit) return {};
  const int64_t divisor = llvm::cast<AffineConstantExpr>(unit).getValue();
  AffineExpr dividend = quotient.getLHS() - (divisor - 1);
  return divisor > 0 && never_negative(dividend) ? dividend : AffineExpr();
}

}  // namespace

bool is_empty_with(RankedTensorType type, AffineExpr extent) {
  SmallVector<AffineExpr> own, other;
  for (AffineExpr each : extents(type)) append_factors(each, own);
  for (size_t i = 0; i < own.size(); ++i) {
    if (AffineExpr dividend = rounded_up(own[i])) append_factors(dividend, own);
  }
  append_factors(extent, other);
  for (size_t i = 0; i < other.size(); ++i) {
    if (AffineExpr dividend = rounded_up(other[i])) {
      other[i] = getAffineConstantExpr(1, type.getContext());
      append_factors(dividend, other);
    }
  }
  return llvm::all_of(other, [&](AffineExpr factor) { return is_never_zero(factor) || llvm::is_contained(own, factor); });
}

bool stays_in_place(Value value) {
  SmallVector<Value> waiting = {value};
  llvm::DenseSet<Operation*> seen;
  while (!waiting.empty()) {
    for (Operation* user : waiting.pop_back_val().getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>() || !seen.insert(user).second) continue;
      if (!is_elementwise(user)) return false;
      waiting.push_back(user->getResult(0));
    }
  }
  return true;
}

bool has_ranges(ConcatOp concat) {
  const SmallVector<AffineExpr> all = extents(tensor(concat.getResult()));
  return llvm::all_of(ArrayRef(all).take_front(concat.getAxis()), [](AffineExpr extent) { return static_extent(extent) == 1; });
}

// The attributes of an argument of a function.
static DictionaryAttr attributes_of_argument(Value value) {
  auto argument = llvm::dyn_cast<BlockArgument>(value);
  auto function = argument ? llvm::dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp()) : FunctionOpInterface();
  return function ? function.getArgAttrDict(argument.getArgNumber()) : DictionaryAttr();
}

bool is_donated(Value argument) {
  DictionaryAttr attributes = attributes_of_argument(argument);
  return attributes && (attributes.contains(donated_attr) || attributes.contains(alias_attr));
}

std::optional<unsigned> alias_of(Value argument) {
  DictionaryAttr attributes = attributes_of_argument(argument);
  auto result = attributes ? attributes.getAs<IntegerAttr>(alias_attr) : IntegerAttr();
  return result ? std::optional(static_cast<unsigned>(result.getInt())) : std::nullopt;
}

bool is_state(Value argument) {
  DictionaryAttr attributes = attributes_of_argument(argument);
  return attributes && attributes.contains(state_attr);
}

bool dies_with(DispatchOp region, Value operand) {
  operand = storage_of(operand);
  if (is_donated(operand)) {
    if (affinity_of(attributes_of_argument(operand)) != region.getSlot().value_or(default_slot)) return false;
  } else {
    auto concat = operand.getDefiningOp<ConcatOp>();  // outside of regions: made by those of its parts
    auto maker = (concat ? concat.getInputs().front() : operand).getDefiningOp<DispatchOp>();
    if (!maker || maker.getSlot() != region.getSlot()) return false;
  }
  unsigned reads = 0;
  SmallVector<Value> views = {operand};
  while (!views.empty()) {
    for (Operation* user : views.pop_back_val().getUsers()) {
      if (user == region) {
        ++reads;
      } else if (has_same_bytes(user)) {
        views.push_back(user->getResult(0));
      } else if (!llvm::isa<DispatchOp>(user) || !user->isBeforeInBlock(region)) {
        return false;
      }
    }
  }
  return reads == 1;
}

bool is_read_in_place(Value operand) {
  const SmallVector<AffineExpr> extents = tx::extents(tensor(operand));
  SmallVector<Value> waiting = {operand};
  llvm::DenseSet<Operation*> seen;
  while (!waiting.empty()) {
    for (OpOperand& use : waiting.pop_back_val().getUses()) {
      Operation* user = use.getOwner();
      const bool is_updated = llvm::isa<ScatterOp>(user) && use.getOperandNumber() == 0;  // indices and updates are read at other places
      if (!is_updated && llvm::isa<ScatterOp>(user)) return false;
      if (llvm::isa<YieldOp>(user) || !seen.insert(user).second) continue;
      if (!is_updated && (!is_elementwise(user) || tx::extents(tensor(user->getResult(0))) != extents)) return false;
      waiting.push_back(user->getResult(0));
    }
  }
  return true;
}

bool is_slot_name(StringRef name) {
  constexpr size_t most_bytes = 128;
  if (name == default_slot) return true;
  return name.consume_front("@") && !name.empty() && name.size() < most_bytes &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '-' || c == '.'; });
}

bool is_lower_slot(StringRef left, StringRef right) {
  if (left == right) return false;
  return left == default_slot || (right != default_slot && left < right);
}

SmallVector<StringRef> slots_of(ModuleOp module) {
  SmallVector<StringRef> names;
  if (auto slots = module->getAttrOfType<ArrayAttr>(slots_attr)) {
    for (Attribute slot : slots) names.push_back(llvm::cast<StringAttr>(slot).getValue());
  }
  if (names.empty()) names.push_back(default_slot);
  return names;
}

bool puts_rows_last(TransposeOp transpose, Operation* contraction) {
  if (!llvm::isa<ConvOp, MatmulOp>(contraction)) return false;
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t rank = static_cast<int64_t>(permutation.size()), first_row = llvm::isa<ConvOp>(contraction) ? 1 : rank - 2;
  for (int64_t d = 0; d < rank; ++d) {
    if (permutation[d] != (d < first_row ? d : d == first_row ? rank - 1 : d - 1)) return false;
  }
  return true;
}

Value zero_of(Operation* contraction) {
  auto matmul = llvm::dyn_cast<MatmulOp>(contraction);
  return matmul ? matmul.getZero() : llvm::cast<ConvOp>(contraction).getZero();
}

StringRef family_of(ModuleOp module, StringRef slot) {
  auto families = module->getAttrOfType<ArrayAttr>(families_attr);
  for (auto [index, name] : llvm::enumerate(slots_of(module))) {
    if (name == slot && families && index < families.size()) return llvm::cast<StringAttr>(families[index]).getValue();
  }
  return "";
}

StringRef affinity_of(DictionaryAttr attributes) {
  auto slot = attributes ? attributes.getAs<StringAttr>(affinity_attr) : StringAttr();
  return slot ? slot.getValue() : StringRef(default_slot);
}

void note_own_only(ModuleOp module, StringRef node, StringRef operator_name, const Twine& reason) {
  Builder builder(module.getContext());
  SmallVector<Attribute> notes;
  if (auto known = module->getAttrOfType<ArrayAttr>(own_only_attr)) notes.append(known.begin(), known.end());
  notes.push_back(builder.getDictionaryAttr({builder.getNamedAttr("node", builder.getStringAttr(node)),
                                             builder.getNamedAttr("operator", builder.getStringAttr(operator_name)),
                                             builder.getNamedAttr("reason", builder.getStringAttr(reason))}));
  module->setAttr(own_only_attr, builder.getArrayAttr(notes));
}

// ------------------------------------------------------------------------------------------------------------ folds

Operation* TxDialect::materializeConstant(OpBuilder& builder, Attribute value, Type type, Location location) {
  auto elements = llvm::dyn_cast<ElementsAttr>(value);
  return elements && elements.getType() == type ? builder.create<ConstantOp>(location, type, elements) : ConstantOp();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  return getValue();
}

namespace {

// A splat constant of the result's type, if the operand is a splat: moving its elements does not change it.
Attribute moved_splat(Attribute operand, RankedTensorType type) {
  auto splat = llvm::dyn_cast_or_null<SplatElementsAttr>(operand);
  if (!splat || !type.hasStaticShape()) return {};
  return SplatElementsAttr::get(llvm::cast<ShapedType>(type), splat.getSplatValue<Attribute>());
}

}  // namespace

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType()) return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  auto type = llvm::cast<RankedTensorType>(getType());
  if (Attribute splat = moved_splat(adaptor.getInput(), type)) return splat;
  if (auto dense = llvm::dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()); dense && type.hasStaticShape()) {
    return dense.reshape(type);
  }
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  ArrayRef<int64_t> permutation = getPermutation();
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(permutation)) identity &= static_cast<int64_t>(i) == p;
  if (identity) return getInput();
  if (auto inner = getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t p : permutation) composed.push_back(inner.getPermutation()[p]);
    setPermutation(composed);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return moved_splat(adaptor.getInput(), llvm::cast<RankedTensorType>(getType()));
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType()) {
    bool identity = true;
    for (auto [i, d] : llvm::enumerate(getDimensions())) identity &= static_cast<int64_t>(i) == d;
    if (identity) return getInput();
  }
  // a broadcast of a vector is kept even if it is a splat: passes recognize channel vectors by their broadcast
  auto from = llvm::cast<RankedTensorType>(getInput().getType());
  if (!from.hasStaticShape() || from.getNumElements() != 1) return {};
  return moved_splat(adaptor.getInput(), llvm::cast<RankedTensorType>(getType()));
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  bool whole = getInput().getType() == getType();
  for (int64_t start : getStarts()) whole &= start == 0;
  for (int64_t stride : getStrides()) whole &= stride == 1;
  if (whole) return getInput();
  return moved_splat(adaptor.getInput(), llvm::cast<RankedTensorType>(getType()));
}

// A transfer of a transferred value transfers the original value directly.
OpFoldResult TransferOp::fold(FoldAdaptor) {
  auto inner = getInput().getDefiningOp<TransferOp>();
  if (!inner) return {};
  if (inner.getFrom() == getTo()) return inner.getInput();
  setFrom(inner.getFrom());
  getInputMutable().assign(inner.getInput());
  return getResult();
}

// -------------------------------------------------------------------------------------------------------- verifiers

namespace {

// The number of symbols that a type's extents may name.
unsigned symbols_of(RankedTensorType type) {
  auto dims = llvm::dyn_cast_or_null<DimsAttr>(type.getEncoding());
  return dims ? dims.getMap().getNumSymbols() : 0;
}

// Whether a packed tensor has as many elements as tx.pack makes of this shape.
bool is_packed_size(RankedTensorType packed, ArrayRef<int64_t> shape, int64_t groups) {
  constexpr int64_t unit = 16;
  int64_t columns = shape.back() / groups, elements = groups;
  bool overflow = __builtin_mul_overflow(elements, (columns + unit - 1) / unit * unit, &elements);
  for (int64_t extent : shape.drop_back()) overflow |= extent < 0 || __builtin_mul_overflow(elements, extent, &elements);
  return !overflow && packed.getRank() == 1 && packed.getDimSize(0) == elements;
}

// A number of a window. A file may have any number; the bound keeps sums of several of them in range.
bool is_window_number(int64_t value, int64_t least) {
  return value >= least && value < int64_t{1} << 41;
}

// Whether `part` is `extent` rounded down to a multiple of a number, or `extent` is `part` rounded up to one.
bool is_rounded(AffineExpr extent, AffineExpr part, unsigned symbols) {
  auto rounds = [&](AffineExpr whole, AffineExpr other, bool up) {  // whole = (other + difference) floordiv unit * unit
    auto product = llvm::dyn_cast<AffineBinaryOpExpr>(whole);
    auto quotient = product && product.getKind() == AffineExprKind::Mul ? llvm::dyn_cast<AffineBinaryOpExpr>(product.getLHS()) : product;
    if (!quotient || quotient.getKind() != AffineExprKind::FloorDiv || quotient.getRHS() != product.getRHS()) return false;
    auto unit = llvm::dyn_cast<AffineConstantExpr>(product.getRHS());
    auto difference = llvm::dyn_cast<AffineConstantExpr>(simplifyAffineExpr(quotient.getLHS() - other, 0, symbols));
    return unit && difference && (up ? difference.getValue() >= unit.getValue() - 1 : difference.getValue() <= 0);
  };
  return rounds(part, extent, /*up=*/false) || rounds(extent, part, /*up=*/true);
}

}  // namespace

bool is_inside(AffineExpr extent, int64_t start, int64_t stride, AffineExpr part) {
  if (!is_window_number(start, 0) || !is_window_number(stride, 1)) return false;
  if (auto most = static_extent(extent)) return start < *most;
  unsigned symbols =
      AffineMap::inferFromExprList(ArrayRef<ArrayRef<AffineExpr>>{{extent, part}}, extent.getContext()).front().getNumSymbols();
  AffineExpr all = simplifyAffineExpr((extent - start + (stride - 1)).floorDiv(stride), 0, symbols);
  if (all == part) return true;
  if (start == 0 && stride == 1 && is_rounded(extent, part, symbols)) return true;
  AffineExpr behind = simplifyAffineExpr(extent - ((part - 1) * stride + (start + 1)), 0, symbols);
  return never_negative(behind);
}

LogicalResult ReshapeOp::verify() {
  auto from = llvm::cast<RankedTensorType>(getInput().getType());
  auto to = llvm::cast<RankedTensorType>(getType());
  if (from.getElementType() != to.getElementType()) return emitOpError("changes the element type");
  if (from.hasStaticShape() && to.hasStaticShape() && from.getNumElements() != to.getNumElements()) {
    return emitOpError("has ") << from.getNumElements() << " elements in and " << to.getNumElements() << " out";
  }
  return success();
}

LogicalResult TransposeOp::verify() {
  auto from = llvm::cast<RankedTensorType>(getInput().getType());
  auto to = llvm::cast<RankedTensorType>(getType());
  ArrayRef<int64_t> permutation = getPermutation();
  if (static_cast<int64_t>(permutation.size()) != from.getRank() || from.getRank() != to.getRank()) {
    return emitOpError("has a permutation of ") << permutation.size() << " for rank " << from.getRank();
  }
  SmallVector<bool> seen(permutation.size(), false);
  auto from_extents = extents(from), to_extents = extents(to);
  for (auto [i, p] : llvm::enumerate(permutation)) {
    if (p < 0 || p >= from.getRank() || seen[p]) return emitOpError("has no permutation: ") << permutation;
    seen[p] = true;
    if (from_extents[p] != to_extents[i]) return emitOpError("result extent ") << i << " is not input extent " << p;
  }
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto from = llvm::cast<RankedTensorType>(getInput().getType());
  auto to = llvm::cast<RankedTensorType>(getType());
  if (static_cast<int64_t>(getDimensions().size()) != from.getRank()) return emitOpError("needs one dimension per input dimension");
  auto from_extents = extents(from), to_extents = extents(to);
  int64_t last = -1;
  for (auto [i, d] : llvm::enumerate(getDimensions())) {
    if (d <= last || d >= to.getRank()) return emitOpError("dimensions must rise and be below ") << to.getRank();
    last = d;
    if (from.getDimSize(i) != 1 && from_extents[i] != to_extents[d]) {
      return emitOpError("input extent ") << i << " is neither 1 nor result extent " << d;
    }
  }
  return success();
}

LogicalResult SliceOp::verify() {
  auto from = llvm::cast<RankedTensorType>(getInput().getType());
  auto to = llvm::cast<RankedTensorType>(getType());
  if (from.getRank() != to.getRank() || static_cast<int64_t>(getStarts().size()) != from.getRank() ||
      static_cast<int64_t>(getStrides().size()) != from.getRank()) {
    return emitOpError("needs one start and stride per dimension");
  }
  for (int64_t i = 0; i < from.getRank(); ++i) {
    if (from.isDynamicDim(i) || to.isDynamicDim(i)) {
      if (is_inside(extents(from)[i], getStarts()[i], getStrides()[i], extents(to)[i])) continue;
      return emitOpError("takes a part of dimension ") << i << ", whose extent is not static";
    }
    int64_t extent = to.getDimSize(i);
    if (extent == 0) continue;
    int64_t first = getStarts()[i], last = 0;
    bool overflow = __builtin_mul_overflow(extent - 1, getStrides()[i], &last) || __builtin_add_overflow(first, last, &last);
    if (overflow || first < 0 || last < 0 || first >= from.getDimSize(i) || last >= from.getDimSize(i)) {
      return emitOpError("reads ") << first << " to " << last << " of dimension " << i << " with extent " << from.getDimSize(i);
    }
  }
  return success();
}

LogicalResult PadOp::verify() {
  auto from = llvm::cast<RankedTensorType>(getInput().getType());
  if (static_cast<int64_t>(getLow().size()) != from.getRank() || static_cast<int64_t>(getHigh().size()) != from.getRank()) {
    return emitOpError("needs one low and high per dimension");
  }
  auto from_extents = extents(from), to_extents = extents(llvm::cast<RankedTensorType>(getType()));
  if (from_extents.size() != to_extents.size()) return emitOpError("changes the rank");
  for (int64_t i = 0; i < from.getRank(); ++i) {
    if (getLow()[i] < 0 || getHigh()[i] < 0) return emitOpError("has a negative pad on dimension ") << i;
    if (from_extents[i] + getLow()[i] + getHigh()[i] != to_extents[i]) return emitOpError("result extent ") << i << " does not fit";
  }
  return success();
}

LogicalResult ConcatOp::verify() {
  auto to = llvm::cast<RankedTensorType>(getType());
  if (getInputs().empty()) return emitOpError("has no inputs");
  if (static_cast<int64_t>(getAxis()) < 0 || static_cast<int64_t>(getAxis()) >= to.getRank())
    return emitOpError("axis is outside of rank ") << to.getRank();
  SmallVector<AffineExpr> expected = extents(to);
  AffineExpr sum = getAffineConstantExpr(0, getContext());
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    auto type = llvm::cast<RankedTensorType>(input.getType());
    if (type.getElementType() != to.getElementType()) return emitOpError("changes the element type of input ") << i;
    SmallVector<AffineExpr> given = extents(type);
    if (given.size() != expected.size()) return emitOpError("input ") << i << " has rank " << given.size();
    sum = sum + given[getAxis()];
    given[getAxis()] = expected[getAxis()];
    if (given != expected) return emitOpError("extents of input ") << i << " are not those of the result";
  }
  AffineExpr rest = simplifyAffineExpr(sum - expected[getAxis()], 0, symbols_of(to));
  if (rest != getAffineConstantExpr(0, getContext())) return emitOpError("inputs do not fill the result");
  return success();
}

namespace {

// Rows of values in blocks, [rows, bytes] of ui8.
LogicalResult verify_blocks(Operation* op, StringRef blocks, RankedTensorType stored, int64_t values) {
  const BlockType* type = block_type(blocks);
  if (!type) return op->emitOpError("reads blocks of type '") << blocks << "', which kernels do not know";
  if (stored.getRank() != 2 || !stored.hasStaticShape() || !stored.getElementType().isUnsignedInteger(8))
    return op->emitOpError("reads blocks from ") << stored << ", not from rows of ui8";
  if (block_row_bytes(*type, values) != stored.getDimSize(1))
    return op->emitOpError("reads rows of ") << values << " values in blocks of type " << blocks << " from " << stored;
  return success();
}

// Panels of a matrix [rows, values] (Nibbles).
LogicalResult verify_panels(Operation* op, StringRef blocks, RankedTensorType stored, int64_t rows, int64_t values) {
  const Nibbles type = *Nibbles::named(blocks);
  int64_t bytes = -1;
  const bool fits = values % type.elements == 0 && !__builtin_mul_overflow(values / type.elements, type.panel_block_bytes(), &bytes);
  if (!fits || rows < 1 || stored.getShape() != ArrayRef<int64_t>{llvm::divideCeilSigned(rows, Nibbles::columns), bytes} ||
      !stored.getElementType().isUnsignedInteger(8))
    return op->emitOpError("reads ") << rows << " rows of " << values << " values in blocks of type " << blocks << " from " << stored;
  return success();
}

}  // namespace

LogicalResult ParameterOp::verify() {
  if (!getBlocks()) return success();
  auto type = llvm::cast<RankedTensorType>(getType());
  if (!getScope()) return emitOpError("is stored in blocks, but not left to a file: it has no scope");
  if (llvm::isa<FloatType>(type.getElementType())) return success();
  const BlockType* blocks = Nibbles::named(*getBlocks()) ? nullptr : block_type(*getBlocks());
  if (!blocks || type.getRank() != 2 || type.getDimSize(1) % blocks->bytes != 0)
    return emitOpError("has ") << type << ", which is not a matrix in blocks of a type that kernels read";
  return verify_blocks(*this, *getBlocks(), type, type.getDimSize(1) / blocks->bytes * blocks->elements);
}

namespace {

// Floats may be multiplied with the integers of a quantized tensor, which may have a zero.
LogicalResult verify_weights(Operation* op, Value zero, int64_t columns) {
  Type own = tensor(op->getOperand(0)).getElementType(), weights = tensor(op->getOperand(1)).getElementType();
  bool is_quantized = llvm::isa<FloatType>(own) && llvm::isa<IntegerType>(weights);
  if (is_quantized && weights.getIntOrFloatBitWidth() != 8 && weights.getIntOrFloatBitWidth() != 16)
    return op->emitOpError("multiplies ") << own << " with " << weights << ", not with integers of 8 or 16 bits";
  if (!zero) return success();
  if (!is_quantized) return op->emitOpError("has a zero, but does not multiply floats with integers");
  if (tensor(zero) != RankedTensorType::get({columns}, Float32Type::get(op->getContext())))
    return op->emitOpError("zero is not a tensor of ") << columns << " f32, one per column";
  return success();
}

}  // namespace

LogicalResult MatmulOp::verify() {
  auto lhs = llvm::cast<RankedTensorType>(getLhs().getType());
  auto rhs = llvm::cast<RankedTensorType>(getRhs().getType());
  if (lhs.getRank() < 2) return emitOpError("lhs has rank ") << lhs.getRank() << ", needs 2 or more";
  auto result = llvm::cast<RankedTensorType>(getType());
  if (result.getRank() != lhs.getRank()) return emitOpError("result has rank ") << result.getRank() << ", lhs has " << lhs.getRank();
  SmallVector<AffineExpr> expected = extents(lhs);
  if (getTransposeLhs()) std::swap(expected[expected.size() - 1], expected[expected.size() - 2]);
  AffineExpr depth = expected.back();
  if (auto shape = getPackedShape()) {
    if (rhs.getRank() != 1) return emitOpError("a packed rhs has rank 1");
    if (shape->size() != 2 || !is_packed_size(rhs, *shape, 1)) return emitOpError("packed_shape is not that of the rhs");
    if (depth != getAffineConstantExpr((*shape)[0], getContext())) return emitOpError("inner extents differ");
    expected.back() = getAffineConstantExpr((*shape)[1], getContext());
    if (expected != extents(result)) return emitOpError("result extents do not fit");
    return verify_weights(*this, getZero(), (*shape)[1]);
  }
  if (getBlocks()) {
    if (getZero() || !getTransposeRhs() || !lhs.getElementType().isF32() || !result.getElementType().isF32())
      return emitOpError("reads blocks, so its rhs is transposed and has no zero, and it multiplies f32");
    const bool is_panels = Nibbles::named(*getBlocks()).has_value();  // whose last rows may not exist
    const int64_t columns = is_panels ? result.getShape().back() : rhs.getRank() == 2 ? rhs.getDimSize(0) : -1;
    expected.back() = getAffineConstantExpr(columns, getContext());
    auto values = static_extent(depth);
    if (!values || expected != extents(result)) return emitOpError("inner extents are not static, or result extents do not fit");
    return is_panels ? verify_panels(*this, *getBlocks(), rhs, columns, *values) : verify_blocks(*this, *getBlocks(), rhs, *values);
  }
  if (rhs.getRank() != 2 && rhs.getRank() != lhs.getRank())
    return emitOpError("rhs has rank ") << rhs.getRank() << ", needs 2 or " << lhs.getRank();
  SmallVector<AffineExpr> right = extents(rhs);
  if (right.size() < 2) return emitOpError("rhs has rank ") << right.size() << ", needs 2 or " << lhs.getRank();
  if (getTransposeRhs()) std::swap(right[right.size() - 1], right[right.size() - 2]);
  if (depth != right[right.size() - 2]) return emitOpError("inner extents differ");
  for (size_t i = 0; right.size() > 2 && i + 2 < right.size(); ++i) {
    if (right[i] != expected[i]) return emitOpError("batch extents differ on dimension ") << i;
  }
  expected.back() = right.back();
  if (expected != extents(result)) return emitOpError("result extents do not fit");
  return verify_weights(*this, getZero(), result.getShape().back());
}

LogicalResult ConvOp::verify() {
  auto input = llvm::cast<RankedTensorType>(getInput().getType());
  int64_t spatial = input.getRank() - 2;
  if (spatial < 1) return emitOpError("input has rank ") << input.getRank() << ", needs 3 or more";
  for (ArrayRef<int64_t> values : {getStrides(), getPadsLow(), getPadsHigh(), getDilations()}) {
    if (static_cast<int64_t>(values.size()) != spatial) return emitOpError("needs one attribute value per spatial dimension");
  }
  if (static_cast<int64_t>(getGroups()) < 1) return emitOpError("groups must be positive");
  auto filter = llvm::cast<RankedTensorType>(getFilter().getType());
  if (getPackedShape() ? filter.getRank() != 1 : filter.getRank() != input.getRank()) {
    return emitOpError("filter has rank ") << filter.getRank();
  }
  auto result = llvm::cast<RankedTensorType>(getType());
  if (result.getRank() != input.getRank()) return emitOpError("changes the rank");
  SmallVector<int64_t> shape(getPackedShape() ? *getPackedShape() : filter.getShape());
  auto groups = static_cast<int64_t>(getGroups());
  if (static_cast<int64_t>(shape.size()) != input.getRank() || llvm::any_of(shape, [](int64_t extent) { return extent < 0; }))
    return emitOpError("the filter's extents are not static, or not those of rank ") << input.getRank();
  if (shape.back() % groups != 0) return emitOpError("groups do not divide ") << shape.back() << " filters";
  SmallVector<int64_t> packed = shape;
  if (getWinograd()) {
    auto is_one = [](int64_t value) { return value == 1; };
    if (!getPackedShape() || spatial != 2 || shape[0] != 3 || shape[1] != 3 || groups != 1 || !llvm::all_of(getStrides(), is_one) ||
        !llvm::all_of(getDilations(), is_one))
      return emitOpError("cannot use winograd: it needs a packed filter of 3 x 3, strides, dilations and groups of 1");
    packed[0] = packed[1] = 4;
  }
  if (getPackedShape() && !is_packed_size(filter, packed, groups)) return emitOpError("packed_shape is not that of the filter");
  SmallVector<AffineExpr> from = extents(input), to = extents(result);
  int64_t channels = 0;
  if (__builtin_mul_overflow(shape[spatial], groups, &channels) || from.back() != getAffineConstantExpr(channels, getContext()))
    return emitOpError("input channels are not ") << shape[spatial] << " x " << groups;
  if (to.back() != getAffineConstantExpr(shape.back(), getContext())) return emitOpError("result channels are not ") << shape.back();
  if (from.front() != to.front()) return emitOpError("changes the batch extent");
  for (int64_t i = 0; i < spatial; ++i) {
    bool sane = is_window_number(getStrides()[i], 1) && is_window_number(getDilations()[i], 1) && is_window_number(getPadsLow()[i], 0) &&
                is_window_number(getPadsHigh()[i], 0) && is_window_number(shape[i], 1);
    int64_t reach = 0;
    if (!sane || __builtin_mul_overflow(shape[i] - 1, getDilations()[i], &reach) || !is_window_number(reach, 0))
      return emitOpError("kernel, strides, dilations or pads are out of range on dimension ") << i;
    if (input.isDynamicDim(1 + i) || result.isDynamicDim(1 + i)) continue;
    int64_t span = input.getDimSize(1 + i) + getPadsLow()[i] + getPadsHigh()[i] - reach - 1;
    int64_t expected = span < 0 ? 0 : span / getStrides()[i] + 1;
    if (result.getDimSize(1 + i) > expected) {
      return emitOpError("result extent ") << result.getDimSize(1 + i) << " of dimension " << 1 + i << " is above " << expected
                                           << ", what the window gives";
    }
  }
  return success();
}

LogicalResult SelectOp::verify() {
  auto condition = llvm::cast<RankedTensorType>(getCondition().getType());
  if (!condition.getElementType().isInteger(1)) return emitOpError("condition is not boolean");
  if (extents(condition) != extents(llvm::cast<RankedTensorType>(getType()))) return emitOpError("condition has another shape");
  return success();
}

LogicalResult GatherOp::verify() {
  auto input = llvm::cast<RankedTensorType>(getInput().getType());
  auto indices = llvm::cast<RankedTensorType>(getIndices().getType());
  auto axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= input.getRank()) return emitOpError("axis ") << axis << " is outside of rank " << input.getRank();
  if (!llvm::isa<IntegerType>(indices.getElementType())) return emitOpError("indices are not integers");
  SmallVector<AffineExpr> from = extents(input), expected(from.begin(), from.begin() + axis);
  llvm::append_range(expected, extents(indices));
  expected.append(from.begin() + axis + 1, from.end());
  auto result = llvm::cast<RankedTensorType>(getType());
  if (getBlocks()) {
    if (axis != 0 || input.getRank() != 2 || Nibbles::named(*getBlocks()) || result.getRank() == 0 || !result.getElementType().isF32())
      return emitOpError("reads blocks, so it takes rows of a matrix, and gives f32");
    const int64_t values = result.getShape().back();
    if (ShapedType::isDynamic(values)) return emitOpError("reads rows of blocks whose number of values is not static");
    if (failed(verify_blocks(*this, *getBlocks(), input, values))) return failure();
    expected.back() = getAffineConstantExpr(values, getContext());
  }
  if (expected != extents(result)) return emitOpError("result extents do not fit");
  return success();
}

LogicalResult GatherElementsOp::verify() {
  RankedTensorType input = tensor(getInput()), indices = tensor(getIndices()), result = tensor(getResult());
  auto axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= input.getRank()) return emitOpError("axis ") << axis << " is outside of rank " << input.getRank();
  if (!llvm::isa<IntegerType>(indices.getElementType())) return emitOpError("indices are not integers");
  if (indices.getRank() != input.getRank()) return emitOpError("indices of rank ") << indices.getRank() << " for rank " << input.getRank();
  if (extents(result) != extents(indices)) return emitOpError("result extents are not the indices'");
  for (auto [d, have, wanted] : llvm::enumerate(extents(input), extents(indices))) {
    if (static_cast<int64_t>(d) == axis) continue;
    auto most = static_extent(have), own = static_extent(wanted);  // others are checked in each call (extent_checks_attr)
    if (most && own && *own > *most) return emitOpError("indices reach beyond the input on dimension ") << d;
  }
  return success();
}

LogicalResult GatherNdOp::verify() {
  RankedTensorType input = tensor(getInput()), indices = tensor(getIndices());
  auto batch = static_cast<int64_t>(getBatchDims());
  if (!llvm::isa<IntegerType>(indices.getElementType())) return emitOpError("indices are not integers");
  if (batch < 0 || batch >= indices.getRank() || batch > input.getRank()) return emitOpError("batch_dims ") << batch << " is too large";
  SmallVector<AffineExpr> from = extents(input), rows = extents(indices);
  auto count = static_extent(rows.back());
  if (!count) return emitOpError("the last extent of indices is not known");
  if (*count < 1 || *count > input.getRank() - batch) return emitOpError("indices name ") << *count << " dimensions";
  for (int64_t d = 0; d < batch; ++d) {
    if (from[d] != rows[d]) return emitOpError("extents of the batch differ on dimension ") << d;
  }
  SmallVector<AffineExpr> expected(rows.begin(), rows.end() - 1);
  expected.append(from.begin() + batch + *count, from.end());
  if (expected != extents(tensor(getResult()))) return emitOpError("result extents do not fit");
  return success();
}

LogicalResult IotaOp::verify() {
  auto dimension = static_cast<int64_t>(getDimension());
  RankedTensorType type = tensor(getResult());
  if (dimension < 0 || dimension >= type.getRank())
    return emitOpError("dimension ") << dimension << " is outside of rank " << type.getRank();
  return success();
}

LogicalResult PackOp::verify() {
  auto input = llvm::cast<RankedTensorType>(getInput().getType());
  auto groups = static_cast<int64_t>(getGroups());
  if (!input.hasStaticShape() || input.getRank() < 2) return emitOpError("input needs static extents and rank 2 or more");
  if (groups < 1 || input.getShape().back() % groups != 0) return emitOpError("groups do not divide ") << input.getShape().back();
  SmallVector<int64_t> shape(input.getShape());
  if (getWinograd()) {
    if (shape.size() != 4 || shape[0] != 3 || shape[1] != 3 || groups != 1)
      return emitOpError("transforms filters of 3 x 3 and one group for winograd");
    shape[0] = shape[1] = 4;
  }
  if (!is_packed_size(llvm::cast<RankedTensorType>(getType()), shape, groups)) return emitOpError("result is not of the packed size");
  return success();
}

LogicalResult PoolOp::verify() {
  auto input = llvm::cast<RankedTensorType>(getInput().getType());
  int64_t spatial = input.getRank() - 2;
  if (spatial < 1) return emitOpError("input has rank ") << input.getRank() << ", needs 3 or more";
  for (ArrayRef<int64_t> values : {getKernel(), getStrides(), getPadsLow(), getPadsHigh(), getDilations()}) {
    if (static_cast<int64_t>(values.size()) != spatial) return emitOpError("needs one attribute value per spatial dimension");
  }
  if (llvm::cast<RankedTensorType>(getType()).getRank() != input.getRank()) return emitOpError("changes the rank");
  SmallVector<AffineExpr> from = extents(input), to = extents(llvm::cast<RankedTensorType>(getType()));
  if (from.front() != to.front() || from.back() != to.back()) return emitOpError("changes the batch extent or the channels");
  for (int64_t i = 0; i < spatial; ++i) {
    bool sane = is_window_number(getKernel()[i], 1) && is_window_number(getStrides()[i], 1) && is_window_number(getDilations()[i], 1) &&
                is_window_number(getPadsLow()[i], 0) && is_window_number(getPadsHigh()[i], 0);
    if (!sane) return emitOpError("kernel, strides, dilations or pads are out of range on dimension ") << i;
  }
  return success();
}

SmallVector<int64_t> ReduceOp::getRowAxes() {
  return llvm::to_vector(getAxes());
}

SmallVector<int64_t> ArgReduceOp::getRowAxes() {
  return {static_cast<int64_t>(getAxis())};
}

SmallVector<int64_t> SoftmaxOp::getRowAxes() {
  return {static_cast<int64_t>(getAxis())};
}

LogicalResult ReduceOp::verify() {
  auto input = llvm::cast<RankedTensorType>(getInput().getType());
  int64_t last = -1;
  for (int64_t axis : getAxes()) {
    if (axis <= last || axis >= input.getRank()) return emitOpError("axes must rise and be below ") << input.getRank();
    last = axis;
  }
  SmallVector<AffineExpr> kept;
  for (auto [i, extent] : llvm::enumerate(extents(input))) {
    if (!llvm::is_contained(getAxes(), static_cast<int64_t>(i))) kept.push_back(extent);
  }
  if (kept != extents(llvm::cast<RankedTensorType>(getType()))) return emitOpError("result extents do not fit");
  return success();
}

LogicalResult ArgReduceOp::verify() {
  RankedTensorType input = tensor(getInput()), type = tensor(getResult());
  auto axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= input.getRank()) return emitOpError("axis ") << axis << " is outside of rank " << input.getRank();
  if (getKind() != ReduceKind::max && getKind() != ReduceKind::min) return emitOpError("needs kind max or min");
  if (!type.getElementType().isSignlessInteger(64)) return emitOpError("gives elements of i64, not of ") << type.getElementType();
  SmallVector<AffineExpr> kept = extents(input);
  kept.erase(kept.begin() + axis);
  if (kept != extents(type)) return emitOpError("result extents do not fit");
  return success();
}

LogicalResult CumsumOp::verify() {
  auto axis = static_cast<int64_t>(getAxis());
  int64_t rank = tensor(getResult()).getRank();
  if (axis < 0 || axis >= rank) return emitOpError("axis ") << axis << " is outside of rank " << rank;
  return success();
}

LogicalResult ScatterOp::verify() {
  RankedTensorType input = tensor(getInput()), indices = tensor(getIndices()), updates = tensor(getUpdates());
  auto axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= input.getRank()) return emitOpError("axis ") << axis << " is outside of rank " << input.getRank();
  if (getKind() == ReduceKind::mean) return emitOpError("has no mean");
  if (getKind() == ReduceKind::sum && input.getElementType().isInteger(1)) return emitOpError("has no sum of bools; max is their or");
  if (!llvm::isa<IntegerType>(indices.getElementType())) return emitOpError("indices are not integers");
  if (updates.getElementType() != input.getElementType()) return emitOpError("updates have other elements");
  SmallVector<AffineExpr> have = extents(updates), wanted = extents(input);
  if (have.size() != wanted.size()) return emitOpError("updates of rank ") << have.size() << " for rank " << wanted.size();
  wanted[axis] = have[axis];
  if (have != wanted) return emitOpError("updates have other extents than the input");
  SmallVector<AffineExpr> of_indices = extents(indices);
  if (of_indices != have && of_indices != SmallVector<AffineExpr>{have[axis]})
    return emitOpError("indices are neither one for each update nor one for each slice of them");
  return success();
}

LogicalResult SortOp::verify() {
  RankedTensorType input = tensor(getInput()), type = tensor(getResult());
  auto axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= input.getRank()) return emitOpError("axis ") << axis << " is outside of rank " << input.getRank();
  if (!type.getElementType().isSignlessInteger(64)) return emitOpError("gives elements of i64, not of ") << type.getElementType();
  SmallVector<AffineExpr> have = extents(type), wanted = extents(input);
  if (have.size() != wanted.size()) return emitOpError("changes the rank");
  auto count = static_extent(have[axis]), all = static_extent(wanted[axis]);
  if (count && all && *count > *all) return emitOpError("gives ") << *count << " indices of " << *all << " elements";
  wanted[axis] = have[axis];
  return have == wanted ? success() : emitOpError("result extents do not fit");
}

LogicalResult SoftmaxOp::verify() {
  auto type = llvm::cast<RankedTensorType>(getType());
  auto axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= type.getRank()) return emitOpError("axis ") << axis << " is outside of rank " << type.getRank();
  return success();
}

LogicalResult LrnOp::verify() {
  if (llvm::cast<RankedTensorType>(getType()).getRank() < 1) return emitOpError("needs rank 1 or more");
  if (static_cast<int64_t>(getSize()) < 1) return emitOpError("size must be positive");
  if (!llvm::isa<FloatType>(element_of(getInput()))) return emitOpError("needs elements that are floats, not ") << element_of(getInput());
  return success();
}

LogicalResult TransferOp::verify() {
  for (StringRef slot : {getFrom(), getTo()}) {
    if (!is_slot_name(slot)) return emitOpError("names the slot '") << slot << "'; use default, or @ and a name";
  }
  return getFrom() == getTo() ? emitOpError("goes from ") << getFrom() << " to itself" : LogicalResult(success());
}

namespace {

LogicalResult verify_operator(Operation* op, StringRef domain, StringRef name, int64_t version, DictionaryAttr record) {
  if (domain.empty() || name.empty()) return op->emitOpError("has no domain or no name");
  if (version < 1 || version > UINT32_MAX) return op->emitOpError("has version ") << version << "; 1 and above are possible";
  for (NamedAttribute attribute : record) {
    const Attribute value = attribute.getValue();
    auto number = llvm::dyn_cast<TypedAttr>(value);
    const bool fits = llvm::isa<StringAttr, DenseI64ArrayAttr, DenseF64ArrayAttr>(value) ||
                      (llvm::isa<IntegerAttr>(value) && number.getType().isSignlessInteger(64)) ||
                      (llvm::isa<FloatAttr>(value) && number.getType().isF64());
    if (!fits)
      return op->emitOpError("has the attribute ")
             << attribute.getName() << " of " << value << "; i64, f64, a text, or a list of i64 or f64 is possible";
  }
  return success();
}

}  // namespace

LogicalResult CustomOp::verify() {
  if (auto slot = getSlot(); slot && !is_slot_name(*slot)) return emitOpError("names the slot '") << *slot << "'";
  if (getOutputs().empty()) return emitOpError("has no result");
  return verify_operator(*this, getDomain(), getName(), getVersionAttr().getInt(), getRecord());
}

std::optional<int64_t> DispatchOp::overwritten() {
  for (int64_t operand : getTied().value_or(ArrayRef<int64_t>())) {
    if (operand >= 0) return operand;
  }
  return std::nullopt;
}

LogicalResult DispatchOp::verify() {
  if (auto slot = getSlot(); slot && !is_slot_name(*slot)) return emitOpError("names the slot '") << *slot << "'";
  Block& block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("has ") << block.getNumArguments() << " block arguments for " << getInputs().size() << " inputs";
  for (auto [argument, input] : llvm::zip(block.getArguments(), getInputs())) {
    if (argument.getType() != input.getType())
      return emitOpError("block argument type ") << argument.getType() << " is not " << input.getType();
  }
  auto yield = llvm::dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().size() != getOutputs().size()) return emitOpError("does not yield its outputs");
  for (auto [value, output] : llvm::zip(yield.getValues(), getOutputs())) {
    if (value.getType() != output.getType()) return emitOpError("yields ") << value.getType() << " for " << output.getType();
  }
  if (auto tied = getTied()) {
    if (tied->size() != getNumResults()) return emitOpError("ties ") << tied->size() << " results and has " << getNumResults();
    llvm::SmallDenseSet<int64_t> taken;
    for (auto [result, operand] : llvm::enumerate(*tied)) {
      if (operand == -1) continue;
      if (operand < 0 || operand >= static_cast<int64_t>(getInputs().size()))
        return emitOpError("ties result ") << result << " to operand " << operand << " of " << getInputs().size();
      if (!taken.insert(operand).second) return emitOpError("ties two results to operand ") << operand;
      RankedTensorType from = tensor(getInputs()[operand]), to = tensor(getOutputs()[result]);
      if (from.getElementType() != to.getElementType() || element_count(from) != element_count(to))
        return emitOpError("ties a result of type ") << to << " to an operand of type " << from;
    }
  }
  if (IntegerAttr pitch = getPitchAttr()) {
    if (getNumResults() != 1 || getTied()) return emitOpError("has a `pitch`, which is for a single result that is not tied");
    RankedTensorType type = tensor(getResult(0));
    if (type.getRank() == 0 || type.isDynamicDim(type.getRank() - 1) || pitch.getInt() < type.getShape().back())
      return emitOpError("has rows of type ") << type << " at a pitch of " << pitch.getInt()
                                              << "; it must be at least their extent, a constant";
  }
  OperationAttr operation = getAlternativeAttr();
  if (!operation) return success();
  if (getPitchAttr()) return emitOpError("has a `pitch` and an alternative, whose results must be dense");
  if (overwritten()) return emitOpError("ties a result to an operand, but has an alternative, whose results must not overlap its operands");
  return verify_operator(*this, operation.getDomain(), operation.getName(), static_cast<int64_t>(operation.getVersion()),
                         operation.getRecord());
}

}  // namespace heddle::tx
