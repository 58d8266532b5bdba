// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See output_space.h.
#include "compiler/targets/output_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// The first concat that the value is, or is computed from by element-wise ops only, and that has no other readers.
tx::ConcatOp concat_behind(Value value, llvm::DenseSet<Value>& seen) {
  Operation* op = value.getDefiningOp();
  if (!op || !seen.insert(value).second) return {};
  if (auto concat = llvm::dyn_cast<tx::ConcatOp>(op)) return tx::stays_in_place(concat) ? concat : tx::ConcatOp();
  if (!tx::is_elementwise(op)) return {};
  for (Value operand : op->getOperands()) {
    if (auto concat = concat_behind(operand, seen)) return concat;
  }
  return {};
}

OutputSpace make_space(ArrayRef<Output> outputs, tx::ConcatOp concat, unsigned input) {
  OutputSpace space;
  auto type = tx::tensor(outputs.front().value);
  MLIRContext* context = type.getContext();
  space.extents = tx::extents(type);
  space.is_scalar = space.extents.empty();
  space.concat = concat;
  space.input = input;
  space.start = getAffineConstantExpr(0, context);
  if (space.is_scalar) space.extents.push_back(getAffineConstantExpr(1, context));
  if (concat) {
    space.axis = static_cast<unsigned>(concat.getAxis());
    for (unsigned i = 0; i < input; ++i) space.start = space.start + tx::extents(tx::tensor(concat.getInputs()[i]))[space.axis];
    space.extents[space.axis] = tx::extents(tx::tensor(concat.getInputs()[input]))[space.axis];
  }
  auto can_walk_as_one = [&](unsigned count) {
    if (concat && space.axis > space.extents.size() - count) return false;
    return llvm::all_of(outputs, [&](const Output& output) { return can_flatten(output.value, count, concat); });
  };
  while (space.flattened < space.extents.size() && can_walk_as_one(space.flattened + 1)) ++space.flattened;
  return space;
}

}  // namespace

Point OutputSpace::point(KernelBuilder& k, ValueRange outer, Value inner, int64_t lanes, Value mask) const {
  Point point;
  point.lanes = lanes;
  point.mask = mask;
  if (is_scalar) return point;
  for (Value index : outer) point.at.push_back({index, 0, {}});
  for (unsigned d = 0; d + 1 < flattened; ++d) point.at.push_back({k.index(0), 0, {}});
  point.at.push_back({inner, lanes > 0 ? 1 : 0, {}});
  if (concat) point.at[axis].base = k.add(point.at[axis].base, k.extent(start));
  return point;
}

std::vector<OutputSpace> output_spaces(ArrayRef<Output> outputs) {
  llvm::DenseSet<Value> seen;
  tx::ConcatOp concat;
  for (const Output& output : outputs) {
    if (!concat) concat = concat_behind(output.value, seen);
  }
  if (!concat) return {make_space(outputs, {}, 0)};
  std::vector<OutputSpace> spaces;
  for (unsigned i = 0; i < concat.getInputs().size(); ++i) {
    if (tx::tensor(concat.getInputs()[i]).getDimSize(concat.getAxis()) != 0) spaces.push_back(make_space(outputs, concat, i));
  }
  return spaces;
}

}  // namespace heddle::targets
