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

// Of a region of rows, or of what is moved: more of them gain nothing.
inline constexpr size_t most_ops_of_rows = 64;

// Of parts that are joined or cut in one region: with each one an element may be computed at more places.
inline constexpr size_t most_parts = 12;

// Whether it is a concat of so few parts that an element may be computed for each of them, which no part may be without.
bool is_narrow_concat(mlir::Operation* op);

bool is_splat(mlir::Value value);

// Why a region ends between these two, as reports have it; `reason`: what the kind does not say.
mlir::Attribute refusal(llvm::StringRef kind, mlir::Operation* producer, mlir::Operation* consumer, llvm::StringRef reason = {});

struct Group {
  mlir::Operation* root;                  // its first op
  llvm::SetVector<mlir::Operation*> ops;  // in program order once sorted
  mlir::Operation* output;                // its last op; the only one whose result leaves the group, but for the siblings'
  llvm::DenseSet<mlir::Value> reads;      // from outside, at most a binding each
  bool has_rows = false;                  // several reductions of the same rows may be in it, and it reads any broadcast by itself
  bool attends = false;                   // a softmax between two products
  llvm::SmallVector<mlir::Operation*> siblings = {};  // outputs of groups that became part of this one, and need nothing of it
};

class Fuser {
 public:
  // most_reads: of a region. Refusals to fuse are added to the log. devices: null if none are asked.
  Fuser(mlir::func::FuncOp function, unsigned most_reads, mlir::SmallVector<mlir::Attribute>& log, const Devices* devices)
      : function_(function), most_reads_(most_reads), log_(log), devices_(devices), slots_(function) {}

  mlir::LogicalResult run();

 private:
  // fusion.cpp

  Group& open(mlir::Operation* op);
  // Puts an op into the group of one of its producers, or into a group of its own.
  void place(mlir::Operation* op);
  // Makes an op, which reads the group's output, its last one.
  void join(Group& group, mlir::Operation* op);
  // The element-wise ops through which all uses of a value come together in one op again, which is the last of them, as in x * sigmoid(x); empty if they do
  // not. In program order.
  std::vector<mlir::Operation*> ops_to_one(mlir::Value value) const;
  void count_reads(Group& group) const;
  // The group becomes one that has all ops of these others.
  void replace(Group& group, Group wider, llvm::ArrayRef<Group*> others);
  static size_t parts_of(const Group& group);
  // Whether devices that the group may run on have a kernel of its kind; why not.
  bool has_kernel(Group& group, std::string* why_not = nullptr);
  // Puts all uses of the group's value, which are several, into the group if only one value leaves it then. No value that these ops read depends on the
  // group in another way: nothing else reads what is inside.
  bool join_all_uses(Group& group, mlir::Value value, mlir::Operation* op);
  // May a contraction store its result in the order that this transpose asks for, with rows, or pixels, innermost instead of columns? Where devices have a kernel
  // that does so, as those whose tiles lie in shared memory whole. What is read beside the contraction must not be in the other order.
  bool ends_contraction(tx::TransposeOp transpose, std::string& why_not);
  // What a transfer brings was produced on another slot: there is no group to join, but a reason to give.
  void refuse_across_slots(mlir::Operation* op);
  // Nothing joins an operator of a plugin, or what one may run, on either side.
  void refuse_around_operations(mlir::Operation* op);
  // Groups of maps that only this op reads become part of a group of maps.
  void merge_other_producers(Group& group, mlir::Operation* op);
  Group* producer(mlir::Value value) const;
  // Whether element-wise ops on the group's last value may be part of it.
  static bool may_go_on(const Group& group, mlir::Value value);
  bool can_join(Group& group, mlir::Value value, mlir::Operation* op);
  // What the group reads if the op, which reads its output, joins it.
  llvm::DenseSet<mlir::Value> reads_with(const Group& group, mlir::Operation* op) const;
  bool refuse(llvm::StringRef kind, Group& group, mlir::Operation* op, llvm::StringRef reason = {});
  void refuse_if_produced(mlir::Value value, mlir::Operation* op, llvm::StringRef kind, llvm::StringRef reason = {});
  // May this group read the broadcast by repeating it inside?
  bool reads_inside(const Group& group, tx::BroadcastOp broadcast) const;
  llvm::StringRef family_of(const Group& group) const;
  // Broadcasts that somebody needs as a tensor get kernels of their own.
  void materialize_broadcasts();
  // Does this op of the group read its operands at other places than its own result's?
  static bool needs_tensors(const Group& group, mlir::Operation* reader);
  bool clones(const Group& group, mlir::Operation* reader, mlir::Value operand) const;
  // What the group needs a binding for, to read this operand of one of its ops; null for nothing. A broadcast counts as itself, whatever it repeats:
  // somebody else may need it as a tensor, and then all read that.
  mlir::Value binding_for(const Group& group, mlir::Operation* reader, mlir::Value operand) const;
  // "main.3.softmax": the function, a number in program order, and what it is built around or was a node of, which is its name until now. Regions
  // that somebody wrote have a name.
  void name_regions();
  void outline(Group& group);
  // A region of the group's ops, which nothing reads yet.
  tx::DispatchOp make_region(Group& group);

