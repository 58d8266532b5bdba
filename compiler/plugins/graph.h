// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ops of a function's regions as a graph for a target plugin (heddle/target.h), each with portable code of its own; and a region as a kernel. Asks
// nobody, and changes nothing.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/tx.h"
#include "heddle/sdk/target/messages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::plugins {

struct FunctionGraph {
  sdk::target::Graph graph;
  std::vector<mlir::Operation*> ops;  // of each node: in a region
  std::vector<tx::DispatchOp> groups;
};

// Constants of one value, and broadcasts of such, are part of each node that reads them and no nodes themselves.
bool is_part_of_readers(mlir::Operation* op);

// The regions on slots of the family. False, with the reason, if an op has no portable code; without a group, there is nothing to claim.
bool read_graph(mlir::func::FuncOp function, llvm::StringRef family, FunctionGraph& out, std::string& reason);

// A region's portable code: one kernel of the name. False: it has none. The region gets targets::several_stages_attr if it needs that.
bool encode_region(tx::DispatchOp region, llvm::StringRef name, std::string& code, std::string& reason);

// Of a list for a plugin or from one; expressions of the list were checked.
mlir::AffineExpr expression_of(const std::vector<sdk::target::Expression>& all, uint32_t which, mlir::MLIRContext* context);

}  // namespace heddle::plugins
