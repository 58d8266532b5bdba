// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators with strings (onnx_text.h). Letters beyond U+07FF keep their case.
#include "compiler/import/onnx_text.h"

#include <algorithm>
#include <clocale>
#include <cwctype>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_broadcast.h"
#include "compiler/import/onnx_compound.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_regex.h"
#include "compiler/import/onnx_tokens.h"

using namespace mlir;

namespace heddle::import {
namespace {

AffineExpr one(const Node& node) {
  return node.builder.getAffineConstantExpr(1);
}

int64_t rank_of(Value text) {
  return Node::type_of(text).getRank() - 1;
}

}  // namespace

Extents strings_of(Value text) {
  Extents extents = Node::extents_of(text);
  extents.pop_back();
  return extents;
}

AffineExpr width_of(Value text) {
  return Node::extents_of(text).back();
}

Extents with_width(Extents strings, AffineExpr width) {
  strings.push_back(width);
  return strings;
}

Value joined_along(Node& node, ArrayRef<Value> parts, int64_t axis) {
  Extents extents = Node::extents_of(parts[0]);
  const Type element = Node::type_of(parts[0]).getElementType();
  for (Value part : parts.drop_front()) {
    const auto i = static_cast<size_t>(axis);
    extents[i] = extents[i] + Node::extents_of(part)[i];
  }
  return node.make<tx::ConcatOp>(node.tensor_type(extents, element), parts, node.builder.getI64IntegerAttr(axis));
}

Value padded(Node& node, Value text, AffineExpr behind, AffineExpr before) {
  auto zeros = [&](AffineExpr width) {
    return node.splat(node.tensor_type(with_width(strings_of(text), width), Node::type_of(text).getElementType()), 0);
  };
  SmallVector<Value> parts;
  if (before) parts.push_back(zeros(before));
  parts.push_back(text);
  if (behind) parts.push_back(zeros(behind));
  return joined_along(node, parts, rank_of(text));
}

Value part_of(Node& node, Value text, int64_t start, AffineExpr width) {
  SmallVector<int64_t> starts(static_cast<size_t>(rank_of(text)), 0), strides(static_cast<size_t>(rank_of(text)) + 1, 1);
  starts.push_back(start);
  return node.builder.createOrFold<tx::SliceOp>(
      node.location(), node.tensor_type(with_width(strings_of(text), width), Node::type_of(text).getElementType()), text, starts, strides);
}

Value bytes_at(Node& node, Value text, Value places, Value is_there) {
  const Arithmetic a(node);
  Value nothing = a.extent(width_of(text), places);
  places = a.select(is_there, places, nothing);
  return node.make<tx::GatherElementsOp>(tx::with_element_type(Node::type_of(places), Node::type_of(text).getElementType()),
                                         padded(node, text, one(node)), places, node.builder.getI64IntegerAttr(rank_of(text)));
}

namespace {

Value as_i64(Node& node, Value value) {
  return node.converted(value, node.builder.getI64Type());
}

// Of each string: a dimension of 1 in place of the bytes.
Value lengths_of(Node& node, Value text) {
  const Arithmetic a(node);
  Value bytes = as_i64(node, text);
  Value ends = a.add(a.iota(Node::extents_of(text), rank_of(text), node.builder.getI64Type()), a.number(bytes, 1));
  Value longest = a.reduce(tx::ReduceKind::max,
                           a.select(a.compare(tx::CompareKind::ne, bytes, a.number(bytes, 0)), ends, a.number(bytes, 0)), {rank_of(text)});
  return a.max(longest, a.number(longest, 0));  // of no bytes
}

// Whether strings are equal, of tensors with the same extents but the last, of which one is not 0.
Value are_equal(Node& node, Value a, Value b) {
  const Arithmetic arithmetic(node);
  const AffineExpr width = width_of(a) + width_of(b);
  Value left = padded(node, a, width_of(b)), right = padded(node, b, width_of(a));
  right = node.reshape(right, with_width(strings_of(right), width));
  Value same = as_i64(node, arithmetic.compare(tx::CompareKind::eq, left, right));
  same = arithmetic.reduce(tx::ReduceKind::min, same, {rank_of(a)});
  return node.converted(node.reshape(same, strings_of(a)), node.builder.getI1Type());
}

void text_equal(Node& node) {
  Value a = node.text(0), b = node.text(1);
  const Extents strings = common_extents(node, {strings_of(a), strings_of(b)});
  a = padded(node, node.broadcast(a, with_width(strings, width_of(a))), one(node));
  b = node.broadcast(b, with_width(strings, width_of(b)));
  node.set_result(are_equal(node, a, b));
}

void text_cast(Node& node) {
  if (node.integer("to") == onnx::TensorProto::STRING) return node.set_text(node.text(0));
  node.operand(0);  // throws: it is of strings
}

void text_concat(Node& node) {
  SmallVector<Value> texts;
  for (int i = 0; i < node.input_count(); ++i) texts.push_back(node.text(i));
  align(node, onnx::TensorProto::STRING, texts, /*by_data=*/true);
  const int64_t axis = node.axis(node.integer("axis"), rank_of(texts[0]));
  for (Value& text : texts) {
    if (rank_of(text) != rank_of(texts[0])) node.refuse_inputs("ranks of the inputs differ");
    Extents alike = Node::extents_of(texts[0]);
    alike[static_cast<size_t>(axis)] = Node::extents_of(text)[static_cast<size_t>(axis)];
    text = node.with_extents(text, alike);
  }
  node.set_text(joined_along(node, texts, axis));
}

void string_concat(Node& node) {
  const Arithmetic a(node);
  Value left = node.text(0), right = node.text(1);
  const Extents strings = common_extents(node, {strings_of(left), strings_of(right)});
  left = node.broadcast(left, with_width(strings, width_of(left)));
  right = node.broadcast(right, with_width(strings, width_of(right)));
  const Extents all = with_width(strings, width_of(left) + width_of(right));
  const int64_t last = rank_of(left);
  Value place = a.iota(all, last, node.builder.getI64Type());
  Value length = node.broadcast(lengths_of(node, left), all);
  Value both = joined_along(node, {left, right}, last);
  Value in_right = a.add(a.sub(place, length), a.extent(width_of(left), place));
  Value at = a.select(a.compare(tx::CompareKind::lt, place, length), place, in_right);
  node.set_text(bytes_at(node, both, at, a.compare(tx::CompareKind::lt, at, a.extent(width_of(both), at))));
}

}  // namespace

std::vector<int32_t> codes_in_case(const Node& node, bool upper) {
  locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (!unicode) node.fail("this system has no locale C.UTF-8, which knows the case of letters", HEDDLE_STATUS_UNAVAILABLE);
  std::vector<int32_t> codes(codes_of_two);
  for (int32_t code = 0; code < codes_of_two; ++code) {
    const auto letter = static_cast<wint_t>(code);
    const auto other = static_cast<int32_t>(upper ? towupper_l(letter, unicode) : towlower_l(letter, unicode));
    codes[static_cast<size_t>(code)] = other >= first_of_two && other < codes_of_two ? other : code;
  }
  freelocale(unicode);
  return codes;
}

namespace {

Value case_table(Node& node, bool upper) {
  const std::vector<int32_t> codes = codes_in_case(node, upper);
  auto type = RankedTensorType::get({codes_of_two}, node.builder.getI32Type());
  return node.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, ArrayRef<int32_t>(codes)));
}

