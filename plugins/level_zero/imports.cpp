// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "level_zero/imports.h"

namespace heddle::level_zero {

// The functions are the driver's own, so they take its handles.
Imports::Imports(const Api& api, ze_driver_handle_t driver) noexcept : driver_(own_handle(api, driver)) {
  if (!driver_) return;
  const auto look_up = [&](const char* name) {
    void* found = nullptr;
    return api.zeDriverGetExtensionFunctionAddress(driver, name, &found) == ZE_RESULT_SUCCESS ? found : nullptr;
  };
  release_ = reinterpret_cast<decltype(release_)>(look_up("zexDriverReleaseImportedPointer"));
  base_of_ = reinterpret_cast<decltype(base_of_)>(look_up("zexDriverGetHostPointerBaseAddress"));
  if (release_ && base_of_) import_ = reinterpret_cast<decltype(import_)>(look_up("zexDriverImportExternalPointer"));
}

std::map<uintptr_t, Imports::Import>::iterator Imports::find(uintptr_t address) {
  auto found = imports_.upper_bound(address);
  if (found == imports_.begin()) return imports_.end();
  --found;
  return address < found->second.end ? found : imports_.end();
}

bool Imports::is_imported_elsewhere(void* first, void* last) const noexcept {
  void *one = nullptr, *other = nullptr;
  return base_of_(driver_, first, &one) == ZE_RESULT_SUCCESS && base_of_(driver_, last, &other) == ZE_RESULT_SUCCESS && one == other;
}

ze_result_t Imports::add(void* memory, uint64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (bytes == 0 || bytes > UINTPTR_MAX - address) return ZE_RESULT_ERROR_INVALID_SIZE;
  std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = find(address); found != imports_.end() && bytes <= found->second.end - address) {
    ++found->second.owners;
    return ZE_RESULT_SUCCESS;
  }
  if (is_imported_elsewhere(memory, static_cast<char*>(memory) + (bytes - 1))) return kImportedByOthers;
  const auto [place, is_new] = imports_.try_emplace(address, Import{address + bytes, 1});
  if (!is_new) return ZE_RESULT_ERROR_OVERLAPPING_REGIONS;  // more than what is imported from there
  const ze_result_t result = import_(driver_, memory, bytes);
  if (result != ZE_RESULT_SUCCESS) imports_.erase(place);
  return result;
}

void Imports::remove(void* memory) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = find(reinterpret_cast<uintptr_t>(memory));
  if (found == imports_.end() || --found->second.owners != 0) return;
  release_(driver_, reinterpret_cast<void*>(found->first));
  imports_.erase(found);
}

}  // namespace heddle::level_zero
