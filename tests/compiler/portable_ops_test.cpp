// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of ops that portable code names (heddle/sdk/portable/ops.h) against the definitions of the compiler's ops, and docs/portable-ops.md against the
// list. HEDDLE_UPDATE_DOCUMENTATION=1 writes the tables of the page anew; read the difference before it is committed.
#include "heddle/sdk/portable/ops.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "compiler/ir/tx.h"
#include "mlir/IR/MLIRContext.h"

namespace heddle {
namespace {

using sdk::portable::AttributeType;
using sdk::portable::KnownOp;
using sdk::portable::OpAttribute;

// Ops that no kernel of portable code has, calls and copies of the program, what a pass has
// replaced before there are kernels, and what other targets make for themselves; and constants, for which see below.
const std::set<std::string> kNotInKernels = {
    "batch_norm", "constant",      "custom",        "dispatch",          "if",   "loop",     "pack",
    "parameter",  "narrow_packed", "narrow_stored", "narrow_dequantize", "read", "transfer", "yield"};
// Of weights that other targets have packed; and what MLIR notes of operands.
const std::set<std::string> kNotInNames = {"operandSegmentSizes", "packed_shape", "winograd"};

class PortableOps : public ::testing::Test {
 protected:
  PortableOps() { context_.loadDialect<tx::TxDialect>(); }

  std::map<std::string, mlir::RegisteredOperationName> ops() {
    std::map<std::string, mlir::RegisteredOperationName> found;
    for (mlir::RegisteredOperationName op : context_.getRegisteredOperations()) {
      if (op.getDialectNamespace() == "tx" && !kNotInKernels.contains(op.stripDialect().str())) found.emplace(op.stripDialect().str(), op);
    }
    return found;
  }

  // The types of which the op's definition takes a value for the attribute.
  std::set<AttributeType> types(mlir::RegisteredOperationName op, llvm::StringRef attribute) {
    mlir::Builder builder(&context_);
    const std::pair<AttributeType, mlir::Attribute> values[] = {{AttributeType::kBoolean, builder.getUnitAttr()},
                                                                {AttributeType::kInteger, builder.getI64IntegerAttr(1)},
                                                                {AttributeType::kFloat, builder.getF64FloatAttr(1)},
                                                                {AttributeType::kText, builder.getStringAttr("x")},
                                                                {AttributeType::kText, builder.getI32IntegerAttr(0)},  // a kind
                                                                {AttributeType::kIntegers, builder.getDenseI64ArrayAttr({1})},
                                                                {AttributeType::kFloats, builder.getDenseF64ArrayAttr({1})}};
    mlir::ScopedDiagnosticHandler quiet(&context_, [](mlir::Diagnostic&) { return mlir::success(); });
    std::set<AttributeType> taken;
    for (const auto& [type, value] : values) {
      mlir::NamedAttrList attributes;
      attributes.set(attribute, value);
      auto error = [&] { return mlir::emitError(builder.getUnknownLoc()); };
      if (mlir::succeeded(op.verifyInherentAttrs(attributes, error))) taken.insert(type);
    }
    return taken;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
};

TEST_F(PortableOps, AreThoseOfTheCompiler) {
  const auto defined = ops();
  EXPECT_GT(defined.size(), 55u);
  for (const auto& [name, op] : defined) {
    const KnownOp* known = sdk::portable::known_op(name);
    ASSERT_TRUE(known) << "sdk/cpp/portable/ops.cpp lacks op '" << name << "', or no kernel has it and kNotInKernels above lacks it";
    std::set<std::string> expected, listed;
    for (mlir::StringAttr attribute : op.getAttributeNames()) {
      if (!kNotInNames.contains(attribute.str())) expected.insert(attribute.str());
    }
    for (const OpAttribute& attribute : known->attributes()) {
      listed.insert(attribute.name);
      EXPECT_EQ(types(op, attribute.name), std::set<AttributeType>{attribute.type}) << name << "." << attribute.name;
    }
    EXPECT_EQ(listed, expected) << name;
  }
  // A constant has another attribute in the IR, which encode.cpp turns into these.
  for (const KnownOp& op : sdk::portable::known_ops()) {
    EXPECT_TRUE(defined.contains(op.name) || std::string_view(op.name) == "constant") << op.name << " is no op of the compiler";
  }
}

std::string table() {
  std::string text = "| op | operands | what it computes | attributes |\n| --- | --- | --- | --- |\n";
  for (const KnownOp& op : sdk::portable::known_ops()) {
    text += std::string("| `") + op.name + "/" + std::to_string(op.version) + "` | " + op.operands + " | " + op.meaning + " |";
    for (const OpAttribute& attribute : op.attributes())
      text += std::string(&attribute == &op.all[0] ? " `" : "; `") + attribute.name + "` (" + (attribute.is_optional ? "optional " : "") +
              name_of(attribute.type) + "): " + attribute.meaning;
    text += " |\n";
  }
  return text;
}

TEST_F(PortableOps, AreOnThePage) {
  const auto page = std::filesystem::path(std::getenv("HEDDLE_SOURCE")) / "docs/portable-ops.md";
  std::ifstream file(page, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const std::string now = text.str();
  const size_t begin = now.find("| op |");
  ASSERT_NE(begin, std::string::npos) << page;
  const std::string expected = now.substr(0, begin) + table();
  if (std::getenv("HEDDLE_UPDATE_DOCUMENTATION")) std::ofstream(page, std::ios::binary) << expected;
  EXPECT_EQ(now, expected) << "HEDDLE_UPDATE_DOCUMENTATION=1 writes it";
}

}  // namespace
}  // namespace heddle
