// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See generic.h.
#include "compiler/targets/generic.h"

#include <cmath>

#include "compiler/stage/sieve.h"
#include "compiler/targets/stage_emitter.h"
#include "compiler/targets/walk_emitter.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// How a read moves with lanes in the last parallel dimension: 0, all lanes read the same; 1, neighbors; nothing if neither. `lanes` is lowered to the
// number for which that holds.
std::optional<int64_t> lane_step(Operation* stage, unsigned read, int64_t& lanes) {
  auto step = memory_step(stage, read, stage::domain_of(stage).getParallelRank() - 1, lanes);
  auto fixed = step ? tx::static_extent(*step) : std::nullopt;
  return fixed && (*fixed == 0 || *fixed == 1) ? fixed : std::nullopt;
}

// A bound of a domain that grows with its last reduced dimension: the dimension, and the step.
struct BoundStep {
  unsigned dimension;
  int64_t by;
};
std::optional<BoundStep> step_of_bound(AffineMap bounded, stage::DomainAttr domain) {
  unsigned dimension = domain.getRank();
  while (dimension > domain.getParallelRank() && !bounded.isFunctionOfDim(dimension - 1)) --dimension;
  if (dimension-- == domain.getParallelRank()) return std::nullopt;
  auto by = slope_of(bounded.getResult(0), dimension);
  return by && *by > 0 ? std::optional(BoundStep{dimension, *by}) : std::nullopt;
}

constexpr int64_t places_at_once = 8;  // of a scatter, which a thread reads before it stores

// Results of one stage at an index of its parallel dimensions, or at lanes along the last of them. Results of other stages are computed where they
// are read, outside of the loops that they do not depend on.
class StageEmitter {
 public:
  StageEmitter(KernelBuilder& kernel, Operation* stage, BodyPlace place, LineSplit split = {})
      : k_(kernel),
        stage_(stage),
        domain_(stage::domain_of(stage)),
        body_(kernel, stage, [this](unsigned read, const BodyPlace& at) { return made(read, at); }),
        place_(std::move(place)),
        split_(split) {}

  SmallVector<Element> results() {
    SmallVector<Element> sums;
    if (auto fold = llvm::dyn_cast<stage::FoldOp>(stage_)) sums = folded(fold);
    if (auto contract = llvm::dyn_cast<stage::ContractOp>(stage_)) sums = contracted(contract);
    unsigned first = stage::first_read_of_last_body(stage_);
    body_.known.clear();
    return body_.run(stage::last_body(stage_), first, stage_->getNumOperands() - first, sums, place_);
  }

  void store() {
    if (auto scan = llvm::dyn_cast<stage::ScanOp>(stage_)) {
      store_line(scan);
    } else if (auto scatter = llvm::dyn_cast<stage::ScatterOp>(stage_)) {
      store_part(scatter);
    } else if (auto sieve = llvm::dyn_cast<stage::SieveOp>(stage_)) {
      sift(sieve);
    } else if (auto sort = llvm::dyn_cast<stage::SortOp>(stage_)) {
      split_.for_threads ? store_place(sort) : store_order(sort);
    } else if (auto walk = llvm::dyn_cast<stage::WalkOp>(stage_)) {
      emit_walks(k_, walk, place_.index);
    } else {
      store(results());
    }
  }

 private:
  Value place_of_results() {
    AffineExpr place = getAffineConstantExpr(0, stage_->getContext());
    for (auto [d, extent] : llvm::enumerate(domain_.parallel())) {
      const bool has_pitch = d + 1 == domain_.getParallelRank() && k_.pitch();
      place = (has_pitch ? place * *k_.pitch() : place * extent) + getAffineDimExpr(d, stage_->getContext());
    }
    return body_.evaluate(place, place_.index);
  }

  void store(ArrayRef<Element> all) {
    Value at = place_of_results();
    for (auto [i, result] : llvm::enumerate(all)) {
      k_.store(body_.to_lanes(result, place_.lanes).value, k_.result(i), at, place_.mask);
    }
  }

