// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text as JSON strings. Used by report.cpp and config_schema.cpp, which write the rest of their JSON by hand.
#ifndef HEDDLE_CORE_HOST_JSON_TEXT_H_
#define HEDDLE_CORE_HOST_JSON_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace heddle::host {

// A JSON string; bytes that are not UTF-8 become U+FFFD, so that the JSON stays valid.
std::string json_quoted(std::string_view text);
// A JSON array of strings.
std::string json_quoted(const std::vector<std::string>& texts);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_JSON_TEXT_H_
