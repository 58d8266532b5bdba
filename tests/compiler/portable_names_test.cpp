// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of ops beside portable code, as the compiler writes both, against check_names: they agree; and what changes a name, an attribute, an
// operand or a node is found. Whether a changed node computes something else is what the interpreter says.
#include "heddle/sdk/portable/names.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "compiler/ir/tx.h"
#include "compiler/stage/stage.h"
#include "compiler/targets/portable/encode.h"
#include "heddle/sdk/portable/interpreter.h"
#include "heddle/sdk/portable/ops.h"
#include "heddle/sdk/portable/text.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "tests/compiler/portable_names_cases.h"

namespace heddle::tests {
namespace {

namespace portable = sdk::portable;
using portable::Kernel;
using portable::NameCheck;

std::string joined(const std::vector<std::string>& types, const std::string& before) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i)
    text += (i ? ", " : "") + (before.empty() ? "" : before + std::to_string(i) + ": ") + "tensor<" + types[i] + ">";
  return text;
}

class PortableNames : public ::testing::Test {
 protected:
  Kernel kernel_of(const Case& of) {
    mlir::DialectRegistry registry;
    registry.insert<tx::TxDialect, stage::StageDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect, mlir::math::MathDialect>();
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    std::string inputs, arguments;
    for (size_t i = 0; i < of.operands.size(); ++i) {
      inputs += (i ? ", %a" : "%a") + std::to_string(i);
      arguments += (i ? ", %" : "%") + std::to_string(i) + ": tensor<" + of.operands[i] + ">";
    }
    const std::string types = joined(of.operands, ""), result = "tensor<" + of.result + ">";
    const std::string text = "func.func @main(" + joined(of.operands, "%a") +
                             ") attributes {tx.symbols = []} {\n  %r = tx.dispatch \"kernel\"(" + inputs + ") : (" + types + ") -> (" +
                             result + ") {\n  ^bb0(" + arguments + "):\n" + of.body + "\n  tx.yield %x : " + result + "\n  }\n  return\n}";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(static_cast<bool>(module)) << text;
    Kernel kernel;
    if (!module) return kernel;
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    auto region = *function.getOps<tx::DispatchOp>().begin();
    std::string reason;
    auto staged = targets::stages_of(region, reason);
    EXPECT_TRUE(mlir::succeeded(staged)) << reason;
    if (mlir::failed(staged)) return kernel;
    auto stages = *staged->module->getOps<mlir::func::FuncOp>().begin();
    stages->setAttr(targets::named_ops_attr, targets::named_ops_of(region));
    EXPECT_TRUE(targets::encode(stages, kernel, reason)) << reason;
    // As a driver reads it.
    std::vector<Kernel> read;
    const std::string bytes = portable::write_kernel(kernel);
    EXPECT_TRUE(portable::read_image(portable::write_image({{"kernel", bytes}}), &read, &reason)) << reason;
    return read.empty() ? kernel : read[0];
  }
};

// Of each name, the worst verdict; `op` is it where it is kDisagrees.
NameCheck::Verdict worst(const Kernel& kernel, std::string* out_text) {
  NameCheck::Verdict verdict = NameCheck::kAgrees;
  for (const NameCheck& check : portable::check_names(kernel, {})) {
    verdict = std::max(verdict, check.verdict);
    *out_text += kernel.ops[check.op].name + ": " + portable::name_of(check.verdict) + " " + check.reason + "\n";
  }
  return verdict;
}

bool is_valid(Kernel* kernel) {
  std::string error;
  return portable::verify(kernel, &error);
}

