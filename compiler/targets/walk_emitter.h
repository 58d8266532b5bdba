// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of walks (stage.walk). A step waits for the element that it reads, so several walks are taken at the same time: of neighboring lines, or
// of one line. Knows no strategy and no target.
#pragma once

#include "compiler/stage/walk.h"
#include "compiler/targets/stage_emitter.h"

namespace heddle::targets {

class WalkEmitter {
 public:
  WalkEmitter(KernelBuilder& kernel, stage::WalkOp walk);

  // A walk of a line: the index in the parallel dimensions, in which the one along the line is ignored, and the number of the walk.
  using Walk = std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>;

  // Stores the initial elements of a line.
  void store_initial(llvm::ArrayRef<mlir::Value> line);
  // Takes these walks at the same time, and updates the elements in memory, in order of the walks. With `lanes`, as many at a time.
  void take(llvm::ArrayRef<Walk> walks, int64_t lanes);
  // All walks of a line, `at_once` of them at the same time.
  void take_line(llvm::ArrayRef<mlir::Value> line, int64_t at_once, int64_t lanes);

 private:
  KernelBuilder::Values places_of(llvm::ArrayRef<Walk> walks);
  void update(const Walk& walk, mlir::Value place, int64_t lanes);
  mlir::Value memory_place(llvm::ArrayRef<mlir::Value> index) const;
  // The part of a line from `position` on, of one element or of lanes.
  void along(int64_t lanes, const std::function<void(mlir::Value position, int64_t lanes, mlir::Value mask)>& body);

  KernelBuilder& k_;
  stage::WalkOp walk_;
  stage::DomainAttr domain_;
  BodyEmitter body_;
  const size_t along_;
};

// A whole line, by one thread.
void emit_walks(KernelBuilder& kernel, stage::WalkOp walk, llvm::ArrayRef<mlir::Value> line);

}  // namespace heddle::targets
