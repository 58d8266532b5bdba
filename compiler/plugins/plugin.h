// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A target plugin for one compile: what it is asked, and whether its answers are such that they can be used. Starts its process again after each failure.
// Knows portable code and no IR.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/plugins/manifest.h"
#include "compiler/plugins/process.h"

namespace heddle::plugins {

struct PluginOptions {
  std::vector<std::string> manifests;  // files and directories; looked through first
  std::string host;                    // program; empty: that of this installation
  unsigned seconds = 60;               // for one call
  uint64_t memory_bytes = uint64_t{4} << 30;
  uint64_t code_bytes = uint64_t{64} << 20;  // of one claim
  bool takes_foreign_formats = false;
  bool fast_math = false;
  // Answers of earlier compiles, by the text of everything that they depend on; may be empty.
  std::function<std::optional<std::string>(const std::string& text)> find;
  std::function<void(const std::string& text, const std::string& answer)> keep;
  // What the plugin is asked, as text: "acme.main.graph" or "acme.c0_add". May be empty.
  std::function<void(const std::string& name, const std::string& text)> tell;
  std::set<std::string> refused;  // kernels, as reports name them, whose code is not asked for: "c0_conv" or "acme.c0_conv"
};

// Something that the plugin did not do, or that was not taken from it. Goes to the report.
struct Loss {
  std::string what, reason;
};

class TargetPlugin {
 public:
  TargetPlugin(TargetManifest manifest, std::string level, const PluginOptions& options)
      : manifest_(std::move(manifest)), level_(std::move(level)), options_(options) {}

  // Starts it once, unless it was opened in the same way by an earlier compile. An error text, or nothing: without the plugin at all there is no use in
  // going on.
  std::string open(const std::string& family);

  // Each gives an error text that names the plugin, or nothing. Answers that are malformed are errors.
  std::string claim(const sdk::target::Graph& graph, sdk::target::Answer& answer);
  // The code is checked: format, size, entries, resources, and what `inspect` says. has_refused: the plugin has given the claim back.
  std::string emit(const sdk::target::Kernel& kernel, sdk::target::Code& code, bool& has_refused);

  // A user's: it is not asked for the code of this kernel.
  bool is_refused(const std::string& kernel) const {
    return options_.refused.contains(kernel) || options_.refused.contains(family_ + "." + kernel);
  }

  const TargetManifest& manifest() const { return manifest_; }
  const std::string& family() const { return family_; }
  // "target plugin 'com.acme.target' 1.0.0"
  std::string who() const { return "target plugin '" + manifest_.id + "' " + manifest_.version; }

  // For reports: claims that became kernels, nodes with the plugin's reasons, and failures.
  struct Kept {
    std::string kernel, claim, reason;
    std::vector<std::string> nodes;
    uint64_t cost_ns = 0;
    sdk::target::Code code;
    void* region = nullptr;  // the first of its regions, an operation of the model
  };
  std::vector<Kept> kept;
  std::vector<Loss> refused, lost;
  uint32_t calls = 0;  // that its process was sent; answers of earlier compiles need none

 private:
  sdk::target::Hello hello() const;
  std::string start();
  std::optional<std::string> find(const std::string& question) const;
  void keep(const std::string& question, const std::string& answer) const;
  void tell(const std::string& name, const std::string& code, const sdk::target::Graph* graph) const;
  // One call, in a process that is started first if there is none.
  std::string call(const char* what, const std::string& frame, sdk::target::Kind expected, std::string& payload, uint32_t* code = nullptr);

  TargetManifest manifest_;
  std::string level_, family_;
  const PluginOptions& options_;
  TargetProcess process_;
  std::unique_ptr<TargetPlugin> reader_;  // asked by inspect
  bool can_inspect_ = false;
};

// By family.
using TargetPlugins = std::map<std::string, std::unique_ptr<TargetPlugin>, std::less<>>;

}  // namespace heddle::plugins
