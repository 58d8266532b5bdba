// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See join_regions.h. An optimizer is the extreme case: it updates hundreds of parameters, each with several values of the parameter's extents, which
// depend on numbers of its own.
#include "compiler/passes/join_regions.h"

#include <functional>
#include <map>

#include "compiler/ir/control.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Limits: ops between two regions that are joined, since the first one waits until the last one can run; elements of the results of element-wise
// regions that are joined although they have nothing in common.
constexpr size_t farthest = 32;
constexpr int64_t most_elements = 1 << 14;
// Ops between the first and the last region of movement that are joined.
constexpr unsigned nearby = 12;
// How many steps earlier an argument may be transposed than it would have to be.
constexpr unsigned most_steps = 8;
// Limits of a region of rows. Each fold needs memory.
constexpr unsigned most_joined_folds = 6;
constexpr size_t most_joined_ops = 64;

bool is_leaf(Operation* op) {
  return llvm::isa<tx::ConstantOp, tx::ParameterOp>(op) || op->hasTrait<OpTrait::IsTerminator>();
}

bool has_one_element(Value value) {
  return tx::static_extent(tx::element_count(tx::tensor(value))) == 1;
}

SmallVector<AffineExpr> extents_of(tx::DispatchOp region) {
  return tx::extents(tx::tensor(region.getResult(0)));
}

SmallVector<AffineExpr> without_ones(SmallVector<AffineExpr> extents) {
  llvm::erase_if(extents, tx::is_one);
  return extents;
}

// Whether another op than these reads the value or a view of it.
bool is_read_elsewhere(Value value, ArrayRef<tx::DispatchOp> parts) {
  return llvm::any_of(value.getUsers(), [&](Operation* user) {
    return tx::has_same_bytes(user) ? is_read_elsewhere(user->getResult(0), parts) : !llvm::is_contained(parts, user);
  });
}

// Whether a region that joins parts of a tensor reads the value: the parts may be stored in its memory if each is the only result of a region
// (heddle-store-parts).
bool is_part_of_concat(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation* user) {
    auto region = llvm::dyn_cast<tx::DispatchOp>(user);
    return llvm::isa<tx::ConcatOp>(user) || (region && !region.getBody().front().getOps<tx::ConcatOp>().empty()) ||
           (tx::has_same_bytes(user) && is_part_of_concat(user->getResult(0)));
  });
}

// All ops that read the value or a view of it.
void collect_readers(Value value, SmallVector<Operation*>& readers) {
  for (Operation* user : value.getUsers()) {
    if (tx::has_same_bytes(user)) {
      collect_readers(user->getResult(0), readers);
    } else {
      readers.push_back(user);
    }
  }
}

}  // namespace

RegionJoiner::RegionJoiner(func::FuncOp function, ArrayRef<tx::DispatchOp> regions, unsigned most_bindings, const Devices& devices)
    : function_(function), most_bindings_(most_bindings), devices_(devices) {
  for (tx::DispatchOp region : regions) regions_.insert(region);
  for (BlockArgument argument : function.getArguments()) {
    if (auto result = tx::alias_of(argument)) place_of_result_[*result] = argument;
  }
}

void RegionJoiner::run() {
  Block& block = function_.getBody().front();
  // What these give may have to be known before a region, which no operand shows.
  if (llvm::any_of(block, [](Operation& op) { return tx::stays_apart(&op) && !llvm::isa<tx::CustomOp>(op); })) return;
  for (Operation* op : llvm::to_vector(llvm::map_range(block, [](Operation& each) { return &each; }))) {
    if (!regions_.contains(op)) continue;  // or gone
    auto region = llvm::cast<tx::DispatchOp>(op);
    while (region && (is_pointwise(region) || rows_of(region))) region = join_with_earlier(region);
  }
  join_unrelated_ones();
}

Operation* RegionJoiner::now(Operation* region) const {
  for (auto it = became_.find(region); it != became_.end(); it = became_.find(region)) region = it->second;
  return region;
}

bool RegionJoiner::is_pointwise(tx::DispatchOp region) const {
  const SmallVector<AffineExpr> extents = extents_of(region);
  for (Operation& op : region.getBody().front().without_terminator()) {
    if (auto broadcast = llvm::dyn_cast<tx::BroadcastOp>(op)) {
      Operation* from = broadcast.getInput().getDefiningOp();
      if (from && !llvm::isa<tx::ConstantOp>(from)) return false;
    } else if (!llvm::isa<tx::ConstantOp>(op)) {
      if (!tx::is_elementwise(&op) || op.getNumResults() != 1 || tx::extents(tx::tensor(op.getResult(0))) != extents) return false;
    }
  }
  return llvm::all_of(region.getBody().front().getTerminator()->getOperands(),
                      [&](Value yielded) { return yielded.getDefiningOp() && tx::is_elementwise(yielded.getDefiningOp()); });
}

