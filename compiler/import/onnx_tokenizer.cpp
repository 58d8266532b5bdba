// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokenizer of com.microsoft: tokens are characters of a set, or as many of them in a row as there are. The set is what `tokenexp` matches, or all that
// no separator matches.
#include <optional>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_regex.h"
#include "compiler/import/onnx_text.h"
#include "compiler/import/onnx_tokens.h"

using namespace mlir;

namespace heddle::import {
namespace {

using tx::CompareKind;

constexpr int bytes_of_table = 256;
constexpr uint32_t last_code = 0x10FFFF, first_surrogate = 0xD800, last_surrogate = 0xDFFF;

std::string utf8(uint32_t code) {
  auto trail = [&](unsigned shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | (code >> 6)), trail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | (code >> 12)), trail(6), trail(0)};
  return {static_cast<char>(0xF0 | (code >> 18)), trail(12), trail(6), trail(0)};
}

int64_t after(const Automaton& automaton, int64_t state, const std::string& bytes) {
  for (char c : bytes) {
    const int32_t kind = automaton.class_of[static_cast<unsigned char>(c)];
    state = automaton.next[static_cast<size_t>(state * automaton.classes + kind)];
  }
  return state;
}

// The states from which some string is accepted.
std::vector<bool> live_states(const Automaton& automaton) {
  std::vector<bool> live = automaton.accepts;
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t s = 0; s < live.size(); ++s) {
      for (int64_t c = 0; c < automaton.classes && !live[s]; ++c) {
        live[s] = live[static_cast<size_t>(automaton.next[s * static_cast<size_t>(automaton.classes) + static_cast<size_t>(c)])];
        changes |= live[s];
      }
    }
  }
  return live;
}

// Whether two automata accept the same strings: they never disagree in a pair of states that some string leads to.
bool accept_the_same(const Automaton& a, const Automaton& b) {
  std::vector<std::pair<int64_t, int64_t>> open = {{0, 0}};
  std::vector<bool> seen(a.accepts.size() * b.accepts.size());
  seen[0] = true;
  while (!open.empty()) {
    const auto [s, t] = open.back();
    open.pop_back();
    if (a.accepts[static_cast<size_t>(s)] != b.accepts[static_cast<size_t>(t)]) return false;
    for (int byte = 1; byte < bytes_of_table; ++byte) {
      const std::string one(1, static_cast<char>(byte));
      const int64_t u = after(a, s, one), v = after(b, t, one);
      const size_t pair = static_cast<size_t>(u) * b.accepts.size() + static_cast<size_t>(v);
      if (seen[pair]) continue;
      seen[pair] = true;
      open.emplace_back(u, v);
    }
  }
  return true;
}

std::string as_expression(const Characters& set) {
  std::string text = "[";
  auto code = [](int value) {
    constexpr const char* digits = "0123456789abcdef";
    return std::string("\\x") + digits[value / 16] + digits[value % 16];
  };
  for (int c = 1; c < first_of_two; ++c) {
    if (set.ascii[static_cast<size_t>(c)]) text += code(c);
  }
  return text + (set.others ? "\\x{80}-\\x{10FFFF}]" : "]");
}

Automaton automaton_of(Node& node, const std::string& expression, const std::string& what) {
  Automaton automaton;
  bool is_unsupported = false;
  if (std::string error = make_automaton(expression, automaton, is_unsupported); !error.empty())
    node.fail(what + " '" + expression + "': " + error, is_unsupported ? HEDDLE_STATUS_UNIMPLEMENTED : HEDDLE_STATUS_INVALID_ARGUMENT);
  return automaton;
}

