// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Einsum: operands are multiplied one after the other, each time by a matrix product over the labels that are not needed afterwards.
#include "compiler/import/onnx_graph.h"

using namespace mlir;

namespace heddle::import {
namespace {

// A letter, or a dimension of the ellipsis, counted from the last one.
using Label = int;
using Labels = SmallVector<Label>;
constexpr Label first_of_ellipsis = 256;

bool has(const Labels& labels, Label label) {
  return llvm::is_contained(labels, label);
}

void add_ellipsis(Labels& labels, int64_t count) {
  for (int64_t d = count; d-- > 0;) labels.push_back(first_of_ellipsis + static_cast<Label>(d));
}

// A tensor whose dimensions have labels.
struct Term {
  Value value;
  Labels labels;
};

struct Equation {
  std::vector<std::string> operands;
  std::optional<std::string> output;
};

Equation read_equation(Node& node) {
  std::string text;
  for (char c : node.text("equation", "")) {
    if (c != ' ') text += c;
  }
  Equation equation;
  if (size_t arrow = text.find("->"); arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
    text.resize(arrow);
  }
  for (size_t from = 0; from <= text.size();) {
    size_t comma = std::min(text.find(',', from), text.size());
    equation.operands.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  if (static_cast<int>(equation.operands.size()) != node.input_count()) {
    node.fail("the equation has " + std::to_string(equation.operands.size()) + " operands, and the node " +
              std::to_string(node.input_count()) + " inputs");
  }
  return equation;
}

// `ellipsis`: the number of dimensions that the dots stand for.
Labels labels_of(Node& node, const std::string& term, int64_t ellipsis) {
  Labels labels;
  size_t dots = term.find("...");
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      add_ellipsis(labels, ellipsis);
      i += 2;
    } else if ((term[i] >= 'a' && term[i] <= 'z') || (term[i] >= 'A' && term[i] <= 'Z')) {
      labels.push_back(term[i]);
    } else {
      node.fail("the equation has '" + std::string(1, term[i]) + "' where a letter was expected");
    }
  }
  return labels;
}

Labels labels_of_operand(Node& node, const std::string& term, int64_t rank, int64_t& most_dots) {
  bool has_dots = term.find("...") != std::string::npos;
  int64_t dots = has_dots ? rank - (static_cast<int64_t>(term.size()) - 3) : 0;
  Labels labels = labels_of(node, term, std::max<int64_t>(dots, 0));
  if (static_cast<int64_t>(labels.size()) != rank)
    node.fail("'" + term + "' of the equation is for another rank than the " + std::to_string(rank) + " of its input");
  most_dots = std::max(most_dots, dots);
  return labels;
}

// The output if none is given: the ellipsis, then the letters that occur once in all operands together, in order.
Labels implicit_output(const std::vector<Term>& terms, int64_t ellipsis) {
  std::map<Label, int> counts;
  for (const Term& term : terms) {
    for (Label label : term.labels) ++counts[label];
  }
  Labels output;
  add_ellipsis(output, ellipsis);
  for (auto [label, count] : counts) {
    if (count == 1 && label < first_of_ellipsis) output.push_back(label);
  }
  return output;
}

class Multiplier {
 public:
  explicit Multiplier(Node& node) : node_(node) {}

  // All terms must have the same extent for a label, except for extents of 1, which are broadcast.
  void learn_extents(const Term& term) {
    for (auto [label, extent] : llvm::zip_equal(term.labels, Node::extents_of(term.value))) {
      auto [known, is_new] = extents_.try_emplace(label, extent);
      if (is_new || tx::is_one(extent)) continue;
      if (tx::is_one(known->second)) {
        known->second = extent;
      } else if (!node_.are_equal(known->second, extent)) {
        node_.refuse_inputs("extents that have one label differ");
      }
    }
  }

  // With each label once, and without those along which it is broadcast.
  Term settled(const Term& term) {
    Labels labels;
    Extents extents;
    for (auto [label, extent] : llvm::zip_equal(term.labels, Node::extents_of(term.value))) {
      AffineExpr common = extents_.at(label);
      if (tx::is_one(extent) && !tx::is_one(common)) continue;
      labels.push_back(label);
      extents.push_back(common);
    }
    Value value = node_.with_extents(term.value, extents);
    for (size_t second = labels.size(); second-- > 0;) {
      size_t first = llvm::find(labels, labels[second]) - labels.begin();
      if (first == second) continue;
      value = diagonal(value, static_cast<int64_t>(first), static_cast<int64_t>(second));
      labels.erase(labels.begin() + second);
    }
    return {value, labels};
  }

  // Summed over the labels that are not needed.
  Term summed(Term term, const Labels& needed) {
    SmallVector<int64_t> axes;
    Labels left;
    for (auto [i, label] : llvm::enumerate(term.labels)) {
      if (has(needed, label)) {
        left.push_back(label);
      } else {
        axes.push_back(static_cast<int64_t>(i));
      }
    }
    if (axes.empty()) return term;
    RankedTensorType type = node_.tensor_type(extents_of(left), Node::type_of(term.value).getElementType());
    return {node_.make<tx::ReduceOp>(type, tx::ReduceKind::sum, term.value, axes), left};
  }

