// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/host/config_schema.h"

#include <fmt/format.h>

#include "core/host/config_check.h"
#include "core/host/json_text.h"
#include "sdk/module/element_types.h"

namespace heddle::host {
namespace {

// Everything except the options of plugins, which are inserted at the marks.
constexpr std::string_view kSchema = R"({
"$schema": "https://json-schema.org/draft/2020-12/schema",
"title": "heddle.toml",
"type": "object",
"additionalProperties": false,
"$defs": {
  "text": {"type": "string", "minLength": 1},
  "texts": {"type": "array", "items": {"$ref": "#/$defs/text"}},
  "id": {"type": "string", "pattern": "^(?!.*\\.\\.)[A-Za-z0-9_-]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?$"},
  "bytes": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+ ?([KMGT]iB|[kKMGT]?B)?$"}]},
  "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
  "digests": {"anyOf": [{"$ref": "#/$defs/digest"}, {"type": "array", "items": {"$ref": "#/$defs/digest"}}]},
  "level": {"enum": ["trace", "debug", "info", "warn", "error", "off"]},
  "mode": {"enum": ["normal", "strict"]},
  "allocator": {"type": "object", "properties": {
    "plugin": {"$ref": "#/$defs/id"},
    "over": {"$ref": "#/$defs/allocator", "required": ["plugin"]}}, "allOf": [@allocators@]}
},
"properties": {
  "version": {"const": 1, "description": "version of this format"},
  "imports": {"$ref": "#/$defs/texts", "description": "files to read first, relative to this one"},
  "interpreted": {"enum": ["allow", "warn", "forbid"], "description": "for devices that interpret portable code"},
  "plugins": {"type": "object", "additionalProperties": false, "not": {"required": ["path", "paths"]}, "properties": {
    "paths": {"type": "array", "items": {"type": "string", "pattern": "^/"}, "description": "directories to search for manifests"},
    "path": {"type": "array", "items": {"type": "string", "pattern": "^/"}, "deprecated": true, "description": "older name of paths"},
    "require": {"type": "array", "items": {"$ref": "#/$defs/id"}, "description": "plugins that must be available"},
    "disable": {"type": "array", "items": {"$ref": "#/$defs/id"}, "description": "plugins that are not used"},
    "pin": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^=."}, "description": "exact version per id"},
    "probe": {"type": "object", "additionalProperties": {"enum": ["child", "in-process"]}},
    "security": {"type": "object", "additionalProperties": false, "properties": {
      "mode": {"$ref": "#/$defs/mode"},
      "digests": {"type": "object", "additionalProperties": {"$ref": "#/$defs/digests"}}}}}},
  "modules": {"type": "object", "additionalProperties": false, "properties": {
    "security": {"type": "object", "additionalProperties": false, "properties": {
      "mode": {"$ref": "#/$defs/mode"},
      "digests": {"$ref": "#/$defs/digests"}}}}},
  "driver": @drivers@,
  "device": {"type": "object", "additionalProperties": false, "patternProperties": {"^[A-Za-z0-9_-]{1,64}$": {
    "type": "object", "additionalProperties": false, "required": ["driver", "select"], "properties": {
      "driver": {"$ref": "#/$defs/id"},
      "select": {"type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1, "properties": {
        "uuid": {"type": "string"},
        "pci": {"type": "string"},
        "ordinal": {"type": "integer", "minimum": 0, "maximum": 4294967295}}},
      "affinity": {"type": "object", "additionalProperties": false, "properties": {
        "numa": {"type": "integer", "minimum": 0, "maximum": 4095},
        "cpus": {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"}}},
      "allocator": {"$ref": "#/$defs/allocator"}}}}},
  "param_io": {"type": "object", "additionalProperties": false, "properties": {
    "method": {"type": "array", "items": {"enum": ["gds", "direct", "buffered", "preload", "mmap"]}},
    "chunk": {"$ref": "#/$defs/bytes"},
    "queue_depth": {"type": "integer", "minimum": 1, "maximum": 4096},
    "pinned_staging": {"$ref": "#/$defs/bytes"},
    "derived_cache": {"$ref": "#/$defs/bytes"}}},
  "link": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["between"], "properties": {
    "between": {"type": "array", "items": {"$ref": "#/$defs/text"}, "minItems": 2, "maxItems": 2, "uniqueItems": true},
    "kind": {"enum": ["pci", "nvlink", "xgmi", "same-memory"]},
    "p2p": {"enum": ["auto", "require", "off"]}}}},
  "route": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["slot", "to"], "properties": {
    "slot": {"type": "string", "pattern": "^(default|@.*)?$"},
    "to": {"type": "array", "items": {"$ref": "#/$defs/text"}, "minItems": 1},
    "fallback": {"enum": ["error", "next"]}}}},
  "prefer": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["op", "use"], "properties": {
    "op": {"$ref": "#/$defs/text", "description": "glob of regions"},
    "dtype": {"type": "array", "items": {"enum": @types@}},
    "use": {"type": "array", "items": {"type": "string", "pattern": "^(own|interpreted|(library|variant|driver):.+)$"}, "minItems": 1}}}},
  "trace": {"type": "object", "additionalProperties": false, "required": ["sink"], "properties": {
    "sink": {"$ref": "#/$defs/text"},
    "categories": {"type": "array", "items": {"enum": ["dispatch", "transfer", "memory", "plugins"]}}}},
  "log": {"type": "object", "additionalProperties": false, "properties": {
    "level": {"$ref": "#/$defs/level"},
    "components": {"type": "object", "additionalProperties": {"$ref": "#/$defs/level"}}}},
  "validation": {"type": "object", "additionalProperties": false, "dependentRequired": {"dump": ["dump_folder"]}, "properties": {
    "calls": {"type": "boolean", "description": "check every plugin call"},
    "stop_at_nan": {"type": "boolean", "description": "a call fails at the first region that produces a NaN"},
    "stop_at_inf": {"type": "boolean"},
    "dump": {"type": "array", "items": {"$ref": "#/$defs/text"}, "description": "globs of the regions whose values are written"},
    "dump_folder": {"type": "string", "pattern": "^/"}}}
}})";

