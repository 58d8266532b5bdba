# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of the building blocks of plugins (sdk/cpp) that no plugin of the tree reaches.
heddle_add_test(NAME sdk_test SOURCES sdk_test.cpp LIBS heddle_plugin_host heddle_sdk_cpp)
