// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the text with MLIR and translates the function @main, operator by operator.
#include "compiler/import/aten_importer.h"

#include "compiler/import/aten_program.h"
#include "compiler/import/main_function.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace heddle::import {
namespace aten {
namespace {

std::string conversion(const std::string&) {
  return "heddle.torch writes graphs in the generic form, which can be compiled";
}

constexpr StringRef pretty_marks[] = {"custom op 'aten."};
const TextFormat format = {"aten", conversion, pretty_marks};
constexpr size_t most_symbols = 4096;
constexpr size_t most_listed = 256;
constexpr StringRef data_attr = "torch.data";

// An argument's extents in the signature and inside. An extent that is one name declares the symbol; other expressions are checked in each call.
struct ArgumentExtents {
  Extents declared, meant;
};

// A parameter: an argument whose values are in a file beside the text, {location = "weights.bin", offset = 64, length = 256}.
bool is_parameter(func::FuncOp entry, unsigned index) {
  return entry.getArgAttr(index, data_attr) != nullptr;
}

int onnx_type(Type element) {
  if (element.isF32()) return onnx::TensorProto::FLOAT;
  if (element.isF64()) return onnx::TensorProto::DOUBLE;
  if (element.isF16()) return onnx::TensorProto::FLOAT16;
  if (element.isBF16()) return onnx::TensorProto::BFLOAT16;
  const bool is_unsigned = element.isUnsignedInteger();
  switch (element.getIntOrFloatBitWidth()) {
    case 1:
      return onnx::TensorProto::BOOL;
    case 8:
      return is_unsigned ? onnx::TensorProto::UINT8 : onnx::TensorProto::INT8;
    case 16:
      return is_unsigned ? onnx::TensorProto::UINT16 : onnx::TensorProto::INT16;
    case 32:
      return is_unsigned ? onnx::TensorProto::UINT32 : onnx::TensorProto::INT32;
    default:
      return is_unsigned ? onnx::TensorProto::UINT64 : onnx::TensorProto::INT64;
  }
}

// Notes each parameter in the file as a tensor with external data, under the number of its argument.
void declare_parameters(OnnxFile& file, func::FuncOp entry) {
  UniqueNames names;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    if (!is_parameter(entry, i)) continue;
    const std::string name = names.take(entry.getArgAttr(i, "torch.name"), "parameter" + std::to_string(i));
    auto refuse = [&](const std::string& cause, heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT) {
      throw Failure{code, "aten: importing parameter '" + name + "' failed: " + cause, cause};
    };
    auto type = llvm::dyn_cast<RankedTensorType>(entry.getArgumentTypes()[i]);
    if (!type || !type.hasStaticShape()) refuse("it is not a tensor of static shape");
    const Type element = type.getElementType();
    const auto integer = llvm::dyn_cast<IntegerType>(element);
    if (!element.isF32() && !element.isF64() && !element.isF16() && !element.isBF16() &&
        !(integer && !integer.isSigned() && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth())))
      refuse("its element type is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    auto data = llvm::dyn_cast<DictionaryAttr>(entry.getArgAttr(i, data_attr));
    auto location = data ? llvm::dyn_cast_or_null<StringAttr>(data.get("location")) : StringAttr();
    auto number = [&](StringRef key) -> std::optional<int64_t> {
      auto value = data ? llvm::dyn_cast_or_null<IntegerAttr>(data.get(key)) : IntegerAttr();
      if (!value || value.getValue().getSignificantBits() > 64 || value.getValue().isNegative()) return std::nullopt;
      return value.getValue().getSExtValue();
    };
    const auto offset = number("offset"), length = number("length");
    if (!location || !offset || !length)
      refuse("its attribute " + data_attr.str() + " needs a location, which is a text, and an offset and a length of 0 or more, in bytes");
    onnx::TensorProto& tensor = *file.model.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx_type(element));
    for (int64_t extent : type.getShape()) tensor.add_dims(extent);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto add = [&](const char* key, const std::string& value) {
      auto& entry_of = *tensor.add_external_data();
      entry_of.set_key(key);
      entry_of.set_value(value);
    };
    add("location", location.str());
    add("offset", std::to_string(*offset));
    add("length", std::to_string(*length));
  }
}

