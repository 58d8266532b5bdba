// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the text with MLIR, which keeps ops and attributes of dialects that it does not know as they are, and translates the function @main with
// all that it calls in place of the calls. Text that MLIR cannot read is refused with the command that makes readable text of it.
#include "compiler/import/stablehlo_importer.h"

#include <algorithm>
#include <set>

#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_random.h"
#include "compiler/import/stablehlo_program.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace heddle::import {
namespace stablehlo {
namespace {

constexpr int most_passes = 16;
constexpr int deepest_nesting = 256;
constexpr size_t longest_name_bytes = 4096;
constexpr StringLiteral bytecode_magic = "ML\xefR";

[[noreturn]] void fail(const std::string& path, const std::string& cause, heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT) {
  throw Failure{code, "stablehlo: importing '" + path + "' failed: " + cause, cause};
}

std::string conversion(const std::string& path) {
  const StringRef stem = StringRef(path).rsplit('.').first;
  const std::string to = (stem.empty() ? StringRef(path) : stem).str() + ".generic.mlir";
  return "'python3 -m heddle.stablehlo " + path + " " + to +
         "' writes it as text in the generic form, which can be compiled; it needs the Python package jaxlib";
}

// MLIR's parser, and everything that walks regions, calls itself for each level.
void check_nesting(const std::string& path, StringRef text) {
  int depth = 0, minuses = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i) i += text[i] == '\\';
      continue;
    }
    if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    minuses = c == '-' ? minuses + 1 : c == ' ' ? minuses : 0;
    if (c == '(' || c == '[' || c == '{' || c == '<') ++depth;
    if (c == ')' || c == ']' || c == '}' || (c == '>' && (i == 0 || text[i - 1] != '-'))) depth = std::max(depth - 1, 0);
    if (std::max(depth, minuses) > deepest_nesting) {
      fail(path, "its brackets are nested above " + std::to_string(deepest_nesting) + " deep, at byte " + std::to_string(i) +
                     "; take functions out of each other, or split the program");
    }
  }
}

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

OwningOpRef<ModuleOp> parse(const std::string& path, MLIRContext& context) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/true);
  if (!buffer) fail(path, "reading it failed: " + buffer.getError().message() + "; check the path", HEDDLE_STATUS_NOT_FOUND);
  const StringRef text = (*buffer)->getBuffer();
  if (text.starts_with(bytecode_magic))
    fail(path, "it is bytecode of MLIR, which the compiler does not read; " + conversion(path), HEDDLE_STATUS_UNIMPLEMENTED);
  if (text.contains('\0')) fail(path, "it is not text");
  check_nesting(path, text);
  std::string said, where;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic& diagnostic) {
    if (!said.empty() || diagnostic.getSeverity() != DiagnosticSeverity::Error) return;
    said = diagnostic.str();
    where = describe_location(diagnostic.getLocation());
  });
  const bool allowed = context.allowsUnregisteredDialects();
  context.allowUnregisteredDialects(true);
  auto restore = llvm::make_scope_exit([&] { context.allowUnregisteredDialects(allowed); });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context, /*verifyAfterParse=*/false), path);
  if (module) hide_calls(*module);
  if (module && succeeded(verify(*module))) return module;
  const std::string at = where.empty() ? "" : " at " + where;
  if (StringRef(said).contains("custom op 'stablehlo.") || StringRef(said).contains("custom op 'chlo.") ||
      StringRef(said).contains("custom op 'vhlo."))
    fail(path, "it is not in the generic form of MLIR's text (" + said + at + "); " + conversion(path), HEDDLE_STATUS_UNIMPLEMENTED);
  fail(path, "MLIR cannot read it" + at + ": " + said + "; if it is not in the generic form of MLIR's text, " + conversion(path));
}

// What the programs needs and nothing translates, so that one error lists all of it.
void check_ops(const std::string& path, ModuleOp module) {
  struct Kind {
    std::string where;
    size_t count = 0;
  };
  std::map<std::string, Kind> kinds;
  size_t all = 0;
  module.walk([&](Operation* op) {
    if (llvm::isa<ModuleOp, func::FuncOp>(op) || op->hasTrait<OpTrait::IsTerminator>()) return;
    const StringRef name = op->getName().getStringRef();
    if (name == "stablehlo.return" || name == "mhlo.return" || find_entry(name)) return;
    Kind& kind = kinds[name.str()];
    if (kind.count++ == 0) kind.where = describe_location(op->getLoc());
    ++all;
  });
  if (kinds.empty()) return;
  std::string list;
  constexpr size_t most = 32;
  size_t listed = 0;
  for (const auto& [name, kind] : kinds) {
    if (++listed > most) break;
    list += (list.empty() ? "" : ", ") + ("'" + name + "'") +
            (kind.count > 1 ? " (" + std::to_string(kind.count) + " times, first at " : " (at ") + kind.where + ")";
  }
  if (kinds.size() > most) list += " and " + std::to_string(kinds.size() - most) + " more";
  fail(path, (all == 1 ? "an op is not supported: " : std::to_string(all) + " ops are not supported: ") + list,
       HEDDLE_STATUS_UNIMPLEMENTED);
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
  if (count == 0) fail(path, "it has no function; a program has a function @main");
  fail(path, "it has no function @main, and several public ones: " + names + "; rename one of them to main", HEDDLE_STATUS_UNIMPLEMENTED);
}

