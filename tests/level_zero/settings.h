// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an environment can ask of the stand-in for a Level Zero driver. Each variable is read once, when the driver is initialized.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::level_zero_stand_in {

struct Settings {
  uint64_t seed = 1;             // HEDDLE_ZE_SEED: of everything that is chosen at random; 0: commands run in order and at once
  uint32_t delay_us = 200;       // HEDDLE_ZE_DELAY_US: the longest delay of a command
  uint32_t devices = 1;          // HEDDLE_ZE_DEVICES: 0 to 16
  uint32_t sub_devices = 0;      // HEDDLE_ZE_SUB_DEVICES of each device: 0 or 2
  bool peers = true;             // HEDDLE_ZE_PEERS: a device accesses memory of another
  uint64_t memory_bytes = 0;     // HEDDLE_ZE_MEMORY of each device; 4 GiB
  uint32_t local_bytes = 65536;  // HEDDLE_ZE_LOCAL_MEMORY of a workgroup
  uint64_t lose_after = 0;       // HEDDLE_ZE_LOSE_AFTER: a device is lost when it has run so many commands; 0: never
  uint32_t init_result = 0;      // HEDDLE_ZE_INIT_RESULT: what zeInit returns
  bool doubles = true;           // HEDDLE_ZE_DOUBLES: the device has f64
  bool dots = true;              // HEDDLE_ZE_DP4A: the device has dot products of four bytes
  bool pageable = false;         // HEDDLE_ZE_PAGEABLE: commands may access host memory that is no USM, as with shared system allocations
  bool imports = true;           // HEDDLE_ZE_IMPORTS: there is Intel's extension for memory of the application
  bool protects = true;          // HEDDLE_ZE_PROTECT: an access of the host to device memory is a segmentation fault
  bool aborts = false;           // HEDDLE_ZE_ABORT: a broken rule ends the process; else its device is lost
  bool immediate = true;         // HEDDLE_ZE_IMMEDIATE: there are immediate command lists
  bool flat = false;             // ZE_FLAT_DEVICE_HIERARCHY is FLAT or COMBINED
  bool log = false;              // HEDDLE_ZE_LOG: one line on stderr for each command that runs
  std::string affinity;          // ZE_AFFINITY_MASK
  std::string opencl;            // HEDDLE_ZE_OPENCL: the OpenCL loader to open; "libOpenCL.so.1"
  std::string
      platform;  // HEDDLE_ZE_PLATFORM: a part of the name of the OpenCL platform; empty: any, preferably one that takes SPIR-V itself
  std::string translator;  // HEDDLE_ZE_LLVM_SPIRV: the program that makes LLVM bitcode of SPIR-V; "llvm-spirv-15"
};

// Of this process. A value that is no number ends the process with a text: a test must not run with other settings than it names.
const Settings& settings();

}  // namespace heddle::level_zero_stand_in
