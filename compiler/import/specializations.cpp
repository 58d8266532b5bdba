// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/specializations.h"

#include <algorithm>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

namespace heddle::import {

std::string Specializations::add(llvm::StringRef text) {
  auto wrong = [&](const std::string& cause) {
    return "compiler: specialization '" + llvm::json::fixUTF8(text) + "' is not understood: " + cause;
  };
  const std::string forms = "it is written NAME=3 for a sequence, NAME=absent or NAME=present for an optional, or NAME=[n,4] for a shape";
  auto [name, form] = text.rsplit('=');
  if (name.empty() || form.empty()) return wrong(forms);
  Given made{text.str(), {}, {}, {}};
  Kind kind = Kind::kLength;
  int64_t length = 0;
  if (form == "absent" || form == "present") {
    kind = Kind::kPresence;
    made.is_present = form == "present";
  } else if (form.consume_front("[")) {
    if (!form.consume_back("]")) return wrong("its shape has no ']'");
    kind = Kind::kShape;
    made.shape.emplace();
    llvm::SmallVector<llvm::StringRef> dims;
    if (!form.trim().empty()) form.split(dims, ',');
    for (llvm::StringRef dim : dims) {
      dim = dim.trim();
      int64_t extent = 0;
      const bool is_number = !dim.empty() && (llvm::isDigit(dim.front()) || dim.front() == '-');
      if (dim.empty()) return wrong("a dimension of its shape is empty; write a number, a name or ?");
      if (is_number && (dim.getAsInteger(10, extent) || extent < 0)) return wrong("'" + dim.str() + "' is no extent");
      made.shape->push_back(dim.str());
    }
  } else if (form.getAsInteger(10, length)) {
    return wrong(forms);
  } else if (length < 0 || length > longest_sequence) {
    return wrong("a sequence has 0 to " + std::to_string(longest_sequence) + " elements");
  } else {
    made.length = length;
  }
  if (!given_.try_emplace({kind, name.str()}, std::move(made)).second) return wrong("'" + name.str() + "' has another one already");
  return "";
}

Specializations::Given* Specializations::find(Kind kind, const std::string& name) {
  if (given_.empty()) return nullptr;
  asked_.insert(name);
  auto found = given_.find({kind, name});
  if (found == given_.end()) return nullptr;
  found->second.is_used = true;
  return &found->second;
}

std::optional<int64_t> Specializations::length_of(const std::string& name) {
  const Given* found = find(Kind::kLength, name);
  return found ? found->length : std::nullopt;
}

std::optional<bool> Specializations::presence_of(const std::string& name) {
  const Given* found = find(Kind::kPresence, name);
  return found ? found->is_present : std::nullopt;
}

const std::vector<std::string>* Specializations::shape_of(const std::string& name) {
  const Given* found = find(Kind::kShape, name);
  return found ? &*found->shape : nullptr;
}

std::string Specializations::unused() const {
  auto open = std::find_if(given_.begin(), given_.end(), [](const auto& one) { return !one.second.is_used; });
  if (open == given_.end()) return "";
  const auto& [kind, name] = open->first;
  std::vector<std::pair<unsigned, std::string>> near;
  for (const std::string& one : asked_) near.emplace_back(llvm::StringRef(name).edit_distance_insensitive(one, true, 64), one);
  std::sort(near.begin(), near.end());
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i) names += (i ? ", '" : "'") + near[i].second + "'";
  const char* what = kind == Kind::kLength     ? "is no sequence"
                     : kind == Kind::kPresence ? "is no optional"
                                               : "is no input without a shape, and no element of one";
  return "compiler: specialization '" + open->second.text + "' is not used: '" + name + "' " + what + " of the model" +
         (names.empty() ? "" : "; it can be given for " + names);
}

}  // namespace heddle::import
