// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through parameter_files.h; sdk/module reads the formats.
#include "compiler/import/parameter_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sdk/module/element_types.h"
#include "sdk/module/file_view.h"
#include "sdk/module/nearest.h"
#include "sdk/module/onnx_initializers.h"
#include "sdk/module/parameter_formats.h"
#include "sdk/module/parameter_source.h"
#include "sdk/module/utf8.h"
#include "sdk/module/verifier.h"

namespace heddle::import {
namespace {

using module::concat;
using module::in_quotes;

constexpr std::string_view transposed_ending = ":transposed";
// Of the tensors of a file that is not used, those that are compared with all of the model.
constexpr size_t most_tried = 8;

// Closes a descriptor at the end of a scope.
struct OpenFile {
  int descriptor;
  ~OpenFile() {
    if (descriptor >= 0) close(descriptor);
  }
};

module::Error not_opened(const std::string& path, heddle_status_code_t code, const std::string& cause) {
  return {code, concat("compiler: opening parameter file ", in_quotes(path), " failed: ", cause)};
}

// "f32[2,3]", or "Q4_K[2,256]" for a type that only the file knows.
std::string type_of(const module::ParameterEntry& entry) {
  std::vector<std::string> extents;
  for (int64_t extent : entry.dims) extents.push_back(std::to_string(extent));
  const bool is_known = entry.element_type != HEDDLE_TYPE_UNDEFINED && !entry.block;
  return module::type_text(is_known ? module::element_type_name(entry.element_type) : std::string_view(entry.dtype), extents);
}

// Whether a module can have it as the name of a parameter or of a scope.
bool can_be_name(const std::string& text) {
  return text.size() <= module::kMaxNameBytes && module::is_utf8_text(text);
}

// A text with one '*', which stands for any text.
struct Pattern {
  explicit Pattern(const std::string& text) {
    const size_t star = text.find('*');
    is_one = star != std::string::npos && text.find('*', star + 1) == std::string::npos;
    if (!is_one) return;
    begin = text.substr(0, star);
    end = text.substr(star + 1);
  }
  bool matches(const std::string& name) const {
    return name.size() >= begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
  }
  std::string middle_of(const std::string& name) const { return name.substr(begin.size(), name.size() - begin.size() - end.size()); }
  bool is_one;
  std::string begin, end;
};

// "did you mean 'w'?", or the first names.
std::string known_names(const std::string& name, const std::vector<std::string>& names) {
  constexpr size_t most = 8;
  const std::string meant = module::nearest(name, names);
  if (!meant.empty()) return concat("did you mean ", in_quotes(meant), "?");
  std::string text = names.empty() ? "the model stores none" : "the model has";
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i == 0 ? " " : ", ") + in_quotes(names[i]);
  return text + (names.size() > most ? " and others" : "");
}

std::string in_scope(const std::string& scope) {
  return scope.empty() ? std::string() : concat(" of scope ", in_quotes(scope));
}

}  // namespace

std::vector<std::string> ParameterFiles::Source::names() const {
  std::vector<std::string> all;
  for (const module::ShardIndex::Entry& entry : in_shards) all.push_back(entry.name);
  if (!in_shards.empty()) return all;
  for (const module::ParameterEntry& entry : files.front().index.entries()) all.push_back(entry.name);
  return all;
}

