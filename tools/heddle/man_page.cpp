// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Help texts have lines of text, "Usage: ...", and headings with indented entries: a term, two or more spaces, a description. A description may be
// on lines of its own, indented further.
#include "tools/heddle/man_page.h"

#include <algorithm>

namespace heddle::tool {
namespace {

constexpr size_t kDescription = 12;  // lines that are indented at least as far continue an entry

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

size_t indent_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Text as roff: no character of it is a request or an escape.
std::string roff(const std::string& text) {
  std::string out;
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) out = "\\&";
  for (char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

std::string page_name(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

bool is_usage(const std::string& line) {
  return upper(line.substr(0, 6)) == "USAGE:";
}

// A heading's line: the next one is indented, or it ends with a colon and an indented one follows an empty one.
bool is_heading(const std::vector<std::string>& lines, size_t at) {
  if (lines[at].empty() || indent_of(lines[at]) > 0 || is_usage(lines[at])) return false;
  size_t next = at + 1;
  if (lines[at].ends_with(':')) {
    while (next < lines.size() && lines[next].empty()) ++next;
  }
  return next < lines.size() && !lines[next].empty() && indent_of(lines[next]) > 0;
}

std::string usage_of(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (is_usage(line)) return line.substr(line.find_first_not_of(' ', line.find(':') + 1));
  }
  return {};
}

void add_entry(const std::string& line, std::string& out) {
  const size_t begin = indent_of(line), gap = line.find("  ", begin);
  out += ".TP\n\\fB" + roff(line.substr(begin, gap == std::string::npos ? gap : gap - begin)) + "\\fR\n";
  // LLVM's programs write a dash before the description.
  const size_t description = gap == std::string::npos ? gap : line.find_first_not_of(" -", gap);
  if (description != std::string::npos) out += roff(line.substr(description)) + "\n";
}

// Everything but the line of usage.
void add_body(const std::vector<std::string>& lines, const std::string& section, const std::string& description, std::string& out) {
  bool in_text = false;
  if (!description.empty()) out += ".SH " + description + "\n";
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.empty() || is_usage(line)) {
      in_text = false;
    } else if (is_heading(lines, i)) {
      out += section + " \"" + upper(roff(line.substr(0, line.find(':')))) + "\"\n";
    } else if (indent_of(line) >= kDescription) {
      out += roff(line.substr(indent_of(line))) + "\n";
    } else if (indent_of(line) > 0) {
      add_entry(line, out);
    } else {
      out += (in_text ? "" : ".PP\n") + roff(line) + "\n";
      in_text = true;
    }
  }
}

}  // namespace

std::string man_page(const HelpText& help, const std::vector<HelpText>& parts, const std::string& version) {
  const std::string name = page_name(help.name);
  const std::vector<std::string> lines = lines_of(help.text);
  std::string out = ".\\\" Generated from the help of " + help.name + ".\n";
  out += ".TH \"" + upper(roff(name)) + "\" 1 \"\" \"heddle " + roff(version) + "\" \"Heddle\"\n.nh\n.ad l\n.SH NAME\n" + roff(name) +
         " \\- " + roff(help.summary) + "\n";
  if (const std::string usage = usage_of(lines); !usage.empty()) out += ".SH SYNOPSIS\n\\fB" + roff(usage) + "\\fR\n";
  add_body(lines, ".SH", "DESCRIPTION", out);
  for (const HelpText& part : parts) {
    const std::vector<std::string> own = lines_of(part.text);
    out += ".SH \"" + upper(roff(part.name)) + "\"\n.PP\n\\fB" + roff(usage_of(own)) + "\\fR\n";
    add_body(own, ".SS", "", out);
  }
  if (name != "heddle") out += ".SH \"SEE ALSO\"\n\\fBheddle\\fR(1)\n";
  return out;
}

std::vector<std::string> entries_of(const std::string& help, const std::string& heading) {
  std::vector<std::string> words;
  bool is_inside = false;
  for (const std::string& line : lines_of(help)) {
    if (is_inside && indent_of(line) == 0) break;
    if (is_inside) words.push_back(line.substr(indent_of(line), line.find(' ', indent_of(line)) - indent_of(line)));
    is_inside = is_inside || line == heading;
  }
  return words;
}

}  // namespace heddle::tool
