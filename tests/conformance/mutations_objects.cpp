// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutants of the plugin, its devices and buffers. Each breaks one rule of the contract; mutants_test.py says which case of the kit must catch it.
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "mutation.h"

namespace heddle::odd {

namespace {

std::mutex mutex;
std::set<heddle_queue_t*> later_queues;  // under mutex

}  // namespace

const std::vector<Change> kObjectMutations = {
    // ---- the plugin
    {"other_id", [] { odd.plugin.id = sdk::string_of("test.other"); }},
    {"probe_miscounts",
     [] {
       odd.plugin.probe = [](const heddle_host_t* host, heddle_probe_result_t* out) noexcept -> Status {
         Status status = good.plugin.probe(host, out);
         if (out->struct_size == sizeof *out) out->device_count += 1;
         return status;
       };
     }},
    {"probe_leaks_descriptors",
     [] {
       odd.plugin.probe = [](const heddle_host_t* host, heddle_probe_result_t* out) noexcept -> Status {
         open("/dev/null", O_RDONLY | O_CLOEXEC);
         return good.plugin.probe(host, out);
       };
     }},
    {"one_instance",
     [] {
       odd.plugin.create = [](const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept -> Status {
         static heddle_plugin_instance_t* first = nullptr;
         if (!first) return good.plugin.create(host, &first) ? nullptr : (*out = first, nullptr);
         *out = first;
         return nullptr;
       };
     }},
    {"no_submit", [] { odd.dispatch.submit = nullptr; }},
    {"leaks_host_memory",
     [] {
       odd.plugin.create = [](const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept -> Status {
         host->memory_allocate(host->self, 100, 8);
         return good.plugin.create(host, out);
       };
     }},
    {"create_trusts_memory",
     [] {
       odd.plugin.create = [](const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept -> Status {
         void* memory = host->memory_allocate(host->self, 100, 8);
         static_cast<volatile char*>(memory)[0] = 1;
         host->memory_free(host->self, memory);
         return good.plugin.create(host, out);
       };
     }},
    {"leaks_threads",
     [] {
       odd.plugin.create = [](const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept -> Status {
         later(30000000, [] {});
         return good.plugin.create(host, out);
       };
     }},
    {"dies_at_exit",
     [] {
       odd.plugin.create = [](const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept -> Status {
         std::atexit([] { std::raise(SIGKILL); });
         return good.plugin.create(host, out);
       };
     }},
    {"wants_to_be_alone",
     [] {
       odd.plugin.create = [](const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept -> Status {
         Status status = good.plugin.create(host, out);
         dl_iterate_phdr(
             [](dl_phdr_info* info, size_t, void*) {
               if (std::strstr(info->dlpi_name, "libheddle_cpu.so")) std::abort();
               return 0;
             },
             nullptr);
         return status;
       };
     }},
    {"shuts_down_with_devices",
     [] {
       odd.plugin.shutdown = [](heddle_plugin_instance_t* instance) noexcept -> Status {
         if (sdk::Driver::from(instance)->open_devices.load()) return nullptr;
         return good.plugin.shutdown(instance);
       };
     }},
    // ---- devices
    {"alignment_of_3", [] { change_description<[](heddle_device_description_t* out) { out->min_alignment_bytes = 3; }>(); }},
    {"any_ordinal",
     [] {
       odd.device.open = [](heddle_plugin_instance_t* instance, uint32_t, const heddle_device_open_params_t* params,
                            heddle_device_t** out) noexcept -> Status { return good.device.open(instance, 0, params, out); };
     }},
    {"no_link",
     [] {
       odd.device.link = [](heddle_plugin_instance_t*, uint32_t, uint32_t, heddle_device_link_t* out) noexcept -> Status {
         if (out->struct_size >= 8) out->kind = HEDDLE_LINK_NONE;
         return nullptr;
       };
     }},
    {"one_device",
     [] {
       odd.device.open = [](heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                            heddle_device_t** out) noexcept -> Status {
         static std::map<heddle_plugin_instance_t*, heddle_device_t*> opened;
         if (opened[instance]) return *out = opened[instance], nullptr;
         Status status = good.device.open(instance, ordinal, params, out);
         opened[instance] = *out;
         return status;
       };
     }},
    {"no_first_word",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* params, heddle_buffer_t** out) noexcept -> Status {
         Status status = good.buffer.allocate(device, params, out);
         if (!status) sdk::Buffer::from(*out)->api = nullptr;
         return status;
       };
     }},
    {"frozen_statistics",
     [] {
       odd.device.statistics = [](heddle_device_t*, heddle_device_statistics_t* out) noexcept -> Status {
         sdk::write_struct(heddle_device_statistics_t{}, out);
         return nullptr;
       };
     }},
    {"any_priority",
     [] {
       odd.device.queue_create = [](heddle_device_t* device, const heddle_queue_params_t*, heddle_queue_t** out) noexcept -> Status {
         const heddle_queue_params_t params = {sizeof params, 0};
         return good.device.queue_create(device, &params, out);
       };
     }},
    {"overwrites_outputs",
     [] {
       odd.device.describe = [](heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out) noexcept -> Status {
         const uint32_t size = out->struct_size;
         out->struct_size = sizeof *out;
         Status status = good.device.describe(instance, ordinal, out);
         out->struct_size = size;
         return status;
       };
     }},
    {"closes_with_children",
     [] {
       odd.device.close = [](heddle_device_t* device) noexcept -> Status {
         return sdk::Device::from(device)->live.any() ? nullptr : good.device.close(device);
       };
     }},
    {"leaks_in_open",
     [] {
       odd.device.open = [](heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                            heddle_device_t** out) noexcept -> Status {
         open("/dev/null", O_RDONLY | O_CLOEXEC);
         return good.device.open(instance, ordinal, params, out);
       };
     }},
    {"leaks_mappings",
     [] {
       odd.device.open = [](heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                            heddle_device_t** out) noexcept -> Status {
         char* memory = static_cast<char*>(mmap(nullptr, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
         mprotect(memory + 4096, 4096, PROT_READ);  // no neighbour is joined to it
         return good.device.open(instance, ordinal, params, out);
       };
     }},
    {"threads_take_signals",
     [] {
       odd.device.open = [](heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                            heddle_device_t** out) noexcept -> Status {
         later(300000, [] {});  // a thread with the mask of its caller
         return good.device.open(instance, ordinal, params, out);
       };
     }},
    {"opens_alone",
     [] {
       odd.device.open = [](heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                            heddle_device_t** out) noexcept -> Status {
         *out = nullptr;
         return alone([&] { return good.device.open(instance, ordinal, params, out); }, 3000);
       };
     }},
    {"forgets_the_queues_work",
     [] {
       odd.device.queue_destroy = [](heddle_queue_t* queue) noexcept -> Status {
         later(1, [=] { good.device.queue_destroy(queue); });
         usleep(3000);
         return nullptr;
       };
     }},
    {"forked_queues",
     [] {
       odd.device.queue_create = [](heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept -> Status {
         Status status = good.device.queue_create(device, params, out);
         const heddle_host_t* host = sdk::Device::from(device)->host;
         if (!status || host->status_code(host->self, status) != HEDDLE_STATUS_FAILED_PRECONDITION) return status;
         host->status_free(host->self, status);
         return nullptr;
       };
     }},
    {"drops_work_of_later_queues",
     [] {
       odd.device.queue_create = [](heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept -> Status {
         Status status = good.device.queue_create(device, params, out);
         std::lock_guard<std::mutex> lock(mutex);
         static int count = 0;
         if (!status && ++count > 50) later_queues.insert(*out);
         return status;
       };
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         std::lock_guard<std::mutex> lock(mutex);
         return submit_list(queue, in,
                            later_queues.count(queue) ? std::vector<heddle_command_t>()
                                                      : std::vector<heddle_command_t>(in->commands, in->commands + in->command_count));
       };
     }},
    // ---- structs
    {"ignores_tails",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         heddle_buffer_params_t params = *in;
         params.struct_size = std::min<uint32_t>(params.struct_size, sizeof params);
         return good.buffer.allocate(device, &params, out);
       };
     }},
    {"refuses_small_structs",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         *out = nullptr;
         if (in->struct_size < sizeof *in) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: too small a struct");
         return good.buffer.allocate(device, in, out);
       };
     }},
    // ---- buffers
    {"refuses_empty_buffers",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         *out = nullptr;
         if (in->size_bytes == 0) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: 0 bytes");
         return good.buffer.allocate(device, in, out);
       };
     }},
    {"ignores_alignment",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         heddle_buffer_params_t params = *in;
         params.alignment_bytes = 0;
         Status status = good.buffer.allocate(device, &params, out);
         // What is aligned by luck is had again, elsewhere.
         std::vector<heddle_buffer_t*> lucky;
         const uint64_t asked = in->struct_size >= sizeof *in ? in->alignment_bytes : 0;
         while (!status && asked > 64 && lucky.size() < 64 &&
                reinterpret_cast<uintptr_t>(sdk::Buffer::from(*out)->host_address()) % asked == 0) {
           lucky.push_back(*out);
           status = good.buffer.allocate(device, &params, out);
         }
         for (heddle_buffer_t* buffer : lucky) good.buffer.free(buffer);
         return status;
       };
     }},
    {"rounds_alignment_up",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         heddle_buffer_params_t params = *in;
         if (params.alignment_bytes & (params.alignment_bytes - 1)) params.alignment_bytes = 128;
         return good.buffer.allocate(device, &params, out);
       };
     }},
    {"hides_kinds",
     [] {
       odd.buffer.properties = [](heddle_buffer_t* buffer, heddle_buffer_properties_t* out) noexcept -> Status {
         Status status = good.buffer.properties(buffer, out);
         out->memory = 0;
         return status;
       };
     }},
    {"wrong_code_over_limit",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         Status status = good.buffer.allocate(device, in, out);
         const heddle_host_t* host = sdk::Device::from(device)->host;
         if (!status || host->status_code(host->self, status) != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return status;
         host->status_free(host->self, status);
         return refuse(HEDDLE_STATUS_INTERNAL, "odd: no memory");
       };
     }},
    {"maps_beyond_the_end",
     [] {
       odd.buffer.map = [](heddle_buffer_t* buffer, uint64_t offset, uint64_t, uint32_t flags, void** out) noexcept -> Status {
         return good.buffer.map(buffer, std::min(offset, size_of(buffer)), 0, flags, out);
       };
     }},
    {"flushes_beyond_the_end", [] { odd.buffer.flush = [](heddle_buffer_t*, uint64_t, uint64_t) noexcept -> Status { return nullptr; }; }},
    {"maps_with_any_flags",
     [] {
       odd.buffer.map = [](heddle_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t, void** out) noexcept -> Status {
         return good.buffer.map(buffer, offset, length, HEDDLE_MAP_READ, out);
       };
     }},
    {"maps_hidden_memory",  // with the oddity hidden_memory
     [] {
       odd.buffer.map = [](heddle_buffer_t* buffer, uint64_t offset, uint64_t, uint32_t, void** out) noexcept -> Status {
         *out = sdk::Buffer::from(buffer)->host_address() + offset;
         return nullptr;
       };
     }},
    {"maps_copies",
     [] {
       odd.buffer.map = [](heddle_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t flags, void** out) noexcept -> Status {
         Status status = good.buffer.map(buffer, offset, length, flags, out);
         static std::vector<std::vector<char>> copies;
         if (!status) {
           copies.emplace_back(static_cast<char*>(*out), static_cast<char*>(*out) + length);
           *out = copies.back().data();
         }
         return status;
       };
     }},
    {"first_unmap_ends_all",
     [] {
       struct Shadow {
         std::vector<char> bytes;
       };
       static std::map<heddle_buffer_t*, Shadow> shadows;
       odd.buffer.map = [](heddle_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t flags, void** out) noexcept -> Status {
         Status status = good.buffer.map(buffer, offset, length, flags, out);
         if (status) return status;
         Shadow& shadow = shadows[buffer];
         const char* bytes = sdk::Buffer::from(buffer)->host_address();
         if (shadow.bytes.empty()) shadow.bytes.assign(bytes, bytes + size_of(buffer));
         *out = shadow.bytes.data() + offset;
         return nullptr;
       };
       odd.buffer.flush = [](heddle_buffer_t* buffer, uint64_t offset, uint64_t length) noexcept -> Status {
         const std::vector<char>& bytes = shadows[buffer].bytes;
         if (!bytes.empty()) std::memcpy(sdk::Buffer::from(buffer)->host_address() + offset, bytes.data() + offset, length);
         return nullptr;
       };
       odd.buffer.unmap = [](heddle_buffer_t* buffer) noexcept -> Status {
         auto* kept = new std::vector<char>(std::move(shadows[buffer].bytes));  // still readable, but nobody's
         (void)kept;
         shadows.erase(buffer);
         return nullptr;
       };
     }},
    {"buffers_share_memory",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         static char* shared = static_cast<char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
         static int count = 0;
         if (++count % 8 != 0 || in->size_bytes == 0 || in->size_bytes > 1 << 20) return good.buffer.allocate(device, in, out);
         return good.buffer.import_host(device, shared, in->size_bytes, nullptr, nullptr, out);
       };
     }},
    {"never_releases_imports",
     [] {
       odd.buffer.import_host = [](heddle_device_t* device, void* memory, uint64_t size, void (*)(void*), void*,
                                   heddle_buffer_t** out) noexcept -> Status {
         return good.buffer.import_host(device, memory, size, nullptr, nullptr, out);
       };
     }},
    {"releases_imports_at_once",
     [] {
       odd.buffer.import_host = [](heddle_device_t* device, void* memory, uint64_t size, void (*release)(void*), void* context,
                                   heddle_buffer_t** out) noexcept -> Status {
         Status status = good.buffer.import_host(device, memory, size, release, context, out);
         if (!status) release(context);
         return status;
       };
     }},
    {"keeps_failed_imports",
     [] {
       odd.buffer.import_host = [](heddle_device_t* device, void* memory, uint64_t size, void (*release)(void*), void* context,
                                   heddle_buffer_t** out) noexcept -> Status {
         return good.buffer.import_host(device, memory, size, memory ? release : nullptr, context, out);
       };
     }},
    {"imports_whole_pages",
     [] {
       odd.buffer.import_host = [](heddle_device_t* device, void* memory, uint64_t size, void (*release)(void*), void* context,
                                   heddle_buffer_t** out) noexcept -> Status {
         auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) & ~uintptr_t{4095});
         return good.buffer.import_host(device, page, size, release, context, out);
       };
     }},
    {"imports_views_as_copies",
     [] {
       odd.buffer.import_host = [](heddle_device_t* device, void* memory, uint64_t size, void (*release)(void*), void* context,
                                   heddle_buffer_t** out) noexcept -> Status {
         static uint64_t begin = 0, end = 0;  // of the import before
         const uint64_t at = reinterpret_cast<uint64_t>(memory);
         if (!memory || at < begin || at >= end) {
           begin = at;
           end = at + size;
           return good.buffer.import_host(device, memory, size, release, context, out);
         }
         auto* copy = new std::vector<char>(static_cast<char*>(memory), static_cast<char*>(memory) + size);
         return good.buffer.import_host(device, copy->data(), size, release, context, out);
       };
     }},
    {"forgets_after_a_free",
     [] {
       static std::atomic<bool> freed{false};
       odd.buffer.free = [](heddle_buffer_t* buffer) noexcept {
         if (buffer) freed = true;
         good.buffer.free(buffer);
       };
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         heddle_binding_t other = *target;
         if (freed) other.length = 0;
         return good.transfer.upload(queue, sync, source, &other);
       };
     }},
    {"never_has_memory_back",
     [] {
       odd.buffer.free = [](heddle_buffer_t* buffer) noexcept {
         if (buffer) sdk::Buffer::from(buffer)->device->bytes_allocated += size_of(buffer);
         good.buffer.free(buffer);
       };
     }},
};

}  // namespace heddle::odd
