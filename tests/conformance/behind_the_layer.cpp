// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A usual life of a driver, as a host that keeps every rule leads it, behind the validation layer. Prints what the layer told, a line each; run by
// layer_test.py with the mutants of the odd driver, and with none.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/validation/layer.h"
#include "plugin_host.h"

namespace heddle::test {
namespace {

// The answers do not matter here: what is wrong with them is the layer's to tell.
void ignore(heddle_status_t* status) {
  PluginHost::free_status(status);
}

PluginHost* the_host = nullptr;
heddle_status_t* absent() {
  return the_host->table()->status_create(the_host->table()->self, HEDDLE_STATUS_UNIMPLEMENTED, {}, 0, string_of("absent"));
}

// As the host does: what a shorter table, or one with holes, does not have answers UNIMPLEMENTED (HD-E-04). Of the functions that live() calls.
template <class Table>
Table full_size(const Table* given) {
  Table table = {};
  std::memcpy(static_cast<void*>(&table), given, std::min<size_t>(given->struct_size, sizeof table));
  return table;
}
heddle_device_interface_t device_table;
heddle_buffer_interface_t buffer_table;
heddle_timeline_interface_t timeline_table;
void fill_holes(heddle_driver_api_t* api) {
  device_table = full_size(api->device);
  buffer_table = full_size(api->buffer);
  if (!device_table.statistics) device_table.statistics = [](heddle_device_t*, heddle_device_statistics_t*) { return absent(); };
  if (!buffer_table.properties) buffer_table.properties = [](heddle_buffer_t*, heddle_buffer_properties_t*) { return absent(); };
  if (!buffer_table.import_host) {
    buffer_table.import_host = [](heddle_device_t*, void*, uint64_t, void (*release)(void*), void* context, heddle_buffer_t** out) {
      release(context);
      *out = nullptr;
      return absent();
    };
  }
  timeline_table = full_size(api->timeline);
  if (!timeline_table.notify) {
    timeline_table.notify = [](heddle_timeline_t*, uint64_t, void (*)(void*, const heddle_status_t*), void*) { return absent(); };
  }
  api->timeline = &timeline_table;
  api->device = &device_table;
  api->buffer = &buffer_table;
}

heddle_command_t fill(heddle_buffer_t* target, uint64_t length) {
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_FILL;
  command.as.fill = {target, 0, length, 7, 4, 0};
  return command;
}

void live(OpenDriver& driver) {
  heddle_device_description_t description = {};
  description.struct_size = 64;  // of an older host
  ignore(driver.device_api->describe(driver.instance(), 0, &description));
  description.struct_size = sizeof description;
  ignore(driver.device_api->describe(driver.instance(), 0, &description));
  heddle_device_open_params_t open = {sizeof open, 0, &driver.api, {}, -1, 0};
  heddle_device_t* second = nullptr;
  ignore(driver.device_api->open(driver.instance(), 0, &open, &second));
  if (second) ignore(driver.device_api->close(second));

  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 4096, 0};
  heddle_buffer_t *a = nullptr, *b = nullptr;
  for (int i = 0; i < 8; ++i) {  // alignments of which an unaligned allocation can keep some by chance
    params.alignment_bytes = 1u << 16;
    ignore(driver.buffer_api->allocate(driver.device, &params, &a));
    if (a && i < 7) driver.buffer_api->free(std::exchange(a, nullptr));
  }
  params.alignment_bytes = 0;
  ignore(driver.buffer_api->allocate(driver.device, &params, &b));
  alignas(64) static char host_memory[4096];
  heddle_buffer_t* imported = nullptr;
  ignore(driver.buffer_api->import_host(driver.device, host_memory, sizeof host_memory, [](void*) {}, nullptr, &imported));
  if (imported) driver.buffer_api->free(imported);

