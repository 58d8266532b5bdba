// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See rows.h.
#include "compiler/targets/rows.h"

#include <map>

#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace heddle::targets {

namespace {

constexpr unsigned no_dimension = ~0u;  // neither of rows nor of a row: the stage's extent is 1

AffineExpr product_of(ArrayRef<AffineExpr> extents) {
  AffineExpr result = extents.front();
  for (AffineExpr extent : extents.drop_front()) result = result * extent;
  return result;
}

// The step in a result's memory per index of a parallel dimension.
AffineExpr result_step(stage::DomainAttr domain, unsigned dimension) {
  AffineExpr step = getAffineConstantExpr(1, domain.getContext());
  for (AffineExpr extent : domain.parallel().drop_front(dimension + 1)) step = step * extent;
  return step;
}

Operation* maker(Operation* stage, unsigned read) {
  return stage->getOperand(read).getDefiningOp();
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ reading

class RowsReader {
 public:
  RowsReader(tx::DispatchOp region, RowsKernel& kernel) : region_(region), kernel_(kernel) {}

  LogicalResult run() {
    if (llvm::none_of(region_.getBody().front(), llvm::IsaPred<tx::RowsOp>)) return failure();
    std::string reason;
    auto staged = stage::form_stages(region_, reason, stage::Makers::several);
    if (failed(staged)) return region_.emitError("cannot form stages: ") << reason;
    kernel_.staged_ = std::move(*staged);
    for (Operation& op : kernel_.staged_.region.getBody().front().without_terminator()) {
      if (llvm::isa<stage::ContractOp, stage::ScanOp>(op) || !stage::domain_of(&op).getWithin().empty()) return failure();
      kernel_.stages_.push_back({&op, RowsKernel::Kind::fold, {}});
    }
    for (auto [i, yielded] : llvm::enumerate(kernel_.staged_.region.getBody().front().getTerminator()->getOperands()))
      of(yielded.getDefiningOp()).results.push_back(static_cast<unsigned>(i));
    if (!find_dimensions()) return region_.emitError("its stages have no rows in common");
    for (const Stage& stage : ArrayRef(kernel_.stages_).drop_back()) {
      if (!stage.results.empty() && stage.kind != RowsKernel::Kind::per_row)
        return region_.emitError("a result other than those of the last stage has more than one element for each row");
    }
    find_passes();
    find_lanes();
    if (!stores_neighbors()) return region_.emitError("neighbors in a row are not neighbors in a result");
    return success();
  }

  // All stages but the last; the values of the first one are given.
  bool run_between(const stage::StagedRegion& staged) {
    tx::DispatchOp stages = staged.region;
    for (Operation& op : stages.getBody().front().without_terminator()) kernel_.stages_.push_back({&op, RowsKernel::Kind::fold, {}});
    auto second = llvm::dyn_cast<stage::ContractOp>(kernel_.stages_.back().op);
    if (!second || kernel_.stages_.size() < 3 || !llvm::isa<stage::ContractOp>(kernel_.stages_.front().op)) return false;
    kernel_.stages_.pop_back();
    kernel_.stages_.front().is_given = true;
    for (const Stage& stage : ArrayRef(kernel_.stages_).drop_front()) {
      if (llvm::isa<stage::ContractOp>(stage.op)) return false;
    }
    for (unsigned i = 0; i < second->getNumOperands(); ++i) {
      Operation* made = maker(second, i);
      if (made && made != kernel_.stages_.back().op) return false;
    }
    if (!find_dimensions() || inner_ != 1 || kernel_.stages_.back().kind != RowsKernel::Kind::per_element) return false;
    find_passes();
    // Each value overwrites the one before it, which must not be read any more.
    std::vector<Stage*> values;
    for (Stage& stage : kernel_.stages_) {
      if (stage.kind != RowsKernel::Kind::per_element) continue;
      if (stage.op->getNumResults() != 1 || !tx::tensor(stage.op->getResult(0)).getElementType().isF32()) return false;
      stage.is_read_later = true;
      stage.kept_in_result = -1;
      values.push_back(&stage);
    }
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      for (const Stage& reader : kernel_.stages_) {
        auto reads = [&](const Stage& stage) { return llvm::is_contained(stage.op->getOperands(), values[i]->op->getResult(0)); };
        if (!reads(reader)) continue;
        // A reader after the next value in its pass still has the value, if the next value read it, too.
        bool is_behind = reader.pass == values[i + 1]->pass && &reader > values[i + 1] && !reads(*values[i + 1]);
        if (reader.pass > values[i + 1]->pass || is_behind) return false;
      }
    }
    return true;
  }

 private:
  using Stage = RowsKernel::Stage;

  Stage& of(Operation* op) {
    return *llvm::find_if(kernel_.stages_, [&](const Stage& stage) { return stage.op == op; });
  }
  AffineExpr extent(unsigned dimension) const {
    return dimension < rows_ ? kernel_.row_extents_[dimension] : kernel_.inner_extents_[dimension - rows_];
  }

  using Dimensions = std::map<Operation*, SmallVector<std::optional<unsigned>>>;

  // From one stage to the stages that it reads and that read it.
  void spread(Dimensions& found) {
    for (bool changed = true; changed;) {
      changed = false;
      for (Stage& stage : kernel_.stages_) {
        for (unsigned i = 0; i < stage.op->getNumOperands(); ++i) {
          Operation* other = maker(stage.op, i);
          if (!other || stage.is_given) continue;
          for (auto [j, index] : llvm::enumerate(stage::access_of(stage.op, i).getMap().getResults())) {
            auto dim = llvm::dyn_cast<AffineDimExpr>(index);
            if (!dim) continue;
            auto &here = found[stage.op][dim.getPosition()], &there = found[other][j];
            if (here.has_value() == there.has_value()) continue;
            (here ? there : here) = here ? *here : *there;
            changed = true;
          }
        }
      }
    }
  }

  // Dimensions that are not shared with known stages may be any of the row's dimensions with the same extents.
  bool guess_one(Dimensions& found) {
    for (Stage& stage : kernel_.stages_) {
      auto& dims = found[stage.op];
      bool changed = false;
      for (unsigned d = 0; d < dims.size(); ++d) {
        AffineExpr own = stage::domain_of(stage.op).getExtents().getResult(d);
        for (unsigned dim = rows_; dim < rows_ + inner_ && !dims[d] && !tx::is_one(own); ++dim) {
          if (extent(dim) != own || llvm::is_contained(dims, std::optional(dim))) continue;
          dims[d] = dim;
          changed = true;
        }
      }
      if (changed) return true;
    }
    return false;
  }

  // Finds which dimension of rows or of the row each stage's dimensions are, from how stages read each other.
  bool find_dimensions() {
    auto is_fold = [](const Stage& stage) { return llvm::isa<stage::FoldOp>(stage.op); };
    auto fold = llvm::find_if(kernel_.stages_, is_fold);
    if (fold == kernel_.stages_.end()) return false;
    Operation* first = fold->op;
    stage::DomainAttr first_domain = stage::domain_of(first);
    kernel_.row_extents_.assign(first_domain.parallel().begin(), first_domain.parallel().end());
    kernel_.inner_extents_.assign(first_domain.folded().begin(), first_domain.folded().end());
    AffineExpr one = getAffineConstantExpr(1, region_.getContext());
    if (kernel_.row_extents_.empty()) kernel_.row_extents_.push_back(one);
    if (llvm::all_of(kernel_.inner_extents_, tx::is_one)) return false;  // rows of one element do not count as rows
    rows_ = kernel_.row_extents_.size();
    inner_ = kernel_.inner_extents_.size();
    Dimensions found;
    for (Stage& stage : kernel_.stages_) {
      stage::DomainAttr domain = stage::domain_of(stage.op);
      auto& dims = found[stage.op];
      dims.resize(stage.is_given ? domain.getParallelRank() : domain.getRank());
      for (unsigned d = 0; !stage.is_given && d < domain.getReduced(); ++d) dims[domain.getParallelRank() + d] = rows_ + d;
      for (unsigned d = 0; stage.op == first && d < domain.getParallelRank(); ++d) dims[d] = d;
    }
    do {
      spread(found);
    } while (guess_one(found));
    for (Stage& stage : kernel_.stages_) {
      stage::DomainAttr domain = stage::domain_of(stage.op);
      unsigned of_rows = 0, of_row = 0;
      for (auto [d, dim] : llvm::enumerate(found[stage.op])) {
        AffineExpr own = domain.getExtents().getResult(d);
        if (!dim) {
          if (!tx::is_one(own)) return false;
          dim = no_dimension;
        } else {
          if (*dim >= rows_ + inner_ || own != extent(*dim) || llvm::is_contained(stage.dims, *dim)) return false;
          (*dim < rows_ ? of_rows : of_row) += tx::is_one(own) ? 0 : 1;
        }
        stage.dims.push_back(*dim);
      }
      auto count = [](ArrayRef<AffineExpr> extents) {
        return llvm::count_if(extents, [](AffineExpr extent) { return !tx::is_one(extent); });
      };
      if (of_rows != count(kernel_.row_extents_)) return false;
      bool is_whole = of_row == count(kernel_.inner_extents_);
      if (llvm::isa<stage::FoldOp>(stage.op)) {
        for (unsigned d = 0; d < domain.getParallelRank(); ++d) {
          if (stage.dims[d] != no_dimension && stage.dims[d] >= rows_) return false;
        }
        if (!is_whole) return false;
      } else if (is_whole && llvm::any_of(stage.dims, [&](unsigned dim) { return dim != no_dimension && dim >= rows_; })) {
        stage.kind = RowsKernel::Kind::per_element;
      } else if (of_row == 0) {
        stage.kind = RowsKernel::Kind::per_row;
      } else {
        return false;
      }
    }
    return read_where_they_are();
  }

  // Stages read each other at their own index.
  bool read_where_they_are() {
    for (Stage& stage : kernel_.stages_) {
      for (unsigned i = 0; i < stage.op->getNumOperands(); ++i) {
        Operation* other = maker(stage.op, i);
        if (!other || stage.is_given) continue;
        if (stage::access_of(stage.op, i).getOutside()) return false;
        for (auto [j, index] : llvm::enumerate(stage::access_of(stage.op, i).getMap().getResults())) {
          unsigned wanted = of(other).dims[j];
          auto dim = llvm::dyn_cast<AffineDimExpr>(index);
          bool is_first = wanted == no_dimension || tx::is_one(extent(wanted));
          if (!is_first && !(dim && stage.dims[dim.getPosition()] == wanted)) return false;
        }
      }
    }
    return true;
  }

  void find_passes() {
    for (Stage& stage : kernel_.stages_) {
      for (unsigned i = 0; i < stage.op->getNumOperands(); ++i) {
        Operation* other = maker(stage.op, i);
        if (!other) continue;
        const Stage& made = of(other);
        bool is_behind = made.kind != RowsKernel::Kind::per_element && stage.kind != RowsKernel::Kind::per_row;
        stage.pass = std::max(stage.pass, made.pass + (is_behind ? 1 : 0));
      }
      kernel_.passes_ = std::max(kernel_.passes_, stage.pass + 1);
    }
    std::vector<bool> is_taken(region_.getNumResults());
    Stage& last = kernel_.stages_.back();
    // What is kept in a result is read before the result is stored.
    auto is_read_in_time = [&](const Stage& made) {
      return llvm::all_of(kernel_.stages_, [&](const Stage& reader) {
        return reader.pass <= last.pass ||
               llvm::none_of(reader.op->getOperands(), [&](Value read) { return read.getDefiningOp() == made.op; });
      });
    };
    for (Stage& reader : kernel_.stages_) {
      for (unsigned i = 0; i < reader.op->getNumOperands(); ++i) {
        Operation* other = maker(reader.op, i);
        if (!other) continue;
        Stage& made = of(other);
        if (made.kind != RowsKernel::Kind::per_element || made.pass == reader.pass || made.is_read_later) continue;
        made.is_read_later = true;
        if (last.kind != RowsKernel::Kind::per_element || last.dims != made.dims || other->getNumResults() != 1) continue;
        if (!is_read_in_time(made)) continue;
        for (unsigned r : last.results) {
          Value result = region_.getResult(r);
          bool is_tied = region_.getTied() && (*region_.getTied())[r] >= 0;
          if (is_taken[r] || is_tied || tx::tensor(result).getElementType() != tx::tensor(other->getResult(0)).getElementType()) continue;
          is_taken[r] = true;
          made.kept_in_result = static_cast<int64_t>(r);
          break;
        }
      }
    }
  }

  // The step of a read along a dimension of rows or of the row.
  std::optional<AffineExpr> step(const Stage& stage, unsigned read, unsigned dimension) {
    auto own = llvm::find(stage.dims, dimension);
    if (own == stage.dims.end()) return getAffineConstantExpr(0, region_.getContext());
    constexpr int64_t all = int64_t{1} << 40;
    int64_t lanes = all;
    auto found = memory_step(stage.op, read, static_cast<unsigned>(own - stage.dims.begin()), lanes);
    return lanes == all ? found : std::nullopt;
  }

  // Whether two neighboring dimensions of the row can be walked as one.
  bool are_one(unsigned outer, unsigned inner) {
    auto fits = [&](AffineExpr outer_step, AffineExpr inner_step) {
      unsigned symbols = static_cast<unsigned>(symbol_count(region_));
      return simplifyAffineExpr(outer_step - inner_step * extent(inner), 0, symbols) == getAffineConstantExpr(0, region_.getContext());
    };
    for (const Stage& stage : kernel_.stages_) {
      auto a = llvm::find(stage.dims, outer), b = llvm::find(stage.dims, inner);
      if (a == stage.dims.end() && b == stage.dims.end()) continue;
      for (unsigned i = 0; i < stage.op->getNumOperands(); ++i) {
        if (maker(stage.op, i)) continue;
        auto x = step(stage, i, outer), y = step(stage, i, inner);
        if (!x || !y || !fits(*x, *y)) return false;
      }
      if (a == stage.dims.end() || b == stage.dims.end()) return false;
      unsigned first = static_cast<unsigned>(a - stage.dims.begin()), second = static_cast<unsigned>(b - stage.dims.begin());
      Block& body = stage.op->getRegion(llvm::isa<stage::FoldOp>(stage.op) ? 1 : 0).front();  // with indices of the whole domain
      if (!body.getArgument(first).use_empty() || !body.getArgument(second).use_empty()) return false;
      if (stage.kind == RowsKernel::Kind::per_element && !stage.results.empty()) {
        stage::DomainAttr domain = stage::domain_of(stage.op);
        if (!fits(result_step(domain, first), result_step(domain, second))) return false;
      }
    }
    return true;
  }

  void find_lanes() {
    unsigned last_row = rows_ - 1, last_inner = rows_ + inner_ - 1;
    while (kernel_.flattened_ < inner_ && are_one(last_inner - kernel_.flattened_, last_inner - kernel_.flattened_ + 1))
      ++kernel_.flattened_;
    unsigned along_rows = 0, along_row = 0;
    AffineExpr one = getAffineConstantExpr(1, region_.getContext());
    for (const Stage& stage : kernel_.stages_) {
      for (unsigned i = 0; i < stage.op->getNumOperands(); ++i) {
        if (maker(stage.op, i)) continue;
        along_rows += step(stage, i, last_row) == one && !tx::is_one(extent(last_row));
        along_row += step(stage, i, last_inner) == one && !tx::is_one(extent(last_inner));
      }
    }
    kernel_.lanes_along_rows_ = along_rows > along_row;
    const Stage& last = kernel_.stages_.back();
    if (last.kind != RowsKernel::Kind::per_element) return;
    // The layout of stored results matters more.
    auto is_neighbor = [&](unsigned dimension) {
      auto own = llvm::find(last.dims, dimension);
      return own != last.dims.end() && !tx::is_one(extent(dimension)) &&
             tx::is_one(result_step(stage::domain_of(last.op), static_cast<unsigned>(own - last.dims.begin())));
    };
    if (is_neighbor(last_row) || is_neighbor(last_inner)) kernel_.lanes_along_rows_ = is_neighbor(last_row);
  }

  // The lanes of results are neighbors.
  bool stores_neighbors() {
    return llvm::all_of(kernel_.stages_, [&](const Stage& stage) { return stage.results.empty() || stores_neighbors(stage); });
  }
  bool stores_neighbors(const Stage& last) {
    unsigned lane = kernel_.lanes_along_rows_ ? rows_ - 1 : rows_ + inner_ - 1;
    if (tx::is_one(extent(lane)) || (!kernel_.lanes_along_rows_ && last.kind != RowsKernel::Kind::per_element)) return true;
    auto own = llvm::find(last.dims, lane);
    return own != last.dims.end() && tx::is_one(result_step(stage::domain_of(last.op), static_cast<unsigned>(own - last.dims.begin())));
  }

  tx::DispatchOp region_;
  RowsKernel& kernel_;
  unsigned rows_ = 0, inner_ = 0;
};

FailureOr<RowsKernel> RowsKernel::read(tx::DispatchOp region) {
  RowsKernel kernel;
  if (failed(RowsReader(region, kernel).run())) return failure();
  return kernel;
}

FailureOr<RowsKernel> RowsKernel::read_between(tx::DispatchOp region, const stage::StagedRegion& staged) {
  RowsKernel kernel;
  if (!RowsReader(region, kernel).run_between(staged)) return failure();
  return kernel;
}

ArrayRef<unsigned> RowsKernel::dimensions_of(Operation* stage) const {
  return llvm::find_if(stages_, [&](const Stage& known) { return known.op == stage; })->dims;
}

AffineExpr RowsKernel::row_size() const {
  return product_of(inner_extents_);
}

AffineExpr RowsKernel::run() const {
  return product_of(ArrayRef(inner_extents_).take_back(flattened_));
}

int64_t RowsKernel::accumulators() const {
  int64_t count = 0;
  for (const Stage& stage : stages_) {
    if (auto fold = llvm::dyn_cast<stage::FoldOp>(stage.op)) count += fold.getInit().front().getTerminator()->getNumOperands();
  }
  return count;
}

double RowsKernel::work() const {
  double work = 0;
  for (const Stage& stage : stages_) {
    if (stage.kind == Kind::per_row) continue;
    work += static_cast<double>(stage.op->getNumOperands());
    stage.op->walk([&](Operation* op) {
      if (llvm::isa<math::ExpOp, math::LogOp, math::TanhOp, math::ErfOp>(op)) work += 8;
      if (llvm::isa<math::PowFOp>(op)) work += 20;
      work += 0.5;
    });
  }
  return work;
}

// ----------------------------------------------------------------------------------------------------------- emitting

class RowsEmitter {
 public:
  RowsEmitter(const RowsKernel& kernel, KernelBuilder& builder, ArrayRef<RowPoint> points, const RowTeam& team)
      : kernel_(kernel), k_(builder), points_(points), team_(team), rows_(static_cast<unsigned>(kernel.row_extents_.size())) {
    row_values_.resize(points.size());
    along_rows_ = kernel.lanes_along_rows_;
    size_t loops = kernel.inner_extents_.size() - kernel.flattened_;
    looped_.assign(kernel.inner_extents_.begin(), kernel.inner_extents_.begin() + loops);
    width_ = along_rows_ ? 1 : std::max<int64_t>(1, team.lanes);
    stride_ = width_ * team.size;
    auto run = tx::static_extent(kernel.run());
    bool has_loops = llvm::any_of(looped_, [](AffineExpr extent) { return !tx::is_one(extent); });
    steps_ = run && !has_loops ? (*run + stride_ - 1) / stride_ : -1;
    is_kept_ = steps_ >= 0 && steps_ <= team.kept && static_cast<int64_t>(points.size()) * steps_ <= 2 * team.kept;
    if (is_kept_) kept_.resize(steps_ * points.size());
  }

