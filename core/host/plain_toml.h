// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A parser of the TOML that manifests and short configurations consist of, which takes a tenth of toml++'s time: every start reads all manifests.
// Called by toml_tree.cpp, which gives all other texts to toml++.
#ifndef HEDDLE_CORE_HOST_PLAIN_TOML_H_
#define HEDDLE_CORE_HOST_PLAIN_TOML_H_

#include <string_view>

#include "core/host/toml_tree.h"

namespace heddle::host {

// Reads ASCII text of comments, [tables] and keys without quotes or dots, strings without escapes, decimal integers, booleans and arrays of these on
// one line. False for anything else, also for every text that is wrong: out_root is then unspecified.
bool parse_plain_toml(std::string_view text, TomlNode* out_root);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PLAIN_TOML_H_
