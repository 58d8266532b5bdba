// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code objects of the stand-in: readers, executables, symbols, and the table of AMD's extension for loaders.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/hsa/runtime.h"
//
#include <hsa/hsa_ven_amd_loader.h>

namespace heddle::hsa {

namespace {

struct Executable {
  bool frozen = false;
  struct Loaded {
    std::unique_ptr<amdgpu::CodeObject> code;
    std::vector<std::byte> file;
    Block image;
    std::vector<uint64_t> blocks;

    Loaded() = default;
    Loaded(Loaded&&) = default;
    Loaded& operator=(Loaded&&) = default;
    ~Loaded() {
      if (code == nullptr) return;
      for (const uint64_t block : blocks) memory().remove(block);
      memory().unmap_code(image);
    }
  };
  std::vector<Loaded> objects;
};

struct Symbol {
  std::string name;
  const amdgpu::Kernel* kernel = nullptr;  // else a variable
  uint64_t address = 0, bytes = 0;
};

struct Reader {
  const std::byte* bytes;
  size_t size;
};

struct Registry {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<Executable>> executables;
  std::map<uint64_t, Reader> readers;
  std::map<std::pair<uint64_t, std::string>, std::unique_ptr<Symbol>> symbols;  // by executable and name
  uint64_t next = 0xc0de0001;
};

Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

Symbol* find_symbol(hsa_executable_symbol_t handle) {
  Registry& r = registry();
  for (const auto& [key, symbol] : r.symbols) {
    if (reinterpret_cast<uint64_t>(symbol.get()) == handle.handle) return symbol.get();
  }
  return nullptr;
}

// Loads a copy of the bytes into memory of the GPU.
Executable::Loaded load_object(const Reader& reader, uint32_t gpu) {
  Executable::Loaded loaded;
  loaded.file.assign(reader.bytes, reader.bytes + reader.size);
  const uint64_t bytes = std::as_const(*amdgpu::CodeObject::load(loaded.file)).image().size();
  Block image;
  if (!memory().map_code(gpu, bytes, image)) throw std::bad_alloc();
  loaded.image = image;
  loaded.code = amdgpu::CodeObject::load(loaded.file, image.address);
  std::memcpy(image.host, loaded.code->image(), bytes);
  for (const amdgpu::CodeObject::Segment& s : loaded.code->segments()) {
    if (s.bytes == 0) continue;
    Block b = image;
    b.address = s.address;
    b.bytes = s.bytes;
    b.host = image.host + (s.address - image.address);
    b.writable = s.writable;
    loaded.blocks.push_back(b.address);
    memory().add(std::move(b));
  }
  return loaded;
}

template <class T>
hsa_status_t give(void* value, T what) {
  *static_cast<T*>(value) = what;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t kernel_info(const Symbol& s, hsa_executable_symbol_info_t attribute, void* value) {
  switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT:
      return give<uint64_t>(value, s.address);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE:
      return give<uint32_t>(value, s.kernel->kernarg_bytes);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT:
      return give<uint32_t>(value, std::max(16u, s.kernel->kernarg_alignment));
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE:
      return give<uint32_t>(value, s.kernel->lds_bytes);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE:
      return give<uint32_t>(value, s.kernel->private_bytes);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK:
      return give(value, s.kernel->dynamic_stack);
    default:
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, "hsa_executable_symbol_get_info",
                    "attribute " + std::to_string(attribute) + " of kernel '" + s.name + "' is not implemented");
  }
}

hsa_status_t query_host_address(const void* device_address, const void** host_address) {
  return guarded("hsa_ven_amd_loader_query_host_address", [&](const char* where) {
    const auto block = memory().containing(reinterpret_cast<uint64_t>(device_address));
    if (!block || block->kind != Block::Code || host_address == nullptr) {
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, hex(reinterpret_cast<uint64_t>(device_address)) + " is not in a code object");
    }
    *host_address = block->host + (reinterpret_cast<uint64_t>(device_address) - block->address);
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t query_segment_descriptors(hsa_ven_amd_loader_segment_descriptor_t*, size_t*) {
  return refuse(HSA_STATUS_ERROR, "hsa_ven_amd_loader_query_segment_descriptors", "it is not implemented");
}

hsa_status_t query_executable(const void*, hsa_executable_t*) {
  return refuse(HSA_STATUS_ERROR, "hsa_ven_amd_loader_query_executable", "it is not implemented");
}

}  // namespace

bool find_kernel(uint64_t descriptor, LoadedKernel& out) {
  Registry& r = registry();
  const std::lock_guard hold(r.mutex);
  for (const auto& [handle, executable] : r.executables) {
    if (!executable->frozen) continue;
    for (const Executable::Loaded& object : executable->objects) {
      if (const amdgpu::Kernel* kernel = object.code->kernel_at(descriptor); kernel != nullptr) {
        out = {object.code.get(), kernel, executable};
        return true;
      }
    }
  }
  return false;
}

}  // namespace heddle::hsa

using namespace heddle::hsa;

extern "C" {

hsa_status_t hsa_code_object_reader_create_from_memory(const void* code_object, size_t size, hsa_code_object_reader_t* reader) {
  return guarded(__func__, [&](const char* where) {
    if (code_object == nullptr || size == 0 || reader == nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no code object, or no result pointer");
    Registry& r = registry();
    const std::lock_guard hold(r.mutex);
    reader->handle = r.next++;
    r.readers[reader->handle] = {static_cast<const std::byte*>(code_object), size};
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_code_object_reader_destroy(hsa_code_object_reader_t reader) {
  return guarded(__func__, [&](const char* where) {
    Registry& r = registry();
    const std::lock_guard hold(r.mutex);
    if (r.readers.erase(reader.handle) == 0)
      return refuse(static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER), where, "no such reader");
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_executable_create_alt(hsa_profile_t, hsa_default_float_rounding_mode_t, const char*, hsa_executable_t* executable) {
  return guarded(__func__, [&](const char* where) {
    if (executable == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    Registry& r = registry();
    const std::lock_guard hold(r.mutex);
    executable->handle = r.next++;
    r.executables[executable->handle] = std::make_shared<Executable>();
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_executable_destroy(hsa_executable_t executable) {
  return guarded(__func__, [&](const char* where) {
    Registry& r = registry();
    std::shared_ptr<Executable> gone;  // is destroyed after the lock, or when its last kernel has ended
    const std::lock_guard hold(r.mutex);
    const auto found = r.executables.find(executable.handle);
    if (found == r.executables.end()) return refuse(HSA_STATUS_ERROR_INVALID_EXECUTABLE, where, "no such executable");
    gone = std::move(found->second);
    r.executables.erase(found);
    std::erase_if(r.symbols, [&](const auto& s) { return s.first.first == executable.handle; });
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_executable_load_agent_code_object(hsa_executable_t executable, hsa_agent_t agent, hsa_code_object_reader_t reader,
                                                   const char*, hsa_loaded_code_object_t* loaded_code_object) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    if (!agent_index(agent, index) || index == 0) return refuse(HSA_STATUS_ERROR_INVALID_AGENT, where, "no such GPU");
    if (loaded_code_object != nullptr) return refuse(HSA_STATUS_ERROR, where, "handles of loaded code objects are not implemented");
    Registry& r = registry();
    const std::lock_guard hold(r.mutex);
    const auto target = r.executables.find(executable.handle);
    const auto source = r.readers.find(reader.handle);
    if (target == r.executables.end()) return refuse(HSA_STATUS_ERROR_INVALID_EXECUTABLE, where, "no such executable");
    if (source == r.readers.end())
      return refuse(static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER), where, "no such reader");
    if (target->second->frozen) return refuse(HSA_STATUS_ERROR_FROZEN_EXECUTABLE, where, "the executable is frozen");
    try {
      Executable::Loaded object = load_object(source->second, index);
      if (object.code->processor() != "gfx90a")
        return refuse(HSA_STATUS_ERROR_INVALID_ISA, where, "the code object is for " + object.code->processor() + ", the GPU is gfx90a");
      target->second->objects.push_back(std::move(object));
    } catch (const std::runtime_error& e) {
      return refuse(HSA_STATUS_ERROR_INVALID_CODE_OBJECT, where, e.what());
    }
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_executable_freeze(hsa_executable_t executable, const char*) {
  return guarded(__func__, [&](const char* where) {
    Registry& r = registry();
    const std::lock_guard hold(r.mutex);
    const auto found = r.executables.find(executable.handle);
    if (found == r.executables.end()) return refuse(HSA_STATUS_ERROR_INVALID_EXECUTABLE, where, "no such executable");
    if (found->second->frozen) return refuse(HSA_STATUS_ERROR_FROZEN_EXECUTABLE, where, "the executable is frozen already");
    found->second->frozen = true;
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_executable_get_symbol_by_name(hsa_executable_t executable, const char* name, const hsa_agent_t*,
                                               hsa_executable_symbol_t* out) {
  return guarded(__func__, [&](const char* where) {
    if (name == nullptr || out == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no name, or no result pointer");
    Registry& r = registry();
    const std::lock_guard hold(r.mutex);
    const auto found = r.executables.find(executable.handle);
    if (found == r.executables.end()) return refuse(HSA_STATUS_ERROR_INVALID_EXECUTABLE, where, "no such executable");
    std::unique_ptr<Symbol>& symbol = r.symbols[{executable.handle, name}];
    for (const Executable::Loaded& object : found->second->objects) {
      if (symbol) break;
      const std::string_view text = name;
      const heddle::amdgpu::Kernel* kernel = text.ends_with(".kd") ? object.code->kernel(text.substr(0, text.size() - 3)) : nullptr;
      Symbol s{name, kernel, 0, 0};
      if (kernel != nullptr) {
        s.address = object.code->load_address() + kernel->descriptor;
      } else if (!object.code->symbol(name, s.address, s.bytes)) {
        continue;
      }
      symbol = std::make_unique<Symbol>(std::move(s));
    }
    if (!symbol) {
      r.symbols.erase({executable.handle, name});
      return HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;  // callers ask for symbols that may be absent
    }
    out->handle = reinterpret_cast<uint64_t>(symbol.get());
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_executable_symbol_get_info(hsa_executable_symbol_t handle, hsa_executable_symbol_info_t attribute, void* value) {
  return guarded(__func__, [&](const char* where) {
    Registry& r = registry();
    const std::lock_guard hold(r.mutex);
    const Symbol* const s = find_symbol(handle);
    if (s == nullptr || value == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no such symbol, or no result pointer");
    if (attribute == HSA_EXECUTABLE_SYMBOL_INFO_TYPE)
      return give(value, s->kernel != nullptr ? HSA_SYMBOL_KIND_KERNEL : HSA_SYMBOL_KIND_VARIABLE);
    if (s->kernel != nullptr) return kernel_info(*s, attribute, value);
    if (attribute == HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS) return give<uint64_t>(value, s->address);
    if (attribute == HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE) {
      // The caller of AMD's library passes a size_t, the specification says uint32_t; both have the low bytes first.
      return give<uint32_t>(value, static_cast<uint32_t>(s->bytes));
    }
    return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where,
                  "attribute " + std::to_string(attribute) + " of variable '" + s->name + "' is not implemented");
  });
}

hsa_status_t hsa_executable_agent_global_variable_define(hsa_executable_t, hsa_agent_t, const char* name, void*) {
  return guarded(__func__, [&](const char* where) {
    return refuse(HSA_STATUS_ERROR, where, "variable '" + std::string(name) + "': it is not implemented");
  });
}

hsa_status_t hsa_system_get_major_extension_table(uint16_t extension, uint16_t version_major, size_t table_length, void* table) {
  return guarded(__func__, [&](const char* where) {
    if (extension != HSA_EXTENSION_AMD_LOADER || version_major != 1 || table == nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "extension " + hex(extension) + " is not implemented");
    const hsa_ven_amd_loader_1_00_pfn_t functions = {query_host_address, query_segment_descriptors, query_executable};
    std::memset(table, 0, table_length);
    std::memcpy(table, &functions, std::min(table_length, sizeof(functions)));
    return HSA_STATUS_SUCCESS;
  });
}

}  // extern "C"