Value in_case(Node& node, Value text, bool upper) {
  const Arithmetic a(node);
  const Type i32 = node.builder.getI32Type();
  Value bytes = node.converted(text, i32);
  Value before = node.converted(part_of(node, padded(node, text, {}, one(node)), 0, width_of(text)), i32);
  Value behind = node.converted(part_of(node, padded(node, text, one(node)), 1, width_of(text)), i32);
  auto between = [&](Value value, int first, int last) {
    return a.both(a.compare(tx::CompareKind::ge, value, a.number(value, first)),
                  a.compare(tx::CompareKind::le, value, a.number(value, last)));
  };
  constexpr int lead = 0xC0, trail = 0x80, last_lead = 0xDF;
  Value table = case_table(node, upper);
  auto mapped = [&](Value first, Value second) {
    Value code = a.add(a.mul(a.sub(first, a.number(first, lead)), a.number(first, 64)), a.sub(second, a.number(second, trail)));
    code = a.max(a.number(code, 0), a.min(code, a.number(code, codes_of_two - 1)));
    return node.make<tx::GatherOp>(Node::type_of(code), table, code, node.builder.getI64IntegerAttr(0));
  };
  Value ascii = upper ? a.select(between(bytes, 'a', 'z'), a.sub(bytes, a.number(bytes, 'a' - 'A')), bytes)
                      : a.select(between(bytes, 'A', 'Z'), a.add(bytes, a.number(bytes, 'a' - 'A')), bytes);
  Value own = a.div(mapped(bytes, behind), a.number(bytes, 64));
  Value earlier = mapped(before, bytes);
  earlier = a.sub(earlier, a.mul(a.div(earlier, a.number(bytes, 64)), a.number(bytes, 64)));
  Value made = a.select(between(bytes, lead, last_lead), a.add(own, a.number(bytes, lead)),
                        a.select(between(before, lead, last_lead), a.add(earlier, a.number(bytes, trail)), ascii));
  return node.converted(made, text_element(node.builder.getContext()));
}

