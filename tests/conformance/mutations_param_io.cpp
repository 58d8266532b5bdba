// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutants of parameter I/O. Each breaks one rule of the contract; mutants_test.py says which case of the kit must catch it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <map>
#include <string>

#include "mutation.h"

namespace heddle::odd {
namespace {

std::map<heddle_file_t*, const volatile char*> mapped_files;
void (*their_progress)(void*, uint64_t, uint64_t);
heddle_device_t* opened_on = nullptr;  // the device of the last file

// The template maps no files. What is copied in their place can be told from a mapping only by what each mutant gets wrong.
struct MapMistake {
  bool from_the_start = false, beyond_the_end = false, anywhere = false, shared = false;
};
template <MapMistake mistake>
void map_files() {
  odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                              heddle_file_t** out) noexcept -> Status {
    opened_on = device;
    return good.param_io.file_open(device, descriptor, access, name, out);
  };
  odd.param_io.map = [](heddle_file_t* file, uint64_t offset, uint64_t length, heddle_buffer_t** out) noexcept -> Status {
    *out = nullptr;
    const int descriptor = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(file) + 2 * sizeof(void*));
    struct stat facts;
    if (fstat(descriptor, &facts) != 0) return refuse(HEDDLE_STATUS_INTERNAL, "odd: the file is gone");
    const auto size = static_cast<uint64_t>(facts.st_size);
    if (!mistake.anywhere && offset % 64) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: offset");
    if (!mistake.beyond_the_end && (offset > size || length > size - offset))
      return refuse(HEDDLE_STATUS_DATA_LOSS, "odd: weights.bin ends before");
    if (mistake.shared) {
      auto* memory = static_cast<char*>(mmap(nullptr, offset + length + 1, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
      if (memory == MAP_FAILED) return refuse(HEDDLE_STATUS_INTERNAL, "odd: the file is not mapped");
      return good.buffer.import_host(opened_on, memory + offset, length, nullptr, nullptr, out);
    }
    const heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_HOST_VISIBLE, length, 0};
    if (Status status = good.buffer.allocate(opened_on, &params, out)) return status;
    void* memory = nullptr;
    if (Status status = good.buffer.map(*out, 0, length, HEDDLE_MAP_WRITE, &memory)) return status;
    const ssize_t got = pread(descriptor, memory, length, static_cast<off_t>(mistake.from_the_start ? 0 : offset));
    if (got < 0) return refuse(HEDDLE_STATUS_INTERNAL, "odd: the file is not read");
    return good.buffer.unmap(*out);
  };
}

}  // namespace

