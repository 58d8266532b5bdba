// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What mutants and oddities are made of: the tables of the template driver, which they may change before anyone sees them.
#ifndef HEDDLE_TESTS_CONFORMANCE_ODD_DRIVER_H_
#define HEDDLE_TESTS_CONFORMANCE_ODD_DRIVER_H_

#include <functional>
#include <string_view>
#include <vector>

#include "heddle/ext/blocks.h"
#include "heddle/sdk/driver.h"
#include "heddle/sdk/host_timeline.h"

namespace heddle::odd {

struct Tables {
  heddle_plugin_t plugin;
  heddle_device_interface_t device;
  heddle_buffer_interface_t buffer;
  heddle_transfer_interface_t transfer;
  heddle_param_io_interface_t param_io;
  heddle_dispatch_interface_t dispatch;
  heddle_timeline_interface_t timeline;
  heddle_blocks_interface_t blocks;  // the template has none: struct_size is 0 unless a change sets it
};

// As the template has them, and as the host will see them.
extern Tables good, odd;

struct Change {
  const char* name;
  void (*apply)();  // changes `odd`
};
extern const std::vector<Change> kObjectMutations, kTransferMutations, kParamIoMutations, kBlocksMutations, kDispatchMutations,
    kPortableMutations, kOrderMutations;     // each breaks one rule
extern const std::vector<Change> kOddities;  // each keeps all rules

// Gives the driver heddle.blocks/1, without a mistake.
void add_blocks();

// True if the environment variable ODD_DRIVER, names with '+' between them, has this one. For what no table decides.
bool chosen(std::string_view name);

heddle_status_t* refuse(heddle_status_code_t code, const char* text);
// Runs the function a little later in a thread of its own, which ends with the process.
void later(unsigned microseconds, std::function<void()> function);
// A submission without its waits or signals.
heddle_sync_t without(const heddle_sync_t& sync, bool waits, bool signals);

}  // namespace heddle::odd
#endif  // HEDDLE_TESTS_CONFORMANCE_ODD_DRIVER_H_
