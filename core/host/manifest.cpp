// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest's schema. It checks the form only; preflight checks whether this machine meets the requirements.
#include "core/host/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "core/host/digest.h"
#include "heddle/plugin.h"
#include "sdk/module/printable.h"

namespace heddle::host {
namespace {

constexpr std::string_view kKinds = "\"driver\", \"allocator\", \"library\" or \"target\"";

bool parse_abi(std::string_view text, AbiVersion* out) {
  const char* end = text.data() + text.size();
  auto major = std::from_chars(text.data(), end, out->major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return false;
  auto minor = std::from_chars(major.ptr + 1, end, out->minor);
  return minor.ec == std::errc() && minor.ptr == end;
}

constexpr size_t kMaxOperatorName = 256;

// A reserved id of this project that none of its plugins has.
bool is_reserved_id(std::string_view id) {
  static constexpr std::string_view ours[] = {"heddle.cpu",   "heddle.cuda",   "heddle.hip",   "heddle.level_zero", "heddle.pool",
                                              "heddle.arena", "heddle.system", "heddle.limit", "heddle.track",      "heddle.log"};
  return id.starts_with("heddle.") && std::find(std::begin(ours), std::end(ours), id) == std::end(ours);
}

void read_plugin(TableReader table, Manifest& manifest) {
  Diagnostics& diagnostics = table.diagnostics();
  table.require("id", "id = \"com.example.npu\"");
  table.require("version", "version = \"1.0.0\"");
  table.require("kind", "kind = [\"driver\"]");
  table.require("library", "library = \"libnpu.so\", in the directory of this file");
  table.require("abi", "abi = [\"0.1\", \"0.3\"]");

  if (const TomlNode* id = table.value("id", {TomlNode::kString})) {
    if (is_reserved_id(id->string)) {
      diagnostics.error(table.place(*id), "E105",
                        fmt::format("id '{}' is reserved: ids that begin with 'heddle.' belong to this project; another id was expected",
                                    id->string.substr(0, 64)),
                        "use a name of your own, e.g. \"com.example.npu\"", to_toml(*id).size());
    } else if (is_plugin_id(id->string) && id->string.find('.') == std::string::npos) {
      diagnostics.error(table.place(*id), "E105",
                        fmt::format("id '{}' has no dot; a vendor name and a plugin name were expected", id->string),
                        "add a name of your own before it, e.g. \"com.example.npu\"", to_toml(*id).size());
    } else if (is_plugin_id(id->string)) {
      manifest.id = id->string;
    } else {
      diagnostics.error(table.place(*id), "E105", fmt::format("'id' is {}, which is {}", to_toml(*id).substr(0, 64), kNoPluginId), {},
                        to_toml(*id).size());
    }
  }
  if (table.string("version", &manifest.version) && !is_semantic_version(manifest.version)) {
    diagnostics.error(
        table.value_place("version"), "E105",
        fmt::format("'version' is \"{}\", which is not a semantic version; three numbers separated by dots, at most 64 bytes, were "
                    "expected, e.g. \"1.4.0\" or \"1.4.0-rc.1\"",
                    manifest.version.substr(0, 64)),
        {}, manifest.version.size() + 2);
    manifest.version.clear();
  }
  std::vector<std::string> kinds;
  if (table.strings("kind", &kinds)) {
    for (const std::string& kind : kinds) {
      if (kind == "driver") {
        manifest.kind |= HEDDLE_PLUGIN_DRIVER;
      } else if (kind == "allocator") {
        manifest.kind |= HEDDLE_PLUGIN_ALLOCATOR;
      } else if (kind == "library") {
        manifest.kind |= HEDDLE_PLUGIN_LIBRARY;
      } else if (kind == "target") {
        manifest.kind |= HEDDLE_PLUGIN_TARGET;
      } else {
        diagnostics.error(table.value_place("kind"), "E105",
                          fmt::format("kind '{}' is not known; {} was expected", kind.substr(0, 64), kKinds));
      }
    }
    if (kinds.empty()) diagnostics.error(table.value_place("kind"), "E105", fmt::format("'kind' is empty; {} was expected", kKinds));
  }
  std::string library;
  if (table.string("library", &library)) {
    if (library.empty() || library.size() > 1024) {
      diagnostics.error(table.value_place("library"), "E105",
                        fmt::format("'library' has {} bytes; 1 to 1024 were expected", library.size()));
    } else if (const std::string& own = manifest.path; library.find('/') == std::string::npos && library.front() != '.' &&
                                                       own.find("/.") == std::string::npos && own.find("//") == std::string::npos) {
      manifest.library_path = own.substr(0, own.rfind('/') + 1) + library;  // as below, without the cost
    } else {
      std::filesystem::path relative(library);
      manifest.library_path =
          (relative.is_absolute() ? relative : std::filesystem::path(manifest.path).parent_path() / relative).lexically_normal().string();
    }
  }
  std::vector<std::string> abi;
  if (table.strings("abi", &abi)) {
    if (abi.size() != 2 || !parse_abi(abi[0], &manifest.abi_min) || !parse_abi(abi[1], &manifest.abi_max) ||
        manifest.abi_min.major != manifest.abi_max.major || manifest.abi_min.minor > manifest.abi_max.minor) {
      diagnostics.error(
          table.value_place("abi"), "E105",
          fmt::format("'abi' is [\"{}\"], which is not a range; two versions of one major were expected, e.g. [\"0.1\", \"0.3\"]",
                      fmt::join(abi, "\", \"")));
    }
  }
  table.string("arch", &manifest.arch);
  table.string("isa", &manifest.isa);
  table.strings("families", &manifest.families);
  table.strings("conflicts", &manifest.conflicts);
  std::string ignored;
  for (const char* key : {"description", "homepage", "license"}) table.string(key, &ignored);
  table.finish();
}

void read_requires(TableReader table, Manifest& manifest) {
  Diagnostics& diagnostics = table.diagnostics();
  std::vector<std::string> vendors;
  table.strings("pci_vendor", &vendors);
  for (const std::string& vendor : vendors) {
    uint16_t number = 0;
    const char* end = vendor.data() + vendor.size();
    const bool prefixed = vendor.size() == 6 && vendor[0] == '0' && vendor[1] == 'x';
    auto read =
        prefixed ? std::from_chars(vendor.data() + 2, end, number, 16) : std::from_chars_result{vendor.data(), std::errc::invalid_argument};
    if (read.ec != std::errc() || read.ptr != end) {
      diagnostics.error(table.value_place("pci_vendor"), "E105",
                        fmt::format("pci_vendor '{}' is not a vendor id; e.g. \"0x10de\" was expected", vendor.substr(0, 32)));
      continue;
    }
    manifest.pci_vendors.push_back(number);
  }
  for (const TomlNode* node : table.tables("libs")) {
    TableReader library(*node, table.own_place().file, "requires.libs", diagnostics);
    NeededLibrary needed;
    library.require("soname", "soname = \"libcuda.so.1\"");
    if (library.string("soname", &needed.soname) && (needed.soname.empty() || needed.soname.find('/') != std::string::npos)) {
      diagnostics.error(
          library.value_place("soname"), "E105",
          fmt::format("'soname' is \"{}\"; a name without '/' was expected, e.g. \"libcuda.so.1\"", needed.soname.substr(0, 64)));
    }
    library.string("hint", &needed.hint);
    library.finish();
    if (!needed.soname.empty()) manifest.libraries.push_back(std::move(needed));
  }
  table.finish();
}

// What the plugin opens itself.
void read_opens(TableReader table, Manifest& manifest) {
  auto names = [&](const char* key, std::string_view forbidden, const char* expected, std::vector<std::string>* out) {
    if (!table.strings(key, out)) return;
    for (const std::string& name : *out) {
      if (!name.empty() && name.find_first_of(forbidden) == std::string::npos) continue;
      table.diagnostics().error(table.value_place(key), "E105",
                                fmt::format("'{}' holds \"{}\"; {} was expected", key, name.substr(0, 64), expected));
    }
  };
  names("libs", "/", "a name without '/', e.g. \"libcuda.so.1\",", &manifest.opened_libraries);
  names("environment", "=", "the name of a variable, e.g. \"HSA_TOOLS_LIB\",", &manifest.code_variables);
  table.finish();
}

constexpr char kDefaultDomain[] = "ai.onnx";  // ONNX also writes it as an empty text

// The host only identifies an operator; inputs, outputs and attributes are read by the compiler, which reads the same file.
void read_operator(TableReader table, Manifest& manifest) {
  OperatorId id;
  int64_t version = 1;
  table.require("domain", "domain = \"com.acme\"");
  table.require("name", "name = \"Whiten\"");
  bool good = true;
  auto text = [&](const char* key, std::string* out) {
    if (!table.string(key, out)) return good = false;
    if (!out->empty() && out->size() <= kMaxOperatorName) return true;
    table.diagnostics().error(table.value_place(key), "E105",
                              fmt::format("'{}' has {} bytes; 1 to {} were expected", key, out->size(), kMaxOperatorName));
    return good = false;
  };
  const TomlNode* domain = table.find("domain");
  if (domain && domain->kind == TomlNode::kString && domain->string.empty() && table.string("domain", &id.domain)) {
    id.domain = kDefaultDomain;
  } else {
    text("domain", &id.domain);
  }
  text("name", &id.name);
  table.integer("version", 1, UINT32_MAX, &version);
  id.version = static_cast<uint32_t>(version);
  const bool twice = std::any_of(manifest.operators.begin(), manifest.operators.end(), [&](const OperatorId& known) {
    return known.domain == id.domain && known.name == id.name && known.version == id.version;
  });
  if (good && twice) {
    table.diagnostics().error(
        table.value_place("name"), "E105",
        fmt::format("operator {}::{}/{} is declared twice; one declaration was expected", id.domain, id.name, id.version));
  } else if (good) {
    manifest.operators.push_back(std::move(id));
  }
}

void read_integrity(TableReader table, Manifest& manifest) {
  if (table.string("sha256", &manifest.sha256)) {
    if (!is_sha256(manifest.sha256))
      table.diagnostics().error(table.value_place("sha256"), "E105",
                                fmt::format("'sha256' is \"{}\"; {} were expected", manifest.sha256.substr(0, 80), kDigestDigits));
  }
  table.finish();
}

// Texts of a manifest appear in lists, logs and command lines, so they must not contain terminal control sequences or line ends.
void refuse_control_characters(const TomlNode& node, uint32_t file, Diagnostics& diagnostics) {
  for (const auto& [text, place] : {std::pair(&node.key, node.key_place), std::pair(&node.string, node.place)}) {
    if (module::one_line(*text) == *text) continue;
    diagnostics.error({file, place}, "E105",
                      fmt::format("\"{}\" holds a character that is not printable; one line of text was expected", text->substr(0, 64)),
                      "remove it");
  }
  for (const TomlNode& child : node.children) refuse_control_characters(child, file, diagnostics);
}

}  // namespace

bool is_semantic_version(std::string_view text) {
  if (text.size() > 64) return false;
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto number = [&] {  // without a leading 0
    size_t size = 0;
    while (size < text.size() && is_digit(text[size])) ++size;
    const bool good = size != 0 && (size == 1 || text[0] != '0');
    text.remove_prefix(size);
    return good;
  };
  auto skip = [&](char c) {
    const bool there = !text.empty() && text[0] == c;
    if (there) text.remove_prefix(1);
    return there;
  };
  if (!number() || !skip('.') || !number() || !skip('.') || !number()) return false;
  // Words of letters, digits and '-', separated by dots; numeric pre-release words have no leading 0.
  auto words = [&](bool is_release) {
    do {
      size_t size = 0;
      bool digits = true;
      for (; size < text.size() && (std::isalnum(static_cast<unsigned char>(text[size])) || text[size] == '-'); ++size)
        digits = digits && is_digit(text[size]);
      if (size == 0 || (!is_release && digits && size > 1 && text[0] == '0')) return false;
      text.remove_prefix(size);
    } while (skip('.'));
    return true;
  };
  if (skip('-') && !words(false)) return false;
  if (skip('+') && !words(true)) return false;
  return text.empty();
}

std::string kind_text(uint32_t kind) {
  std::string text;
  for (const auto& [bit, name] : {std::pair<uint32_t, const char*>{HEDDLE_PLUGIN_DRIVER, "driver"},
                                  {HEDDLE_PLUGIN_ALLOCATOR, "allocator"},
                                  {HEDDLE_PLUGIN_LIBRARY, "library"}}) {
    if (kind & bit) text.append(text.empty() ? "" : " and ").append(name);
    kind &= ~bit;
  }
  if (kind || text.empty()) text.append(text.empty() ? "" : " and ").append(fmt::format("the unknown bits {:#x}", kind));
  return text;
}

bool is_plugin_id(std::string_view id) {
  if (id.empty() || id.size() > 128 || id.front() == '.' || id.back() == '.' || id.find("..") != std::string_view::npos) return false;
  return std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  });
}

