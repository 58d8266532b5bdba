// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/compile/report_text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace heddle::tool {
namespace {

// The plans that calls use, with the condition of each, and the number of other plans per strategy.
Json summary_of_plans(const Json& plans) {
  Json lines = Json::array();
  std::vector<std::pair<std::string, size_t>> others;  // by strategy; the plans of one strategy are adjacent
  for (const Json& plan : plans) {
    const std::string strategy = text(plan, "strategy");
    if (text(plan, "taken") == "true") {
      Json line{{"taken", strategy}};
      for (const char* field : {"choice", "when", "estimate_ns"}) {
        if (text(plan, field) != "-") line[field] = plan[field];
      }
      lines.push_back(std::move(line));
      continue;
    }
    if (others.empty() || others.back().first != strategy) others.emplace_back(strategy, 0);
    ++others.back().second;
  }
  std::string counts;
  for (const auto& [strategy, count] : others) counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " of " + strategy;
  if (!counts.empty()) lines.push_back(Json{{"not_taken", counts}});
  return lines;
}

// Why strategies refused, one line per reason. Strategies without a reason are for other kinds of regions and left out.
Json summary_of_refusals(const Json& refused) {
  Json lines = Json::array();
  for (const Json& refusal : refused) {
    const std::string reason = text(refusal, "reason");
    if (reason == "-") continue;
    auto same = std::find_if(lines.begin(), lines.end(), [&](const Json& line) { return text(line, "reason") == reason; });
    if (same == lines.end()) {
      lines.push_back(Json{{"strategies", Json::array()}, {"reason", reason}});
      same = std::prev(lines.end());
    }
    (*same)["strategies"].push_back(text(refusal, "strategy"));
  }
  return lines;
}

}  // namespace

void print_report(const Json& report) {
  Json shown = report;
  if (shown.is_object() && shown.contains("kernels")) {
    for (Json& kernel : shown["kernels"]) {
      if (kernel.contains("plans")) kernel["plans"] = summary_of_plans(kernel["plans"]);
      if (!kernel.contains("refused")) continue;
      kernel["refused"] = summary_of_refusals(kernel["refused"]);
      if (kernel["refused"].empty()) kernel.erase("refused");
    }
  }
  print_tree(shown, "");
}

}  // namespace heddle::tool
