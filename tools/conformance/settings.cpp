// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See settings.h.
#include "settings.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "case.h"
#include "core/host/text_file.h"

namespace heddle::conformance {

namespace fs = std::filesystem;

const char kUsage[] =
    "usage: heddle-conformance --plugin FILE [--json] [--filter TEXT] [--seed N] [...]\n"
    "\n"
    "Checks that a plugin keeps the rules of its ABI. Each case runs in a child process.\n"
    "\n"
    "  --plugin FILE        the manifest, or the library, whose manifest must be in the same directory\n"
    "  --filter TEXT        only cases whose name contains TEXT; several, separated by commas\n"
    "  --list               list the cases and what each checks\n"
    "  --seed N             seed of the random numbers; 1\n"
    "  --jobs N             cases run in parallel; 1\n"
    "  --time-limit S       time limit per case in seconds; 60\n"
    "  --patience S         how long a case waits for one event, in seconds; 20\n"
    "  --large              also move more than 4 GiB at once\n"
    "  --option NAME=VALUE  an option of the plugin's manifest\n"
    "  --skips FILE         default: conformance/skips.toml in the manifest's directory\n"
    "  --kernels FILE       default: conformance/kernels.toml in the manifest's directory\n"
    "  --operators FILE     default: conformance/operators.toml in the manifest's directory\n"
    "  --no-kernels         do not fail a driver whose kernels the kit cannot run\n"
    "  --beside FILE        library or manifest of another plugin to load into the same process\n"
    "  --driver FILE        for a target: library or manifest of the driver that runs its code\n"
    "  --foreign-formats    for a target: its code may have a format that does not belong to it\n"
    "  --json               results as JSON instead of a table\n"
    "  --verbose            also print cases that pass\n"
    "\n"
    "Exit code: 0 all passed or were skipped with a reason, 1 some failed, 2 wrong usage, no plugin, or a file that does not match it.\n";

namespace {

Settings current;

bool number_of(const std::string& text, uint64_t* out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

std::runtime_error wrong(const std::string& text) {
  return std::runtime_error(text);
}

// "; did you mean '--filter'?", by the flags that the usage lists, or nothing.
std::string nearest_flag(const std::string& flag) {
  std::vector<std::string> known;
  std::istringstream words(kUsage);
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) known.push_back(word);
  }
  const std::string hint = host::did_you_mean(flag, known);
  return hint.empty() ? hint : "; " + hint;
}

// The library that a manifest names; the host's errors about the manifest are kept, and reported by the case manifest.valid.
host::Manifest read_manifest(const std::string& path, std::vector<std::string>* out_errors) {
  std::string text;
  if (std::string failed = host::read_text_file(path, host::kMaxManifestBytes, &text); !failed.empty())
    throw wrong("reading manifest " + path + " failed: " + failed);
  host::Diagnostics diagnostics;
  host::Manifest manifest;
  host::parse_manifest(path, text, diagnostics, &manifest);
  std::istringstream lines(diagnostics.render());
  for (std::string line; std::getline(lines, line);) {
    if (line.find(": error[E") != std::string::npos) out_errors->push_back(line);
  }
  if (manifest.library_path.empty()) throw wrong(diagnostics.first_line());
  return manifest;
}

std::string library_of(const std::string& manifest, const std::string& library) {
  if (fs::is_regular_file(library)) return library;
  throw wrong(manifest + ": there is no library " + library + "; `library` is relative to the manifest's directory");
}

OptionValue value_of(const host::OptionValue& value) {
  return {value.name, value.kind, value.int_value, value.float_value, value.string_value};
}

// The host knows an operator only by its id; the compiler reads its operands from the same table. Empty if they are not declared.
void read_rules(const std::string& path) {
  const toml::parse_result file = toml::parse_file(path);
  const toml::array* operators = file["operator"].as_array();
  for (size_t i = 0; operators && i < operators->size(); ++i) {
    const toml::table* table = (*operators)[i].as_table();
    const toml::array* inputs = table ? (*table)["inputs"].as_array() : nullptr;
    const toml::array* outputs = table ? (*table)["outputs"].as_array() : nullptr;
    if (!inputs || !outputs) continue;
    OperatorRule rule = {(*table)["domain"].value_or(std::string()), (*table)["name"].value_or(std::string()),
                         (*table)["version"].value_or(1u),           0,
                         static_cast<uint32_t>(inputs->size()),      {}};
    for (const toml::node& input : *inputs) rule.least_inputs += !input.value_or(std::string()).ends_with('?');
    for (const toml::node& node : *outputs) {
      const toml::table* output = node.as_table();
      const bool like = output && output->contains("like");
      rule.outputs.push_back({like || (output && output->contains("type")), like || (output && output->contains("dims"))});
    }
    current.rules.push_back(std::move(rule));
  }
}

// What the host leaves to the compiler (compiler/plugins/manifest.h).
void read_target(const std::string& path) {
  const toml::parse_result file = toml::parse_file(path);
  TargetSettings& out = current.target;
  auto wrong_with = [&](const std::string& text) {
    if (out.wrong.empty()) out.wrong = text;
  };
  if (const toml::array* families = file["plugin"]["families"].as_array()) {
    for (const toml::node& family : *families) {
      out.families.push_back(family.value_or(std::string()));
      const std::string& name = out.families.back();
      if (name.empty() || name.size() > 32 || name[0] < 'a' || name[0] > 'z' ||
          name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
        wrong_with("the family " + shown(name) +
                   " is no name of a target: letters from a to z, digits and '_' were expected, a letter first");
    }
  }
  if (out.families.empty()) wrong_with("it has no 'families', which are the names for --target");
  if (const toml::table* facts = file["facts"].as_table()) {
    for (const auto& [key, value] : *facts) {
      sdk::target::Fact fact;
      fact.name = std::string(key.str());
      if (value.is_string()) {
        fact.kind = HEDDLE_OPTION_STRING;
        fact.text = value.value_or(std::string());
      } else if (value.is_boolean()) {
        fact.kind = HEDDLE_OPTION_BOOL;
        fact.integer = value.value_or(false);
      } else if (value.is_integer()) {
        fact.integer = value.value_or(int64_t{0});
      } else if (value.is_floating_point()) {
        fact.kind = HEDDLE_OPTION_FLOAT;
        fact.number = value.value_or(0.0);
      } else {
        wrong_with("fact '" + fact.name + "' is neither a number nor a text nor true or false");
      }
      out.facts.push_back(std::move(fact));
    }
    std::sort(out.facts.begin(), out.facts.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  if (const toml::table* limits = file["limits"].as_table()) {
    for (const auto& [key, value] : *limits) {
      uint64_t* to = key.str() == "workgroup_size"        ? &out.limits.workgroup_size
                     : key.str() == "shared_memory_bytes" ? &out.limits.shared_memory_bytes
                     : key.str() == "workspace_bytes"     ? &out.limits.workspace_bytes
                                                          : nullptr;
      if (!to) wrong_with("unknown key " + shown(key.str()) + " in [limits]");
      if (!value.is_integer() || value.value_or(int64_t{-1}) < 0) wrong_with("limit " + shown(key.str()) + " is no integer of 0 or more");
      if (to) *to = static_cast<uint64_t>(value.value_or(int64_t{0}));
    }
  }
}

void use_manifest(const std::string& path) {
  current.manifest = path;
  current.declared = read_manifest(path, &current.manifest_errors);
  current.id = current.declared.id;
  if (current.library.empty()) current.library = library_of(path, current.declared.library_path);
  const uint32_t kind = current.declared.kind;
  current.is_no_driver = kind && !(kind & HEDDLE_PLUGIN_DRIVER);
  current.is_no_allocator = kind && !(kind & HEDDLE_PLUGIN_ALLOCATOR);
  current.is_no_library = kind && !(kind & HEDDLE_PLUGIN_LIBRARY);
  current.is_no_target = kind && !(kind & HEDDLE_PLUGIN_TARGET);
  if (kind & HEDDLE_PLUGIN_TARGET) read_target(path);
  for (const host::OptionSpec& option : current.declared.options) current.options.push_back(value_of(option.fallback));
  if (kind & HEDDLE_PLUGIN_LIBRARY && current.manifest_errors.empty()) read_rules(path);
}

// The manifest in the library's directory that names it; without one there are no options, and manifest.valid is absent.
void find_manifest() {
  const fs::path library = current.library;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(library.parent_path(), ignored)) {
    if (file.path().extension() != ".toml") continue;
    const toml::table manifest = toml::parse_file(file.path().string());
    if (manifest["plugin"]["library"].value_or(std::string()) == library.filename().string()) return use_manifest(file.path().string());
  }
}

// The manifest of --driver, or that of the library, gives its options.
void use_driver_manifest() {
  if (!fs::is_regular_file(current.driver)) throw wrong("--driver: there is no file " + current.driver);
  std::vector<std::string> ignored;  // its errors are found by a run of the kit for the driver
  if (fs::path(current.driver).extension() != ".toml") {
    for (const fs::directory_entry& file : fs::directory_iterator(fs::path(current.driver).parent_path())) {
      if (file.path().extension() != ".toml") continue;
      const host::Manifest manifest = read_manifest(file.path().string(), &ignored);
      if (manifest.library_path != current.driver) continue;
      for (const host::OptionSpec& option : manifest.options) current.driver_options.push_back(value_of(option.fallback));
    }
    return;
  }
  const host::Manifest manifest = read_manifest(current.driver, &ignored);
  current.driver = library_of(current.driver, manifest.library_path);
  for (const host::OptionSpec& option : manifest.options) current.driver_options.push_back(value_of(option.fallback));
}

// "NAME=VALUE" as the configuration would set it: of the declared type and inside the declared bounds.
void set_option(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw wrong("--option " + text + ": NAME=VALUE was expected");
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  const host::OptionSpec* spec = current.declared.option(name);
  if (!spec) {
    std::string known;
    for (const host::OptionSpec& option : current.declared.options) known += (known.empty() ? "" : ", ") + option.name;
    throw wrong("--option " + text + ": " +
                (current.manifest.empty() ? "the library's directory has no manifest, so that it has no options"
                                          : current.manifest + " declares no option '" + name + "'; it declares " +
                                                (known.empty() ? std::string("none") : known)));
  }
  host::TomlNode node;
  if (spec->type == host::OptionSpec::kString || spec->type == host::OptionSpec::kBytes) {
    node.kind = host::TomlNode::kString;
    node.string = value;
  } else {
    host::TomlTree tree = host::parse_toml("value = " + value);
    const host::TomlNode* read = tree.errors.empty() ? tree.root.find("value") : nullptr;
    if (read) node = *read;
  }
  host::Diagnostics diagnostics;
  host::OptionValue read;
  if (!host::read_option_value(*spec, node, {diagnostics.add_file("--option " + text, ""), {}}, "--option", diagnostics, &read))
    throw wrong(diagnostics.first_line());
  for (OptionValue& option : current.options) {
    if (option.name == name) option = value_of(read);
  }
}

void read_skips(const std::string& path) {
  const toml::table file = toml::parse_file(path);
  const toml::table* skips = file["skips"].as_table();
  if (!skips) throw wrong(path + ": no table [skips]");
  for (const auto& [key, reason] : *skips) {
    const std::string name(key.str());
    if (const toml::table* inner = reason.as_table(); inner && !inner->empty()) {
      const std::string meant = name + "." + std::string(inner->begin()->first.str());
      throw wrong(path + ": [skips] holds a table '" + name + "'; quote the name: \"" + meant + "\" = \"why\"");
    }
    current.skips[name] = reason.value_or(std::string());
  }
  current.skips_file = path;
}

uint32_t positive(const std::string& path, const toml::table& file, const char* key) {
  const toml::node* node = file.get(key);
  if (!node) return 1;
  const int64_t value = node->value_exact<int64_t>().value_or(0);
  if (value < 1 || value > INT32_MAX)
    throw wrong(path + ": " + key + " is " + (node->is_integer() ? std::to_string(value) : "not an integer") +
                "; 1 to 2147483647 was expected");
  return static_cast<uint32_t>(value);
}

void read_kernels(const std::string& path) {
  static const std::vector<std::string> known = {"kernels",        "format", "target", "code", "file", "elements_per_workgroup",
                                                 "workgroup_size", "entries"};
  static const std::vector<std::string> entries = {"add", "count", "chain", "fail", "lose"};
  const toml::table file = toml::parse_file(path);
  for (const auto& [key, value] : file) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string hint = host::did_you_mean(name, known);
    throw wrong(path + ": unknown key " + shown(name) + (hint.empty() ? "; known keys are " + host::quoted_words(known) : "; " + hint));
  }
  if (const auto format = file["kernels"].value<int64_t>(); file.contains("kernels") && format != 1)
    throw wrong(path + ": kernels = " + (format ? std::to_string(*format) : "not a number") + "; this kit reads format 1 of the file");
  KernelSet set;
  set.format = file["format"].value_or(std::string());
  set.target = file["target"].value_or(std::string());
  set.code = file["code"].value_or(std::string());
  set.elements_per_workgroup = positive(path, file, "elements_per_workgroup");
  set.workgroup_size = positive(path, file, "workgroup_size");
  if (const auto name = file["file"].value<std::string>()) {
    std::ifstream code(fs::path(path).parent_path() / *name, std::ios::binary);
    if (!code) throw wrong(path + ": there is no file " + *name);
    set.code.assign(std::istreambuf_iterator<char>(code), {});
  }
  set.entries = entries;
  if (const toml::array* listed = file["entries"].as_array()) {
    set.entries.clear();
    for (const toml::node& entry : *listed) {
      set.entries.push_back(entry.value_or(std::string()));
      if (std::find(entries.begin(), entries.end(), set.entries.back()) == entries.end())
        throw wrong(path + ": entries names " + shown(set.entries.back()) + "; " + host::quoted_words(entries) + " was expected");
    }
    if (set.entries.empty()) throw wrong(path + ": entries is empty; " + host::quoted_words(entries) + " was expected");
  }
  if (set.format.empty()) throw wrong(path + ": format is missing: one of the device's code formats, such as \"acme-loom/1\"");
  if (set.code.empty()) throw wrong(path + ": code, or file with the name of a file that is not empty, is missing");
  current.kernels.push_back(set);
  current.kernels_file = path;
}

uint32_t type_of(const std::string& path, const std::string& name) {
  static const std::map<std::string, uint32_t> types = {
      {"bool", HEDDLE_TYPE_BOOL}, {"i8", HEDDLE_TYPE_I8},   {"u8", HEDDLE_TYPE_U8},   {"i16", HEDDLE_TYPE_I16}, {"u16", HEDDLE_TYPE_U16},
      {"i32", HEDDLE_TYPE_I32},   {"u32", HEDDLE_TYPE_U32}, {"i64", HEDDLE_TYPE_I64}, {"u64", HEDDLE_TYPE_U64}, {"f16", HEDDLE_TYPE_F16},
      {"bf16", HEDDLE_TYPE_BF16}, {"f32", HEDDLE_TYPE_F32}, {"f64", HEDDLE_TYPE_F64}};
  const auto found = types.find(name);
  if (found == types.end()) throw std::runtime_error(path + ": '" + name + "' is not an element type that the kit supports");
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
  if (!list && !node.is_number()) throw std::runtime_error(path + ": attribute " + attribute.name + " is not a number, text or list");
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

void KernelSet::lacks(const std::string& entry) const {
  absent("the kernels in %s have no '%s', which this case dispatches", format.c_str(), entry.c_str());
}

const Settings& settings() {
  return current;
}

std::string why_no_reason(const std::string& reason) {
  constexpr size_t kShortest = 10;
  return reason.size() >= kShortest ? ""
                                    : fmt::format("{} has {} bytes; a reason has at least {}", shown(reason), reason.size(), kShortest);
}

bool read_settings(int argc, char** argv, std::string* out_error) {
  std::string plugin, skips, kernels, operators;
  std::vector<std::string> options;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string flag = argv[i];
      auto value = [&]() -> std::string {
        if (i + 1 >= argc) throw wrong(flag + " needs a value");
        return argv[++i];
      };
      auto numeric = [&] {
        uint64_t result = 0;
        const std::string text = value();
        if (!number_of(text, &result)) throw wrong(flag + " needs a number, not '" + text + "'");
        return result;
      };
      auto positive_number = [&](uint64_t most) {
        const uint64_t result = numeric();
        if (result == 0 || result > most) throw wrong(fmt::format("{} {}: 1 to {} was expected", flag, result, most));
        return result;
      };
      if (flag == "--plugin")
        plugin = value();
      else if (flag == "--filter")
        current.filter = value();
      else if (flag == "--seed")
        current.seed = numeric();
      else if (flag == "--jobs")
        current.jobs = static_cast<unsigned>(positive_number(256));
      else if (flag == "--time-limit")
        current.time_limit_s = static_cast<double>(positive_number(1000000));
      else if (flag == "--patience")
        current.patience_s = positive_number(1000000);
      else if (flag == "--option")
        options.push_back(value());
      else if (flag == "--skips")
        skips = value();
      else if (flag == "--kernels")
        kernels = value();
      else if (flag == "--operators")
        operators = value();
      else if (flag == "--beside")
        current.beside = fs::absolute(value()).lexically_normal().string();
      else if (flag == "--driver")
        current.driver = fs::absolute(value()).lexically_normal().string();
      else if (flag == "--foreign-formats")
        current.foreign_formats = true;
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
      else if (flag == "--no-kernels")
        current.no_kernels = true;
      else if (flag == "--help" || flag == "-h")
        current.help = true;
      else
        throw wrong("unknown argument " + shown(flag) + nearest_flag(flag));
    }
    if (current.list || current.help) return true;
    if (plugin.empty()) throw wrong("--plugin FILE is missing: the manifest or the library of a plugin");
    plugin = fs::absolute(plugin).lexically_normal().string();
    if (fs::is_directory(plugin)) throw wrong("--plugin " + plugin + " is a directory; name the manifest in it, or the library");
    if (!fs::exists(plugin)) throw wrong("--plugin: there is no file " + plugin + "; name the manifest or the library of a plugin");
    if (fs::path(plugin).extension() == ".toml") {
      use_manifest(plugin);
    } else {
      current.library = plugin;
      find_manifest();
    }
    for (const std::string& text : options) set_option(text);
    if (!current.beside.empty() && !fs::is_regular_file(current.beside)) throw wrong("--beside: there is no file " + current.beside);
    if (fs::path(current.beside).extension() == ".toml") {
      std::vector<std::string> ignored;  // errors of the other plugin do not count
      current.beside = library_of(current.beside, read_manifest(current.beside, &ignored).library_path);
    }
    if (!current.driver.empty()) use_driver_manifest();
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
