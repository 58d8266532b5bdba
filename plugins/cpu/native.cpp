// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.native/1: memory of the application as buffers. A processor has no context and no streams, so the host answers UNIMPLEMENTED for these.
#include "cpu/memory.h"

namespace heddle::cpu {
namespace {

heddle_status_t* buffer_import(heddle_device_t* device, uint64_t address, uint64_t size, void (*release)(void*), void* context,
                               heddle_buffer_t** out) noexcept {
  return buffer_interface()->import_host(device, reinterpret_cast<void*>(address), size, release, context, out);
}

}  // namespace

const heddle_native_interface_t* native_interface() noexcept {
  static const heddle_native_interface_t table = {sizeof(heddle_native_interface_t), 0, nullptr, nullptr, nullptr, buffer_import};
  return &table;
}

}  // namespace heddle::cpu
