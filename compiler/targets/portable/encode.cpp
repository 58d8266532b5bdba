// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See encode.h.
#include "compiler/targets/portable/encode.h"

#include <map>

#include "compiler/ir/trees.h"
#include "compiler/stage/sieve.h"
#include "compiler/stage/walk.h"
#include "heddle/sdk/portable/ops.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::targets {

namespace {

namespace portable = sdk::portable;
using portable::Op;
using portable::Predicate;
using portable::Scalar;

std::optional<Scalar> scalar_of(Type type) {
  if (type.isF16()) return Scalar::kF16;
  if (type.isBF16()) return Scalar::kBf16;
  if (type.isF32()) return Scalar::kF32;
  if (type.isF64()) return Scalar::kF64;
  if (!llvm::isa<IntegerType>(type)) return std::nullopt;
  switch (type.getIntOrFloatBitWidth()) {
    case 1:
      return Scalar::kI1;
    case 8:
      return Scalar::kI8;
    case 16:
      return Scalar::kI16;
    case 32:
      return Scalar::kI32;
    case 64:
      return Scalar::kI64;
    default:
      return std::nullopt;
  }
}

std::optional<heddle_element_type_t> element_type_of(Type type) {
  if (type.isF16()) return HEDDLE_TYPE_F16;
  if (type.isBF16()) return HEDDLE_TYPE_BF16;
  if (type.isF32()) return HEDDLE_TYPE_F32;
  if (type.isF64()) return HEDDLE_TYPE_F64;
  auto integer = llvm::dyn_cast<IntegerType>(type);
  if (!integer) return std::nullopt;
  const bool no_sign = integer.isUnsigned();
  switch (integer.getWidth()) {
    case 1:
      return HEDDLE_TYPE_BOOL;
    case 8:
      return no_sign ? HEDDLE_TYPE_U8 : HEDDLE_TYPE_I8;
    case 16:
      return no_sign ? HEDDLE_TYPE_U16 : HEDDLE_TYPE_I16;
    case 32:
      return no_sign ? HEDDLE_TYPE_U32 : HEDDLE_TYPE_I32;
    case 64:
      return no_sign ? HEDDLE_TYPE_U64 : HEDDLE_TYPE_I64;
    default:
      return std::nullopt;
  }
}

uint64_t bits_of(TypedAttr attribute) {
  if (auto real = llvm::dyn_cast<FloatAttr>(attribute)) return real.getValue().bitcastToAPInt().getZExtValue();
  return llvm::cast<IntegerAttr>(attribute).getValue().getZExtValue();
}

Predicate predicate_of(arith::CmpFPredicate predicate) {
  using P = arith::CmpFPredicate;
  switch (predicate) {
    case P::OEQ:
      return Predicate::kEqual;
    case P::ONE:
      return Predicate::kNotEqual;
    case P::OLT:
      return Predicate::kLess;
    case P::OLE:
      return Predicate::kLessEqual;
    case P::OGT:
      return Predicate::kGreater;
    case P::OGE:
      return Predicate::kGreaterEqual;
    case P::UNO:
      return Predicate::kUnordered;
    case P::ORD:
      return Predicate::kOrdered;
    case P::UEQ:
      return Predicate::kOrEqual;
    case P::UNE:
      return Predicate::kOrNotEqual;
    case P::ULT:
      return Predicate::kOrLess;
    case P::ULE:
      return Predicate::kOrLessEqual;
    case P::UGT:
      return Predicate::kOrGreater;
    case P::UGE:
      return Predicate::kOrGreaterEqual;
    default:
      llvm::report_fatal_error("portable: a comparison that is always the same is a constant");
  }
}

Predicate predicate_of(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
    case P::eq:
      return Predicate::kEqual;
    case P::ne:
      return Predicate::kNotEqual;
    case P::slt:
      return Predicate::kLess;
    case P::sle:
      return Predicate::kLessEqual;
    case P::sgt:
      return Predicate::kGreater;
    case P::sge:
      return Predicate::kGreaterEqual;
    case P::ult:
      return Predicate::kBelow;
    case P::ule:
      return Predicate::kBelowEqual;
    case P::ugt:
      return Predicate::kAbove;
    case P::uge:
      return Predicate::kAboveEqual;
  }
  llvm_unreachable("all predicates are handled above");
}

