// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How heddle-form-dispatches groups the ops of a function, each group one region.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/tx.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/slots.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::passes {

// Limits of a region of rows, or of moved elements: more of them gain nothing.
inline constexpr size_t most_ops_of_rows = 64;

// Limit on the parts that are joined or sliced in one region: with each one, an element may be computed at more places.
inline constexpr size_t most_parts = 12;

// Whether it is a concat of so few parts that an element may be computed for each of them; no part may be empty.
bool is_narrow_concat(mlir::Operation* op);

bool is_splat(mlir::Value value);

// Why a region ends between these two, for reports. `reason` adds what `kind` does not say.
mlir::Attribute refusal(llvm::StringRef kind, mlir::Operation* producer, mlir::Operation* consumer, llvm::StringRef reason = {});

struct Group {
  mlir::Operation* root;                  // its first op
  llvm::SetVector<mlir::Operation*> ops;  // in program order once sorted
  mlir::Operation* output;                // its last op; the only one whose result leaves the group, except for those of siblings
  llvm::DenseSet<mlir::Value> reads;      // from outside, at most one binding each
  bool has_rows = false;                  // it may have several reductions of the same rows, and repeats any broadcast that it reads
  bool attends = false;                   // a softmax between two products
  llvm::SmallVector<mlir::Operation*> siblings = {};  // outputs of groups that became part of this one and do not depend on it
};

class Fuser {
 public:
  // most_reads: limit per region. Refusals to fuse are added to the log. devices: null if none are asked.
  Fuser(mlir::func::FuncOp function, unsigned most_reads, mlir::SmallVector<mlir::Attribute>& log, const Devices* devices)
      : function_(function), most_reads_(most_reads), log_(log), devices_(devices), slots_(function) {}

  mlir::LogicalResult run();

 private:
  // fusion.cpp

  Group& open(mlir::Operation* op);
  // Puts an op into the group of one of its producers, or into a new group.
  void place(mlir::Operation* op);
  // Makes an op that reads the group's output the last op of the group.
  void join(Group& group, mlir::Operation* op);
  // The element-wise ops through which all uses of a value meet in one op again, which is the last of them, as in x * sigmoid(x); empty if they do
  // not meet. In program order.
  std::vector<mlir::Operation*> ops_to_one(mlir::Value value) const;
  void count_reads(Group& group) const;
  // Replaces the group by one that also has all ops of these others.
  void replace(Group& group, Group wider, llvm::ArrayRef<Group*> others);
  static size_t parts_of(const Group& group);
  // Whether devices that the group may run on have a special kernel for it; otherwise why not.
  bool has_kernel(Group& group, std::string* why_not = nullptr);
  // Puts all uses of the group's value, which has several, into the group, if only one value leaves it then. The other operands of these ops do not
  // depend on the group: nothing else reads the values inside it.
  bool join_all_uses(Group& group, mlir::Value value, mlir::Operation* op);
  // Whether a contraction can store its result in the order of this transpose, with rows or pixels innermost instead of columns. This needs a
  // device with such a kernel, whose tiles are in shared memory as a whole. Other operands must not be read in the other order.
  bool ends_contraction(tx::TransposeOp transpose, std::string& why_not);
  // The operand of a transfer was produced on another slot: there is no group to join, only a refusal to record.
  void refuse_across_slots(mlir::Operation* op);
  // Nothing fuses with an operator of a plugin, or with a node that one may run, on either side.
  void refuse_around_operations(mlir::Operation* op);
  // Groups of maps that only this op reads become part of a group of maps.
  void merge_other_producers(Group& group, mlir::Operation* op);
  Group* producer(mlir::Value value) const;
  // Whether element-wise ops on the group's last value may be part of it.
  static bool may_go_on(const Group& group, mlir::Value value);
  bool can_join(Group& group, mlir::Value value, mlir::Operation* op);
  // What the group would read if the op, which reads its output, joined it.
  llvm::DenseSet<mlir::Value> reads_with(const Group& group, mlir::Operation* op) const;
  bool refuse(llvm::StringRef kind, Group& group, mlir::Operation* op, llvm::StringRef reason = {});
  void refuse_if_produced(mlir::Value value, mlir::Operation* op, llvm::StringRef kind, llvm::StringRef reason = {});
  // Whether this group can repeat the broadcast inside instead of reading a tensor.
  bool reads_inside(const Group& group, tx::BroadcastOp broadcast) const;
  llvm::StringRef family_of(const Group& group) const;
  // Broadcasts that are needed as tensors get their own kernels.
  void materialize_broadcasts();
  // Whether this op of the group reads its operands at places other than its own result's.
  static bool needs_tensors(const Group& group, mlir::Operation* reader);
  bool clones(const Group& group, mlir::Operation* reader, mlir::Value operand) const;
  // The value that the group needs a binding for, to read this operand of one of its ops; null for none. A broadcast counts as itself, not as its
  // input: if another op needs it as a tensor, all ops read that.
  mlir::Value binding_for(const Group& group, mlir::Operation* reader, mlir::Value operand) const;
  // "main.3.softmax": the function, a number in program order, and the root, or the operator of its node, which is its name until now. Hand-written
  // regions keep their names.
  void name_regions();
  tx::DispatchOp outline(Group& group);
  // Joins regions that have become several results of one (join_regions.h), and notes what each became.
  void join_regions(llvm::DenseMap<Group*, mlir::Operation*>& regions);
  // A region of the group's ops, which nothing reads yet.
  tx::DispatchOp make_region(Group& group);

