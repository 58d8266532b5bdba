// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code that actions share.
#include "tools/params/actions.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace heddle::tool {

std::optional<int> open_checkpoint(const Flags& flags, const std::string& path, Checkpoint& out) {
  if (Wrong wrong = out.open(path); !wrong.empty()) return flags.failed(wrong);
  for (const std::string& warning : out.warnings()) flags.failed("warning: " + warning);
  return std::nullopt;
}

bool fits(const std::string& name, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return name == glob || fnmatch(glob.c_str(), name.c_str(), 0) == 0; });
}

Wrong select(const Checkpoint& checkpoint, const std::vector<std::string>& globs, std::vector<const StoredTensor*>& out) {
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (globs.empty() || fits(tensor.name, globs)) out.push_back(&tensor);
  }
  for (const std::string& glob : globs) {
    const bool used = std::any_of(out.begin(), out.end(), [&](const StoredTensor* tensor) { return fits(tensor->name, {glob}); });
    if (!used)
      return "no tensor of '" + checkpoint.path() + "' matches '" + glob + "'; heddle params ls lists its " +
             std::to_string(checkpoint.tensors().size());
  }
  return {};
}

Json shape_json(const StoredTensor& tensor) {
  return Json(tensor.shape.dims);
}

Wrong why_not_npy(const StoredTensor& tensor) {
  if (tensor.block) return "this version cannot read values of type " + tensor.dtype;
  if (tensor.dtype == "C64") return "this version does not write complex numbers (C64) as .npy";
  return "NumPy has no type for " + tensor.dtype;
}

Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json("inf");
}

Progress::Progress(const std::string& mode, std::string doing, uint64_t total_bytes)
    : show_(progress_wanted(mode)), doing_(std::move(doing)), total_(total_bytes) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r\x1b[K");
}

void Progress::add(uint64_t bytes) {
  const uint64_t before = done_;
  done_ += bytes;
  // At most 100 updates, so that the terminal does not slow down the work.
  const uint64_t step = std::max<uint64_t>(total_ / 100, 1);
  if (!show_ || (done_ / step == before / step && shown_)) return;
  std::fprintf(stderr, "\r\x1b[K%s %s of %s", doing_.c_str(), bytes_text(done_).c_str(), bytes_text(total_).c_str());
  std::fflush(stderr);
  shown_ = true;
}

void add_progress_flag(Flags& flags, std::string& mode) {
  flags.choice("--progress", mode, {"auto", "always", "never"}, "show progress on stderr; auto: on a terminal");
}

}  // namespace heddle::tool