bool parse_manifest(const std::string& path, std::string_view text, Diagnostics& diagnostics, Manifest* out_manifest) {
  const size_t errors_before = diagnostics.error_count();
  const uint32_t file = diagnostics.add_file(path, std::string(text));
  Manifest& manifest = *out_manifest;
  manifest = {};
  manifest.path = path;
  if (text.size() > kMaxManifestBytes) {
    diagnostics.error({file, {}}, "E101",
                      fmt::format("the manifest has {} bytes; at most {} were expected", text.size(), kMaxManifestBytes),
                      "make it shorter");
    return false;
  }
  TomlTree tree = parse_toml(text);
  for (const TomlError& failed : tree.errors) diagnostics.error({file, failed.place}, "E101", failed.message);
  if (!tree.errors.empty()) return false;

  if (!tree.is_plain) refuse_control_characters(tree.root, file, diagnostics);
  TableReader root(tree.root, file, "", diagnostics);
  root.require("manifest", "manifest = 1");
  root.require("plugin", "[plugin] with id, version, kind, library and abi");
  int64_t format = 0;
  if (root.integer("manifest", 0, INT64_MAX, &format) && format != 1) {
    diagnostics.error({file, tree.root.find("manifest")->place}, "E105",
                      fmt::format("manifest format {} is not known; 1 was expected", format),
                      format > 1 ? "install a newer libheddle" : "");
    return false;
  }
  if (const TomlNode* node = root.table("plugin")) read_plugin(TableReader(*node, file, "plugin", diagnostics), manifest);
  if (const TomlNode* node = root.table("requires")) read_requires(TableReader(*node, file, "requires", diagnostics), manifest);
  if (const TomlNode* node = root.table("opens")) read_opens(TableReader(*node, file, "opens", diagnostics), manifest);
  if (const TomlNode* node = root.table("load")) {
    TableReader load(*node, file, "load", diagnostics);
    int64_t timeout = manifest.timeout_ms;
    if (load.integer("timeout_ms", 1, 600000, &timeout)) manifest.timeout_ms = static_cast<uint32_t>(timeout);
    load.boolean("unloadable", &manifest.unloadable);
    load.finish();
  }
  if (const TomlNode* node = root.table("integrity")) read_integrity(TableReader(*node, file, "integrity", diagnostics), manifest);
  if (const TomlNode* node = root.table("options")) {
    TableReader options(*node, file, "options", diagnostics);
    for (const TomlNode* option : options.rest()) {
      OptionSpec spec;
      if (read_option_spec(*option, file, diagnostics, &spec)) manifest.options.push_back(std::move(spec));
    }
  }
  // The compiler reads these (compiler/plugins/manifest.h).
  if (manifest.kind & HEDDLE_PLUGIN_TARGET) root.table("facts"), root.table("limits");
  const std::vector<const TomlNode*> operators = root.tables("operator");
  for (const TomlNode* node : operators) read_operator(TableReader(*node, file, "operator", diagnostics), manifest);
  const bool is_library = (manifest.kind & HEDDLE_PLUGIN_LIBRARY) != 0;
  if (!operators.empty() && !is_library) {
    diagnostics.error({file, operators.front()->place}, "E105",
                      "[[operator]] in a plugin of another kind; \"library\" was expected in 'kind'",
                      "add \"library\" to 'kind', or remove the table");
  }
  if (is_library && operators.empty()) {
    diagnostics.error({file, {}}, "E104", "a plugin of kind \"library\" lacks [[operator]]; one per operator was expected",
                      "add [[operator]] with domain and name");
  }
  root.finish();
  return diagnostics.error_count() == errors_before;
}

}  // namespace heddle::host
