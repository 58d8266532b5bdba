// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms_of_names.h. Ops that go through several elements for one of their results.
#include <algorithm>
#include <limits>

#include "terms_of_names.h"

namespace heddle::sdk::portable {

namespace {

constexpr const char* kNotSummed = "it sums what cannot be summed";

}  // namespace

// Reduced dimensions of extent 1 are none, as in nodes.
NameTerms::Binder NameTerms::begin(Terms& terms, Term::Kind kind, uint32_t depth, const Integers& extents, bool leaves_out_ones) {
  Binder binder;
  binder.term = {kind, Op::kConstant, Scalar::kI64, {depth}, {}};
  uint32_t level = depth;
  for (int64_t extent : extents) {
    binder.dims.push_back(terms.dimension(level, extent));
    if (leaves_out_ones && extent == 1) continue;
    binder.term.data.push_back(extent);
    ++level;
  }
  binder.arguments = level;
  binder.depth = level + 1;
  return binder;
}

NameTerms::TermIds NameTerms::fold(const Use& use, const Integers& extents, const TermIds& init,
                                   const std::function<TermIds(const TermIds& dims)>& place, const Combine& combine, const Merge& merge,
                                   const std::function<TermId(const TermIds& dims)>& counts) {
  Binder binder = begin(terms_, Term::kFold, use.depth, extents, true);
  auto arguments = [&](uint32_t first) {
    TermIds out;
    for (TermId one : init) out.push_back(terms_.argument(binder.arguments, first++, terms_[one].type));
    return out;
  };
  const auto count = static_cast<uint32_t>(init.size());
  auto append = [&](const TermIds& more) { binder.term.args.insert(binder.term.args.end(), more.begin(), more.end()); };
  append({counts ? counts(binder.dims) : terms_.flag(true)});
  append(init);
  append(combine(arguments(0), element(use.operand(0), place(binder.dims), binder.depth), binder.dims));
  append(merge(arguments(0), arguments(count)));
  const TermId made = terms_.make(std::move(binder.term));
  TermIds results;
  for (uint32_t i = 0; i < count; ++i) results.push_back(terms_.make({Term::kResult, Op::kConstant, terms_[init[i]].type, {i}, {made}}));
  return results;
}

// The elements along axes as one.
TermId NameTerms::reduction(const Use& use, const std::string& kind, const Integers& axes, const std::function<TermId(TermId)>& change) {
  const Value& from = operand(use.op, 0);
  const Scalar type = computed_as(from.type);
  const bool no_sign = is_unsigned(from.type);
  if (type == Scalar::kI1 && (kind == "sum" || kind == "mean")) throw Disagreement{kNotSummed};
  Integers reduced;
  for (int64_t axis : axes) reduced.push_back(from.extents[static_cast<size_t>(axis)]);
  auto place = [&](const TermIds& dims) {
    TermIds at;
    size_t kept = 0, next = 0;
    for (size_t d = 0; d < from.extents.size(); ++d)
      at.push_back(std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) ? dims[next++] : use.at[kept++]);
    return at;
  };
  auto combine = [&](const TermIds& sums, TermId x, const TermIds&) {
    return TermIds{combined(kind, sums[0], change ? change(x) : x, no_sign)};
  };
  auto merge = [&](const TermIds& first, const TermIds& second) { return TermIds{combined(kind, first[0], second[0], no_sign)}; };
  return fold(use, reduced, {identity(kind, type, no_sign)}, place, combine, merge)[0];
}

TermId NameTerms::mean(TermId sum, TermId count, bool no_sign) {
  const Scalar type = terms_[sum].type;
  if (is_float(type)) return terms_.instruction(Op::kDivF, type, {sum, terms_.instruction(Op::kSIToF, type, {count})});
  if (type != Scalar::kI64) count = terms_.instruction(Op::kTruncI, type, {count});
  return terms_.instruction(no_sign ? Op::kDivUI : Op::kDivSI, type, {sum, count});
}

TermId NameTerms::reduce(const Use& use) {
  const Value& from = operand(use.op, 0);
  const std::string kind = text_of(use.op, "kind");
  const auto& axes = std::get<Integers>(
      std::find_if(use.op.attributes.begin(), use.op.attributes.end(), [](const Attribute& each) { return each.name == "axes"; })->value);
  const TermId result = reduction(use, kind, axes);
  if (kind != "mean") return result;
  int64_t count = 1;
  for (int64_t axis : axes) count *= from.extents[static_cast<size_t>(axis)];
  return mean(result, terms_.integer(count), is_unsigned(from.type));
}