module::Status ParameterFiles::open(Source& source, const std::string& path, bool is_shard) {
  const OpenFile file{module::open_to_read(path)};
  if (file.descriptor < 0) {
    const int number = errno;
    const auto code = number == ENOENT   ? HEDDLE_STATUS_NOT_FOUND
                      : number == EACCES ? HEDDLE_STATUS_PERMISSION_DENIED
                                         : HEDDLE_STATUS_UNAVAILABLE;
    return not_opened(path, code, module::why_not_opened(number));
  }
  struct stat facts{};
  if (fstat(file.descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
    return not_opened(path, HEDDLE_STATUS_INVALID_ARGUMENT, "it is not a regular file; name a file of parameters");
  identities_.emplace(facts.st_dev, facts.st_ino);
  char first[8];
  const ssize_t got = pread(file.descriptor, first, sizeof(first), 0);
  const std::string_view first_bytes(first, got > 0 ? static_cast<size_t>(got) : 0);
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (!is_shard && module::is_shard_index(first_bytes)) {
    auto index = module::read_shard_index(file.descriptor, size, path);
    if (!index) return index.error();
    for (const std::string& shard : index.value().shards) {
      if (auto error = open(source, module::shard_path(path, shard), /*is_shard=*/true)) return error;
    }
    for (const module::ShardIndex::Entry& entry : index.value().entries) {
      const File& shard = source.files[entry.shard];
      if (shard.index.find(entry.name)) continue;
      return not_opened(path, HEDDLE_STATUS_DATA_LOSS,
                        concat("it says that tensor ", in_quotes(entry.name), " is in ", in_quotes(shard.path),
                               ", which does not have it; copy all shards again"));
    }
    source.in_shards = std::move(index.value().entries);
    return std::nullopt;
  }
  auto index = module::read_parameter_index(file.descriptor, size, path, is_shard ? std::string_view() : first_bytes);
  if (!index) return index.error();
  for (const module::ExternalFile& external : index.value().external_files()) {
    const module::Result<int> opened = module::open_external(path, external);  // checked as when the module is opened
    if (!opened) return opened.error();
    const OpenFile data{opened.value()};
    if (fstat(data.descriptor, &facts) == 0) identities_.emplace(facts.st_dev, facts.st_ino);
  }
  source.files.push_back({path, std::move(index.value())});
  return std::nullopt;
}

module::Status ParameterFiles::add(const std::string& text) {
  const size_t split = text.find('=');
  if (split == std::string::npos || split + 1 == text.size()) {
    return module::Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                         concat("compiler: parameter file ", in_quotes(text), " is not possible: it is written SCOPE=FILE, or =FILE")};
  }
  const std::string scope = text.substr(0, split);
  if (!can_be_name(scope))
    return module::Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                         concat("compiler: parameter file ", in_quotes(text), " is not possible: its scope is not UTF-8 text of up to ",
                                module::kMaxNameBytes, " bytes")};
  Source& source = sources_.emplace_back();
  source.scope = scope;
  source.path = text.substr(split + 1);
  if (auto error = open(source, source.path, /*is_shard=*/false)) return error;
  if (source.files.empty()) {
    return not_opened(source.path, HEDDLE_STATUS_INVALID_ARGUMENT, "the index names no shard; write or copy the file again");
  }
  return std::nullopt;
}

bool ParameterFiles::reads(const std::string& path) const {
  struct stat facts{};
  if (path.empty() || stat(path.c_str(), &facts) != 0) return false;
  return identities_.contains({facts.st_dev, facts.st_ino});
}

std::vector<ParameterFiles::Found> ParameterFiles::find_all(const std::string& name, const std::string* scope) const {
  std::vector<Found> found;
  for (const Source& source : sources_) {
    if (scope && source.scope != *scope) continue;
    const File* file = &source.files.front();
    if (!source.in_shards.empty()) {
      auto shard = std::lower_bound(source.in_shards.begin(), source.in_shards.end(), name,
                                    [](const module::ShardIndex::Entry& entry, const std::string& key) { return entry.name < key; });
      if (shard == source.in_shards.end() || shard->name != name) continue;
      file = &source.files[shard->shard];
    }
    const module::ParameterEntry* entry = file->index.find(name);
    if (entry) found.push_back({&source, file, entry});
  }
  return found;
}

ParameterFiles::Match ParameterFiles::match_of(const std::vector<Found>& found, const std::string& model_name,
                                               const std::string& name) const {
  Match match;
  match.name = name;
  match.scope = found.front().source->scope;
  match.path = found.front().source->path;
  match.entry = found.front().entry;
  if (found.size() == 1) return match;
  const Source &one = *found[0].source, &other = *found[1].source;
  match.problem = concat("both ", in_quotes(one.path), in_scope(one.scope), " and ", in_quotes(other.path), in_scope(other.scope),
                         " have a tensor ", in_quotes(name), "; ");
  match.problem += one.scope == other.scope
                       ? "name one of them"
                       : concat("select one, such as with --param-name ", in_quotes(concat(model_name, "=", one.scope, "=", name)));
  return match;
}

std::string ParameterFiles::nearest_tensor(const std::string& name) const {
  std::vector<std::string> all;
  for (const Source& source : sources_) {
    for (std::string& known : source.names()) all.push_back(std::move(known));
  }
  return module::nearest(name, all);
}

std::string ParameterFiles::unknown_tensor(const std::string& name) const {
  const std::string meant = nearest_tensor(name);
  return concat("no file has a tensor ", in_quotes(name), "; ",
                meant.empty() ? "heddle params ls lists them" : concat("did you mean ", in_quotes(meant), "?"));
}