std::optional<Op> op_of(Operation* op) {
  return llvm::TypeSwitch<Operation*, std::optional<Op>>(op)
      .Case([](arith::AddFOp) { return Op::kAddF; })
      .Case([](arith::SubFOp) { return Op::kSubF; })
      .Case([](arith::MulFOp) { return Op::kMulF; })
      .Case([](arith::DivFOp) { return Op::kDivF; })
      .Case([](arith::MaximumFOp) { return Op::kMaximumF; })
      .Case([](arith::MinimumFOp) { return Op::kMinimumF; })
      .Case([](math::PowFOp) { return Op::kPowF; })
      .Case([](arith::NegFOp) { return Op::kNegF; })
      .Case([](math::AbsFOp) { return Op::kAbsF; })
      .Case([](math::CeilOp) { return Op::kCeilF; })
      .Case([](math::FloorOp) { return Op::kFloorF; })
      .Case([](math::RoundEvenOp) { return Op::kRoundEvenF; })
      .Case([](math::SqrtOp) { return Op::kSqrtF; })
      .Case([](math::ExpOp) { return Op::kExpF; })
      .Case([](math::LogOp) { return Op::kLogF; })
      .Case([](math::TanhOp) { return Op::kTanhF; })
      .Case([](math::CosOp) { return Op::kCosF; })
      .Case([](math::SinOp) { return Op::kSinF; })
      .Case([](math::ErfOp) { return Op::kErfF; })
      .Case([](arith::AddIOp) { return Op::kAddI; })
      .Case([](arith::SubIOp) { return Op::kSubI; })
      .Case([](arith::MulIOp) { return Op::kMulI; })
      .Case([](arith::DivSIOp) { return Op::kDivSI; })
      .Case([](arith::DivUIOp) { return Op::kDivUI; })
      .Case([](arith::RemSIOp) { return Op::kRemSI; })
      .Case([](arith::RemUIOp) { return Op::kRemUI; })
      .Case([](arith::MaxSIOp) { return Op::kMaxSI; })
      .Case([](arith::MinSIOp) { return Op::kMinSI; })
      .Case([](arith::MaxUIOp) { return Op::kMaxUI; })
      .Case([](arith::MinUIOp) { return Op::kMinUI; })
      .Case([](arith::AndIOp) { return Op::kAndI; })
      .Case([](arith::OrIOp) { return Op::kOrI; })
      .Case([](arith::XOrIOp) { return Op::kXOrI; })
      .Case([](arith::ShLIOp) { return Op::kShlI; })
      .Case([](arith::ShRUIOp) { return Op::kShrUI; })
      .Case([](arith::ShRSIOp) { return Op::kShrSI; })
      .Case([](arith::CmpFOp) { return Op::kCompareF; })
      .Case([](arith::CmpIOp) { return Op::kCompareI; })
      .Case([](arith::SelectOp) { return Op::kSelect; })
      .Case([](arith::ExtFOp) { return Op::kExtF; })
      .Case([](arith::TruncFOp) { return Op::kTruncF; })
      .Case([](arith::ExtSIOp) { return Op::kExtSI; })
      .Case([](arith::ExtUIOp) { return Op::kExtUI; })
      .Case([](arith::TruncIOp) { return Op::kTruncI; })
      .Case([](arith::SIToFPOp) { return Op::kSIToF; })
      .Case([](arith::UIToFPOp) { return Op::kUIToF; })
      .Case([](arith::FPToSIOp) { return Op::kFToSI; })
      .Case([](arith::FPToUIOp) { return Op::kFToUI; })
      .Case([](arith::BitcastOp) { return Op::kBitcast; })
      .Default([](Operation*) { return std::nullopt; });
}

std::optional<portable::AttributeValue> value_of(Attribute attribute) {
  using Value = std::optional<portable::AttributeValue>;
  return llvm::TypeSwitch<Attribute, Value>(attribute)
      .Case([](UnitAttr) { return Value(true); })
      .Case([](BoolAttr value) { return Value(value.getValue()); })
      .Case([](IntegerAttr value) { return Value(value.getInt()); })
      .Case([](FloatAttr value) { return Value(value.getValueAsDouble()); })
      .Case([](StringAttr value) { return Value(value.str()); })
      .Case([](DenseI64ArrayAttr values) { return Value(std::vector<int64_t>(values.asArrayRef())); })
      .Case([](DenseF64ArrayAttr values) { return Value(std::vector<double>(values.asArrayRef())); })
      .Default([](Attribute) { return std::nullopt; });
}

