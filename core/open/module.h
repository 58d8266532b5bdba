// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An opened module in the core: the verified file and its signatures. Immutable, shared by its instances.
// Created by core/api.cpp, used by core/route and core/submit; knows nothing of devices.
#ifndef HEDDLE_CORE_OPEN_MODULE_H_
#define HEDDLE_CORE_OPEN_MODULE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/open/file_identity.h"
#include "core/open/signature.h"
#include "core/status.h"
#include "sdk/module/reader.h"

namespace heddle::open {

class OpenModule {
 public:
  // flags: bits HEDDLE_MODULE_*.
  static Result<std::shared_ptr<const OpenModule>> open(const std::string& path, uint32_t flags);

  const module_format::Module& metadata() const { return file_->metadata(); }
  const module::Module& file() const { return *file_; }
  const std::string& path() const { return file_->path(); }
  // Identity of the file when it was opened: its parameters are read later.
  const FileIdentity& identity() const { return identity_; }
  const std::vector<Signature>& signatures() const { return signatures_; }
  // An empty name means the only function, or "main". NOT_FOUND lists the existing functions.
  Result<uint32_t> find_function(std::string_view name) const;
  // heddle_module_report.
  std::string report() const;

 private:
  OpenModule() = default;
  std::unique_ptr<module::Module> file_;
  FileIdentity identity_{};
  std::vector<Signature> signatures_;
};

// Converts a status of sdk/module into one of core.
Status to_status(const module::Error& failure, std::string_view context);

}  // namespace heddle::open

#endif  // HEDDLE_CORE_OPEN_MODULE_H_