  // A part of a line of a scatter, whose number is the index along the line: stores the initial elements, unless they are there already, then applies
  // those updates of the line that are for the part. For threads, the parts are interleaved, so that neighboring threads access neighboring elements.
  void store_part(stage::ScatterOp scatter) {
    auto along = static_cast<size_t>(scatter.getAlong());
    auto in_place = static_cast<unsigned>(scatter.getPlaceReads()), in_step = static_cast<unsigned>(scatter.getStepReads());
    const bool is_mixed = split_.for_threads;
    Value part = place_.index[along], parts = k_.index(split_.parts), extent = k_.extent(domain_.getExtents().getResult(along));
    Value size = k_.ceil_div(extent, parts), from = is_mixed ? part : k_.mul(part, size),
          to = is_mixed ? extent : k_.min(k_.add(from, size), extent);
    if (!split_.in_place) {
      k_.loop(from, to, is_mixed ? parts : k_.index(1), [&](Value i) {
        place_.index[along] = i;
        store(results());
      });
    }
    auto place_at = [&](Value update) {
      BodyPlace one = place_;
      one.index.push_back(update);
      one.index[along] = k_.index(0);
      one.lanes = 0;
      one.mask = {};
      return body_.run(scatter.getPlace().front(), 0, in_place, {}, one)[0].value;
    };
    auto apply = [&](Value update, Value at) {
      Value first = is_mixed ? k_.index(0) : from;
      Value is_own = k_.make<arith::AndIOp>(k_.make<arith::CmpIOp>(arith::CmpIPredicate::sge, at, first), k_.less(at, to));
      if (is_mixed) is_own = k_.make<arith::AndIOp>(is_own, k_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, k_.rem(at, parts), part));
      k_.branch(is_own, [&] {
        BodyPlace here = place_;
        here.index.push_back(update);
        here.index[along] = k_.index(0);
        place_.index[along] = at;
        Value place = place_of_results();
        SmallVector<Element> old;
        for (auto [i, result] : llvm::enumerate(stage_->getResults())) {
          Value loaded = k_.load(k_.result(i), place, tx::element_of(result), place_.lanes, place_.mask);
          old.push_back({loaded, place_.lanes > 0});
        }
        store(body_.run(scatter.getStep().front(), in_place, in_step, old, here));
      });
    };
    // A thread would wait for each place in turn, so it reads a few before it stores anything.
    const int64_t at_once = is_mixed ? places_at_once : 1;
    Value updates = k_.extent(domain_.folded().front()), whole = k_.mul(k_.div(updates, k_.index(at_once)), k_.index(at_once));
    k_.loop(k_.index(0), whole, k_.index(at_once), [&](Value update) {
      SmallVector<Value> numbers, places;
      for (int64_t i = 0; i < at_once; ++i) numbers.push_back(k_.add(update, k_.index(i)));
      for (Value number : numbers) places.push_back(place_at(number));
      for (auto [number, at] : llvm::zip_equal(numbers, places)) apply(number, at);
    });
    if (at_once > 1) k_.loop(whole, updates, [&](Value update) { apply(update, place_at(update)); });
  }

  // The whole line of a sieve.
  void sift(stage::SieveOp sieve) {
    auto along = static_cast<size_t>(sieve.getAlong());
    auto in_limit = static_cast<unsigned>(sieve.getLimitReads()), in_step = static_cast<unsigned>(sieve.getStepReads());
    Value one = k_.index(1), zero = k_.index(0), extent = k_.extent(domain_.getExtents().getResult(along));
    Type i1 = k_.builder.getI1Type();
    auto place_at = [&](Value i) {
      place_.index[along] = i;
      return place_of_results();
    };
    auto is_there = [&](Value i) { return k_.load(k_.result(0), place_at(i), i1); };
    Value limit = body_.run(sieve.getLimit().front(), 0, in_limit, {}, place_)[0].value;
    k_.loop(zero, extent, [&](Value i) {
      place_.index[along] = i;
      store(results());
    });
    // Each element is compared with those that stayed before it, and none is once as many as may stay did.
    Value yes = k_.constant(i1, 1), no = k_.constant(i1, 0);
    k_.loop(zero, extent, one, zero, [&](Value i, ValueRange values) {
      Value stayed = values[0];
      return k_.branch(
          is_there(i), TypeRange{k_.builder.getI64Type()},
          [&]() -> KernelBuilder::Values {
            Value is_removed = k_.branch(
                k_.less(stayed, limit), TypeRange{i1},
                [&] {
                  return k_.loop(zero, i, one, no, [&](Value earlier, ValueRange found) {
                    Value goes_on = k_.make<arith::AndIOp>(is_there(earlier), k_.make<arith::XOrIOp>(found[0], yes));
                    return k_.branch(
                        goes_on, TypeRange{i1},
                        [&]() -> KernelBuilder::Values {
                          BodyPlace here = place_;
                          here.index[along] = i;
                          here.index.push_back(earlier);
                          return {body_.run(sieve.getRemoves().front(), in_limit, in_step, {}, here)[0].value};
                        },
                        [&]() -> KernelBuilder::Values { return {found[0]}; });
                  });
                },
                [&]() -> KernelBuilder::Values { return {yes}; })[0];
            k_.branch(is_removed, [&] { k_.store(no, k_.result(0), place_at(i)); });
            return {k_.make<arith::SelectOp>(is_removed, stayed, k_.add(stayed, one))};
          },
          [&]() -> KernelBuilder::Values { return {stayed}; });
    });
  }

  // ---- a line of a sort

  Value load_index(Value at) {
    place_.index[static_cast<size_t>(llvm::cast<stage::SortOp>(stage_).getAlong())] = at;
    return k_.load(k_.result(0), place_of_results(), k_.builder.getI64Type());
  }
  void store_index(Value index, Value at) {
    place_.index[static_cast<size_t>(llvm::cast<stage::SortOp>(stage_).getAlong())] = at;
    k_.store(index, k_.result(0), place_of_results());
  }

  SmallVector<Element> compared(stage::SortOp sort, Value index) {
    BodyPlace here = place_;
    here.index[static_cast<size_t>(sort.getAlong())] = k_.index(0);
    here.index.push_back(index);
    return body_.run(sort.getElement().front(), 0, stage_->getNumOperands(), {}, here);
  }

  // Whether the first of two elements comes before the second one; if neither must, their indices decide.
  Value is_before(stage::SortOp sort, Value a, Value b) {
    SmallVector<Element> first = compared(sort, a), second = compared(sort, b), both = first, turned = second;
    llvm::append_range(both, second);
    llvm::append_range(turned, first);
    auto compare = [&](ArrayRef<Element> values) { return body_.run(sort.getBefore().front(), 0, 0, values, {})[0].value; };
    return k_.make<arith::SelectOp>(compare(turned), k_.constant(k_.builder.getI1Type(), 0),
                                    k_.make<arith::OrIOp>(compare(both), k_.less(a, b)));
  }

  // One element of the line, given its index along the line: its position is the number of elements before it.
  void store_place(stage::SortOp sort) {
    auto along = static_cast<size_t>(sort.getAlong());
    Value own = place_.index[along];
    Value count = k_.loop(k_.index(0), k_.extent(domain_.folded().front()), k_.index(1), k_.index(0), [&](Value other, ValueRange values) {
      Value one = k_.make<arith::ExtUIOp>(k_.builder.getI64Type(), is_before(sort, other, own));
      return KernelBuilder::Values{k_.add(values[0], one)};
    })[0];
    k_.branch(k_.less(count, k_.extent(domain_.getExtents().getResult(along))), [&] { store_index(own, count); });
  }

  // The whole line: the first elements form a heap with the last of them in order at its top; other elements replace the top; then the tops are
  // removed one by one.
  void store_order(stage::SortOp sort) {
    Value size = k_.extent(domain_.getExtents().getResult(static_cast<size_t>(sort.getAlong()))), one = k_.index(1), zero = k_.index(0);
    Value levels = k_.loop(zero, k_.index(63), one, zero, [&](Value i, ValueRange values) {
      Value is_more = k_.less(zero, k_.make<arith::ShRUIOp>(size, i));
      return KernelBuilder::Values{k_.add(values[0], k_.make<arith::ExtUIOp>(k_.builder.getI64Type(), is_more))};
    })[0];
    // A line exists even if none of its elements are wanted.
    k_.branch(k_.less(zero, size), [&] {
      k_.loop(zero, size, [&](Value i) { store_index(i, i); });
      Value parents = k_.div(size, k_.index(2));
      k_.loop(zero, parents, [&](Value i) {
        Value at = k_.sub(k_.sub(parents, one), i);
        sink(sort, load_index(at), at, size, levels);
      });
      k_.loop(size, k_.extent(domain_.folded().front()),
              [&](Value i) { k_.branch(is_before(sort, i, load_index(zero)), [&] { sink(sort, i, zero, size, levels); }); });
      k_.loop(one, size, [&](Value i) {
        Value last = k_.sub(size, i), moved = load_index(last);
        store_index(load_index(zero), last);
        sink(sort, moved, zero, last, levels);
      });
    });
  }

  // Inserts an element into a heap of this size, moving it down from a place until the elements below it come before it.
  void sink(stage::SortOp sort, Value element, Value from, Value size, Value levels) {
    Type i64 = k_.builder.getI64Type(), i1 = k_.builder.getI1Type();
    Value no = k_.constant(i1, 0), yes = k_.constant(i1, 1);
    Value at = k_.loop(k_.index(0), levels, k_.index(1), ValueRange{from, no}, [&](Value, ValueRange values) {
      Value place = values[0], left = k_.add(k_.mul(place, 2), 1);
      Value goes_on = k_.make<arith::AndIOp>(k_.make<arith::XOrIOp>(values[1], yes), k_.less(left, size));
      return k_.branch(
          goes_on, TypeRange{i64, i1},
          [&]() -> KernelBuilder::Values {
            Value right = k_.add(left, 1), below = load_index(left);
            KernelBuilder::Values later = k_.branch(
                k_.less(right, size), TypeRange{i64, i64},
                [&]() -> KernelBuilder::Values {
                  Value other = load_index(right), is_later = is_before(sort, below, other);
                  return {k_.make<arith::SelectOp>(is_later, right, left), k_.make<arith::SelectOp>(is_later, other, below)};
                },
                [&]() -> KernelBuilder::Values { return {left, below}; });
            return k_.branch(
                is_before(sort, element, later[1]), TypeRange{i64, i1},
                [&]() -> KernelBuilder::Values {
                  store_index(later[1], place);
                  return {later[0], no};
                },
                [&]() -> KernelBuilder::Values { return {place, yes}; });
          },
          [&]() -> KernelBuilder::Values { return {place, yes}; });
    })[0];
    store_index(element, at);
  }

  // The whole line along the dimension of a scan, starting at the line's first index.
  void store_line(stage::ScanOp scan) {
    auto along = static_cast<size_t>(scan.getAlong());
    unsigned first = static_cast<unsigned>(scan.getStepReads());
    auto value = [&](Element element) { return body_.to_lanes(element, place_.lanes).value; };
    auto elements = [&](ValueRange values) {
      return llvm::map_to_vector(values, [&](Value one) { return Element{one, place_.lanes > 0}; });
    };
    SmallVector<Value> init = llvm::map_to_vector(body_.run(scan.getInit().front(), 0, 0, {}, {}), value);
    Value extent = k_.extent(domain_.getExtents().getResult(along));
    k_.loop(k_.index(0), extent, k_.index(1), init, [&](Value i, ValueRange carried) {
      place_.index[along] = scan.getReverse() ? k_.sub(k_.sub(extent, k_.index(1)), i) : i;
      SmallVector<Element> sums = elements(carried);
      BodyPlace here = place_;
      if (scan.getPlaced()) here.index.push_back(carried.front());
      KernelBuilder::Values next(llvm::map_range(body_.run(scan.getStep().front(), 0, first, sums, here), value));
      llvm::append_range(sums, elements(next));
      body_.known.clear();
      store(body_.run(scan.getFinish().front(), first, stage_->getNumOperands() - first, sums, place_));
      return next;
    });
  }

  Element made(unsigned read, const BodyPlace& at) {
    auto result = llvm::cast<OpResult>(stage_->getOperand(read));
    BodyPlace place;
    for (AffineExpr index : stage::access_of(stage_, read).getMap().getResults()) place.index.push_back(body_.evaluate(index, at.index));
    return StageEmitter(k_, result.getOwner(), place).results()[result.getResultNumber()];
  }

  // Reads the values of other stages that do not depend on the reduced dimensions.
  void read_ahead(unsigned reads) {
    for (unsigned i = 0; i < reads; ++i) {
      if (llvm::isa<BlockArgument>(stage_->getOperand(i))) continue;
      AffineMap map = stage::access_of(stage_, i).getMap();
      bool is_fixed = true;
      for (unsigned d = domain_.getParallelRank(); d < domain_.getRank(); ++d) is_fixed &= !map.isFunctionOfDim(d);
      if (is_fixed) body_.known[i] = made(i, place_);
    }
  }

  using Step = std::function<SmallVector<Element>(ArrayRef<Element>)>;

  // Loops over the reduced elements that exist; `step` computes the next accumulators, all of them in lanes if any are.
  SmallVector<Element> loops(ArrayRef<Element> first, const Step& step) {
    // At a border, each lane has its own range of elements; in the middle of a line, all lanes have all elements.
    SmallVector<AffineMap> of_lanes;
    for (AffineMap bounded : domain_.getWithin()) {
      if (place_.lanes > 0 && bounded.isFunctionOfDim(place_.lane_dimension)) of_lanes.push_back(bounded);
    }
    if (of_lanes.empty()) return loops_from(first, step);
    auto masked_step = [&](ArrayRef<Element> sums) {
      Value inside;
      for (AffineMap bounded : of_lanes) {
        Value index = body_.evaluate(bounded.getResult(0), place_.index), bound = k_.extent(bounded.getResult(1));
        Value below = k_.remainder_mask(k_.sub(k_.index(0), index), place_.lanes),
              ahead = k_.remainder_mask(k_.sub(bound, index), place_.lanes);
        Value own = k_.make<arith::AndIOp>(ahead, k_.make<arith::XOrIOp>(below, k_.constant(below.getType(), 1)));
        inside = inside ? k_.make<arith::AndIOp>(inside, own) : own;
      }
      Value all = place_.mask;
      place_.mask = all ? k_.make<arith::AndIOp>(all, inside) : inside;
      SmallVector<Element> next = step(sums);
      place_.mask = all;
      for (auto [value, before] : llvm::zip_equal(next, sums)) {
        value = {k_.make<arith::SelectOp>(inside, body_.to_lanes(value, place_.lanes).value, body_.to_lanes(before, place_.lanes).value),
                 true};
      }
      return next;
    };
    if (place_.mask) return loops_from(first, masked_step);
    Value all_inside;
    for (AffineMap bounded : of_lanes) {
      auto [least, most] = range_over_reduced(bounded.getResult(0));
      Value own = k_.make<arith::AndIOp>(k_.make<arith::CmpIOp>(arith::CmpIPredicate::sge, least, k_.index(0)),
                                         k_.less(k_.add(most, place_.lanes - 1), k_.extent(bounded.getResult(1))));
      all_inside = all_inside ? k_.make<arith::AndIOp>(all_inside, own) : own;
    }
    auto values = [&](ArrayRef<Element> elements) {
      return KernelBuilder::Values(llvm::map_range(elements, [&](const Element& one) { return body_.to_lanes(one, place_.lanes).value; }));
    };
    KernelBuilder::Values begin = values(first);
    KernelBuilder::Values sums = k_.branch(
        all_inside, TypeRange(ValueRange(begin)), [&] { return values(loops_from(first, step)); },
        [&] { return values(loops_from(first, masked_step)); });
    return llvm::map_to_vector(sums, [&](Value value) { return Element{value, true}; });
  }

  // The smallest and the largest value of an index that grows with the reduced dimensions.
  std::pair<Value, Value> range_over_reduced(AffineExpr index) {
    SmallVector<Value> first = place_.index, last = place_.index;
    for (AffineExpr extent : domain_.folded()) {
      first.push_back(k_.index(0));
      last.push_back(k_.sub(k_.extent(extent), k_.index(1)));
    }
    return {body_.evaluate(index, first), body_.evaluate(index, last)};
  }

  // The range of the next reduced dimension in which all bounds hold that depend only on it and the dimensions before it.
  std::pair<Value, Value> part_of_dimension() {
    const auto dimension = static_cast<unsigned>(place_.index.size());
    Value from = k_.index(0), to = k_.extent(domain_.getExtents().getResult(dimension)), all = to;
    for (AffineMap bounded : domain_.getWithin()) {
      if (place_.lanes > 0 && bounded.isFunctionOfDim(place_.lane_dimension)) continue;
      auto step = step_of_bound(bounded, domain_);
      if (!step || step->dimension != dimension) continue;
      SmallVector<Value> index = place_.index;
      index.push_back(k_.index(0));
      Value start = body_.evaluate(bounded.getResult(0), index), zero = k_.index(0), by = k_.index(step->by);
      auto indices_before = [&](Value bound) { return k_.min(all, k_.ceil_div(k_.max(zero, k_.sub(bound, start)), by)); };
      from = k_.max(from, indices_before(zero));
      to = k_.min(to, indices_before(k_.extent(bounded.getResult(1))));
    }
    return {from, to};
  }

  SmallVector<Element> loops_from(ArrayRef<Element> first, const Step& step) {
    if (place_.index.size() == domain_.getRank()) return step(first);
    auto value = [&](Element element) { return body_.to_lanes(element, place_.lanes).value; };
    SmallVector<Value> carried = llvm::map_to_vector(first, value);
    auto elements = [&](ValueRange values) {
      return llvm::map_to_vector(values, [&](Value value) { return Element{value, place_.lanes > 0}; });
    };
    auto [from, to] = part_of_dimension();
    auto results = k_.loop(from, to, k_.index(1), carried, [&](Value i, ValueRange values) {
      place_.index.push_back(i);
      SmallVector<Element> next = loops_from(elements(values), step);
      place_.index.pop_back();
      return KernelBuilder::Values(llvm::map_range(next, value));
    });
    return elements(results);
  }

  SmallVector<Element> folded(stage::FoldOp fold) {
    SmallVector<Element> init = body_.run(fold.getInit().front(), 0, 0, {}, {});
    unsigned reads = static_cast<unsigned>(fold.getStepReads());
    read_ahead(reads);
    return loops(init, [&](ArrayRef<Element> sums) { return body_.run(fold.getStep().front(), 0, reads, sums, place_); });
  }

  SmallVector<Element> contracted(stage::ContractOp contract) {
    Type type = contract.getAccumulator();
    unsigned reads = static_cast<unsigned>(contract.getStepReads());
    read_ahead(reads);
    return loops(Element{k_.constant(type, 0), false}, [&](ArrayRef<Element> sums) {
      SmallVector<Element> factors = body_.run(contract.getFactors().front(), 0, reads, {}, place_);
      auto value = [&](Element element) { return body_.to_lanes(element, place_.lanes).value; };
      Value a = value(factors[0]), b = value(factors[1]), sum = value(sums[0]);
      Value next = llvm::isa<FloatType>(type) ? k_.make<math::FmaOp>(a, b, sum) : k_.make<arith::AddIOp>(k_.make<arith::MulIOp>(a, b), sum);
      return SmallVector<Element>{{next, place_.lanes > 0}};
    });
  }

  KernelBuilder& k_;
  Operation* stage_;
  stage::DomainAttr domain_;
  BodyEmitter body_;
  BodyPlace place_;
  LineSplit split_;
};

}  // namespace