Characters characters_of(Node& node, const std::string& expression, const std::string& what) {
  constexpr int64_t longest_least = 32;
  constexpr size_t most_states = 1024;
  // A run of the letters of words begins and ends at boundaries of words.
  const bool has_bounds = expression.rfind("\\b", 0) == 0 && llvm::StringRef(expression).ends_with("\\b") && expression.size() > 4;
  const std::string inner = has_bounds ? expression.substr(2, expression.size() - 4) : expression;
  auto refuse = [&](const std::string& cause) {
    node.fail(what + " '" + expression + "' " + cause +
                  "; supported are a character of a set, such as [a-z], and runs of it, such as [a-z]+ or [a-z]{2,}",
              HEDDLE_STATUS_UNIMPLEMENTED);
  };
  for (const char* condition : {"\\b", "\\B", "\\A", "\\z", "$"}) {
    if (inner.find(condition) != std::string::npos) refuse("has conditions on what is beside a token, which are not supported");
  }
  for (size_t i = inner.find('^'); i != std::string::npos; i = inner.find('^', i + 1)) {
    if (i == 0 || inner[i - 1] != '[') refuse("has conditions on what is beside a token, which are not supported");
  }
  const Automaton automaton = automaton_of(node, inner, what);
  if (automaton.accepts.size() > most_states) refuse("has too many states");
  const std::vector<bool> live = live_states(automaton);
  auto begins = [&](uint32_t code) { return live[static_cast<size_t>(after(automaton, 0, utf8(code)))]; };
  Characters set;
  std::optional<uint32_t> member;
  for (uint32_t code = 1; code < first_of_two; ++code) {
    set.ascii[code] = begins(code);
    if (set.ascii[code] && !member) member = code;
  }
  set.others = begins(first_of_two);
  for (uint32_t code = first_of_two; code <= last_code; ++code) {
    if (code >= first_surrogate && code <= last_surrogate) continue;
    if (begins(code) != set.others) refuse("matches some letters beyond ASCII and not others");
  }
  if (set.others && !member) member = first_of_two;
  if (!member) refuse("matches nothing");
  std::string run;
  for (set.least = 0; set.least <= longest_least; ++set.least, run += utf8(*member)) {
    if (automaton.accepts[static_cast<size_t>(after(automaton, 0, run))]) break;
  }
  if (set.least == 0) refuse("matches the empty string");
  const std::string one = as_expression(set), several = one + "{" + std::to_string(set.least) + ",}";
  set.is_run = set.least <= longest_least && accept_the_same(automaton, automaton_of(node, several, what));
  if (!set.is_run && !(set.least == 1 && accept_the_same(automaton, automaton_of(node, one, what)))) refuse("is not supported");
  if (has_bounds && !(set.is_run && accept_the_same(automaton, automaton_of(node, "\\w{" + std::to_string(set.least) + ",}", what))))
    refuse("has boundaries of words around something else than runs of \\w");
  return set;
}

}  // namespace

