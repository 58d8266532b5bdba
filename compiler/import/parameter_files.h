// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of parameters that exist when a model is compiled: which tensor of a file each weight of the model is. Reads headers only. Filled in by the
// pipeline, queried by importers; knows no model format, and no IR.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sdk/module/error.h"
#include "sdk/module/parameter_index.h"
#include "sdk/module/safetensors_shards.h"

namespace heddle::import {

class ParameterFiles {
 public:
  // The tensor of a file that a weight of the model is.
  struct Match {
    std::string scope, name;
    std::string path;  // the file as the user named it: for shards, their index
    const module::ParameterEntry* entry = nullptr;
    bool is_transposed = false;  // the weight is the transposed tensor
    bool is_named = false;       // by the user, not because the names are equal
    std::string problem;         // why it cannot be used, or empty
  };
  // A weight whose values are those of the model.
  struct Kept {
    std::string name;
    uint64_t bytes = 0;
    bool is_parameter = false;         // else a constant
    bool is_expected_of_file = false;  // floats and zero points, which training changes
    std::string reason;                // why the tensor of a file is not used, or empty if no file has one
  };

  // "SCOPE=FILE": reads the file's header. FILE may be an index of shards. The scope may be empty.
  module::Status add(const std::string& text);
  bool is_empty() const { return sources_.empty(); }
  // Whether one of the files is at this path.
  bool reads(const std::string& path) const;

  // Finds a tensor for each of the model's stored tensors. names: "MODEL_NAME=[SCOPE=]FILE_NAME[:transposed]" for names that differ; one '*' on each
  // side stands for the same text. "MODEL_NAME=" leaves the tensor in the module.
  module::Status resolve(const std::vector<std::string>& stored, const std::vector<std::string>& names);
  // Null if no file has a tensor for it.
  const Match* find(const std::string& model_name) const;
  // Texts for the user, after resolve.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Why the tensor is not the weight of this type and these extents, and what to do about it; empty if it is.
  std::string refuse(const std::string& model_name, const Match& match, heddle_element_type_t type, std::span<const int64_t> dims);
  // The extents that the tensor has in the file, given the weight's.
  static std::vector<int64_t> stored_dims(const Match& match, std::span<const int64_t> dims);
  // What to do if a value that no file has is not in the model either: "; ..." or empty.
  std::string advice(const std::string& model_name) const;

  // Imports of one model may be repeated; the last one counts.
  void begin_import();
  void note_taken(const Match& match) { taken_.emplace(match.scope, match.path); }
  void note_kept(Kept kept) { kept_.push_back(std::move(kept)); }
  const std::vector<Kept>& kept() const { return kept_; }
  // An error if no tensor of a file is used, or one that the user named.
  module::Status check_use() const;
  // Files that have none of these parameters, given by scope and name.
  std::vector<std::string> without(const std::set<std::pair<std::string, std::string>>& parameters) const;

  // The file, as the user named it, that has the parameter, and its bytes in it.
  std::pair<std::string, uint64_t> place_of(const std::string& scope, const std::string& name) const;
  // Reads the parameter's bytes, as the file stores them, and returns their hash. 0 if no file has the parameter.
  module::Result<uint64_t> hash_of(const std::string& scope, const std::string& name) const;

 private:
  struct File {
    std::string path;
    module::ParameterIndex index;
  };
  // What the user named: a file, or an index of shards and these.
  struct Source {
    std::string scope, path;
    std::deque<File> files;
    std::vector<module::ShardIndex::Entry> in_shards;  // by name; empty for a file
    std::vector<std::string> names() const;
  };
  struct Found {
    const Source* source;
    const File* file;
    const module::ParameterEntry* entry;
  };

  module::Status open(Source& source, const std::string& path, bool is_shard);
  // In all scopes, or in one.
  std::vector<Found> find_all(const std::string& name, const std::string* scope) const;
  Match match_of(const std::vector<Found>& found, const std::string& model_name, const std::string& name) const;
  // The tensor for "[SCOPE=]FILE_NAME[:transposed]"; false if no file has it. The match may have a problem.
  bool find_target(const std::string& text, const std::string& model_name, Match& match) const;
  std::string unknown_target(const std::string& text) const;
  // A rule with a '*' on either side: whether there are tensors for it.
  bool add_pattern(const std::string& text);
  std::string nearest_tensor(const std::string& name) const;
  std::string unknown_tensor(const std::string& name) const;
  // Warns of tensors that are several weights of the model, without being named for each.
  void find_repeated();

  std::deque<Source> sources_;
  std::set<std::pair<dev_t, ino_t>> identities_;  // of all files, those of shards and their indexes too
  std::vector<std::string> stored_;               // names of the model's tensors
  std::map<std::string, Match> matches_;          // by the name in the model
  std::set<std::string> own_;                     // names in the model of those that the user leaves in the module
  mutable std::set<std::string> asked_;           // names in the model that the importer looked for
  std::vector<std::string> warnings_;
  std::map<std::pair<std::string, std::string>, std::string> declared_;  // types, by scope and name
  std::set<std::pair<std::string, std::string>> taken_;                  // scopes and paths
  std::vector<Kept> kept_;
};

}  // namespace heddle::import
