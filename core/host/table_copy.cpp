// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Full-size tables. Every slot is first set to a function that returns UNIMPLEMENTED with the slot's name and clears its outputs. Then the
// plugin's functions are copied over it, after a check that each pointer points into loaded code.
#include "core/host/table_copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/status.h"

namespace heddle::host {
namespace {

// A string as a template argument: the name of a slot.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&source)[N]) { std::copy_n(source, N, text); }  // NOLINT: implicit on purpose
  constexpr std::string_view view() const { return {text, N - 1}; }
};

// Outputs of the interfaces are pointers to handles, counts or structs; the first two are cleared on failure.
template <typename T>
void clear_output(T argument) {
  if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    if constexpr (!std::is_const_v<Target> &&
                  (std::is_pointer_v<Target> || std::is_same_v<Target, uint32_t> || std::is_same_v<Target, uint64_t>)) {
      if (argument) *argument = Target{};
    }
  }
}

template <Name name>
heddle_status_t* unimplemented() {
  return error(HEDDLE_STATUS_UNIMPLEMENTED, "plugin: {} failed: the plugin does not implement it [HD-E-04]", name.view()).release();
}

template <Name name, typename... Arguments>
void fill_hole(heddle_status_t* (*&slot)(Arguments...)) {
  slot = [](Arguments... arguments) noexcept -> heddle_status_t* {
    (clear_output(arguments), ...);
    return unimplemented<name>();
  };
}

template <Name, typename... Arguments>
void fill_hole(void (*&slot)(Arguments...)) {
  slot = [](Arguments...) noexcept {};
}

void fill_holes(heddle_device_interface_t& table) {
  fill_hole<"heddle.device/1 count">(table.count);
  fill_hole<"heddle.device/1 describe">(table.describe);
  fill_hole<"heddle.device/1 link">(table.link);
  fill_hole<"heddle.device/1 open">(table.open);
  fill_hole<"heddle.device/1 close">(table.close);
  fill_hole<"heddle.device/1 queue_create">(table.queue_create);
  fill_hole<"heddle.device/1 queue_destroy">(table.queue_destroy);
  fill_hole<"heddle.device/1 statistics">(table.statistics);
}

void fill_holes(heddle_buffer_interface_t& table) {
  fill_hole<"heddle.buffer/1 allocate">(table.allocate);
  fill_hole<"heddle.buffer/1 free">(table.free);
  fill_hole<"heddle.buffer/1 map">(table.map);
  fill_hole<"heddle.buffer/1 unmap">(table.unmap);
  fill_hole<"heddle.buffer/1 flush">(table.flush);
  fill_hole<"heddle.buffer/1 invalidate">(table.invalidate);
  // The release function is called exactly once, also if the call fails.
  table.import_host = [](heddle_device_t*, void*, uint64_t, void (*release)(void*), void* context,
                         heddle_buffer_t** out_buffer) noexcept -> heddle_status_t* {
    *out_buffer = nullptr;
    if (release) release(context);
    return unimplemented<"heddle.buffer/1 import_host">();
  };
  fill_hole<"heddle.buffer/1 properties">(table.properties);
}

void fill_holes(heddle_transfer_interface_t& table) {
  fill_hole<"heddle.transfer/1 properties">(table.properties);
  fill_hole<"heddle.transfer/1 upload">(table.upload);
  fill_hole<"heddle.transfer/1 download">(table.download);
  fill_hole<"heddle.transfer/1 peer_copy">(table.peer_copy);
}

void fill_holes(heddle_param_io_interface_t& table) {
  fill_hole<"heddle.param_io/1 file_open">(table.file_open);
  fill_hole<"heddle.param_io/1 file_close">(table.file_close);
  fill_hole<"heddle.param_io/1 read">(table.read);
  fill_hole<"heddle.param_io/1 write">(table.write);
  fill_hole<"heddle.param_io/1 map">(table.map);
}

