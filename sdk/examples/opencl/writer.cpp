// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See writer.h. Each node becomes a function whose work-items take blocks of elements, neighbors along the last dimension, or whole lines of a scan or a
// scatter.
#include "writer.h"

#include <algorithm>
#include <map>
#include <set>

#include "instructions.h"

namespace opencl {

using portable::Body;
using portable::BodyShape;
using portable::Expression;
using portable::Kernel;
using portable::Node;
using portable::NodeKind;
using portable::Read;
using portable::Scalar;
using portable::Tensor;

namespace {

constexpr int64_t kLongEnough = 32;  // of a reduced dimension, for lanes

std::string text(int64_t number) {
  return number == INT64_MIN ? "LONG_MIN" : std::to_string(number) + "L";
}

bool is_unsigned(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_BOOL || type == HEDDLE_TYPE_U8 || type == HEDDLE_TYPE_U16 || type == HEDDLE_TYPE_U32;
}

Scalar scalar_of(const Tensor& tensor) {
  Scalar out = Scalar::kF32;
  portable::scalar_of(tensor.type, &out);  // a verified kernel has no other types
  return out;
}

class FunctionWriter {
 public:
  FunctionWriter(const Kernel& kernel, uint32_t node) : kernel_(kernel), node_(kernel.nodes[node]) {
    for (const Expression& e : kernel.expressions) {
      depends_.push_back(e.kind == Expression::kDimension || (e.kind > Expression::kSymbol && (depends_[e.a] || depends_[e.b])));
    }
  }

  // The whole function; with_sums: of a contraction whose sums are an argument.
  Function write(bool with_sums) {
    with_sums_ = with_sums;
    body();
    std::string head = "(";
    std::string pointers;
    for (uint32_t t : tensors_of(node_)) {
      const std::string n = std::to_string(t);
      head += "global uchar* restrict b" + n + ", ulong a" + n + ", ";
      pointers += "  global " + std::string(type_in_memory(scalar_of(kernel_.tensors[t]))) + "* t" + n + " = (global " +
                  type_in_memory(scalar_of(kernel_.tensors[t])) + "*)(b" + n + " + a" + n + ");\n";
    }
    if (with_sums) {
      head += "global uchar* restrict bsums, ulong asums, ";
      pointers += "  global const float* sums = (global const float*)(bsums + asums);\n";
    }
    for (uint32_t s = 0; s < kernel_.symbols; ++s) head += "long s" + std::to_string(s) + ", ";
    head.resize(head.size() - 2);
    return make_function(head + ") {\n" + pointers + known_ + out_ + "}\n");
  }

 private:
  using Names = std::vector<std::string>;
  // What was already named in a block of the text: expressions, and the values of a body.
  using Named = std::map<uint32_t, std::string>;

  void line(const std::string& words) { out_ += std::string(2 * depth_, ' ') + words + "\n"; }
  void begin(const std::string& words) {
    line(words + " {");
    ++depth_;
  }
  void end() {
    --depth_;
    line("}");
  }
  std::string fresh() { return "v" + std::to_string(next_++); }

  std::string of(const Expression& e, const std::string& a, const std::string& b) const {
    switch (e.kind) {
      case Expression::kAdd:
        return a + " + " + b;
      case Expression::kMul:
        return a + " * " + b;
      case Expression::kFloorDiv:
        return "floor_div(" + a + ", " + b + ")";
      case Expression::kCeilDiv:
        return "ceil_div(" + a + ", " + b + ")";
      default:
        return "modulo(" + a + ", " + b + ")";
    }
  }

  // The name of an expression's value. Those over symbols alone are at the beginning of the function.
  std::string value(uint32_t i, Named& named) {
    const Expression& e = kernel_.expressions[i];
    if (e.kind == Expression::kConstant) return text(e.value);
    if (e.kind == Expression::kSymbol) return "s" + std::to_string(e.value);
    if (e.kind == Expression::kDimension) return "d" + std::to_string(e.value);
    Named& known = depends_[i] ? named : known_names_;
    if (const auto found = known.find(i); found != known.end()) return found->second;
    const std::string a = value(e.a, named), b = value(e.b, named), name = fresh();
    if (depends_[i]) {
      line("const long " + name + " = " + of(e, a, b) + ";");
    } else {
      known_ += "  const long " + name + " = " + of(e, a, b) + ";\n";
    }
    return known[i] = name;
  }
  std::string extent(size_t d) {
    Named none;
    return value(node_.extents[d], none);
  }

