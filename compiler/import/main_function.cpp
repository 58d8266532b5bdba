// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/main_function.h"

#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_random.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/SaveAndRestore.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace heddle::import {

MainFunction::MainFunction(MLIRContext* context) : module(ModuleOp::create(UnknownLoc::get(context))), builder(context) {
  builder.setInsertionPointToEnd(module->getBody());
  function = builder.create<func::FuncOp>(module->getLoc(), "main", builder.getFunctionType({}, {}));
  block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
}

void MainFunction::finish(Graph& graph, ArrayRef<Port> arguments, ArrayRef<Port> results) {
  SmallVector<Value> values;
  for (const Port& port : results) values.push_back(port.value);
  if (graph.calls) values.push_back(next_calls(graph, graph.calls.getLoc()));
  if (!graph.checks.empty()) function->setAttr(tx::checks_attr, describe_checks(graph, values));
  builder.create<func::ReturnOp>(module->getLoc(), values);
  SmallVector<Type> argument_types, result_types;
  for (const Port& port : arguments) argument_types.push_back(port.type);
  if (graph.calls) argument_types.push_back(graph.calls.getType());
  for (Value value : values) result_types.push_back(value.getType());
  function.setFunctionType(builder.getFunctionType(argument_types, result_types));
  for (auto [i, port] : llvm::enumerate(arguments))
    function.setArgAttr(static_cast<unsigned>(i), tx::name_attr, builder.getStringAttr(port.name));
  for (auto [i, port] : llvm::enumerate(results))
    function.setResultAttr(static_cast<unsigned>(i), tx::name_attr, builder.getStringAttr(port.name));
  if (graph.calls) {
    const auto argument = static_cast<unsigned>(arguments.size()), result = static_cast<unsigned>(results.size());
    function.setArgAttr(argument, tx::state_attr, builder.getUnitAttr());
    function.setArgAttr(argument, tx::alias_attr, builder.getI64IntegerAttr(result));
    function.setArgAttr(argument, tx::name_attr, builder.getStringAttr(calls_name));
    function.setResultAttr(result, tx::name_attr, builder.getStringAttr(calls_name));
  }
  SmallVector<Attribute> names;
  for (const std::string& name : graph.symbols.names()) names.push_back(builder.getStringAttr(name));
  for (auto part : module->getOps<func::FuncOp>()) {
    if (!names.empty()) part->setAttr(tx::symbols_attr, builder.getArrayAttr(names));
    if (ArrayAttr definitions = graph.symbols.definitions()) part->setAttr(tx::defined_symbols_attr, definitions);
  }
  if (ArrayAttr checks = graph.symbols.extent_checks()) function->setAttr(tx::extent_checks_attr, checks);
}

OwningOpRef<ModuleOp> import_until_learned(
    const std::string& format, const std::string& path, const std::string& advice, tx::ParameterStore& parameters, ImportError& error,
    llvm::function_ref<OwningOpRef<ModuleOp>(const std::shared_ptr<OnnxFile>& file, Meanings& meanings)> import) {
  constexpr int most_passes = 16;
  try {
    auto file = std::make_shared<OnnxFile>();
    file->path = path;
    file->opsets[""] = newest_opset;
    Meanings meanings;
    for (int imports = 1;; ++imports) {
      const size_t known = meanings.size();
      meanings.is_complete = imports >= most_passes;
      try {
        OwningOpRef<ModuleOp> module = import(file, meanings);
        if (meanings.size() == known) return module;
      } catch (const Failure&) {
        if (meanings.size() == known) throw;
      }
      parameters.clear();
    }
  } catch (const Failure& failure) {
    const bool needs_step = failure.code == HEDDLE_STATUS_INVALID_ARGUMENT && failure.message.find("; ") == std::string::npos;
    error = {failure.code, printable(failure.message, largest_list_bytes)};
    if (needs_step) error.message += "; " + advice;
  } catch (const std::bad_alloc&) {
    error = {HEDDLE_STATUS_RESOURCE_EXHAUSTED, format + ": importing '" + path + "' failed: out of memory; free memory"};
  } catch (const std::exception& failure) {
    error = {HEDDLE_STATUS_INTERNAL, format + ": importing '" + path + "' failed: " + failure.what()};
  }
  return {};
}

std::vector<Value> call_operator(Graph& graph, Location location, const std::string& named, const std::string& type,
                                 ArrayRef<Operand> inputs, int outputs, llvm::function_ref<void(onnx::NodeProto&)> attributes) {
  static constexpr const char* prefix = "\1operator.";
  std::map<std::string, Operand>& operands = graph.operands;
  onnx::NodeProto proto;
  proto.set_op_type(type);
  proto.set_name(named);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_there = inputs[i].value || inputs[i].elements;
    *proto.add_input() = is_there ? prefix + std::to_string(i) : "";
    if (is_there) operands[proto.input(static_cast<int>(i))] = inputs[i];
  }
  for (int i = 0; i < outputs; ++i) *proto.add_output() = prefix + ("r" + std::to_string(i));
  if (attributes) attributes(proto);
  auto forget = llvm::make_scope_exit([&] {
    for (const std::string& name : proto.input()) operands.erase(name);
    for (const std::string& name : proto.output()) operands.erase(name);
  });
  Translate translate = nullptr;
  for (const Table* table : {&elementwise_operators(), &trigonometry_operators(), &bit_operators(), &linear_operators(), &image_operators(),
                             &pooling_operators(), &index_operators(), &signal_operators(), &select_operators(), &sampling_operators(),
                             &slice_operators(), &shape_operators(), &random_operators(), &normalize_operators(), &resize_operators()}) {
    if (auto it = table->find(type); it != table->end()) translate = it->second;
  }
  if (!translate)
    throw Failure{HEDDLE_STATUS_INTERNAL, "onnx: importing " + named + " failed: there is no translation of " + type,
                  "there is no translation of " + type};
  llvm::SaveAndRestore<int64_t> opset(graph.opset, newest_opset);
  Node made(graph, proto, location);
  translate(made);
  std::vector<Value> results;
  onnx::NodeProto end;
  end.set_op_type(outputs_operator);
  for (const std::string& name : proto.output()) *end.add_input() = name;
  Node reader(graph, end, location);
  for (int i = 0; i < outputs; ++i) results.push_back(reader.input(i));
  return results;
}

std::string refuse_made(OpBuilder& builder, Operation* before) {
  Block* block = builder.getInsertionBlock();
  std::string said;
  ScopedDiagnosticHandler handler(builder.getContext(), [&](Diagnostic& diagnostic) {
    if (said.empty()) said = diagnostic.str();
  });
  for (Operation* made = before ? before->getNextNode() : block->empty() ? nullptr : &block->front(); made; made = made->getNextNode()) {
    for (Value result : made->getResults()) {
      if (std::string cause = refuse_extents(Node::extents_of(result)); !cause.empty()) return cause;
    }
    if (llvm::isa<tx::MatmulOp, tx::ConvOp, tx::ConcatOp, tx::PadOp>(made)) {
      const Type own = tx::element_of(made->getResult(0));
      for (Value operand : made->getOperands()) {
        const Type given = tx::element_of(operand);
        const bool is_byte_to_sum = llvm::isa<tx::MatmulOp>(made) && given.isInteger(8) && own.isSignlessInteger(32);
        if (given != own && !is_byte_to_sum) return "element types of its operands differ";
      }
    }
    if (failed(verify(made))) return "its operands do not fit: " + said;
  }
  return {};
}

}  // namespace heddle::import
