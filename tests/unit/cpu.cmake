# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of plugins/cpu, alone and side by side with the fake GPU.
heddle_add_test(NAME cpu_driver_test SOURCES cpu_driver_test.cpp LIBS heddle_plugin_host)
