// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matching of inputs to arguments.
#include "tools/heddle/inputs.h"

namespace heddle::tool {

namespace {

// A shape of the command line that no call can take. What only the call knows, as the range of a symbol, is the call's to say.
bool fits(const Shape& given, const Shape& expected) {
  if (given.element_type != expected.element_type || given.dims.size() != expected.dims.size()) return false;
  for (size_t i = 0; i < given.dims.size(); ++i) {
    if (expected.dims[i] >= 0 && given.dims[i] != expected.dims[i]) return false;
  }
  return true;
}

}  // namespace

Wrong parse_inputs(const std::vector<std::string>& texts, std::vector<TensorArgument>& out) {
  out.resize(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (Wrong wrong = parse_tensor_argument(texts[i], out[i]); !wrong.empty()) return "--input " + wrong;
  }
  return {};
}

std::optional<int> gather_inputs(const Flags& flags, const std::vector<TensorArgument>& given, const Function& function,
                                 const MakeInput& make_missing, std::vector<HostTensor>& out) {
  const size_t count = function.arguments.size();
  std::vector<const TensorArgument*> chosen(count, nullptr);
  for (const TensorArgument& input : given) {
    if (input.name.empty()) continue;
    size_t at = 0;
    while (at < count && function.arguments[at].name != input.name) ++at;
    if (at == count)
      return flags.misuse("--input: there is no input '" + input.name + "'; the function has " + Function::list(function.arguments));
    if (chosen[at]) return flags.misuse("--input: '" + input.name + "' is given twice");
    chosen[at] = &input;
  }
  size_t next = 0;
  for (const TensorArgument& input : given) {
    if (!input.name.empty()) continue;
    while (next < count && chosen[next]) ++next;
    if (next == count)
      return flags.misuse("--input: " + std::to_string(given.size()) + " inputs, the function has " + std::to_string(count) + ": " +
                          Function::list(function.arguments));
    chosen[next] = &input;
  }
  out.assign(count, {});
  for (size_t i = 0; i < count; ++i) {
    const Function::Type& type = function.arguments[i];
    const std::string name = type.name.empty() ? std::to_string(i) : "'" + type.name + "'";
    if (chosen[i]) {
      const bool is_file = !chosen[i]->path.empty();
      if (!is_file && !fits(chosen[i]->shape, type.shape)) {
        return flags.misuse("--input " + name + ": expected " + shape_text(type.shape) + ", got " + shape_text(chosen[i]->shape));
      }
      if (Wrong wrong = load_tensor(*chosen[i], type.shape, out[i]); !wrong.empty()) {
        wrong = "--input " + name + ": " + wrong;
        return is_file ? flags.failed(wrong) : flags.misuse(wrong);
      }
    } else if (!make_missing) {
      return flags.misuse("input " + name + " (" + shape_text(type.shape) + ") is missing: give --input " +
                          (type.name.empty() ? "" : type.name + "=") + "...");
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
