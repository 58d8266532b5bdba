// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stage dialect's definition: registration, verifiers, and questions about any stage.
#include "compiler/stage/walk.h"

#include "compiler/stage/sieve.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"

#include "stage_dialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "stage_attrs.cpp.inc"
#define GET_OP_CLASSES
#include "stage_ops.cpp.inc"
#define GET_OP_CLASSES
#include "sieve_ops.cpp.inc"
#define GET_OP_CLASSES
#include "walk_op.cpp.inc"

using namespace mlir;

namespace heddle::stage {

void StageDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "stage_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "stage_ops.cpp.inc"
      >();
  addOperations<SieveOp, SieveYieldOp, WalkOp>();
}

Type scalar_type(Type element) {
  if (auto integer = llvm::dyn_cast<IntegerType>(element)) return IntegerType::get(element.getContext(), integer.getWidth());
  return element;
}

DomainAttr domain_of(Operation* stage) {
  return llvm::TypeSwitch<Operation*, DomainAttr>(stage).Case<MapOp, FoldOp, ScanOp, ContractOp, ScatterOp, SieveOp, SortOp, WalkOp>(
      [](auto op) { return op.getDomain(); });
}

OperandRange reads_of(Operation* stage) {
  return stage->getOperands();
}

AccessAttr access_of(Operation* stage, unsigned read) {
  ArrayAttr accesses =
      llvm::TypeSwitch<Operation*, ArrayAttr>(stage).Case<MapOp, FoldOp, ScanOp, ContractOp, ScatterOp, SieveOp, SortOp, WalkOp>(
          [](auto op) { return op.getAccesses(); });
  return llvm::cast<AccessAttr>(accesses[read]);
}

Block& last_body(Operation* stage) {
  return stage->getRegions().back().front();
}

unsigned first_read_of_last_body(Operation* stage) {
  if (auto fold = llvm::dyn_cast<FoldOp>(stage)) return static_cast<unsigned>(fold.getStepReads());
  if (auto scan = llvm::dyn_cast<ScanOp>(stage)) return static_cast<unsigned>(scan.getStepReads());
  if (auto scatter = llvm::dyn_cast<ScatterOp>(stage)) return static_cast<unsigned>(scatter.getPlaceReads() + scatter.getStepReads());
  if (auto sieve = llvm::dyn_cast<SieveOp>(stage)) return static_cast<unsigned>(sieve.getLimitReads() + sieve.getStepReads());
  if (llvm::isa<SortOp, WalkOp>(stage)) return stage->getNumOperands();
  auto contract = llvm::dyn_cast<ContractOp>(stage);
  return contract ? static_cast<unsigned>(contract.getStepReads()) : 0;
}

SmallVector<unsigned> gathers_of(Operation* stage, unsigned read) {
  unsigned last = first_read_of_last_body(stage), first = read < last ? 0 : last;
  auto scatter = llvm::dyn_cast<ScatterOp>(stage);
  if (scatter && read < last && read >= scatter.getPlaceReads()) first = static_cast<unsigned>(scatter.getPlaceReads());
  auto sieve = llvm::dyn_cast<SieveOp>(stage);
  if (sieve && read < last && read >= sieve.getLimitReads()) first = static_cast<unsigned>(sieve.getLimitReads());
  if (auto walk = llvm::dyn_cast<WalkOp>(stage)) {
    for (int64_t reads : {walk.getStartReads(), walk.getNextReads()}) {
      if (read >= first + reads) first += static_cast<unsigned>(reads);
    }
  }
  return llvm::map_to_vector(access_of(stage, read).getGathers(), [&](unsigned gathered) { return first + gathered; });
}

