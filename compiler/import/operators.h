// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of library plugins, as their manifests declare them: [[operator]] tables with inputs, the rule of the outputs' types, attributes.
// Read by the pipeline, asked by importers; the plugin's library is not looked at. Knows no model format and no IR but element types.
//
//   [[operator]]
//   domain = "com.acme"                             # "ai.onnx", or nothing between the quotes, is the default one of ONNX
//   name = "Resample"
//   version = 2                                     # major; the oldest opset of the domain that has it. 1 if it is not said
//   inputs = ["x", "kernel", "bias?"]               # '?': may be left out, at the end
//   outputs = [{ like = "x" },                      # type and extents of an input, or what is said beside it:
//              { type = "i64", dims = ["x.0", 4] }] # an element type, or an input's; extents, numbers or an input's
//   attributes.factor = { type = "int" }            # must be there: there is no default
//   attributes.mode = { type = "string", default = "linear" }
// What an output's rule does not say is taken from the model.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::import {

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

// The domain of the operators that the compiler knows itself. Elsewhere in ONNX it may be written as an empty text.
inline constexpr const char* default_domain = "ai.onnx";

// The words of manifests for the kinds above, in their order.
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
  std::string type;  // "f32"; empty: the model says it
  int extents_of = -1;
  std::optional<std::vector<OperatorExtent>> extents;  // neither: the model says them
};

struct Operator {
  std::string domain, name;
  int64_t version = 1;
  std::string plugin;  // id; empty where the file is no whole manifest
  std::vector<std::string> inputs;
  size_t required_inputs = 0;
  std::vector<OperatorOutput> outputs;
  std::vector<OperatorAttribute> attributes;  // sorted by name

  std::string describe() const { return domain + "::" + name + "/" + std::to_string(version); }
};

class Operators {
 public:
  // Reads a manifest, or every *.toml of a folder; what is wrong, or an empty text. A file of a folder without [[operator]] is passed over.
  std::string add(const std::string& path);

  // The newest declared version that is not newer than the opset, or null. out_known: versions that are declared, for an error text.
  const Operator* find(const std::string& domain, const std::string& name, int64_t opset, std::string* out_known) const;

 private:
  std::string add_file(const std::string& path, bool must_declare);
  std::deque<Operator> operators_;  // their addresses are kept by importers
};

}  // namespace heddle::import
