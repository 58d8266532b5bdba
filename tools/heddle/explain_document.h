// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything that `heddle explain` says about a module, from its JSON.
#pragma once

#include <string>

#include "tools/heddle/document.h"

namespace heddle::tool {

// `whole`: the module's report, with "route", "memory" and "places" as far as they were asked for. Describes `function` alone if it is not empty.
Document describe(const Json& whole, const std::string& function);
// Only the topics "route" and "memory".
Document describe_topics(const Json& whole);

// The regions of the chosen program, each with its device and what runs it; the regions of all programs if none was chosen. Operators of plugins
// are regions of the route only.
Json places_of(const Json& whole);

}  // namespace heddle::tool