namespace {

// Checks that reads [first, first + count) are over `rank` dimensions and fit their tensors.
LogicalResult verify_reads(Operation* op, unsigned first, unsigned count, unsigned rank) {
  for (unsigned i = first; i < first + count; ++i) {
    AccessAttr access = access_of(op, i);
    RankedTensorType type = tx::tensor(op->getOperand(i));
    unsigned dims = rank + static_cast<unsigned>(access.getGathers().size());
    if (access.getMap().getNumDims() != dims) {
      return op->emitOpError("read ") << i << " is over " << access.getMap().getNumDims() << " dimensions; " << dims << " were expected";
    }
    if (static_cast<int64_t>(access.getMap().getNumResults()) != type.getRank()) {
      return op->emitOpError("read ") << i << " gives " << access.getMap().getNumResults() << " indices of a tensor of rank "
                                      << type.getRank();
    }
    for (unsigned gathered : access.getGathers()) {
      if (gathered >= i - first)
        return op->emitOpError("read ") << i << " is at indices of read " << first + gathered << ", which is not before it";
      Type element = tx::tensor(op->getOperand(first + gathered)).getElementType();
      if (!llvm::isa<IntegerType>(element)) return op->emitOpError("read ") << i << " is at indices of " << element;
    }
    for (AffineExpr index : access.getMap().getResults()) {
      bool is_gathered = false;
      for (unsigned d = rank; d < dims; ++d) is_gathered |= index.isFunctionOfDim(d);
      if (is_gathered && !llvm::isa<AffineDimExpr>(index)) return op->emitOpError("read ") << i << " computes with an index that it reads";
    }
    if (access.getOutside() && !access.getGathers().empty()) {
      return op->emitOpError("read ") << i << " is at indices that are read, which are inside; it has a value for outside";
    }
    if (access.getOutside() && access.getOutside().getType() != scalar_type(type.getElementType())) {
      return op->emitOpError("read ") << i << " is " << access.getOutside().getType() << " outside of a tensor of "
                                      << type.getElementType();
    }
  }
  return success();
}

// Checks that the block has these arguments: indices of `rank` dimensions, reads [first, first + count), and `more`.
LogicalResult verify_arguments(Operation* op, StringRef name, Block& body, unsigned rank, unsigned first, unsigned count, TypeRange more) {
  SmallVector<Type> expected(rank, IntegerType::get(op->getContext(), 64));
  for (unsigned i = first; i < first + count; ++i) expected.push_back(scalar_type(tx::tensor(op->getOperand(i)).getElementType()));
  llvm::append_range(expected, more);
  if (body.getArgumentTypes() == TypeRange(expected)) return success();
  InFlightDiagnostic error = op->emitOpError("'") << name << "' has arguments of other types; expected (";
  llvm::interleaveComma(expected, error);
  return error << ")";
}

// The body's terminator; null if it has none, which is possible while its op is verified.
YieldOp yield_of(Block& body) {
  return body.empty() ? YieldOp() : llvm::dyn_cast<YieldOp>(body.back());
}

// The types of the values that the body yields. verify_yield distinguishes none from a missing yield.
SmallVector<Type> yielded(Block& body) {
  YieldOp yield = yield_of(body);
  return yield ? SmallVector<Type>(yield.getOperandTypes()) : SmallVector<Type>();
}

LogicalResult verify_yield(Operation* op, StringRef name, Block& body, TypeRange expected) {
  YieldOp yield = yield_of(body);
  if (!yield) return op->emitOpError("'") << name << "' does not end with stage.yield";
  if (yield.getOperandTypes() == expected) return success();
  InFlightDiagnostic error = op->emitOpError("'") << name << "' yields values of other types; expected (";
  llvm::interleaveComma(expected, error);
  return error << ")";
}

LogicalResult verify_common(Operation* op, ArrayAttr accesses, DomainAttr domain) {
  if (accesses.size() != op->getNumOperands()) {
    return op->emitOpError("has ") << op->getNumOperands() << " reads and " << accesses.size() << " accesses";
  }
  if (domain.getExtents().getNumDims() != 0) return op->emitOpError("has extents over dimensions; only symbols may be in them");
  if (domain.getReduced() > domain.getRank()) {
    return op->emitOpError("reduces ") << domain.getReduced() << " of " << domain.getRank() << " dimensions";
  }
  if (!domain.getWithin().empty() && !llvm::isa<FoldOp, ContractOp>(op))
    return op->emitOpError("leaves elements out by 'within'; stage.fold and stage.contract do");
  for (AffineMap bounded : domain.getWithin()) {
    if (bounded.getNumDims() != domain.getRank() || bounded.getNumResults() != 2 || !bounded.getResult(1).isSymbolicOrConstant()) {
      return op->emitOpError("has ") << AffineMapAttr::get(bounded) << " in 'within'; an index over " << domain.getRank()
                                     << " dimensions and its bound over symbols were expected";
    }
  }
  AffineExpr count = getAffineConstantExpr(1, op->getContext());
  for (AffineExpr extent : domain.parallel()) count = count * extent;
  for (Value result : op->getResults()) {
    AffineExpr own = tx::element_count(tx::tensor(result));
    auto fixed = tx::static_extent(count), own_fixed = tx::static_extent(own);
    if (fixed && own_fixed && *fixed != *own_fixed) {
      return op->emitOpError("has ") << *fixed << " indices in its parallel dimensions and a result of " << *own_fixed << " elements";
    }
  }
  return success();
}

LogicalResult verify_step_reads(Operation* op, int64_t step_reads) {
  const int64_t reads = op->getNumOperands();
  if (step_reads < 0 || step_reads > reads) return op->emitOpError("has ") << reads << " reads, and step_reads is " << step_reads;
  return success();
}

// The first `step_reads` reads are over the whole domain, the others over its parallel dimensions.
LogicalResult verify_two_bodies(Operation* op, int64_t step_reads, DomainAttr domain) {
  if (failed(verify_step_reads(op, step_reads))) return failure();
  const int64_t reads = op->getNumOperands();
  if (failed(verify_reads(op, 0, static_cast<unsigned>(step_reads), domain.getRank()))) return failure();
  return verify_reads(op, static_cast<unsigned>(step_reads), static_cast<unsigned>(reads - step_reads), domain.getParallelRank());
}

// Checks that these bodies, and the first reads, do not depend on an index along the dimension.
LogicalResult verify_independence(Operation* op, ArrayRef<Block*> bodies, unsigned reads, unsigned dimension) {
  bool depends = llvm::any_of(bodies, [&](Block* body) { return !body->getArgument(dimension).use_empty(); });
  for (unsigned i = 0; i < reads; ++i) depends |= access_of(op, i).getMap().isFunctionOfDim(dimension);
  if (depends) return op->emitOpError("reads what depends on dimension ") << dimension << ", along which it goes";
  return success();
}

SmallVector<Type> result_scalars(Operation* op) {
  return llvm::map_to_vector(op->getResults(), [](Value result) { return scalar_type(tx::tensor(result).getElementType()); });
}

}  // namespace

