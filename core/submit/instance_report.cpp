// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reports of an instance, as JSON: where it runs and why, what it did and what it holds.
// Part of Instance; the field names are part of the runtime's stable interface.
#include <algorithm>

#include "core/submit/function.h"
#include "core/submit/instance.h"
#include "core/submit/portable_parts.h"
#include "core/submit/preferences.h"
#include "sdk/module/json.h"

namespace heddle::submit {

namespace {

using module::JsonWriter;

uint64_t value(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

// The members of a pool's object. Fragmentation: the fraction of the free memory outside of its largest part.
void write_pool(JsonWriter& out, const memory::Pool::Layer& layer) {
  const heddle_allocator_statistics_t& pool = layer.statistics;
  const uint64_t free = pool.bytes_reserved.current - std::min(pool.active.current, pool.bytes_reserved.current);
  out.key("allocator").text(layer.id).count("requested", pool.requested.current).count("allocated", pool.allocated.current);
  out.count("active", pool.active.current).count("bytes_reserved", pool.bytes_reserved.current);
  out.count("inactive_split", pool.inactive_split.current).count("largest_free", pool.largest_free);
  out.key("fragmentation");
  out.real(free == 0 ? 0.0 : 1.0 - static_cast<double>(std::min(pool.largest_free, free)) / static_cast<double>(free));
  const std::pair<const char*, const heddle_memory_count_t*> counts[] = {{"requested", &pool.requested},
                                                                         {"allocated", &pool.allocated},
                                                                         {"active", &pool.active},
                                                                         {"reserved", &pool.bytes_reserved},
                                                                         {"inactive_split", &pool.inactive_split}};
  for (const auto& [name, count] : counts) out.count(std::string("peak_") + name, count->peak);
  for (const auto& [name, count] : counts) out.count(std::string("total_") + name, count->total);
  out.count("allocations", pool.allocations).count("frees", pool.frees).count("provider_allocations", pool.provider_allocations);
  out.count("retries", pool.retries).count("exhaustions", pool.exhaustions);
}

void write_device(JsonWriter& out, memory::Device& device) {
  out.open('{').key("device").text(device.alias()).key("driver").text(device.driver_id());
  heddle_device_statistics_t driver{};
  driver.struct_size = sizeof(driver);
  if (Status(device.api().device->statistics(device.get(), &driver)).ok()) {
    out.key("driver_counts").open('{').count("submissions", driver.submissions).count("dispatches", driver.dispatches);
    out.count("copies", driver.copies).count("bytes_allocated", driver.bytes_allocated).count("bytes_reserved", driver.bytes_reserved);
    out.count("interpreted", driver.interpreted).count("interpreted_ns", driver.interpreted_ns).count("kernel_ns", driver.kernel_ns);
    out.count("staged_bytes", driver.staged_bytes).close('}');
  }
  const std::vector<memory::Pool::Layer> layers = device.pool().layers();
  out.key("pool").open('{');
  write_pool(out, layers.front());
  if (layers.size() > 1) {
    out.key("over").open('[');
    for (size_t i = 1; i < layers.size(); ++i) {
      out.open('{');
      write_pool(out, layers[i]);
      out.close('}');
    }
    out.close(']');
  }
  out.key("holders").open('[');
  for (const memory::Pool::Holder& holder : device.pool().holders()) {
    out.open('{').key("owner").text(holder.owner).count("blocks", holder.blocks).count("requested", holder.requested.current);
    if (holder.requested.peak != 0)  // only some allocators count them
      out.count("peak_requested", holder.requested.peak).count("total_requested", holder.requested.total);
    out.close('}');
  }
  out.close(']').close('}');
  const memory::TransferCounts transfers = device.transfer_counts();
  out.key("host_transfers").open('{').count("uploads", transfers.uploads).count("downloads", transfers.downloads);
  out.count("upload_bytes", transfers.upload_bytes).count("download_bytes", transfers.download_bytes).close('}').close('}');
}

}  // namespace

Result<std::string> Instance::report(std::string_view topic) {
  if (topic == "route") {
    JsonWriter out(2);
    out.open('{');
    route_.explain(out);
    out.key("links").open('[');
    for (const Link& link : links_) {
      out.open('{').key("from").text(devices_[link.from]->alias()).key("to").text(devices_[link.to]->alias());
      out.key("copies").text(link.direct ? "direct" : "staged").key("reason").text(link.reason).close('}');
    }
    out.close(']').key("regions").open('[');
    for (const Preferences::Region& region : preferences_->regions()) {
      out.open('{').key("function").text(region.function).key("region").text(region.name);
      out.key("slot").text(module_->metadata().slots()->Get(region.slot)->name()->string_view());
      out.key("runs").text(region.runs).key("why").text(region.why);
      if (!region.passed.empty()) {
        out.key("passed").open('[');
        for (const std::string& passed : region.passed) out.text(passed);
        out.close(']');
      }
      out.close('}');
    }
    out.close(']').key("portable").open('[');
    for (const route::ChosenCode& chosen : route_.code) {
      std::pair<JsonWriter*, std::string_view> to = {&out, devices_[chosen.device]->alias()};
      visit_portable_parts(
          *devices_[chosen.device], *module_, chosen,
          [](void* its, heddle_string_t entry, const heddle_portable_part_t& part) {
            const auto& [json, alias] = *static_cast<decltype(to)*>(its);
            json->open('{').key("device").text(alias).key("kernel").text(view(entry)).key("what").text(view(part.what));
            json->count("nodes", part.node_count).key("runs").text(part.kernel.size ? view(part.kernel) : "interpreted");
            json->key("why").text(view(part.reason)).count("workspace_bytes", part.workspace_bytes).count("cost_ns", part.cost_ns);
            json->close('}');
          },
          &to);
    }
    return out.close(']').close('}').take();
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
  JsonWriter out(2);
  out.open('{').count("calls", value(counters_.calls)).count("failed_calls", value(counters_.failed_calls));
  out.count("submissions", value(counters_.submissions)).count("replays", value(counters_.replays));
  out.count("dispatches", value(counters_.dispatches)).count("copies", value(counters_.copies));
  out.count("copied_bytes", value(counters_.copied_bytes)).count("device_crossings", value(counters_.crossings));
  out.count("peer_copies", value(counters_.peer_copies)).count("scalars_read", value(counters_.scalars_read));
  out.count("plans_made", value(counters_.plans_made)).count("frames_made", value(counters_.frames_made));
  out.count("arena_bytes", value(counters_.arena_bytes)).count("peak_arena_bytes", value(counters_.peak_arena_bytes));
  uint64_t global_bytes = 0;
  for (const GlobalMemory& global : globals()->places) global_bytes += global.memory.length;
  out.count("global_bytes", global_bytes).key("weights").open('{').count("bytes_read", runtime_->weights.bytes_read());
  out.count("bytes_mapped", runtime_->weights.bytes_mapped()).count("shared", runtime_->weights.shared()).close('}');
  for (const auto& [name, table] : {std::pair("code", &runtime_->code), std::pair("derived", &runtime_->derived)})
    out.key(name).open('{').count("made", table->made()).count("shared", table->shared()).close('}');
  if (const std::vector<std::string> operations = preferences_->operations().prepared(); !operations.empty()) {
    out.key("operations").open('[');
    for (const std::string& operation : operations) out.text(operation);
    out.close(']');
  }
  out.key("devices").open('[');
  for (const memory::Ref<memory::Device>& device : devices_) write_device(out, *device);
  return out.close(']').close('}').take();
}

}  // namespace heddle::submit
