// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See text.h.
#include "heddle/sdk/portable/text.h"

#include <charconv>
#include <cstdio>
#include <cstring>

namespace heddle::sdk::portable {
namespace {

constexpr const char* kScalarNames[kScalars] = {"i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
constexpr const char* kNodeNames[kNodeKinds] = {"map", "fold", "scan", "contract", "scatter", "sort", "sieve", "walk"};
constexpr const char* kOpNames[kOps] = {
    "constant", "extent",  "add_f",        "sub_f",   "mul_f",   "div_f",     "maximum_f", "minimum_f", "pow_f",  "neg_f",   "abs_f",
    "ceil_f",   "floor_f", "round_even_f", "sqrt_f",  "exp_f",   "log_f",     "tanh_f",    "cos_f",     "sin_f",  "erf_f",   "add_i",
    "sub_i",    "mul_i",   "div_si",       "div_ui",  "rem_si",  "rem_ui",    "max_si",    "min_si",    "max_ui", "min_ui",  "and_i",
    "or_i",     "xor_i",   "shl_i",        "shr_ui",  "shr_si",  "compare_f", "compare_i", "select",    "ext_f",  "trunc_f", "ext_si",
    "ext_ui",   "trunc_i", "si_to_f",      "ui_to_f", "f_to_si", "f_to_ui",   "bitcast"};
constexpr const char* kPredicateNames[kPredicates] = {"equal",         "not_equal",     "less",       "less_equal",       "greater",
                                                      "greater_equal", "unordered",     "ordered",    "or_equal",         "or_not_equal",
                                                      "or_less",       "or_less_equal", "or_greater", "or_greater_equal", "below",
                                                      "below_equal",   "above",         "above_equal"};
// By number, as in Node::bodies.
constexpr const char* kBodyNames[kNodeKinds][4] = {{"body"},
                                                   {"init", "step", "merge", "finish"},
                                                   {"init", "step", "finish"},
                                                   {"factors", "finish"},
                                                   {"place", "step", "init"},
                                                   {"element", "before"},
                                                   {"limit", "removes", "init"},
                                                   {"start", "next", "update", "init"}};

const char* name_of(heddle_element_type_t type) {
  switch (type) {
    case HEDDLE_TYPE_BOOL:
      return "bool";
    case HEDDLE_TYPE_I8:
      return "i8";
    case HEDDLE_TYPE_U8:
      return "u8";
    case HEDDLE_TYPE_I16:
      return "i16";
    case HEDDLE_TYPE_U16:
      return "u16";
    case HEDDLE_TYPE_I32:
      return "i32";
    case HEDDLE_TYPE_U32:
      return "u32";
    case HEDDLE_TYPE_I64:
      return "i64";
    case HEDDLE_TYPE_U64:
      return "u64";
    case HEDDLE_TYPE_F16:
      return "f16";
    case HEDDLE_TYPE_BF16:
      return "bf16";
    case HEDDLE_TYPE_F32:
      return "f32";
    case HEDDLE_TYPE_F64:
      return "f64";
    default:
      return "?";
  }
}

std::string bits_of(Scalar type, uint64_t bits) {
  char text[40];
  if (type == Scalar::kF32) {
    float value;
    const auto low = static_cast<uint32_t>(bits);
    std::memcpy(&value, &low, sizeof value);
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  } else if (type == Scalar::kF64) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    std::snprintf(text, sizeof text, "%.17g", value);
  } else if (is_float(type)) {
    std::snprintf(text, sizeof text, "0x%04llx", static_cast<unsigned long long>(bits));
  } else {
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(bits));
  }
  return text;
}

std::string text_of_value(bool value) {
  return value ? "true" : "false";
}
std::string text_of_value(int64_t value) {
  return std::to_string(value);
}
std::string text_of_value(double value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
std::string text_of_value(const std::string& value) {
  return '"' + value + '"';
}
template <typename T>
std::string text_of_value(const std::vector<T>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + text_of_value(values[i]);
  return text + "]";
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) { name_expressions(); }

  std::string print() {
    text_ = "kernel " + kernel_.name + ": " + std::to_string(kernel_.inputs) + " inputs, " + std::to_string(kernel_.outputs) +
            " outputs, " + std::to_string(kernel_.symbols) + " symbols\n";
    for (size_t t = 0; t < kernel_.tensors.size(); ++t) {
      text_ += "  tensor " + std::to_string(t) + ": " + tensor(kernel_.tensors[t]);
      text_ += t < kernel_.inputs ? ", input\n" : t < kernel_.inputs + kernel_.outputs ? ", output\n" : "\n";
    }
    text_ += long_expressions_;
    std::vector<std::string> values;
    for (size_t i = 0; i < kernel_.inputs; ++i) values.push_back("tensor " + std::to_string(i));
    for (size_t o = 0; o < kernel_.ops.size(); ++o) {
      const NamedOp& op = kernel_.ops[o];
      text_ += "  op " + std::to_string(o) + ": " + op.name + "/" + std::to_string(op.version);
      for (size_t i = 0; i < op.operands.size(); ++i) text_ += (i ? ", " : " of ") + values[op.operands[i]];
      for (size_t i = 0; i < op.results.size(); ++i)
        values.push_back("op " + std::to_string(o) + (i ? "'s result " + std::to_string(i) : ""));
      for (const Attribute& each : op.attributes)
        text_ += ", " + each.name + " = " + std::visit([](const auto& value) { return text_of_value(value); }, each.value);
      for (size_t i = 0; i < op.results.size(); ++i) text_ += (i ? ", " : " -> ") + tensor(op.results[i]);
      text_ += "\n";
    }
    for (size_t i = 0; i < kernel_.named_outputs.size(); ++i)
      text_ += "  tensor " + std::to_string(kernel_.inputs + i) + " is " + values[kernel_.named_outputs[i]] + "\n";
    for (size_t n = 0; n < kernel_.nodes.size(); ++n) print(kernel_.nodes[n], n);
    return std::move(text_);
  }

  std::string tensor(const Tensor& tensor) const { return name_of(tensor.type) + list("[", tensor.extents, "]"); }

 private:
  const std::string& expression(uint32_t which) const { return expressions_[which]; }

  // In the order of the list, in which operands come first: the text of a long one is its number, so that all of it is no longer than the code.
  void name_expressions() {
    constexpr size_t kLong = 160;
    for (const Expression& e : kernel_.expressions) {
      const auto operand = [&](uint32_t which) {
        const bool is_sum = kernel_.expressions[which].kind == Expression::kAdd && expressions_[which].find(' ') != std::string::npos;
        return is_sum ? "(" + expressions_[which] + ")" : expressions_[which];
      };
      std::string text;
      switch (e.kind) {
        case Expression::kConstant:
          text = std::to_string(e.value);
          break;
        case Expression::kDimension:
          text = "i" + std::to_string(e.value);
          break;
        case Expression::kSymbol:
          text = "s" + std::to_string(e.value);
          break;
        case Expression::kAdd:
          text = expressions_[e.a] + " + " + expressions_[e.b];
          break;
        case Expression::kMul:
          text = operand(e.a) + " * " + operand(e.b);
          break;
        default:
          text = (e.kind == Expression::kFloorDiv  ? "floor_div("
                  : e.kind == Expression::kCeilDiv ? "ceil_div("
                                                   : "mod(") +
                 expressions_[e.a] + ", " + expressions_[e.b] + ")";
      }
      if (text.size() > kLong) {
        const std::string name = "e" + std::to_string(expressions_.size());
        long_expressions_ += "  " + name + " = " + text + "\n";
        text = name;
      }
      expressions_.push_back(std::move(text));
    }
  }

  std::string list(const char* open, const std::vector<uint32_t>& expressions, const char* close) const {
    std::string out = open;
    for (size_t i = 0; i < expressions.size(); ++i) out += (i ? ", " : "") + expression(expressions[i]);
    return out + close;
  }

  void print(const Node& node, size_t number) {
    text_ += "  node " + std::to_string(number) + ": " + kNodeNames[static_cast<uint32_t>(node.kind)] + " over [";
    for (uint32_t d = 0; d < node.rank(); ++d) {
      text_ += (d ? ", i" : "i") + std::to_string(d) + " < " + expression(node.extents[d]);
      if (d >= node.parallel_rank()) text_ += " reduced";
    }
    text_ += "]";
    if (node.kind == NodeKind::kContract) text_ += std::string(", sums in ") + kScalarNames[static_cast<uint32_t>(node.accumulator)];
    if (node.kind == NodeKind::kScan || node.kind >= NodeKind::kScatter) text_ += ", along i" + std::to_string(node.along);
    if (node.reverse) text_ += " from its end";
    if (node.kind == NodeKind::kWalk) text_ += ", " + std::to_string(node.steps) + " steps";
    for (const Within& within : node.within) text_ += ", where 0 <= " + expression(within.index) + " < " + expression(within.bound);
    for (size_t i = 0; i < node.results.size(); ++i) text_ += (i ? ", " : " -> tensor ") + std::to_string(node.results[i]);
    text_ += "\n";
    for (size_t b = 0; b < node.bodies.size(); ++b) print(node, static_cast<uint32_t>(b));
  }

  void print(const Node& node, uint32_t number) {
    const Body& body = node.bodies[number];
    const BodyShape shape = shape_of(node, number);
    text_ += std::string("    ") + kBodyNames[static_cast<uint32_t>(node.kind)][number] + ":\n";
    for (uint32_t r = shape.first_read; r < shape.end_read; ++r) {
      const Read& read = node.reads[r];
      text_ += "      r" + std::to_string(r) + " = tensor " + std::to_string(read.tensor) + list("[", read.place, "]");
      if (!read.gathers.empty()) {
        text_ += ", where";
        for (size_t g = 0; g < read.gathers.size(); ++g) {
          text_ += (g ? ", i" : " i") + std::to_string(node.rank() + g) + " is r" + std::to_string(shape.first_read + read.gathers[g]);
        }
      }
      if (read.has_outside) {
        Scalar type = Scalar::kI64;
        scalar_of(kernel_.tensors[read.tensor].type, &type);
        text_ += ", outside " + bits_of(type, read.outside);
      }
      text_ += "\n";
    }
    // Indices are the dimensions, except of a place, which kWalk has behind them.
    const auto value = [&](uint32_t v) {
      if (v < shape.indices) return (v < node.rank() ? "i" : "place") + (v < node.rank() ? std::to_string(v) : std::string());
      const uint32_t reads = shape.end_read - shape.first_read;
      if (v < shape.indices + reads) return "r" + std::to_string(shape.first_read + v - shape.indices);
      const auto arguments = static_cast<uint32_t>(body.arguments.size());
      if (v < arguments) return "a" + std::to_string(v - shape.indices - reads);
      return "v" + std::to_string(v - arguments);
    };
    for (size_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& at = body.instructions[i];
      text_ += "      v" + std::to_string(i) + " = " + kOpNames[static_cast<uint32_t>(at.op)];
      if (at.op == Op::kConstant) text_ += " " + bits_of(at.type, at.value);
      if (at.op == Op::kExtent) text_ += " " + expression(static_cast<uint32_t>(at.value));
      if (at.op == Op::kCompareF || at.op == Op::kCompareI) text_ += std::string(" ") + kPredicateNames[at.value];
      const uint32_t operands[] = {at.a, at.b, at.c};
      for (uint32_t o = 0; o < operand_count(at.op); ++o) text_ += (o || has_value(at.op) ? ", " : " ") + value(operands[o]);
      text_ += std::string(": ") + kScalarNames[static_cast<uint32_t>(at.type)] + "\n";
    }
    text_ += "      yield";
    for (size_t i = 0; i < body.yields.size(); ++i) text_ += (i ? ", " : " ") + value(body.yields[i]);
    text_ += "\n";
  }

  const Kernel& kernel_;
  std::vector<std::string> expressions_;
  std::string long_expressions_, text_;
};

}  // namespace

std::string text_of(const Kernel& kernel) {
  return Printer(kernel).print();
}

std::string text_of(const Kernel& kernel, const Tensor& tensor) {
  return Printer(kernel).tensor(tensor);
}

}  // namespace heddle::sdk::portable