  void run() {
    for (unsigned pass = 0; pass < kernel_.passes_; ++pass) emit(pass);
  }

 private:
  using Stage = RowsKernel::Stage;
  using Kind = RowsKernel::Kind;
  using Values = KernelBuilder::Values;

  // The known values of a piece of a row.
  struct Known {
    std::map<Operation*, SmallVector<Element>> made;
    std::map<std::pair<void*, const void*>, Element> loaded;  // by operand and place
  };

  // The position of a piece.
  struct Piece {
    SmallVector<Value> looped;  // indices of the dimensions with their own loops
    Value at;                   // along the other dimensions
    Value mask, guard;
  };

  const Stage& of(Operation* op) const {
    return *llvm::find_if(kernel_.stages_, [&](const Stage& stage) { return stage.op == op; });
  }
  std::vector<const Stage*> folds(unsigned pass) const {
    std::vector<const Stage*> found;
    for (const Stage& stage : kernel_.stages_) {
      if (stage.kind == Kind::fold && stage.pass == pass) found.push_back(&stage);
    }
    return found;
  }
  int64_t lanes_of(const RowPoint& point) const { return along_rows_ ? point.lanes : team_.lanes; }

  BodyEmitter body(const Stage& stage) {
    return BodyEmitter(k_, stage.op, [](unsigned, const BodyPlace&) -> Element { llvm_unreachable("all reads are known"); });
  }

