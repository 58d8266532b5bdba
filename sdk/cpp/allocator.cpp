// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options, tables of holders and texts that allocators share.
#include "heddle/sdk/allocator.h"

namespace heddle::sdk {

heddle_status_t* AllocatorSetup::find(const char* option, uint32_t kind, const char* expected, heddle_option_t* out,
                                      bool* out_found) const noexcept {
  *out_found = false;
  for (uint32_t i = 0; i < params_.option_count; ++i) {
    const auto* at = reinterpret_cast<const heddle_option_t*>(reinterpret_cast<const char*>(params_.options) + i * params_.option_stride);
    uint64_t bad_byte;
    if (!read_struct(at, out, &bad_byte)) return tail_status(host_, "heddle_option_t", bad_byte);
    if (view_of(out->name) != option) continue;
    if (out->kind != kind || (kind == HEDDLE_OPTION_INT && out->int_value < 0)) {
      return status(host_, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: reading option %s failed: %s is expected", who_, option, expected);
    }
    *out_found = true;
    return nullptr;
  }
  return nullptr;
}

heddle_status_t* AllocatorSetup::bytes(const char* option, uint64_t* out) const noexcept {
  heddle_option_t value;
  bool found;
  heddle_status_t* failed = find(option, HEDDLE_OPTION_INT, "a number of bytes", &value, &found);
  if (!failed && found) *out = static_cast<uint64_t>(value.int_value);
  return failed;
}

heddle_status_t* AllocatorSetup::text(const char* option, std::string* out) const {
  heddle_option_t value;
  bool found;
  heddle_status_t* failed = find(option, HEDDLE_OPTION_STRING, "a text", &value, &found);
  if (!failed && found) *out = view_of(value.string_value);
  return failed;
}

void Holders::add(const heddle_string_t* owner, uint64_t bytes) {
  const std::string_view name = owner ? view_of(*owner) : std::string_view();
  auto line = std::find_if(lines_.begin(), lines_.end(), [&](const Line& known) { return known.owner == name; });
  if (line == lines_.end()) line = lines_.insert(line, {std::string(name), 0, {}});
  ++line->blocks;
  line->bytes.current += bytes;
}

void Holders::collect(void* context, const heddle_holder_t* holder) noexcept {
  try {
    static_cast<Holders*>(context)->lines_.push_back({std::string(view_of(holder->owner)), holder->blocks, holder->requested});
  } catch (...) {
    // If memory is exhausted, an incomplete table is better than none.
  }
}

void Holders::visit(heddle_holder_visitor_t visitor, void* context) const {
  for (const Line& line : lines_) {
    const heddle_holder_t holder = {string_of(line.owner), line.blocks, line.bytes};
    visitor(context, &holder);
  }
}

std::string Holders::table() const {
  std::vector<Line> sorted = lines_;
  std::sort(sorted.begin(), sorted.end(), [](const Line& a, const Line& b) { return a.bytes.current > b.bytes.current; });
  std::string text;
  for (const Line& line : sorted) {
    char row[96];
    std::snprintf(row, sizeof row, "\n  %15llu bytes in %7llu block%s ", number(line.bytes.current), number(line.blocks),
                  line.blocks == 1 ? " :" : "s:");
    text.append(row).append(line.owner.empty() ? "unknown owner" : line.owner);
  }
  return text;
}

std::string take_text(const heddle_host_t* host, heddle_status_t* status) {
  std::string text(view_of(host->status_message(host->self, status)));
  host->status_free(host->self, status);
  return text;
}

heddle_status_t* exhaustion_status(const heddle_host_t* host, const char* who, std::string_view name, uint64_t size_bytes,
                                   std::string_view cause, std::string_view next_step, const Holders& holders) {
  std::string text(who);
  text.append(": allocating ").append(std::to_string(size_bytes)).append(" bytes from '").append(name).append("' failed: ");
  text.append(cause.substr(0, cause.find('\n'))).append("; ").append(next_step).append(" [HD-M-03]").append(holders.table());
  return host->status_create(host->self, HEDDLE_STATUS_RESOURCE_EXHAUSTED, {nullptr, 0}, 0, string_of(text));
}

heddle_status_t* leak_status(const heddle_host_t* host, const char* who, std::string_view name, uint64_t blocks, const Holders& holders) {
  std::string text(who);
  text.append(": destroying '").append(name).append("' failed: ").append(std::to_string(blocks));
  text.append(blocks == 1 ? " live block" : " live blocks").append("; free them first [HD-L-01]").append(holders.table());
  return host->status_create(host->self, HEDDLE_STATUS_FAILED_PRECONDITION, {nullptr, 0}, 0, string_of(text));
}

heddle_status_t* live_allocators_status(const heddle_host_t* host, const char* who, uint64_t live) noexcept {
  return status(host, HEDDLE_STATUS_FAILED_PRECONDITION, "%s: shutting down failed: %llu allocator%s live; destroy them first [HD-L-01]",
                who, number(live), live == 1 ? " is" : "s are");
}

heddle_status_t* alignment_status(const heddle_host_t* host, const char* who, const heddle_block_params_t& params) noexcept {
  return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: allocating %llu bytes failed: alignment %llu is no power of two", who,
                number(params.size_bytes), number(params.alignment_bytes));
}

}  // namespace heddle::sdk
