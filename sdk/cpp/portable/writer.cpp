// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Portable code as bytes (code.h); reader.cpp has the same order.
#include <bit>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

namespace {

class Writer {
 public:
  std::string bytes;

  void number(uint64_t value) {
    while (value >= 0x80) {
      bytes.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    bytes.push_back(static_cast<char>(value));
  }
  void with_sign(int64_t value) { number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void text(std::string_view value) {
    number(value.size());
    bytes.append(value);
  }
  void numbers(const std::vector<uint32_t>& values) {
    number(values.size());
    for (uint32_t value : values) number(value);
  }

  void expression(const Expression& expression, uint32_t position) {
    number(expression.kind);
    if (expression.kind == Expression::kConstant) {
      with_sign(expression.value);
    } else if (expression.kind <= Expression::kSymbol) {
      number(static_cast<uint64_t>(expression.value));
    } else {
      number(position - expression.a);
      number(position - expression.b);
    }
  }

  void tensor(const Tensor& tensor) {
    number(tensor.type);
    numbers(tensor.extents);
  }

  void attribute(const Attribute& attribute) {
    text(attribute.name);
    number(attribute.value.index());
    Writer inner;
    std::visit([&inner](const auto& value) { inner.value(value); }, attribute.value);
    text(inner.bytes);
  }
  void op(const NamedOp& op) {
    Writer inner;
    inner.text(op.name);
    inner.number(op.version);
    inner.number(op.attributes.size());
    for (const Attribute& each : op.attributes) inner.attribute(each);
    inner.numbers(op.operands);
    inner.number(op.results.size());
    for (const Tensor& result : op.results) inner.tensor(result);
    text(inner.bytes);
  }
  void value(bool value) { number(value); }
  void value(int64_t value) { with_sign(value); }
  void value(double value) { number(std::bit_cast<uint64_t>(value)); }
  void value(const std::string& value) { text(value); }
  template <typename T>
  void value(const std::vector<T>& values) {
    number(values.size());
    for (T each : values) value(each);
  }

  void read(const Read& read) {
    number(read.tensor);
    numbers(read.place);
    number(read.has_outside);
    if (read.has_outside) number(read.outside);
    numbers(read.gathers);
  }

  void body(const Body& body) {
    number(body.instructions.size());
    for (const Instruction& instruction : body.instructions) {
      number(static_cast<uint64_t>(instruction.op));
      number(static_cast<uint64_t>(instruction.type));
      switch (operand_count(instruction.op)) {
        case 3:
          number(instruction.a);
          number(instruction.b);
          number(instruction.c);
          break;
        case 2:
          number(instruction.a);
          number(instruction.b);
          break;
        case 1:
          number(instruction.a);
          break;
        default:
          break;
      }
      if (has_value(instruction.op)) number(instruction.value);
    }
    numbers(body.yields);
  }

  void node(const Node& node) {
    number(static_cast<uint64_t>(node.kind));
    numbers(node.extents);
    number(node.reduced);
    number(node.within.size());
    for (const Within& within : node.within) {
      number(within.index);
      number(within.bound);
    }
    number(node.reads.size());
    for (const Read& each : node.reads) read(each);
    number(node.first_reads);
    number(node.second_reads);
    number(node.along);
    number((node.reverse ? 1 : 0) + (node.is_placed ? 2 : 0));
    number(static_cast<uint64_t>(node.accumulator));
    number(node.steps);
    for (const Body& each : node.bodies) body(each);
    numbers(node.results);
  }
};

}  // namespace

std::string write_kernel(const Kernel& kernel) {
  Writer writer;
  writer.number(kVersion);
  writer.number(kernel.symbols);
  writer.number(kernel.inputs);
  writer.number(kernel.outputs);
  writer.number(kernel.expressions.size());
  for (uint32_t i = 0; i < kernel.expressions.size(); ++i) writer.expression(kernel.expressions[i], i);
  writer.number(kernel.tensors.size());
  for (const Tensor& tensor : kernel.tensors) writer.tensor(tensor);
  writer.number(kernel.nodes.size());
  for (const Node& node : kernel.nodes) writer.node(node);
  if (!kernel.ops.empty() || !kernel.named_outputs.empty()) {
    Writer names;
    names.number(kernel.ops.size());
    for (const NamedOp& op : kernel.ops) names.op(op);
    names.numbers(kernel.named_outputs);
    writer.number(kNamesSection);
    writer.text(names.bytes);
  }
  return std::move(writer.bytes);
}

std::string write_image(const std::vector<std::pair<std::string_view, std::string_view>>& names_and_kernels) {
  Writer writer;
  writer.bytes = kMagic;
  writer.number(kVersion);
  writer.number(names_and_kernels.size());
  for (const auto& [name, kernel] : names_and_kernels) {
    writer.text(name);
    writer.text(kernel);
  }
  return std::move(writer.bytes);
}

}  // namespace heddle::sdk::portable
