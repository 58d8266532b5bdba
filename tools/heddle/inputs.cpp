// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matches inputs to arguments.
#include "tools/heddle/inputs.h"

#include <algorithm>

#include "sdk/module/element_types.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {

namespace {

// "f32[n,4]": the type of an argument, with the names of its symbols.
std::string type_text(const Json& function, size_t argument, const Shape& shape) {
  const Json& arguments = array(function, "arguments");
  const Json dims = argument < arguments.size() ? array(arguments[argument], "dims") : Json::array();
  std::vector<std::string> extents;
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    const bool is_symbol = shape.dims[d] < 0 && d < dims.size() && dims[d].is_string();
    extents.push_back(is_symbol ? dims[d].get<std::string>() : shape.dims[d] < 0 ? "?" : std::to_string(shape.dims[d]));
  }
  return module::type_text(module::element_type_name(shape.element_type), extents);
}

// "--input 'mask=f32[4,20]=0'": a form that the argument accepts; a symbol gets its least extent. Quoted, since brackets are globs in a shell.
std::string form(const Json& function, const Json& argument) {
  std::vector<std::string> extents;
  for (const Json& dim : array(argument, "dims")) {
    int64_t extent = dim.is_number() ? dim.get<int64_t>() : 1;
    for (const Json& symbol : array(function, "symbols")) {
      if (!dim.is_string() || text(symbol, "name") != dim.get<std::string>()) continue;
      const int64_t least = std::max<int64_t>(symbol.value("min", int64_t{1}), 1);
      const int64_t divisor = std::max<int64_t>(symbol.value("divisor", int64_t{1}), 1);
      extent = (least + divisor - 1) / divisor * divisor;
    }
    extents.push_back(std::to_string(extent));
  }
  const std::string name = argument.value("name", std::string());
  return "--input " + in_shell_quotes((name.empty() ? "" : name + "=") + module::type_text(text(argument, "element_type"), extents) + "=0");
}

// "; for example --input 'mask=f32[4,20]=0'", for an argument of the function.
std::string for_example(const Json& function, size_t argument) {
  const Json& arguments = array(function, "arguments");
  return argument < arguments.size() ? "; for example " + form(function, arguments[argument]) : "";
}

// "image: f32[batch,1,8,8], mask: bool[4]"
std::string list(const Json& report, const Function& function) {
  std::string text;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const Function::Type& type = function.arguments[i];
    text += (text.empty() ? "" : ", ") + (type.name.empty() ? "(no name)" : type.name) + ": " + type_text(report, i, type.shape);
  }
  return text.empty() ? "none" : text;
}

// Whether a call may accept a shape from the command line. Constraints that only the call knows, such as the range of a symbol, are checked
// by the call.
bool fits(const Shape& given, const Shape& expected) {
  if (given.element_type != expected.element_type || given.dims.size() != expected.dims.size()) return false;
  for (size_t i = 0; i < given.dims.size(); ++i) {
    if (expected.dims[i] >= 0 && given.dims[i] != expected.dims[i]) return false;
  }
  return true;
}

// ": dimension 1 is 6 and must be 5"; empty if the mismatch is something else.
std::string first_wrong(const Shape& given, const Shape& expected) {
  if (given.element_type != expected.element_type || given.dims.size() != expected.dims.size()) return {};
  for (size_t i = 0; i < given.dims.size(); ++i) {
    if (expected.dims[i] < 0 || given.dims[i] == expected.dims[i]) continue;
    return ": dimension " + std::to_string(i) + " is " + std::to_string(given.dims[i]) + " and must be " + std::to_string(expected.dims[i]);
  }
  return {};
}

// "; convert the array to f32 and save it again": what to do about a file whose array does not fit.
std::string change_of_file(const Shape& given, const Shape& expected) {
  if (given.element_type != expected.element_type)
    return "; convert the array to " + std::string(module::element_type_name(expected.element_type)) + " and save it again";
  return given.dims.size() != expected.dims.size() ? "; reshape the array and save it again" : "";
}

}  // namespace

Wrong parse_inputs(const std::vector<std::string>& texts, std::vector<TensorArgument>& out) {
  out.resize(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (Wrong wrong = parse_tensor_argument(texts[i], out[i]); !wrong.empty()) return "--input " + wrong;
  }
  expand_npz(out);
  return {};
}