// 1 for each of the strings (a vector of them) that is none of the words.
Value is_no_word(Node& node, Value text, Value words) {
  const Arithmetic a(node);
  const AffineExpr count = strings_of(text)[0], number = strings_of(words)[0], width = width_of(words);
  Value head = part_of(node, padded(node, text, width), 0, width);
  const Extents all = {count, number, width};
  Value same = as_i64(node, a.compare(tx::CompareKind::eq, a.spread(head, all, {0, 2}), a.spread(words, all, {1, 2})));
  same = node.reshape(a.reduce(tx::ReduceKind::max, a.reduce(tx::ReduceKind::min, same, {2}), {1}), {count});
  Value length = node.reshape(lengths_of(node, text), {count});
  Value fits = as_i64(node, a.compare(tx::CompareKind::le, length, a.extent(width, length)));
  return a.sub(a.number(same, 1), a.mul(same, fits));
}

void string_normalizer(Node& node) {
  Value text = node.text(0);
  const int64_t rank = rank_of(text);
  if (rank != 1 && !(rank == 2 && node.are_equal(strings_of(text)[0], one(node))))
    node.refuse_inputs("the input is neither [C] nor [1, C]");
  const std::string action = node.text("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    node.fail("case_change_action '" + action + "' is not NONE, LOWER or UPPER");
  const bool upper = action == "UPPER";
  Extents vector = {strings_of(text).back(), width_of(text)};
  text = node.reshape(text, vector);
  const std::vector<std::string> words = node.text_list("stopwords");
  if (!words.empty()) {
    Value stop = text_constant(node.builder, words, {static_cast<int64_t>(words.size())}, "attribute 'stopwords' of " + node.describe(),
                               node.location());
    const bool is_sensitive = node.integer("is_case_sensitive", 0) != 0;
    stop = padded(node, stop, one(node));  // so that there is a byte to compare
    Value compared = padded(node, text, one(node));
    Value keep =
        is_sensitive ? is_no_word(node, compared, stop) : is_no_word(node, in_case(node, compared, upper), in_case(node, stop, upper));
    // An empty string is left if no other one is.
    const Arithmetic a(node);
    Value number = a.reduce(tx::ReduceKind::sum, keep, {0});
    Value none = as_i64(node, a.compare(tx::CompareKind::eq, number, a.number(number, 0)));
    keep = joined_along(node, {keep, none}, 0);
    Value last = node.splat(node.tensor_type({one(node), width_of(text)}, Node::type_of(text).getElementType()), 0);
    text = taken(node, joined_along(node, {text, last}, 0), places_of_ones(node, keep, "number of strings that are no stop words"));
  }
  if (action != "NONE") text = in_case(node, text, upper);
  if (rank == 2) text = node.reshape(text, {one(node), strings_of(text)[0], width_of(text)});
  node.set_text(text);
}

bool overlaps_itself(const std::string& word) {
  for (size_t shift = 1; shift < word.size(); ++shift) {
    if (word.compare(shift, std::string::npos, word, 0, word.size() - shift) == 0) return true;
  }
  return false;
}

void string_split(Node& node) {
  const Arithmetic a(node);
  Value given = node.text(0);
  const Extents strings = strings_of(given);
  const AffineExpr count = node.count_of(strings), width = width_of(given);
  const Type i64 = node.builder.getI64Type();
  Value text = node.reshape(given, {count, width}), length = lengths_of(node, text);
  const RankedTensorType type = node.tensor_type({count, width}, i64);
  const std::string delimiter = node.text("delimiter", "");
  const int64_t most = std::min(node.integer("maxsplit", -1), largest_extent);
  constexpr size_t most_delimiter_bytes = 256;
  if (delimiter.size() > most_delimiter_bytes)
    node.fail("the delimiter has " + std::to_string(delimiter.size()) + " bytes, above " + std::to_string(most_delimiter_bytes),
              HEDDLE_STATUS_UNIMPLEMENTED);
  if (delimiter.find('\0') != std::string::npos)
    node.fail("the delimiter has a byte 0, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  if (overlaps_itself(delimiter)) {
    node.fail("the delimiter '" + delimiter + "' can overlap with itself, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  }
  auto flags = [&](Value condition) { return as_i64(node, condition); };
  auto is = [&](tx::CompareKind kind, Value value, double number) { return flags(a.compare(kind, value, a.number(value, number))); };
  auto in_every = [&](Value value, tx::ReduceKind kind) { return a.reduce(kind, value, {1}); };
  auto counted_up = [&](Value value) { return node.make<tx::CumsumOp>(type, value, 1, false, false); };
  Value place = a.iota({count, width}, 1, i64), bytes = as_i64(node, text), parts;
  // Of part s: it begins at the largest `begin` with number s, and ends at the largest `end` with number s, or with the string where that is 0.
  Value begin, begin_number, end, end_number;
  if (delimiter.empty()) {
    Value is_space =
        a.max(is(tx::CompareKind::eq, bytes, ' '), a.mul(is(tx::CompareKind::ge, bytes, '\t'), is(tx::CompareKind::le, bytes, '\r')));
    is_space = a.max(is_space, a.mul(is(tx::CompareKind::ge, bytes, 0x1c), is(tx::CompareKind::le, bytes, 0x1f)));
    Value is_word = a.mul(is(tx::CompareKind::ne, bytes, 0), a.sub(a.number(is_space, 1), is_space));
    Value before = part_of(node, padded(node, is_word, {}, one(node)), 0, width),
          behind = part_of(node, padded(node, is_word, one(node)), 1, width);
    Value starts = a.mul(is_word, a.sub(a.number(before, 1), before)), stops = a.mul(is_word, a.sub(a.number(behind, 1), behind));
    Value word = counted_up(starts);
    parts = in_every(starts, tx::ReduceKind::sum);
    if (most >= 0) {
      parts = a.min(parts, a.number(parts, static_cast<double>(most) + 1));
      stops = a.mul(stops, is(tx::CompareKind::le, word, static_cast<double>(most)));
    }
    begin = a.mul(starts, place);
    begin_number = a.sub(a.mul(starts, word), a.number(word, 1));
    end = a.mul(stops, a.add(place, a.number(place, 1)));
    end_number = a.sub(a.mul(stops, word), a.number(word, 1));
  } else {
    const auto size = static_cast<int64_t>(delimiter.size());
    Value longer = padded(node, bytes, node.builder.getAffineConstantExpr(size)), matches;
    for (int64_t i = 0; i < size; ++i) {
      Value same = is(tx::CompareKind::eq, part_of(node, longer, i, width), static_cast<unsigned char>(delimiter[static_cast<size_t>(i)]));
      matches = matches ? a.mul(matches, same) : same;
    }
    Value number = counted_up(matches);
    if (most >= 0) matches = a.mul(matches, is(tx::CompareKind::le, number, static_cast<double>(most)));
    parts = in_every(matches, tx::ReduceKind::sum);
    parts = a.add(parts, a.number(parts, 1));
    begin = a.mul(matches, a.add(place, a.number(place, static_cast<double>(size))));
    begin_number = a.sub(a.mul(matches, a.add(number, a.number(number, 1))), a.number(number, 1));  // after delimiter i begins part i
    end = a.mul(matches, a.add(place, a.number(place, 1)));                                         // one more, since 0 means none
    end_number = a.sub(a.mul(matches, number), a.number(number, 1));
  }
  Value most_parts = a.reduce(tx::ReduceKind::max, parts, {0});
  const Integers largest(node, node.reshape(a.max(most_parts, a.number(most_parts, 0)), {one(node)}));
  const AffineExpr columns = read_extents(node, largest, "number of parts").front();
  const Extents table = {count, columns, width}, of_parts = {count, columns, one(node)};
  Value part = a.iota(table, 1, i64);
  auto last_of = [&](Value value, Value number) {
    Value mine = flags(a.compare(tx::CompareKind::eq, a.spread(number, table, {0, 2}), part));
    Value last = a.reduce(tx::ReduceKind::max, a.mul(mine, a.spread(value, table, {0, 2})), {2});
    return a.max(last, a.number(last, 0));  // of no bytes
  };
  Value first = last_of(begin, begin_number), last = last_of(end, end_number);
  Value own = a.iota(of_parts, 1, i64);
  Value is_open = a.compare(tx::CompareKind::eq, last, a.number(last, 0));
  if (!delimiter.empty()) last = a.sub(last, a.number(last, 1));
  last = a.select(is_open, node.broadcast(node.reshape(length, {count, one(node), one(node)}), of_parts), last);
  Value is_part = a.compare(tx::CompareKind::lt, own, node.broadcast(node.reshape(parts, {count, one(node), one(node)}), of_parts));
  last = a.select(is_part, last, first);
  Value at = a.add(a.iota(table, 2, i64), node.broadcast(first, table));
  Value made = bytes_at(node, a.spread(text, table, {0, 2}), at, a.compare(tx::CompareKind::lt, at, node.broadcast(last, table)));
  Extents result = strings;
  result.push_back(columns);
  node.set_text(node.reshape(made, with_width(result, width)));
  node.set_result(node.reshape(parts, strings), 1);
}

}  // namespace

// Of a constant, in the IR.
constexpr size_t largest_text_bytes = size_t{16} << 20;

Type text_element(MLIRContext* context) {
  return IntegerType::get(context, 8, IntegerType::Unsigned);
}

Value text_constant(OpBuilder& builder, ArrayRef<std::string> strings, ArrayRef<int64_t> dims, const std::string& who, Location location) {
  auto fail = [&](const std::string& cause, heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT) {
    throw Failure{code, "onnx: importing " + who + " failed: " + cause};
  };
  size_t width = 0;
  for (const std::string& string : strings) {
    if (!is_utf8(string)) fail("it has a string that is not UTF-8 text");
    if (string.find('\0') != std::string::npos) fail("it has a string with a byte 0, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    width = std::max(width, string.size());
  }
  if (width != 0 && strings.size() > largest_text_bytes / width) {
    fail("its strings have " + std::to_string(strings.size()) + " times " + std::to_string(width) + " bytes, above " +
             std::to_string(largest_text_bytes),
         HEDDLE_STATUS_UNIMPLEMENTED);
  }
  std::vector<uint8_t> bytes(strings.size() * width);
  for (size_t i = 0; i < strings.size(); ++i)
    std::copy(strings[i].begin(), strings[i].end(), bytes.begin() + static_cast<ptrdiff_t>(i * width));
  SmallVector<int64_t> shape(dims);
  shape.push_back(static_cast<int64_t>(width));
  auto type = RankedTensorType::get(shape, text_element(builder.getContext()));
  return builder.create<tx::ConstantOp>(location, type, DenseElementsAttr::get(type, ArrayRef<uint8_t>(bytes)));
}

Value text_constant(OpBuilder& builder, const onnx::TensorProto& tensor, const std::string& who, Location location) {
  int64_t count = 1;
  for (int64_t dim : tensor.dims()) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) count = -1;
    if (count < 0) break;
  }
  if (count != tensor.string_data_size()) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + who + " failed: it has " +
                                                      std::to_string(tensor.string_data_size()) + " strings, and its shape says " +
                                                      (count < 0 ? "another number" : std::to_string(count))};
  }
  const std::vector<std::string> strings(tensor.string_data().begin(), tensor.string_data().end());
  const SmallVector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  Extents extents;
  for (int64_t dim : dims) extents.push_back(builder.getAffineConstantExpr(dim));
  if (std::string cause = refuse_extents(extents); !cause.empty())
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + who + " failed: " + cause};
  return text_constant(builder, strings, dims, who, location);
}

