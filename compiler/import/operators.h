// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of library plugins, as their manifests declare them: [[operator]] tables with inputs, the rule for the outputs' types, attributes.
// Read by the pipeline, queried by importers; the plugin's library is not opened. Knows no model format, and no IR but element types.
//
//   [[operator]]
//   domain = "com.acme"                             # "ai.onnx", or the empty string, is ONNX's default domain
//   name = "Resample"
//   version = 2                                     # major; the oldest opset of the domain that has it. 1 if omitted
//   inputs = ["x", "kernel", "bias?"]               # '?': may be left out, at the end
//   outputs = [{ like = "x" },                      # type and extents of an input, unless overridden by:
//              { type = "i64", dims = ["x.0", 4] }] # an element type, or an input's; extents, numbers or an input's
//   attributes.factor = { type = "int" }            # required: there is no default
//   attributes.mode = { type = "string", default = "linear" }
// Anything that an output's rule leaves open is taken from the model.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::import {

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

// The domain of the operators that the compiler knows itself. ONNX models may also write it as an empty string.
inline constexpr const char* default_domain = "ai.onnx";
// ONNX's domain of operators that are not final yet.
inline constexpr const char* preview_domain = "ai.onnx.preview";
// ONNX's domain of operators for training, which are not final either.
inline constexpr const char* training_domain = "ai.onnx.preview.training";

// The names in manifests of the kinds above, in their order.
inline constexpr const char* attribute_kinds[] = {"int", "float", "string", "ints", "floats"};

struct OperatorAttribute {
  std::string name;
  size_t kind = 0;  // index of AttributeValue's alternative
  std::optional<AttributeValue> fallback;
};

struct OperatorExtent {
  int64_t value = 0;  // input < 0: this
  int input = -1;     // else extent `dim` of that input
  int64_t dim = 0;
};

struct OperatorOutput {
  int type_of = -1;  // of this input; < 0: `type`
  std::string type;  // "f32"; empty: taken from the model
  int extents_of = -1;
  std::optional<std::vector<OperatorExtent>> extents;  // neither: taken from the model
};

struct Operator {
  std::string domain, name;
  int64_t version = 1;
  std::string plugin;  // id; empty if the file is not a complete manifest
  std::vector<std::string> inputs;
  size_t required_inputs = 0;
  std::vector<OperatorOutput> outputs;
  std::vector<OperatorAttribute> attributes;  // sorted by name

  std::string describe() const { return domain + "::" + name + "/" + std::to_string(version); }
};

class Operators {
 public:
  // Reads a manifest, or every *.toml of a directory; returns an error text, or an empty text. Files of a directory without [[operator]] are skipped.
  std::string add(const std::string& path);

  // The newest declared version that is not newer than the opset, or null. out_known: the declared versions, for an error text.
  const Operator* find(const std::string& domain, const std::string& name, int64_t opset, std::string* out_known) const;

 private:
  std::string add_file(const std::string& path, bool must_declare);
  std::deque<Operator> operators_;  // importers keep their addresses
};

}  // namespace heddle::import
