// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver that is the template but for the changes that ODD_DRIVER names. Its entry, and how changes come over the template's tables.
#include "odd_driver.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "heddle/sdk/negotiate.h"
#include "odd_names.h"

// The template's entry, renamed by the build.
extern "C" const heddle_plugin_t* heddle_template_entry(heddle_negotiation_t* negotiation);

namespace heddle::odd {

Tables good, odd;

namespace {

constexpr char kVariable[] = "ODD_DRIVER";

const heddle_host_t* last_host = nullptr;

// What no table decides.
const Change kOfTheEntry[] = {
    {"answers_any_interface", [] {}}, {"entry_opens", [] {}},       {"entry_overwrites", [] {}}, {"entry_chooses_0", [] {}},
    {"entry_gives_no_reason", [] {}}, {"entry_accepts_all", [] {}}, {"entry_allocates", [] {}},
};

const void* get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  const std::string_view wanted = sdk::view_of(id);
  if (wanted == HEDDLE_DEVICE_INTERFACE) return &odd.device;
  if (wanted == HEDDLE_BUFFER_INTERFACE) return &odd.buffer;
  if (wanted == HEDDLE_TRANSFER_INTERFACE) return &odd.transfer;
  if (wanted == HEDDLE_PARAM_IO_INTERFACE) return &odd.param_io;
  if (wanted == HEDDLE_BLOCKS_INTERFACE && odd.blocks.struct_size != 0) return &odd.blocks;
  if (wanted == HEDDLE_DISPATCH_INTERFACE) return &odd.dispatch;
  if (wanted == HEDDLE_TIMELINE_INTERFACE || chosen("answers_any_interface")) return &odd.timeline;
  return nullptr;
}

heddle_status_t* create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  last_host = host;
  return good.plugin.create(host, out);
}

void apply_chosen(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (chosen(change.name)) change.apply();
  }
}

bool prepare() {
  auto with_all = [](auto function) {
    function(kObjectMutations, kTransferMutations, kParamIoMutations, kBlocksMutations, kDispatchMutations, kPortableMutations,
             kOrderMutations, kOddities);
  };
  with_all([](const auto&... lists) { expect_known(kVariable, lists..., kOfTheEntry); });
  heddle_negotiation_t record = {};
  record.struct_size = sizeof record;
  record.host_min_minor = HEDDLE_ABI_MIN_MINOR;
  record.host_max_minor = HEDDLE_ABI_MINOR;
  good = {*heddle_template_entry(&record), *sdk::device_interface(),   *sdk::buffer_interface(),   *sdk::transfer_interface(),
          *sdk::param_io_interface(),      *sdk::dispatch_interface(), *sdk::timeline_interface(), {}};
  odd = good;
  odd.plugin.id = sdk::string_of("test.odd_driver");
  odd.plugin.create = create;
  odd.plugin.get_interface = get_interface;
  with_all([](const auto&... lists) { (apply_chosen(lists), ...); });
  return true;
}

}  // namespace

bool chosen(std::string_view name) {
  return is_named(kVariable, name);
}

heddle_status_t* refuse(heddle_status_code_t code, const char* text) {
  return last_host->status_create(last_host->self, code, {nullptr, 0}, 0, sdk::string_of(text));
}

void later(unsigned microseconds, std::function<void()> function) {
  std::thread([=] {
    usleep(microseconds);
    function();
  }).detach();
}

heddle_sync_t without(const heddle_sync_t& sync, bool waits, bool signals) {
  heddle_sync_t less = sync;
  if (waits) less.wait_count = 0;
  if (signals) less.signal_count = 0;
  return less;
}

}  // namespace heddle::odd

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const bool prepared = odd::prepare();
  (void)prepared;
  if (odd::chosen("entry_opens")) open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (odd::chosen("entry_allocates")) {
    static volatile char* last;
    last = new char[100];
    *last = 1;
  }
  if (odd::chosen("entry_overwrites")) std::memset(negotiation->reason, 'x', sizeof negotiation->reason);
  const heddle_plugin_t* table = sdk::negotiate(negotiation, "test.odd_driver", &odd::odd.plugin);
  if (odd::chosen("entry_chooses_0")) negotiation->chosen_minor = 0;
  if (odd::chosen("entry_gives_no_reason") && !table) negotiation->reason_size = 0;
  if (odd::chosen("entry_accepts_all")) return &odd::odd.plugin;
  return table;
}
