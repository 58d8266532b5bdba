// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of library plugins, for an instance: finds a plugin for an operator, its operands and a device, lets it prepare the operation, and
// keeps the operation while a plan uses it. Used by Preferences when plans are made; never on the path of a repeated call.
#ifndef HEDDLE_CORE_SUBMIT_OPERATIONS_H_
#define HEDDLE_CORE_SUBMIT_OPERATIONS_H_

#include <heddle_module/module_generated.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/host/host.h"
#include "core/memory/device.h"
#include "heddle/ext/library.h"

namespace heddle::submit {

// "com.acme::Whiten/1"
std::string name_of(const module_format::Operation& wanted);

// Ready for command lists: an entry that takes the operands, followed by the workspace if there is one. Derived classes implement its end.
struct Operation {
  Operation() = default;
  Operation(const Operation&) = delete;
  virtual ~Operation() = default;

  heddle_entry_t* entry = nullptr;
  uint32_t shards = 1;
  uint64_t workspace_bytes = 0, workspace_alignment = 64;
  std::vector<uint64_t> operand_bytes;
  std::string plugin;
};

// Advice if no plugin offers an operator, for the end of an error text.
inline constexpr std::string_view kInstallLibrary = "install a plugin that offers it (heddle plugins --why lists those found) [HD-O-01]";
inline constexpr std::string_view kAnyLibrary = "*";

class Operations {
 public:
  Operations(host::Host& host, std::span<const memory::Ref<memory::Device>> devices) : host_(host), devices_(devices) {}

  // The operation of a site on a device, for these extents of its operands (concatenated), from the first plugin whose id matches the pattern and
  // that accepts it. NOT_FOUND lists the plugins that were asked and their answers. The most recent operations are kept. A failure's text is only
  // the cause. [any] [may-block]
  Result<std::shared_ptr<const Operation>> prepare(const module_format::Operation& wanted, uint32_t device, std::span<const int64_t> dims,
                                                   const std::string& plugins);
  // NOT_FOUND if no usable plugin declares it: the check that is possible without extents. [any] [may-block]
  Status check(const module_format::Operation& wanted, const std::string& plugins);
  // "com.acme::Whiten/1 from org.example.whiten", one per prepared operation.
  std::vector<std::string> prepared() const;

 private:
  struct Request;
  struct Key {
    const module_format::Operation* wanted;
    uint32_t device;
    std::vector<int64_t> dims;
    std::string plugins;
    auto operator<=>(const Key&) const = default;
  };
  Result<std::shared_ptr<const Operation>> find(const module_format::Operation& wanted, uint32_t device, std::span<const int64_t> dims,
                                                const std::string& plugins);
  Result<std::shared_ptr<const Operation>> ask(const host::LoadedLibrary& library, Request& request, uint32_t device);

  host::Host& host_;
  std::span<const memory::Ref<memory::Device>> devices_;
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Operation>> known_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_OPERATIONS_H_
