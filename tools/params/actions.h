// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The actions of heddle params, one file each, and their common parts: flags, globs, progress, JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/heddle/command.h"
#include "tools/heddle/flags.h"
#include "tools/heddle/report_view.h"
#include "tools/params/checkpoint.h"

namespace heddle::tool {

Command ls_action();
Command dump_action();
Command extract_action();
Command convert_action();
Command merge_action();
Command diff_action();
Command verify_action();

// Opens a parameter file and reports errors and warnings on stderr. Empty: continue. Else the exit code.
std::optional<int> open_checkpoint(const Flags& flags, const std::string& path, Checkpoint& out);

// Whether a name matches one of some shell globs (*, ?, [a-z]; * matches dots and slashes too), or equals one of them literally.
bool fits(const std::string& name, const std::vector<std::string>& globs);
// Tensors that match, or all tensors without a glob. Returns an error that names a glob without a match.
Wrong select(const Checkpoint& checkpoint, const std::vector<std::string>& globs, std::vector<const StoredTensor*>& out);

// The array of a tensor's extents; each a number, or "inf" if JSON cannot represent it.
Json shape_json(const StoredTensor& tensor);
Json number_json(double value);
// Why a tensor without values cannot be written as .npy.
Wrong why_not_npy(const StoredTensor& tensor);

// "--progress": shows on stderr how much is done.
class Progress {
 public:
  Progress(const std::string& mode, std::string doing, uint64_t total_bytes);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void add(uint64_t bytes);

 private:
  bool show_, shown_ = false;
  std::string doing_;
  uint64_t done_ = 0, total_;
};
void add_progress_flag(Flags& flags, std::string& mode);

}  // namespace heddle::tool