// Names of arguments or results: those that JAX notes, if they are usable, else a letter and the position.
class UniqueNames {
 public:
  std::string take(Attribute noted, const std::string& otherwise) {
    auto text = llvm::dyn_cast_or_null<StringAttr>(noted);
    if (text && !text.getValue().empty() && text.getValue().size() <= longest_name_bytes && !text.getValue().contains('\0') &&
        is_utf8(text.str()) && known_.insert(text.str()).second)
      return text.str();
    std::string name = otherwise;
    for (int i = 1; !known_.insert(name).second; ++i) name = otherwise + "_" + std::to_string(i);
    return name;
  }

 private:
  std::set<std::string> known_;
};

// The signature of @main, and its values inside. Complex numbers are floats with a last dimension of 2, tuples their members.
class Signature {
 public:
  Signature(Program& program, const ImportOptions& options) : program_(program), options_(options) {}

  struct Port {
    std::string name;
    Type type;
    Value value;
    unsigned source;  // the argument or result of the program's function
  };
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
  auto is_alone = [](const std::vector<Signature::Port>& ports, unsigned source) {
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
  MLIRContext* context = source.getContext();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(module->getBody());
  auto function = builder.create<func::FuncOp>(module->getLoc(), "main", builder.getFunctionType({}, {}));
  Block* block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  Graph graph(builder, parameters, meanings, file, options.all_weights, nullptr);
  graph.opset = newest_opset;
  Program program(graph, source);
  Signature signature(program, options);
  std::vector<Data> arguments;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) arguments.push_back(signature.argument(entry, i, block));
  Scope scope;
  if (!entry.getBody().hasOneBlock())
    fail(file->path, "function '" + entry.getName().str() + "' has several blocks", HEDDLE_STATUS_UNIMPLEMENTED);
  const std::vector<Data> results = program.translate(entry.getBody().front(), arguments, scope);
  for (unsigned i = 0; i < results.size(); ++i) signature.result(entry, i, results[i]);

  SmallVector<Value> values;
  for (const auto& port : signature.results) values.push_back(port.value);
  if (graph.calls) values.push_back(next_calls(graph, graph.calls.getLoc()));
  if (!graph.checks.empty()) function->setAttr(tx::checks_attr, describe_checks(graph, values));
  builder.create<func::ReturnOp>(module->getLoc(), values);
  SmallVector<Type> argument_types, result_types;
  for (const auto& port : signature.arguments) argument_types.push_back(port.type);
  if (graph.calls) argument_types.push_back(graph.calls.getType());
  for (Value value : values) result_types.push_back(value.getType());
  function.setFunctionType(builder.getFunctionType(argument_types, result_types));
  for (auto [i, port] : llvm::enumerate(signature.arguments))
    function.setArgAttr(static_cast<unsigned>(i), tx::name_attr, builder.getStringAttr(port.name));
  for (auto [i, port] : llvm::enumerate(signature.results))
    function.setResultAttr(static_cast<unsigned>(i), tx::name_attr, builder.getStringAttr(port.name));
  note_donations(entry, function, signature);
  if (graph.calls) {
    const auto argument = static_cast<unsigned>(signature.arguments.size()), result = static_cast<unsigned>(signature.results.size());
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
  return module;
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
  return llvm::any_of(ArrayRef<StringRef>{"stablehlo.", "vhlo.", "chlo.", "mhlo.", "jax."},
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
  try {
    OwningOpRef<ModuleOp> source = parse(path, context);
    check_ops(path, *source);
    func::FuncOp entry = entry_of(path, *source);
    auto file = std::make_shared<OnnxFile>();
    file->path = path;
    file->opsets[""] = newest_opset;
    Meanings meanings;
    for (int imports = 1;; ++imports) {
      const size_t known = meanings.size();
      meanings.is_complete = imports >= most_passes;
      try {
        OwningOpRef<ModuleOp> module = import_program(file, *source, entry, parameters, meanings, options);
        if (meanings.size() == known) return module;
      } catch (const Failure&) {
        if (meanings.size() == known) throw;
      }
      parameters.clear();
    }
  } catch (const Failure& failure) {
    const bool needs_step = failure.code == HEDDLE_STATUS_INVALID_ARGUMENT && failure.message.find("; ") == std::string::npos;
    error = {failure.code, printable(failure.message, largest_list_bytes)};
    if (needs_step) error.message += "; correct the program, or export it again";
  } catch (const std::bad_alloc&) {
    error = {HEDDLE_STATUS_RESOURCE_EXHAUSTED, "stablehlo: importing '" + path + "' failed: out of memory; free memory"};
  } catch (const std::exception& failure) {
    error = {HEDDLE_STATUS_INTERNAL, "stablehlo: importing '" + path + "' failed: " + failure.what()};
  }
  return {};
}

}  // namespace heddle::import
