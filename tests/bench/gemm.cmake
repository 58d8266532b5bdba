# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Kernels of the x86-64 target, timed alone: matmul against OpenBLAS, ResNet-50's convolutions against the peak.
if(TARGET heddle_target_x86_64)
  add_library(heddle_gemm_kernel STATIC ${CMAKE_CURRENT_LIST_DIR}/gemm_kernel.cpp)
  target_include_directories(heddle_gemm_kernel PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/sdk/include)
  target_link_libraries(heddle_gemm_kernel PUBLIC heddle_target_x86_64 heddle_tx ${CMAKE_DL_LIBS} PRIVATE heddle_options)
  # As in compiler/: MLIR needs one copy of its inline variables.
  set_target_properties(heddle_gemm_kernel PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
  foreach(bench gemm conv)
    add_executable(heddle_${bench}_bench ${CMAKE_CURRENT_LIST_DIR}/${bench}_bench.cpp)
    target_link_libraries(heddle_${bench}_bench PRIVATE heddle_gemm_kernel heddle_options)
    set_target_properties(heddle_${bench}_bench PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
  endforeach()
endif()