std::optional<RegionJoiner::Rows> RegionJoiner::rows_of(tx::DispatchOp region) const {
  Rows rows;
  for (Operation& op : region.getBody().front().without_terminator()) {
    if (tx::is_elementwise(&op) || tx::is_view(&op) || llvm::isa<tx::ConstantOp, tx::BroadcastOp>(op)) continue;
    auto reduction = llvm::dyn_cast<tx::RowsOp>(&op);
    if (!reduction || !op.hasTrait<tx::JoinsRows>()) return std::nullopt;
    SmallVector<AffineExpr> whole = tx::extents(tx::tensor(op.getOperand(0))), reduced = whole;
    SmallVector<int64_t> axes = llvm::to_vector(reduction.getRowAxes());
    llvm::sort(axes);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      if (axis != static_cast<int64_t>(whole.size() - axes.size() + i)) return std::nullopt;  // its elements are not next to each other
    }
    reduced.truncate(whole.size() - axes.size());
    reduced = without_ones(std::move(reduced));
    if (rows.folds++ > 0 && (whole != rows.whole || reduced != rows.reduced)) return std::nullopt;
    rows.whole = std::move(whole);
    rows.reduced = std::move(reduced);
  }
  if (rows.folds == 0) return std::nullopt;
  return rows;
}

StringRef RegionJoiner::family_of(tx::DispatchOp region) const {
  return tx::family_of(function_->getParentOfType<ModuleOp>(), region.getSlot().value_or(tx::default_slot));
}

bool RegionJoiner::are_alike(tx::DispatchOp first, tx::DispatchOp second) const {
  if (first.getSlot() != second.getSlot()) return false;
  if (is_pointwise(first) && is_pointwise(second)) {
    if (extents_of(first) != extents_of(second)) return false;
    for (auto [i, operand] : llvm::enumerate(second.getInputs())) {
      if (tx::storage_of(operand).getDefiningOp() != first) continue;
      const bool is_it = operand.getDefiningOp() == first;  // and no view of it
      if (!is_it || !tx::is_read_in_place(second.getBody().getArgument(static_cast<unsigned>(i)))) return false;
    }
    return true;
  }
  std::optional<Rows> a = rows_of(first), b = rows_of(second);
  if ((!a && !b) || !(a || is_pointwise(first)) || !(b || is_pointwise(second))) return false;
  const Rows& rows = a ? *a : *b;
  if (a && b && (a->whole != b->whole || a->reduced != b->reduced || a->folds + b->folds > most_joined_folds)) return false;
  auto count = [](tx::DispatchOp region) { return region.getBody().front().getOperations().size(); };
  if (count(first) + count(second) > most_joined_ops) return false;
  // With few rows, a device is not busy, but it may be with elements.
  uint64_t row_count = 1;
  for (AffineExpr extent : rows.reduced)
    row_count = llvm::SaturatingMultiply(row_count, static_cast<uint64_t>(tx::static_extent(extent).value_or(1)));
  if (row_count < static_cast<uint64_t>(devices_.results_at_once(family_of(first)))) return false;
  const tx::DispatchOp both[] = {first, second};
  return llvm::all_of(both, [&](tx::DispatchOp region) {
    return llvm::all_of(region.getResults(), [&](Value result) {
      SmallVector<AffineExpr> extents = tx::extents(tx::tensor(result));
      return extents == rows.whole || without_ones(extents) == rows.reduced;
    });
  });
}

tx::DispatchOp RegionJoiner::join_with_earlier(tx::DispatchOp region) {
  llvm::SetVector<Operation*> earlier;
  for (Value operand : region.getInputs()) {
    if (Operation* producer = tx::storage_of(operand).getDefiningOp()) earlier.insert(producer);
    if (has_one_element(operand)) continue;
    for (Operation* reader : operand.getUsers()) {
      if (reader != region && reader->getBlock() == region->getBlock() && reader->isBeforeInBlock(region)) earlier.insert(reader);
    }
  }
  SmallVector<Operation*> candidates = earlier.takeVector();
  llvm::erase_if(candidates, [&](Operation* op) { return !regions_.contains(op); });
  llvm::sort(candidates, [](Operation* a, Operation* b) { return b->isBeforeInBlock(a); });  // the nearest first
  for (Operation* op : candidates) {
    auto other = llvm::cast<tx::DispatchOp>(op);
    if (!are_alike(other, region)) continue;
    std::optional<Path> waiting = waiting_between(other, region);
    if (!waiting) continue;
    tx::DispatchOp joined = join({other, region});
    if (!joined) continue;
    Operation* last = joined;
    for (Operation* late : ArrayRef<Operation*>(waiting->getArrayRef()).drop_front()) {
      if (!late->getBlock()) continue;  // a view that only the region read
      late->moveAfter(last);
      last = late;
    }
    return joined;
  }
  return {};
}

