// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See attention_shape.h.
#include "compiler/targets/attention_shape.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// One operand of a product: its position in `factors`, and the parallel dimensions that it depends on.
struct Factor {
  unsigned number;  // position among the values that `factors` yields
  llvm::DenseSet<unsigned> dims;
};

Factor factor_of(stage::ContractOp product, unsigned number) {
  Factor factor{number, {}};
  Block& body = product.getFactors().front();
  unsigned rank = product.getDomain().getRank();
  SmallVector<Value> waiting = {body.getTerminator()->getOperand(number)};
  llvm::DenseSet<Value> seen;
  auto depend = [&](unsigned read, auto& self) -> void {
    AffineMap map = stage::access_of(product, read).getMap();
    for (unsigned d = 0; d < rank; ++d) {
      if (map.isFunctionOfDim(d)) factor.dims.insert(d);
    }
    for (unsigned gathered : stage::gathers_of(product, read)) self(gathered, self);
  };
  while (!waiting.empty()) {
    Value value = waiting.pop_back_val();
    if (!seen.insert(value).second) continue;
    if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
      if (argument.getArgNumber() < rank) {
        factor.dims.insert(argument.getArgNumber());
      } else {
        depend(argument.getArgNumber() - rank, depend);
      }
      continue;
    }
    llvm::append_range(waiting, value.getDefiningOp()->getOperands());
  }
  return factor;
}

std::optional<int64_t> only(ArrayRef<AffineExpr> extents) {
  return extents.size() == 1 ? tx::static_extent(extents.front()) : std::nullopt;
}

Type cast_of(tx::DispatchOp region, stage::ContractOp first, stage::ContractOp second) {
  Type found;
  for (auto [product, number] : {std::pair(first, 0u), {first, 1u}, {second, 1u}}) {
    auto cast = product.getFactors().front().getTerminator()->getOperand(number).getDefiningOp<arith::ExtFOp>();
    if (!cast || (found && cast.getIn().getType() != found)) return {};
    found = cast.getIn().getType();
  }
  bool is_half = found.isF16() || found.isBF16();
  return is_half && llvm::all_of(region.getOutputs(), [&](Value output) { return tx::tensor(output).getElementType() == found; }) ? found
                                                                                                                                  : Type();
}

}  // namespace

