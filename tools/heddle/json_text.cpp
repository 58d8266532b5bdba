// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results as JSON text.
#include "tools/heddle/json_text.h"

#include <cmath>

#include "sdk/module/element_types.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {

std::string result_json_head(const std::string& name, const Shape& shape) {
  return "{\"name\":" + dump_json(name, -1) + ",\"shape\":" + dump_json(shape.dims, -1) + ",\"type\":\"" +
         std::string(module::element_type_name(shape.element_type)) + "\",\"values\":[";
}

std::string value_json(const HostTensor& tensor, uint64_t index) {
  const double value = element(tensor, index);
  return std::isfinite(value) ? element_text(tensor, index) : std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
}

std::string result_json(const std::string& name, const HostTensor& tensor, uint64_t most) {
  const uint64_t count = element_count(tensor.shape).value_or(0);
  std::string out = result_json_head(name, tensor.shape);
  for (uint64_t i = 0; i < count && i < most; ++i) out += (i ? "," : "") + value_json(tensor, i);
  return out + "]}";
}

}  // namespace heddle::tool
