// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of the application that the devices of a driver reach, by an extension of Intel's driver: zexDriverImportExternalPointer. An import serves all
// devices of the driver. Importing a part of an import changes nothing there, and releasing any address of an import ends it, so owners are counted here.
#ifndef HEDDLE_LEVEL_ZERO_IMPORTS_H_
#define HEDDLE_LEVEL_ZERO_IMPORTS_H_

#include <map>
#include <mutex>

#include "level_zero/api.h"

namespace heddle::level_zero {

// What Imports::add returns for memory that the application has imported itself.
constexpr ze_result_t kImportedByOthers = ZE_RESULT_ERROR_NOT_AVAILABLE;

class Imports {
 public:
  Imports(const Api& api, ze_driver_handle_t driver) noexcept;
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;
  // Whether the driver has the extension.
  bool are_possible() const noexcept { return import_ != nullptr; }
  // From any thread. The bytes may be a part of what is imported, but not overlap it otherwise: the driver refuses that. kImportedByOthers: devices reach
  // them until the application releases them, and there is nothing to remove.
  ze_result_t add(void* memory, uint64_t bytes);
  // One call for each add() that was successful, with its address, once no work uses the memory. Others have no effect.
  void remove(void* memory) noexcept;

 private:
  struct Import {
    uintptr_t end;
    uint64_t owners;
  };
  // That with the address, or the end.
  std::map<uintptr_t, Import>::iterator find(uintptr_t address);
  bool is_imported_elsewhere(void* first, void* last) const noexcept;

  const ze_driver_handle_t driver_;  // as the driver has it
  // NULL if the driver does not have them.
  ze_result_t (*import_)(ze_driver_handle_t, void*, size_t) = nullptr;
  ze_result_t (*release_)(ze_driver_handle_t, void*) = nullptr;
  ze_result_t (*base_of_)(ze_driver_handle_t, void*, void**) = nullptr;
  std::mutex mutex_;
  std::map<uintptr_t, Import> imports_;  // by their first address; under mutex_
};

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_IMPORTS_H_