Wrong parse_inputs(const std::vector<std::string>& texts, const RuntimeFlags& runtime_flags, const ModuleFlags& module_flags,
                   std::vector<TensorArgument>& out) {
  Wrong wrong = parse_inputs(texts, out);
  if (wrong.empty() || !config_with_raised_rights(runtime_flags).empty()) return wrong;
  // The command ends here: only the error text needs the module, which may be absent or wrong itself.
  RuntimeFlags flags = runtime_flags;
  Runtime runtime;
  Module module;
  heddle_status_t* failed = resolve_plugin_paths(flags).empty() ? create_runtime(flags, runtime) : nullptr;
  if (!failed && runtime) failed = open_module(runtime.get(), module_flags, module);
  heddle_status_free(failed);
  if (!module) return wrong;
  const Json function = function_report(module.get(), module_flags.function);
  const Json& arguments = array(function, "arguments");
  // The first wrong text, and the argument that it names.
  TensorArgument ignored;
  const std::string& text =
      *std::find_if(texts.begin(), texts.end(), [&](const auto& one) { return !parse_tensor_argument(one, ignored).empty(); });
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].value("name", std::string());
    if (!name.empty() && (text == name || text.starts_with(name + "="))) return wrong + for_example(function, i);
  }
  return arguments.size() == 1 ? wrong + for_example(function, 0) : wrong;
}

std::optional<int> gather_inputs(const Flags& flags, const std::vector<TensorArgument>& given, const Function& function,
                                 heddle_module_t* module, const std::string& function_name, const MakeInput& make_missing,
                                 std::vector<HostTensor>& out) {
  const size_t count = function.arguments.size();
  auto report = [&] { return function_report(module, function_name); };  // needed for error texts only
  std::vector<const TensorArgument*> chosen(count, nullptr);
  for (const TensorArgument& input : given) {
    if (input.name.empty()) continue;
    size_t at = 0;
    while (at < count && function.arguments[at].name != input.name) ++at;
    if (at == count) {
      const bool is_array = !input.array.empty() && input.array == input.name;
      const std::string from = is_array ? " for the array of that name in '" + input.path + "'" : "";
      return flags.misuse("--input: there is no input '" + input.name + "'" + from + "; the function has " + list(report(), function) +
                          (is_array ? "; choose arrays with NAME=@FILE:ARRAY" : ""));
    }
    if (chosen[at]) return flags.misuse("--input: '" + input.name + "' is given twice; give one value for it");
    chosen[at] = &input;
  }
  size_t next = 0;
  for (const TensorArgument& input : given) {
    if (!input.name.empty()) continue;
    while (next < count && chosen[next]) ++next;
    if (next == count)
      return flags.misuse("--input: " + std::to_string(given.size()) + " inputs given, the function has " + std::to_string(count) + ": " +
                          list(report(), function));
    chosen[next] = &input;
  }
  out.assign(count, {});
  for (size_t i = 0; i < count; ++i) {
    const Function::Type& type = function.arguments[i];
    const std::string name = type.name.empty() ? std::to_string(i) : "'" + type.name + "'";
    if (chosen[i]) {
      const bool is_file = !chosen[i]->path.empty();
      if (!is_file && !fits(chosen[i]->shape, type.shape)) {
        return flags.misuse("--input " + name + ": expected " + type_text(report(), i, type.shape) + ", got " +
                            shape_text(chosen[i]->shape) + first_wrong(chosen[i]->shape, type.shape) + for_example(report(), i));
      }
      if (Wrong wrong = load_tensor(*chosen[i], type.shape, out[i]); !wrong.empty()) {
        wrong = "--input " + name + ": " + wrong;
        return is_file ? flags.failed(wrong) : flags.misuse(wrong + for_example(report(), i));
      }
      if (is_file && !fits(out[i].shape, type.shape)) {
        const std::string array = chosen[i]->array.empty() ? "" : ", array '" + chosen[i]->array + "'";
        return flags.failed("--input " + name + ": '" + chosen[i]->path + "'" + array + ": expected " + type_text(report(), i, type.shape) +
                            ", got " + shape_text(out[i].shape) + first_wrong(out[i].shape, type.shape) +
                            change_of_file(out[i].shape, type.shape));
      }
    } else if (!make_missing) {
      return flags.misuse("input " + name + " (" + type_text(report(), i, type.shape) + ") is missing: give --input " +
                          (type.name.empty() ? "" : type.name + "=") + "..." + for_example(report(), i));
    } else if (Wrong wrong = make_missing(i, out[i]); !wrong.empty()) {
      return flags.misuse("input " + name + ": " + wrong);
    }
  }
  return std::nullopt;
}

heddle_status_t* upload_inputs(const Function& function, const std::vector<HostTensor>& values, std::vector<Tensor>& out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Shape& shape = values[i].shape;
    heddle_tensor_t* tensor = nullptr;
    heddle_status_t* status =
        heddle_tensor_from_host(function.handle, static_cast<uint32_t>(i), shape.element_type, shape.dims.data(),
                                static_cast<uint32_t>(shape.dims.size()), values[i].bytes.data(), values[i].bytes.size(), &tensor);
    out.emplace_back(tensor);
    if (status) return status;
  }
  return nullptr;
}

}  // namespace heddle::tool