void fill_holes(heddle_dispatch_interface_t& table) {
  fill_hole<"heddle.dispatch/1 variant_rank">(table.variant_rank);
  fill_hole<"heddle.dispatch/1 executable_load">(table.executable_load);
  fill_hole<"heddle.dispatch/1 executable_unload">(table.executable_unload);
  fill_hole<"heddle.dispatch/1 entry">(table.entry);
  fill_hole<"heddle.dispatch/1 submit">(table.submit);
  fill_hole<"heddle.dispatch/1 record">(table.record);
  fill_hole<"heddle.dispatch/1 replay">(table.replay);
  fill_hole<"heddle.dispatch/1 recording_free">(table.recording_free);
  fill_hole<"heddle.dispatch/1 operation_load">(table.operation_load);
  fill_hole<"heddle.dispatch/1 portable_parts">(table.portable_parts);
}

void fill_holes(heddle_timeline_interface_t& table) {
  fill_hole<"heddle.timeline/1 create">(table.create);
  fill_hole<"heddle.timeline/1 destroy">(table.destroy);
  fill_hole<"heddle.timeline/1 query">(table.query);
  fill_hole<"heddle.timeline/1 signal">(table.signal);
  // Takes ownership of the status, so the default function frees it.
  table.fail = [](heddle_timeline_t*, uint64_t, heddle_status_t* status) noexcept { heddle_status_free(status); };
  fill_hole<"heddle.timeline/1 wait">(table.wait);
  fill_hole<"heddle.timeline/1 notify">(table.notify);
  fill_hole<"heddle.timeline/1 export_handle">(table.export_handle);
  fill_hole<"heddle.timeline/1 import_handle">(table.import_handle);
}

void fill_holes(heddle_allocator_interface_t& table) {
  fill_hole<"heddle.allocator/1 create">(table.create);
  fill_hole<"heddle.allocator/1 destroy">(table.destroy);
  fill_hole<"heddle.allocator/1 allocate">(table.allocate);
  fill_hole<"heddle.allocator/1 free">(table.free);
  fill_hole<"heddle.allocator/1 statistics">(table.statistics);
  fill_hole<"heddle.allocator/1 trim">(table.trim);
  fill_hole<"heddle.allocator/1 holders">(table.holders);
}

void fill_holes(heddle_library_interface_t& table) {
  fill_hole<"heddle.library/1 query">(table.query);
  fill_hole<"heddle.library/1 prepare">(table.prepare);
  fill_hole<"heddle.library/1 destroy">(table.destroy);
  fill_hole<"heddle.library/1 enqueue">(table.enqueue);
}

void fill_holes(heddle_native_interface_t& table) {
  fill_hole<"heddle.native/1 context">(table.context);
  fill_hole<"heddle.native/1 stream">(table.stream);
  fill_hole<"heddle.native/1 queue_import">(table.queue_import);
  table.buffer_import = [](heddle_device_t*, uint64_t, uint64_t, void (*release)(void*), void* context,
                           heddle_buffer_t** out_buffer) noexcept -> heddle_status_t* {
    *out_buffer = nullptr;
    if (release) release(context);
    return unimplemented<"heddle.native/1 buffer_import">();
  };
}

void fill_holes(heddle_profile_interface_t& table) {
  fill_hole<"heddle.profile/1 submit">(table.submit);
}

void fill_holes(heddle_blocks_interface_t& table) {
  fill_hole<"heddle.blocks/1 supports">(table.supports);
  fill_hole<"heddle.blocks/1 decode">(table.decode);
}

// struct_size of a table from the plugin, or an error text about the pointer.
std::string read_struct_size(const void* source, const LoadedSegments& loaded, std::string_view what, uint32_t* out_size) {
  if (reinterpret_cast<uintptr_t>(source) % alignof(void*) != 0 || !loaded.readable(source, sizeof(uint32_t))) {
    return fmt::format("its {} table at {} is not in a loaded library [HD-E-03]", what, source);
  }
  std::memcpy(out_size, source, sizeof(*out_size));
  return {};
}

constexpr size_t kHeaderBytes = 8;  // struct_size and a reserved word; then function pointers only