  // fusion_rows.cpp

  // Whether the value is made before the op, or is a view of what is.
  bool is_known_before(mlir::Value value, mlir::Operation* op) const;
  // The ops that go on with the rows of the group's reduction, in program order, as many as leave one value for the others; nothing between two of them
  // is elsewhere.
  std::vector<mlir::Operation*> ops_of_rows(mlir::Operation* first) const;
  // Puts what goes on with the rows of the group's reduction into the group, and the element-wise groups that nothing else reads: those that these ops read, and what
  // such groups read in turn, as far as there is a kernel.
  void go_through_rows(Group& group);
  // Adds the element-wise groups that only ops of this one read: the input of a root mean square, say, which is squared and divided. Not what a look-up reads, which is of
  // another shape. Whether there were any.
  bool absorb_producers(Group& group, Group& wider, std::vector<Group*>& absorbed);

  // fusion_attention.cpp

  // A product that reads a softmax of another product joins both, with what is only moved or computed for them, where there is a kernel for that.
  bool attend(tx::MatmulOp second);
  // What a group computes of indices by itself, though others may do so, too.
  struct OwnIndices {
    llvm::SmallVector<mlir::Operation*> copies;
    llvm::SmallVector<std::pair<mlir::OpOperand*, mlir::Value>> uses;  // and what they read before
  };
  void take_index_expressions(Group& group, OwnIndices& own);
  void give_back(OwnIndices& own);
  // Removes an op that nothing reads, with its group, and then those that it was for.
  void drop_unused(mlir::Operation* op);
  // Takes in what computes or moves elements for the group alone. Of parts that are joined or cut, every element is computed for each part, which
  // a few may be.
  void absorb_movement(Group& group, std::vector<Group*>& absorbed, bool with_parts);
  // A transpose that alone reads such a group's result.
  bool ends_attention(tx::TransposeOp transpose, std::string& why_not);

  // fusion_movement.cpp

  // A matrix is packed as it lies, whichever of its dimensions comes first.
  void take_transpose(Group& group, tx::PackOp pack);
  // What only moves elements, and whatever else is computed for that or from that alone, is one region, where neighbors stay neighbors: a rotation
  // of halves, which is slices, a concat and products, or a part that is cut out of something and transposed. At the end there may be a concat of anything: each part is
  // computed where it is stored.
  void take_in_producers();
  // Reshapes that became transposes, which a region may have inside.
  using UnitMoves = llvm::SmallVector<std::pair<tx::TransposeOp, tx::ReshapeOp>>;
  // Null if it is no transpose that keeps neighbors.
  mlir::Operation* move_by_transpose(tx::ReshapeOp reshape, UnitMoves& moves);
  void give_back(UnitMoves& moves);

  // fusion_siblings.cpp

  // Products with the same left operand, each with what is behind it, where all that they read is there before the first one, and the last one is not far.
  void join_siblings();
  // Joins the first of these groups with those behind it that fit, and takes all of them out.
  void join_first(llvm::SmallVector<Group*>& groups);
  // Moves constants and views to before the op, where they are needed from now on.
  void raise(mlir::Value value, mlir::Operation* before);

  // A refusal, until it is known that the two are not one region after all.
  struct Refusal {
    mlir::Operation *producer, *consumer;
    mlir::Attribute text;
  };

  mlir::func::FuncOp function_;
  const unsigned most_reads_;  // of a region
  mlir::SmallVector<mlir::Attribute>& log_;
  const Devices* devices_;  // null: none are asked
  Slots slots_;             // of the function as it was
  std::vector<std::unique_ptr<Group>> groups_;
  llvm::DenseMap<mlir::Operation*, Group*> group_of_;
  llvm::DenseMap<mlir::Operation*, unsigned> position_;
  llvm::DenseSet<mlir::Operation*> outlined_;
  std::vector<Refusal> refusals_;
};

}  // namespace heddle::passes
