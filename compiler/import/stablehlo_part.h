// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that branches and loops call (compiler/ir/control.h), while they are made of regions of StableHLO or by translations of ops that compute
// step by step.
#pragma once

#include <vector>

#include "compiler/import/stablehlo_program.h"

namespace heddle::import::stablehlo {

// All tensors of a value, members of tuples included; and the value with others in their place.
void collect_parts(const Data& data, llvm::SmallVector<mlir::Value>& parts);
Data with_parts(const Data& data, llvm::function_ref<mlir::Value(mlir::Value)> change);
llvm::SmallVector<mlir::Value> flat(const std::vector<Data>& all);
// Data of the same forms, of these tensors.
std::vector<Data> like(const std::vector<Data>& forms, llvm::ArrayRef<mlir::Value> parts);
// Null if the scope does not have the value.
const Data* find(const Scope& inner, mlir::Value value);

// What regions take from outside: values of the program, and the tensors among them that are not constants.
struct Captured {
  llvm::SmallVector<std::pair<mlir::Value, Data>> values;
  llvm::SmallVector<mlir::Value> tensors;
};
// `more`: a value that is not of the program, and is taken, too.
Captured captured_by(const Op& op, const Scope& scope, llvm::ArrayRef<mlir::Region*> regions, const Data& more = {});

// A private function while it is made. The values that it takes from outside are its last arguments; constants are repeated in it, so that they are
// its own weights.
class Part {
 public:
  // `name` is behind the name of the function that the op is in.
  Part(Op& op, const std::string& name);

  mlir::FlatSymbolRefAttr name();
  llvm::SmallVector<mlir::Value>& results() { return results_; }
  // Arguments for all tensors of the data. Before translate.
  Data argument(const Data& like);
  // `make` translates what the function does, at the builder's place, and returns what it gives. The scope has what was captured, and the last argument
  // is what stands for `more` in the function.
  void translate(const Captured& captured, const Data& more,
                 llvm::function_ref<llvm::SmallVector<mlir::Value>(Scope& inside, const Data& more)> make);
  // Whether the type has an extent that is read in the function, so that it is known in it only. After translate.
  bool is_own(mlir::Type type) const;
  // Gives result `index` this type, which it has whenever the function runs, or a check refuses the call. After translate.
  void take_type(size_t index, mlir::RankedTensorType type, const std::string& what);
  // Ends the function. The memory of the first `carried` arguments is for results from `first_carried` on.
  void finish(size_t carried = 0, size_t first_carried = 0);

 private:
  mlir::BlockArgument add_argument(mlir::Value like);

  Op& op_;
  Graph& graph_;
  mlir::func::FuncOp function_;
  llvm::SmallVector<mlir::Value> results_;
  std::vector<Check> checks_;
  const size_t first_symbol_;
};

// What `step` makes of the values after that many steps. It is given the number of the step, an i64 of rank 0, the values before the step, and the
// tensors in `outside`, and returns as many values, of the same types.
using Step = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value number, llvm::ArrayRef<mlir::Value> before,
                                                               llvm::ArrayRef<mlir::Value> outside)>;
llvm::SmallVector<mlir::Value> stepped(Op& op, const std::string& name, int64_t steps, llvm::ArrayRef<mlir::Value> first,
                                       llvm::ArrayRef<mlir::Value> outside, Step step);

}  // namespace heddle::import::stablehlo
