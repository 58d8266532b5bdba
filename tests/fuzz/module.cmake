# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Harnesses of sdk/module.
heddle_add_fuzzer(NAME gguf_fuzz SOURCES gguf_fuzz.cpp LIBS heddle_module CORPUS corpus/gguf)
heddle_add_fuzzer(NAME irpa_fuzz SOURCES irpa_fuzz.cpp LIBS heddle_module CORPUS corpus/irpa)
heddle_add_fuzzer(NAME module_fuzz SOURCES module_fuzz.cpp LIBS heddle_module CORPUS corpus/module)
heddle_add_fuzzer(NAME onnx_initializers_fuzz SOURCES onnx_initializers_fuzz.cpp LIBS heddle_module CORPUS corpus/onnx_initializers)
heddle_add_fuzzer(NAME safetensors_fuzz SOURCES safetensors_fuzz.cpp LIBS heddle_module CORPUS corpus/safetensors)
heddle_add_fuzzer(NAME shards_fuzz SOURCES shards_fuzz.cpp LIBS heddle_module CORPUS corpus/shards)