  Term product(Term a, Term b, const Labels& needed) {
    a = summed(std::move(a), joined({needed, b.labels}));
    b = summed(std::move(b), joined({needed, a.labels}));
    Labels batch, inner, rows, columns;
    for (Label label : a.labels) (!has(b.labels, label) ? rows : has(needed, label) ? batch : inner).push_back(label);
    for (Label label : b.labels) {
      if (!has(a.labels, label)) columns.push_back(label);
    }
    Labels result = joined({batch, rows, columns});
    Type element = Node::type_of(a.value).getElementType();
    if (inner.empty()) {
      RankedTensorType type = node_.tensor_type(extents_of(result), element);
      return {node_.make<tx::MulOp>(type, spread(a, result), spread(b, result)), result};
    }
    AffineExpr m = node_.count_of(extents_of(rows)), k = node_.count_of(extents_of(inner)), n = node_.count_of(extents_of(columns));
    auto behind_batch = [&](AffineExpr first, AffineExpr second) {
      Extents extents = extents_of(batch);
      extents.append({first, second});
      return extents;
    };
    Value lhs = node_.reshape(ordered(a, joined({batch, rows, inner})), behind_batch(m, k));
    Value rhs = node_.reshape(ordered(b, joined({batch, inner, columns})), behind_batch(k, n));
    RankedTensorType type = node_.tensor_type(behind_batch(m, n), element);
    return {node_.reshape(node_.make<tx::MatmulOp>(type, lhs, rhs), extents_of(result)), result};
  }

  Value ordered(const Term& term, const Labels& order) {
    SmallVector<int64_t> permutation;
    for (Label label : order) permutation.push_back(llvm::find(term.labels, label) - term.labels.begin());
    return node_.transpose(term.value, permutation);
  }

 private:
  // The elements whose indices along two dimensions are equal, without the second dimension: a sum along it skips all others.
  Value diagonal(Value value, int64_t first, int64_t second) {
    RankedTensorType type = Node::type_of(value);
    Builder& b = node_.builder;
    RankedTensorType places = tx::with_element_type(type, b.getI64Type()), bools = tx::with_element_type(type, b.getI1Type());
    Value row = node_.make<tx::IotaOp>(places, b.getI64IntegerAttr(first)),
          column = node_.make<tx::IotaOp>(places, b.getI64IntegerAttr(second));
    Value is_kept = node_.make<tx::CompareOp>(bools, tx::CompareKind::eq, row, column);
    Value kept = node_.make<tx::SelectOp>(type, is_kept, value, node_.splat(type, 0));
    Extents extents = tx::extents(type);
    extents.erase(extents.begin() + second);
    RankedTensorType result = node_.tensor_type(extents, type.getElementType());
    return node_.make<tx::ReduceOp>(result, tx::ReduceKind::sum, kept, ArrayRef<int64_t>{second});
  }

  static Labels joined(std::initializer_list<Labels> parts) {
    Labels all;
    for (const Labels& part : parts) all.append(part);
    return all;
  }
  Extents extents_of(const Labels& labels) {
    Extents extents;
    for (Label label : labels) extents.push_back(extents_.at(label));
    return extents;
  }
  // Broadcast to all of these labels.
  Value spread(const Term& term, const Labels& all) {
    Labels own;
    SmallVector<int64_t> dimensions;
    for (auto [i, label] : llvm::enumerate(all)) {
      if (!has(term.labels, label)) continue;
      own.push_back(label);
      dimensions.push_back(static_cast<int64_t>(i));
    }
    RankedTensorType type = node_.tensor_type(extents_of(all), Node::type_of(term.value).getElementType());
    return node_.builder.createOrFold<tx::BroadcastOp>(node_.location(), type, ordered(term, own), dimensions);
  }

  Node& node_;
  std::map<Label, AffineExpr> extents_;
};

void einsum(Node& node) {
  Equation equation = read_equation(node);
  std::vector<Term> terms;
  int64_t ellipsis = 0;
  Multiplier multiplier(node);
  for (auto [i, text] : llvm::enumerate(equation.operands)) {
    Value value = node.input(static_cast<int>(i));
    RankedTensorType type = Node::type_of(value);
    if (type.getElementType() != Node::type_of(node.input(0)).getElementType()) node.refuse_inputs("element types of the inputs differ");
    terms.push_back({value, labels_of_operand(node, text, type.getRank(), ellipsis)});
    multiplier.learn_extents(terms.back());
  }
  Labels output = equation.output ? labels_of(node, *equation.output, ellipsis) : implicit_output(terms, ellipsis);
  for (Label label : output) {
    if (llvm::count(output, label) > 1) node.fail("a label is in the equation's output twice");
    if (llvm::none_of(terms, [&](const Term& term) { return has(term.labels, label); }))
      node.fail("a label of the equation's output is in no operand");
  }
  for (Term& term : terms) term = multiplier.settled(term);
  Term all = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels needed = output;
    for (const Term& later : ArrayRef<Term>(terms).drop_front(i + 1)) needed.append(later.labels);
    all = multiplier.product(all, terms[i], needed);
  }
  all = multiplier.summed(all, output);
  node.set_result(multiplier.ordered(all, output));
}

}  // namespace

const Table& einsum_operators() {
  static const Table table = {{"Einsum", einsum}};
  return table;
}

}  // namespace heddle::import