  // The index in a stage's domain, or in its dimensions of rows only.
  BodyPlace place_of(const Stage& stage, const RowPoint& point, const Piece* piece) const {
    BodyPlace place;
    unsigned lane = along_rows_ ? rows_ - 1 : rows_ + static_cast<unsigned>(kernel_.inner_extents_.size()) - 1;
    bool has_lanes = along_rows_ || piece;
    stage::DomainAttr domain = stage::domain_of(stage.op);
    unsigned count = piece && !stage.is_given ? domain.getRank() : domain.getParallelRank();
    for (unsigned d = 0; d < count; ++d) {
      unsigned dim = stage.dims[d];
      if (dim == no_dimension) {
        place.index.push_back(k_.index(0));
      } else if (dim < rows_) {
        place.index.push_back(point.index[dim]);
      } else if (dim - rows_ < looped_.size()) {
        place.index.push_back(piece->looped[dim - rows_]);
      } else {
        place.index.push_back(dim - rows_ + 1 == kernel_.inner_extents_.size() ? piece->at : k_.index(0));
      }
      if (has_lanes && dim == lane) {
        place.lane_dimension = d;
        place.lanes = lanes_of(point);
        place.mask = along_rows_ ? point.mask : piece->mask;
      }
    }
    if (piece) place.guard = piece->guard;
    return place;
  }

