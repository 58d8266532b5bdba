// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies a plugin's table into a full-size table of the host, with UNIMPLEMENTED in every hole, so that the hot path calls
// without a check (HD-E-04). Used by load.cpp; it calls no function of the plugin.
#ifndef HEDDLE_CORE_HOST_TABLE_COPY_H_
#define HEDDLE_CORE_HOST_TABLE_COPY_H_

#include <string>

#include "core/host/loaded_segments.h"
#include "heddle/allocator.h"
#include "heddle/driver.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/library.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"

namespace heddle::host {

// Each returns an error text about the source table, empty on success. `source` is the result of get_interface, not NULL.
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_device_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_buffer_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_transfer_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_param_io_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_dispatch_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_timeline_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_allocator_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_library_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_native_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_profile_interface_t* out_table);
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_blocks_interface_t* out_table);
// The plugin table itself; a missing create or get_interface is an error, a missing probe or shutdown becomes a hole.
std::string copy_table(const void* source, const LoadedSegments& loaded, heddle_plugin_t* out_table);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TABLE_COPY_H_
