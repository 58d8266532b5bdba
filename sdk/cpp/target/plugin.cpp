// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "heddle/sdk/target/plugin.h"

namespace heddle::sdk::target {

int64_t integer_of(const Hello& hello, std::string_view name, int64_t otherwise) {
  for (const Fact& fact : hello.facts) {
    if (fact.name == name && fact.kind == HEDDLE_OPTION_INT) return fact.integer;
  }
  return otherwise;
}

std::string text_of(const Hello& hello, std::string_view name, const std::string& otherwise) {
  for (const Fact& fact : hello.facts) {
    if (fact.name == name && fact.kind == HEDDLE_OPTION_STRING) return fact.text;
  }
  return otherwise;
}

}  // namespace heddle::sdk::target
