// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.param_io/1, checked: files, extents, and a driver's progress reports. The driver always gets the layer's progress function, even if the
// host requests no progress.
#include "core/validation/call.h"

namespace heddle::validation {
namespace {

constexpr char kProgress[] = "progress of heddle.param_io/1";
constexpr char kRead[] = "heddle.param_io/1 read", kWrite[] = "heddle.param_io/1 write";
// A driver polls `cancel` from time to time: after this many reports it must have seen it.
constexpr uint64_t kReportsToCancel = 256;

bool is_cancelled(const Transfer& transfer) {
  return transfer.cancel && __atomic_load_n(transfer.cancel, __ATOMIC_RELAXED) != 0;
}

heddle_status_t* file_open(heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                           heddle_file_t** out_file) noexcept {
  Call call("heddle.param_io/1 file_open");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  if (descriptor < 0) call.host_broke("HD-M-02", "descriptor is {}", descriptor);
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.param_io->file_open(device, descriptor, access, name, out_file); });
  return call.keep<File>(status, out_file, std::make_shared<File>(), parent,
                         [&](heddle_file_t* made) { call.plugin().driver.param_io->file_close(made); });
}

void file_close(heddle_file_t* file) noexcept {
  Call call("heddle.param_io/1 file_close");
  if (!file) return;
  std::shared_ptr<File> record = call.live<File>(file, "file");
  if (!record) return;
  call.enter_serial(record, "file");
  call.check_unused(*record, "file");
  if (call.refused()) return;
  call.forget(record);
  call.pass(Tag::kMayBlock, [&] { call.plugin().driver.param_io->file_close(file); });
}

void wrong(Transfer& transfer, std::string text) {
  constexpr size_t kKept = 16;
  if (transfer.wrong.size() < kKept) transfer.wrong.emplace_back("HD-T-04", std::move(text));
}

// Records what is wrong with a report. A correct report is passed on to the host.
void look_at(Transfer& transfer, uint64_t done_bytes, uint64_t total_bytes) {
  if (done_bytes < transfer.done)
    wrong(transfer, fmt::format("{} bytes are reported as done, but {} were before", done_bytes, transfer.done));
  if (total_bytes != transfer.total || done_bytes > transfer.total) {
    wrong(transfer, fmt::format("{} of {} bytes are reported, but the extents have {}", done_bytes, total_bytes, transfer.total));
  }
  if (++transfer.reports == transfer.most_reports + 1) {
    wrong(transfer, fmt::format("it was reported {} times for {} bytes, which have at most {} chunks", transfer.reports, transfer.total,
                                transfer.most_reports));
  }
  transfer.done = std::max(transfer.done, done_bytes);
  if (transfer.cancelled_at != UINT64_MAX) {
    ++transfer.reports_since;
  } else if (is_cancelled(transfer)) {
    transfer.cancelled_at = transfer.done;
  }
}

// A report that arrives after the host knows that the work has finished.
void told_late(Plugin* plugin, uint64_t done_bytes) {
  Call call(kProgress);
  if (plugin) call.set_plugin(plugin);
  call.plugin_broke("HD-Q-06", "{} bytes were reported after the end of the work", done_bytes);
}

// Replaces the host's progress function. Runs on a thread of the driver, which may hold its own locks.
void progressed(void* number, uint64_t done_bytes, uint64_t total_bytes) noexcept {
  const auto key = reinterpret_cast<uint64_t>(number);
  std::map<uint64_t, Transfer>& transfers = registry().transfers();
  std::unique_lock lock(registry().transfers_mutex);
  auto found = transfers.find(key);
  if (found == transfers.end() || found->second.over) {
    Plugin* plugin = found == transfers.end() ? nullptr : found->second.plugin;
    lock.unlock();
    return told_late(plugin, done_bytes);
  }
  Transfer& transfer = found->second;
  if (transfer.inside) return wrong(transfer, fmt::format("{} bytes were reported while another report was in progress", done_bytes));
  look_at(transfer, done_bytes, total_bytes);
  if (!transfer.progress) return;
  const auto progress = transfer.progress;
  void* const context = transfer.context;
  transfer.inside = true;
  lock.unlock();
  progress(context, done_bytes, total_bytes);
  lock.lock();
  if (found = transfers.find(key); found != transfers.end()) found->second.inside = false;
}

// The maximum number of reports for extents in chunks: one per chunk, which may begin and end inside a file chunk. A driver's staging memory may be
// smaller than the requested chunks, down to a certain size.
uint64_t most_reports(const heddle_extent_t* extents, uint64_t extent_count, uint64_t chunk_bytes) {
  constexpr uint64_t kLeastStaging = 64 << 10;
  if (chunk_bytes == 0) return UINT64_MAX;  // the driver chooses
  uint64_t most = 1;
  for (uint64_t i = 0; i < extent_count; ++i) most += extents[i].length / std::min(chunk_bytes, kLeastStaging) + 2;
  return most;
}