void expand_regex(Node& node, NodeWriter& w) {
  Value text = node.text(0);
  Automaton automaton;
  bool is_unsupported = false;
  const std::string pattern = node.text("pattern", "");
  if (const std::string cause = make_automaton(pattern, automaton, is_unsupported); !cause.empty()) {
    node.fail("the pattern '" + pattern + "': " + cause, is_unsupported ? HEDDLE_STATUS_UNIMPLEMENTED : HEDDLE_STATUS_INVALID_ARGUMENT);
  }
  const Type i64 = node.builder.getI64Type();
  auto named = [&](Operand operand) {
    std::string name = w.fresh();
    node.graph.operands.try_emplace(name, std::move(operand));
    return name;
  };
  auto table = [&](const auto& numbers) {
    const SmallVector<int64_t> wide(numbers.begin(), numbers.end());
    auto type = RankedTensorType::get({static_cast<int64_t>(wide.size())}, i64);
    return Value(node.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, ArrayRef<int64_t>(wide))));
  };
  const Extents strings = strings_of(text);
  const AffineExpr count = node.count_of(strings);
  // Steps first: [bytes, strings].
  Value bytes = node.transpose(as_i64(node, node.reshape(text, {count, width_of(text)})), {1, 0});
  Value kinds = node.make<tx::GatherOp>(Node::type_of(bytes), table(automaton.class_of), bytes, node.builder.getI64IntegerAttr(0));
  const std::string begin = named({node.splat(node.tensor_type({count}, i64), 0), {}, 0}), steps = named({kinds, {}, 0});
  const std::string next = named({table(automaton.next), {}, 0}), accepts = named({table(automaton.accepts), {}, 0});
  const std::string classes = w.integer(automaton.classes), last = w.fresh();
  onnx::NodeProto& scan = w.node("Scan", {begin, steps}, {last});
  NodeWriter::set(scan, "num_scan_inputs", int64_t{1});
  onnx::AttributeProto& body = *scan.add_attribute();
  body.set_name("body");
  body.set_type(onnx::AttributeProto::GRAPH);
  body.mutable_g()->set_name("step");
  const std::string state = w.fresh(), kind = w.fresh();
  body.mutable_g()->add_input()->set_name(state);
  body.mutable_g()->add_input()->set_name(kind);
  NodeWriter inner = w.within(*body.mutable_g()->mutable_node());
  body.mutable_g()->add_output()->set_name(inner.op("Gather", {next, inner.op("Add", {inner.op("Mul", {state, classes}), kind})}));
  Operand shape;
  shape.elements.emplace(strings.begin(), strings.end());
  shape.rank = 1;
  const std::string matches = w.op("Cast", {w.op("Gather", {accepts, last})}, "to", int64_t{onnx::TensorProto::BOOL});
  NodeWriter::set(w.node("Reshape", {matches, named(std::move(shape))}, {node.output(0)}), "allowzero", int64_t{1});
}

const Table& text_operators() {
  static const Table table = {{"Cast", text_cast},
                              {"Concat", text_concat},
                              {"Equal", text_equal},
                              {"StringConcat", string_concat},
                              {"StringNormalizer", string_normalizer},
                              {"StringSplit", string_split},
                              {"Unique", unique}};
  return table;
}

}  // namespace heddle::import