bool ParameterFiles::find_target(const std::string& text, const std::string& model_name, Match& match) const {
  for (const bool is_transposed : {false, true}) {
    if (is_transposed && !text.ends_with(transposed_ending)) continue;
    const std::string target = text.substr(0, text.size() - (is_transposed ? transposed_ending.size() : 0));
    // A name may contain '=', so the whole text is tried before a scope.
    std::string name = target;
    std::vector<Found> found = find_all(name, nullptr);
    for (size_t split = target.find('='); found.empty() && split != std::string::npos; split = target.find('=', split + 1)) {
      const std::string scope = target.substr(0, split);
      name = target.substr(split + 1);
      found = find_all(name, &scope);
    }
    if (!found.empty()) match = match_of(found, model_name, name);
    match.is_transposed = is_transposed;
    if (!found.empty()) return true;
  }
  return false;
}

std::string ParameterFiles::unknown_target(const std::string& text) const {
  std::string name = text;
  if (name.ends_with(transposed_ending)) name.resize(name.size() - transposed_ending.size());
  for (const Source& source : sources_) {
    if (name.starts_with(source.scope + "=")) return unknown_tensor(name.substr(source.scope.size() + 1));
  }
  return unknown_tensor(name);
}

bool ParameterFiles::add_pattern(const std::string& text) {
  bool is_used = false;
  for (size_t split = text.find('='); split != std::string::npos && !is_used; split = text.find('=', split + 1)) {
    const Pattern from(text.substr(0, split)), to(text.substr(split + 1));
    if (!from.is_one || !to.is_one) continue;
    for (const std::string& name : stored_) {
      if (matches_.contains(name) || own_.contains(name) || !from.matches(name)) continue;
      Match match;
      if (!find_target(to.begin + from.middle_of(name) + to.end, name, match)) continue;
      matches_.emplace(name, std::move(match));
      is_used = true;
    }
  }
  return is_used;
}

module::Status ParameterFiles::resolve(const std::vector<std::string>& stored, const std::vector<std::string>& names) {
  stored_ = stored;
  matches_.clear();
  own_.clear();
  warnings_.clear();
  const std::set<std::string> known(stored.begin(), stored.end());
  std::vector<const std::string*> patterns;
  for (const std::string& text : names) {
    auto wrong = [&](const std::string& cause) {
      return module::Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                           concat("compiler: parameter name ", in_quotes(text), " is not possible: ", cause)};
    };
    if (is_empty()) return wrong("no file is given; name one with --params-in");
    size_t split = text.find('=');
    if (split == std::string::npos) return wrong("it is written MODEL_NAME=FILE_NAME");
    const std::string first = text.substr(0, split);
    while (split != std::string::npos && !known.contains(text.substr(0, split))) split = text.find('=', split + 1);
    if (split == std::string::npos) {
      if (Pattern(first).is_one) {
        patterns.push_back(&text);
        continue;
      }
      return wrong(concat("the model stores no tensor ", in_quotes(first), "; ", known_names(first, stored)));
    }
    const std::string model_name = text.substr(0, split);
    if (matches_.contains(model_name) || own_.contains(model_name))
      return wrong(concat("tensor ", in_quotes(model_name), " has another name already"));
    if (split + 1 == text.size()) {
      own_.insert(model_name);
      continue;
    }
    Match match;
    if (!find_target(text.substr(split + 1), model_name, match)) return wrong(unknown_target(text.substr(split + 1)));
    if (!match.problem.empty()) return wrong(match.problem);
    match.is_named = true;
    matches_.emplace(model_name, std::move(match));
  }
  for (const std::string* text : patterns) {
    if (add_pattern(*text)) continue;
    return module::Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                         concat("compiler: parameter name ", in_quotes(*text),
                                " is not possible: no file has a tensor for one of the model's; ", known_names("", stored))};
  }
  for (const std::string& name : stored) {
    if (matches_.contains(name) || own_.contains(name)) continue;
    const std::vector<Found> found = find_all(name, nullptr);
    if (!found.empty()) matches_.emplace(name, match_of(found, name, name));
  }
  find_repeated();
  return std::nullopt;
}

