// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options as command-line arguments. Linked into libheddle and heddle-probe.
#include "core/host/probe_protocol.h"

#include <fmt/format.h>

#include <charconv>

namespace heddle::host {

std::string option_to_argument(const OptionValue& option) {
  switch (option.kind) {
    case HEDDLE_OPTION_INT:
      return fmt::format("{}=int:{}", option.name, option.int_value);
    case HEDDLE_OPTION_BOOL:
      return fmt::format("{}=bool:{}", option.name, option.int_value);
    case HEDDLE_OPTION_FLOAT:
      return fmt::format("{}=float:{}", option.name, option.float_value);
    default:
      return fmt::format("{}=string:{}", option.name, option.string_value);
  }
}

bool option_from_argument(const std::string& argument, OptionValue* out_option) {
  size_t equals = argument.find('=');
  size_t colon = argument.find(':', equals == std::string::npos ? 0 : equals);
  if (equals == std::string::npos || colon == std::string::npos) return false;
  out_option->name = argument.substr(0, equals);
  std::string kind = argument.substr(equals + 1, colon - equals - 1);
  std::string value = argument.substr(colon + 1);
  const char* end = value.data() + value.size();
  if (kind == "string") {
    out_option->kind = HEDDLE_OPTION_STRING;
    out_option->string_value = value;
    return true;
  }
  if (kind == "float") {
    out_option->kind = HEDDLE_OPTION_FLOAT;
    return std::from_chars(value.data(), end, out_option->float_value).ec == std::errc();
  }
  out_option->kind = kind == "bool" ? HEDDLE_OPTION_BOOL : HEDDLE_OPTION_INT;
  return (kind == "bool" || kind == "int") && std::from_chars(value.data(), end, out_option->int_value).ec == std::errc();
}

}  // namespace heddle::host
