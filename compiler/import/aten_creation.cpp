// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors that are made of numbers and shapes. A tensor that PyTorch leaves uninitialized has zeros.
#include "compiler/import/aten_program.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

Value filled(Op& op, const Term& term) {
  return op.node.broadcast(op.value_of(term, op.result_element()), op.result_extents());
}
void full(Op& op) {
  op.set(filled(op, op.term("fill_value")));
}
void fill(Op& op) {
  op.set(filled(op, op.term("value")));
}
void scalar(Op& op) {
  op.set(filled(op, op.term("s")));
}
template <int value>
void number(Op& op) {
  op.set(op.node.splat(op.result_type(), value));
}

// start, start + step, ... Floats are computed in f64.
Value stepped(Op& op, const Term& start, const Term& step) {
  const Type element = op.result_element(), compute = Op::is_float(element) ? Type(op.builder.getF64Type()) : op.builder.getI64Type();
  const Extents extents = op.result_extents();
  if (extents.size() != 1) op.fail("its result is not a vector");
  Value index = op.converted(op.m.iota(extents, 0, op.builder.getI64Type()), compute);
  Value first = op.node.broadcast(op.value_of(start, compute), extents), by = op.node.broadcast(op.value_of(step, compute), extents);
  return op.m.add(first, op.m.mul(index, by));
}
Term term_or(Op& op, const char* name, int64_t otherwise) {
  return op.has(name) ? op.term(name) : Term{{}, op.builder.getI64IntegerAttr(otherwise)};
}
void arange(Op& op) {
  op.set(stepped(op, term_or(op, "start", 0), term_or(op, "step", 1)));
}
// prims.iota(length, start, step)
void iota(Op& op) {
  op.set(stepped(op, term_or(op, "start", 0), term_or(op, "step", 1)));
}

}  // namespace

const Table& creation_ops() {
  static const Table table = {
      {"aten.arange.default", arange},
      {"aten.arange.start", arange},
      {"aten.arange.start_step", arange},
      {"aten.empty.memory_format", number<0>},
      {"aten.empty_like.default", number<0>},
      {"aten.empty_permuted.default", number<0>},
      {"aten.empty_strided.default", number<0>},
      {"aten.fill.Scalar", fill},
      {"aten.fill.Tensor", fill},
      {"aten.full.default", full},
      {"aten.full_like.default", full},
      {"aten.new_empty.default", number<0>},
      {"aten.new_full.default", full},
      {"aten.new_ones.default", number<1>},
      {"aten.new_zeros.default", number<0>},
      {"aten.ones.default", number<1>},
      {"aten.ones_like.default", number<1>},
      {"aten.scalar_tensor.default", scalar},
      {"aten.zeros.default", number<0>},
      {"aten.zeros_like.default", number<0>},
      {"prims.iota.default", iota},
  };
  return table;
}

}  // namespace heddle::import::aten