  // Reads [first, first + count) of a stage, for its body.
  void know_reads(BodyEmitter& body, const Stage& stage, unsigned first, unsigned count, size_t point, const Piece* piece, Known* known) {
    BodyPlace place = place_of(stage, points_[point], piece);
    for (unsigned i = first; i < first + count; ++i) {
      Operation* other = maker(stage.op, i);
      if (!other) {
        if (!known || !stage::gathers_of(stage.op, i).empty()) continue;
        auto key = std::make_pair(stage.op->getOperand(i).getAsOpaquePointer(), where(stage, i).getAsOpaquePointer());
        auto found = known->loaded.find(key);
        if (found == known->loaded.end()) found = known->loaded.insert({key, body.read(i, place)}).first;
        body.known[i] = found->second;
        continue;
      }
      unsigned result = llvm::cast<OpResult>(stage.op->getOperand(i)).getResultNumber();
      const Stage& made = of(other);
      body.known[i] =
          made.kind == Kind::per_element ? element_of(made, point, *piece, *known)[result] : row_values_[point].at(other)[result];
    }
  }

  // An access as a map over the dimensions of rows and of the row.
  Attribute where(const Stage& stage, unsigned read) const {
    stage::AccessAttr access = stage::access_of(stage.op, read);
    MLIRContext* context = access.getContext();
    SmallVector<AffineExpr> dims;
    unsigned count = access.getMap().getNumDims(), all = rows_ + static_cast<unsigned>(kernel_.inner_extents_.size());
    for (unsigned d = 0; d < count; ++d) {
      unsigned dim = stage.dims[d];
      dims.push_back(dim == no_dimension ? getAffineConstantExpr(0, context) : getAffineDimExpr(dim, context));
    }
    AffineMap map = access.getMap().replaceDimsAndSymbols(dims, {}, all, access.getMap().getNumSymbols());
    return stage::AccessAttr::get(context, map, access.getOutside(), {});
  }

