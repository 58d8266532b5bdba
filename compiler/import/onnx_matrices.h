// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operands of MatMul and of its relatives. Defined in onnx_linear.cpp.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// Operands and result of a matmul with ranks of at least 2, whose batch dimensions are broadcast.
struct Matrices {
  mlir::Value a, b;
  Extents extents;  // of the product
  bool vector_a, vector_b;

  // The product, or what is added to it, with the extents of the node's result.
  mlir::Value result(Node& node, mlir::Value value) const {
    Extents own = extents;
    if (vector_b) own.pop_back();
    if (vector_a) own.erase(own.end() - (vector_b ? 1 : 2));
    return vector_a || vector_b ? node.reshape(value, own) : value;
  }
};

// Operands a and b of a node, with ranks of at least 1, as MatMul pairs them. Refuses extents that do not fit.
Matrices matrices_of(Node& node, mlir::Value a, mlir::Value b);

}  // namespace heddle::import
