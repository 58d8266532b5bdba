// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables for tools and for system management, without which Intel's loader does not start. None of their functions is supported.
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>

#include <algorithm>

#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace {

// Ignores the arguments that it is called with, as the calling convention of x86-64 allows.
ze_result_t nothing() {
  return unsupported("a function for tools or for system management");
}

template <class Table>
ze_result_t fill_table(ze_api_version_t version, Table* table) {
  static_assert(sizeof(Table) % sizeof(&nothing) == 0);
  if (table == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (ZE_MAJOR_VERSION(version) != ZE_MAJOR_VERSION(ZE_API_VERSION_CURRENT)) return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
  auto* functions = reinterpret_cast<ze_result_t (**)()>(table);
  std::fill_n(functions, sizeof(Table) / sizeof(&nothing), &nothing);
  return ZE_RESULT_SUCCESS;
}

}  // namespace

#define TABLE(getter, type)                                              \
  extern "C" ze_result_t getter(ze_api_version_t version, type* table) { \
    return fill_table(version, table);                                   \
  }

TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t)
TABLE(zetGetContextProcAddrTable, zet_context_dditable_t)
TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t)
TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t)
TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t)
TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t)
TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t)
TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t)
TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t)
TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t)
TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t)
TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t)
TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t)
TABLE(zesGetLedProcAddrTable, zes_led_dditable_t)
TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t)
TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