// Kinds are numbers in the IR and names in the code.
std::optional<Attribute> name_of_kind(Operation* op, StringAttr attribute, Builder& builder) {
  if (attribute != "kind") return std::nullopt;
  StringRef kind =
      llvm::TypeSwitch<Operation*, StringRef>(op)
          .Case([](tx::CompareOp compare) { return tx::stringifyCompareKind(compare.getKind()); })
          .Case([](tx::PoolOp pool) { return tx::stringifyPoolKind(pool.getKind()); })
          .Case([](tx::ScatterOp scatter) { return tx::stringifyReduceKind(*scatter.getKind()); })
          .Case<tx::ArgReduceOp, tx::ReduceOp, tx::TreesOp>([](auto reduce) { return tx::stringifyReduceKind(reduce.getKind()); });
  return builder.getStringAttr(kind);
}

// The value of all elements of a constant, as an attribute of its name.
std::optional<NamedAttribute> value_of_all(tx::ConstantOp constant, Builder& builder) {
  auto splat = llvm::dyn_cast<SplatElementsAttr>(constant.getValue());
  if (!splat) return std::nullopt;
  if (llvm::isa<FloatType>(splat.getElementType())) {
    APFloat value = splat.getSplatValue<APFloat>();
    bool loses;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return builder.getNamedAttr("real", builder.getFloatAttr(builder.getF64Type(), value));
  }
  const APInt value = splat.getSplatValue<APInt>();
  const bool no_sign = splat.getElementType().isUnsignedInteger() || value.getBitWidth() == 1;
  return builder.getNamedAttr("integer",
                              builder.getI64IntegerAttr(static_cast<int64_t>(no_sign ? value.getZExtValue() : value.getSExtValue())));
}

class Encoder {
 public:
  Encoder(portable::Kernel& kernel, std::string& reason) : k_(kernel), reason_(reason) {}

  bool run(func::FuncOp function) {
    auto found = function.getOps<tx::DispatchOp>();
    tx::DispatchOp region = *found.begin();
    if (auto symbols = function->getAttrOfType<ArrayAttr>(tx::symbols_attr)) k_.symbols = symbols.size();
    Block& body = region.getBody().front();
    k_.inputs = body.getNumArguments();
    k_.outputs = region.getNumResults();
    for (BlockArgument argument : body.getArguments()) {
      if (!add_tensor(argument)) return false;
    }
    Operation* yield = body.getTerminator();
    for (Value output : yield->getOperands()) {
      if (tensors_.contains(output)) return refuse("two results of the region are the same, or one is an operand");
      if (!add_tensor(output)) return false;
    }
    for (Operation& op : body.without_terminator()) {
      for (Value result : op.getResults()) {
        if (!tensors_.contains(result) && !add_tensor(result)) return false;
      }
      if (!add_node(&op)) return false;
    }
    auto ops = function->getAttrOfType<ArrayAttr>(named_ops_attr);
    return !ops || add_names(ops);
  }

 private:
  bool refuse(const Twine& why) {
    reason_ = why.str();
    return false;
  }

  uint32_t add(portable::Expression expression) {
    auto key = std::make_tuple(static_cast<int>(expression.kind), expression.value, expression.a, expression.b);
    auto [found, is_new] = known_.try_emplace(key, static_cast<uint32_t>(k_.expressions.size()));
    if (is_new) k_.expressions.push_back(expression);
    return found->second;
  }

