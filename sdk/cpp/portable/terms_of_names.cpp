// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms_of_names.h. Values, and the ops that only move elements.
#include "terms_of_names.h"

#include <algorithm>

#include "heddle/sdk/portable/ops.h"

namespace heddle::sdk::portable {

namespace {

constexpr uint32_t kMostNested = 1000;  // ops of which each is an operand of the next one

// Counts them, also where one throws.
class Nested {
 public:
  explicit Nested(uint32_t& count) : count_(count) {
    if (++count_ <= kMostNested) return;
    --count_;
    throw Unknown{"the kernel's ops are nested too deeply to compare"};
  }
  ~Nested() { --count_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  uint32_t& count_;
};

}  // namespace

int64_t integer_of(const NamedOp& op, std::string_view name) {
  const auto* value = attribute_of<int64_t>(op, name);
  return value ? *value : 0;
}

double real_of(const NamedOp& op, std::string_view name) {
  const auto* value = attribute_of<double>(op, name);
  return value ? *value : 0;
}

bool flag_of(const NamedOp& op, std::string_view name) {
  const auto* value = attribute_of<bool>(op, name);
  return value && *value;
}

std::string text_of(const NamedOp& op, std::string_view name) {
  const auto* value = attribute_of<std::string>(op, name);
  return value ? *value : std::string();
}

std::vector<int64_t> list_of(const NamedOp& op, std::string_view name, size_t count) {
  constexpr int64_t kMost = int64_t{1} << 40;
  const auto* values = attribute_of<std::vector<int64_t>>(op, name);
  if (!values || values->size() != count)
    throw Disagreement{"attribute '" + std::string(name) + "' has " + std::to_string(values ? values->size() : 0) + " values, and the op " +
                       std::to_string(count)};
  for (int64_t value : *values) {
    if (value < -kMost || value > kMost) throw Disagreement{"attribute '" + std::string(name) + "' has value " + std::to_string(value)};
  }
  return *values;
}

Scalar stored_as(heddle_element_type_t type) {
  Scalar scalar;
  if (!scalar_of(type, &scalar)) throw Unknown{"a value has elements that kernels cannot read"};
  return scalar;
}

Scalar computed_as(heddle_element_type_t type) {
  const Scalar scalar = stored_as(type);
  return scalar == Scalar::kF16 || scalar == Scalar::kBf16 ? Scalar::kF32 : scalar;
}

NameTerms::NameTerms(Terms& terms, const Kernel& kernel, const std::vector<int64_t>& known) : terms_(terms), kernel_(kernel) {
  auto add = [&](const Tensor& tensor) {
    Value value = {tensor.type, {}};
    for (uint32_t extent : tensor.extents) value.extents.push_back(known[extent]);
    count_of(value.extents);
    values_.push_back(std::move(value));
  };
  for (uint32_t i = 0; i < kernel.inputs; ++i) add(kernel.tensors[i]);
  for (const NamedOp& op : kernel.ops) {
    if (op.results.size() != 1) throw Unknown{"a name has several results, or none"};
    add(op.results[0]);
  }
  instances_.resize(kernel.ops.size());
}

TermId NameTerms::to_storage(TermId term, heddle_element_type_t type) {
  const Scalar to = stored_as(type);
  return terms_[term].type == to ? term : terms_.instruction(Op::kTruncF, to, {term});
}

TermId NameTerms::element(uint32_t value, const TermIds& at, uint32_t depth) {
  const Value& of = values_[value];
  const Scalar type = stored_as(of.type), computed = computed_as(of.type);
  TermId term;
  if (is_input(value)) {
    term = count_of(of.extents) == 0 ? terms_.constant(type, 0) : terms_.load(value, type, at);
  } else {
    const auto key = std::make_pair(std::make_pair(value, depth), at);
    if (const auto found = elements_.find(key); found != elements_.end()) return found->second;
    const uint32_t op = value - kernel_.inputs;
    const Nested nested(nested_);
    term = made({kernel_.ops[op], of, at, depth});
    if (terms_[term].type != computed) term = terms_.instruction(Op::kExtF, computed, {term});
    elements_[key] = term;
    instances_[op].insert(term);
  }
  return terms_[term].type == computed ? term : terms_.instruction(Op::kExtF, computed, {term});
}

TermId NameTerms::made(const Use& use) {
  using Make = TermId (NameTerms::*)(const Use&);
  static const std::map<std::string_view, Make> kMakers = {
      {"arg_reduce", &NameTerms::arg_reduce},
      {"broadcast", &NameTerms::moved},
      {"concat", &NameTerms::concat},
      {"conv", &NameTerms::conv},
      {"cumsum", &NameTerms::cumsum},
      {"gather", &NameTerms::gathered},
      {"gather_elements", &NameTerms::gathered},
      {"gather_nd", &NameTerms::gathered},
      {"lrn", &NameTerms::lrn},
      {"matmul", &NameTerms::matmul},
      {"pad", &NameTerms::pad},
      {"pool", &NameTerms::pool},
      {"reduce", &NameTerms::reduce},
      {"reshape", &NameTerms::moved},
      {"scatter", &NameTerms::scatter},
      {"slice", &NameTerms::moved},
      {"softmax", &NameTerms::softmax},
      {"sort", &NameTerms::sort},
      {"transpose", &NameTerms::moved},
      {"ngrams", &NameTerms::ngrams},
      {"suppress", &NameTerms::suppress},
      {"trees", &NameTerms::trees},
  };
  const std::string& name = use.op.name;
  if (const auto found = kMakers.find(name); found != kMakers.end()) return (this->*found->second)(use);
  const Scalar type = computed_as(use.result.type);
  if (name == "constant") {
    if (!is_float(type)) return terms_.constant(type, static_cast<uint64_t>(integer_of(use.op, "integer")));
    // As it is stored, and then computed with.
    const Scalar stored = stored_as(use.result.type);
    const uint64_t bits = bits_of_number(stored, {real_of(use.op, "real"), 0});
    return terms_.constant(type, bits_of_number(type, number_of_bits(stored, bits)));
  }
  if (name == "iota") {
    const TermId index = use.at[static_cast<size_t>(integer_of(use.op, "dimension"))];
    if (is_float(type)) return terms_.instruction(Op::kSIToF, type, {index});
    return type == Scalar::kI64 ? index : terms_.instruction(Op::kTruncI, type, {index});
  }
  TermIds x;
  for (uint32_t operand : use.op.operands) x.push_back(element(operand, use.at, use.depth));
  return element_wise(use.op, use.result, x);
}

// The element of the operand that is at this place of the result.
TermId NameTerms::moved(const Use& use) {
  const Integers& from = extents(use.operand(0));
  TermIds place(from.size(), terms_.integer(0));
  if (use.op.name == "reshape") {
    reshaped(terms_, use.result.extents, from, use.at, &place);
  } else if (use.op.name == "transpose") {
    const Integers permutation = list_of(use.op, "permutation", from.size());
    for (size_t i = 0; i < from.size(); ++i) place[static_cast<size_t>(permutation[i])] = use.at[i];
  } else if (use.op.name == "broadcast") {
    const Integers dimensions = list_of(use.op, "dimensions", from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != 1) place[i] = use.at[static_cast<size_t>(dimensions[i])];
    }
  } else {
    const Integers starts = list_of(use.op, "starts", from.size()), strides = list_of(use.op, "strides", from.size());
    for (size_t i = 0; i < from.size(); ++i) place[i] = terms_.plus(terms_.scale(use.at[i], strides[i]), starts[i]);
  }
  return element(use.operand(0), place, use.depth);
}

TermId NameTerms::pad(const Use& use) {
  const Integers& from = extents(use.operand(0));
  const Integers low = list_of(use.op, "low", from.size());
  const Scalar stored = stored_as(use.result.type), type = computed_as(use.result.type);
  const double value = real_of(use.op, "value");
  TermId around = terms_.real(stored, value);
  if (stored != type) around = terms_.instruction(Op::kExtF, type, {around});
  TermIds place, inside;
  for (size_t i = 0; i < from.size(); ++i) {
    place.push_back(terms_.plus(use.at[i], -low[i]));
    inside.push_back(terms_.inside(place.back(), from[i]));
  }
  const TermId is_inside = terms_.all(inside);
  uint64_t bits;
  if (terms_.is_constant(is_inside, &bits) && bits == 0) return around;
  return terms_.select(is_inside, element(use.operand(0), place, use.depth), around);
}

TermId NameTerms::concat(const Use& use) {
  const auto axis = static_cast<size_t>(integer_of(use.op, "axis"));
  TermId result = kNoTerm;
  int64_t start = 0;
  for (uint32_t part : use.op.operands) {
    const int64_t extent = extents(part)[axis];
    if (extent == 0) continue;
    TermIds place = use.at;
    place[axis] = terms_.plus(place[axis], -start);
    const TermId own = element(part, place, use.depth);
    result = result == kNoTerm ? own : terms_.select(terms_.not_negative(place[axis]), own, result);
    start += extent;
  }
  return result == kNoTerm ? terms_.constant(computed_as(use.result.type), 0) : result;
}

TermId NameTerms::index_at(uint32_t indices, const TermIds& at, int64_t extent, uint32_t depth) {
  return terms_.index(element(indices, at, depth), extent, is_unsigned(values_[indices].type));
}

TermId NameTerms::gathered(const Use& use) {
  const uint32_t from = use.operand(0), indices = use.operand(1);
  const size_t rank = extents(indices).size();
  const auto at = [&](size_t first, size_t count) {
    return TermIds(use.at.begin() + static_cast<std::ptrdiff_t>(first), use.at.begin() + static_cast<std::ptrdiff_t>(first + count));
  };
  const auto append = [](TermIds& to, const TermIds& more) { to.insert(to.end(), more.begin(), more.end()); };
  TermIds place;
  if (use.op.name == "gather_nd") {
    const auto batch = static_cast<size_t>(integer_of(use.op, "batch_dims"));
    place = at(0, batch);
    for (int64_t i = 0; i < extents(indices).back(); ++i) {
      TermIds row = at(0, rank - 1);
      row.push_back(terms_.integer(i));
      place.push_back(index_at(indices, row, extents(from)[place.size()], use.depth));
    }
    append(place, at(rank - 1, use.at.size() - (rank - 1)));
    return element(from, place, use.depth);
  }
  const auto axis = static_cast<size_t>(integer_of(use.op, "axis"));
  if (use.op.name == "gather_elements") {
    place = use.at;
    place[axis] = index_at(indices, use.at, extents(from)[axis], use.depth);
    return element(from, place, use.depth);
  }
  place = at(0, axis);
  place.push_back(index_at(indices, at(axis, rank), extents(from)[axis], use.depth));
  append(place, at(axis + rank, use.at.size() - axis - rank));
  const std::string blocks = text_of(use.op, "blocks");
  return blocks.empty() ? element(from, place, use.depth) : block_element(from, blocks, place, use.depth);
}

}  // namespace heddle::sdk::portable
