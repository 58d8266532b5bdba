// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NonMaxSuppression: the boxes of each class in the order of their scores, a sieve that removes those that overlap better ones, and the places of those
// that stay.
#include <limits>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_data.h"
#include "compiler/ir/suppress.h"

using namespace mlir;

namespace heddle::import {
namespace {

class Suppression {
 public:
  explicit Suppression(Node& node) : node_(node), arithmetic_(node), boxes_(node.input(0)), scores_(node.input(1)) {
    const Extents boxes = Node::extents_of(boxes_), scores = Node::extents_of(scores_);
    if (boxes.size() != 3 || scores.size() != 3 || tx::static_extent(boxes[2]) != 4)
      node.refuse_inputs("it needs boxes [batch, number, 4] and scores [batch, classes, number]");
    if (Node::type_of(boxes_).getElementType() != Node::type_of(scores_).getElementType())
      node.refuse_inputs("the boxes and the scores have different types");
    if (!node.are_equal(boxes[0], scores[0]) || !node.are_equal(boxes[1], scores[2]))
      node.refuse_inputs("the boxes and the scores are not of the same batch and number");
    const int64_t center = node.integer("center_point_box", 0);
    if (center != 0 && center != 1) node.fail("center_point_box " + std::to_string(center) + " is neither 0 nor 1");
    is_center_ = center == 1;
  }

  void run() {
    sort();
    const RankedTensorType list = Node::type_of(order_);
    Value limit =
        node_.has_input(2) ? number(2, node_.builder.getI64Type()) : node_.splat(RankedTensorType::get({}, node_.builder.getI64Type()), 0);
    const Type element = Node::type_of(boxes_).getElementType();
    Value threshold = node_.has_input(3) ? number(3, element) : node_.splat(RankedTensorType::get({}, element), 0);
    Value stays =
        node_.make<tx::SuppressOp>(tx::with_element_type(list, node_.builder.getI1Type()), ordered_boxes(), candidates_, threshold, limit);
    give(stays);
  }

 private:
  // An input of one element, as a number of that type.
  Value number(int index, Type type) {
    Value value = node_.input(index);
    if (!Node::type_of(value).hasStaticShape() || Node::type_of(value).getNumElements() != 1)
      node_.refuse_inputs("input " + std::to_string(index) + " is not one number");
    return node_.converted(node_.reshape(value, {}), type);
  }

  Value iota(RankedTensorType type, int64_t dimension) { return node_.make<tx::IotaOp>(type, node_.builder.getI64IntegerAttr(dimension)); }

  // The places of boxes by falling scores, for each class; only of as many as the class with the most candidates has.
  void sort() {
    RankedTensorType type = Node::type_of(scores_);
    Extents extents = tx::extents(type);
    Value keys = scores_, is_candidate;
    if (node_.has_input(4)) {
      Value threshold = node_.broadcast(number(4, type.getElementType()), extents);
      is_candidate = arithmetic_.compare(tx::CompareKind::gt, scores_, threshold);
      keys = arithmetic_.select(is_candidate, scores_, node_.splat(type, -std::numeric_limits<double>::infinity()));
      Value ones = node_.converted(is_candidate, node_.builder.getI64Type());
      Value counts = arithmetic_.reduce(tx::ReduceKind::sum, ones, {2});
      // One at least, so that there is something to look up, but not more than there are.
      const Integers most(node_,
                          node_.reshape(arithmetic_.reduce(tx::ReduceKind::max, counts, {0, 1}), {node_.builder.getAffineConstantExpr(1)}));
      const Integers all = numbers_of(node_, {extents[2]});
      extents[2] = read_extents(node_, min(max(most, most.number(1)), all), "largest number of boxes above the score threshold").front();
    }
    RankedTensorType list = node_.tensor_type(extents, node_.builder.getI64Type());
    order_ = node_.make<tx::SortOp>(list, keys, node_.builder.getI64IntegerAttr(2), node_.builder.getUnitAttr());
    if (is_candidate) {
      Value flags = node_.converted(is_candidate, node_.builder.getI64Type());
      flags = node_.make<tx::GatherElementsOp>(list, flags, order_, node_.builder.getI64IntegerAttr(2));
      candidates_ = arithmetic_.compare(tx::CompareKind::ne, flags, node_.splat(list, 0));
    } else {
      candidates_ = node_.make<tx::CompareOp>(tx::with_element_type(list, node_.builder.getI1Type()), tx::CompareKind::ge, order_,
                                              node_.splat(list, 0));
    }
  }

  // Two opposite corners of each box, [batch, number, 4].
  Value corners() {
    if (!is_center_) return boxes_;
    auto column = [&](int64_t i) {
      Extents one = Node::extents_of(boxes_);
      one[2] = node_.builder.getAffineConstantExpr(1);
      SmallVector<int64_t> start{0, 0, i}, stride{1, 1, 1};
      return node_.make<tx::SliceOp>(node_.tensor_type(one, Node::type_of(boxes_).getElementType()), boxes_, start, stride);
    };
    Value x = column(0), y = column(1), half = arithmetic_.number(x, 0.5), width = arithmetic_.mul(column(2), half),
          height = arithmetic_.mul(column(3), half);
    SmallVector<Value> all{arithmetic_.sub(y, height), arithmetic_.sub(x, width), arithmetic_.add(y, height), arithmetic_.add(x, width)};
    return node_.make<tx::ConcatOp>(Node::type_of(boxes_), all, node_.builder.getI64IntegerAttr(2));
  }

  // The boxes of each class in order: [batch, classes, number, 4].
  Value ordered_boxes() {
    Extents extents = Node::extents_of(order_), places = extents;
    places.push_back(node_.builder.getAffineConstantExpr(1));
    extents.push_back(node_.builder.getAffineConstantExpr(4));
    return node_.make<tx::GatherNdOp>(node_.tensor_type(extents, Node::type_of(boxes_).getElementType()), corners(),
                                      node_.reshape(order_, places), node_.builder.getI64IntegerAttr(1));
  }

  // Batch, class and place of each box that stays.
  void give(Value stays) {
    RankedTensorType list = Node::type_of(order_);
    const Extents extents = tx::extents(list);
    const AffineExpr count = node_.count_of(extents);
    Value flags = node_.reshape(node_.converted(stays, node_.builder.getI64Type()), {count});
    Value at = places_of_ones(node_, flags, "number of selected boxes");
    RankedTensorType few = Node::type_of(at);
    auto selected = [&](Value of_boxes) { return node_.make<tx::GatherOp>(few, node_.reshape(of_boxes, {count}), at, 0); };
    Extents column = tx::extents(few), rows = column;
    column.push_back(node_.builder.getAffineConstantExpr(1));
    rows.push_back(node_.builder.getAffineConstantExpr(3));
    SmallVector<Value> columns;
    for (Value of_boxes : {iota(list, 0), iota(list, 1), order_}) columns.push_back(node_.reshape(selected(of_boxes), column));
    node_.set_result(
        node_.make<tx::ConcatOp>(node_.tensor_type(rows, node_.builder.getI64Type()), columns, node_.builder.getI64IntegerAttr(1)));
  }

  Node& node_;
  Arithmetic arithmetic_;
  Value boxes_, scores_, order_, candidates_;  // order and candidates: [batch, classes, number of those that were sorted]
  bool is_center_ = false;
};

void non_max_suppression(Node& node) {
  Suppression(node).run();
}

}  // namespace

const Table& detection_operators() {
  static const Table table = {{"NonMaxSuppression", non_max_suppression}};
  return table;
}

}  // namespace heddle::import