// The best element and its index.
TermId NameTerms::arg_reduce(const Use& use) {
  const Value& from = operand(use.op, 0);
  const std::string kind = text_of(use.op, "kind");
  const bool is_max = kind == "max", no_sign = is_unsigned(from.type), wants_last = flag_of(use.op, "last");
  if (!is_max && kind != "min") throw Disagreement{"there is no index of kind '" + kind + "'"};
  const auto axis = static_cast<size_t>(integer_of(use.op, "axis"));
  auto is_ahead = [&](TermId x, TermId best, bool or_equal) {
    return compare(is_max ? (or_equal ? "ge" : "gt") : (or_equal ? "le" : "lt"), x, best, no_sign);
  };
  auto place = [&](const TermIds& dims) {
    TermIds at = use.at;
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), dims[0]);
    return at;
  };
  auto combine = [&](const TermIds& have, TermId x, const TermIds& dims) {
    const TermId ahead = is_ahead(x, have[0], wants_last);
    return TermIds{terms_.select(ahead, x, have[0]), terms_.select(ahead, dims[0], have[1])};
  };
  auto merge = [&](const TermIds& first, const TermIds& second) {
    auto flags = [&](Op op, TermId a, TermId b) { return terms_.instruction(op, Scalar::kI1, {a, b}); };
    const TermId ahead = is_ahead(second[0], first[0], false), behind = is_ahead(first[0], second[0], false);
    const TermId equal = flags(Op::kXOrI, flags(Op::kOrI, ahead, behind), terms_.flag(true));
    const TermId order = terms_.compare(Op::kCompareI, wants_last ? Predicate::kGreater : Predicate::kLess, second[1], first[1]);
    const TermId takes_second = flags(Op::kOrI, ahead, flags(Op::kAndI, equal, order));
    return TermIds{terms_.select(takes_second, second[0], first[0]), terms_.select(takes_second, second[1], first[1])};
  };
  const Scalar type = computed_as(from.type);
  return fold(use, {from.extents[axis]}, {identity(kind, type, no_sign), terms_.integer(0)}, place, combine, merge)[1];
}

// exp(x - max) / sum along the axis.
TermId NameTerms::softmax(const Use& use) {
  const auto axis = static_cast<size_t>(integer_of(use.op, "axis"));
  const Scalar type = computed_as(use.result.type);
  if (!is_float(type)) throw Disagreement{"its operand has no floats"};
  TermIds row = use.at;
  row.erase(row.begin() + static_cast<std::ptrdiff_t>(axis));
  auto shifted_at = [&](TermId index, uint32_t depth) {
    TermIds at = row;
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), index);
    const TermId largest = reduction({use.op, use.result, row, depth}, "max", {static_cast<int64_t>(axis)});
    return terms_.instruction(Op::kSubF, type, {element(use.operand(0), at, depth), largest});
  };
  Binder binder = begin(terms_, Term::kFold, use.depth, {use.result.extents[axis]}, true);
  const TermId sum = terms_.argument(binder.arguments, 0, type), other = terms_.argument(binder.arguments, 1, type);
  auto plus = [&](TermId a, TermId b) { return terms_.instruction(Op::kAddF, type, {a, b}); };
  auto exponential = [&](TermId x) { return terms_.instruction(Op::kExpF, type, {x}); };
  binder.term.args = {terms_.flag(true), terms_.real(type, 0), plus(sum, exponential(shifted_at(binder.dims[0], binder.depth))),
                      plus(sum, other)};
  const TermId total = terms_.make({Term::kResult, Op::kConstant, type, {0}, {terms_.make(std::move(binder.term))}});
  const TermId own = shifted_at(use.at[axis], use.depth);
  if (flag_of(use.op, "log")) return terms_.instruction(Op::kSubF, type, {own, terms_.instruction(Op::kLogF, type, {total})});
  return terms_.instruction(Op::kMulF, type, {exponential(own), terms_.instruction(Op::kDivF, type, {terms_.real(type, 1), total})});
}

