# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The harnesses of compiler/import, compiler/code and compiler/targets. The visibility is that of compiler/CMakeLists.txt, for the same reason.
if(TARGET heddle_pipeline)
  set(CMAKE_CXX_VISIBILITY_PRESET default)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN OFF)
  heddle_add_fuzzer(NAME onnx_fuzz SOURCES onnx_fuzz.cpp imported_model.cpp MUTATOR onnx_mutator.cpp
    LIBS heddle_pipeline heddle_import heddle_passes heddle_emit heddle_onnx_schema CORPUS corpus/onnx)
  heddle_add_fuzzer(NAME stablehlo_fuzz SOURCES stablehlo_fuzz.cpp imported_model.cpp MUTATOR stablehlo_mutator.cpp
    LIBS heddle_pipeline heddle_import heddle_passes heddle_emit CORPUS corpus/stablehlo)
  heddle_add_fuzzer(NAME operators_fuzz SOURCES operators_fuzz.cpp LIBS heddle_import CORPUS corpus/manifest)
  heddle_add_fuzzer(NAME tuned_fuzz SOURCES tuned_fuzz.cpp LIBS heddle_code CORPUS corpus/tuned)
  heddle_add_fuzzer(NAME code_cache_fuzz SOURCES code_cache_fuzz.cpp LIBS heddle_code CORPUS corpus/code_cache)
  heddle_add_fuzzer(NAME amdgpu_metadata_fuzz SOURCES amdgpu_metadata_fuzz.cpp LIBS heddle_target_amdgpu CORPUS corpus/amdgpu_metadata)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endif()
