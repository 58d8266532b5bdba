// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds an array in the directory of the archive, then reads it as the .npy file that it is.
#include "tools/heddle/npz.h"

#include <algorithm>

#include "sdk/module/npz.h"
#include "sdk/module/npz_directory.h"
#include "tools/heddle/npy.h"

namespace heddle::tool {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr size_t kMostNames = 20;  // in an error text

Wrong open_npz(const std::string& path, InputFile& file, std::vector<module::NpzMember>& members) {
  if (Wrong wrong = file.open(path); !wrong.empty()) return wrong;
  if (!is_npz(path)) return "it is not an .npz file, so it has no named arrays; give it without ':' and a name";
  if (Wrong wrong = module::read_npz_directory(file.view(), members); !wrong.empty()) return wrong;
  for (module::NpzMember& member : members) {
    if (!member.name.ends_with(kSuffix)) return "member '" + member.name + "': it is not an array; numpy.savez names arrays .npy";
    member.name.resize(member.name.size() - kSuffix.size());
  }
  return {};
}

// "it has image, mask"
std::string list(const std::vector<module::NpzMember>& members) {
  std::string text;
  for (size_t i = 0; i < members.size() && i < kMostNames; ++i) text += (i ? ", '" : "it has '") + members[i].name + "'";
  if (members.size() > kMostNames) text += " and " + std::to_string(members.size() - kMostNames) + " more";
  return text.empty() ? "it has no arrays" : text;
}

}  // namespace

bool is_npz(const std::string& path) {
  if (path.ends_with(".npz")) return true;
  InputFile file;
  if (!file.open(path).empty()) return false;
  std::string first(std::min<uint64_t>(file.size_bytes(), 4), '\0');
  return file.read(0, std::as_writable_bytes(std::span(first))).empty() && module::is_zip(first);
}

Wrong npz_array_names(const std::string& path, std::vector<std::string>& out) {
  InputFile file;
  std::vector<module::NpzMember> members;
  if (Wrong wrong = open_npz(path, file, members); !wrong.empty()) return file.about(wrong);
  for (module::NpzMember& member : members) out.push_back(std::move(member.name));
  return {};
}

Wrong read_npz_array(const std::string& path, const std::string& array, HostTensor& out) {
  InputFile file;
  std::vector<module::NpzMember> members;
  if (Wrong wrong = open_npz(path, file, members); !wrong.empty()) return file.about(wrong);
  if (array.empty()) {
    const std::string such = members.empty() ? "" : "; name one, such as @" + path + ":" + members[0].name;
    return file.about("which of its arrays is meant is not known: " + list(members) + such);
  }
  const auto found = std::find_if(members.begin(), members.end(), [&](const module::NpzMember& member) { return member.name == array; });
  if (found == members.end()) return file.about("there is no array '" + array + "' in it; " + list(members));
  if (Wrong wrong = read_npy(file, found->offset, found->length, out); !wrong.empty()) return file.about("array '" + array + "': " + wrong);
  return {};
}

}  // namespace heddle::tool
