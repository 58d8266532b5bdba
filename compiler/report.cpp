// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/report.h"

#include "llvm/Support/JSON.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace json = llvm::json;

namespace heddle::compiler {
namespace {

std::string location_text(Location location) {
  if (auto name = llvm::dyn_cast<NameLoc>(location)) return name.getName().str();
  return "";
}

json::Array refusals(ModuleOp module) {
  json::Array result;
  auto log = module->getAttrOfType<ArrayAttr>(tx::fusion_log_attr);
  for (Attribute entry : log ? log.getValue() : ArrayRef<Attribute>()) {
    json::Object object;
    for (NamedAttribute field : llvm::cast<DictionaryAttr>(entry)) {
      object[field.getName().str()] = llvm::cast<StringAttr>(field.getValue()).str();
    }
    result.push_back(std::move(object));
  }
  return result;
}

}  // namespace

std::string report(const std::vector<emit::Family>& families) {
  json::Array regions, described, not_fused;
  for (const emit::Family& family : families) {
    const auto& kernels = family.kernels.all();
    ModuleOp model = family.model;
    model.walk([&](tx::DispatchOp region) {
      json::Array ops;
      for (Operation& op : region.getBody().front().without_terminator()) {
        json::Object one{{"op", op.getName().getStringRef().str()}};
        if (std::string node = location_text(op.getLoc()); !node.empty()) one["node"] = node;
        ops.push_back(std::move(one));
      }
      regions.push_back(json::Object{{"family", family.name},
                                     {"region", region.getName().str()},
                                     {"node", location_text(region.getLoc())},
                                     {"kernel", kernels[family.kernels.index_of(region)].symbol},
                                     {"ops", std::move(ops)}});
    });
    for (auto [index, kernel] : llvm::enumerate(kernels)) {
      json::Array variants;
      for (const emit::Image& image : family.images) {
        const targets::KernelResources& resources = image.resources[index];
        json::Object needs{
            {"format", image.format}, {"target", image.target}, {"workspace_bytes", static_cast<int64_t>(resources.workspace_bytes)}};
        if (resources.workgroup_size > 1) needs["workgroup_size"] = static_cast<int64_t>(resources.workgroup_size);
        if (resources.shared_memory_bytes > 0) needs["shared_memory_bytes"] = static_cast<int64_t>(resources.shared_memory_bytes);
        if (resources.registers > 0) {
          needs["registers"] = static_cast<int64_t>(resources.registers);
          needs["spilled_bytes"] = static_cast<int64_t>(resources.spilled_bytes);
        }
        if (!resources.rung.empty()) needs["rung"] = resources.rung;
        variants.push_back(std::move(needs));
      }
      std::string workgroups;
      llvm::raw_string_ostream(workgroups) << kernel.plan.workgroups;
      described.push_back(json::Object{{"family", family.name},
                                       {"kernel", kernel.symbol},
                                       {"workgroups", workgroups},
                                       {"workgroup_cost_ns", static_cast<int64_t>(kernel.plan.cost_ns)},
                                       {"variants", std::move(variants)}});
    }
    for (json::Value& refusal : refusals(model)) {
      (*refusal.getAsObject())["family"] = family.name;
      not_fused.push_back(std::move(refusal));
    }
  }
  json::Object result{{"regions", std::move(regions)}, {"kernels", std::move(described)}, {"not_fused", std::move(not_fused)}};
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(result));
  return text;
}

void StageTimes::done(const char* stage) {
  auto now = std::chrono::steady_clock::now();
  seconds_.emplace_back(stage, std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

std::string StageTimes::add_to(const std::string& report) const {
  auto parsed = json::parse(report);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return report;
  }
  json::Object times;
  for (const auto& [stage, seconds] : seconds_) times[stage] = seconds;
  (*parsed->getAsObject())["seconds"] = std::move(times);
  std::string text;
  llvm::raw_string_ostream(text) << *parsed;
  return text;
}

}  // namespace heddle::compiler
