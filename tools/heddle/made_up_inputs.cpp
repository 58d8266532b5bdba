// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the symbols from the module's report: runtime.h tells only that an extent is not known.
#include "tools/heddle/made_up_inputs.h"

#include <algorithm>

#include "tools/heddle/random_values.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {

Wrong MadeUpInputs::parse(const std::vector<std::string>& dims) {
  for (const std::string& text : dims) {
    const Assignment dim = split_assignment(text);
    const bool digits = !dim.value.empty() && dim.value.size() < 19 && dim.value.find_first_not_of("0123456789") == std::string::npos;
    if (dim.name.empty() || !digits) return "--dim '" + text + "': expected NAME=N, such as batch=4";
    chosen_[dim.name] = std::stoll(dim.value);
  }
  return {};
}

Wrong MadeUpInputs::find_symbols(heddle_module_t* module, const std::string& function_name) {
  const Json function = function_report(module, function_name);
  for (const Json& argument : array(function, "arguments")) {
    names_.emplace_back();
    for (const Json& dim : array(argument, "dims")) names_.back().push_back(dim.is_string() ? dim.get<std::string>() : "");
  }
  for (const Json& symbol : array(function, "symbols")) {
    const int64_t least = std::max<int64_t>(symbol.value("min", int64_t{1}), 1),
                  divisor = std::max<int64_t>(symbol.value("divisor", int64_t{1}), 1);
    least_[symbol.value("name", std::string())] = (least - 1) / divisor * divisor + divisor;
  }
  for (const auto& [name, extent] : chosen_) {
    if (least_.count(name) != 0) continue;
    std::string known;
    for (const auto& [symbol, least] : least_) known += (known.empty() ? "" : ", ") + symbol;
    return "--dim '" + name + "' is not a symbol of the function; it has " + (known.empty() ? "none" : known);
  }
  return {};
}

Wrong MadeUpInputs::make(const Function& function, size_t index, uint64_t seed, HostTensor& out) const {
  out.shape = function.arguments[index].shape;
  for (size_t d = 0; d < out.shape.dims.size(); ++d) {
    if (out.shape.dims[d] >= 0) continue;
    const std::string name = index < names_.size() && d < names_[index].size() ? names_[index][d] : "";
    const auto chosen = chosen_.find(name);
    const auto least = least_.find(name);
    out.shape.dims[d] = chosen != chosen_.end() ? chosen->second : least != least_.end() ? least->second : 1;
  }
  return fill_random(out, seed * 1000003 + index);
}

}  // namespace heddle::tool
