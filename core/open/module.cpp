// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens modules and finds their functions.
// Called through module.h; sdk/module reads and verifies the file itself.
#include "core/open/module.h"

#include <unistd.h>

#include <cerrno>

#include "heddle/runtime.h"

namespace heddle::open {

Status to_status(const module::Error& failure, std::string_view context) {
  return error(failure.code, "{}{}", context, module::one_line(failure.message));
}

Result<std::shared_ptr<const OpenModule>> OpenModule::open(const std::string& path, uint32_t flags) {
  module::Result<std::unique_ptr<module::Module>> file = module::open_module(path, flags & HEDDLE_MODULE_NO_HASH ? module::kOpenNoHash : 0);
  if (!file.ok()) {
    const heddle_status_code_t code = file.error().code;
    // The reader's error has no number.
    const bool is_of_system = code == HEDDLE_STATUS_NOT_FOUND || code == HEDDLE_STATUS_PERMISSION_DENIED;
    const int number = is_of_system && ::access(path.c_str(), R_OK) != 0 ? errno : 0;
    if (number != 0) return Status(status_create(code, module::one_line(file.error().message), "errno", number));
    return to_status(file.error(), "");
  }
  std::shared_ptr<OpenModule> opened(new OpenModule());
  opened->file_ = std::move(file.value());
  Result<FileIdentity> identity = identify(opened->file_->descriptor(), path);
  if (!identity.ok()) return identity.take_status();
  opened->identity_ = *identity;
  for (const module_format::Function* function : *opened->metadata().functions()) {
    Result<Signature> signature = make_signature(*function);
    if (!signature.ok()) return signature.take_status();
    opened->signatures_.push_back(std::move(*signature));
  }
  return std::shared_ptr<const OpenModule>(std::move(opened));
}

Result<uint32_t> OpenModule::find_function(std::string_view name) const {
  if (name.empty() && signatures_.size() == 1) return 0u;
  std::string_view wanted = name.empty() ? std::string_view("main") : name;
  std::string names;
  for (uint32_t i = 0; i < signatures_.size(); ++i) {
    if (signatures_[i].name == wanted) return i;
    if (names.size() < 400) names += (i ? ", '" : "'") + signatures_[i].name + "'";
  }
  return error(HEDDLE_STATUS_NOT_FOUND, "heddle: finding function '{}' of {} failed: no function has that name; it has {}", wanted, path(),
               names.empty() ? std::string("no functions") : names);
}

}  // namespace heddle::open