  // The elements of a per-element stage: known, kept in memory, or computed again.
  const SmallVector<Element>& element_of(const Stage& stage, size_t point, const Piece& piece, Known& known) {
    if (auto found = known.made.find(stage.op); found != known.made.end()) return found->second;
    if (auto base = memory_.find(stage.op); base != memory_.end()) {
      BodyPlace place = place_of(stage, points_[point], &piece);
      Value at = place_in_memory(stage, point, piece);
      Type element = tx::tensor(stage.op->getResult(0)).getElementType();
      auto load = [&] { return k_.load(base->second, at, element, place.lanes, place.mask); };
      Value value;
      if (piece.guard) {
        Type scalar = stage::scalar_type(element), type = place.lanes > 0 ? Type(k_.vector_type(scalar, place.lanes)) : scalar;
        value = k_.branch(piece.guard, type, [&] { return Values{load()}; }, [&] { return Values{k_.constant(type, 0)}; })[0];
      } else {
        value = load();
      }
      return known.made.insert({stage.op, {{value, place.lanes > 0}}}).first->second;
    }
    SmallVector<Element> made = computed(stage, point, piece, known);
    return known.made.insert({stage.op, made}).first->second;
  }

  SmallVector<Element> computed(const Stage& stage, size_t point, const Piece& piece, Known& known) {
    BodyEmitter emitter = body(stage);
    unsigned count = stage.op->getNumOperands();
    know_reads(emitter, stage, 0, count, point, &piece, &known);
    return emitter.run(stage.op->getRegion(0).front(), 0, count, {}, place_of(stage, points_[point], &piece));
  }