std::string option_schema(const OptionSpec& option) {
  if (!option.values.empty()) return fmt::format("{{\"enum\": {}}}", json_quoted(option.values));
  auto bounded = [&](std::string_view type) {
    std::string out = fmt::format("{{\"type\": \"{}\"", type);
    if (option.int_min) out += fmt::format(", \"minimum\": {}", *option.int_min);
    if (option.int_max) out += fmt::format(", \"maximum\": {}", *option.int_max);
    if (option.min) out += fmt::format(", \"minimum\": {}", *option.min);
    if (option.max) out += fmt::format(", \"maximum\": {}", *option.max);
    return out + "}";
  };
  switch (option.type) {
    case OptionSpec::kInt:
      return bounded("integer");
    case OptionSpec::kFloat:
      return bounded("number");
    case OptionSpec::kBool:
      return R"({"type": "boolean"})";
    case OptionSpec::kBytes:
      return R"({"$ref": "#/$defs/bytes"})";
    case OptionSpec::kString:
      return R"({"type": "string"})";
  }
  return "true";
}

// first: properties that are not options.
std::string table_schema(const Manifest& manifest, std::string first = {}) {
  std::string properties = std::move(first);
  for (const OptionSpec& option : manifest.options) {
    properties += fmt::format("{}{}: {}", properties.empty() ? "" : ", ", json_quoted(option.name), option_schema(option));
  }
  return fmt::format("{{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {{{}}}}}", properties);
}

// The options of an allocator if the table names it, or if the table names none and it is the default.
std::string allocator_schema(const Manifest& manifest) {
  return fmt::format("\n    {{\"if\": {{\"properties\": {{\"plugin\": {{\"const\": {}}}}}{}}}, \"then\": {}}}", json_quoted(manifest.id),
                     manifest.id == kDefaultAllocator ? "" : ", \"required\": [\"plugin\"]",
                     table_schema(manifest, "\"plugin\": true, \"over\": true"));
}

}  // namespace

std::string config_schema(const std::vector<const Manifest*>& manifests) {
  std::string drivers, allocators;
  for (const Manifest* manifest : manifests) {
    if ((manifest->kind & HEDDLE_PLUGIN_ALLOCATOR) != 0) allocators += (allocators.empty() ? "" : ",") + allocator_schema(*manifest);
    if ((manifest->kind & HEDDLE_PLUGIN_DRIVER) == 0) continue;
    drivers += fmt::format("{}\n    {}: {}", drivers.empty() ? "" : ",", json_quoted(manifest->id), table_schema(*manifest));
  }
  // A driver that is not installed here may be installed on the machine that the file is for.
  const std::string table = fmt::format(
      "{{\"type\": \"object\", \"additionalProperties\": {{\"type\": \"object\"}}, \"propertyNames\": {{\"$ref\": \"#/$defs/id\"}}, "
      "\"properties\": {{{}}}}}",
      drivers);
  if (allocators.empty()) allocators = "true";
  std::string schema(kSchema);
  auto fill = [&](std::string_view mark, const std::string& text) { schema.replace(schema.find(mark), mark.size(), text); };
  fill("@drivers@", table);
  fill("@allocators@", allocators);
  fill("@types@", json_quoted(module::element_type_names()));
  return schema;
}

}  // namespace heddle::host