std::optional<RegionJoiner::Path> RegionJoiner::waiting_between(tx::DispatchOp first, tx::DispatchOp last) const {
  Path waiting, others;
  waiting.insert(first);
  size_t distance = 0;
  for (Operation* op = first->getNextNode(); op != last; op = op->getNextNode()) {
    if (!is_leaf(op) && ++distance > farthest) return std::nullopt;
    if (!waits_for(op, waiting)) continue;
    waiting.insert(op);
    if (!tx::has_same_bytes(op) || tx::storage_of(op->getResult(0)).getDefiningOp() != first) others.insert(op);
  }
  if (waits_for(last, others)) return std::nullopt;
  return waiting;
}

bool RegionJoiner::waits_for(Operation* op, const Path& others) const {
  auto is_one = [&](Operation* other) { return other && others.contains(other); };
  return llvm::any_of(op->getOperands(), [&](Value operand) { return is_one(operand.getDefiningOp()); }) ||
         llvm::any_of(readers_of_places(op), is_one);
}

Value RegionJoiner::place_of(Value result) const {
  for (OpOperand& use : result.getUses()) {
    Operation* user = use.getOwner();
    if (user->hasTrait<OpTrait::IsTerminator>()) {
      if (Value place = place_of_result_.lookup(use.getOperandNumber())) return place;
    } else if (tx::has_same_bytes(user)) {
      if (Value place = place_of(user->getResult(0))) return place;
    }
  }
  return {};
}

SmallVector<Operation*> RegionJoiner::readers_of_places(Operation* op) const {
  SmallVector<Operation*> readers;
  if (place_of_result_.empty() || tx::has_same_bytes(op)) return readers;
  for (Value result : op->getResults()) {
    if (Value place = place_of(result)) collect_readers(place, readers);
  }
  llvm::erase_if(readers, [&](Operation* reader) { return reader == op || is_leaf(reader); });
  if (readers.empty()) return readers;
  // A reader that needs a result comes later, and the result is copied to its place.
  Path later;
  later.insert(op);
  for (size_t i = 0; i < later.size(); ++i) later.insert(later[i]->user_begin(), later[i]->user_end());
  llvm::erase_if(readers, [&](Operation* reader) { return later.contains(reader); });
  return readers;
}

bool RegionJoiner::keeps_places(tx::DispatchOp region) const {
  const bool has_rows = llvm::any_of(region.getBody().front(), llvm::IsaPred<tx::RowsOp>);  // such kernels do not work in place
  for (Value result : region.getResults()) {
    Value place = place_of(result);
    if (!place) continue;
    for (auto [i, operand] : llvm::enumerate(region.getInputs())) {
      if (tx::storage_of(operand) != place) continue;
      BlockArgument inside = region.getBody().getArgument(static_cast<unsigned>(i));
      if (has_rows || inside.getType() != result.getType() || !tx::is_read_in_place(inside)) return false;
    }
  }
  return true;
}

