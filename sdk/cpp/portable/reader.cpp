// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Portable code from bytes, which may be hostile: every count is compared with the bytes that are left before memory is taken for it.
#include <bit>
#include <set>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

namespace {

constexpr size_t kMostShown = 200;  // bytes of a text of the file that an error has

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  size_t at() const { return at_; }
  bool at_end() const { return at_ == bytes_.size(); }
  void fail() { failed_ = true; }

  uint64_t number() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) break;
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    failed_ = true;
    return 0;
  }
  int64_t with_sign() {
    const uint64_t value = number();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  // A number up to `most`.
  uint32_t small(uint64_t most) {
    const uint64_t value = number();
    if (value > most) failed_ = true;
    return failed_ ? 0 : static_cast<uint32_t>(value);
  }
  // Of things that take at least a byte each.
  uint32_t count(uint32_t most) {
    const uint32_t value = small(most);
    if (value > bytes_.size() - at_) failed_ = true;
    return failed_ ? 0 : value;
  }
  std::string_view text() {
    const uint64_t size = number();
    if (failed_ || size > bytes_.size() - at_) {
      failed_ = true;
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::vector<uint32_t> numbers(uint32_t most) {
    std::vector<uint32_t> values(count(most));
    for (uint32_t& value : values) value = small(UINT32_MAX);
    return values;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

Expression read_expression(Reader& reader, uint32_t position) {
  Expression expression = {static_cast<Expression::Kind>(reader.small(Expression::kMod))};
  if (expression.kind == Expression::kConstant) {
    expression.value = reader.with_sign();
  } else if (expression.kind <= Expression::kSymbol) {
    expression.value = reader.small(UINT32_MAX);
  } else {
    // A distance of 0, or one that is too long, becomes an index that verify() refuses.
    expression.a = position - reader.small(UINT32_MAX);
    expression.b = position - reader.small(UINT32_MAX);
  }
  return expression;
}

Tensor read_tensor(Reader& reader) {
  const uint32_t type = reader.small(UINT32_MAX);
  return {type, reader.numbers(HEDDLE_MAX_RANK)};
}

// Of a known type.
AttributeValue read_value(Reader& reader, AttributeType type) {
  switch (type) {
    case AttributeType::kBoolean:
      return reader.small(1) != 0;
    case AttributeType::kInteger:
      return reader.with_sign();
    case AttributeType::kFloat:
      return std::bit_cast<double>(reader.number());
    case AttributeType::kText:
      return std::string(reader.text());
    case AttributeType::kIntegers: {
      std::vector<int64_t> values(reader.count(UINT32_MAX));
      for (int64_t& value : values) value = reader.with_sign();
      return values;
    }
    case AttributeType::kFloats: {
      std::vector<double> values(reader.count(UINT32_MAX));
      for (double& value : values) value = std::bit_cast<double>(reader.number());
      return values;
    }
  }
  return false;
}

void read_names(Reader& reader, Kernel& kernel) {
  for (uint32_t i = reader.count(kMostTensors); i > 0 && !reader.failed(); --i) {
    Reader bytes(reader.text());
    NamedOp op;
    op.name = bytes.text();
    op.version = bytes.small(UINT32_MAX);
    for (uint32_t j = bytes.count(kMostTensors); j > 0 && !bytes.failed(); --j) {
      std::string name(bytes.text());
      const uint64_t type = bytes.number();
      Reader value(bytes.text());
      if (type > static_cast<uint64_t>(AttributeType::kFloats)) continue;
      op.attributes.push_back({std::move(name), read_value(value, static_cast<AttributeType>(type))});
      if (value.failed() || !value.at_end()) bytes.fail();
    }
    op.operands = bytes.numbers(kMostTensors);
    for (uint32_t j = bytes.count(kMostTensors); j > 0 && !bytes.failed(); --j) op.results.push_back(read_tensor(bytes));
    if (bytes.failed()) reader.fail();
    kernel.ops.push_back(std::move(op));
  }
  kernel.named_outputs = reader.numbers(kMostBindings);
}

Read read_read(Reader& reader) {
  Read read;
  read.tensor = reader.small(UINT32_MAX);
  read.place = reader.numbers(HEDDLE_MAX_RANK);
  read.has_outside = reader.small(1) != 0;
  if (read.has_outside) read.outside = reader.number();
  read.gathers = reader.numbers(HEDDLE_MAX_RANK);
  return read;
}

Body read_body(Reader& reader) {
  Body body;
  body.instructions.resize(reader.count(kMostInstructions));
  for (Instruction& instruction : body.instructions) {
    instruction.op = static_cast<Op>(reader.small(kOps - 1));
    instruction.type = static_cast<Scalar>(reader.small(kScalars - 1));
    const uint32_t operands = operand_count(instruction.op);
    if (operands > 0) instruction.a = reader.small(UINT32_MAX);
    if (operands > 1) instruction.b = reader.small(UINT32_MAX);
    if (operands > 2) instruction.c = reader.small(UINT32_MAX);
    if (has_value(instruction.op)) instruction.value = reader.number();
    if (reader.failed()) break;
  }
  body.yields = reader.numbers(kMostTensors);
  return body;
}

Node read_node(Reader& reader) {
  Node node;
  node.kind = static_cast<NodeKind>(reader.small(kNodeKinds - 1));
  node.extents = reader.numbers(kMostRank);
  node.reduced = reader.small(kMostRank);
  node.within.resize(reader.count(kMostRank));
  for (Within& within : node.within) within = {reader.small(UINT32_MAX), reader.small(UINT32_MAX)};
  for (uint32_t i = reader.count(kMostTensors); i > 0 && !reader.failed(); --i) node.reads.push_back(read_read(reader));
  node.first_reads = reader.small(kMostTensors);
  node.second_reads = reader.small(kMostTensors);
  node.along = reader.small(kMostRank);
  const uint32_t way = reader.small(3);
  node.reverse = (way & 1) != 0;
  node.is_placed = (way & 2) != 0;
  node.accumulator = static_cast<Scalar>(reader.small(kScalars - 1));
  node.steps = reader.number();
  for (uint32_t i = body_count(node.kind); i > 0 && !reader.failed(); --i) node.bodies.push_back(read_body(reader));
  node.results = reader.numbers(kMostTensors);
  return node;
}

void read_kernel(Reader& reader, Kernel& kernel) {
  kernel.symbols = reader.small(kMostSymbols);
  kernel.inputs = reader.small(kMostBindings);
  kernel.outputs = reader.small(kMostBindings);
  for (uint32_t count = reader.count(kMostExpressions), i = 0; i < count && !reader.failed(); ++i)
    kernel.expressions.push_back(read_expression(reader, i));
  for (uint32_t i = reader.count(kMostTensors); i > 0 && !reader.failed(); --i) kernel.tensors.push_back(read_tensor(reader));
  for (uint32_t i = reader.count(kMostTensors); i > 0 && !reader.failed(); --i) kernel.nodes.push_back(read_node(reader));
  for (uint64_t last = 0; !reader.at_end() && !reader.failed();) {
    const uint64_t section = reader.number();
    Reader bytes(reader.text());
    if (section <= last) reader.fail();
    last = section;
    if (section == kNamesSection) read_names(bytes, kernel);
    if (bytes.failed()) reader.fail();
  }
}

}  // namespace

bool read_image(std::string_view bytes, std::vector<Kernel>* out, std::string* out_error) {
  out->clear();
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    *out_error = "it is not portable code, which begins with 'HDLPORT'";
    return false;
  }
  Reader reader(bytes.substr(kMagic.size()));
  const uint64_t version = reader.number();
  if (!reader.failed() && version == 0) {
    *out_error = "it is portable code of version 0, which was not frozen; compile the model again";
    return false;
  }
  const std::string newer = "it is portable code of version " + std::to_string(version) + ", and this reader knows version " +
                            std::to_string(kVersion) + "; install a newer version of the plugin that reads it";
  std::set<std::string> names;
  std::vector<Kernel> kernels;
  for (uint32_t i = reader.count(UINT32_MAX); i > 0 && !reader.failed(); --i) {
    Kernel kernel;
    kernel.name = reader.text();
    const std::string_view text = reader.text();
    if (reader.failed()) break;
    Reader inner(text);
    const uint64_t needs = inner.number();
    if (version > kVersion && needs > kVersion) {
      *out_error = newer + " (kernel '" + kernel.name + "' needs version " + std::to_string(needs) + ", for " +
                   std::string(inner.text().substr(0, kMostShown)) + ")";
      return false;
    }
    if (needs == 0 || needs > kVersion) {
      inner.fail();
    } else {
      read_kernel(inner, kernel);
    }
    if (inner.failed() || !inner.at_end()) {
      *out_error = "kernel '" + kernel.name + "' is damaged at byte " + std::to_string(inner.at()) + " of " + std::to_string(text.size());
      return false;
    }
    if (!verify(&kernel, out_error)) {
      *out_error = "kernel '" + kernel.name + "': " + *out_error;
      return false;
    }
    if (!names.insert(kernel.name).second) {
      *out_error = "two kernels have the name '" + kernel.name + "'";
      return false;
    }
    kernels.push_back(std::move(kernel));
  }
  if (!reader.failed() && version > kVersion) {
    *out_error = newer;
    return false;
  }
  if (reader.failed() || !reader.at_end()) {
    *out_error = "it is damaged at byte " + std::to_string(kMagic.size() + reader.at()) + " of " + std::to_string(bytes.size());
    return false;
  }
  *out = std::move(kernels);
  return true;
}

}  // namespace heddle::sdk::portable