FailureOr<AttentionShape> AttentionShape::read(tx::DispatchOp region, StringRef who) {
  size_t products = 0;
  llvm::SmallSetVector<Type, 2> elements;
  for (Operation& op : region.getBody().front()) {
    if (!llvm::isa<tx::MatmulOp>(op)) continue;
    ++products;
    for (Value operand : op.getOperands()) elements.insert(tx::tensor(operand).getElementType());
  }
  if (products != 2) return failure();
  std::string reason;
  auto refuse = [&](const Twine& why) { return FailureOr<AttentionShape>(region.emitError() << who << ": attention: " << why); };
  auto staged = stage::form_stages(region, reason);
  if (failed(staged)) return refuse(reason);
  AttentionShape result;
  if (elements.size() == 1) result.element = elements.front();
  result.staged = std::move(*staged);
  auto rows = RowsKernel::read_between(region, result.staged);
  if (failed(rows)) return refuse("the ops between the products do not go through rows");
  result.rows = std::move(*rows);
  Block& body = result.staged.region.getBody().front();
  result.first = llvm::cast<stage::ContractOp>(body.front());
  result.second = llvm::cast<stage::ContractOp>(body.getTerminator()->getPrevNode());
  for (stage::ContractOp product : {result.first, result.second}) {
    if (!product.getAccumulator().isF32()) return refuse("the products are not summed in f32");
  }
  if (result.element && result.element.isF32()) result.cast_from = cast_of(region, result.first, result.second);
  auto depth = only(result.first.getDomain().folded());
  if (!depth || *depth == 0) return refuse("the length of the first product's sums is not static");
  result.depth = *depth;
  ArrayRef<AffineExpr> keys = result.second.getDomain().folded();
  if (keys.size() != 1 || !tx::is_positive(keys.front())) return refuse("the number of keys may be 0");
  result.keys = keys.front();

  unsigned row_dims = static_cast<unsigned>(result.rows.rows().size());
  ArrayRef<unsigned> of_first = result.rows.dimensions_of(result.first);
  auto key = llvm::find(of_first, row_dims);
  if (key == of_first.end()) return refuse("there is only one key");
  result.first_key = static_cast<unsigned>(key - of_first.begin());
  if (result.first.getDomain().parallel()[result.first_key] != result.keys) return refuse("the numbers of keys and values differ");
  // The factor of the keys; the other one is of the queries, and must not depend on keys.
  Factor a = factor_of(result.first, 0), b = factor_of(result.first, 1);
  if (a.dims.contains(result.first_key) || !b.dims.contains(result.first_key)) return refuse("the keys are not the second operand");

  // The second product's first factor is the result for a row, at the row's place.
  Block& factors = result.second.getFactors().front();
  unsigned rank = result.second.getDomain().getRank();
  auto made = llvm::dyn_cast<BlockArgument>(factors.getTerminator()->getOperand(0));
  if (!made || made.getArgNumber() < rank) return refuse("the first operand of the second product is computed while it is read");
  unsigned read = made.getArgNumber() - rank;
  Operation* last = result.second->getOperand(read).getDefiningOp();
  if (!last) return refuse("the first operand of the second product does not come from the first product");
  auto is_made = [](Value operand) { return operand.getDefiningOp() != nullptr; };
  if (!made.hasOneUse() || llvm::count_if(result.second->getOperands(), is_made) != 1) return refuse("the rows are read twice");
  SmallVector<std::optional<unsigned>> second_of_row(row_dims + 1);
  ArrayRef<unsigned> of_last = result.rows.dimensions_of(last);
  for (auto [j, index] : llvm::enumerate(stage::access_of(result.second, read).getMap().getResults())) {
    auto dim = llvm::dyn_cast<AffineDimExpr>(index);
    if (of_last[j] > row_dims || tx::static_extent(stage::domain_of(last).parallel()[j]) == 1) continue;
    if (!dim) return refuse("the rows are read at other indices");
    second_of_row[of_last[j]] = dim.getPosition();
  }
  unsigned second_key = rank - 1;
  if (second_of_row[row_dims] != second_key) return refuse("the second product does not sum along a row");
  stage::DomainAttr domain = result.second.getDomain();
  for (unsigned d = 0; d < domain.getParallelRank(); ++d) {
    if (llvm::is_contained(second_of_row, std::optional(d)) || tx::static_extent(domain.parallel()[d]) == 1) continue;
    if (result.second_column) return refuse("the values have several dimensions of columns");
    result.second_column = d;
  }
  if (result.second_column) {
    auto columns = tx::static_extent(domain.parallel()[*result.second_column]);
    if (!columns || *columns == 0) return refuse("the number of columns is not static");
    result.columns = *columns;
  }

  // Queries: the last dimension of rows that neither keys nor values depend on.
  Factor values = factor_of(result.second, 1);
  for (unsigned dim = row_dims; dim-- > 0;) {
    if (tx::static_extent(result.rows.rows()[dim]) == 1) continue;
    auto in_first = llvm::find(of_first, dim);
    bool keys_depend = in_first != of_first.end() && b.dims.contains(static_cast<unsigned>(in_first - of_first.begin()));
    bool values_depend = second_of_row[dim] && values.dims.contains(*second_of_row[dim]);
    if (keys_depend || values_depend) continue;
    result.query = dim;
    break;
  }
  result.batch.assign(result.rows.rows().begin(), result.rows.rows().end());
  AffineExpr one = getAffineConstantExpr(1, region.getContext());
  result.queries = result.query ? result.batch[*result.query] : one;
  if (!tx::is_positive(result.queries)) return refuse("the number of queries may be 0");
  if (result.query) result.batch[*result.query] = one;

  return result;
}

