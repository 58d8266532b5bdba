// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Extensions with which Debian builds LLVM, such as Polly, where LLVM is linked statically (HEDDLE_STATIC_LLVM). lld refers to them, because it can
// compile bitcode; heddle links machine code only. Their archives are in packages of their own, so here they are empty and register no pass.
#include "llvm/Config/llvm-config.h"
#include "llvm/Passes/PassPlugin.h"

#define HANDLE_EXTENSION(NAME)                                                               \
  llvm::PassPluginLibraryInfo get##NAME##PluginInfo() {                                      \
    return {LLVM_PLUGIN_API_VERSION, #NAME, LLVM_VERSION_STRING, [](llvm::PassBuilder&) {}}; \
  }
#include "llvm/Support/Extension.def"
