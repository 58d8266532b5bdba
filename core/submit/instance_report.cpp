// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reports of an instance, as JSON: where it runs and why, what it did and what it holds.
// Part of Instance; the field names are part of the runtime's stable interface.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/submit/function.h"
#include "core/submit/instance.h"
#include "core/submit/preferences.h"

namespace heddle::submit {

namespace {

using Json = nlohmann::ordered_json;

uint64_t value(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

// Fragmentation: the fraction of the free memory outside of its largest part.
Json pool_json(const memory::Pool::Layer& layer) {
  const heddle_allocator_statistics_t& pool = layer.statistics;
  const uint64_t free = pool.bytes_reserved.current - std::min(pool.active.current, pool.bytes_reserved.current);
  Json out{{"allocator", layer.id},
           {"requested", pool.requested.current},
           {"allocated", pool.allocated.current},
           {"active", pool.active.current},
           {"bytes_reserved", pool.bytes_reserved.current},
           {"inactive_split", pool.inactive_split.current},
           {"largest_free", pool.largest_free},
           {"fragmentation", free == 0 ? 0.0 : 1.0 - static_cast<double>(std::min(pool.largest_free, free)) / static_cast<double>(free)}};
  const std::pair<const char*, const heddle_memory_count_t*> counts[] = {{"requested", &pool.requested},
                                                                         {"allocated", &pool.allocated},
                                                                         {"active", &pool.active},
                                                                         {"reserved", &pool.bytes_reserved},
                                                                         {"inactive_split", &pool.inactive_split}};
  for (const auto& [name, count] : counts) out[std::string("peak_") + name] = count->peak;
  for (const auto& [name, count] : counts) out[std::string("total_") + name] = count->total;
  out["allocations"] = pool.allocations;
  out["frees"] = pool.frees;
  out["provider_allocations"] = pool.provider_allocations;
  out["retries"] = pool.retries;
  out["exhaustions"] = pool.exhaustions;
  return out;
}

Json device_json(memory::Device& device) {
  Json out{{"device", device.alias()}, {"driver", device.driver_id()}};
  heddle_device_statistics_t driver{};
  driver.struct_size = sizeof(driver);
  if (Status(device.api().device->statistics(device.get(), &driver)).ok()) {
    out["driver_counts"] = {{"submissions", driver.submissions},
                            {"dispatches", driver.dispatches},
                            {"copies", driver.copies},
                            {"bytes_allocated", driver.bytes_allocated},
                            {"bytes_reserved", driver.bytes_reserved}};
  }
  const std::vector<memory::Pool::Layer> layers = device.pool().layers();
  out["pool"] = pool_json(layers.front());
  if (layers.size() > 1) {
    out["pool"]["over"] = Json::array();
    for (size_t i = 1; i < layers.size(); ++i) out["pool"]["over"].push_back(pool_json(layers[i]));
  }
  out["pool"]["holders"] = Json::array();
  for (const memory::Pool::Holder& holder : device.pool().holders()) {
    Json line{{"owner", holder.owner}, {"blocks", holder.blocks}, {"requested", holder.requested.current}};
    if (holder.requested.peak != 0) {  // only some allocators count them
      line["peak_requested"] = holder.requested.peak;
      line["total_requested"] = holder.requested.total;
    }
    out["pool"]["holders"].push_back(std::move(line));
  }
  memory::TransferCounts transfers = device.transfer_counts();
  out["host_transfers"] = {{"uploads", transfers.uploads},
                           {"downloads", transfers.downloads},
                           {"upload_bytes", transfers.upload_bytes},
                           {"download_bytes", transfers.download_bytes}};
  return out;
}

}  // namespace

Result<std::string> Instance::report(std::string_view topic) {
  if (topic == "route") {
    Json out = Json::parse(route_.explanation());
    out["links"] = Json::array();
    for (const Link& link : links_) {
      out["links"].push_back({{"from", devices_[link.from]->alias()},
                              {"to", devices_[link.to]->alias()},
                              {"copies", link.direct ? "direct" : "staged"},
                              {"reason", link.reason}});
    }
    out["regions"] = Json::array();
    for (Preferences::Region& region : preferences_->regions()) {
      Json line{{"function", region.function},
                {"region", region.name},
                {"slot", module_->metadata().slots()->Get(region.slot)->name()->str()},
                {"runs", std::move(region.runs)},
                {"why", std::move(region.why)}};
      if (!region.passed.empty()) line["passed"] = std::move(region.passed);
      out["regions"].push_back(std::move(line));
    }
    return out.dump(2, ' ', false, Json::error_handler_t::replace);
  }
  if (topic == "profile") {
    if (!profile_) {
      return error(HEDDLE_STATUS_FAILED_PRECONDITION,
                   "heddle: reporting 'profile' of an instance failed: it records no times; create it with HEDDLE_INSTANCE_PROFILE");
    }
    for (const std::unique_ptr<Function>& function : functions_) function->collect_times();
    return profile_->json();
  }
  if (topic != "statistics") {
    return error(HEDDLE_STATUS_NOT_FOUND,
                 "heddle: reporting '{}' of an instance failed: the topics are 'route', 'statistics' and 'profile'", topic);
  }
  reap_abandoned();
  for (const std::unique_ptr<Function>& function : functions_) function->settle_counts();
  Json out{{"calls", value(counters_.calls)},
           {"failed_calls", value(counters_.failed_calls)},
           {"submissions", value(counters_.submissions)},
           {"replays", value(counters_.replays)},
           {"dispatches", value(counters_.dispatches)},
           {"copies", value(counters_.copies)},
           {"copied_bytes", value(counters_.copied_bytes)},
           {"device_crossings", value(counters_.crossings)},
           {"peer_copies", value(counters_.peer_copies)},
           {"scalars_read", value(counters_.scalars_read)},
           {"plans_made", value(counters_.plans_made)},
           {"frames_made", value(counters_.frames_made)},
           {"arena_bytes", value(counters_.arena_bytes)},
           {"peak_arena_bytes", value(counters_.peak_arena_bytes)}};
  uint64_t global_bytes = 0;
  for (const GlobalMemory& global : machine_.globals) global_bytes += global.memory.length;
  out["global_bytes"] = global_bytes;
  out["weights"] = {{"bytes_read", runtime_->weights.bytes_read()},
                    {"bytes_mapped", runtime_->weights.bytes_mapped()},
                    {"shared", runtime_->weights.shared()}};
  if (const std::vector<std::string> operations = preferences_->operations().prepared(); !operations.empty())
    out["operations"] = operations;
  out["devices"] = Json::array();
  for (const memory::Ref<memory::Device>& device : devices_) out["devices"].push_back(device_json(*device));
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace heddle::submit
