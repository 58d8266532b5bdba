// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the text with MLIR, which keeps ops and attributes of dialects that it does not know as they are, and translates the function @main with
// all that it calls in place of the calls. Text that MLIR cannot read is refused with the command that makes readable text of it.
#include "compiler/import/stablehlo_importer.h"

#include <set>

#include "compiler/import/main_function.h"
#include "compiler/import/stablehlo_program.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace heddle::import {
namespace stablehlo {
namespace {

std::string conversion(const std::string& path) {
  const StringRef stem = StringRef(path).rsplit('.').first;
  const std::string to = (stem.empty() ? StringRef(path) : stem).str() + ".generic.mlir";
  return "'python3 -m heddle.stablehlo " + path + " " + to +
         "' writes it as text in the generic form, which can be compiled; it needs the Python package jaxlib";
}

constexpr StringRef pretty_marks[] = {"custom op 'stablehlo.", "custom op 'chlo.", "custom op 'vhlo."};
const TextFormat format = {"stablehlo", conversion, pretty_marks};

// An op that MLIR does not know, and that has one region, may define symbols for all that MLIR knows, so it refuses calls of functions in the region. A
// composite op is translated like a call.
void hide_calls(ModuleOp module) {
  SmallVector<func::CallOp> calls;
  module->walk([&](func::CallOp call) {
    if (call.getCalleeAttr() && !llvm::isa_and_nonnull<func::FuncOp>(call->getParentOp())) calls.push_back(call);
  });
  for (func::CallOp call : calls) {
    OpBuilder builder(call);
    OperationState state(call.getLoc(), "stablehlo.composite", call.getOperands(), call.getResultTypes());
    state.addAttribute("decomposition", call.getCalleeAttr());
    Operation* made = builder.create(state);
    call->replaceAllUsesWith(made);
    call->erase();
  }
}

func::FuncOp entry_of(const std::string& path, ModuleOp module) {
  func::FuncOp only;
  std::string names;
  size_t count = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal()) continue;
    if (function.getName() == "main") return function;
    if (function.isPrivate()) continue;
    only = function;
    if (count++ < 8) names += (names.empty() ? "'" : ", '") + function.getName().str() + "'";
  }
  if (count == 1) return only;
  if (count == 0) fail_file(format, path, "it has no function; a program has a function @main");
  fail_file(format, path, "it has no function @main, and several public ones: " + names + "; rename one of them to main",
            HEDDLE_STATUS_UNIMPLEMENTED);
}

// The signature of @main, and its values inside. Complex numbers are floats with a last dimension of 2, tuples their members.
class Signature {
 public:
  Signature(Program& program, const ImportOptions& options) : program_(program), options_(options) {}

  std::vector<Port> arguments, results;

  Data argument(func::FuncOp function, unsigned index, Block* block) {
    return argument(function.getArgumentTypes()[index], function.getArgAttr(index, "jax.arg_info"), "arg" + std::to_string(index), index,
                    block);
  }

  void result(func::FuncOp function, unsigned index, const Data& data) {
    result(data, function.getResultTypes()[index], function.getResultAttr(index, "jax.result_info"), "result" + std::to_string(index),
           index);
  }