  // Where a per-element stage is kept: in a result, or in memory of this thread, with rows next to each other.
  Value place_in_memory(const Stage& stage, size_t point, const Piece& piece) {
    if (stage.kept_in_result >= 0) return result_place(stage, place_of(stage, points_[point], &piece));
    Value linear = k_.index(0);
    for (auto [index, extent] : llvm::zip_equal(piece.looped, looped_)) linear = k_.add(k_.mul(linear, k_.extent(extent)), index);
    linear = k_.add(k_.mul(linear, k_.extent(kernel_.run())), piece.at);
    if (!along_rows_) return linear;
    int64_t lanes = std::max<int64_t>(1, points_[point].lanes);
    return k_.add(k_.mul(linear, lanes * static_cast<int64_t>(points_.size())), lanes * static_cast<int64_t>(point));
  }

  Value result_place(const Stage& stage, const BodyPlace& place) {
    AffineExpr linear = getAffineConstantExpr(0, stage.op->getContext());
    for (auto [d, extent] : llvm::enumerate(stage::domain_of(stage.op).parallel()))
      linear = linear * extent + getAffineDimExpr(d, stage.op->getContext());
    return body(stage).evaluate(linear, place.index);
  }

  // Memory for values that later passes read. Values without memory are computed again.
  void give_memory(unsigned pass) {
    for (const Stage& stage : kernel_.stages_) {
      if (team_.between) {
        bool is_needed = !is_kept_ || stage.is_given || &stage == &kernel_.stages_.back();
        if (stage.kind == Kind::per_element && stage.pass == pass && is_needed) memory_[stage.op] = team_.between;
        continue;
      }
      if (stage.kind != Kind::per_element || stage.pass != pass || !stage.is_read_later) continue;
      if (stage.kept_in_result >= 0) {
        memory_[stage.op] = k_.result(static_cast<unsigned>(stage.kept_in_result));
      } else if (auto count = tx::static_extent(kernel_.row_size()); count && team_.scratch && stage.op->getNumResults() == 1) {
        int64_t side_by_side = along_rows_ ? std::max<int64_t>(1, points_.front().lanes) * static_cast<int64_t>(points_.size()) : 1;
        Value base = team_.scratch(tx::tensor(stage.op->getResult(0)).getElementType(), *count * side_by_side);
        if (base) memory_[stage.op] = base;
      }
    }
  }

  void guarded(Value condition, const std::function<void()>& then) {
    if (condition) {
      k_.branch(condition, then);
    } else {
      then();
    }
  }
  Value both(Value a, Value b) {
    if (!a || !b) return a ? a : b;
    return k_.make<arith::AndIOp>(a, b);
  }

  // One piece of each row: runs the pass's stages in order. Returns the next accumulators of all points and folds.
  Values piece(unsigned pass, const Piece& piece, ValueRange sums, MutableArrayRef<Known> known) {
    Values next;
    for (size_t point = 0; point < points_.size(); ++point) {
      for (const Stage& stage : kernel_.stages_) {
        if (stage.pass != pass || stage.kind == Kind::per_row || stage.is_given) continue;
        BodyPlace place = place_of(stage, points_[point], &piece);
        if (stage.kind == Kind::per_element) {
          SmallVector<Element> made = computed(stage, point, piece, known[point]);
          known[point].made[stage.op] = made;
          auto memory = memory_.find(stage.op);
          if (stage.results.empty() && memory == memory_.end()) continue;
          guarded(both(piece.guard, team_.exists), [&] {
            if (!stage.results.empty()) {
              Value at = result_place(stage, place);
              for (auto [result, element] : llvm::zip_equal(stage.results, made))
                k_.store(body(stage).to_lanes(element, place.lanes).value, k_.result(result), at, place.mask);
            } else {
              k_.store(body(stage).to_lanes(made[0], place.lanes).value, memory->second, place_in_memory(stage, point, piece), place.mask);
            }
          });
          continue;
        }
        auto fold = llvm::cast<stage::FoldOp>(stage.op);
        BodyEmitter emitter = body(stage);
        unsigned reads = static_cast<unsigned>(fold.getStepReads()), count = accumulators(stage);
        know_reads(emitter, stage, 0, reads, point, &piece, &known[point]);
        SmallVector<Element> before;
        for (unsigned i = 0; i < count; ++i) before.push_back({sums[next.size() + i], place.lanes > 0});
        SmallVector<Element> after = emitter.run(fold.getStep().front(), 0, reads, before, place);
        for (unsigned i = 0; i < count; ++i) {
          Value value = emitter.to_lanes(after[i], place.lanes).value;
          Value counts = along_rows_ ? piece.guard : (place.mask ? place.mask : piece.guard);
          next.push_back(counts ? k_.make<arith::SelectOp>(counts, value, before[i].value) : value);
        }
      }
    }
    return next;
  }