void ParameterFiles::find_repeated() {
  std::map<std::pair<std::string, std::string>, std::vector<const std::pair<const std::string, Match>*>> weights;
  for (const auto& one : matches_) {
    if (one.second.problem.empty()) weights[{one.second.scope, one.second.name}].push_back(&one);
  }
  for (const auto& [tensor, all] : weights) {
    const auto not_named = std::find_if(all.begin(), all.end(), [](const auto* one) { return !one->second.is_named; });
    if (all.size() == 1 || not_named == all.end()) continue;
    const std::string& name = (*not_named)->first;
    const std::string& other = all[*not_named == all[0] ? 1 : 0]->first;
    warnings_.push_back(concat("tensor ", in_quotes(tensor.second), " of ", in_quotes((*not_named)->second.path), " is both ",
                               in_quotes(name), " and ", in_quotes(other), " of the model; --param-name ", in_quotes(name + "="),
                               " leaves ", in_quotes(name), " in the module, --param-name ", in_quotes(concat(name, "=", tensor.second)),
                               " says that it is right"));
  }
}

const ParameterFiles::Match* ParameterFiles::find(const std::string& model_name) const {
  asked_.insert(model_name);
  auto it = matches_.find(model_name);
  return it == matches_.end() ? nullptr : &it->second;
}

std::vector<int64_t> ParameterFiles::stored_dims(const Match& match, std::span<const int64_t> dims) {
  std::vector<int64_t> stored(dims.begin(), dims.end());
  if (match.is_transposed) std::reverse(stored.begin(), stored.end());
  return stored;
}

std::string ParameterFiles::refuse(const std::string& model_name, const Match& match, heddle_element_type_t type,
                                   std::span<const int64_t> dims) {
  if (!match.problem.empty()) return match.problem;
  if (match.name.empty() || !can_be_name(match.name)) {
    return concat("the name of its tensor ", in_quotes(match.name), " is not UTF-8 text of 1 to ", module::kMaxNameBytes,
                  " bytes; write the file with another name");
  }
  const module::ParameterEntry& entry = *match.entry;
  const std::string wanted = module::shape_text(type, dims);
  if (match.is_transposed && dims.size() != 2) return concat("the model has ", wanted, ", and only matrices can be transposed");
  const std::vector<int64_t> stored = stored_dims(match, dims);
  const std::string differ = concat("the model has ", wanted, match.is_transposed ? ", transposed" : "", ", the file has ", type_of(entry));
  const std::optional<uint64_t> bytes = module::tensor_bytes(HEDDLE_TYPE_BITS(type), stored);
  if (entry.is_untyped) {
    if (bytes && entry.length == *bytes) return {};
    return differ + "; give the file that belongs to this model";
  }
  if (entry.block && !entry.block->decode)
    return concat(differ, ", and this version cannot convert values from type ", entry.dtype,
                  "; convert the file to another type, such as Q4_K");
  if (entry.block ? !module::decodes_to(type) : entry.element_type != type) {
    const bool can_convert = module::decodes_to(type) && (entry.element_type == HEDDLE_TYPE_F32 || entry.element_type == HEDDLE_TYPE_F16 ||
                                                          entry.element_type == HEDDLE_TYPE_BF16);
    return differ + (can_convert ? concat("; convert the file with heddle params convert --type ", module::element_type_name(type),
                                          ", or export the model in the file's type")
                                 : "; give the file that belongs to this model");
  }
  if (entry.dims != stored) {
    const bool is_other_way = stored.size() == 2 && entry.dims.size() == 2 && entry.dims[0] == stored[1] && entry.dims[1] == stored[0];
    if (is_other_way && !match.is_transposed)
      return concat(differ, "; --param-name ", in_quotes(concat(model_name, "=", match.name, transposed_ending)), " takes it transposed");
    return differ + "; give the file that belongs to this model";
  }
  if (!entry.block && bytes != entry.length) return concat(differ, " in ", entry.length, " bytes; write or copy the file again");
  // One parameter has one type, although blocks and untyped entries can be read as several.
  const std::string declared = module::shape_text(type, stored);
  auto [known, is_new] = declared_.try_emplace({match.scope, match.name}, declared);
  if (is_new || known->second == declared) return {};
  return concat("the model has it as ", declared, ", and as ", known->second, " under another name; use one type for both");
}