  uint32_t expression(AffineExpr from) {
    using E = portable::Expression;
    if (auto constant = llvm::dyn_cast<AffineConstantExpr>(from)) return add({E::kConstant, constant.getValue()});
    if (auto dim = llvm::dyn_cast<AffineDimExpr>(from)) return add({E::kDimension, dim.getPosition()});
    if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(from)) return add({E::kSymbol, symbol.getPosition()});
    auto binary = llvm::cast<AffineBinaryOpExpr>(from);
    uint32_t a = expression(binary.getLHS()), b = expression(binary.getRHS());
    E::Kind kind = E::kMod;
    if (binary.getKind() == AffineExprKind::Add) kind = E::kAdd;
    if (binary.getKind() == AffineExprKind::Mul) kind = E::kMul;
    if (binary.getKind() == AffineExprKind::FloorDiv) kind = E::kFloorDiv;
    if (binary.getKind() == AffineExprKind::CeilDiv) kind = E::kCeilDiv;
    return add({kind, 0, a, b});
  }

  bool add_tensor(Value value) {
    RankedTensorType type = tx::tensor(value);
    auto element = element_type_of(type.getElementType());
    if (!element) {
      std::string text;
      llvm::raw_string_ostream(text) << "a tensor has elements of type " << type.getElementType();
      return refuse(text);
    }
    portable::Tensor tensor = {*element, {}};
    for (AffineExpr extent : tx::extents(type)) tensor.extents.push_back(expression(extent));
    tensors_[value] = static_cast<uint32_t>(k_.tensors.size());
    k_.tensors.push_back(std::move(tensor));
    return true;
  }

  bool add_node(Operation* op) {
    portable::Node node;
    auto kind = [&](portable::NodeKind which, int64_t first = 0, int64_t second = 0, int64_t along = 0) {
      node.kind = which;
      node.first_reads = static_cast<uint32_t>(first);
      node.second_reads = static_cast<uint32_t>(second);
      node.along = static_cast<uint32_t>(along);
      return true;
    };
    using K = portable::NodeKind;
    const bool is_known =
        llvm::TypeSwitch<Operation*, bool>(op)
            .Case([&](stage::MapOp) { return kind(K::kMap); })
            .Case([&](stage::FoldOp fold) { return kind(K::kFold, fold.getStepReads()); })
            .Case([&](stage::ScanOp scan) {
              node.reverse = scan.getReverse();
              node.is_placed = scan.getPlaced();
              return kind(K::kScan, scan.getStepReads(), 0, scan.getAlong());
            })
            .Case([&](stage::ContractOp contract) {
              auto accumulator = scalar_of(contract.getAccumulator());
              if (accumulator) node.accumulator = *accumulator;
              return accumulator && kind(K::kContract, contract.getStepReads());
            })
            .Case([&](stage::ScatterOp scatter) {
              return kind(K::kScatter, scatter.getPlaceReads(), scatter.getStepReads(), scatter.getAlong());
            })
            .Case([&](stage::SortOp sort) { return kind(K::kSort, 0, 0, sort.getAlong()); })
            .Case([&](stage::SieveOp sieve) { return kind(K::kSieve, sieve.getLimitReads(), sieve.getStepReads(), sieve.getAlong()); })
            .Case([&](stage::WalkOp walk) {
              node.steps = walk.getSteps();
              return kind(K::kWalk, walk.getStartReads(), walk.getNextReads(), walk.getAlong());
            })
            .Default([](Operation*) { return false; });
    if (!is_known) return refuse(op->getName().getStringRef() + " has no form in portable code");
    stage::DomainAttr domain = stage::domain_of(op);
    for (AffineExpr extent : domain.getExtents().getResults()) node.extents.push_back(expression(extent));
    node.reduced = domain.getReduced();
    for (AffineMap within : domain.getWithin()) node.within.push_back({expression(within.getResult(0)), expression(within.getResult(1))});
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      stage::AccessAttr access = stage::access_of(op, i);
      portable::Read read;
      read.tensor = tensors_.lookup(op->getOperand(i));
      for (AffineExpr index : access.getMap().getResults()) read.place.push_back(expression(index));
      read.has_outside = static_cast<bool>(access.getOutside());
      if (read.has_outside) read.outside = bits_of(access.getOutside());
      read.gathers.assign(access.getGathers().begin(), access.getGathers().end());
      node.reads.push_back(std::move(read));
    }
    for (Region& region : op->getRegions()) {
      node.bodies.emplace_back();
      if (!add_body(region.front(), node.bodies.back())) return false;
    }
    for (Value result : op->getResults()) node.results.push_back(tensors_.lookup(result));
    k_.nodes.push_back(std::move(node));
    return true;
  }

  bool add_body(Block& block, portable::Body& body) {
    llvm::DenseMap<Value, uint32_t> names;
    for (BlockArgument argument : block.getArguments()) names[argument] = static_cast<uint32_t>(names.size());
    for (Operation& op : block.without_terminator()) {
      auto type = op.getNumResults() == 1 ? scalar_of(op.getResult(0).getType()) : std::nullopt;
      portable::Instruction at = {Op::kConstant, type.value_or(Scalar::kI1)};
      auto known = op_of(&op);
      if (auto constant = llvm::dyn_cast<arith::ConstantOp>(op)) {
        at.value = bits_of(llvm::cast<TypedAttr>(constant.getValue()));
      } else if (auto extent = llvm::dyn_cast<stage::ExtentOp>(op)) {
        at.op = Op::kExtent;
        at.value = expression(extent.getExpression().getResult(0));
      } else if (known && type) {
        at.op = *known;
        if (auto compare = llvm::dyn_cast<arith::CmpFOp>(op)) at.value = static_cast<uint64_t>(predicate_of(compare.getPredicate()));
        if (auto compare = llvm::dyn_cast<arith::CmpIOp>(op)) at.value = static_cast<uint64_t>(predicate_of(compare.getPredicate()));
        uint32_t* operands[] = {&at.a, &at.b, &at.c};
        for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
          if (!names.contains(operand)) return refuse("a body uses a value from outside of it");
          *operands[i] = names.lookup(operand);
        }
      } else {
        return refuse(op.getName().getStringRef() + " on these types has no form in portable code");
      }
      if (!type) return refuse("a constant of this type has no form in portable code");
      const auto name = static_cast<uint32_t>(names.size());
      names[op.getResult(0)] = name;
      body.instructions.push_back(at);
    }
    for (Value value : block.getTerminator()->getOperands()) body.yields.push_back(names.lookup(value));
    return true;
  }

  bool add_names(ArrayAttr names) {
    auto numbers = [](Attribute list) {
      auto values = llvm::cast<DenseI64ArrayAttr>(list).asArrayRef();
      return std::vector<uint32_t>(values.begin(), values.end());
    };
    k_.named_outputs = numbers(names[0]);
    for (Attribute each : llvm::drop_begin(names)) {
      auto parts = llvm::cast<ArrayAttr>(each);
      portable::NamedOp op;
      op.name = llvm::cast<StringAttr>(parts[0]).str();
      if (const auto* known = portable::known_op(op.name)) op.version = known->version;
      for (NamedAttribute attribute : llvm::cast<DictionaryAttr>(parts[1])) {
        auto value = value_of(attribute.getValue());
        if (!value)
          return refuse("attribute '" + attribute.getName().str() + "' of op '" + op.name + "' is of a type that no attribute has");
        op.attributes.push_back({attribute.getName().str(), std::move(*value)});
      }
      llvm::sort(op.attributes, [](const auto& a, const auto& b) { return a.name < b.name; });
      op.operands = numbers(parts[2]);
      for (Attribute result : llvm::drop_begin(parts, 3)) {
        auto type = llvm::cast<RankedTensorType>(llvm::cast<TypeAttr>(result).getValue());
        auto element = element_type_of(type.getElementType());
        if (!element) return refuse("op '" + op.name + "' has elements that no tensor of a kernel has");
        portable::Tensor tensor = {*element, {}};
        for (AffineExpr extent : tx::extents(type)) tensor.extents.push_back(expression(extent));
        op.results.push_back(std::move(tensor));
      }
      std::string why;
      if (!portable::is_as_known(op, &why)) return refuse(why);
      k_.ops.push_back(std::move(op));
    }
    return true;
  }

  portable::Kernel& k_;
  std::string& reason_;
  llvm::DenseMap<Value, uint32_t> tensors_;
  std::map<std::tuple<int, int64_t, uint32_t, uint32_t>, uint32_t> known_;
};

}  // namespace