template <typename Table>
std::string copy_functions(const void* source, const LoadedSegments& loaded, std::string_view what, Table* out_table) {
  static_assert((sizeof(Table) - kHeaderBytes) % sizeof(void*) == 0 && std::is_trivially_copyable_v<Table>);
  std::memset(out_table, 0, sizeof(Table));
  out_table->struct_size = sizeof(Table);
  fill_holes(*out_table);

  uint32_t struct_size = 0;
  if (std::string wrong = read_struct_size(source, loaded, what, &struct_size); !wrong.empty()) return wrong;
  if (struct_size < kHeaderBytes) {
    return fmt::format("its {} table has struct_size {}; at least {} was expected, and {} for a complete one [HD-E-04]", what, struct_size,
                       kHeaderBytes, sizeof(Table));
  }
  // The unknown end of a larger table is ignored; a smaller one leaves default functions, also for a partial pointer at its end.
  const size_t read = std::min<size_t>(struct_size, sizeof(Table)) & ~(sizeof(void*) - 1);
  if (!loaded.readable(source, read)) {
    return fmt::format("its {} table has struct_size {}, which exceeds its library; a complete one has {} [HD-E-04]", what, struct_size,
                       sizeof(Table));
  }
  for (size_t offset = kHeaderBytes; offset < read; offset += sizeof(void*)) {
    void* function;
    std::memcpy(&function, static_cast<const char*>(source) + offset, sizeof(function));
    if (!function) continue;
    if (!loaded.executable(function)) {
      return fmt::format("entry {} of its {} table, {}, does not point to code; struct_size {} may be wrong [HD-E-04]",
                         (offset - kHeaderBytes) / sizeof(void*), what, function, struct_size);
    }
    std::memcpy(reinterpret_cast<char*>(out_table) + offset, &function, sizeof(function));
  }
  return {};
}

}  // namespace

std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_device_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_DEVICE_INTERFACE, out_table);
}
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_buffer_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_BUFFER_INTERFACE, out_table);
}
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_transfer_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_TRANSFER_INTERFACE, out_table);
}
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_param_io_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_PARAM_IO_INTERFACE, out_table);
}
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_dispatch_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_DISPATCH_INTERFACE, out_table);
}
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_timeline_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_TIMELINE_INTERFACE, out_table);
}
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_allocator_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_ALLOCATOR_INTERFACE, out_table);
}

std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_library_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_LIBRARY_INTERFACE, out_table);
}

std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_native_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_NATIVE_INTERFACE, out_table);
}

std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_profile_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_PROFILE_INTERFACE, out_table);
}

std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_blocks_interface_t* out_table) {
  return copy_functions(source, loaded, HEDDLE_BLOCKS_INTERFACE, out_table);
}

std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_plugin_t* out_table) {
  *out_table = heddle_plugin_t{};
  uint32_t struct_size = 0;
  if (std::string wrong = read_struct_size(source, loaded, "plugin", &struct_size); !wrong.empty()) return wrong;
  const size_t read = std::min<size_t>(struct_size, sizeof(*out_table)) & ~(sizeof(void*) - 1);
  constexpr size_t kLeast = offsetof(heddle_plugin_t, get_interface) + sizeof(void*);  // all of minor 0.1; later functions may be missing
  if (read < kLeast || !loaded.readable(source, read)) {
    return fmt::format("its plugin table has struct_size {}; {} or more was expected [HD-E-04]", struct_size, kLeast);
  }
  std::memcpy(out_table, source, read);
  out_table->struct_size = sizeof(*out_table);
  for (const heddle_string_t& text : {out_table->id, out_table->version}) {
    if (text.size > 256 || (text.size != 0 && !loaded.readable(text.data, text.size))) {
      return "its plugin table names an id or a version that is not in a loaded library [HD-E-03]";
    }
  }
  auto code = [&](auto function) { return loaded.executable(reinterpret_cast<const void*>(function)); };
  if (!code(out_table->create)) return "its plugin table has no function create [HD-E-03]";
  if (!code(out_table->get_interface)) return "its plugin table has no function get_interface [HD-E-03]";
  if (out_table->probe && !code(out_table->probe)) return "its plugin table's probe does not point to code [HD-E-03]";
  if (out_table->shutdown && !code(out_table->shutdown)) return "its plugin table's shutdown does not point to code [HD-E-03]";
  if (!out_table->shutdown) fill_hole<"shutdown">(out_table->shutdown);
  return {};
}

}  // namespace heddle::host