  static unsigned accumulators(const Stage& stage) {
    return llvm::cast<stage::FoldOp>(stage.op).getInit().front().getTerminator()->getNumOperands();
  }

  void emit(unsigned pass) {
    if (!is_kept_ || team_.between) give_memory(pass);
    // Sets of accumulators, one after the other; each has those of all points and folds.
    Values initial;
    for (const RowPoint& point : points_) {
      for (const Stage* stage : folds(pass)) {
        BodyEmitter emitter = body(*stage);
        for (Element element : emitter.run(llvm::cast<stage::FoldOp>(stage->op).getInit().front(), 0, 0, {}, {}))
          initial.push_back(emitter.to_lanes(element, lanes_of(point)).value);
      }
    }
    auto is_gone_through = [&](const Stage& stage) { return stage.pass == pass && stage.kind != Kind::per_row && !stage.is_given; };
    bool has_work = llvm::any_of(kernel_.stages_, is_gone_through);
    Values sums = initial;
    if (has_work && is_kept_) {
      sums = unrolled(pass, initial);
    } else if (has_work) {
      int64_t sets = initial.empty() ? 1 : team_.at_once;
      Values all;
      for (int64_t i = 0; i < sets; ++i) llvm::append_range(all, initial);
      sums = merged(pass, looped(pass, all, {}), sets);
    }
    finish(pass, sums);
  }

  // All pieces; their known values are kept for later passes.
  Values unrolled(unsigned pass, Values sums) {
    int64_t run = *tx::static_extent(kernel_.run());
    Value first = team_.member ? k_.mul(team_.member, width_) : k_.index(0);
    for (int64_t i = 0; i < steps_; ++i) {
      Piece where;
      for (size_t d = 0; d < looped_.size(); ++d) where.looped.push_back(k_.index(0));
      where.at = k_.add(first, i * stride_);
      if ((i + 1) * stride_ > run) {
        if (team_.masks && width_ > 1) {
          where.mask = k_.remainder_mask(k_.index(run - i * stride_), width_);
        } else {
          where.guard = k_.less(where.at, k_.index(run));
        }
      }
      sums = piece(pass, where, sums, MutableArrayRef(kept_).slice(i * points_.size(), points_.size()));
    }
    return sums;
  }

  Values looped(unsigned pass, ValueRange sums, SmallVector<Value> index) {
    if (index.size() < looped_.size()) {
      Value extent = k_.extent(looped_[index.size()]);
      return k_.loop(k_.index(0), extent, k_.index(1), sums, [&](Value i, ValueRange carried) {
        SmallVector<Value> deeper = index;
        deeper.push_back(i);
        return looped(pass, carried, deeper);
      });
    }
    return run(pass, sums, index);
  }

  // The innermost loops. All members of the team go through the first one equally often.
  Values run(unsigned pass, ValueRange sums, ArrayRef<Value> index) {
    int64_t sets = sums.empty() ? 1 : team_.at_once;
    size_t count = sums.size() / static_cast<size_t>(sets);
    Value end = k_.extent(kernel_.run()), first = team_.member ? k_.mul(team_.member, width_) : k_.index(0);
    auto one = [&](Value at, Value mask, ValueRange before) {
      std::vector<Known> known(points_.size());
      Piece where{SmallVector<Value>(index), at, mask, {}};
      return piece(pass, where, before, known);
    };
    Value block = k_.index(stride_ * sets), whole = k_.mul(k_.div(end, block), block);
    Values next = k_.loop(first, whole, block, sums, [&](Value at, ValueRange carried) {
      Values all;
      for (int64_t i = 0; i < sets; ++i) llvm::append_range(all, one(k_.add(at, i * stride_), {}, carried.slice(i * count, count)));
      return all;
    });
    ValueRange first_set = ValueRange(next).take_front(count);
    Value pieces_end = end;
    if (team_.masks && width_ > 1) pieces_end = k_.mul(k_.div(end, k_.index(width_)), width_);
    Values rest = first_set;
    if (sets > 1 || team_.size > 1) {
      rest = k_.loop(k_.add(whole, first), pieces_end, k_.index(stride_), first_set,
                     [&](Value at, ValueRange carried) { return one(at, {}, carried); });
    }
    IntegerAttr left;
    Value beyond = k_.sub(end, pieces_end);
    bool is_whole = matchPattern(beyond, m_Constant(&left)) && left.getInt() == 0;
    if (team_.masks && width_ > 1 && !is_whole) {
      auto masked = [&] { return one(pieces_end, k_.remainder_mask(beyond, width_), rest); };
      if (rest.empty()) {
        k_.branch(k_.less(k_.index(0), beyond), [&] { masked(); });
      } else {
        rest = k_.branch(k_.less(k_.index(0), beyond), ValueRange(rest).getTypes(), masked, [&] { return rest; });
      }
    }
    for (size_t i = 0; i < count; ++i) next[i] = rest[i];
    return next;
  }