std::string ParameterFiles::advice(const std::string& model_name) const {
  if (is_empty()) return {};
  if (own_.contains(model_name)) return concat("; --param-name ", in_quotes(model_name + "="), " leaves it in the module");
  const std::string meant = nearest_tensor(model_name);
  return concat("; no file has a tensor ", in_quotes(model_name), meant.empty() ? "" : concat(", but ", in_quotes(meant)),
                "; --param-name ", in_quotes(concat(model_name, "=", meant.empty() ? "FILE_NAME" : meant)),
                " takes a tensor of another name");
}

void ParameterFiles::begin_import() {
  asked_.clear();
  taken_.clear();
  kept_.clear();
  declared_.clear();
}

std::vector<std::string> ParameterFiles::without(const std::set<std::pair<std::string, std::string>>& parameters) const {
  std::set<std::pair<std::string, std::string>> used;
  for (const auto& [model_name, match] : matches_) {
    if (parameters.contains({match.scope, match.name})) used.emplace(match.scope, match.path);
  }
  std::vector<std::string> paths;
  for (const Source& source : sources_) {
    if (!used.contains({source.scope, source.path})) paths.push_back(source.path);
  }
  return paths;
}

module::Status ParameterFiles::check_use() const {
  for (const auto& [model_name, match] : matches_) {
    if (!match.is_named || asked_.contains(model_name)) continue;
    return module::Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                         concat("compiler: parameter name ", in_quotes(concat(model_name, "=", match.name)),
                                " is not possible: the model does not use its tensor ", in_quotes(model_name), "; remove the name")};
  }
  for (const Source& source : sources_) {
    if (taken_.contains({source.scope, source.path})) continue;
    const std::vector<std::string> names = source.names();
    std::string hint = concat("no weight of the model is one of its ", names.size(), " tensors");
    std::string shown = names.empty() ? "FILE_NAME" : names.front(), meant;
    for (size_t i = 0; i < std::min(names.size(), most_tried) && meant.empty(); ++i) {
      meant = module::nearest(names[i], stored_);
      if (!meant.empty()) shown = names[i];
    }
    if (!names.empty()) hint += concat("; it has ", in_quotes(shown), meant.empty() ? "" : concat(", the model has ", in_quotes(meant)));
    hint +=
        concat("; --param-name ", in_quotes(concat(meant.empty() ? "MODEL_NAME" : meant, "=", shown)), " takes a tensor of another name");
    return module::Error{HEDDLE_STATUS_NOT_FOUND, concat("compiler: using parameter file ", in_quotes(source.path), " failed: ", hint)};
  }
  return std::nullopt;
}

std::pair<std::string, uint64_t> ParameterFiles::place_of(const std::string& scope, const std::string& name) const {
  const std::vector<Found> found = find_all(name, &scope);
  if (found.empty()) return {};
  return {found.front().source->path, found.front().entry->length};
}

module::Result<uint64_t> ParameterFiles::hash_of(const std::string& scope, const std::string& name) const {
  const std::vector<Found> found = find_all(name, &scope);
  if (found.empty()) return uint64_t{0};
  std::string path = found.front().file->path;
  const module::ParameterEntry& entry = *found.front().entry;
  OpenFile file{-1};
  if (entry.file > 0) {
    const module::ExternalFile& external = found.front().file->index.external_files()[entry.file - 1];
    module::Result<int> opened = module::open_external(path, external);
    if (!opened) return opened.error();
    file.descriptor = opened.value();
    path = module::shard_path(path, external.location);
  } else {
    file.descriptor = module::open_to_read(path);
  }
  if (file.descriptor < 0) return not_opened(path, HEDDLE_STATUS_UNAVAILABLE, module::why_not_opened(errno));
  const module::FileView view(file.descriptor, entry.offset + entry.length);
  auto read = [&](uint64_t offset, std::span<std::byte> out) -> module::Status {
    for (size_t i = 0; i < out.size() && !entry.pattern.empty(); ++i) {
      out[i] = static_cast<std::byte>(entry.pattern[(offset + i) % entry.pattern.size()]);
    }
    if (!entry.pattern.empty()) return std::nullopt;
    const module::Wrong wrong = view.read(entry.offset + offset, out);
    if (wrong.empty()) return std::nullopt;
    return module::Error{HEDDLE_STATUS_DATA_LOSS, concat("compiler: reading tensor ", in_quotes(name), " of ", in_quotes(path),
                                                         " for its hash failed: ", wrong, "; copy the file again")};
  };
  return module::hash_each_piece({entry.length, {}, read}, [](std::span<const std::byte>) { return std::nullopt; });
}

}  // namespace heddle::import
