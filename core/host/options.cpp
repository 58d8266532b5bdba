// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typed options: declared in a manifest, set in a configuration, passed to plugins as heddle_option_t.
#include "core/host/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/status.h"

namespace heddle::host {
namespace {

uint32_t c_kind(OptionSpec::Type type) {
  switch (type) {
    case OptionSpec::kInt:
    case OptionSpec::kBytes:
      return HEDDLE_OPTION_INT;
    case OptionSpec::kBool:
      return HEDDLE_OPTION_BOOL;
    case OptionSpec::kFloat:
      return HEDDLE_OPTION_FLOAT;
    case OptionSpec::kString:
      return HEDDLE_OPTION_STRING;
  }
  return HEDDLE_OPTION_STRING;
}

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> names = {"int", "bool", "float", "string", "bytes"};
  return names;
}

// A bound of an option, in the option's type.
bool read_bound(TableReader& table, const char* key, OptionSpec::Type type, std::optional<int64_t>* out_int,
                std::optional<double>* out_float) {
  if (type == OptionSpec::kInt) {
    if (const TomlNode* node = table.value(key, {TomlNode::kInt})) *out_int = node->integer;
  } else if (type == OptionSpec::kFloat) {
    if (const TomlNode* node = table.value(key, {TomlNode::kFloat, TomlNode::kInt})) {
      *out_float = node->kind == TomlNode::kInt ? static_cast<double>(node->integer) : node->number;
    }
  } else {
    uint64_t bytes = 0;
    if (!table.bytes(key, &bytes)) return true;
    if (bytes > INT64_MAX) return false;
    *out_int = static_cast<int64_t>(bytes);
  }
  return true;
}

}  // namespace

std::vector<heddle_option_t> to_c(const std::vector<OptionValue>& options) {
  std::vector<heddle_option_t> view;
  view.reserve(options.size());
  for (const OptionValue& option : options) {
    view.push_back({sizeof(heddle_option_t), option.kind, heddle::to_c(option.name), option.int_value, option.float_value,
                    heddle::to_c(option.string_value)});
  }
  return view;
}

std::string to_toml(const OptionValue& option) {
  switch (option.kind) {
    case HEDDLE_OPTION_BOOL:
      return option.int_value != 0 ? "true" : "false";
    case HEDDLE_OPTION_INT:
      return fmt::format("{}", option.int_value);
    case HEDDLE_OPTION_FLOAT:
      return fmt::format("{}", option.float_value);
    default:
      return "\"" + option.string_value + "\"";
  }
}

bool read_option_value(const OptionSpec& spec, const TomlNode& node, Place place, const std::string& origin, Diagnostics& diagnostics,
                       OptionValue* out_value) {
  OptionValue value;
  value.name = spec.name;
  value.kind = c_kind(spec.type);
  value.origin = origin;
  const std::string text = to_toml(node);
  auto refuse = [&](Code code, const std::string& expected, const std::string& hint = {}) {
    diagnostics.error(place, code, fmt::format("option '{}' is {}; {} was expected", spec.name, text.substr(0, 80), expected), hint,
                      text.size());
    return false;
  };
  switch (spec.type) {
    case OptionSpec::kInt:
      if (node.kind != TomlNode::kInt) return refuse("E103", "an integer");
      value.int_value = node.integer;
      break;
    case OptionSpec::kBool:
      if (node.kind != TomlNode::kBool) return refuse("E103", "true or false");
      value.int_value = node.integer;
      break;
    case OptionSpec::kFloat:
      if (node.kind != TomlNode::kFloat && node.kind != TomlNode::kInt) return refuse("E103", "a number");
      value.float_value = node.kind == TomlNode::kInt ? static_cast<double>(node.integer) : node.number;
      if (!std::isfinite(value.float_value)) return refuse("E105", "a finite number");
      if ((spec.min && value.float_value < *spec.min) || (spec.max && value.float_value > *spec.max)) {
        return refuse("E105", fmt::format("{} to {}", spec.min ? fmt::format("{}", *spec.min) : "any",
                                          spec.max ? fmt::format("{}", *spec.max) : "any"));
      }
      break;
    case OptionSpec::kString:
      if (node.kind != TomlNode::kString) return refuse("E103", "a string");
      if (!spec.values.empty() && std::find(spec.values.begin(), spec.values.end(), node.string) == spec.values.end()) {
        return refuse("E105", quoted_words(spec.values), did_you_mean(node.string, spec.values));
      }
      value.string_value = node.string;
      break;
    case OptionSpec::kBytes: {
      uint64_t bytes = 0;
      std::string wrong;
      if (node.kind == TomlNode::kInt && node.integer >= 0) {
        bytes = static_cast<uint64_t>(node.integer);
      } else if (node.kind != TomlNode::kString) {
        return refuse("E103", "a size such as \"2GiB\"");
      } else if (!parse_bytes(node.string, &bytes, &wrong)) {
        diagnostics.error(place, "E105", wrong, {}, text.size());
        return false;
      }
      if (bytes > INT64_MAX) return refuse("E105", "at most 8 EiB");
      value.int_value = static_cast<int64_t>(bytes);
      break;
    }
  }
  if (spec.type == OptionSpec::kInt || spec.type == OptionSpec::kBytes) {
    if ((spec.int_min && value.int_value < *spec.int_min) || (spec.int_max && value.int_value > *spec.int_max)) {
      const char* unit = spec.type == OptionSpec::kBytes ? " bytes" : "";
      return refuse("E105", !spec.int_max   ? fmt::format("{}{} or more", *spec.int_min, unit)
                            : !spec.int_min ? fmt::format("{}{} or less", *spec.int_max, unit)
                                            : fmt::format("{} to {}{}", *spec.int_min, *spec.int_max, unit));
    }
  }
  *out_value = std::move(value);
  return true;
}

bool read_option_spec(const TomlNode& node, uint32_t file, Diagnostics& diagnostics, OptionSpec* out_spec) {
  const size_t errors_before = diagnostics.error_count();
  TableReader table(node, file, "options." + node.key, diagnostics);
  OptionSpec spec;
  spec.name = node.key;
  size_t type = OptionSpec::kString;
  table.require("type", "type = \"int\"");
  table.choice("type", type_names(), &type);
  spec.type = static_cast<OptionSpec::Type>(type);
  if (spec.type == OptionSpec::kInt || spec.type == OptionSpec::kFloat || spec.type == OptionSpec::kBytes) {
    if (!read_bound(table, "min", spec.type, &spec.int_min, &spec.min) || !read_bound(table, "max", spec.type, &spec.int_max, &spec.max)) {
      diagnostics.error(table.own_place(), "E105", fmt::format("a bound of option '{}' is over 8 EiB; less was expected", spec.name));
    }
  }
  if (spec.type == OptionSpec::kString) table.strings("values", &spec.values, true);
  std::string description;
  table.string("description", &description);
  table.require("default", "default = 0");
  const TomlNode* fallback = table.value("default", {TomlNode::kInt, TomlNode::kBool, TomlNode::kFloat, TomlNode::kString});
  table.finish();
  if (diagnostics.error_count() == errors_before && fallback) {
    read_option_value(spec, *fallback, table.place(*fallback), kManifestDefault, diagnostics, &spec.fallback);
  }
  if (diagnostics.error_count() != errors_before) return false;
  *out_spec = std::move(spec);
  return true;
}

}  // namespace heddle::host