  // The value of read `i` of a body, which has the index variables d0, d1, ... of its domain.
  std::string read(uint32_t i, const BodyShape& shape, Named& expressions, Named& reads) {
    if (const auto found = reads.find(i); found != reads.end()) return found->second;
    const Read& access = node_.reads[i];
    const Tensor& tensor = kernel_.tensors[access.tensor];
    const Scalar scalar = scalar_of(tensor);
    std::string offset = "0", inside, count;
    Named none;
    bool may_be_empty = false;
    for (size_t d = 0; d < access.place.size(); ++d) {
      const Expression& e = kernel_.expressions[access.place[d]];
      const std::string size = value(tensor.extents[d], none);
      const Expression& extent = kernel_.expressions[tensor.extents[d]];
      may_be_empty |= extent.kind != Expression::kConstant || extent.value == 0;
      std::string place;
      if (e.kind == Expression::kDimension && e.value >= shape.indices) {
        const uint32_t gathered = shape.first_read + access.gathers[static_cast<size_t>(e.value - shape.indices)];
        const Tensor& of = kernel_.tensors[node_.reads[gathered].tensor];
        const std::string element = read(gathered, shape, expressions, reads);
        place = fresh();
        const std::string wide =
            is_unsigned(of.type) ? "(long)" + element : "(long)(" + std::string(signed_type(scalar_of(of))) + ")" + element;
        line("const long " + place + " = gathered(" + wide + ", " + size + ");");
      } else {
        place = value(access.place[d], expressions);
        if (access.has_outside) inside += (inside.empty() ? "" : " && ") + place + " >= 0 && " + place + " < " + size;
      }
      offset = d == 0 ? place : "(" + offset + ") * " + size + " + " + place;
      count += (d == 0 ? "" : " * ") + size;
    }
    std::string condition = may_be_empty ? count + " != 0" : "", element = "t" + std::to_string(access.tensor) + "[" + offset + "]";
    if (scalar == Scalar::kI1) element = "(uchar)(" + element + " != 0)";
    if (!inside.empty()) element = "(" + inside + " ? " + element + " : " + constant(scalar, access.outside) + ")";
    if (!condition.empty() && !access.has_outside) element = condition + " ? " + element + " : " + constant(scalar, 0);
    const std::string name = fresh();
    line("const " + std::string(type_of(scalar)) + " " + name + " = " + element + ";");
    return reads[i] = name;
  }

  // What a body yields; `more` are its arguments after the reads.
  Names evaluate(uint32_t index, const Names& more) {
    const Body& body = node_.bodies[index];
    const BodyShape shape = portable::shape_of(node_, index);
    Named expressions, reads;
    Names values;
    const uint32_t first_more = shape.indices + shape.end_read - shape.first_read;
    std::vector<Scalar> types = body.arguments;
    auto argument = [&](uint32_t v) {
      if (v < shape.indices) return "((ulong)d" + std::to_string(v) + ")";
      if (v < first_more) return read(shape.first_read + v - shape.indices, shape, expressions, reads);
      return v < body.arguments.size() ? more[v - first_more] : values[v - body.arguments.size()];
    };
    for (const portable::Instruction& at : body.instructions) {
      std::string result;
      if (at.op == portable::Op::kExtent) {
        result = "(ulong)" + value(static_cast<uint32_t>(at.value), expressions);
      } else if (at.op == portable::Op::kConstant) {
        result = constant(at.type, at.value);
      } else {
        const uint32_t operands[3] = {at.a, at.b, at.c};
        std::string of[3];
        for (uint32_t i = 0; i < portable::operand_count(at.op); ++i) of[i] = argument(operands[i]);
        result = instruction(at, types[at.a], of[0], of[1], of[2]);
      }
      const std::string name = fresh();
      line("const " + std::string(type_of(at.type)) + " " + name + " = " + result + ";");
      values.push_back(name);
      types.push_back(at.type);
    }
    Names out;
    for (uint32_t v : body.yields) out.push_back(argument(v));
    return out;
  }
  std::vector<Scalar> yielded(uint32_t index) const {
    const Body& body = node_.bodies[index];
    std::vector<Scalar> types = body.arguments, out;
    for (const portable::Instruction& at : body.instructions) types.push_back(at.type);
    for (uint32_t v : body.yields) out.push_back(types[v]);
    return out;
  }

