// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads a plugin as a host does: its single entry, negotiation, full-size copies of its tables with UNIMPLEMENTED in every hole (HD-E-04). The
// slots of the copies check each call: that it does not change the calling thread's state (HD-T-02), throws nothing (HD-B-01), and writes its
// handle: NULL on failure (HD-E-07).
#ifndef HEDDLE_CONFORMANCE_PLUGIN_H_
#define HEDDLE_CONFORMANCE_PLUGIN_H_

#include "host.h"
#include "settings.h"

namespace heddle::conformance {

struct Tables {
  heddle_device_interface_t device;
  heddle_buffer_interface_t buffer;
  heddle_transfer_interface_t transfer;
  heddle_param_io_interface_t param_io;
  heddle_dispatch_interface_t dispatch;
  heddle_timeline_interface_t timeline;
  heddle_native_interface_t native;  // holes if the driver has none, like profile
  heddle_profile_interface_t profile;
  heddle_blocks_interface_t blocks;
  heddle_allocator_interface_t allocator;
  heddle_library_interface_t library;
  heddle_target_interface_t target;
};

// The cost of the first call of the entry.
struct EntryCost {
  int64_t heap_bytes = 0, mappings = 0;
};

// The plugin of the command line, loaded once in each child, unless a case is about unloading it.
struct Plugin {
  void* library = nullptr;
  heddle_plugin_entry_fn_t entry = nullptr;
  const heddle_plugin_t* source = nullptr;  // as returned by the plugin
  heddle_plugin_t table = {};               // checked copy
  uint32_t chosen_minor = 0;
  EntryCost first_entry;
  std::set<std::string> libraries_before;  // loaded_libraries before it was loaded
  bool is_driver() const { return (table.kind & HEDDLE_PLUGIN_DRIVER) != 0; }
  bool is_library() const { return (table.kind & HEDDLE_PLUGIN_LIBRARY) != 0; }
  bool is_allocator() const { return (table.kind & HEDDLE_PLUGIN_ALLOCATOR) != 0; }
  bool is_target() const { return (table.kind & HEDDLE_PLUGIN_TARGET) != 0; }
};

// Ends the case if the plugin cannot be loaded. The first call loads it.
const Plugin& plugin();
// From now on plugin() is the driver of --driver, or again the plugin of the command line. No instance of the other one may be alive; its library stays
// loaded.
void use_driver(bool is_driver);
// Options of instances of plugin().
const std::vector<OptionValue>& plugin_options();
// Nothing of it must be in use. The next call of plugin loads it again, possibly at another address.
void unload_plugin();
// Whether any part of the library is mapped.
bool is_mapped();
// The number of functions of the plugin's library that were registered with atexit, or as destructors of objects, since the process began.
uint64_t count_exit_handlers();
// A raw table of another plugin, for pairs; ends the case if it cannot be loaded.
const heddle_plugin_t* load_beside(const std::string& path);

// Copies and checks the tables of an instance; ends the case if a table of the plugin's kind is missing or not in a loaded library (HD-E-03).
void copy_tables(heddle_plugin_instance_t* instance, Tables* out);
// Slots of the last copy that the plugin left empty: "heddle.buffer/1 map".
const std::vector<std::string>& empty_slots();

// Whether all bytes are in readable segments of a loaded library.
bool lies_in_library(const void* data, uint64_t size);

// Whether a library belongs to the system or to a compiler's run time.
bool is_of_the_system(const std::string& soname);
// The libraries of this process, without their directories.
std::set<std::string> loaded_libraries();

// Duration of the longest call of a slot in this case, in nanoseconds; `name` as in empty_slots.
uint64_t longest_call_ns(const std::string& name);

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_PLUGIN_H_
