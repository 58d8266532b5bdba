// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that AMD's HIP library is linked against and that the stand-in does not have: images, memory of other processes and of graphics, memory
// that migrates. Each fails and says so.
#include <hsa/hsa_ext_image.h>

#include "tests/hsa/runtime.h"

namespace {

hsa_status_t absent(const char* where) {
  return heddle::hsa::refuse(HSA_STATUS_ERROR, where, "it is not implemented");
}

}  // namespace

extern "C" {

hsa_status_t hsa_amd_image_create(hsa_agent_t, const hsa_ext_image_descriptor_t*, const hsa_amd_image_descriptor_t*, const void*,
                                  hsa_access_permission_t, hsa_ext_image_t*) {
  return absent(__func__);
}

hsa_status_t hsa_amd_interop_map_buffer(uint32_t, hsa_agent_t*, int, uint32_t, size_t*, void**, size_t*, const void**) {
  return absent(__func__);
}

hsa_status_t hsa_amd_interop_unmap_buffer(void*) {
  return absent(__func__);
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t*, size_t, uint32_t, const hsa_agent_t*, void**) {
  return absent(__func__);
}

hsa_status_t hsa_amd_ipc_memory_create(void*, size_t, hsa_amd_ipc_memory_t*) {
  return absent(__func__);
}

hsa_status_t hsa_amd_ipc_memory_detach(void*) {
  return absent(__func__);
}

hsa_status_t hsa_amd_svm_attributes_get(void*, size_t, hsa_amd_svm_attribute_pair_t*, size_t) {
  return absent(__func__);
}

hsa_status_t hsa_amd_svm_attributes_set(void*, size_t, hsa_amd_svm_attribute_pair_t*, size_t) {
  return absent(__func__);
}

hsa_status_t hsa_amd_svm_prefetch_async(void*, size_t, hsa_agent_t, uint32_t, const hsa_signal_t*, hsa_signal_t) {
  return absent(__func__);
}

hsa_status_t hsa_ext_image_create(hsa_agent_t, const hsa_ext_image_descriptor_t*, const void*, hsa_access_permission_t, hsa_ext_image_t*) {
  return absent(__func__);
}

hsa_status_t hsa_ext_image_create_with_layout(hsa_agent_t, const hsa_ext_image_descriptor_t*, const void*, hsa_access_permission_t,
                                              hsa_ext_image_data_layout_t, size_t, size_t, hsa_ext_image_t*) {
  return absent(__func__);
}

hsa_status_t hsa_ext_image_data_get_info(hsa_agent_t, const hsa_ext_image_descriptor_t*, hsa_access_permission_t,
                                         hsa_ext_image_data_info_t*) {
  return absent(__func__);
}

hsa_status_t hsa_ext_image_destroy(hsa_agent_t, hsa_ext_image_t) {
  return absent(__func__);
}

hsa_status_t hsa_ext_image_export(hsa_agent_t, hsa_ext_image_t, void*, size_t, size_t, const hsa_ext_image_region_t*) {
  return absent(__func__);
}

hsa_status_t hsa_ext_image_import(hsa_agent_t, const void*, size_t, size_t, hsa_ext_image_t, const hsa_ext_image_region_t*) {
  return absent(__func__);
}

hsa_status_t hsa_ext_sampler_create(hsa_agent_t, const hsa_ext_sampler_descriptor_t*, hsa_ext_sampler_t*) {
  return absent(__func__);
}

hsa_status_t hsa_ext_sampler_destroy(hsa_agent_t, hsa_ext_sampler_t) {
  return absent(__func__);
}

}  // extern "C"