const std::vector<Change> kParamIoMutations = {
    {"reads_a_byte_less", [] { change_extents<[](heddle_extent_t* extent) { extent->length -= (1 << 16) < extent->length; }>(); }},
    {"reads_into_one_buffer",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         std::vector<heddle_extent_t> changed(extents, extents + count);
         for (heddle_extent_t& extent : changed) extent.buffer = extents[0].buffer;
         return good.param_io.read(queue, sync, file, changed.data(), count, params);
       };
     }},
    {"direct_reads_begin_on_blocks",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         std::vector<heddle_extent_t> changed(extents, extents + count);
         if (params && params->method == HEDDLE_FILE_METHOD_DIRECT) changed[0].file_offset &= ~uint64_t{4095};
         return good.param_io.read(queue, sync, file, changed.data(), count, params);
       };
     }},
    {"takes_any_method",
     [] {
       change_io_params<[](heddle_param_io_params_t* params) {
         if (HEDDLE_FILE_METHOD_DIRECT < params->method) params->method = HEDDLE_FILE_METHOD_ANY;
       }>();
     }},
    {"reads_whole_sectors", [] { change_extents<[](heddle_extent_t* extent) { extent->file_offset &= ~uint64_t{511}; }>(); }},
    {"short_reads_are_fine",
     [] { change_extents<[](heddle_extent_t* extent) { extent->length = std::min<uint64_t>(extent->length, 8); }>(); }},
    {"opens_by_name",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         const auto* own = *reinterpret_cast<sdk::Device* const*>(reinterpret_cast<const char*>(file) + sizeof(void*));
         (void)own;
         const int descriptor = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(file) + 2 * sizeof(void*));
         char path[256] = {};
         if (readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path, sizeof path - 1) > 0) {
           if (char* deleted = std::strstr(path, " (deleted)")) *deleted = 0;
           const int again = open(path, O_RDONLY | O_CLOEXEC);
           if (again >= 0) {
             dup2(again, descriptor);
             close(again);
           }
         }
         return good.param_io.read(queue, sync, file, extents, count, params);
       };
     }},
    {"maps_files",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         Status status = good.param_io.file_open(device, descriptor, access, name, out);
         struct stat facts;
         if (status || fstat(descriptor, &facts) != 0 || facts.st_size == 0) return status;
         void* memory = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
         mapped_files[*out] = static_cast<const char*>(memory);
         return nullptr;
       };
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         for (uint64_t i = 0; i < count; ++i) {
           if (mapped_files[file][extents[i].file_offset + extents[i].length + 4096 * 3] == 1) usleep(1);
         }
         return good.param_io.read(queue, sync, file, extents, count, params);
       };
     }},
    {"writes_one_further",
     [] {
       odd.param_io.write = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                               uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         std::vector<heddle_extent_t> changed(extents, extents + count);
         for (heddle_extent_t& extent : changed) extent.file_offset += 1;
         return good.param_io.write(queue, sync, file, changed.data(), count, params);
       };
     }},
    {"writes_what_was_opened_for_reading",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         return good.param_io.file_open(device, descriptor, HEDDLE_FILE_READ | HEDDLE_FILE_WRITE, name, out);
       };
     }},
    {"moves_the_callers_offset",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         lseek(descriptor, 0, SEEK_SET);
         return good.param_io.file_open(device, descriptor, access, name, out);
       };
     }},
    {"progress_runs_back",
     [] {
       change_io_params<[](heddle_param_io_params_t* params) {
         their_progress = params->progress;
         if (params->progress)
           params->progress = [](void* context, uint64_t done, uint64_t total) { their_progress(context, total - done, total); };
       }>();
     }},
    {"cannot_be_cancelled", [] { change_io_params<[](heddle_param_io_params_t* params) { params->cancel = nullptr; }>(); }},
    {"looks_for_cancellation_once",
     [] {
       change_io_params<[](heddle_param_io_params_t* params) {
         if (params->cancel && !*params->cancel) params->cancel = nullptr;
       }>();
     }},
    {"file_offsets_of_32_bits",
     [] { change_extents<[](heddle_extent_t* extent) { extent->file_offset = static_cast<uint32_t>(extent->file_offset); }>(); }},
    {"extents_of_32_bits",
     [] { change_extents<[](heddle_extent_t* extent) { extent->length = static_cast<uint32_t>(extent->length); }>(); }},
    {"clamps_extents",
     [] {
       change_extents<[](heddle_extent_t* extent) {
         if (!extent->buffer) return;
         extent->buffer_offset = std::min(extent->buffer_offset, size_of(extent->buffer));
         extent->length = std::min(extent->length, size_of(extent->buffer) - extent->buffer_offset);
       }>();
     }},
    {"reads_whole_files_into_memory",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         for (uint64_t i = 0; i < count; ++i) {
           const size_t bytes = std::min<uint64_t>(extents[i].length, 1 << 30) + 1;
           void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
           munmap(memory, bytes);
         }
         return good.param_io.read(queue, sync, file, extents, count, params);
       };
     }},
    {"maps_from_the_start", [] { map_files<{.from_the_start = true}>(); }},
    {"maps_files_beyond_their_end", [] { map_files<{.beyond_the_end = true}>(); }},
    {"maps_files_anywhere", [] { map_files<{.anywhere = true}>(); }},
    {"maps_files_shared", [] { map_files<{.shared = true}>(); }},
    {"leaks_files",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         if (dup(descriptor) < 0) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: no such descriptor");
         return good.param_io.file_open(device, descriptor, access, name, out);
       };
     }},
};

}  // namespace heddle::odd
