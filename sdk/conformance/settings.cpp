// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See settings.h.
#include "settings.h"

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace heddle::conformance {

namespace fs = std::filesystem;

const char kUsage[] =
    "usage: heddle-conformance --plugin FILE [--json] [--filter TEXT] [--seed N] [...]\n"
    "\n"
    "Checks that a plugin keeps the rules of its ABI. Each case runs in a child process.\n"
    "\n"
    "  --plugin FILE        the library, or its manifest\n"
    "  --filter TEXT        only cases whose name holds TEXT; several, divided by commas\n"
    "  --list               the cases and what each checks\n"
    "  --seed N             of the random numbers; 1\n"
    "  --jobs N             cases at a time; 1\n"
    "  --time-limit S       seconds of one case; 60\n"
    "  --large              also move more than 4 GiB at once\n"
    "  --option NAME=VALUE  an option of the plugin's manifest\n"
    "  --skips FILE         default: conformance/skips.toml beside the manifest\n"
    "  --kernels FILE       default: conformance/kernels.toml beside the manifest\n"
    "  --operators FILE     default: conformance/operators.toml beside the manifest\n"
    "  --beside FILE        another plugin's library: both in one process\n"
    "  --json               results as JSON instead of a table\n"
    "  --verbose            cases that pass, too\n"
    "\n"
    "Exit code: 0 all passed or were skipped with a reason, 1 some failed, 2 wrong usage or no plugin.\n";

namespace {

Settings current;

bool number_of(const std::string& text, uint64_t* out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// "8GiB", "64KiB" or a plain number.
bool bytes_of(std::string text, int64_t* out) {
  uint64_t scale = 1;
  for (auto [unit, factor] : {std::pair{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}) {
    if (text.size() > 3 && text.compare(text.size() - 3, 3, unit) == 0) {
      scale = uint64_t{1} << factor;
      text.resize(text.size() - 3);
    }
  }
  uint64_t value = 0;
  if (!number_of(text, &value) || value > INT64_MAX / scale) return false;
  *out = static_cast<int64_t>(value * scale);
  return true;
}

bool set_value(OptionValue* option, const std::string& text) {
  switch (option->kind) {
    case HEDDLE_OPTION_INT:
      return bytes_of(text, &option->int_value);
    case HEDDLE_OPTION_BOOL:
      option->int_value = text == "true";
      return text == "true" || text == "false";
    case HEDDLE_OPTION_FLOAT:
      return std::from_chars(text.data(), text.data() + text.size(), option->float_value).ec == std::errc();
    default:
      option->string_value = text;
      return true;
  }
}

void read_manifest(const std::string& path) {
  const toml::table manifest = toml::parse_file(path);
  current.manifest = path;
  current.id = manifest["plugin"]["id"].value_or(std::string());
  if (current.library.empty()) {
    current.library = fs::absolute(fs::path(path).parent_path() / manifest["plugin"]["library"].value_or(std::string())).string();
  }
  if (const toml::array* kinds = manifest["plugin"]["kind"].as_array()) {
    auto has = [&](const char* kind) {
      return std::any_of(kinds->begin(), kinds->end(), [&](const toml::node& node) { return node.value_or(std::string()) == kind; });
    };
    current.is_no_driver = !has("driver");
    current.is_no_allocator = !has("allocator");
    current.is_no_library = !has("library");
  }
  const toml::table* options = manifest["options"].as_table();
  if (!options) return;
  for (const auto& [name, node] : *options) {
    const toml::table* declared = node.as_table();
    if (!declared) continue;
    OptionValue option;
    option.name = name.str();
    const std::string type = (*declared)["type"].value_or(std::string("string"));
    option.kind = type == "int" || type == "bytes" ? HEDDLE_OPTION_INT
                  : type == "bool"                 ? HEDDLE_OPTION_BOOL
                  : type == "float"                ? HEDDLE_OPTION_FLOAT
                                                   : HEDDLE_OPTION_STRING;
    const toml::node_view<const toml::node> value = (*declared)["default"];
    if (const auto text = value.value<std::string>()) {
      if (!set_value(&option, *text)) throw std::runtime_error(path + ": option " + option.name + " has no default of its type");
    } else if (value.is_boolean()) {
      option.int_value = value.value_or(false);
    } else {
      option.int_value = value.value_or(int64_t{0});
      option.float_value = value.value_or(0.0);
    }
    current.options.push_back(option);
  }
}

// The manifest in the library's folder that names it; none is fine: then there are no options.
void find_manifest() {
  const fs::path library = current.library;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(library.parent_path(), ignored)) {
    if (file.path().extension() != ".toml") continue;
    const toml::table manifest = toml::parse_file(file.path().string());
    if (manifest["plugin"]["library"].value_or(std::string()) == library.filename().string()) return read_manifest(file.path().string());
  }
}

void read_skips(const std::string& path) {
  const toml::table file = toml::parse_file(path);
  const toml::table* skips = file["skips"].as_table();
  if (!skips) throw std::runtime_error(path + ": no table [skips]");
  for (const auto& [name, reason] : *skips) {
    const std::string text = reason.value_or(std::string());
    if (text.size() < 10) throw std::runtime_error(path + ": the skip of " + std::string(name.str()) + " has no reason");
    current.skips[std::string(name.str())] = text;
  }
}

void read_kernels(const std::string& path) {
  const toml::table file = toml::parse_file(path);
  KernelSet set;
  set.format = file["format"].value_or(std::string());
  set.target = file["target"].value_or(std::string());
  set.code = file["code"].value_or(std::string());
  set.elements_per_workgroup = file["elements_per_workgroup"].value_or(1u);
  set.workgroup_size = file["workgroup_size"].value_or(1u);
  if (const auto name = file["file"].value<std::string>()) {
    std::ifstream code(fs::path(path).parent_path() / *name, std::ios::binary);
    if (!code) throw std::runtime_error(path + ": there is no file " + *name);
    set.code.assign(std::istreambuf_iterator<char>(code), {});
  }
  set.entries = {"add", "count", "chain", "fail", "lose"};
  if (const toml::array* entries = file["entries"].as_array()) {
    set.entries.clear();
    for (const toml::node& entry : *entries) set.entries.push_back(entry.value_or(std::string()));
  }
  if (set.format.empty() || set.code.empty() || set.elements_per_workgroup == 0) {
    throw std::runtime_error(path + ": format, and code or file, must be there");
  }
  current.kernels.push_back(set);
}

uint32_t type_of(const std::string& path, const std::string& name) {
  static const std::map<std::string, uint32_t> types = {
      {"bool", HEDDLE_TYPE_BOOL}, {"i8", HEDDLE_TYPE_I8},   {"u8", HEDDLE_TYPE_U8},   {"i16", HEDDLE_TYPE_I16}, {"u16", HEDDLE_TYPE_U16},
      {"i32", HEDDLE_TYPE_I32},   {"u32", HEDDLE_TYPE_U32}, {"i64", HEDDLE_TYPE_I64}, {"u64", HEDDLE_TYPE_U64}, {"f16", HEDDLE_TYPE_F16},
      {"bf16", HEDDLE_TYPE_BF16}, {"f32", HEDDLE_TYPE_F32}, {"f64", HEDDLE_TYPE_F64}};
  const auto found = types.find(name);
  if (found == types.end()) throw std::runtime_error(path + ": '" + name + "' is no element type that the kit can make");
  return found->second;
}

void read_operands(const std::string& path, const toml::table& request, const char* key, std::vector<OperatorRequest::Operand>* out) {
  const toml::array* list = request[key].as_array();
  if (!list) throw std::runtime_error(path + ": a [[request]] has no list of " + key);
  for (const toml::node& node : *list) {
    const toml::table* table = node.as_table();
    const toml::array* dims = table ? (*table)["dims"].as_array() : nullptr;
    if (!dims) throw std::runtime_error(path + ": " + key + " must hold tables such as { type = \"f32\", dims = [2, 3] }");
    OperatorRequest::Operand operand;
    operand.type = type_of(path, (*table)["type"].value_or(std::string()));
    uint64_t elements = 1;
    for (const toml::node& dim : *dims) {
      operand.dims.push_back(dim.value_or(int64_t{-1}));
      elements *= static_cast<uint64_t>(operand.dims.back());
      if (operand.dims.back() < 0 || operand.dims.back() > 1 << 24 || elements > 1 << 24)
        throw std::runtime_error(path + ": an operand has a negative extent, or more than 2^24 elements");
    }
    if (const toml::array* range = (*table)["range"].as_array(); range && range->size() == 2) {
      operand.low = (*range)[0].value_or(0.0);
      operand.high = (*range)[1].value_or(0.0);
    }
    out->push_back(operand);
  }
}

OperatorRequest::Attribute read_attribute(const std::string& path, std::string name, const toml::node& node) {
  OperatorRequest::Attribute attribute;
  attribute.name = std::move(name);
  const toml::array* list = node.as_array();
  const bool is_float = node.is_floating_point() || (list && !list->empty() && (*list)[0].is_floating_point());
  if (node.is_string()) {
    attribute.kind = HEDDLE_ATTRIBUTE_STRING;
    attribute.text = node.value_or(std::string());
    return attribute;
  }
  if (!list && !node.is_number()) throw std::runtime_error(path + ": attribute " + attribute.name + " is no number, text or list");
  attribute.kind =
      is_float ? (list ? HEDDLE_ATTRIBUTE_FLOATS : HEDDLE_ATTRIBUTE_FLOAT) : (list ? HEDDLE_ATTRIBUTE_INTS : HEDDLE_ATTRIBUTE_INT);
  auto add = [&](const toml::node& value) {
    if (is_float) attribute.floats.push_back(value.value_or(0.0));
    if (!is_float) attribute.ints.push_back(value.value_or(int64_t{0}));
  };
  if (!list) add(node);
  for (size_t i = 0; list && i < list->size(); ++i) add((*list)[i]);
  return attribute;
}

void read_operators(const std::string& path) {
  const toml::table file = toml::parse_file(path);
  const toml::array* requests = file["request"].as_array();
  if (!requests) throw std::runtime_error(path + ": no [[request]]");
  for (const toml::node& node : *requests) {
    const toml::table* table = node.as_table();
    if (!table) throw std::runtime_error(path + ": 'request' must be [[request]] tables");
    OperatorRequest request;
    request.domain = (*table)["domain"].value_or(std::string());
    request.name = (*table)["name"].value_or(std::string());
    request.version = (*table)["version"].value_or(1u);
    read_operands(path, *table, "inputs", &request.operands);
    request.input_count = static_cast<uint32_t>(request.operands.size());
    read_operands(path, *table, "outputs", &request.operands);
    if (const toml::table* attributes = (*table)["attributes"].as_table()) {
      for (const auto& [name, value] : *attributes) request.attributes.push_back(read_attribute(path, std::string(name.str()), value));
      std::sort(request.attributes.begin(), request.attributes.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    }
    current.requests.push_back(std::move(request));
  }
}

}  // namespace

bool KernelSet::has(const std::string& entry) const {
  return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

const Settings& settings() {
  return current;
}

bool read_settings(int argc, char** argv, std::string* out_error) {
  std::string plugin, skips, kernels, operators;
  std::vector<std::string> options;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string flag = argv[i];
      auto value = [&]() -> std::string {
        if (i + 1 >= argc) throw std::runtime_error(flag + " needs a value");
        return argv[++i];
      };
      auto numeric = [&] {
        uint64_t result = 0;
        const std::string text = value();
        if (!number_of(text, &result)) throw std::runtime_error(flag + " needs a number, not '" + text + "'");
        return result;
      };
      if (flag == "--plugin")
        plugin = value();
      else if (flag == "--filter")
        current.filter = value();
      else if (flag == "--seed")
        current.seed = numeric();
      else if (flag == "--jobs")
        current.jobs = static_cast<unsigned>(std::clamp<uint64_t>(numeric(), 1, 256));
      else if (flag == "--time-limit")
        current.time_limit_s = static_cast<double>(numeric());
      else if (flag == "--option")
        options.push_back(value());
      else if (flag == "--skips")
        skips = value();
      else if (flag == "--kernels")
        kernels = value();
      else if (flag == "--operators")
        operators = value();
      else if (flag == "--beside")
        current.beside = fs::absolute(value()).string();
      else if (flag == "--run-case")
        current.run_case = value();
      else if (flag == "--findings")
        current.findings = static_cast<int>(numeric());
      else if (flag == "--json")
        current.json = true;
      else if (flag == "--large")
        current.large = true;
      else if (flag == "--list")
        current.list = true;
      else if (flag == "--verbose")
        current.verbose = true;
      else
        throw std::runtime_error("unknown argument '" + flag + "'");
    }
    if (current.list) return true;
    if (plugin.empty()) throw std::runtime_error("--plugin is missing");
    plugin = fs::absolute(plugin).lexically_normal().string();
    if (!fs::exists(plugin)) throw std::runtime_error("there is no " + plugin);
    if (fs::path(plugin).extension() == ".toml") {
      read_manifest(plugin);
    } else {
      current.library = plugin;
      find_manifest();
    }
    for (const std::string& text : options) {
      const size_t equals = text.find('=');
      const std::string name = text.substr(0, equals);
      auto found = std::find_if(current.options.begin(), current.options.end(), [&](const OptionValue& o) { return o.name == name; });
      if (equals == std::string::npos || found == current.options.end() || !set_value(&*found, text.substr(equals + 1))) {
        throw std::runtime_error("--option " + text + ": the manifest has no such option, or the value is not of its type");
      }
    }
    const fs::path beside = fs::path(current.library).parent_path() / "conformance";
    if (skips.empty() && fs::exists(beside / "skips.toml")) skips = (beside / "skips.toml").string();
    if (kernels.empty() && fs::exists(beside / "kernels.toml")) kernels = (beside / "kernels.toml").string();
    if (!skips.empty()) read_skips(skips);
    if (!kernels.empty()) read_kernels(kernels);
    if (operators.empty() && fs::exists(beside / "operators.toml")) operators = (beside / "operators.toml").string();
    if (!operators.empty()) read_operators(operators);
  } catch (const toml::parse_error& error) {
    *out_error = (error.source().path ? *error.source().path : std::string("a file")) + ":" + std::to_string(error.source().begin.line) +
                 ": " + std::string(error.description());
    return false;
  } catch (const std::exception& error) {
    *out_error = error.what();
    return false;
  }
  return true;
}

}  // namespace heddle::conformance