  // Merges several sets into one.
  Values merged(unsigned pass, Values sums, int64_t sets) {
    size_t count = sums.size() / static_cast<size_t>(sets);
    for (; sets > 1; sets /= 2) {
      Values next;
      for (int64_t i = 0; i < sets / 2; ++i) {
        size_t at = 0;
        for (const RowPoint& point : points_) {
          for (const Stage* stage : folds(pass)) {
            auto part = [&](int64_t set) { return ValueRange(sums).slice(set * count + at, accumulators(*stage)); };
            llvm::append_range(next, merge(*stage, part(i), part(i + sets / 2), lanes_of(point)));
            at += accumulators(*stage);
          }
        }
      }
      sums = next;
    }
    return sums;
  }

  Values merge(const Stage& stage, ValueRange a, ValueRange b, int64_t lanes) {
    BodyEmitter emitter = body(stage);
    SmallVector<Element> both;
    for (Value value : a) both.push_back({value, lanes > 0});
    for (Value value : b) both.push_back({value, lanes > 0});
    BodyPlace place;
    place.lanes = lanes;
    SmallVector<Element> result = emitter.run(llvm::cast<stage::FoldOp>(stage.op).getMerge().front(), 0, 0, both, place);
    return Values(llvm::map_range(result, [&](Element element) { return emitter.to_lanes(element, lanes).value; }));
  }

  // Merges lanes, in halves.
  Values across_lanes(const Stage& stage, Values sums, int64_t lanes) {
    while (lanes > 1) {
      lanes /= 2;
      Values low, high;
      for (Value sum : sums) {
        if (lanes == 1) {
          low.push_back(k_.builder.create<vector::ExtractOp>(k_.location, sum, 0));
          high.push_back(k_.builder.create<vector::ExtractOp>(k_.location, sum, 1));
          continue;
        }
        SmallVector<int64_t> first, second;
        for (int64_t i = 0; i < lanes; ++i) {
          first.push_back(i);
          second.push_back(i + lanes);
        }
        low.push_back(k_.builder.create<vector::ShuffleOp>(k_.location, sum, sum, first));
        high.push_back(k_.builder.create<vector::ShuffleOp>(k_.location, sum, sum, second));
      }
      sums = merge(stage, low, high, lanes == 1 ? 0 : lanes);
    }
    return sums;
  }

  // The results of folds from their accumulators, and the values that are computed per row after the pass.
  void finish(unsigned pass, ValueRange sums) {
    for (size_t point = 0; point < points_.size(); ++point) {
      for (const Stage& stage : kernel_.stages_) {
        if (stage.pass != pass || stage.kind == Kind::per_element) continue;
        int64_t lanes = along_rows_ ? points_[point].lanes : 0;
        SmallVector<Element> made;
        if (stage.kind == Kind::fold) {
          Values own(sums.take_front(accumulators(stage)));
          sums = sums.drop_front(accumulators(stage));
          if (!along_rows_) own = across_lanes(stage, own, team_.lanes);
          if (team_.combine) own = team_.combine(own, [&](ValueRange a, ValueRange b) { return merge(stage, a, b, lanes); });
          for (Value value : own) made.push_back({value, lanes > 0});
        }
        BodyEmitter emitter = body(stage);
        unsigned first = stage::first_read_of_last_body(stage.op), count = stage.op->getNumOperands() - first;
        know_reads(emitter, stage, first, count, point, nullptr, nullptr);
        BodyPlace place = place_of(stage, points_[point], nullptr);
        made = emitter.run(stage::last_body(stage.op), first, count, made, place);
        row_values_[point][stage.op] = made;
        if (stage.results.empty()) continue;
        Value is_mine;
        if (team_.member) is_mine = k_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, team_.member, k_.index(0));
        guarded(both(is_mine, team_.exists), [&] {
          Value at = result_place(stage, place);
          for (auto [result, element] : llvm::zip_equal(stage.results, made))
            k_.store(emitter.to_lanes(element, place.lanes).value, k_.result(result), at, place.mask);
        });
      }
    }
  }

  const RowsKernel& kernel_;
  KernelBuilder& k_;
  ArrayRef<RowPoint> points_;
  const RowTeam& team_;
  const unsigned rows_;
  bool along_rows_, is_kept_;
  SmallVector<AffineExpr> looped_;  // extents of the row's dimensions with loops of their own
  int64_t width_, stride_;          // of a piece; from one of this thread's pieces to the next
  int64_t steps_;                   // pieces of a row, or -1 if unknown
  std::vector<Known> kept_;         // of all pieces of all points, if they are kept
  std::map<Operation*, Value> memory_;
  std::vector<std::map<Operation*, SmallVector<Element>>> row_values_;  // of each point
};

void RowsKernel::emit(KernelBuilder& kernel, ArrayRef<RowPoint> points, const RowTeam& team) const {
  RowsEmitter(*this, kernel, points, team).run();
}

}  // namespace heddle::targets