// The symbols that the extents of arguments name.
void declare_symbols(Program& program, func::FuncOp entry, const ImportOptions& options, std::map<std::string, AffineExpr>& declared) {
  Symbols& symbols = program.graph.symbols;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    auto extents = llvm::dyn_cast_or_null<ArrayAttr>(entry.getArgAttr(i, "torch.extents"));
    if (!extents) continue;
    for (Attribute one : extents) {
      auto text = llvm::dyn_cast<StringAttr>(one);
      const bool is_name = text && !text.getValue().empty() && !llvm::isDigit(text.getValue().front()) &&
                           llvm::all_of(text.getValue(), [](char c) { return llvm::isAlnum(c) || c == '_'; });
      if (!is_name || declared.contains(text.str())) continue;
      if (declared.size() == most_symbols) {
        throw Failure{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "aten: importing '" + program.graph.file->path + "' failed: it has above " +
                                                            std::to_string(most_symbols) + " symbols"};
      }
      const std::string name = text.str();
      if (auto known = options.dims.find(name); known != options.dims.end()) {
        declared[name] = program.builder.getAffineConstantExpr(known->second);
        program.symbols[name] = declared[name];
        continue;
      }
      declared[name] = symbols.declared(name);
      program.symbols[name] = symbols.meant(name);
      symbols.equate(declared[name], program.symbols[name], "symbol '" + name + "'", /*learn=*/false);
    }
  }
}

// What the module's attribute torch.requires states of symbols: {value = "8 - s0", least = 0, who = "..."} is that the value is not below `least`.
void require_stated(Program& program, ModuleOp module, const std::string& path) {
  Attribute stated = module->getAttr("torch.requires");
  if (!stated) return;
  auto list = llvm::dyn_cast<ArrayAttr>(stated);
  if (!list) fail_file(format, path, "torch.requires is not a list");
  for (Attribute one : list) {
    auto each = llvm::dyn_cast<DictionaryAttr>(one);
    auto who = each ? each.getAs<StringAttr>("who") : StringAttr();
    const AffineExpr value = each ? program.expression(each.get("value")) : AffineExpr();
    const AffineExpr least = each ? program.expression(each.get("least")) : AffineExpr();
    if (!who || !value || !least) fail_file(format, path, "torch.requires has an entry without 'who', or whose numbers are not known");
    if (!program.graph.symbols.require(value, least, who.str())) fail_file(format, path, who.str() + " is true for no sizes");
  }
}

Port add_argument(Program& program, func::FuncOp entry, unsigned index, UniqueNames& names,
                  const std::map<std::string, AffineExpr>& declared, Block* block) {
  OpBuilder& builder = program.builder;
  const std::string name = names.take(entry.getArgAttr(index, "torch.name"), "arg" + std::to_string(index));
  const std::string who = "argument '" + name + "'";
  auto tensor = llvm::dyn_cast<RankedTensorType>(entry.getArgumentTypes()[index]);
  if (!tensor) {
    throw Failure{HEDDLE_STATUS_UNIMPLEMENTED,
                  "aten: importing " + who + " failed: it is not a tensor with a rank; only such tensors are arguments"};
  }
  const Type element = program.element_type(tensor.getElementType(), who);
  const Attribute stated = entry.getArgAttr(index, "torch.extents");
  const Extents meant = program.stated_extents(tensor, stated, who);
  // In the signature, an extent that is not one symbol is a symbol of its own, which has to be equal to the expression.
  Extents own;
  for (auto [i, extent] : llvm::enumerate(meant)) {
    auto text = stated ? llvm::dyn_cast<StringAttr>(llvm::cast<ArrayAttr>(stated)[i]) : StringAttr();
    if (tx::static_extent(extent) || !text) {
      own.push_back(extent);
    } else if (auto found = declared.find(text.str()); found != declared.end()) {
      own.push_back(found->second);
    } else {
      own.push_back(program.graph.symbols.declared(Symbols::unnamed(name, static_cast<int>(i))));
      program.graph.symbols.equate(own.back(), extent, "dimension " + std::to_string(i) + " of " + who, /*learn=*/false);
    }
  }
  Location location = NameLoc::get(builder.getStringAttr(name));
  const RankedTensorType own_type = tx::tensor_type(own, element), inside = tx::tensor_type(meant, element);
  Value argument = block->addArgument(own_type, location), value = argument;
  if (inside != own_type) value = builder.create<tx::ReshapeOp>(location, inside, argument);
  program.values[entry.getArgument(index)] = value;
  return {name, own_type, value, index};
}

