// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a graph means, by the stages of its regions: evaluates functions of regions on plain arrays (compiler/stage/interpreter.h), so that import, passes and
// the forming of stages are checked without any target's code. Regions without stages are evaluated op by op (tests/compiler/reference.h).
//
// usage: interpret_graph < LINES
// A line is the path of an .mlir file, as `heddle compile --dump-after heddle-form-dispatches` writes it, and a folder. Operand i of the model is in FOLDER/i.in, as
// f64 whatever its type, result i is written to FOLDER/i.out. Answers "done", or "left out: ..." for what it has no values of, one line each.
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "compiler/stage/stage.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "tests/compiler/stage_arrays.h"

using namespace mlir;

namespace heddle::tests {
namespace {

class LeftOut : public std::runtime_error {
  using runtime_error::runtime_error;
};

Tensor constant(tx::ConstantOp op) {
  auto elements = llvm::dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements) throw LeftOut("a constant of another form");
  Tensor tensor{shape_of(tx::tensor(op.getResult()), {}), {}};
  Type element = tx::tensor(op.getResult()).getElementType();
  if (llvm::isa<FloatType>(element)) {
    for (APFloat value : elements.getValues<APFloat>()) {
      bool loses;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      tensor.data.push_back(value.convertToDouble());
    }
  } else {
    bool has_sign = !element.isInteger(1) && !llvm::cast<IntegerType>(element).isUnsigned();
    for (const APInt& value : elements.getValues<APInt>())
      tensor.data.push_back(has_sign ? static_cast<double>(value.getSExtValue()) : static_cast<double>(value.getZExtValue()));
  }
  return tensor;
}

std::vector<Tensor> run_region(tx::DispatchOp region, const std::vector<Tensor>& operands) {
  std::string reason;
  auto staged = stage::form_stages(region, reason);
  if (failed(staged)) return evaluate(region, operands);
  std::vector<stage::Array> arrays;
  for (auto [tensor, operand] : llvm::zip_equal(operands, region.getInputs()))
    arrays.push_back(to_array(tensor, tx::tensor(operand).getElementType()));
  std::vector<Tensor> results;
  for (auto [array, result] : llvm::zip_equal(stage::interpret(staged->region, arrays, {}), region.getOutputs()))
    results.push_back(to_tensor(array, tx::tensor(result).getElementType()));
  return results;
}

std::vector<Tensor> run_function(ModuleOp module, StringRef name, std::vector<Tensor> arguments) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function) throw LeftOut("no function " + name.str());
  llvm::DenseMap<Value, Tensor> values;
  for (auto [argument, tensor] : llvm::zip_equal(function.getArguments(), arguments)) values[argument] = std::move(tensor);
  std::vector<Tensor> results;
  for (Operation& op : function.getBody().front()) {
    std::vector<Tensor> operands;
    for (Value operand : op.getOperands()) operands.push_back(values.at(operand));
    if (llvm::isa<func::ReturnOp>(op)) return operands;
    std::vector<Tensor> made;
    if (auto region = llvm::dyn_cast<tx::DispatchOp>(op)) {
      made = run_region(region, operands);
    } else if (auto leaf = llvm::dyn_cast<tx::ConstantOp>(op)) {
      made = {constant(leaf)};
    } else if (auto parameter = llvm::dyn_cast<tx::ParameterOp>(op)) {
      auto initializer = module.lookupSymbol<func::FuncOp>(tx::initializer_name);
      if (!initializer || name == tx::initializer_name) throw LeftOut("a parameter");
      std::vector<Tensor> derived = run_function(module, tx::initializer_name, {});
      for (unsigned i = 0; i < derived.size(); ++i) {
        if (initializer.getResultAttrOfType<StringAttr>(i, tx::name_attr) == parameter.getNameAttr()) made = {derived[i]};
      }
      if (made.empty()) throw LeftOut("a parameter");
    } else if (llvm::isa<tx::ReshapeOp, tx::TransferOp>(op)) {
      made = {Tensor{shape_of(tx::tensor(op.getResult(0)), {}), operands[0].data}};
    } else {
      throw LeftOut(op.getName().getStringRef().str() + " outside of regions");
    }
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), made)) values[result] = std::move(tensor);
  }
  return results;
}

void interpret_file(const std::string& path, const std::string& folder) {
  DialectRegistry registry;
  registry.insert<tx::TxDialect, func::FuncDialect, stage::StageDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = parseSourceFile<ModuleOp>(path, &context);
  if (!module) throw LeftOut("the file does not parse");
  auto function = module->lookupSymbol<func::FuncOp>("main");
  if (!function) throw LeftOut("no function main");
  std::vector<Tensor> arguments;
  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    if (!tx::tensor(argument).hasStaticShape()) throw LeftOut("symbolic extents");
    Tensor tensor{shape_of(tx::tensor(argument), {}), {}};
    tensor.data.resize(static_cast<size_t>(element_count(tensor.shape)));
    std::ifstream file(folder + "/" + std::to_string(i) + ".in", std::ios::binary);
    auto bytes = static_cast<std::streamsize>(tensor.data.size() * sizeof(double));
    if (!file.read(reinterpret_cast<char*>(tensor.data.data()), bytes)) throw LeftOut("no operand " + std::to_string(i));
    arguments.push_back(std::move(tensor));
  }
  for (auto [i, result] : llvm::enumerate(run_function(*module, "main", std::move(arguments)))) {
    std::ofstream file(folder + "/" + std::to_string(i) + ".out", std::ios::binary);
    file.write(reinterpret_cast<const char*>(result.data.data()), static_cast<std::streamsize>(result.data.size() * sizeof(double)));
    if (!file) throw std::runtime_error("result " + std::to_string(i) + " cannot be written");
  }
}

}  // namespace
}  // namespace heddle::tests

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string path, folder;
    words >> path >> folder;
    try {
      heddle::tests::interpret_file(path, folder);
      std::cout << "done" << std::endl;
    } catch (const std::runtime_error& error) {
      std::cout << "left out: " << error.what() << std::endl;
    }
  }
  return 0;
}