// x / (bias + alpha / size * sum of squares)^beta.
TermId NameTerms::lrn(const Use& use) {
  const Scalar type = computed_as(use.result.type);
  const int64_t size = integer_of(use.op, "size"), channels = use.result.extents.back(), most = std::max<int64_t>(0, channels - 1);
  const int64_t before = std::min((size - 1) / 2, most), behind = std::min(size / 2, most);
  auto place = [&](const TermIds& dims) {
    TermIds at = use.at;
    at.back() = terms_.plus(terms_.add(at.back(), dims[0]), -before);
    return at;
  };
  auto add = [&](TermId a, TermId b) { return terms_.instruction(Op::kAddF, type, {a, b}); };
  auto mul = [&](TermId a, TermId b) { return terms_.instruction(Op::kMulF, type, {a, b}); };
  const TermId sum = fold(
      use, {before + behind + 1}, {terms_.real(type, 0)}, place,
      [&](const TermIds& sums, TermId x, const TermIds&) { return TermIds{add(sums[0], mul(x, x))}; },
      [&](const TermIds& a, const TermIds& b) { return TermIds{add(a[0], b[0])}; },
      [&](const TermIds& dims) { return terms_.inside(place(dims).back(), channels); })[0];
  const double scale = real_of(use.op, "alpha") / static_cast<double>(size);
  const TermId base = add(mul(sum, terms_.real(type, scale)), terms_.real(type, real_of(use.op, "bias")));
  return terms_.instruction(Op::kDivF, type, {element(use.operand(0), use.at, use.depth), power(base, real_of(use.op, "beta"))});
}

TermId NameTerms::pool(const Use& use) {
  const Value& from = operand(use.op, 0);
  const size_t spatial = from.extents.size() - 2;
  const std::string kind = text_of(use.op, "kind");
  const Integers kernel = list_of(use.op, "kernel", spatial), strides = list_of(use.op, "strides", spatial),
                 dilations = list_of(use.op, "dilations", spatial), low = list_of(use.op, "pads_low", spatial),
                 high = list_of(use.op, "pads_high", spatial);
  const bool is_max = kind == "max", no_sign = is_unsigned(from.type), with_pads = flag_of(use.op, "include_pad");
  if (!is_max && kind != "average") throw Disagreement{"there is no pooling '" + kind + "'"};
  auto start = [&](size_t i) { return terms_.plus(terms_.scale(use.at[i + 1], strides[i]), -low[i]); };
  auto place = [&](const TermIds& dims) {
    TermIds at = use.at;
    for (size_t i = 0; i < spatial; ++i) at[i + 1] = terms_.add(start(i), terms_.scale(dims[i], dilations[i]));
    return at;
  };
  auto counts = [&](const TermIds& dims) {
    const TermIds at = place(dims);
    TermIds inside;
    for (size_t i = 0; i < spatial; ++i) inside.push_back(terms_.inside(at[i + 1], from.extents[i + 1]));
    return terms_.all(inside);
  };
  auto join = [&](TermId a, TermId b) { return combined(is_max ? "max" : "sum", a, b, no_sign); };
  const Scalar type = computed_as(from.type);
  if (type == Scalar::kI1) throw Disagreement{kNotSummed};
  const TermId result = fold(
      use, kernel, {identity(is_max ? "max" : "sum", type, no_sign)}, place,
      [&](const TermIds& sums, TermId x, const TermIds&) { return TermIds{join(sums[0], x)}; },
      [&](const TermIds& a, const TermIds& b) { return TermIds{join(a[0], b[0])}; }, counts)[0];
  if (is_max) return result;
  // Elements of the window that are inside, or inside or on the pads.
  auto make = [&](Op op, TermId a, TermId b) { return terms_.instruction(op, Scalar::kI64, {a, b}); };
  const TermId zero = terms_.integer(0);
  TermId count = terms_.integer(1);
  for (size_t i = 0; i < spatial; ++i) {
    auto before = [&](int64_t bound) {
      const TermId distance = make(Op::kMaxSI, zero, terms_.sub(terms_.integer(bound), start(i)));
      return make(Op::kMinSI, terms_.integer(kernel[i]),
                  make(Op::kDivSI, terms_.plus(distance, dilations[i] - 1), terms_.integer(dilations[i])));
    };
    const int64_t bound = from.extents[i + 1] + (with_pads ? high[i] : 0);
    TermId own = before(bound);
    if (!with_pads) own = make(Op::kMaxSI, zero, terms_.sub(own, before(0)));
    count = make(Op::kMulI, count, own);
  }
  return mean(result, count, no_sign);
}