LogicalResult ExtentOp::verify() {
  AffineMap map = getExpression();
  if (map.getNumDims() != 0 || map.getNumResults() != 1)
    return emitOpError("is one expression over symbols; this is ") << getExpressionAttr();
  return success();
}

LogicalResult MapOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (getDomain().getReduced() != 0) return emitOpError("reduces dimensions; stage.fold does");
  unsigned rank = getDomain().getRank(), reads = getReads().size();
  if (failed(verify_reads(*this, 0, reads, rank))) return failure();
  Block& body = getBody().front();
  if (failed(verify_arguments(*this, "body", body, rank, 0, reads, {}))) return failure();
  return verify_yield(*this, "body", body, result_scalars(*this));
}

LogicalResult FoldOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (failed(verify_two_bodies(*this, getStepReads(), getDomain()))) return failure();
  unsigned rank = getDomain().getRank(), parallel = getDomain().getParallelRank();
  unsigned in_step = static_cast<unsigned>(getStepReads()), in_finish = getReads().size() - in_step;
  Block &init = getInit().front(), &step = getStep().front(), &merge = getMerge().front(), &finish = getFinish().front();
  SmallVector<Type> accumulators = yielded(init), both = accumulators;
  llvm::append_range(both, accumulators);
  if (accumulators.empty()) return emitOpError("has no accumulators");
  if (failed(verify_arguments(*this, "init", init, 0, 0, 0, {})) || failed(verify_yield(*this, "init", init, accumulators)) ||
      failed(verify_arguments(*this, "step", step, rank, 0, in_step, accumulators)) ||
      failed(verify_yield(*this, "step", step, accumulators)) || failed(verify_arguments(*this, "merge", merge, 0, 0, 0, both)) ||
      failed(verify_yield(*this, "merge", merge, accumulators)) ||
      failed(verify_arguments(*this, "finish", finish, parallel, in_step, in_finish, accumulators))) {
    return failure();
  }
  return verify_yield(*this, "finish", finish, result_scalars(*this));
}

LogicalResult ScanOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (getDomain().getReduced() != 0) return emitOpError("reduces dimensions; stage.fold does");
  unsigned rank = getDomain().getRank(), in_step = static_cast<unsigned>(getStepReads()), of_step = getPlaced() ? rank + 1 : rank;
  if (failed(verify_step_reads(*this, static_cast<int64_t>(getStepReads())))) return failure();
  unsigned in_finish = getReads().size() - in_step;
  if (failed(verify_reads(*this, 0, in_step, of_step)) || failed(verify_reads(*this, in_step, in_finish, rank))) return failure();
  if (getAlong() >= rank) return emitOpError("goes along dimension ") << getAlong() << " of " << rank;
  Block &init = getInit().front(), &step = getStep().front(), &finish = getFinish().front();
  SmallVector<Type> accumulators = yielded(init), both = accumulators;
  llvm::append_range(both, accumulators);
  if (accumulators.empty()) return emitOpError("has no accumulators");
  if (getPlaced() && !accumulators.front().isInteger(64))
    return emitOpError("has a place of ") << accumulators.front() << "; i64 was expected";
  if (failed(verify_arguments(*this, "init", init, 0, 0, 0, {})) || failed(verify_yield(*this, "init", init, accumulators)) ||
      failed(verify_arguments(*this, "step", step, of_step, 0, in_step, accumulators)) ||
      failed(verify_yield(*this, "step", step, accumulators)) ||
      failed(verify_arguments(*this, "finish", finish, rank, in_step, in_finish, both))) {
    return failure();
  }
  return verify_yield(*this, "finish", finish, result_scalars(*this));
}