  std::string offset_in_results() {
    std::string out = "0";
    for (uint32_t d = 0; d < node_.parallel_rank(); ++d) {
      out = d == 0 ? "d0" : "(" + out + ") * " + extent(d) + " + d" + std::to_string(d);
    }
    return out;
  }
  void store(const Names& values) {
    for (size_t i = 0; i < node_.results.size(); ++i)
      line("t" + std::to_string(node_.results[i]) + "[" + offset_in_results() + "] = " + values[i] + ";");
  }
  // Variables, with the values that a body yields.
  Names variables(uint32_t index, const Names& values) {
    const std::vector<Scalar> types = yielded(index);
    Names out;
    for (size_t i = 0; i < types.size(); ++i) {
      out.push_back(fresh());
      line(std::string(type_of(types[i])) + " " + out.back() + " = " + values[i] + ";");
    }
    return out;
  }
  void assign(const Names& to, const Names& values) {
    for (size_t i = 0; i < to.size(); ++i) line(to[i] + " = " + values[i] + ";");
  }

  // Loops over the parallel dimensions but `except`, whose work the work-items share.
  template <typename Function>
  void for_each_element(int32_t except, Function function) {
    std::vector<uint32_t> dims;
    for (uint32_t d = 0; d < node_.parallel_rank(); ++d) {
      if (static_cast<int32_t>(d) != except) dims.push_back(d);
    }
    if (dims.empty()) {
      begin("if (get_global_id(0) == 0)");
      function();
      return end();
    }
    const uint32_t last = dims.back();
    dims.pop_back();
    std::string lines = "1L";
    for (uint32_t d : dims) lines += " * " + extent(d);
    line("const long parts = ceil_div(" + extent(last) + ", BLOCK), blocks = " + lines + " * parts;");
    begin("for (long block = get_global_id(0); block < blocks; block += get_global_size(0))");
    line("long rest = block / parts;");
    for (size_t i = dims.size(); i-- > 0;) {
      const std::string d = "d" + std::to_string(dims[i]), size = extent(dims[i]);
      line("const long " + d + " = " + (i == 0 ? "rest" : "rest % " + size) + ";" + (i == 0 ? "" : " rest /= " + size + ";"));
    }
    const std::string d = "d" + std::to_string(last);
    line("const long first = block % parts * BLOCK, end = min(first + BLOCK, " + extent(last) + ");");
    begin("for (long " + d + " = first; " + d + " < end; ++" + d + ")");
    function();
    end();
    end();
  }
  // Loops over the reduced dimensions up to `end`; over all of them, only where all bounds hold.
  template <typename Function>
  void for_each_reduced(uint32_t end_dim, Function function) {
    for (uint32_t d = node_.parallel_rank(); d < end_dim; ++d) {
      const std::string name = "d" + std::to_string(d);
      begin("for (long " + name + " = 0; " + name + " < " + extent(d) + "; ++" + name + ")");
    }
    if (end_dim == node_.rank()) skip_outside();
    function();
    for (uint32_t d = node_.parallel_rank(); d < end_dim; ++d) end();
  }
  void skip_outside() {
    Named expressions;
    for (const portable::Within& within : node_.within) {
      const std::string index = value(within.index, expressions), bound = value(within.bound, expressions);
      line("if (" + index + " < 0 || " + index + " >= " + bound + ") continue;");
    }
  }