// A factor in the type of the sums.
TermId NameTerms::widened(TermId factor, heddle_element_type_t from, Scalar type) {
  const Scalar own = terms_[factor].type;
  if (own == type) return factor;
  auto make = [&](Op op) { return terms_.instruction(op, type, {factor}); };
  const bool is_larger = bytes_of(own) > bytes_of(type);
  if (is_float(type) && !is_float(own)) return make(is_unsigned(from) ? Op::kUIToF : Op::kSIToF);
  if (is_float(type)) return make(is_larger ? Op::kTruncF : Op::kExtF);
  return make(is_larger ? Op::kTruncI : is_unsigned(from) ? Op::kExtUI : Op::kExtSI);
}

TermId NameTerms::contract(const Use& use, const Integers& reduced, const std::function<TermIds(const TermIds& dims, uint32_t side)>& place,
                           const std::function<TermId(const TermIds& dims)>& counts) {
  const Scalar type = computed_as(use.result.type);
  if (type == Scalar::kI1) throw Disagreement{kNotSummed};
  Binder binder = begin(terms_, Term::kContract, use.depth, reduced, true);
  TermId factors[2];
  for (uint32_t side = 0; side < 2; ++side) {
    const TermIds at = place(binder.dims, side);
    if (const std::string blocks = side == 1 ? text_of(use.op, "blocks") : std::string(); !blocks.empty()) {
      factors[side] = block_element(use.operand(side), blocks, at, binder.depth);
    } else {
      factors[side] = widened(element(use.operand(side), at, binder.depth), operand(use.op, side).type, type);
    }
  }
  if (use.op.operands.size() > 2) {
    const TermId zero = element(use.operand(2), {use.at.back()}, binder.depth);
    factors[1] = terms_.instruction(Op::kSubF, type, {factors[1], widened(zero, operand(use.op, 2).type, type)});
  }
  binder.term.type = type;
  binder.term.args = {counts(binder.dims), std::min(factors[0], factors[1]), std::max(factors[0], factors[1])};
  return terms_.make(std::move(binder.term));
}

TermId NameTerms::matmul(const Use& use) {
  const bool turns[] = {flag_of(use.op, "transpose_lhs"), flag_of(use.op, "transpose_rhs")};
  const Integers& left = operand(use.op, 0).extents;
  const size_t rank = use.at.size();
  auto place = [&](const TermIds& dims, uint32_t side) {
    TermIds at;
    if (side == 0 || operand(use.op, 1).extents.size() > 2) at.assign(use.at.begin(), use.at.end() - 2);
    TermIds last = side == 0 ? TermIds{use.at[rank - 2], dims[0]} : TermIds{dims[0], use.at[rank - 1]};
    if (turns[side]) std::swap(last[0], last[1]);
    at.insert(at.end(), last.begin(), last.end());
    return at;
  };
  return contract(use, {left[left.size() - (turns[0] ? 2 : 1)]}, place, [&](const TermIds&) { return terms_.flag(true); });
}

TermId NameTerms::conv(const Use& use) {
  const Integers &input = operand(use.op, 0).extents, &filter = operand(use.op, 1).extents;
  const size_t spatial = input.size() - 2;
  const Integers strides = list_of(use.op, "strides", spatial), dilations = list_of(use.op, "dilations", spatial),
                 low = list_of(use.op, "pads_low", spatial);
  const int64_t groups = integer_of(use.op, "groups"), of_group = filter.back() / groups;
  Integers reduced(filter.begin(), filter.end() - 1);
  auto place = [&](const TermIds& dims, uint32_t side) {
    TermIds at;
    if (side == 1) {
      at = dims;
      at.push_back(use.at.back());
      return at;
    }
    at.push_back(use.at[0]);
    for (size_t i = 0; i < spatial; ++i)
      at.push_back(terms_.plus(terms_.add(terms_.scale(use.at[i + 1], strides[i]), terms_.scale(dims[i], dilations[i])), -low[i]));
    const TermId group = groups == 1 ? terms_.integer(0) : terms_.floor_div(use.at.back(), of_group);
    at.push_back(terms_.add(dims.back(), terms_.scale(group, filter[spatial])));
    return at;
  };
  auto counts = [&](const TermIds& dims) {
    const TermIds at = place(dims, 0);
    TermIds inside;
    for (size_t i = 0; i < spatial; ++i) inside.push_back(terms_.inside(at[i + 1], input[i + 1]));
    return terms_.all(inside);
  };
  return contract(use, reduced, place, counts);
}

