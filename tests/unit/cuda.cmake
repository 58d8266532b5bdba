# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of plugins/cuda that need no device: what of it is ours alone, against stand-ins for CUDA's functions.
if(TARGET heddle_cuda)
  get_target_property(folder heddle_cuda SOURCE_DIR)
  heddle_add_test(NAME cuda_ring_test SOURCES cuda_ring_test.cpp
    ${folder}/backend.cpp ${folder}/errors.cpp ${folder}/code.cpp ${folder}/cubin.cpp ${folder}/tensor_map.cpp
    LIBS heddle_plugin_host heddle_sdk_stream ${CMAKE_DL_LIBS})
  target_include_directories(cuda_ring_test PRIVATE ${folder}/.. ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/sdk/cpp)
  target_include_directories(cuda_ring_test SYSTEM PRIVATE ${HEDDLE_CUDA_INCLUDE})
  heddle_add_test(NAME cuda_cubin_test SOURCES cuda_cubin_test.cpp ${folder}/cubin.cpp LIBS heddle_headers)
  target_include_directories(cuda_cubin_test PRIVATE ${folder}/.. ${PROJECT_SOURCE_DIR})
  target_compile_definitions(cuda_cubin_test PRIVATE HEDDLE_TEST_CUBIN="${PROJECT_SOURCE_DIR}/tests/compat/cubin-0.1.heddle")
endif()