  // Whether the last reduced dimension is worth accumulators for several of its indices: they do not wait for each other.
  bool has_lanes() const {
    if (node_.reduced == 0) return false;
    const Expression& last = kernel_.expressions[node_.extents.back()];
    return last.kind != Expression::kConstant || last.value >= kLongEnough;
  }
  void fold_in_lanes(const Names& sums) {
    const std::vector<Scalar> types = yielded(0);
    const uint32_t last = node_.rank() - 1;
    const std::string d = "d" + std::to_string(last);
    Names lanes, each;
    for (size_t i = 0; i < sums.size(); ++i) {
      lanes.push_back(fresh());
      each.push_back(lanes.back() + "[l]");
      line(std::string(type_of(types[i])) + " " + lanes.back() + "[LANES];");
    }
    begin("for (int l = 0; l < LANES; ++l)");
    assign(each, sums);
    end();
    for_each_reduced(last, [&] {
      line("const long whole = " + extent(last) + " / LANES * LANES;");
      begin("for (long begin = 0; begin < whole; begin += LANES)");
      begin("for (int l = 0; l < LANES; ++l)");
      line("const long " + d + " = begin + l;");
      skip_outside();
      assign(each, variables(1, evaluate(1, each)));
      end();
      end();
      begin("for (long " + d + " = whole; " + d + " < " + extent(last) + "; ++" + d + ")");
      skip_outside();
      assign(sums, variables(1, evaluate(1, sums)));
      end();
    });
    begin("for (int l = 0; l < LANES; ++l)");
    Names both = sums;
    both.insert(both.end(), each.begin(), each.end());
    assign(sums, variables(2, evaluate(2, both)));
    end();
  }

  void body() {
    switch (node_.kind) {
      case NodeKind::kMap:
        return for_each_element(-1, [&] { store(evaluate(0, {})); });
      case NodeKind::kFold:
        return for_each_element(-1, [&] {
          const Names sums = variables(0, evaluate(0, {}));
          if (has_lanes()) {
            fold_in_lanes(sums);
          } else {
            for_each_reduced(node_.rank(), [&] { assign(sums, variables(1, evaluate(1, sums))); });
          }
          store(evaluate(3, sums));
        });
      case NodeKind::kContract:
        return for_each_element(-1, [&] {
          if (with_sums_) return store(evaluate(1, {"sums[" + offset_in_results() + "]"}));
          const std::string sum = fresh(), type = type_of(node_.accumulator);
          line(type + " " + sum + " = 0;");
          for_each_reduced(node_.rank(), [&] {
            const Names factors = evaluate(0, {});
            line(sum + " += (" + type + ")(" + factors[0] + " * " + factors[1] + ");");
          });
          store(evaluate(1, {sum}));
        });
      case NodeKind::kScan:
        return for_each_element(static_cast<int32_t>(node_.along), [&] {
          const std::string d = "d" + std::to_string(node_.along), size = extent(node_.along);
          const Names sums = variables(0, evaluate(0, {}));
          begin("for (long i = 0; i < " + size + "; ++i)");
          line("const long " + d + " = " + (node_.reverse ? size + " - 1 - i" : "i") + ";");
          const Names before = variables(0, sums);
          assign(sums, variables(1, evaluate(1, sums)));
          Names both = before;
          both.insert(both.end(), sums.begin(), sums.end());
          store(evaluate(2, both));
          end();
        });
      case NodeKind::kScatter:
        return for_each_element(static_cast<int32_t>(node_.along), [&] { scatter(); });
      default:
        return;
    }
  }