// The bytes of the results for inputs that a number determines; empty if the kernel fails.
std::string run(const Kernel& kernel, uint32_t seed) {
  const portable::Program program{Kernel(kernel)};
  std::vector<uint64_t> bytes;
  std::string error;
  if (!program.binding_bytes(nullptr, 0, &bytes, &error)) return {};
  std::vector<std::string> memory;
  std::vector<portable::Memory> bindings;
  for (size_t i = 0; i < bytes.size(); ++i) {
    memory.emplace_back(bytes[i], '\0');
    portable::Scalar type;
    portable::scalar_of(kernel.tensors[i].type, &type);
    const uint32_t size = portable::bytes_of(type);
    for (uint64_t e = 0; i < kernel.inputs && e < bytes[i] / size; ++e) {
      seed = seed * 1664525u + 1013904223u;
      const int value = static_cast<int>(seed >> 16) % 9 - 3;
      const float real = static_cast<float>(value) + (seed >> 28) / 16.0f;
      const double twice = static_cast<double>(real);
      char* at = memory.back().data() + e * size;
      if (type == portable::Scalar::kF32) std::memcpy(at, &real, size);
      if (type == portable::Scalar::kF64) std::memcpy(at, &twice, size);
      if (type == portable::Scalar::kF16 || type == portable::Scalar::kBf16)
        std::memcpy(at, std::array<uint8_t, 2>{0, static_cast<uint8_t>(0x3C + value)}.data(), size);
      const int64_t integer = type == portable::Scalar::kI1 ? value & 1 : value;
      if (!portable::is_float(type)) std::memcpy(at, &integer, size);
    }
  }
  for (std::string& each : memory) bindings.push_back({each.data(), each.size()});
  if (!program.run(bindings, nullptr, 0, &error, {uint64_t{1} << 24, uint64_t{1} << 24})) return {};
  std::string results;
  for (size_t i = kernel.inputs; i < memory.size(); ++i) results += memory[i];
  return results;
}

// Whether results are the same but for rounding.
bool is_close(const Kernel& kernel, const std::string& a, const std::string& b) {
  if (kernel.tensors[kernel.inputs].type != HEDDLE_TYPE_F32) return a == b;
  for (size_t i = 0; i + 4 <= a.size() && i + 4 <= b.size(); i += 4) {
    float x, y;
    std::memcpy(&x, a.data() + i, 4);
    std::memcpy(&y, b.data() + i, 4);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (!(x == y || std::fabs(x - y) <= 1e-3f * std::max(std::fabs(x), std::fabs(y)))) return false;
  }
  return a.size() == b.size();
}

