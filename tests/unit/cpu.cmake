# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of plugins/cpu, alone and side by side with test.streams.
heddle_add_test(NAME cpu_driver_test SOURCES cpu_driver_test.cpp LIBS heddle_plugin_host)
heddle_add_test(NAME cpu_timeline_test SOURCES cpu_timeline_test.cpp LIBS heddle_plugin_host)
heddle_add_test(NAME cpu_image_test SOURCES cpu_image_test.cpp LIBS heddle_plugin_host heddle_cpu_image)
heddle_add_test(NAME cpu_param_io_test SOURCES cpu_param_io_test.cpp LIBS heddle_plugin_host)
heddle_add_test(NAME cpu_steady_files_test SOURCES cpu_steady_files_test.cpp LIBS heddle_plugin_host)
heddle_add_test(NAME cpu_threads_test SOURCES cpu_threads_test.cpp LIBS heddle_cpu_threads)
heddle_add_test(NAME cpu_stress_test SOURCES cpu_stress_test.cpp LIBS heddle_plugin_host)