Characters token_characters(Node& node) {
  const int64_t least = node.integer("mincharnum", 1);
  if (least < 1) node.fail("mincharnum " + std::to_string(least) + " is below 1");
  if (node.has_attribute("tokenexp") && !node.text("tokenexp", "").empty()) {
    Characters set = characters_of(node, node.text("tokenexp", ""), "tokenexp");
    if (!set.is_run && least > 1) node.fail("mincharnum " + std::to_string(least) + " leaves no token of one character");
    set.least = std::max(set.least, least);
    return set;
  }
  const std::vector<std::string> separators = node.text_list("separators");
  if (separators.empty()) node.fail("it has neither tokenexp nor separators");
  Characters set;
  set.ascii.assign(first_of_two, true);
  set.ascii[0] = false;
  set.others = true;
  if (separators.size() == 1 && separators[0].empty()) return set;  // each character is a token
  set.is_run = true;
  set.least = least;
  for (const std::string& separator : separators) {
    if (separator.empty()) node.fail("one of several separators is empty");
    const Characters between = characters_of(node, separator, "separator");
    if (between.least > 1)
      node.fail("separator '" + separator + "' has several characters, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    for (size_t c = 0; c < set.ascii.size(); ++c) set.ascii[c] = set.ascii[c] && !between.ascii[c];
    set.others = set.others && !between.others;
  }
  return set;
}

// As ONNX Runtime's. Rows have as many columns as the most tokens of a string; behind its tokens comes `pad_value`.
void tokenizer(Node& node) {
  const Arithmetic a(node);
  const Type i64 = node.builder.getI64Type();
  const AffineExpr one = node.builder.getAffineConstantExpr(1);
  if (node.integer("mark", 0) != 0) node.unsupported("mark 1 is not supported", "mark 0");
  const Characters set = token_characters(node);
  Value given = node.text(0);
  Extents result = strings_of(given);
  if (result.empty() || result.size() > 2) node.refuse_inputs("its input has neither one nor two dimensions");
  if (!node.graph.unsupported.empty()) return;
  const AffineExpr count = node.count_of(result), width = width_of(given);
  const Extents places = {count, width};
  Value text = node.reshape(given, places);
  // Places in a string have 32 bits, which take half the time of 64.
  const Type i32 = node.builder.getI32Type();
  if (!node.graph.symbols.require(node.builder.getAffineConstantExpr(std::numeric_limits<int32_t>::max() - 1), width, node.describe()))
    node.fail("its strings have 2^31 bytes or more");
  auto flags = [&](Value condition) { return node.converted(condition, i32); };
  auto is = [&](CompareKind kind, Value value, double number) { return flags(a.compare(kind, value, a.number(value, number))); };
  auto without = [&](Value flag) { return a.sub(a.number(flag, 1), flag); };
  auto counted_up = [&](Value flag) { return node.make<tx::CumsumOp>(Node::type_of(flag), flag, 1, false, false); };
  auto at = [&](Value table, Value indices) {
    return node.make<tx::GatherElementsOp>(tx::with_element_type(Node::type_of(indices), i32), table, indices,
                                           node.builder.getI64IntegerAttr(1));
  };

  // Of each byte: whether it is in the set, and begins a character.
  SmallVector<int32_t> kinds(bytes_of_table, set.others ? 1 : 0);
  for (size_t c = 0; c < set.ascii.size(); ++c) kinds[c] = set.ascii[c] ? 1 : 0;
  auto kinds_type = RankedTensorType::get({bytes_of_table}, i32);
  Value table = node.make<tx::ConstantOp>(kinds_type, DenseElementsAttr::get(kinds_type, ArrayRef<int32_t>(kinds)));
  Value bytes = node.converted(text, i32);
  Value is_in = node.make<tx::GatherOp>(Node::type_of(bytes), table, bytes, node.builder.getI64IntegerAttr(0));
  constexpr int trail = 0x80, last_trail = 0xBF;
  Value is_first = without(a.mul(is(CompareKind::ge, bytes, trail), is(CompareKind::le, bytes, last_trail)));
  auto neighbor = [&](Value value, bool is_next) {
    return part_of(node, is_next ? padded(node, value, one) : padded(node, value, {}, one), is_next ? 1 : 0, width);
  };
  Value begins = a.mul(is_in, set.is_run ? without(neighbor(is_in, false)) : is_first);
  Value goes_on = neighbor(set.is_run ? is_in : without(is_first), true);
  Value ends = a.mul(is_in, without(goes_on));

  // Place i of a row: where its i-th run begins. Other updates are outside and dropped.
  auto listed = [&](Value value, Value is_there, Value number) {
    Value where =
        a.select(a.compare(CompareKind::gt, is_there, a.number(is_there, 0)), a.sub(number, a.number(number, 1)), a.extent(width, number));
    return node.make<tx::ScatterOp>(Node::type_of(value), node.splat(Node::type_of(value), 0), where, value,
                                    node.builder.getI64IntegerAttr(1), tx::ReduceKindAttr());
  };
  Value place = a.iota(places, 1, i32), number = counted_up(begins);
  Value run = a.max(a.sub(number, a.number(number, 1)), a.number(number, 0));
  Value first = at(listed(place, begins, number), run);
  Value length = a.sub(a.add(place, a.number(place, 1)), first);
  if (set.least > 1) {  // too short ones are none
    Value characters = counted_up(a.mul(is_in, is_first));
    Value size = a.sub(a.add(characters, a.number(characters, 1)), at(characters, first));
    ends = a.mul(ends, is(CompareKind::ge, size, static_cast<double>(set.least)));
    number = counted_up(ends);
  }
  Value tokens = a.reduce(tx::ReduceKind::sum, ends, {1}), sizes = a.mul(length, ends);
  const std::string pad = node.text("pad_value", "");
  auto largest = [&](Value value, int64_t least) {
    Value most = node.converted(a.reduce(tx::ReduceKind::max, value, {0, 1}), i64);
    return node.reshape(a.max(most, a.number(most, static_cast<double>(least))), {one});
  };
  Value both = node.make<tx::ConcatOp>(RankedTensorType::get({2}, i64),
                                       ValueRange{largest(tokens, 0), largest(sizes, static_cast<int64_t>(pad.size()))},
                                       node.builder.getI64IntegerAttr(0));
  const std::vector<AffineExpr> read = read_extents(node, Integers(node, both), "number and length of tokens");
  const Extents rows = {count, read[0]}, whole = {count, read[0], read[1]};

  // [rows, tokens, bytes]
  Value token = a.iota(rows, 1, i32);
  Value from = at(listed(first, ends, number), token), to = a.add(from, at(listed(length, ends, number), token));
  from = node.converted(from, i64);
  to = node.converted(to, i64);
  Value byte = a.add(a.iota(whole, 2, i64), a.spread(from, whole, {0, 1}));
  Value row = a.mul(a.iota(whole, 0, i64), a.extent(width, byte)), last = a.extent(width, byte);
  Value flat = a.add(row, a.min(byte, a.sub(last, a.number(last, 1))));
  // A byte more, so that there is one.
  Value all = padded(node, node.reshape(text, {node.count_of(places)}), one);
  Value made = node.make<tx::GatherOp>(node.tensor_type(whole, text_element(node.builder.getContext())), all, flat,
                                       node.builder.getI64IntegerAttr(0));
  made = a.select(a.compare(CompareKind::lt, byte, a.spread(to, whole, {0, 1})), made, a.number(made, 0));
  if (!pad.empty()) {
    Value filler = text_constant(node.builder, {pad}, {1}, "attribute 'pad_value' of " + node.describe(), node.location());
    filler = part_of(node, padded(node, filler, read[1]), 0, read[1]);
    Value is_token = a.compare(CompareKind::lt, token, node.broadcast(tokens, rows));
    made = a.select(a.spread(is_token, whole, {0, 1}), made, a.spread(filler, whole, {1, 2}));
  }
  result.push_back(read[0]);
  node.set_text(node.reshape(made, with_width(result, read[1])));
}

}  // namespace heddle::import