bool AttentionShape::has_neighboring_columns() const {
  if (!second_column) return true;
  AffineExpr step = getAffineConstantExpr(1, second->getContext());
  for (AffineExpr extent : stage_domain(second).parallel().drop_front(*second_column + 1)) step = step * extent;
  return tx::static_extent(step) == 1;
}

SmallVector<Value> AttentionShape::first_index(KernelBuilder& k, ArrayRef<Value> element, Value query_index, Value key,
                                               Value depth_index) const {
  SmallVector<Value> index;
  unsigned row_dims = static_cast<unsigned>(rows.rows().size());
  for (unsigned dim : rows.dimensions_of(first)) {
    bool is_row = dim < row_dims;
    index.push_back(dim == row_dims ? key : !is_row ? k.index(0) : query == dim ? query_index : element[dim]);
  }
  index.push_back(depth_index);
  return index;
}

SmallVector<Value> AttentionShape::second_index(KernelBuilder& k, ArrayRef<Value> element, Value query_index, Value column,
                                                Value key) const {
  SmallVector<Value> index(stage_domain(second).getParallelRank(), k.index(0));
  if (second_column) index[*second_column] = column;
  Operation* last = nullptr;
  unsigned read = 0;
  for (unsigned i = 0; i < second->getNumOperands(); ++i) {
    if (Operation* made = second->getOperand(i).getDefiningOp()) {
      last = made;
      read = i;
    }
  }
  unsigned row_dims = static_cast<unsigned>(rows.rows().size());
  for (auto [expression, dim] : llvm::zip(stage::access_of(second, read).getMap().getResults(), rows.dimensions_of(last))) {
    auto own = llvm::dyn_cast<AffineDimExpr>(expression);
    if (own && dim < row_dims && own.getPosition() < index.size()) index[own.getPosition()] = query == dim ? query_index : element[dim];
  }
  if (key) index.push_back(key);
  return index;
}

Value AttentionShape::factor(KernelBuilder& k, stage::ContractOp product, unsigned number, const BodyPlace& place) {
  BodyEmitter body(k, product, [&](unsigned, const BodyPlace&) { return Element{k.constant(k.builder.getF32Type(), 0), false}; });
  SmallVector<Element> both = body.run(product.getFactors().front(), 0, static_cast<unsigned>(product.getStepReads()), {}, place);
  return body.to_lanes(both[number], place.lanes).value;
}

void AttentionShape::store(KernelBuilder& k, ArrayRef<Value> element, Value query_index, Value column, Value sums, int64_t lanes,
                           Value mask) const {
  stage::ContractOp product = second;
  BodyPlace place;
  place.index = second_index(k, element, query_index, column, {});
  if (second_column && lanes > 0) {
    place.lanes = lanes;
    place.lane_dimension = *second_column;
    place.mask = mask;
  }
  BodyEmitter body(k, product, [](unsigned, const BodyPlace&) -> Element { llvm_unreachable("no other stage is read"); });
  unsigned first_read = stage::first_read_of_last_body(product), count = product->getNumOperands() - first_read;
  AffineExpr linear = getAffineConstantExpr(0, product->getContext());
  for (auto [d, extent] : llvm::enumerate(product.getDomain().parallel()))
    linear = linear * extent + getAffineDimExpr(static_cast<unsigned>(d), product->getContext());
  Value to = body.evaluate(linear, place.index);
  for (auto [i, result] : llvm::enumerate(body.run(stage::last_body(product), first_read, count, Element{sums, place.lanes > 0}, place)))
    k.store(body.to_lanes(result, place.lanes).value, k.result(static_cast<unsigned>(i)), to, mask);
}

}  // namespace heddle::targets