constexpr int64_t most_lanes = 64;
constexpr int64_t subgroup_parts = 32, long_line = 1024;  // of a scatter, for threads

// Whether the region's result is in the memory of what its scatter updates.
bool updates_in_place(tx::DispatchOp region) {
  if (!region.getTied() || region.getTied()->size() != 1) return false;
  const int64_t operand = region.getTied()->front();
  auto scatter = region.getBody().front().getTerminator()->getOperand(0).getDefiningOp<tx::ScatterOp>();
  return operand >= 0 && scatter && scatter.getInput() == region.getBody().getArgument(static_cast<unsigned>(operand));
}

FailureOr<GenericKernel> GenericKernel::read(tx::DispatchOp region, const Workers& workers) {
  GenericKernel kernel;
  std::string reason;
  auto staged = stage::form_stages(region, reason);
  if (failed(staged)) return FailureOr<GenericKernel>(region.emitError("cannot form stages: ") << reason);
  kernel.staged_ = std::move(*staged);
  Block& stages = kernel.staged_.region.getBody().front();
  kernel.op_ = stages.getTerminator()->getPrevNode();
  bool is_alone = kernel.op_ == &stages.front();
  stage::DomainAttr domain = stage::domain_of(kernel.op_);
  kernel.extents_.assign(domain.parallel().begin(), domain.parallel().end());
  SmallVector<AffineExpr> stored = tx::extents(tx::tensor(region.getResult(0)));
  kernel.stores_rows_ =
      region.getNumResults() == 1 && !stored.empty() && !kernel.extents_.empty() && kernel.extents_.back() == stored.back();
  if (auto scan = llvm::dyn_cast<stage::ScanOp>(kernel.op_)) {
    if (scan.getAlong() + 1 == domain.getRank() || scan.getPlaced()) is_alone = false;
    kernel.extents_[static_cast<size_t>(scan.getAlong())] = getAffineConstantExpr(1, region.getContext());
  }
  kernel.split_.for_threads = workers.are_threads;
  if (auto sort = llvm::dyn_cast<stage::SortOp>(kernel.op_)) {
    is_alone = false;
    kernel.extents_[static_cast<size_t>(sort.getAlong())] =
        workers.are_threads ? domain.folded().front() : getAffineConstantExpr(1, region.getContext());
  }
  if (auto sieve = llvm::dyn_cast<stage::SieveOp>(kernel.op_)) {
    is_alone = false;
    kernel.extents_[static_cast<size_t>(sieve.getAlong())] = getAffineConstantExpr(1, region.getContext());
  }
  if (auto walk = llvm::dyn_cast<stage::WalkOp>(kernel.op_)) {
    is_alone = false;
    kernel.extents_[static_cast<size_t>(walk.getAlong())] = getAffineConstantExpr(1, region.getContext());
  }
  auto scatter = llvm::dyn_cast<stage::ScatterOp>(kernel.op_);
  if (scatter) {
    const int64_t enough = workers.enough;
    auto along = static_cast<unsigned>(scatter.getAlong());
    if (along + 1 == domain.getParallelRank()) is_alone = false;
    int64_t lines = 1;
    for (auto [d, extent] : llvm::enumerate(domain.parallel())) {
      if (d != along) lines = std::min(lines * std::max<int64_t>(1, tx::static_extent(extent).value_or(64)), enough);
    }
    // Every part reads all updates, which takes little time as long as there are fewer updates than elements. Small parts are neighbors in memory.
    const auto extent = tx::static_extent(kernel.extents_[along]), updates = tx::static_extent(domain.folded().front());
    kernel.split_.parts = llvm::divideCeilSigned(enough, lines);
    kernel.split_.in_place = updates_in_place(region);
    if (kernel.split_.in_place) {
      if (updates) kernel.split_.parts = std::clamp<int64_t>(*updates, 1, kernel.split_.parts);
    } else if (extent && updates)
      kernel.split_.parts = std::max(kernel.split_.parts, *extent / (4 * std::max<int64_t>(1, *updates)));
    // A subgroup goes through a long line together, although each part reads all updates.
    const bool is_long = along + 1 == domain.getParallelRank() && extent && *extent >= long_line;
    if (workers.are_threads && is_long && !kernel.split_.in_place) kernel.split_.parts = std::max(kernel.split_.parts, subgroup_parts);
    if (extent) kernel.split_.parts = std::clamp<int64_t>(*extent, 1, kernel.split_.parts);
    kernel.extents_[along] = getAffineConstantExpr(kernel.split_.parts, region.getContext());
  }
  kernel.lanes_ = kernel.extents_.empty() || !is_alone ? 1 : most_lanes;
  for (AffineMap bounded : domain.getWithin()) {
    if (!step_of_bound(bounded, domain))
      return FailureOr<GenericKernel>(region.emitError("cannot form loops for the bound ") << AffineMapAttr::get(bounded));
    if (!bounded.isFunctionOfDim(domain.getParallelRank() - 1)) continue;
    // Each lane has its own bound, and its reads may be outside of memory. This needs masks, which threads do not have.
    if (workers.are_threads || slope_of(bounded.getResult(0), domain.getParallelRank() - 1) != 1) kernel.lanes_ = 1;
  }
  for (unsigned i = 0; kernel.lanes_ > 1 && i < kernel.op_->getNumOperands(); ++i) {
    auto step = lane_step(kernel.op_, i, kernel.lanes_);
    bool is_place = scatter && i < scatter.getPlaceReads();  // which is computed once for all lanes
    if (!step || (is_place && *step != 0)) kernel.lanes_ = 1;
  }
  if (kernel.extents_.empty()) kernel.extents_.push_back(getAffineConstantExpr(1, region.getContext()));
  return kernel;
}