  heddle_timeline_t* timeline = nullptr;
  ignore(driver.timeline_api->create(driver.device, 5, &timeline));
  if (timeline) {
    uint64_t value = 0;
    ignore(driver.timeline_api->query(timeline, &value));
    const heddle_point_t never = {timeline, 9};
    ignore(driver.timeline_api->wait(&never, 1, HEDDLE_WAIT_ALL, 20'000'000));
    ignore(driver.timeline_api->notify(timeline, 6, [](void*, const heddle_status_t*) {}, nullptr));
    ignore(driver.timeline_api->signal(timeline, 6));
    const heddle_point_t six = {timeline, 6};
    ignore(driver.timeline_api->wait(&six, 1, HEDDLE_WAIT_ALL, 1'000'000'000));
    ignore(driver.timeline_api->query(timeline, &value));
    driver.timeline_api->destroy(timeline);
  }
  if (a && b) {
    heddle_queue_t* queue = nullptr;
    const heddle_queue_params_t queue_params = {sizeof queue_params, 0};
    ignore(driver.device_api->queue_create(driver.device, &queue_params, &queue));
    for (int i = 0; queue && i < 3; ++i) {
      heddle_timeline_t* done = nullptr;
      ignore(driver.timeline_api->create(driver.device, 0, &done));
      if (!done) break;
      const heddle_point_t one = {done, 1};
      const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &one};
      const heddle_binding_t binding = {a, 0, 4096};
      if (i == 0) ignore(driver.transfer_api->upload(queue, &sync, host_memory, &binding));
      if (i == 1) ignore(driver.submit({fill(a, 4096), {}, fill(b, 4096)}, {}, {one}, queue));
      if (i == 2) ignore(driver.transfer_api->download(queue, &sync, &binding, host_memory));
      ignore(driver.timeline_api->wait(&one, 1, HEDDLE_WAIT_ALL, 1'000'000'000));
      driver.timeline_api->destroy(done);
    }
    // The queue goes before anybody waits for its work, which is late.
    heddle_timeline_t* last = nullptr;
    ignore(driver.timeline_api->create(driver.device, 0, &last));
    if (queue && last) ignore(driver.submit({fill(a, 4096)}, {}, {{last, 1}}, queue));
    if (queue) ignore(driver.device_api->queue_destroy(queue));
    const heddle_point_t one = {last, 1};
    if (last) ignore(driver.timeline_api->wait(&one, 1, HEDDLE_WAIT_ALL, 10'000'000'000));
    if (last) driver.timeline_api->destroy(last);
  }
  heddle_device_statistics_t statistics = {};
  statistics.struct_size = sizeof statistics;
  ignore(driver.device_api->statistics(driver.device, &statistics));
  for (heddle_buffer_t* buffer : {a, b}) {
    if (buffer) driver.buffer_api->free(buffer);
  }
}

}  // namespace
}  // namespace heddle::test

int main(int argc, char** argv) {
  using namespace heddle::test;
  if (argc != 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  auto entry = library ? reinterpret_cast<heddle_validation_entry_fn_t>(dlsym(library, HEDDLE_VALIDATION_ENTRY_NAME)) : nullptr;
  const heddle_validation_t* layer = entry ? entry(HEDDLE_VALIDATION_VERSION) : nullptr;
  if (!layer) return 2;
  PluginHost host;
  host.set_int("latency_us", 200'000);  // so that work is on its way, however little of the processor this process gets
  the_host = &host;
  {
    OpenDriver driver(argv[2], &host, "", [&](heddle_driver_api_t* api) {
      fill_holes(api);
      layer->wrap_driver(api, string_of("test.odd_driver"));
    });
    driver.shut_down = [&, own = driver.plugin()->shutdown](heddle_plugin_instance_t* instance) { return layer->shutdown(instance, own); };
    if (driver.device) live(driver);
  }
  for (const std::string& line : host.logged_lines()) {
    if (line.rfind("validation: ", 0) == 0) std::puts(line.c_str());
  }
  return 0;
}