tx::DispatchOp RegionJoiner::join(ArrayRef<tx::DispatchOp> parts) {
  tx::DispatchOp last = parts.back();
  auto is_part = [&](Operation* op) { return op && llvm::is_contained(parts, op); };
  llvm::SetVector<Value> inputs;
  SmallVector<Value> results;
  for (tx::DispatchOp part : parts) {
    for (Value operand : part.getInputs()) {
      if (!is_part(tx::storage_of(operand).getDefiningOp())) inputs.insert(operand);
    }
    for (Value result : part.getResults()) {
      if (is_part_of_concat(result)) return {};
      if (is_read_elsewhere(result, parts)) results.push_back(result);
    }
  }
  if (inputs.size() + results.size() > most_bindings_ || results.empty()) return {};
  OpBuilder builder(last);
  auto joined = builder.create<tx::DispatchOp>(last.getLoc(), ValueRange(results).getTypes(), inputs.getArrayRef(), last.getName(),
                                               last.getSlotAttr());
  Block* block = builder.createBlock(&joined.getBody());
  IRMapping inside, made;  // made: from operands, results of parts and views of them to values in the joined region
  for (Value input : inputs) made.map(input, block->addArgument(input.getType(), input.getLoc()));
  auto operand_of_part = [&](Value operand) {
    SmallVector<Operation*> views;
    for (Value value = operand; !made.contains(value); value = value.getDefiningOp()->getOperand(0)) views.push_back(value.getDefiningOp());
    for (Operation* view : llvm::reverse(views)) builder.clone(*view, made);
    return made.lookup(operand);
  };
  for (tx::DispatchOp part : parts) {
    Block& body = part.getBody().front();
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), part.getInputs())) inside.map(argument, operand_of_part(operand));
    for (Operation& op : body.without_terminator()) builder.clone(op, inside);
    for (auto [result, yielded] : llvm::zip_equal(part.getResults(), body.getTerminator()->getOperands()))
      made.map(result, inside.lookup(yielded));
  }
  builder.create<tx::YieldOp>(last.getLoc(), llvm::map_to_vector(results, [&](Value result) { return made.lookup(result); }));
  for (auto [old, result] : llvm::zip_equal(results, joined.getResults())) {
    old.replaceUsesWithIf(result, [&](OpOperand& use) { return !is_part(use.getOwner()); });
  }
  if (!keeps_places(joined) || !devices_.has_kernel(family_of(joined), joined, nullptr)) {
    for (auto [old, result] : llvm::zip_equal(results, joined.getResults())) result.replaceAllUsesWith(old);
    joined.erase();
    return {};
  }
  SmallVector<Value> read;
  for (tx::DispatchOp part : parts) {
    llvm::append_range(read, part.getInputs());
    regions_.remove(part);
    became_[part] = joined;
    part->dropAllReferences();
  }
  for (Value value : read) {
    for (Operation* view = value.getDefiningOp(); view && tx::has_same_bytes(view) && view->use_empty() && view->getBlock();) {
      Operation* behind = view->getOperand(0).getDefiningOp();
      view->dropAllReferences();
      view->remove();
      gone_.emplace_back(view);
      view = behind;
    }
  }
  for (tx::DispatchOp part : parts) {
    part->remove();
    gone_.emplace_back(part);
  }
  regions_.insert(joined);
  return joined;
}

bool RegionJoiner::is_movement(tx::DispatchOp region) const {
  const bool moves = llvm::all_of(region.getBody().front().without_terminator(), [](Operation& op) {
    return tx::is_elementwise(&op) ||
           llvm::isa<tx::ConstantOp, tx::BroadcastOp, tx::ReshapeOp, tx::TransposeOp, tx::SliceOp, tx::PadOp>(op);
  });
  return moves && llvm::all_of(region.getResults(), [&](Value result) {
           return tx::tensor(result).hasStaticShape() && !place_of(result) && !is_part_of_concat(result);
         });
}

bool RegionJoiner::join_first(SmallVector<tx::DispatchOp>& regions) {
  SmallVector<tx::DispatchOp> parts;
  llvm::DenseSet<Value> operands;  // that more than one element is read of, or that may be overwritten
  unsigned bindings = 0;
  for (tx::DispatchOp region : regions) {
    const unsigned own = region.getNumOperands() + region.getNumResults();
    if (bindings + own > most_bindings_) break;
    if (!parts.empty() && region.getSlot() != parts.front().getSlot()) continue;
    SmallVector<Value> read;
    for (Value operand : region.getInputs()) {
      Value storage = tx::storage_of(operand);
      if (!has_one_element(operand) || tx::alias_of(storage)) read.push_back(storage);
    }
    if (is_pointwise(region) && llvm::any_of(read, [&](Value value) { return operands.contains(value); })) continue;
    operands.insert(read.begin(), read.end());
    bindings += own;
    parts.push_back(region);
  }
  llvm::erase_if(regions, [&](tx::DispatchOp region) { return parts.empty() || llvm::is_contained(parts, region); });
  return parts.size() > 1 && join(parts);
}

