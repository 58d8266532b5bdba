// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results on stdout: a table for people; JSON, JSON lines, CSV or Markdown for programs. Logs never go to stdout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sdk/module/printable.h"

namespace heddle::tool {

enum class Format { kTable, kJson, kJsonLines, kCsv, kMarkdown };

// The choices of --format.
const std::vector<std::string>& format_names();
Format format_from_name(std::string_view name);

// Rows of text for table, csv and md. A row may be shorter than the header.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  // For kTable: lines under each row, for text that is too long for a column; may be shorter than rows.
  std::vector<std::vector<std::string>> below = {};
};
// kTable, kCsv or kMarkdown. On a terminal a table's header is bold unless NO_COLOR is set.
void print_table(const Table& table, Format format);
std::string table_text(const Table& table, Format format, bool bold_header);

using module::printable;  // names come from files and plugins
// Prints printable text and a newline to stdout.
void print_line(std::string_view text);
// Prints those that start with `begin`, one per line, for completion.
void print_candidates(const std::vector<std::string>& candidates, std::string_view begin);
// Flushes stdout; false if something could not be written (a full disk, a closed pipe).
bool finish_output();

// Whether to show progress: with "auto" only if stderr is a terminal.
bool progress_wanted(std::string_view mode);

// "1.5 us", "12.3 ms"
std::string duration_text(double nanoseconds);
std::string bytes_text(uint64_t bytes);

}  // namespace heddle::tool
