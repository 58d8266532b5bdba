# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Harnesses of core/host: what an operator or a plugin's vendor may have written, and what an attacker may have.
heddle_add_fuzzer(NAME config_fuzz SOURCES config_fuzz.cpp LIBS heddle_core_host CORPUS corpus/config)
heddle_add_fuzzer(NAME manifest_fuzz SOURCES manifest_fuzz.cpp LIBS heddle_core_host CORPUS corpus/manifest)
heddle_add_fuzzer(NAME elf_fuzz SOURCES elf_fuzz.cpp LIBS heddle_core_host CORPUS corpus/elf)