template <const char* name, auto function>
heddle_status_t* move_extents(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t extent_count, const heddle_param_io_params_t* params) noexcept {
  Call call(name);
  std::shared_ptr<Queue> record = call.live<Queue>(queue, "queue");
  std::shared_ptr<File> of_file = call.live_here<File>(file, "file");
  std::vector<Named> named;
  uint64_t total = 0;
  if (extent_count && !extents) call.host_broke("HD-M-02", "extents is NULL, but extent_count is {}", extent_count);
  for (uint64_t i = 0; extents && i < extent_count; ++i) {
    const heddle_extent_t& extent = extents[i];
    check_binding(call, {extent.buffer, extent.buffer_offset, extent.length}, fmt::format("extents[{}]", i), &named);
    if (extent.length > UINT64_MAX - extent.file_offset || __builtin_add_overflow(total, extent.length, &total)) {
      call.host_broke("HD-M-02", "extents[{}] is {} bytes at {} of the file, which overflows", i, extent.length, extent.file_offset);
    }
  }
  heddle_param_io_params_t through{};
  if (params) through = call.read(params, "params");
  Sync points(call, record, sync);
  if (call.refused()) return call.refusal();
  const auto [timeline, value] = points.first_signal();
  void* number = nullptr;
  // Without a signal the end of the work is unknown. Parameters that this layer does not know are left for the driver to refuse.
  if (timeline && (!params || params->struct_size <= sizeof(through))) {
    Transfer transfer{&call.plugin(),   timeline,        value,         total, most_reports(extents, extent_count, through.chunk_bytes),
                      through.progress, through.context, through.cancel};
    if (is_cancelled(transfer)) transfer.cancelled_at = 0, transfer.reports_since = kReportsToCancel;
    number = registry().add_transfer(std::move(transfer));
    through.struct_size = sizeof(through);
    through.progress = progressed;
    through.context = number;
    params = &through;
  }
  heddle_status_t* status = call.pass(
      Tag::kNoBlock, [&] { return (call.plugin().driver.param_io->*function)(queue, sync, file, extents, extent_count, params); });
  points.enqueued(!status);
  if (!status) {
    points.uses(named);
    points.uses(*of_file);
  } else if (auto found = registry().transfers().find(reinterpret_cast<uint64_t>(number)); found != registry().transfers().end()) {
    std::lock_guard lock(registry().transfers_mutex);
    found->second.over = true;
  }
  call.check_lost(status);
  return status;  // the work is enqueued, even if another rule was broken
}

heddle_status_t* map(heddle_file_t* file, uint64_t offset, uint64_t length, heddle_buffer_t** out_buffer) noexcept {
  Call call("heddle.param_io/1 map");
  std::shared_ptr<File> record = call.live<File>(file, "file");
  std::shared_ptr<Device> parent = record ? record->device : nullptr;
  if (length > UINT64_MAX - offset) call.host_broke("HD-M-02", "{} bytes at {} of the file overflow", length, offset);
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.param_io->map(file, offset, length, out_buffer); });
  auto made = std::make_shared<Buffer>();
  made->size = length;
  return call.keep<Buffer>(status, out_buffer, made, parent, [&](heddle_buffer_t* buffer) { call.plugin().driver.buffer->free(buffer); });
}

}  // namespace

void check_transfers(Call& call, const Timeline& timeline, bool may_ask) {
  for (auto& [number, transfer] : registry().transfers()) {
    if (transfer.timeline.get() != &timeline || transfer.over) continue;
    if (!(may_ask ? transfer.timeline->over(transfer.value) : transfer.timeline->seen_over(transfer.value))) continue;
    std::lock_guard lock(registry().transfers_mutex);
    transfer.over = true;
    for (const auto& [rule, text] : transfer.wrong) call.tell(kProgress, rule, "{}", text);
    if (transfer.inside) call.tell(kProgress, "HD-Q-06", "its signal came before a report of {} bytes had returned", transfer.done);
    if (timeline.reached < transfer.value) continue;  // it failed, and may have stopped anywhere
    if (transfer.done < transfer.total) {
      call.tell(kProgress, "HD-T-04", "only {} of {} bytes were reported when all of them were complete", transfer.done, transfer.total);
    }
    if (transfer.reports_since >= kReportsToCancel) {
      call.tell(kProgress, "HD-T-04", "it was cancelled when {} of {} bytes were done, and its signal was reached; CANCELLED was expected",
                transfer.cancelled_at, transfer.total);
    }
  }
}

const heddle_param_io_interface_t kParamIoTable = {sizeof(heddle_param_io_interface_t),
                                                   0,
                                                   file_open,
                                                   file_close,
                                                   move_extents<kRead, &heddle_param_io_interface_t::read>,
                                                   move_extents<kWrite, &heddle_param_io_interface_t::write>,
                                                   map};

}  // namespace heddle::validation
