// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle config check FILE`, `heddle config effective [--origin]` and `heddle config schema`.
#include <algorithm>
#include <charconv>
#include <fstream>

#include "tools/heddle/command.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  std::string action, file, format = "table";
  bool origin = false;
  void declare(Flags& flags) {
    flags.positional(
        "ACTION", action,
        "check FILE: report every error in a configuration file or a plugin manifest; effective: show every value in force, defaults too, "
        "and where it comes from; schema: print a JSON Schema for editors",
        true, {"check", "effective", "schema"});
    flags.positional("FILE", file, "file to check", false);
    flags.on("--origin", origin, "accepted for scripts; effective always shows where each value comes from");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("config", "Checks a configuration file, shows the values in force, or prints the schema.");
}

// "FILE:12:1: error[E102]: text", a line of the configuration's diagnostics, as a record. Null for the excerpts and carets between them.
Json diagnostic_of(const std::string& line) {
  for (const char* severity : {"error", "warning"}) {
    const std::string mark = std::string(": ") + severity + "[";
    const size_t at = line.find(mark), code = at + mark.size();
    const size_t end = at == std::string::npos ? at : line.find("]: ", code);
    if (end == std::string::npos || at == 0 || line[0] == ' ') continue;
    Json out{{"file", line.substr(0, at)}, {"line", nullptr}, {"column", nullptr}, {"severity", severity}};
    // For a file that cannot be read the location is its name alone.
    const size_t column = line.rfind(':', at - 1), row = column == std::string::npos || column == 0 ? column : line.rfind(':', column - 1);
    auto number = [&](size_t first, size_t last, uint32_t& value) {
      const char* stop = line.data() + last;
      const auto [read, error] = std::from_chars(line.data() + first, stop, value);
      return error == std::errc() && read == stop;
    };
    uint32_t at_line = 0, at_column = 0;
    if (row != std::string::npos && column != row && number(row + 1, column, at_line) && number(column + 1, at, at_column)) {
      out["file"] = line.substr(0, row);
      out["line"] = at_line;
      out["column"] = at_column;
    }
    out["code"] = line.substr(code, end - code);
    out["message"] = line.substr(end + 3);
    return out;
  }
  return nullptr;
}

// Every error and warning in the diagnostics text. A text with anything else (a plugin that is required and absent) becomes one record without a
// location.
Json diagnostics_of(const std::string& text) {
  Json list = Json::array();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (Json one = diagnostic_of(line); !one.is_null()) {
      list.push_back(std::move(one));
    } else if (const size_t caret = line.find("^"); !list.empty() && line.find_first_not_of(" |") == caret && caret != std::string::npos) {
      const size_t hint = line.find_first_not_of("^~ ", caret);
      if (hint != std::string::npos) list.back()["hint"] = line.substr(hint);
    } else if (!list.empty() && line.rfind("  = ", 0) == 0) {
      list.back()["hint"] = line.substr(4);
    }
  }
  if (list.empty() && !text.empty()) {
    list.push_back(
        {{"file", nullptr}, {"line", nullptr}, {"column", nullptr}, {"severity", "error"}, {"code", nullptr}, {"message", text}});
  }
  return list;
}

// The result for programs: one object in JSON, one line per diagnostic in CSV and Markdown.
void print_check(const std::string& file, bool valid, const Json& diagnostics, Format format) {
  if (format == Format::kJson || format == Format::kJsonLines) {
    print_line(dump_json(Json{{"file", file}, {"valid", valid}, {"diagnostics", diagnostics}}, format == Format::kJson ? 2 : -1));
  } else {
    print_rows({}, diagnostics,
               {field("file", "file"), field("line", "line"), field("column", "column"), field("severity", "severity"),
                field("code", "code"), field("message", "message"), field("hint", "hint")},
               format);
  }
}

// The runtime's warnings about a configuration that has no errors.
std::string warnings_of(heddle_runtime_t* runtime) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime, view("config"), &raw)) {
    heddle_status_free(status);
    return {};
  }
  const Json whole = parse_json(text_of(Text(raw)));
  return whole.is_object() ? whole.value("warnings", std::string()) : std::string();
}

// A plugin's manifest has `manifest = 1` before its first table.
bool is_manifest(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t start = line.find_first_not_of(" \t");
    if (start == std::string::npos || line[start] == '#') continue;
    if (line[start] == '[') return false;
    const size_t end = line.find_first_of(" \t=", start);
    if (line.substr(start, end - start) == "manifest") return true;
  }
  return false;
}

int check_manifest(const std::string& path, Options& options, const Flags& flags) {
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime.get(), view("manifest:" + path), &raw)) return report(status);
  const Json whole = parse_json(text_of(Text(raw)));
  if (!whole.is_object() || !whole.contains("valid")) return failed("config", "this version cannot read the runtime's report");
  const bool valid = whole["valid"].get<bool>();
  const std::string said = printable(whole.value("diagnostics", std::string()));
  std::fwrite(said.data(), 1, said.size(), stderr);
  if (format_from_name(options.format) != Format::kTable) {
    print_check(path, valid, diagnostics_of(said), format_from_name(options.format));
  } else if (valid) {
    print_line(path + ": no error in this manifest");
  }
  return valid ? kFine : kFailed;
}

int check(Options& options, const Flags& flags) {
  if (is_manifest(options.file)) return check_manifest(options.file, options, flags);
  RuntimeFlags given = options.runtime;
  if (!options.file.empty()) given.config = options.file;
  if (given.config.empty()) return flags.misuse("check needs a FILE");
  if (Wrong wrong = config_with_raised_rights(given); !wrong.empty()) return flags.misuse(wrong);
  if (Wrong wrong = resolve_plugin_paths(given); !wrong.empty()) return flags.misuse(wrong);
  given.settings = "log.components.host = \"off\"";  // the log's messages about the file are part of what is printed below
  const Format format = format_from_name(options.format);
  Runtime runtime;
  if (heddle_status_t* status = create_runtime(given, runtime)) {
    if (format != Format::kTable)
      print_check(given.config, false, diagnostics_of(std::string(view(heddle_status_message(status)))), format);
    return report(status);
  }
  const std::string warnings = warnings_of(runtime.get());
  std::fwrite(warnings.data(), 1, warnings.size(), stderr);
  if (format == Format::kTable) {
    print_line(given.config + ": no error");
  } else {
    print_check(given.config, true, diagnostics_of(warnings), format);
  }
  return kFine;
}

int effective(Options& options, const Flags& flags) {
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime.get(), view("config"), &raw)) return report(status);
  const Text text(raw);
  const Json whole = parse_json(text_of(text));
  if (!whole.is_object() || !whole.contains("values")) return failed("config", "this version cannot read the runtime's report");
  print_rows(whole, whole["values"], {field("key", "key"), field("value", "value"), field("origin", "origin")},
             format_from_name(options.format));
  return kFine;
}

int schema(Options& options, const Flags& flags) {
  if (!options.file.empty()) return flags.misuse("schema takes no FILE");
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime.get(), view("schema"), &raw)) return report(status);
  const Text text(raw);
  print_line(dump_json(parse_json(text_of(text)), 2));
  return kFine;
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.action == "check") return check(options, flags);
  if (options.action == "effective")
    return options.file.empty() ? effective(options, flags) : flags.misuse("effective takes no FILE; give --config FILE");
  if (options.action == "schema") return schema(options, flags);
  return flags.misuse("unknown action '" + options.action + "'; expected check, effective or schema");
}

}  // namespace

Command config_command() {
  return {"config", "checks a configuration file, or shows the values in force", run};
}

}  // namespace heddle::tool