TermId NameTerms::cumsum(const Use& use) {
  const auto axis = static_cast<size_t>(integer_of(use.op, "axis"));
  const Scalar type = computed_as(use.result.type);
  if (type == Scalar::kI1) throw Disagreement{kNotSummed};
  const int64_t extent = use.result.extents[axis];
  Binder binder = begin(terms_, Term::kScan, use.depth, {extent}, false);
  binder.term.data = {use.depth, extent, flag_of(use.op, "reverse"), 0};
  TermIds at = use.at;
  at[axis] = binder.dims[0];
  const TermId before = terms_.argument(binder.arguments, 0, type);
  binder.term.args = {use.at[axis], terms_.real(type, 0), combined("sum", before, element(use.operand(0), at, binder.depth), false)};
  return terms_.make({Term::kResult, Op::kConstant, type, {flag_of(use.op, "exclusive") ? 0 : 1}, {terms_.make(std::move(binder.term))}});
}

TermId NameTerms::scatter(const Use& use) {
  const Value &from = operand(use.op, 0), &indices = operand(use.op, 1), &updates = operand(use.op, 2);
  const auto axis = static_cast<size_t>(integer_of(use.op, "axis"));
  const Scalar stored = stored_as(from.type), type = computed_as(from.type);
  Binder binder = begin(terms_, Term::kScatter, use.depth, {updates.extents[axis]}, false);
  TermIds at = use.at;
  at[axis] = binder.dims[0];
  TermId index = element(use.operand(1), indices.extents.size() == 1 ? TermIds{binder.dims[0]} : at, binder.depth);
  index = widened(index, indices.type, Scalar::kI64);
  const TermId is_negative = terms_.compare(Op::kCompareI, Predicate::kLess, index, terms_.integer(0));
  const TermId place = terms_.select(is_negative, terms_.plus(index, from.extents[axis]), index);
  TermId update = element(use.operand(2), at, binder.depth);
  TermId old = terms_.argument(binder.arguments, 0, stored);
  if (const std::string kind = text_of(use.op, "kind"); !kind.empty()) {
    if (stored != type) old = terms_.instruction(Op::kExtF, type, {old});
    update = combined(kind, old, update, is_unsigned(from.type));
  }
  const TermId first = element(use.operand(0), use.at, binder.depth);
  binder.term.args = {use.at[axis], place, to_storage(update, from.type), to_storage(first, from.type)};
  return terms_.make({Term::kResult, Op::kConstant, stored, {0}, {terms_.make(std::move(binder.term))}});
}

TermId NameTerms::sort(const Use& use) {
  const Value& from = operand(use.op, 0);
  const auto axis = static_cast<size_t>(integer_of(use.op, "axis"));
  const Scalar type = computed_as(from.type);
  Binder binder = begin(terms_, Term::kSort, use.depth, {from.extents[axis]}, false);
  TermIds at = use.at;
  at[axis] = binder.dims[0];
  const TermId key = element(use.operand(0), at, binder.depth);
  TermId first = terms_.argument(binder.arguments, 0, type), second = terms_.argument(binder.arguments, 1, type);
  if (flag_of(use.op, "descending")) std::swap(first, second);
  TermId before = compare("lt", first, second, is_unsigned(from.type));
  if (is_float(type)) {
    // NaN comes after all numbers.
    auto flags = [&](Op op, TermId a, TermId b) { return terms_.instruction(op, Scalar::kI1, {a, b}); };
    before = flags(Op::kOrI, before, flags(Op::kAndI, compare("eq", first, first, false), compare("ne", second, second, false)));
  }
  binder.term.args = {use.at[axis], before, key};
  return terms_.make({Term::kResult, Op::kConstant, Scalar::kI64, {0}, {terms_.make(std::move(binder.term))}});
}

}  // namespace heddle::sdk::portable