LogicalResult ContractOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (failed(verify_two_bodies(*this, getStepReads(), getDomain()))) return failure();
  Type accumulator = getAccumulator();
  if (!accumulator.isSignlessIntOrFloat())
    return emitOpError("accumulates ") << accumulator << "; a float or an integer without sign was expected";
  unsigned rank = getDomain().getRank(), parallel = getDomain().getParallelRank();
  unsigned in_step = static_cast<unsigned>(getStepReads()), in_finish = getReads().size() - in_step;
  Block &factors = getFactors().front(), &finish = getFinish().front();
  if (failed(verify_arguments(*this, "factors", factors, rank, 0, in_step, {})) ||
      failed(verify_yield(*this, "factors", factors, {accumulator, accumulator})) ||
      failed(verify_arguments(*this, "finish", finish, parallel, in_step, in_finish, accumulator))) {
    return failure();
  }
  return verify_yield(*this, "finish", finish, result_scalars(*this));
}

LogicalResult ScatterOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (getDomain().getReduced() != 1) return emitOpError("reduces ") << getDomain().getReduced() << " dimensions; 1 was expected";
  unsigned rank = getDomain().getRank(), parallel = getDomain().getParallelRank();
  if (getAlong() >= parallel) return emitOpError("goes along dimension ") << getAlong() << " of " << parallel;
  const uint64_t in_place = getPlaceReads(), in_step = getStepReads(), reads = getReads().size();
  if (in_place > reads || in_step > reads - in_place)
    return emitOpError("has ") << reads << " reads, and place_reads and step_reads are " << in_place << " and " << in_step;
  unsigned first = static_cast<unsigned>(in_place), last = static_cast<unsigned>(in_place + in_step);
  if (failed(verify_reads(*this, 0, first, rank)) || failed(verify_reads(*this, first, last - first, rank)) ||
      failed(verify_reads(*this, last, static_cast<unsigned>(reads) - last, parallel))) {
    return failure();
  }
  SmallVector<Type> elements = result_scalars(*this);
  Block &place = getPlace().front(), &step = getStep().front(), &init = getInit().front();
  if (failed(verify_arguments(*this, "place", place, rank, 0, first, {})) ||
      failed(verify_yield(*this, "place", place, IntegerType::get(getContext(), 64))) ||
      failed(verify_arguments(*this, "step", step, rank, first, last - first, elements)) ||
      failed(verify_yield(*this, "step", step, elements)) ||
      failed(verify_arguments(*this, "init", init, parallel, last, static_cast<unsigned>(reads) - last, {})) ||
      failed(verify_yield(*this, "init", init, elements))) {
    return failure();
  }
  return verify_independence(*this, {&place, &step}, last, static_cast<unsigned>(getAlong()));
}

