// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums per region, and their report.
#include "core/submit/profile.h"

#include <algorithm>
#include <vector>

#include "core/host/trace.h"
#include "core/memory/device.h"
#include "sdk/module/json.h"

namespace heddle::submit {

void Profile::add(const char* kind, const module_format::DispatchSite* site, uint32_t candidate, const std::string& device, uint64_t bytes,
                  uint64_t begin_ns, uint64_t duration_ns) {
  if (trace_) {
    if (trace_->wants(site ? host::kTraceDispatch : host::kTraceTransfer))
      trace_->span(site ? "dispatch" : "transfer", site ? site->name()->str() : kind, device, begin_ns, duration_ns);
  }
  Key key{site ? site->name()->str() : std::string(), kind, device, {}, {}, kNoCandidate};
  if (site && candidate != kNoCandidate) {
    const module_format::Executable* executable = module_.executables()->Get(site->executable());
    key.executable = executable->name()->str();
    key.kernel = executable->entries()->Get(site->candidates()->Get(candidate)->entry())->name()->str();
    key.candidate = candidate;
  }
  add(std::move(key), bytes, duration_ns);
}

void Profile::add(Key key, uint64_t bytes, uint64_t duration_ns) {
  std::lock_guard lock(mutex_);
  Row& row = rows_[std::move(key)];
  ++row.count;
  row.total_ns += duration_ns;
  row.total_bytes += bytes;
  row.min_ns = std::min(row.min_ns, duration_ns);
  row.max_ns = std::max(row.max_ns, duration_ns);
}

void Profile::add_crossing(const std::string& from, const std::string& to, uint64_t bytes, uint64_t begin_ns, uint64_t duration_ns) {
  std::string both = from + " to " + to;
  if (trace_ && trace_->wants(host::kTraceTransfer)) trace_->span("transfer", "copy", both, begin_ns, duration_ns);
  add({{}, "copy between devices", std::move(both), {}, {}, kNoCandidate}, bytes, duration_ns);
}

void Profile::add_memory(memory::Device& device) {
  if (!trace_ || !trace_->wants(host::kTraceMemory)) return;
  const auto layers = device.pool().layers();
  if (layers.empty()) return;
  trace_->value("memory", device.alias() + ": bytes in use", static_cast<int64_t>(layers.front().statistics.allocated.current));
  trace_->value("memory", device.alias() + ": bytes held", static_cast<int64_t>(layers.front().statistics.bytes_reserved.current));
}

std::string Profile::json() const {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<Key, Row>> sorted(rows_.begin(), rows_.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.total_ns > b.second.total_ns; });
  module::JsonWriter out(2);
  out.open('{').key("regions").open('[');
  for (const auto& [key, row] : sorted) {
    out.open('{').key("region").text(key.region).key("kind").text(key.kind).key("device").text(key.device);
    if (key.candidate != kNoCandidate)
      out.key("executable").text(key.executable).key("kernel").text(key.kernel).count("candidate", key.candidate);
    out.count("count", row.count).count("total_ns", row.total_ns).count("min_ns", row.min_ns).count("max_ns", row.max_ns);
    if (key.region.empty()) out.count("total_bytes", row.total_bytes);
    out.close('}');
  }
  return out.close(']').close('}').take();
}

}  // namespace heddle::submit