void RegionJoiner::join_unrelated_ones() {
  Block& block = function_.getBody().front();
  auto is_small = [](Value result) {
    return tx::static_extent(tx::element_count(tx::tensor(result))).value_or(most_elements + 1) <= most_elements;
  };
  auto reads_only_arguments = [](tx::DispatchOp region) {
    return llvm::none_of(region.getInputs(), [](Value operand) { return tx::storage_of(operand).getDefiningOp(); });
  };
  // The length of the longest path to the end. Ops with the same one do not wait for each other.
  llvm::DenseMap<Operation*, unsigned> steps, positions;
  std::map<unsigned, SmallVector<tx::DispatchOp>, std::greater<>> small, moving;
  for (Operation& op : block) {
    if (!is_leaf(&op)) positions[&op] = static_cast<unsigned>(positions.size()) + 1;
  }
  for (Operation& op : llvm::reverse(block)) {
    if (is_leaf(&op)) continue;
    unsigned own = steps.lookup(&op);
    for (Operation* user : op.getUsers()) {
      if (!is_leaf(user)) own = std::max(own, steps.lookup(user) + (tx::has_same_bytes(user) ? 0 : 1));
    }
    steps[&op] = own;
    for (Operation* reader : readers_of_places(&op)) {
      unsigned& before = steps[reader];
      before = std::max(before, own + 1);
    }
    if (!regions_.contains(&op)) continue;
    auto region = llvm::cast<tx::DispatchOp>(op);
    if (is_pointwise(region)) {
      if (llvm::all_of(region.getResults(), is_small)) small[own].push_back(region);
    } else if (is_movement(region)) {
      moving[own].push_back(region);
    }
  }
  bool is_changed = false;
  for (auto& [level, regions] : small) {
    std::reverse(regions.begin(), regions.end());
    while (regions.size() > 1) is_changed |= join_first(regions);
  }
  // What is moved, and what is moved of it, is not kept for long: only regions that are near each other are joined. Arguments are moved where the
  // result is needed, or a few steps earlier.
  auto place = [&](tx::DispatchOp region) {
    if (!reads_only_arguments(region)) return positions.lookup(region);
    unsigned first = ~0u;
    SmallVector<Operation*> readers;
    for (Value result : region.getResults()) collect_readers(result, readers);
    for (Operation* reader : readers) first = is_leaf(reader) ? first : std::min(first, positions.lookup(reader));
    return first;
  };
  for (auto it = moving.begin(); it != moving.end(); ++it) {
    SmallVector<tx::DispatchOp> regions(it->second.begin(), it->second.end());
    for (auto later = std::next(it); later != moving.end() && later->first + most_steps >= it->first; ++later)
      llvm::copy_if(later->second, std::back_inserter(regions), reads_only_arguments);
    llvm::stable_sort(regions, [&](tx::DispatchOp a, tx::DispatchOp b) { return place(a) < place(b); });
    for (size_t from = 0, to = 0; from < regions.size(); from = to) {
      while (to < regions.size() && place(regions[to]) - place(regions[from]) <= nearby) ++to;
      SmallVector<tx::DispatchOp> near(regions.begin() + from, regions.begin() + to);
      if (near.size() < 2) continue;
      for (auto taken = it; taken != moving.end(); ++taken)
        llvm::erase_if(taken->second, [&](tx::DispatchOp region) { return llvm::is_contained(near, region); });
      while (near.size() > 1) is_changed |= join_first(near);
    }
  }
  if (is_changed) sort();
}

void RegionJoiner::sort() {
  Block& block = function_.getBody().front();
  SmallVector<Operation*> ordered;
  enum class State { waiting, open, done };
  llvm::DenseMap<Operation*, State> states;
  // With a stack of its own, since chains may be as long as the function.
  // What only moves elements comes right before its first reader, or where it was if there is none.
  auto is_read = [](Value result) {
    SmallVector<Operation*> readers;
    collect_readers(result, readers);
    return !llvm::all_of(readers, is_leaf);
  };
  SmallVector<Operation*> firsts, last;
  for (Operation& op : block.without_terminator()) {
    auto region = regions_.contains(&op) ? llvm::cast<tx::DispatchOp>(op) : tx::DispatchOp();
    const bool waits = region && is_movement(region) && !is_pointwise(region) && llvm::all_of(region.getResults(), is_read);
    (waits ? last : firsts).push_back(&op);
  }
  firsts.append(last);
  for (Operation* first : firsts) {
    SmallVector<Operation*> stack = {first};
    while (!stack.empty()) {
      Operation* op = stack.back();
      State& state = states[op];
      if (state != State::waiting) {
        if (state == State::open) {
          ordered.push_back(op);
          states[op] = State::done;
        }
        stack.pop_back();
        continue;
      }
      state = State::open;
      auto wait_for = [&](Operation* other) {
        if (other && other->getBlock() == &block && states.lookup(other) == State::waiting) stack.push_back(other);
      };
      const SmallVector<Operation*> readers = readers_of_places(op);
      for (Operation* reader : llvm::reverse(readers)) wait_for(reader);
      for (Value operand : llvm::reverse(op->getOperands())) wait_for(operand.getDefiningOp());
    }
  }
  for (Operation* op : ordered) op->moveBefore(block.getTerminator());
}

}  // namespace heddle::passes