LogicalResult SieveOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (getDomain().getReduced() != 1) return emitOpError("reduces ") << getDomain().getReduced() << " dimensions; 1 was expected";
  unsigned rank = getDomain().getRank(), parallel = getDomain().getParallelRank(), along = static_cast<unsigned>(getAlong());
  if (getAlong() >= parallel) return emitOpError("goes along dimension ") << getAlong() << " of " << parallel;
  const uint64_t in_limit = getLimitReads(), in_step = getStepReads(), reads = getReads().size();
  if (in_limit > reads || in_step > reads - in_limit)
    return emitOpError("has ") << reads << " reads, and limit_reads and step_reads are " << in_limit << " and " << in_step;
  Type i1 = IntegerType::get(getContext(), 1);
  if (tx::element_of(getResult()) != i1) return emitOpError("gives ") << tx::element_of(getResult()) << "; i1 was expected";
  unsigned first = static_cast<unsigned>(in_limit), last = static_cast<unsigned>(in_limit + in_step),
           rest = static_cast<unsigned>(reads) - last;
  if (failed(verify_reads(*this, 0, first, parallel)) || failed(verify_reads(*this, first, last - first, rank)) ||
      failed(verify_reads(*this, last, rest, parallel))) {
    return failure();
  }
  Block &limit = getLimit().front(), &removes = getRemoves().front(), &init = getInit().front();
  auto yields = [&](StringRef name, Block& body, Type expected) -> LogicalResult {
    auto yield = body.empty() ? SieveYieldOp() : llvm::dyn_cast<SieveYieldOp>(body.back());
    if (yield && yield.getValue().getType() == expected) return success();
    return emitOpError("'") << name << "' does not end with stage.sieve_yield of " << expected;
  };
  if (failed(verify_arguments(*this, "limit", limit, parallel, 0, first, {})) ||
      failed(yields("limit", limit, IntegerType::get(getContext(), 64))) ||
      failed(verify_arguments(*this, "removes", removes, rank, first, last - first, {})) || failed(yields("removes", removes, i1)) ||
      failed(verify_arguments(*this, "init", init, parallel, last, rest, {})) || failed(yields("init", init, i1))) {
    return failure();
  }
  return verify_independence(*this, {&limit}, first, along);
}

LogicalResult WalkOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (getDomain().getReduced() != 1) return emitOpError("reduces ") << getDomain().getReduced() << " dimensions; 1 was expected";
  const unsigned rank = getDomain().getRank(), parallel = getDomain().getParallelRank();
  if (getAlong() >= parallel) return emitOpError("goes along dimension ") << getAlong() << " of " << parallel;
  const uint64_t in_start = getStartReads(), in_next = getNextReads(), reads = getReads().size();
  if (in_start > reads || in_next > reads - in_start)
    return emitOpError("has ") << reads << " reads, and start_reads and next_reads are " << in_start << " and " << in_next;
  const auto first = static_cast<unsigned>(in_start), last = static_cast<unsigned>(in_start + in_next),
             in_update = static_cast<unsigned>(reads) - last;
  if (failed(verify_reads(*this, 0, first, rank)) || failed(verify_reads(*this, first, last - first, rank + 1)) ||
      failed(verify_reads(*this, last, in_update, rank + 1))) {
    return failure();
  }
  const Type place = IntegerType::get(getContext(), 64);
  const SmallVector<Type> elements = result_scalars(*this);
  Block &start = getStart().front(), &next = getNext().front(), &update = getUpdate().front(), &init = getInit().front();
  if (failed(verify_arguments(*this, "start", start, rank, 0, first, {})) || failed(verify_yield(*this, "start", start, place)) ||
      failed(verify_arguments(*this, "next", next, rank + 1, first, last - first, {})) ||
      failed(verify_yield(*this, "next", next, place)) ||
      failed(verify_arguments(*this, "update", update, rank + 1, last, in_update, elements)) ||
      failed(verify_yield(*this, "update", update, elements)) || failed(verify_arguments(*this, "init", init, parallel, 0, 0, {})) ||
      failed(verify_yield(*this, "init", init, elements))) {
    return failure();
  }
  return verify_independence(*this, {&start, &next}, last, static_cast<unsigned>(getAlong()));
}

LogicalResult SortOp::verify() {
  if (failed(verify_common(*this, getAccesses(), getDomain()))) return failure();
  if (getDomain().getReduced() != 1) return emitOpError("reduces ") << getDomain().getReduced() << " dimensions; 1 was expected";
  unsigned rank = getDomain().getRank(), reads = getReads().size();
  if (getAlong() >= getDomain().getParallelRank())
    return emitOpError("goes along dimension ") << getAlong() << " of " << getDomain().getParallelRank();
  Type i64 = IntegerType::get(getContext(), 64);
  if (tx::element_of(getResult()) != i64) return emitOpError("gives ") << tx::element_of(getResult()) << "; i64 was expected";
  if (failed(verify_reads(*this, 0, reads, rank))) return failure();
  Block &element = getElement().front(), &before = getBefore().front();
  SmallVector<Type> compared = yielded(element), both = compared;
  llvm::append_range(both, compared);
  if (failed(verify_arguments(*this, "element", element, rank, 0, reads, {})) ||
      failed(verify_yield(*this, "element", element, compared)) || failed(verify_arguments(*this, "before", before, 0, 0, 0, both)) ||
      failed(verify_yield(*this, "before", before, IntegerType::get(getContext(), 1)))) {
    return failure();
  }
  return verify_independence(*this, {&element}, reads, static_cast<unsigned>(getAlong()));
}

}  // namespace heddle::stage
