// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/host/validation.h"

#include <dlfcn.h>

#include "core/host/discovery.h"
#include "core/host/trust.h"

namespace heddle::host {

Result<const heddle_validation_t*> open_validation(bool strict) {
  auto failed = [](std::string_view cause) {
    return error(HEDDLE_STATUS_UNAVAILABLE,
                 "host: starting with [validation] failed: {}; install the package heddle-validation, or remove [validation]", cause);
  };
  // Next to libheddle; programs of the tree that link the core statically are in a sibling directory.
  std::string path, wrong;
  for (const char* place : {"/" HEDDLE_VALIDATION_LIBRARY, "/../lib/" HEDDLE_VALIDATION_LIBRARY}) {
    path = library_folder() + place;
    void* library = nullptr;
    if (strict && !why_untrusted(path, &path).empty()) {
      wrong = why_untrusted(path, &path);
    } else if (!(library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))) {
      if (const char* text = dlerror(); wrong.empty() && text) wrong = text;
    } else {
      auto entry = reinterpret_cast<heddle_validation_entry_fn_t>(dlsym(library, HEDDLE_VALIDATION_ENTRY_NAME));
      const heddle_validation_t* layer = entry ? entry(HEDDLE_VALIDATION_VERSION) : nullptr;
      if (layer) return layer;
      return failed(fmt::format("{} has another version than libheddle", path));
    }
  }
  return failed(wrong);
}

}  // namespace heddle::host
