// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region's roofline is min(peak of operations, operations per byte * peak of bytes); its share of that is the shortest time at the peaks, of the
// operations or of the bytes, by the time that it took.
#include "tools/profile/roofline.h"

#include <algorithm>

#include "tools/profile/extent_expression.h"

namespace heddle::tool {

void Amounts::One::add(const One& other) {
  count += other.count;
  time_ns += other.time_ns;
  least_ns += other.least_ns;
  compared_ns += other.compared_ns;
}

void Amounts::add(const Amounts& other) {
  flops.add(other.flops);
  bytes.add(other.bytes);
  both.add(other.both);
}

void Amounts::add_to(Json& row) const {
  auto add = [&](const One& one, const char* count, const char* rate, const char* share) {
    if (one.time_ns > 0) {
      row[count] = one.count;
      row[rate] = one.count / one.time_ns;
    }
    if (one.compared_ns > 0) row[share] = one.least_ns / one.compared_ns;
  };
  add(flops, "flops", "gflops", "flops_share");
  add(bytes, "bytes", "gbytes", "bytes_share");
  if (both.compared_ns > 0) row["roofline"] = both.least_ns / both.compared_ns;
}

Roofline::Roofline(const Json& module_report, const std::map<std::string, int64_t>& symbols, const std::map<std::string, Peaks>& peaks)
    : symbols_(symbols), peaks_(peaks) {
  Json families = Json::array();
  for (const Json& slot : array(part(module_report, "route"), "slots")) families.push_back(text(slot, "family"));
  const Json& report = part(module_report, "compiler_report");
  for (const Json& region : array(report, "regions")) {
    if (array(region, "families") == families) regions_.try_emplace(text(region, "region"), &region);
  }
  is_fast_ = text(report, "math").starts_with("fast");
}

std::optional<double> Roofline::amount(const Json& region, const char* field) const {
  const Json& value = part(region, field);
  if (value.is_number()) return value.get<double>();
  const auto number = value.is_string() ? evaluate_extent(value.get<std::string>(), symbols_) : std::nullopt;
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

std::optional<double> Roofline::peak_flops(const Json& region, const Peaks& peaks) const {
  const Json& results = array(region, "results");
  const std::string type = results.empty() ? std::string() : cell_text(results[0]), element = type.substr(0, type.find('['));
  // The products are those of TF32, which no kernel measures.
  if (is_fast_ && element == "f32" && peaks.family != "cpu") return std::nullopt;
  return peaks.flops_for(element);
}

Amounts Roofline::of(const Json& row) const {
  const std::string name = row["region"].get<std::string>(), kind = row["kind"].get<std::string>();
  const double time_ns = row["time_ns"].get<double>(), count = row["count"].get<double>();
  const auto found = peaks_.find(row["device"].get<std::string>());
  const Peaks* peaks = found != peaks_.end() && found->second.unmeasured.empty() ? &found->second : nullptr;
  const auto known = regions_.find(name.substr(0, name.find(' ')));
  const Json* region = known == regions_.end() || row.value("kernel", "").empty() ? nullptr : known->second;
  std::optional<double> bytes, flops, peak;
  if (region) {
    bytes = amount(*region, "bytes");
    flops = amount(*region, "flops");
    if (peaks) peak = peak_flops(*region, *peaks);
    if (bytes) *bytes *= count;
    if (flops) *flops *= count;
  } else if (row.contains("bytes")) {
    bytes = row["bytes"].get<double>() * (kind == "copy" ? 2 : 1);  // on a device it reads and writes
  }
  Amounts out;
  if (time_ns <= 0) return out;
  if (flops) out.flops = {*flops, time_ns, peak ? *flops / *peak : 0, peak ? time_ns : 0};
  if (bytes) out.bytes = {*bytes, time_ns, peaks ? *bytes / peaks->bytes_per_ns(*bytes / std::max(count, 1.0)) : 0, peaks ? time_ns : 0};
  const bool is_product = region && region->contains("flops");
  if (bytes && peaks && (!is_product || (flops && peak))) {
    out.both = {0, 0, std::max(out.bytes.least_ns, out.flops.least_ns), time_ns};
  }
  return out;
}

}  // namespace heddle::tool
