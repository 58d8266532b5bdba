// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms_of_nodes.h. What a node reads from another one is computed where it is read.
#include "terms_of_nodes.h"

#include <algorithm>

namespace heddle::sdk::portable {

namespace {

constexpr uint32_t kMostNested = 200;  // nodes that read each other

int64_t combined(Expression::Kind kind, int64_t x, int64_t y) {
  const auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
  if (kind == Expression::kAdd) return static_cast<int64_t>(a + b);
  if (kind == Expression::kMul) return static_cast<int64_t>(a * b);
  if (y <= 0) return 0;
  const int64_t down = x / y - (x % y < 0);
  if (kind == Expression::kMod) return x % y + (x % y < 0 ? y : 0);
  return kind == Expression::kFloorDiv ? down : down + (x % y != 0);
}

}  // namespace

// The indices at which a body is evaluated, and the expressions over them that were needed so far.
struct NodeTerms::Frame {
  TermIds dims;
  std::map<uint32_t, TermId> known;
};

NodeTerms::NodeTerms(Terms& terms, const Kernel& kernel, const std::vector<int64_t>& symbols) : terms_(terms), k_(kernel) {
  if (symbols.size() != kernel.symbols) throw Unknown{"the kernel has another number of symbols"};
  terms_.work(kernel.expressions.size());
  for (const Expression& e : kernel.expressions) {
    const bool has_operands = e.kind > Expression::kSymbol;
    dims_.push_back(has_operands ? dims_[e.a] | dims_[e.b] : e.kind == Expression::kDimension ? uint64_t{1} << (e.value & 63) : 0);
    int64_t value = e.kind == Expression::kConstant ? e.value : 0;
    if (e.kind == Expression::kSymbol) value = symbols[static_cast<size_t>(e.value)];
    if (has_operands) value = combined(e.kind, known_[e.a], known_[e.b]);
    known_.push_back(value);
  }
  for (const Tensor& tensor : kernel.tensors) {
    extents_.emplace_back();
    for (uint32_t extent : tensor.extents) extents_.back().push_back(known_[extent]);
    count_of(extents_.back());
  }
  makers_.resize(kernel.tensors.size(), {UINT32_MAX, 0});
  for (uint32_t n = 0; n < kernel.nodes.size(); ++n) {
    const Node& node = kernel.nodes[n];
    std::vector<int64_t> domain;
    for (uint32_t extent : node.extents) domain.push_back(known_[extent]);
    count_of(domain);
    for (uint32_t r = 0; r < node.results.size(); ++r) makers_[node.results[r]] = {n, r};
  }
}

// An expression over indices; only what it needs is computed, without recursion.
TermId NodeTerms::index(uint32_t expression, Frame& frame) {
  std::vector<uint32_t> waiting = {expression};
  while (!waiting.empty()) {
    const uint32_t at = waiting.back();
    if (frame.known.contains(at)) {
      waiting.pop_back();
      continue;
    }
    terms_.work(1);
    const Expression& e = k_.expressions[at];
    if (dims_[at] == 0) {
      frame.known[at] = terms_.integer(known_[at]);
    } else if (e.kind == Expression::kDimension) {
      frame.known[at] = frame.dims.at(static_cast<size_t>(e.value));
    } else if (!frame.known.contains(e.a) || !frame.known.contains(e.b)) {
      waiting.push_back(e.a);
      waiting.push_back(e.b);
    } else {
      const TermId a = frame.known[e.a], b = frame.known[e.b];
      int64_t by = 0;
      if (e.kind == Expression::kAdd) {
        frame.known[at] = terms_.add(a, b);
        continue;
      }
      const bool is_second = terms_.is_constant(b, &by);
      if (!is_second && !(e.kind == Expression::kMul && terms_.is_constant(a, &by)))
        throw Unknown{"a place is no sum of multiples of indices"};
      // Places wrap, and quotients of what has wrapped are others.
      if (e.kind != Expression::kMul && !is_near(terms_[a].low, terms_[a].high)) throw Unknown{"a place may be too large to compute with"};
      if (e.kind == Expression::kMul) frame.known[at] = terms_.scale(is_second ? a : b, by);
      if (e.kind == Expression::kFloorDiv) frame.known[at] = terms_.floor_div(a, by);
      if (e.kind == Expression::kCeilDiv)
        frame.known[at] = by <= 0 ? terms_.integer(0) : terms_.scale(terms_.floor_div(terms_.scale(a, -1), by), -1);
      if (e.kind == Expression::kMod) frame.known[at] = terms_.mod(a, by);
    }
  }
  return frame.known[expression];
}

TermId NodeTerms::element(uint32_t tensor, const TermIds& place, uint32_t depth) {
  Scalar type;
  scalar_of(k_.tensors[tensor].type, &type);
  if (tensor < k_.inputs) return count_of(extents_[tensor]) == 0 ? terms_.constant(type, 0) : terms_.load(tensor, type, place);
  const auto key = std::make_pair(std::make_pair(tensor, depth), place);
  if (const auto found = elements_.find(key); found != elements_.end()) return found->second;
  const auto [number, result] = makers_[tensor];
  const Node& node = k_.nodes[number];
  std::vector<int64_t> domain;
  for (uint32_t d = 0; d < node.parallel_rank(); ++d) domain.push_back(known_[node.extents[d]]);
  TermIds at;
  if (!reshaped(terms_, extents_[tensor], domain, place, &at))
    throw Unknown{"a node's domain has another number of elements than its results"};
  if (++nested_ > kMostNested) throw Unknown{"the kernel's nodes are nested too deeply to compare"};
  const uint32_t owner = std::exchange(terms_.owner, number);
  const TermId term = made(node, result, at, depth);
  terms_.owner = owner;
  --nested_;
  elements_[key] = term;
  return term;
}

TermId NodeTerms::read(const Node& node, const Read& read, const TermIds& reads, Frame& frame, uint32_t indices, uint32_t depth) {
  const std::vector<int64_t>& extents = extents_[read.tensor];
  TermIds place, inside;
  for (size_t d = 0; d < read.place.size(); ++d) {
    const Expression& e = k_.expressions[read.place[d]];
    if (e.kind == Expression::kDimension && e.value >= indices) {
      const uint32_t gather = read.gathers[static_cast<size_t>(e.value) - indices];
      const uint32_t first = static_cast<uint32_t>(&read - node.reads.data()) - static_cast<uint32_t>(reads.size());
      place.push_back(terms_.index(reads[gather], extents[d], is_unsigned(k_.tensors[node.reads[first + gather].tensor].type)));
    } else {
      place.push_back(index(read.place[d], frame));
    }
    inside.push_back(terms_.inside(place.back(), extents[d]));
  }
  if (!read.has_outside) return element(read.tensor, place, depth);
  const TermId is_inside = terms_.all(inside);
  uint64_t bits;
  Scalar type;
  scalar_of(k_.tensors[read.tensor].type, &type);
  const TermId outside = terms_.constant(type, read.outside);
  if (terms_.is_constant(is_inside, &bits) && bits == 0) return outside;
  return terms_.select(is_inside, element(read.tensor, place, depth), outside);
}

NodeTerms::TermIds NodeTerms::evaluate(const Node& node, uint32_t number, const TermIds& indices, const TermIds& more, uint32_t depth) {
  const Body& body = node.bodies[number];
  const BodyShape shape = shape_of(node, number);
  Frame frame = {indices, {}};
  TermIds values = indices, reads;
  for (uint32_t r = shape.first_read; r < shape.end_read; ++r)
    reads.push_back(read(node, node.reads[r], reads, frame, shape.indices, depth));
  values.insert(values.end(), reads.begin(), reads.end());
  values.insert(values.end(), more.begin(), more.end());
  for (const Instruction& at : body.instructions) {
    if (at.op == Op::kExtent) {
      values.push_back(terms_.integer(known_[at.value]));
      continue;
    }
    TermIds args;
    const uint32_t operands[] = {at.a, at.b, at.c};
    for (uint32_t i = 0; i < operand_count(at.op); ++i) args.push_back(values[operands[i]]);
    values.push_back(terms_.instruction(at.op, at.type, args, at.value));
  }
  TermIds yields;
  for (uint32_t value : body.yields) yields.push_back(values[value]);
  return yields;
}

NodeTerms::TermIds NodeTerms::arguments(uint32_t level, uint32_t first, const std::vector<Scalar>& types) {
  TermIds out;
  for (Scalar type : types) out.push_back(terms_.argument(level, first++, type));
  return out;
}

// The element that a node makes, at a place of its parallel domain.
TermId NodeTerms::made(const Node& node, uint32_t result, const TermIds& at, uint32_t depth) {
  if (node.kind == NodeKind::kMap) return evaluate(node, 0, at, {}, depth)[result];
  auto types_of = [&](const TermIds& values) {
    std::vector<Scalar> types;
    for (TermId value : values) types.push_back(terms_[value].type);
    return types;
  };
  auto append = [](TermIds& to, const TermIds& from) { to.insert(to.end(), from.begin(), from.end()); };
  std::vector<Scalar> elements;
  for (uint32_t tensor : node.results) {
    elements.emplace_back();
    scalar_of(k_.tensors[tensor].type, &elements.back());
  }
  // Indices over the whole domain: those of the place, then the reduced ones, which belong to this binder.
  TermIds whole = at;
  Term term = {Term::kFold, Op::kConstant, Scalar::kI64, {static_cast<int64_t>(depth)}, {}};
  uint32_t level = depth;
  for (uint32_t d = node.parallel_rank(); d < node.rank(); ++d) {
    const int64_t extent = known_[node.extents[d]];
    whole.push_back(terms_.dimension(level, extent));
    if (node.kind == NodeKind::kFold || node.kind == NodeKind::kContract) {
      if (extent == 1) continue;
    }
    term.data.push_back(extent);
    ++level;
  }
  const uint32_t arguments_level = level++, inner = level;
  auto results_of = [&](size_t count, const std::vector<Scalar>& types) {
    const TermId binder = terms_.make(std::move(term));
    TermIds out;
    for (size_t i = 0; i < count; ++i)
      out.push_back(terms_.make({Term::kResult, Op::kConstant, types[i], {static_cast<int64_t>(i)}, {binder}}));
    return out;
  };
  if (node.kind == NodeKind::kFold || node.kind == NodeKind::kContract) {
    Frame frame = {whole, {}};
    TermIds conditions;
    for (const Within& within : node.within) conditions.push_back(terms_.inside(index(within.index, frame), known_[within.bound]));
    term.args = {terms_.all(conditions)};
    if (node.kind == NodeKind::kContract) {
      term.kind = Term::kContract;
      term.type = node.accumulator;
      TermIds factors = evaluate(node, 0, whole, {}, inner);
      std::sort(factors.begin(), factors.end());
      append(term.args, factors);
      return evaluate(node, 1, at, {terms_.make(std::move(term))}, depth)[result];
    }
    const TermIds init = evaluate(node, 0, {}, {}, inner);
    const std::vector<Scalar> types = types_of(init);
    const TermIds first = arguments(arguments_level, 0, types),
                  second = arguments(arguments_level, static_cast<uint32_t>(types.size()), types);
    append(term.args, init);
    append(term.args, evaluate(node, 1, whole, first, inner));
    TermIds both = first;
    append(both, second);
    append(term.args, evaluate(node, 2, {}, both, inner));
    return evaluate(node, 3, at, results_of(types.size(), types), depth)[result];
  }
  TermIds line = at;
  const TermId along = at[node.along];
  if (node.kind == NodeKind::kScan) {
    term.kind = Term::kScan;
    const int64_t extent = known_[node.extents[node.along]];
    line[node.along] = terms_.dimension(depth, extent);
    term.data = {static_cast<int64_t>(depth), extent, node.reverse, node.is_placed};
    const TermIds init = evaluate(node, 0, {}, {}, depth + 2);
    std::vector<Scalar> types = types_of(init);
    TermIds sums = arguments(depth + 1, 0, types), indices = line;
    if (node.is_placed) indices.push_back(sums[0]);
    term.args = {along};
    append(term.args, init);
    append(term.args, evaluate(node, 1, indices, sums, depth + 2));
    types.insert(types.end(), types.begin(), types.end());
    return evaluate(node, 2, at, results_of(types.size(), types), depth)[result];
  }
  // The others go along a line, for which the index there is 0 in some bodies.
  line[node.along] = terms_.integer(0);
  TermIds line_whole = line;
  line_whole.push_back(whole.back());
  const TermIds old = arguments(arguments_level, 0, elements);
  switch (node.kind) {
    case NodeKind::kScatter:
      term.kind = Term::kScatter;
      term.args = {along};
      append(term.args, evaluate(node, 0, line_whole, {}, inner));
      append(term.args, evaluate(node, 1, line_whole, old, inner));
      append(term.args, evaluate(node, 2, at, {}, inner));
      break;
    case NodeKind::kSort: {
      term.kind = Term::kSort;
      const TermIds keys = evaluate(node, 0, line_whole, {}, inner);
      std::vector<Scalar> types = types_of(keys);
      types.insert(types.end(), types.begin(), types.end());
      term.args = {along};
      append(term.args, evaluate(node, 1, {}, arguments(arguments_level, 0, types), inner));
      append(term.args, keys);
      break;
    }
    case NodeKind::kSieve: {
      term.kind = Term::kSieve;
      const int64_t extent = known_[node.extents[node.along]];
      TermIds later = line;
      later[node.along] = terms_.dimension(arguments_level, extent);
      term.data = {static_cast<int64_t>(depth), extent, known_[node.extents.back()]};
      term.args = {along};
      append(term.args, evaluate(node, 0, line, {}, inner));
      const TermIds init = evaluate(node, 2, later, {}, inner);
      later.push_back(whole.back());
      append(term.args, evaluate(node, 1, later, {}, inner));
      append(term.args, init);
      break;
    }
    default: {
      term.kind = Term::kWalk;
      term.data.push_back(static_cast<int64_t>(node.steps));
      const TermId place = terms_.argument(arguments_level, static_cast<uint32_t>(old.size()), Scalar::kI64);
      term.args = evaluate(node, 0, line_whole, {}, inner);
      TermIds next = line_whole, update = whole;
      next.push_back(place);
      update.push_back(place);
      append(term.args, evaluate(node, 1, next, {}, inner));
      append(term.args, evaluate(node, 2, update, old, inner));
      append(term.args, evaluate(node, 3, at, {}, inner));
      break;
    }
  }
  return results_of(elements.size(), elements)[result];
}

}  // namespace heddle::sdk::portable
