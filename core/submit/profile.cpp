// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums by region, and their report.
#include "core/submit/profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/host/trace.h"
#include "core/memory/device.h"

namespace heddle::submit {

void Profile::add(const char* kind, const module_format::DispatchSite* site, uint32_t entry, const std::string& device, uint64_t begin_ns,
                  uint64_t duration_ns) {
  const bool is_dispatch = site != nullptr;
  const std::string region = is_dispatch ? site->name()->str() : std::string();
  if (trace_) {
    if (trace_->wants(is_dispatch ? host::kTraceDispatch : host::kTraceTransfer))
      trace_->span(is_dispatch ? "dispatch" : "transfer", is_dispatch ? region : kind, device, begin_ns, duration_ns);
  }
  std::string kernel;
  if (is_dispatch && entry != kNoEntry) kernel = module_.executables()->Get(site->executable())->entries()->Get(entry)->name()->str();
  std::lock_guard lock(mutex_);
  Row& row = rows_[{region, kind, std::move(kernel), device}];
  ++row.count;
  row.total_ns += duration_ns;
  row.min_ns = std::min(row.min_ns, duration_ns);
  row.max_ns = std::max(row.max_ns, duration_ns);
}

void Profile::add_crossing(const std::string& from, const std::string& to, uint64_t begin_ns, uint64_t duration_ns) {
  if (trace_ && trace_->wants(host::kTraceTransfer)) trace_->span("transfer", "copy", from + " to " + to, begin_ns, duration_ns);
}

void Profile::add_memory(memory::Device& device) {
  if (!trace_ || !trace_->wants(host::kTraceMemory)) return;
  const auto layers = device.pool().layers();
  if (layers.empty()) return;
  trace_->value("memory", device.alias() + ": bytes in use", static_cast<int64_t>(layers.front().statistics.allocated.current));
  trace_->value("memory", device.alias() + ": bytes held", static_cast<int64_t>(layers.front().statistics.bytes_reserved.current));
}

std::string Profile::json() const {
  using Json = nlohmann::ordered_json;
  std::lock_guard lock(mutex_);
  std::vector<std::pair<Key, Row>> sorted(rows_.begin(), rows_.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.total_ns > b.second.total_ns; });
  Json rows = Json::array();
  for (const auto& [key, row] : sorted) {
    rows.push_back({{"region", std::get<0>(key)},
                    {"kind", std::get<1>(key)},
                    {"kernel", std::get<2>(key)},
                    {"device", std::get<3>(key)},
                    {"count", row.count},
                    {"total_ns", row.total_ns},
                    {"min_ns", row.min_ns},
                    {"max_ns", row.max_ns}});
  }
  return Json{{"regions", std::move(rows)}}.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace heddle::submit