  // fusion_rows.cpp

  // Whether the value, or the value that it is a view of, is made before the op.
  bool is_known_before(mlir::Value value, mlir::Operation* op) const;
  // The ops that go on with the rows of the group's reduction, in program order: as many as leave a single value for other ops. No op between two of
  // them is outside the group.
  std::vector<mlir::Operation*> ops_of_rows(mlir::Operation* first) const;
  // Adds to the group the ops that go on with the rows of its reduction, and the element-wise groups that only these ops read, directly or through
  // each other, as far as there is a kernel.
  void go_through_rows(Group& group);
  // Adds the element-wise groups that only ops of this one read, such as the input of a root mean square, which is squared and divided. Excludes
  // operands of a look-up, which have another shape. Returns whether there were any.
  bool absorb_producers(Group& group, Group& wider, std::vector<Group*>& absorbed);

  // fusion_attention.cpp

  // A product that reads a softmax of another product joins both, with the ops that move or compute elements only for them, if there is a kernel for
  // that.
  bool attend(tx::MatmulOp second);
  // Index expressions that a group computes by itself, even if others compute them too.
  struct OwnIndices {
    llvm::SmallVector<mlir::Operation*> copies;
    llvm::SmallVector<std::pair<mlir::OpOperand*, mlir::Value>> uses;  // and their original operands
  };
  void take_index_expressions(Group& group, OwnIndices& own);
  void give_back(OwnIndices& own);
  // Removes an op that nothing reads, with its group, and then the ops that only it read.
  void drop_unused(mlir::Operation* op);
  // Adds ops that move or compute elements only for the group. For parts that are joined or sliced, every element is computed for each part, so there
  // may be only a few.
  void absorb_movement(Group& group, std::vector<Group*>& absorbed, bool with_parts);
  // An element-wise op that is the only reader of such a group's result, as in the quantization of results.
  bool goes_on_with_attention(mlir::Operation* op);
  // A transpose that is the only reader of such a group's result.
  bool ends_attention(tx::TransposeOp transpose, std::string& why_not);

  // fusion_movement.cpp

  // A matrix is packed as it lies in memory, whichever of its dimensions comes first.
  void take_transpose(Group& group, tx::PackOp pack);
  // Ops that only move elements, and ops that are computed only for or only from those, form one region as long as neighbors stay neighbors: a
  // rotation of halves, which consists of slices, a concat and products, or a slice that is transposed. At the end there may be a concat of
  // anything: each part is computed where it is stored.
  void take_in_producers();
  // Contractions read what a slice selects where it lies, if their kernels can, and nothing else reads the slice.
  void take_in_slices();
  void take_in_slice(Group& group, mlir::Value operand);
  // Reshapes that became transposes, which a region may have inside.
  using UnitMoves = llvm::SmallVector<std::pair<tx::TransposeOp, tx::ReshapeOp>>;
  // Null if it is not a transpose that keeps neighbors.
  mlir::Operation* move_by_transpose(tx::ReshapeOp reshape, UnitMoves& moves);
  void give_back(UnitMoves& moves);

  // fusion_siblings.cpp

  // Products with the same left operand, each with its epilogue, if all their operands exist before the first one, and the last one is not far away.
  void join_siblings();
  // A product whose result only the epilogue of another one of these reads, as in silu(x * gate) * (x * up), joins that one, if there is a kernel for
  // both.
  void join_gates(llvm::SmallVector<Group*>& groups);
  // Joins the first of these groups with the later ones that fit, and removes all of them from the list.
  void join_first(llvm::SmallVector<Group*>& groups);
  // Moves constants and views to before the op that needs them now.
  void raise(mlir::Value value, mlir::Operation* before);

  // A refusal, kept until it is known that the two do not end up in one region.
  struct Refusal {
    mlir::Operation *producer, *consumer;
    mlir::Attribute text;
  };

  mlir::func::FuncOp function_;
  const unsigned most_reads_;  // limit per region
  mlir::SmallVector<mlir::Attribute>& log_;
  const Devices* devices_;  // null: none are asked
  Slots slots_;             // of the function before fusion
  std::vector<std::unique_ptr<Group>> groups_;
  llvm::DenseMap<mlir::Operation*, Group*> group_of_;
  llvm::DenseMap<mlir::Operation*, unsigned> position_;
  llvm::DenseSet<mlir::Operation*> outlined_;
  std::vector<Refusal> refusals_;
};

}  // namespace heddle::passes
