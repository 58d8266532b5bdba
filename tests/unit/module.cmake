# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of sdk/module.
heddle_add_test(NAME module_file_test SOURCES module_file_test.cpp LIBS heddle_module)
heddle_add_test(NAME module_verifier_test SOURCES module_verifier_test.cpp LIBS heddle_module)
heddle_add_test(NAME module_gguf_test SOURCES module_gguf_test.cpp LIBS heddle_module)
heddle_add_test(NAME module_safetensors_test SOURCES module_safetensors_test.cpp LIBS heddle_module)
heddle_add_test(NAME module_shards_test SOURCES module_shards_test.cpp LIBS heddle_module)
heddle_add_test(NAME module_user_cache_test SOURCES module_user_cache_test.cpp LIBS heddle_module)
heddle_add_test(NAME module_json_test SOURCES module_json_test.cpp LIBS heddle_module)
