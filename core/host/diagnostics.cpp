// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Printing of diagnostics: `file:line:column: error[E102]: text`, the line itself, and a caret line with the hint.
#include "core/host/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "sdk/module/nearest.h"
#include "sdk/module/printable.h"

namespace heddle::host {
namespace {

constexpr size_t kExcerptColumns = 100;

// One character per column: continuation bytes are appended to the preceding character. Removes control characters that a terminal would obey.
std::vector<std::string> characters_of(std::string_view line) {
  std::vector<std::string> characters;
  for (char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80 && !characters.empty() && characters.back().size() < 4 &&
        static_cast<unsigned char>(characters.back()[0]) >= 0xC0) {
      characters.back() += c;
    } else {
      characters.emplace_back(1, c);
    }
  }
  for (std::string& character : characters) character = module::one_line(character);
  return characters;
}

std::string_view line_of(std::string_view text, uint32_t line) {
  for (uint32_t i = 1; i < line; ++i) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  std::string_view found = text.substr(0, text.find('\n'));
  if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
  return found;
}

}  // namespace

uint32_t Diagnostics::add_file(std::string name, std::string text) {
  files_.push_back({std::move(name), std::move(text)});
  return static_cast<uint32_t>(files_.size() - 1);
}

void Diagnostics::error(Place place, Code code, std::string message, std::string_view hint, size_t width) {
  keep({place, code, std::move(message), std::string(hint), width, true}, &error_count_);
}

void Diagnostics::warning(Place place, Code code, std::string message, std::string_view hint, size_t width) {
  keep({place, code, std::move(message), std::string(hint), width, false}, &warning_count_);
}

void Diagnostics::keep(Entry entry, size_t* count) {
  if (++*count > kMaxKept) return;
  entry.message = module::one_line(entry.message);
  entry.hint = module::one_line(entry.hint.empty() ? entry.code.row->next_step : entry.hint);
  entries_.push_back(std::move(entry));
}

std::string Diagnostics::name_of(Place place) const {
  const std::string& file = files_[place.file].name;
  return place.at.line == 0 ? file : fmt::format("{}:{}:{}", file, place.at.line, place.at.column);
}

std::vector<const Diagnostics::Entry*> Diagnostics::sorted() const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  // Addresses ascend in the order of reporting, which breaks ties between equal locations.
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::tuple(a->place.file, a->place.at.line, a->place.at.column, a) <
           std::tuple(b->place.file, b->place.at.line, b->place.at.column, b);
  });
  return order;
}

std::string Diagnostics::excerpt(const Entry& entry) const {
  const TomlPlace at = entry.place.at;
  if (at.line == 0) return fmt::format("  = {}\n", entry.hint);
  std::vector<std::string> characters = characters_of(line_of(files_[entry.place.file].text, at.line));
  const size_t column = at.column == 0 ? 0 : std::min<size_t>(at.column - 1, characters.size());
  // Of a long line only the part around the caret is shown.
  size_t first = column > kExcerptColumns / 2 && characters.size() > kExcerptColumns ? column - kExcerptColumns / 2 : 0;
  size_t last = std::min(characters.size(), first + kExcerptColumns);
  std::string shown = first ? "..." : "";
  size_t caret = shown.size();
  for (size_t i = first; i < last; ++i) {
    if (i < column) ++caret;
    shown += characters[i];
  }
  if (last < characters.size()) shown += "...";
  const size_t width = std::max<size_t>(1, std::min(entry.width, last > column ? last - column : 1));
  std::string number = fmt::format("{:>4}", at.line);
  return fmt::format("{} | {}\n{} | {}^{} {}\n", number, shown, std::string(number.size(), ' '), std::string(caret, ' '),
                     std::string(width - 1, '~'), entry.hint);
}

std::string Diagnostics::line(const Entry& entry) const {
  return fmt::format("{}: {}[{}]: {}", name_of(entry.place), entry.is_error ? "error" : "warning", entry.code.row->code, entry.message);
}

std::string Diagnostics::render() const {
  std::string text;
  for (const Entry* entry : sorted()) text += line(*entry) + "\n" + excerpt(*entry);
  if (const size_t more = error_count_ + warning_count_ - entries_.size(); more != 0) {
    text += fmt::format("and {} more; correct these first\n", more);
  }
  return text;
}

std::string Diagnostics::first_line() const {
  for (const Entry* entry : sorted()) {
    if (entry->is_error) return line(*entry) + "; " + entry->hint;
  }
  return {};
}

std::vector<std::string> Diagnostics::warnings(Code code) const {
  std::vector<std::string> lines;
  for (const Entry* entry : sorted()) {
    if (!entry->is_error && entry->code.row == code.row) lines.push_back(line(*entry) + "; " + entry->hint);
  }
  return lines;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  std::string near = module::nearest(name, candidates);
  return near.empty() ? "" : fmt::format("did you mean '{}'?", near);
}

}  // namespace heddle::host