std::vector<portable::AttributeValue> others(const portable::NamedOp& op, const portable::Attribute& attribute) {
  std::vector<portable::AttributeValue> values;
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    for (int64_t by : {-1, 1, 2}) values.emplace_back(*integer + by);
  } else if (const auto* real = std::get_if<double>(&attribute.value)) {
    values = {*real + 1, *real * 1.001 + 0.001};
  } else if (const auto* flag = std::get_if<bool>(&attribute.value)) {
    values = {!*flag};
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    for (size_t i = 0; i < list->size(); ++i) {
      for (int64_t by : {-1, 1}) {
        auto changed = *list;
        changed[i] += by;
        values.emplace_back(changed);
      }
    }
    if (list->size() > 1) {
      auto changed = *list;
      std::rotate(changed.begin(), changed.begin() + 1, changed.end());
      if (changed != *list) values.emplace_back(changed);
      changed.pop_back();
      values.emplace_back(changed);
    }
  } else {
    static const std::map<std::string, std::vector<std::string>> kKinds = {{"compare", {"eq", "ne", "lt", "le", "gt", "ge"}},
                                                                           {"pool", {"max", "average"}},
                                                                           {"arg_reduce", {"max", "min"}},
                                                                           {"reduce", {"sum", "mean", "max", "min", "prod"}},
                                                                           {"scatter", {"sum", "max", "min", "prod"}},
                                                                           {"trees", {"sum", "max", "min"}}};
    if (attribute.name == "kind") {
      for (const std::string& kind : kKinds.at(op.name)) values.emplace_back(kind);
    } else if (attribute.name == "format") {
      for (const char* format : {"f8e4m3", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1"}) values.emplace_back(format);
    }
    values.emplace_back("other");
    std::erase(values, attribute.value);
  }
  return values;
}

TEST_F(PortableNames, AgreeWithWhatTheCompilerWritesBesideThem) {
  for (const Case& each : cases()) {
    const Kernel kernel = kernel_of(each);
    std::string verdicts;
    EXPECT_EQ(worst(kernel, &verdicts), NameCheck::kAgrees) << verdicts << portable::text_of(kernel);
    for (const NameCheck& check : portable::check_names(kernel, {})) {
      if (check.node != UINT32_MAX) {
        EXPECT_LT(check.node, kernel.nodes.size());
      }
    }
  }
}

// What a changed name computes is not known here: it must not agree, and one that means the same for these types and extents is told by hand.
TEST_F(PortableNames, WithOtherAttributesDisagree) {
  size_t changed = 0, same = 0, disagree = 0;
  for (const Case& each : cases()) {
    const Kernel right = kernel_of(each);
    for (size_t op = 0; op < right.ops.size(); ++op) {
      std::vector<portable::Attribute> attributes = right.ops[op].attributes;
      // Booleans that are absent are false.
      for (const portable::OpAttribute& known : portable::known_op(right.ops[op].name)->attributes()) {
        if (known.type != portable::AttributeType::kBoolean) continue;
        if (std::none_of(attributes.begin(), attributes.end(), [&](const auto& one) { return one.name == known.name; }))
          attributes.push_back({known.name, false});
      }
      std::sort(attributes.begin(), attributes.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
      for (size_t a = 0; a < attributes.size(); ++a) {
        for (const portable::AttributeValue& value : others(right.ops[op], attributes[a])) {
          Kernel kernel = right;
          kernel.ops[op].attributes = attributes;
          kernel.ops[op].attributes[a].value = value;
          ASSERT_TRUE(is_valid(&kernel));
          ++changed;
          std::string verdicts;
          const NameCheck::Verdict verdict = worst(kernel, &verdicts);
          const std::string name = right.ops[op].name + "." + attributes[a].name;
          // Pads that no window reaches, a maximum without a count, an extent of 1, a format without infinity, tokens of one character.
          static const std::set<std::string> kMayBeTheSame = {"conv.pads_high",       "pool.pads_high",         "pool.include_pad",
                                                              "broadcast.dimensions", "narrow_encode.saturate", "ngrams.least"};
          if (verdict == NameCheck::kAgrees && kMayBeTheSame.contains(name)) {
            ++same;
            continue;
          }
          EXPECT_NE(verdict, NameCheck::kAgrees) << name << "\n" << verdicts << portable::text_of(kernel);
          disagree += verdict == NameCheck::kDisagrees;
          // Made-up tables of n-grams and trees lead somewhere seldom; of blocks there may be other types.
          if (right.ops[op].name == "ngrams" || right.ops[op].name == "trees" || attributes[a].name == "blocks") continue;
          EXPECT_EQ(verdict, NameCheck::kDisagrees) << name << "\n" << verdicts << portable::text_of(kernel);
        }
      }
    }
  }
  std::printf("%zu changed attributes: %zu disagree, %zu mean the same\n", changed, disagree, same);
  EXPECT_GT(changed, 300u);
  EXPECT_LT(same, changed / 10);
  EXPECT_GT(disagree, changed * 9 / 10);
}

TEST_F(PortableNames, WithOtherOperandsDisagree) {
  size_t changed = 0;
  for (const Case& each : cases()) {
    const Kernel right = kernel_of(each);
    std::vector<portable::Tensor> values(right.tensors.begin(), right.tensors.begin() + right.inputs);
    for (const portable::NamedOp& op : right.ops) values.push_back(op.results[0]);
    auto shape = [&](uint32_t value) {
      std::vector<int64_t> extents = {static_cast<int64_t>(values[value].type)};
      for (uint32_t extent : values[value].extents) extents.push_back(right.expressions[extent].value);
      return extents;
    };
    for (size_t op = 0; op < right.ops.size(); ++op) {
      for (size_t i = 0; i < right.ops[op].operands.size(); ++i) {
        for (uint32_t other = 0; other < right.inputs + op; ++other) {
          Kernel kernel = right;
          uint32_t& operand = kernel.ops[op].operands[i];
          if (other == operand || shape(other) != shape(operand)) continue;
          operand = other;
          ASSERT_TRUE(is_valid(&kernel));
          ++changed;
          std::string verdicts;
          EXPECT_EQ(worst(kernel, &verdicts), NameCheck::kDisagrees) << "op " << op << " operand " << i << "\n"
                                                                     << verdicts << portable::text_of(kernel);
        }
      }
      Kernel kernel = right;
      kernel.ops[op].operands.push_back(0);
      std::string verdicts;
      EXPECT_NE(worst(kernel, &verdicts), NameCheck::kAgrees) << verdicts << portable::text_of(kernel);
      if (right.ops[op].operands.empty()) continue;
      kernel = right;
      kernel.ops[op].operands.pop_back();
      EXPECT_NE(worst(kernel, &verdicts), NameCheck::kAgrees) << verdicts << portable::text_of(kernel);
    }
  }
  std::printf("%zu changed operands\n", changed);
  EXPECT_GT(changed, 80u);
}

// Another name with the same attributes, which is refused if it has others.
TEST_F(PortableNames, OfOtherOpsDisagree) {
  size_t changed = 0, disagree = 0;
  for (const Case& each : cases()) {
    const Kernel right = kernel_of(each);
    for (size_t op = 0; op < right.ops.size(); ++op) {
      for (const portable::KnownOp& known : portable::known_ops()) {
        Kernel kernel = right;
        if (known.name == right.ops[op].name) continue;
        kernel.ops[op].name = known.name;
        ASSERT_TRUE(is_valid(&kernel));
        std::string reason, verdicts;
        if (!portable::is_as_known(kernel.ops[op], &reason)) continue;
        ++changed;
        const NameCheck::Verdict verdict = worst(kernel, &verdicts);
        // They are the same op on such values, as a cast of a type to itself is a reshape to the same extents.
        EXPECT_NE(verdict, NameCheck::kTested) << verdicts << portable::text_of(kernel);
        disagree += verdict == NameCheck::kDisagrees;
        EXPECT_NE(verdict, NameCheck::kAgrees) << right.ops[op].name << " as " << known.name << "\n"
                                               << verdicts << portable::text_of(kernel);
      }
      Kernel kernel = right;
      kernel.ops[op].name = "gelu";
      std::string verdicts;
      EXPECT_EQ(worst(kernel, &verdicts), NameCheck::kUnknown) << verdicts;
      kernel = right;
      ++kernel.ops[op].version;
      EXPECT_EQ(worst(kernel, &verdicts), NameCheck::kUnknown) << verdicts;
    }
  }
  std::printf("%zu changed names: %zu disagree\n", changed, disagree);
  EXPECT_GT(disagree, changed * 9 / 10);
  EXPECT_GT(changed, 1000u);
}

// Nodes that compute something else are found; those that compute the same need not be.
TEST_F(PortableNames, DisagreeWithOtherNodes) {
  size_t changed = 0, found = 0;
  for (const Case& each : cases()) {
    const Kernel right = kernel_of(each);
    const std::string expected[] = {run(right, 1), run(right, 2)};
    auto check = [&](Kernel kernel, const std::string& what) {
      if (!is_valid(&kernel)) return;
      bool is_same = true;
      for (uint32_t i = 0; i < 2; ++i) {
        const std::string got = run(kernel, i + 1);
        if (got.empty()) return;
        is_same &= is_close(right, expected[i], got);
      }
      if (is_same) return;
      ++changed;
      std::string verdicts;
      const NameCheck::Verdict verdict = worst(kernel, &verdicts);
      found += verdict == NameCheck::kDisagrees;
      EXPECT_NE(verdict, NameCheck::kAgrees) << what << "\n" << verdicts << portable::text_of(kernel);
    };
    for (size_t e = 0; e < right.expressions.size(); ++e) {
      Kernel kernel = right;
      portable::Expression& expression = kernel.expressions[e];
      if (expression.kind > portable::Expression::kDimension) continue;
      const bool is_extent = [&] {
        for (const portable::Tensor& tensor : right.tensors)
          if (std::count(tensor.extents.begin(), tensor.extents.end(), e)) return true;
        return false;
      }();
      if (is_extent) continue;
      for (int64_t by : {1, -1}) {
        expression.value = right.expressions[e].value + by;
        check(kernel, "expression " + std::to_string(e));
      }
    }
    for (size_t n = 0; n < right.nodes.size(); ++n) {
      for (size_t b = 0; b < right.nodes[n].bodies.size(); ++b) {
        for (size_t i = 0; i < right.nodes[n].bodies[b].instructions.size(); ++i) {
          const portable::Instruction& at = right.nodes[n].bodies[b].instructions[i];
          auto with = [&](portable::Instruction changed_to, const char* what) {
            Kernel kernel = right;
            kernel.nodes[n].bodies[b].instructions[i] = changed_to;
            check(kernel, what);
          };
          portable::Instruction other = at;
          for (int by : {1, -1}) {
            other.op = static_cast<portable::Op>(static_cast<int>(at.op) + by);
            with(other, "another instruction");
          }
          other = at;
          std::swap(other.a, other.b);
          with(other, "operands in another order");
          other = at;
          other.value ^= 1;
          with(other, "another value");
          other = at;
          other.value ^= uint64_t{1} << (portable::is_float(at.type) ? 22 : 2);
          with(other, "another value");
        }
      }
      for (size_t w = 0; w < right.nodes[n].within.size(); ++w) {
        Kernel kernel = right;
        kernel.nodes[n].within.erase(kernel.nodes[n].within.begin() + static_cast<std::ptrdiff_t>(w));
        for (portable::Read& read : kernel.nodes[n].reads) read.has_outside = true;
        check(kernel, "without a bound");
      }
      for (size_t r = 0; r < right.nodes[n].reads.size(); ++r) {
        for (uint32_t tensor = 0; tensor < right.inputs; ++tensor) {
          Kernel kernel = right;
          kernel.nodes[n].reads[r].tensor = tensor;
          check(kernel, "another tensor");
        }
        Kernel kernel = right;
        if (kernel.nodes[n].reads[r].place.size() < 2) continue;
        std::swap(kernel.nodes[n].reads[r].place[0], kernel.nodes[n].reads[r].place[1]);
        check(kernel, "another place");
      }
      Kernel kernel = right;
      kernel.nodes[n].reverse = !kernel.nodes[n].reverse;
      check(kernel, "another direction");
    }
  }
  std::printf("%zu kernels that compute something else: %zu disagree, none agrees\n", changed, found);
  EXPECT_GT(changed, 500u);
  // The others differ for few inputs only, such as the constant of a rectifier by the smallest float.
  EXPECT_GT(found, changed * 97 / 100);
}

// A value that nodes replace for inputs that are hardly ever met is in the nodes, and is not what they compute.
TEST_F(PortableNames, WhatIsOnlyAPartIsNotProved) {
  Kernel kernel = kernel_of({"product", {"5xf32", "5xf32"}, "5xf32", "  %x = tx.mul %0, %1 : tensor<5xf32>"});
  ASSERT_EQ(kernel.nodes.size(), 1u);
  ASSERT_EQ(kernel.nodes[0].bodies[0].instructions.size(), 1u);
  std::string text;
  EXPECT_EQ(worst(kernel, &text), NameCheck::kAgrees) << text;
  using portable::Op;
  using portable::Scalar;
  portable::Body& body = kernel.nodes[0].bodies[0];  // arguments are the index and two reads, 3 is their product
  const float rare = 12345.678f;
  uint32_t bits;
  std::memcpy(&bits, &rare, sizeof bits);
  body.instructions.push_back({Op::kConstant, Scalar::kF32, 0, 0, 0, bits});
  body.instructions.push_back({Op::kCompareF, Scalar::kI1, 1, 4, 0, static_cast<uint64_t>(portable::Predicate::kEqual)});
  body.instructions.push_back({Op::kConstant, Scalar::kF32});
  body.instructions.push_back({Op::kSelect, Scalar::kF32, 5, 6, 3});
  body.yields = {7};
  ASSERT_TRUE(is_valid(&kernel));
  text.clear();
  EXPECT_EQ(worst(kernel, &text), NameCheck::kTested) << text;
}

}  // namespace
}  // namespace heddle::tests
