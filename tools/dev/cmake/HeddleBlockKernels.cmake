# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# heddle_add_block_kernels(TARGET NAMESPACE FORMAT SUFFIX COMPILER VARIANTS FLAGS [TRANSLATOR CHECK]): block_kernels.cpp compiled for a device, once per type of
# blocks and variant, and put into a plugin as heddle::NAMESPACE::block_codes() (heddle/sdk/stream/blocks.h). @VARIANT@ in FLAGS is the variant, which is
# also the target of its code. TRANSLATOR: a command that makes the code of what the compiler makes, `TRANSLATOR IN -o OUT`; CHECK: one that fails if it is wrong. Without a compiler there is no
# code, and the host decodes.
set(heddle_block_types Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4)
function(heddle_add_block_kernels)
  cmake_parse_arguments(arg "" "TARGET;NAMESPACE;FORMAT;SUFFIX;COMPILER" "VARIANTS;FLAGS;TRANSLATOR;CHECK" ${ARGN})
  set(module ${PROJECT_SOURCE_DIR}/sdk/module)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/block_kernels)
  set(codes ${folder}/block_codes.cpp)
  set(files "")
  set(rows "")
  if(arg_COMPILER)
    foreach(variant IN LISTS arg_VARIANTS)
      string(REPLACE "@VARIANT@" "${variant}" flags "${arg_FLAGS}")
      foreach(type IN LISTS heddle_block_types)
        set(file ${folder}/${type}.${variant}.${arg_SUFFIX})
        set(compiled ${file})
        set(translate "")
        if(arg_TRANSLATOR)
          set(compiled ${file}.bc)
          set(translate COMMAND ${arg_TRANSLATOR} ${compiled} -o ${file})
          if(arg_CHECK)
            list(APPEND translate COMMAND ${arg_CHECK} ${file})
          endif()
        endif()
        add_custom_command(
          OUTPUT ${file}
          COMMAND ${arg_COMPILER} ${flags} -ffreestanding -ffp-contract=off -Wall -Wextra -Werror -I${PROJECT_SOURCE_DIR} -DHEDDLE_BLOCK_TYPE=${type}
                  -o ${compiled} ${module}/block_kernels.cpp
          ${translate}
          DEPENDS ${module}/block_kernels.cpp ${module}/block_values.h
          COMMENT "${variant} that decodes ${type}"
          VERBATIM)
        list(APPEND files ${file})
        list(APPEND rows ${type}.${variant})
      endforeach()
    endforeach()
  else()
    message(STATUS "${arg_TARGET} is built without heddle.blocks/1, since a compiler for its kernels is missing; run tools/dev/setup")
  endif()
  string(REPLACE ";" "," rows "${rows}")
  add_custom_command(
    OUTPUT ${codes}
    COMMAND ${CMAKE_COMMAND} -DROWS=${rows} -DFOLDER=${folder} -DSUFFIX=${arg_SUFFIX} -DFORMAT=${arg_FORMAT} -DNAMESPACE=${arg_NAMESPACE} -DOUT=${codes}
            -P ${PROJECT_SOURCE_DIR}/tools/dev/cmake/embed_block_kernels.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/tools/dev/cmake/embed_block_kernels.cmake ${files}
    VERBATIM)
  target_sources(${arg_TARGET} PRIVATE ${codes})
  target_include_directories(${arg_TARGET} PRIVATE ${PROJECT_SOURCE_DIR})
  set_source_files_properties(${codes} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
set(heddle_block_language -O2 -nogpulib -std=c++20 -nostdinc++ -fno-exceptions -fno-rtti)
find_program(HEDDLE_BLOCKS_CLANG NAMES clang++-19 HINTS /usr/lib/llvm-19/bin)