 private:
  Data argument(Type type, Attribute noted, const std::string& otherwise, unsigned source, Block* block) {
    Data data;
    OpBuilder& builder = program_.builder;
    if (auto tuple = llvm::dyn_cast<TupleType>(type)) {
      std::vector<Data> members;
      for (auto [i, member] : llvm::enumerate(tuple.getTypes()))
        members.push_back(argument(member, {}, otherwise + "." + std::to_string(i), source, block));
      data.tuple = std::make_shared<const std::vector<Data>>(std::move(members));
      return data;
    }
    const std::string name = argument_names_.take(noted, otherwise), who = "argument '" + name + "'";
    auto refuse = [&](const std::string& cause, heddle_status_code_t code) {
      throw Failure{code, "stablehlo: importing " + who + " failed: " + cause, cause};
    };
    auto tensor = llvm::dyn_cast<RankedTensorType>(type);
    if (!tensor) refuse("it is " + text_of(type) + ", and only tensors with a rank are supported", HEDDLE_STATUS_UNIMPLEMENTED);
    Symbols& symbols = program_.graph.symbols;
    Extents declared, meant;
    for (int64_t i = 0; i < tensor.getRank(); ++i) {
      const int dimension = static_cast<int>(i);
      const std::string shown = name + "." + std::to_string(i);
      auto known = options_.dims.find(shown);
      if (!tensor.isDynamicDim(i) || known != options_.dims.end()) {
        declared.push_back(builder.getAffineConstantExpr(tensor.isDynamicDim(i) ? known->second : tensor.getDimSize(i)));
        meant.push_back(declared.back());
        continue;
      }
      const std::string key = Symbols::unnamed(name, dimension);
      declared.push_back(symbols.declared(key));
      meant.push_back(symbols.meant(key));
      symbols.equate(declared.back(), meant.back(), "dimension " + std::to_string(i) + " of " + who, /*learn=*/false);
    }
    const bool is_complex = llvm::isa<ComplexType>(tensor.getElementType());
    if (is_complex) {
      for (Extents* extents : {&declared, &meant}) extents->push_back(builder.getAffineConstantExpr(2));
    }
    for (const Extents& extents : {declared, meant}) {
      if (std::string cause = refuse_extents(extents); !cause.empty()) refuse(cause, HEDDLE_STATUS_INVALID_ARGUMENT);
    }
    const Type element = program_.element_type(tensor.getElementType(), who);
    Location location = NameLoc::get(builder.getStringAttr(name));
    const RankedTensorType own = tx::tensor_type(declared, element), inside = tx::tensor_type(meant, element);
    Value value = block->addArgument(own, location);
    arguments.push_back({name, own, value, source});
    if (inside != own) value = builder.create<tx::ReshapeOp>(location, inside, value);
    if (!is_complex) {
      data.parts.push_back(value);
      return data;
    }
    const int64_t last = tensor.getRank();
    Extents one = meant, without(meant.begin(), meant.end() - 1);
    one.back() = builder.getAffineConstantExpr(1);
    for (int64_t part : {0, 1}) {
      SmallVector<int64_t> starts(one.size(), 0), strides(one.size(), 1);
      starts[static_cast<size_t>(last)] = part;
      Value cut = builder.create<tx::SliceOp>(location, tx::tensor_type(one, element), value, starts, strides);
      data.parts.push_back(builder.createOrFold<tx::ReshapeOp>(location, tx::tensor_type(without, element), cut));
    }
    return data;
  }

  void result(const Data& data, Type type, Attribute noted, const std::string& otherwise, unsigned source) {
    OpBuilder& builder = program_.builder;
    if (data.tuple) {
      auto tuple = llvm::dyn_cast<TupleType>(type);
      for (size_t i = 0; i < data.tuple->size(); ++i) {
        const Type member = tuple && i < tuple.size() ? tuple.getType(i) : Type();
        result((*data.tuple)[i], member, {}, otherwise + "." + std::to_string(i), source);
      }
      return;
    }
    const std::string name = result_names_.take(noted, otherwise);
    auto tensor = llvm::dyn_cast_or_null<RankedTensorType>(type);
    if (!tensor) {
      throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "stablehlo: importing result '" + name + "' failed: it is " +
                                                     (type ? text_of(type) : "nothing") + ", and only tensors with a rank are supported"};
    }
    Location location = NameLoc::get(builder.getStringAttr(name));
    onnx::NodeProto proto;
    proto.set_name(name);
    Node node(program_.graph, proto, location);
    Value value;
    if (data.parts.empty() && data.elements) {
      Operand operand{{}, data.elements, data.rank};
      const Type element = program_.element_type(tensor.getElementType(), "result '" + name + "'");
      if (element.isInteger(1)) operand.bits = 1;
      value = node.converted(node.value_of(operand), element);
    } else if (data.is_complex()) {
      SmallVector<Value> parts;
      Extents extents = Op::extents_of(data.parts[0]);
      extents.push_back(builder.getAffineConstantExpr(1));
      for (Value part : data.parts) parts.push_back(node.reshape(part, extents));
      value = node.concatenated(parts, static_cast<int64_t>(extents.size()) - 1);
    } else if (data.parts.size() == 1) {
      value = data.parts[0];
    } else {
      throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "stablehlo: importing result '" + name + "' failed: tokens are not supported as results"};
    }
    results.push_back({name, value.getType(), value, source});
  }

  Program& program_;
  const ImportOptions& options_;
  UniqueNames argument_names_, result_names_;
};

