// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables as text.
#include "tools/heddle/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace heddle::tool {
namespace {

// Width on a terminal: counts characters, not bytes.
size_t width_of(std::string_view text) {
  size_t count = 0;
  for (char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string out = "\"";
  for (char c : cell) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

std::string markdown_cell(const std::string& cell) {
  std::string out;
  for (char c : cell) {
    if (c == '|') out.push_back('\\');
    out.push_back(c == '\n' ? ' ' : c);
  }
  return out;
}

}  // namespace

const std::vector<std::string>& format_names() {
  static const std::vector<std::string> names{"table", "json", "jsonl", "csv", "md"};
  return names;
}

Format format_from_name(std::string_view name) {
  for (size_t i = 0; i < format_names().size(); ++i) {
    if (format_names()[i] == name) return static_cast<Format>(i);
  }
  return Format::kTable;
}

std::string table_text(const Table& table, Format format, bool bold_header) {
  std::string out;
  const size_t columns = table.header.size();
  auto cell = [&](const std::vector<std::string>& row, size_t i) { return i < row.size() ? module::one_line(row[i]) : std::string(); };
  auto line = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < columns; ++i) {
      if (format == Format::kCsv) {
        out += (i ? "," : "") + csv_cell(cell(row, i));
      } else {
        out += (i ? " | " : "| ") + markdown_cell(cell(row, i));
      }
    }
    out += format == Format::kCsv ? "\n" : " |\n";
  };
  if (format != Format::kTable) {
    line(table.header);
    if (format == Format::kMarkdown) {
      for (size_t i = 0; i < columns; ++i) out += i ? " --- |" : "| --- |";
      out += "\n";
    }
    for (const auto& row : table.rows) line(row);
    return out;
  }
  std::vector<size_t> widths(columns);
  for (size_t i = 0; i < columns; ++i) {
    widths[i] = width_of(table.header[i]);
    for (const auto& row : table.rows) widths[i] = std::max(widths[i], width_of(cell(row, i)));
  }
  auto aligned = [&](const std::vector<std::string>& row) {
    std::string text;
    for (size_t i = 0; i < columns; ++i) {
      const std::string one = cell(row, i);
      text += (i ? "  " : "") + one;
      text.append(widths[i] - width_of(one), ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  out += bold_header ? "\x1b[1m" + aligned(table.header) + "\x1b[0m\n" : aligned(table.header) + "\n";
  for (size_t i = 0; i < table.rows.size(); ++i) {
    out += aligned(table.rows[i]) + "\n";
    if (i >= table.below.size()) continue;
    for (const std::string& line : table.below[i]) out += "    " + printable(line) + "\n";
  }
  return out;
}

void print_table(const Table& table, Format format) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool bold = isatty(STDOUT_FILENO) && (no_color == nullptr || *no_color == '\0');
  const std::string text = table_text(table, format, bold);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_line(std::string_view given) {
  const std::string text = printable(given);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

void print_candidates(const std::vector<std::string>& candidates, std::string_view begin) {
  for (const std::string& candidate : candidates) {
    if (candidate.compare(0, begin.size(), begin) == 0) print_line(candidate);
  }
}

bool finish_output() {
  return std::fflush(stdout) == 0 && !std::ferror(stdout);
}

bool progress_wanted(std::string_view mode) {
  return mode == "always" || (mode == "auto" && isatty(STDERR_FILENO));
}

std::string duration_text(double nanoseconds) {
  char text[32];
  if (nanoseconds < 1e3) {
    std::snprintf(text, sizeof(text), "%.0f ns", nanoseconds);
  } else if (nanoseconds < 1e6) {
    std::snprintf(text, sizeof(text), "%.2f us", nanoseconds * 1e-3);
  } else if (nanoseconds < 1e9) {
    std::snprintf(text, sizeof(text), "%.3f ms", nanoseconds * 1e-6);
  } else {
    std::snprintf(text, sizeof(text), "%.3f s", nanoseconds * 1e-9);
  }
  return text;
}

std::string bytes_text(uint64_t bytes) {
  char text[32];
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace heddle::tool
