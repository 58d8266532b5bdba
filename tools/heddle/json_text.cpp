// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results as JSON.
#include "tools/heddle/json_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "sdk/module/element_types.h"

namespace heddle::tool {

std::string result_json(const std::string& name, const HostTensor& tensor, uint64_t most) {
  const uint64_t count = element_count(tensor.shape).value_or(0);
  std::string values = "[";
  for (uint64_t i = 0; i < count && i < most; ++i) {
    const double value = element(tensor, i);
    if (i) values += ',';
    values += std::isfinite(value) ? element_text(tensor, i) : std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
  }
  const nlohmann::json quoted_name(name), dims(tensor.shape.dims);
  return "{\"name\":" + quoted_name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + ",\"shape\":" + dims.dump() +
         ",\"type\":\"" + std::string(module::element_type_name(tensor.shape.element_type)) + "\",\"values\":" + values + "]}";
}

}  // namespace heddle::tool