bool GenericKernel::works_in_place() const {
  return llvm::isa<stage::ScatterOp>(op_);
}

double GenericKernel::iterations() const {
  double count = 1;
  auto add = [&](AffineExpr extent) { count *= static_cast<double>(tx::static_extent(extent).value_or(64)); };
  stage::DomainAttr domain = stage::domain_of(op_);
  for (AffineExpr extent : domain.folded()) add(extent);
  if (auto scan = llvm::dyn_cast<stage::ScanOp>(op_)) {
    add(domain.getExtents().getResult(static_cast<unsigned>(scan.getAlong())));
    if (scan.getPlaced()) count *= 8;  // each step waits for what it reads
  }
  if (auto walk = llvm::dyn_cast<stage::WalkOp>(op_)) count *= 4 * static_cast<double>(walk.getSteps());  // several reads a step
  if (llvm::isa<stage::SortOp>(op_) && !split_.for_threads) {  // a heap's comparisons, and what they read, for each element of the line
    constexpr double of_comparison = 8;
    count *= 2 * of_comparison * std::log2(std::max(2.0, count));
  }
  if (llvm::isa<stage::SieveOp>(op_)) count *= 64;  // each that stays is compared with all later ones
  if (auto scatter = llvm::dyn_cast<stage::ScatterOp>(op_)) {
    auto extent = tx::static_extent(domain.getExtents().getResult(static_cast<unsigned>(scatter.getAlong())));
    if (!split_.in_place) count += static_cast<double>(extent.value_or(64)) / static_cast<double>(split_.parts);
  }
  return count;
}

void GenericKernel::emit(KernelBuilder& kernel, ArrayRef<Value> outer, Value inner, int64_t lanes, Value mask) const {
  unsigned rank = stage::domain_of(op_).getParallelRank();
  BodyPlace place;
  place.index.assign(outer.begin(), outer.end());
  if (rank > 0) {
    place.index.push_back(inner);
    place.lane_dimension = rank - 1;
  }
  place.lanes = lanes;
  place.mask = mask;
  StageEmitter(kernel, op_, place, split_).store();
}

}  // namespace heddle::targets