FailureOr<stage::StagedRegion> stages_of(tx::DispatchOp region, std::string& reason) {
  return stage::form_stages(region, reason, region->hasAttr(several_stages_attr) ? stage::Makers::several : stage::Makers::last);
}

ArrayAttr named_ops_of(tx::DispatchOp region) {
  Builder builder(region.getContext());
  Block& body = region.getBody().front();
  llvm::DenseMap<Value, int64_t> numbers;
  for (BlockArgument argument : body.getArguments()) numbers[argument] = static_cast<int64_t>(numbers.size());
  auto numbers_of = [&](ValueRange values) -> Attribute {
    return builder.getDenseI64ArrayAttr(llvm::map_to_vector(values, [&](Value value) { return numbers.lookup(value); }));
  };
  SmallVector<Attribute> ops = {{}};
  for (Operation& op : body.without_terminator()) {
    NamedAttrList attributes;
    if (auto constant = llvm::dyn_cast<tx::ConstantOp>(op)) {
      if (std::optional<NamedAttribute> value = value_of_all(constant, builder)) attributes.push_back(*value);
    } else {
      // Attributes of the op's definition, but not what passes have noted beside them.
      for (StringAttr name : op.getName().getAttributeNames()) {
        std::optional<Attribute> value = op.getInherentAttr(name);
        if (!value || !*value || name == "operandSegmentSizes") continue;
        attributes.set(name, name_of_kind(&op, name, builder).value_or(*value));
      }
    }
    SmallVector<Attribute> parts = {builder.getStringAttr(op.getName().stripDialect()), attributes.getDictionary(region.getContext()),
                                    numbers_of(op.getOperands())};
    for (Value result : op.getResults()) {
      parts.push_back(TypeAttr::get(result.getType()));
      numbers[result] = static_cast<int64_t>(numbers.size());
    }
    ops.push_back(builder.getArrayAttr(parts));
  }
  ops[0] = numbers_of(body.getTerminator()->getOperands());
  return builder.getArrayAttr(ops);
}

bool encode(func::FuncOp function, portable::Kernel& kernel, std::string& reason) {
  return Encoder(kernel, reason).run(function) && portable::verify(&kernel, &reason);
}

}  // namespace heddle::targets