  void scatter() {
    const std::string d = "d" + std::to_string(node_.along), size = extent(node_.along);
    begin("for (long " + d + " = 0; " + d + " < " + size + "; ++" + d + ")");
    store(evaluate(2, {}));
    end();
    line("long " + d + " = 0;");
    for_each_reduced(node_.rank(), [&] {
      line(d + " = 0;");
      const std::string place = fresh();
      line("const long " + place + " = (long)" + evaluate(0, {})[0] + ";");
      begin("if (" + place + " >= 0 && " + place + " < " + size + ")");
      const std::string at = fresh();
      line("const long " + at + " = " + place_in_line(place) + ";");
      Names elements;
      for (uint32_t result : node_.results) {
        elements.push_back(fresh());
        line("const " + std::string(type_of(scalar_of(kernel_.tensors[result]))) + " " + elements.back() + " = t" + std::to_string(result) +
             "[" + at + "];");
      }
      const Names values = variables(1, evaluate(1, elements));
      for (size_t i = 0; i < node_.results.size(); ++i) line("t" + std::to_string(node_.results[i]) + "[" + at + "] = " + values[i] + ";");
      end();
    });
  }
  std::string place_in_line(const std::string& place) {
    std::string out;
    for (uint32_t d = 0; d < node_.parallel_rank(); ++d) {
      const std::string index = d == node_.along ? place : "d" + std::to_string(d);
      out = d == 0 ? index : "(" + out + ") * " + extent(d) + " + " + index;
    }
    return out;
  }

  const Kernel& kernel_;
  const Node& node_;
  std::vector<bool> depends_;  // of each expression, whether it depends on a dimension
  bool with_sums_ = false;
  std::string known_, out_;
  Named known_names_;
  size_t depth_ = 1, next_ = 0;
};

bool uses_f64(const Kernel& kernel, const Node& node) {
  bool found = node.accumulator == Scalar::kF64;
  for (uint32_t tensor : tensors_of(node)) found |= kernel.tensors[tensor].type == HEDDLE_TYPE_F64;
  for (const Body& body : node.bodies) {
    for (const portable::Instruction& at : body.instructions) found |= at.type == Scalar::kF64;
  }
  return found;
}

}  // namespace

std::string why_not_written(const Kernel& kernel, uint32_t node, bool has_f64) {
  switch (kernel.nodes[node].kind) {
    case NodeKind::kSort:
    case NodeKind::kSieve:
    case NodeKind::kWalk:
      return "there is no OpenCL C for a " + portable::describe_node(kernel, node);
    default:
      break;
  }
  if (kernel.nodes[node].is_placed) return "there is no OpenCL C for a scan whose reads depend on its accumulators";
  if (!has_f64 && uses_f64(kernel, kernel.nodes[node])) return "the device has no f64";
  // An argument has 8 bytes, and a device need not take more than 1,024 bytes of them.
  const size_t arguments = 2 * tensors_of(kernel.nodes[node]).size() + 2 + kernel.symbols;
  return arguments > 128 ? "its function would have " + std::to_string(arguments) + " arguments, and OpenCL takes 128" : "";
}

std::string why_not_written(const Kernel& kernel, bool has_f64) {
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) {
    if (std::string why = why_not_written(kernel, i, has_f64); !why.empty()) return why;
  }
  return {};
}

bool is_product(const Kernel& kernel, uint32_t node) {
  portable::ProductForm form;
  std::string reason;
  return portable::find_product(kernel, node, nullptr, &form, &reason) && form.left_type == Scalar::kF32 &&
         form.right_type == Scalar::kF32 && form.accumulator == Scalar::kF32;
}

bool is_plain(const Kernel& kernel, uint32_t index) {
  const Node& node = kernel.nodes[index];
  const Body& finish = node.bodies[1];
  return node.results.size() == 1 && kernel.tensors[node.results[0]].type == HEDDLE_TYPE_F32 &&
         finish.yields[0] == finish.arguments.size() - 1;
}

std::vector<uint32_t> tensors_of(const Node& node) {
  std::set<uint32_t> out(node.results.begin(), node.results.end());
  for (const Read& read : node.reads) out.insert(read.tensor);
  return {out.begin(), out.end()};
}

size_t function_count(const Kernel& kernel) {
  size_t count = kernel.nodes.size();
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) count += is_product(kernel, i) && !is_plain(kernel, i);
  return count;
}

std::vector<Function> write_functions(const Kernel& kernel) {
  std::vector<Function> out;
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) {
    out.push_back(FunctionWriter(kernel, i).write(false));
    if (is_product(kernel, i) && !is_plain(kernel, i)) out.push_back(FunctionWriter(kernel, i).write(true));
  }
  return out;
}

}  // namespace opencl