// jax.buffer_donor and tf.aliasing_output of arguments.
void note_donations(func::FuncOp from, func::FuncOp to, const Signature& signature) {
  Builder builder(to.getContext());
  std::set<unsigned> taken;
  auto is_alone = [](const std::vector<Port>& ports, unsigned source) {
    return llvm::count_if(ports, [&](const auto& port) { return port.source == source; }) == 1;
  };
  for (auto [i, argument] : llvm::enumerate(signature.arguments)) {
    const auto index = static_cast<unsigned>(i);
    const unsigned source = argument.source;
    if (auto donor = llvm::dyn_cast_or_null<BoolAttr>(from.getArgAttr(source, "jax.buffer_donor")); donor && donor.getValue())
      to.setArgAttr(index, tx::donated_attr, builder.getUnitAttr());
    auto alias = llvm::dyn_cast_or_null<IntegerAttr>(from.getArgAttr(source, "tf.aliasing_output"));
    if (!alias || alias.getValue().getSignificantBits() > 32 || !is_alone(signature.arguments, source)) continue;
    const int64_t wanted = alias.getValue().getSExtValue();
    for (auto [j, result] : llvm::enumerate(signature.results)) {
      if (result.source != wanted || !is_alone(signature.results, result.source) || result.type != argument.type) continue;
      if (!taken.insert(static_cast<unsigned>(j)).second) {
        throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "stablehlo: importing argument '" + argument.name + "' failed: result '" +
                                                          result.name +
                                                          "' takes the memory of another argument already (tf.aliasing_output)"};
      }
      to.setArgAttr(index, tx::alias_attr, builder.getI64IntegerAttr(static_cast<int64_t>(j)));
    }
    if (!to.getArgAttr(index, tx::alias_attr)) to.setArgAttr(index, tx::donated_attr, builder.getUnitAttr());
  }
}

OwningOpRef<ModuleOp> import_program(const std::shared_ptr<OnnxFile>& file, ModuleOp source, func::FuncOp entry,
                                     tx::ParameterStore& parameters, Meanings& meanings, const ImportOptions& options) {
  MainFunction main(source.getContext());
  Graph graph(main.builder, parameters, meanings, file, options.all_weights, nullptr);
  graph.opset = newest_opset;
  Program program(graph, source);
  Signature signature(program, options);
  std::vector<Data> arguments;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) arguments.push_back(signature.argument(entry, i, main.block));
  Scope scope;
  if (!entry.getBody().hasOneBlock()) {
    fail_file(format, file->path, "function '" + entry.getName().str() + "' has several blocks", HEDDLE_STATUS_UNIMPLEMENTED);
  }
  program.check_size(entry);
  const std::vector<Data> results = program.translate(entry.getBody().front(), arguments, scope);
  for (unsigned i = 0; i < results.size(); ++i) signature.result(entry, i, results[i]);
  main.finish(graph, signature.arguments, signature.results);
  note_donations(entry, main.function, signature);
  return std::move(main.module);
}

}  // namespace
}  // namespace stablehlo

using namespace stablehlo;

bool is_stablehlo(const std::string& path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) return false;
  const StringRef text = (*buffer)->getBuffer();
  if (text.starts_with(bytecode_magic)) return true;
  if (!StringRef(path).ends_with(".mlir")) return false;
  return llvm::any_of(ArrayRef<StringRef>{"stablehlo.", "vhlo.", "chlo.", "mhlo.", "jax.", "func.call"},
                      [&](StringRef mark) { return text.contains(mark); });
}

std::vector<std::string> supported_stablehlo_ops() {
  std::vector<std::string> names;
  for (const stablehlo::Table* table : {&elementwise_ops(), &bit_ops(), &shape_ops(), &contraction_ops(), &reduction_ops(), &indexing_ops(),
                                        &control_ops(), &dynamic_ops(), &linear_algebra_ops(), &random_ops(), &batch_norm_ops()}) {
    for (const auto& [name, entry] : *table) names.push_back(name);
  }
  llvm::sort(names);
  return names;
}

OwningOpRef<ModuleOp> import_stablehlo(const std::string& path, MLIRContext& context, tx::ParameterStore& parameters, ImportError& error,
                                       const ImportOptions& options) {
  OwningOpRef<ModuleOp> source;
  return import_until_learned("stablehlo", path, "correct the program, or export it again", parameters, error,
                              [&](const std::shared_ptr<OnnxFile>& file, Meanings& meanings) {
                                if (!source) {
                                  OwningOpRef<ModuleOp> read = read_generic_text(format, path, context, hide_calls);
                                  check_known_ops(format, path, *read, [](StringRef name) {
                                    return name == "stablehlo.return" || name == "mhlo.return" || find_entry(name);
                                  });
                                  source = std::move(read);
                                }
                                return import_program(file, *source, entry_of(path, *source), parameters, meanings, options);
                              });
}

}  // namespace heddle::import
