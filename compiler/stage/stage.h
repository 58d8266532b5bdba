// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C++ side of the stage dialect: op classes, and how a region of tx ops becomes stages. Knows no target.
#pragma once

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/OwningOpRef.h"

// Of walk.h; stage.yield may be in it.
namespace heddle::stage {
class WalkOp;
}

#include "stage_dialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "stage_attrs.h.inc"
#define GET_OP_CLASSES
#include "stage_ops.h.inc"

namespace heddle::stage {

// The type of a tensor's elements in bodies: integers are signless.
mlir::Type scalar_type(mlir::Type element);

// Domain and reads of a map, a fold or a contraction.
DomainAttr domain_of(mlir::Operation* stage);
mlir::OperandRange reads_of(mlir::Operation* stage);
AccessAttr access_of(mlir::Operation* stage, unsigned read);

// The body that makes an element of each result: the only body of a map, else `finish`. Its first read is reads_of()[first_read_of()].
mlir::Block& last_body(mlir::Operation* stage);
unsigned first_read_of_last_body(mlir::Operation* stage);

// The reads whose elements are indices of this one.
llvm::SmallVector<unsigned> gathers_of(mlir::Operation* stage, unsigned read);

// A dispatch with stages instead of tx ops in its body: the same operands, results and symbols, in a module of its own.
struct StagedRegion {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  tx::DispatchOp region;
};

// Which stages make the results of a region.
enum class Makers {
  last,     // the last stage, all of them
  several,  // the last stage, the results of the most elements; others have a stage each
};

// The stages of a region of tx ops. Fails with a reason, and without a diagnostic, if the region has ops without stages.
mlir::FailureOr<StagedRegion> form_stages(tx::DispatchOp region, std::string& reason, Makers makers = Makers::last);

// For heddle-opt.
void register_passes();

}  // namespace heddle::stage
