// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Intel's extension for memory of the application, by the rules of its driver: an import serves all devices, importing a part of it succeeds and changes
// nothing, other overlaps are refused, and releasing any address of it ends all of it.
#include <cstring>

#include "tests/level_zero/engine.h"
#include "tests/level_zero/hooks.h"

using namespace heddle::level_zero_stand_in;

namespace heddle::level_zero_stand_in {
namespace {

using Imports = std::map<uintptr_t, size_t>;

Imports::iterator find_import(uintptr_t address) {
  Imports& all = state().imports;
  auto found = all.upper_bound(address);
  if (found == all.begin()) return all.end();
  --found;
  return address - found->first < found->second ? found : all.end();
}

ze_result_t import_pointer(ze_driver_handle_t driver, void* memory, size_t size) {
  const Lock lock(state().mutex);
  if (object_of<Driver>(driver) == nullptr || memory == nullptr || size == 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const auto none = state().imports.end(), first = find_import(start), last = find_import(start + size - 1);
  if (first != none && first == last) return ZE_RESULT_SUCCESS;
  if (first != none) return last != none ? ZE_RESULT_ERROR_OVERLAPPING_REGIONS : ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  if (last != none) return ZE_RESULT_ERROR_INVALID_SIZE;
  state().imports[start] = size;
  return ZE_RESULT_SUCCESS;
}

ze_result_t release_pointer(ze_driver_handle_t driver, void* memory) {
  const Lock lock(state().mutex);
  if (object_of<Driver>(driver) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const auto found = find_import(reinterpret_cast<uintptr_t>(memory));
  if (found == state().imports.end()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (const Command* user = find_user(found->first, found->second)) {
    broken_rule(nullptr, "an import of " + std::to_string(found->second) + " bytes is released before " + user->text() + " has run");
  }
  state().imports.erase(found);
  return ZE_RESULT_SUCCESS;
}

ze_result_t base_address(ze_driver_handle_t driver, void* memory, void** out) {
  const Lock lock(state().mutex);
  if (object_of<Driver>(driver) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const auto found = find_import(reinterpret_cast<uintptr_t>(memory));
  if (found == state().imports.end()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (out != nullptr) *out = reinterpret_cast<void*>(found->first);
  return ZE_RESULT_SUCCESS;
}

ze_driver_handle_t own_handle() {
  return reinterpret_cast<ze_driver_handle_t>(static_cast<Object*>(&state().driver));
}

}  // namespace

bool is_imported(const void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const auto found = find_import(start);
  return found != state().imports.end() && size <= found->second - (start - found->first);
}

void* import_function(const char* name) {
  if (strcmp(name, "zexDriverImportExternalPointer") == 0) return reinterpret_cast<void*>(import_pointer);
  if (strcmp(name, "zexDriverReleaseImportedPointer") == 0) return reinterpret_cast<void*>(release_pointer);
  if (strcmp(name, "zexDriverGetHostPointerBaseAddress") == 0) return reinterpret_cast<void*>(base_address);
  return nullptr;
}

}  // namespace heddle::level_zero_stand_in

uint64_t heddle_level_zero_imports() {
  const Lock lock(state().mutex);
  return state().imports.size();
}

void heddle_level_zero_import(void* memory, uint64_t bytes) {
  import_pointer(own_handle(), memory, bytes);
}

void heddle_level_zero_release(void* memory) {
  release_pointer(own_handle(), memory);
}