func::FuncOp entry_of(const std::string& path, ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.getName() != "main" || function.isExternal()) continue;
    if (!function.getBody().hasOneBlock()) fail_file(format, path, "function 'main' has several blocks");
    return function;
  }
  fail_file(format, path, "it has no function @main");
}

OwningOpRef<ModuleOp> import_graph(const std::shared_ptr<OnnxFile>& file, func::FuncOp entry, tx::ParameterStore& parameters,
                                   Meanings& meanings, const ImportOptions& options) {
  MainFunction main(entry.getContext());
  Graph graph(main.builder, parameters, meanings, file, options.all_weights, options.files);
  graph.opset = newest_opset;
  Program program(graph);
  std::map<std::string, AffineExpr> declared;
  declare_symbols(program, entry, options, declared);
  require_stated(program, entry->getParentOfType<ModuleOp>(), file->path);
  UniqueNames argument_names, result_names;
  SmallVector<Port> arguments, results;
  int parameter_count = 0;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    if (!is_parameter(entry, i)) {
      arguments.push_back(add_argument(program, entry, i, argument_names, declared, main.block));
      continue;
    }
    const onnx::TensorProto& tensor = file->model.graph().initializer(parameter_count++);
    program.values[entry.getArgument(i)] =
        graph.import_tensor(tensor, tensor.name(), NameLoc::get(main.builder.getStringAttr(tensor.name()))).value;
  }
  Block& body = entry.getBody().front();
  if (body.empty() || !llvm::isa<func::ReturnOp>(body.back())) fail_file(format, file->path, "function 'main' does not end with a return");
  for (Operation& op : body) {
    if (&op != &body.back()) program.translate(op);
  }
  if (!program.unsupported.empty()) {
    std::string list;
    for (const std::string& one : ArrayRef(program.unsupported).take_front(most_listed)) list += (list.empty() ? "" : "; ") + one;
    if (program.unsupported.size() > most_listed) list += "; and " + std::to_string(program.unsupported.size() - most_listed) + " more";
    const size_t count = program.unsupported.size();
    fail_file(format, file->path,
              (count == 1 ? "an operator is not supported: " : std::to_string(count) + " operators are not supported: ") + list,
              HEDDLE_STATUS_UNIMPLEMENTED);
  }
  for (auto [i, value] : llvm::enumerate(body.back().getOperands())) {
    const auto index = static_cast<unsigned>(i);
    const std::string name = result_names.take(entry.getResultAttr(index, "torch.name"), "result" + std::to_string(i));
    Value made = program.values.lookup(value);
    if (!made) fail_file(format, file->path, "result '" + name + "' is not known");
    results.push_back({name, made.getType(), made, index});
  }
  main.finish(graph, arguments, results);
  return std::move(main.module);
}

}  // namespace
}  // namespace aten

bool is_aten(const std::string& path) {
  if (!StringRef(path).ends_with(".mlir")) return false;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer && (*buffer)->getBuffer().contains("torch.graph");
}

std::vector<std::string> supported_aten_ops() {
  return aten::known_ops();
}

OwningOpRef<ModuleOp> import_aten(const std::string& path, MLIRContext& context, tx::ParameterStore& parameters, ImportError& error,
                                  const ImportOptions& options) {
  OwningOpRef<ModuleOp> source;
  return import_until_learned("aten", path, "correct the graph, or write it again with heddle.torch", parameters, error,
                              [&](const std::shared_ptr<OnnxFile>& file, Meanings& meanings) {
                                if (!source) {
                                  source = read_generic_text(aten::format, path, context);
                                  aten::declare_parameters(*file, aten::entry_of(path, *source));
                                  if (options.files) {
                                    std::vector<std::string> stored;
                                    for (const auto& tensor : file->model.graph().initializer()) stored.push_back(tensor.name());
                                    if (auto wrong = options.files->resolve(stored, options.parameter_names))
                                      throw Failure{wrong->code, wrong->message};
                                  }
                                }
                                if (options.files) options.files->begin_import();
                                const size_t known = meanings.size();
                                OwningOpRef<ModuleOp> module =
                                    aten::import_graph(file, aten::entry_of(path, *source), parameters, meanings, options);
                                auto wrong = options.files && meanings.size() == known ? options.files->check_use() : std::nullopt;
                                if (wrong) throw Failure{wrong->code, wrong->message};
                                return module;
                              });
}

}  // namespace heddle::import
