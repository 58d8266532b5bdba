// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See ops.h. tests/compiler/portable_ops_test.cpp compares the list with the compiler's ops and with docs/portable-ops.md.
#include "heddle/sdk/portable/ops.h"

#include <algorithm>

namespace heddle::sdk::portable {

namespace {

constexpr AttributeType kBoolean = AttributeType::kBoolean, kInteger = AttributeType::kInteger, kFloat = AttributeType::kFloat,
                        kText = AttributeType::kText, kIntegers = AttributeType::kIntegers;

constexpr OpAttribute kAxis = {"axis", kInteger, "a dimension of the first operand"};
constexpr OpAttribute kBlocks = {"blocks", kText, "the type of the blocks in which rows of weights are stored, as in GGUF", true};
constexpr OpAttribute kDilations = {"dilations", kIntegers, "from one element of a window to the next, for each spatial dimension"};
constexpr OpAttribute kPadsHigh = {"pads_high", kIntegers, "elements outside, at the end of each spatial dimension"};
constexpr OpAttribute kPadsLow = {"pads_low", kIntegers, "the same, at the begin"};
constexpr OpAttribute kStrides = {"strides", kIntegers, "from one window to the next, for each spatial dimension"};

constexpr KnownOp kOpsOfModels[] = {
    {"abs", 1, "x", "the absolute value"},
    {"add", 1, "a, b", "a + b"},
    {"arg_reduce",
     1,
     "x",
     "the index, an i64, of the largest or smallest element along the axis; NaN is never chosen, and 0 is the index if all are",
     {kAxis, {"kind", kText, "\"max\" or \"min\""}, {"last", kBoolean, "of equal elements, the last one and not the first"}}},
    {"bit_and", 1, "a, b", "the bits that both have"},
    {"bit_cast", 1, "x", "the same bits as elements of another type of that size"},
    {"bit_or", 1, "a, b", "the bits that either has"},
    {"bit_xor", 1, "a, b", "the bits that one of both has"},
    {"broadcast",
     1,
     "x",
     "dimensions of extent 1 and new ones are repeated",
     {{"dimensions", kIntegers, "the dimension of the result that each of x becomes"}}},
    {"cast", 2, "x",
     "another element type; casts to f16 and bf16 round, floats to integers truncate, and what does not fit becomes the nearest value that "
     "does"},
    {"ceil", 1, "x", "rounded up"},
    {"compare",
     1,
     "a, b",
     "a bool for each pair of elements",
     {{"kind", kText, "\"eq\", \"ne\", \"lt\", \"le\", \"gt\" or \"ge\": whether a is that to b"}}},
    {"concat", 1, "x...", "the operands one after another along the axis", {kAxis}},
    {"constant",
     1,
     "",
     "the same value everywhere; without an attribute, values that the name does not say",
     {{"integer", kInteger, "the value, if the elements are integers or bools", true}, {"real", kFloat, "the value of floats", true}}},
    {"conv",
     1,
     "x, filter, [zero]",
     "convolution, channels last: [n, spatial..., c] by [spatial..., c / groups, f] is [n, spatial..., f]; a filter of integers has its "
     "zero, [f] of f32, subtracted",
     {kDilations, {"groups", kInteger, "parts into which c and f are divided"}, kPadsHigh, kPadsLow, kStrides}},
    {"cos", 1, "x", "the cosine"},
    {"cumsum",
     1,
     "x",
     "the sum of the elements up to each one along the axis",
     {kAxis, {"exclusive", kBoolean, "without the element itself"}, {"reverse", kBoolean, "from each one to the end instead"}}},
    {"div", 1, "a, b", "a / b; of integers, rounded toward zero, and 0 for a division by 0"},
    {"erf", 1, "x", "the error function"},
    {"exp", 1, "x", "e to the power of x"},
    {"floor", 1, "x", "rounded down"},
    {"gather", 1, "x, indices", "slices of x along the axis; negative indices count from the end", {kAxis, kBlocks}},
    {"gather_elements",
     1,
     "x, indices",
     "for each index the element of x at its place, with the index along the axis; negative ones count from the end",
     {kAxis}},
    {"gather_nd",
     1,
     "x, indices",
     "slices of x, each by a row of indices with one for each dimension after the batch",
     {{"batch_dims", kInteger, "leading dimensions that both operands have"}}},
    {"iota", 1, "", "each element is its index along the dimension", {{"dimension", kInteger, "of the result"}}},
    {"log", 1, "x", "the natural logarithm"},
    {"lrn",
     1,
     "x",
     "x / (bias + alpha / size * sum of squares in a window of size elements around each along the last dimension)^beta",
     {{"alpha", kFloat, "as in the formula"},
      {"beta", kFloat, "as in the formula"},
      {"bias", kFloat, "as in the formula"},
      {"size", kInteger, "elements of a window"}}},
    {"matmul",
     1,
     "a, b, [zero]",
     "[batch..., m, k] by [batch..., k, n], or by [k, n]; if b has integers and a floats, its zero, [n] of f32, is subtracted",
     {kBlocks,
      {"transpose_lhs", kBoolean, "the last two dimensions of a are swapped"},
      {"transpose_rhs", kBoolean, "the last two dimensions of b are swapped"}}},
    {"max", 1, "a, b", "the larger one; NaN if one is"},
    {"min", 1, "a, b", "the smaller one; NaN if one is"},
    {"mul", 1, "a, b", "a * b"},
    {"narrow_decode",
     1,
     "x",
     "f32 of floats of 8 or 4 bits, of which each is stored as u8",
     {{"format", kText, "their type, such as \"f8e4m3\" or \"f4e2m1\""}}},
    {"narrow_encode",
     1,
     "x",
     "f32 rounded to floats of 8 or 4 bits, each stored as u8",
     {{"format", kText, "their type"},
      {"round", kText, "of \"f8e8m0\": \"nearest\" (ties up), \"up\" or \"down\"; others round to nearest even", true},
      {"saturate", kBoolean, "what is too large becomes the largest number, and not an infinity or NaN"}}},
    {"neg", 1, "x", "-x"},
    {"ngrams",
     1,
     "text, leads, letters, nodes",
     "for each byte of each text, the n-gram of a list that ends before it; the list is a double-array trie",
     {{"goes_on", kInteger, "what is added to the symbol of a byte that does not begin a token"},
      {"least", kInteger, "characters that a token has at least"},
      {"longest", kInteger, "tokens that an n-gram has at most"},
      {"none", kInteger, "the result where no n-gram ends"},
      {"runs", kBoolean, "a token is as many characters as there are in a row, and not one"}}},
    {"pad",
     1,
     "x",
     "elements around each dimension",
     {{"high", kIntegers, "elements after each dimension"},
      {"low", kIntegers, "elements before each dimension"},
      {"value", kFloat, "of these elements"}}},
    {"pool",
     2,
     "x",
     "pooling over windows, channels last; the part of a window outside of x and its pads does not count",
     {kDilations,
      {"include_pad", kBoolean, "an average counts the pads as elements"},
      {"kernel", kIntegers, "elements of a window in each spatial dimension"},
      {"kind", kText, "\"max\" (NaN if an element of the window is NaN) or \"average\""},
      kPadsHigh,
      kPadsLow,
      kStrides}},
    {"pow", 1, "a, b", "a to the power of b"},
    {"random_bits", 1, "index, seed", "a u32: the first word of Philox4x32-10 for the counter index and the key seed, two i64"},
    {"reciprocal", 1, "x", "1 / x"},
    {"reduce",
     1,
     "x",
     "the elements along the axes as one",
     {{"axes", kIntegers, "dimensions of x, rising, which the result does not have"},
      {"kind", kText, "\"sum\", \"mean\", \"max\", \"min\" or \"prod\""}}},
    {"relu", 1, "x", "x, or 0 where x is below"},
    {"reshape", 1, "x", "the same elements in row-major order with other extents"},
    {"round", 1, "x", "the nearest whole number; of two, the even one"},
    {"rsqrt", 1, "x", "1 / the square root"},
    {"scatter",
     1,
     "x, indices, updates",
     "x with updates, each at its index along the axis, in order; negative indices count from the end, and an update outside is dropped",
     {kAxis,
      {"kind", kText, "how an update is combined with what is there, as for reduce but not \"mean\"; without it, it replaces that", true}}},
    {"select", 1, "condition, a, b", "a where the condition holds, b elsewhere"},
    {"sigmoid", 1, "x", "1 / (1 + exp(-x))"},
    {"sin", 1, "x", "the sine"},
    {"slice",
     1,
     "x",
     "elements at starts[i] + j * strides[i] along each dimension",
     {{"starts", kIntegers, "the first index in each dimension"}, {"strides", kIntegers, "from one index to the next in each dimension"}}},
    {"softmax", 1, "x", "exp(x - max) / sum along the axis", {kAxis, {"log", kBoolean, "the logarithm of that"}}},
    {"sort",
     1,
     "x",
     "the first indices, i64, of those that sort the elements along the axis, smallest first; equal ones keep their order, NaN is largest",
     {kAxis, {"descending", kBoolean, "largest first"}}},
    {"sqrt", 1, "x", "the square root"},
    {"sub", 1, "a, b", "a - b"},
    {"suppress", 1, "boxes, candidates, threshold, limit",
     "which boxes of a list stay, if each that stays removes later ones whose intersection over union with it is above the threshold"},
    {"tanh", 1, "x", "the hyperbolic tangent"},
    {"transpose", 1, "x", "dimensions in another order", {{"permutation", kIntegers, "the dimension of x that each of the result is"}}},
    {"trees",
     1,
     "x, features, thresholds, weights, [children, roots], [flags]",
     "for each row and each group of decision trees, the weights of the leaves that it reaches, combined",
     {{"kind", kText, "\"sum\", \"max\" or \"min\""},
      {"steps", kInteger, "from a root to a leaf, at most"},
      {"strict", kBoolean, "an element has to be below the threshold for the first child, and not at most it"}}},
};

const OpAttribute* find(const KnownOp& op, std::string_view name) {
  for (const OpAttribute& each : op.attributes()) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

}  // namespace

std::span<const OpAttribute> KnownOp::attributes() const {
  return {all, static_cast<size_t>(std::find_if(std::begin(all), std::end(all), [](const OpAttribute& each) { return !each.name; }) - all)};
}

std::span<const KnownOp> known_ops() {
  return kOpsOfModels;
}

const KnownOp* known_op(std::string_view name) {
  const auto* found = std::lower_bound(std::begin(kOpsOfModels), std::end(kOpsOfModels), name,
                                       [](const KnownOp& op, std::string_view wanted) { return op.name < wanted; });
  return found != std::end(kOpsOfModels) && found->name == name ? found : nullptr;
}

const char* name_of(AttributeType type) {
  constexpr const char* kNames[] = {"boolean", "integer", "float", "text", "integers", "floats"};
  return kNames[static_cast<size_t>(type)];
}

bool is_as_known(const NamedOp& op, std::string* out_reason) {
  const std::string who = op.name + "/" + std::to_string(op.version);
  auto refuse = [&](const std::string& why) {
    *out_reason = who + why;
    return false;
  };
  const KnownOp* known = known_op(op.name);
  if (!known) return refuse(" is no op that is known");
  if (op.version != known->version) return refuse(" is of another version than " + std::to_string(known->version) + ", which is known");
  for (const Attribute& attribute : op.attributes) {
    const OpAttribute* expected = find(*known, attribute.name);
    if (!expected) return refuse(" has no attribute '" + attribute.name + "'");
    if (expected->type != attribute.type())
      return refuse("'s attribute '" + attribute.name + "' is " + name_of(attribute.type()) + " and not " + name_of(expected->type));
  }
  for (const OpAttribute& expected : known->attributes()) {
    const bool is_there =
        std::any_of(op.attributes.begin(), op.attributes.end(), [&](const Attribute& each) { return each.name == expected.name; });
    if (!is_there && !expected.is_optional && expected.type != kBoolean)
      return refuse(std::string(" lacks its attribute '") + expected.name + "'");
  }
  return true;
}

}  // namespace heddle::sdk::portable
