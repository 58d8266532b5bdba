// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairs the factors by their names, and computes the factor of each product as PEFT does.
#include "tools/params/adapter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "sdk/module/json.h"
#include "tools/heddle/report_view.h"
#include "tools/params/element_blocks.h"

namespace heddle::tool {
namespace {

constexpr uint64_t kMostConfigBytes = uint64_t{1} << 20;
// std::regex needs stack for every character.
constexpr size_t kMostPatternBytes = 1000;
constexpr const char kMergeElsewhere[] = "; merge it with PEFT's merge_and_unload, and give the merged weights with --params";

std::string quote(std::string_view text) {
  return module::in_quotes(text);
}

// What PEFT writes in adapter_config.json, as far as it matters here.
class Config {
 public:
  // A file that does not exist leaves the defaults.
  Wrong read(const std::string& path) {
    path_ = path;
    std::error_code ignored;
    exists_ = std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
    if (!exists_) return {};
    InputFile file;
    if (Wrong wrong = file.open(path); !wrong.empty()) return file.about(wrong);
    if (file.size_bytes() > kMostConfigBytes)
      return file.about("it has " + std::to_string(file.size_bytes()) + " bytes, and at most " + std::to_string(kMostConfigBytes) +
                        " are supported");
    std::string text(file.size_bytes(), '\0');
    if (Wrong wrong = file.read(0, std::as_writable_bytes(std::span(text))); !wrong.empty()) return file.about(wrong);
    if (!module::is_json(text)) return file.about("it is not JSON; copy it again");
    json_ = parse_json(text);
    if (!json_.is_object()) return file.about("it is not a JSON object; copy it again");
    if (const Json* type = find("peft_type"); type && *type != "LORA")
      return file.about("its peft_type is " + type->dump() + ", and only \"LORA\" is supported" + kMergeElsewhere);
    for (const char* name : {"use_dora", "use_rslora", "use_qalora", "lora_bias", "fan_in_fan_out"}) {
      if (const Json* value = find(name); value && !value->is_boolean())
        return file.about(std::string(name) + " is " + value->dump() + ", and not true or false; correct it");
    }
    if (is_on("use_dora")) return file.about(std::string("use_dora is set, and DoRA is not supported") + kMergeElsewhere);
    if (const Json* layers = find("layer_replication"); layers && !layers->empty())
      return file.about(std::string("layer_replication is not supported") + kMergeElsewhere);
    if (is_on("use_qalora")) return file.about(std::string("use_qalora is set, and QALoRA is not supported") + kMergeElsewhere);
    if (const Json* tokens = find("alora_invocation_tokens"); tokens && !(tokens->is_array() && tokens->empty()))
      return file.about(
          "alora_invocation_tokens is set: the adapter changes only what follows these tokens, which merged weights cannot do; train one "
          "without them");
    if (const Json* start = find("init_lora_weights"); start && !start->is_boolean()) {
      const std::string name = start->is_string() ? start->get<std::string>() : start->dump();
      for (const char* changes_base : {"pissa", "olora", "corda", "loftq", "lora_ga"}) {
        if (name.starts_with(changes_base))
          return file.about("init_lora_weights is " + quote(name) + ", which also changes the weights of the base" + kMergeElsewhere);
      }
      if (name != "gaussian" && name != "eva" && name != "orthogonal")
        return file.about("init_lora_weights is " + quote(name) +
                          ", which this version does not know: it may change the weights of the base" + kMergeElsewhere);
    }
    return {};
  }

  bool exists() const { return exists_; }
  const std::string& path() const { return path_; }

  bool is_on(const char* name) const {
    const Json* value = find(name);
    return value && value->is_boolean() && value->get<bool>();
  }

  // lora_alpha of a module, or of the first alpha_pattern that matches its name.
  Wrong alpha(const std::string& module, double& out) const {
    const Json* value = find("lora_alpha");
    if (const Json* patterns = find("alpha_pattern"); patterns && patterns->is_object()) {
      for (const auto& [pattern, number] : patterns->items()) {
        bool matches = false;
        if (Wrong wrong = match(pattern, module, matches); !wrong.empty()) return wrong;
        if (!matches) continue;
        value = &number;
        break;
      }
    }
    if (!value) return "there is no lora_alpha in " + quote(path_) + "; give the one of the training with --alpha";
    if (!value->is_number() || !std::isfinite(value->get<double>()))
      return quote(path_) + ": lora_alpha of " + quote(module) + " is " + value->dump() + ", which is not a number; give it with --alpha";
    out = value->get<double>();
    return {};
  }

 private:
  const Json* find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto at = json_.find(name);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }

  // Whether PEFT's pattern matches a module's name or the end of it after a dot.
  Wrong match(const std::string& pattern, const std::string& module, bool& out) const {
    if (pattern.size() > kMostPatternBytes || module.size() > kMostPatternBytes)
      return quote(path_) + ": a pattern or a module's name has more than " + std::to_string(kMostPatternBytes) + " bytes; give --alpha";
    try {
      // libstdc++'s own flag: time is bounded by a product of the lengths for every pattern, and back references are refused.
      constexpr auto kFlags = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;
      out = std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")", kFlags));
    } catch (const std::regex_error&) {
      return quote(path_) + ": alpha_pattern " + quote(pattern) + " is not a pattern that this version understands; give --alpha";
    }
    return {};
  }

  std::string path_;
  Json json_;
  bool exists_ = false;
};

// The parts of a tensor's name.
struct AdapterName {
  std::string weight;
  enum Kind { kWhole, kA, kB, kEmbeddingA, kEmbeddingB } kind = kWhole;
  bool is_base_layer = false;  // the weight without the product
};

void remove(std::string& text, std::string_view part) {
  if (const size_t at = text.find(part); at != std::string::npos) text.erase(at, part.size());
}

Wrong parse(const std::string& name, AdapterName& out) {
  constexpr std::string_view kPrefix = "base_model.model.";
  std::string rest = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  const size_t at = rest.rfind(".lora_");
  if (rest.find(".token_adapter.") != std::string::npos)
    return "tensor " + quote(name) + ": trainable_token_indices is not supported" + kMergeElsewhere;
  if (at == std::string::npos) {
    if (rest.find("lora_") != std::string::npos || rest.find("hada_") != std::string::npos)
      return "tensor " + quote(name) +
             " is not named as in PEFT's files, such as 'base_model.model.fc.lora_A.weight'; save the adapter "
             "with PEFT";
    const size_t whole_length = rest.size();
    remove(rest, ".base_layer");
    const bool is_base_layer = rest.size() < whole_length;
    remove(rest, rest.find("modules_to_save.default.") != std::string::npos ? "modules_to_save.default." : "modules_to_save.");
    out = {rest, AdapterName::kWhole, is_base_layer};
    return {};
  }
  // "lora_A.weight", "lora_A.default.weight", "lora_embedding_A", "lora_embedding_A.default"
  const std::string factor = rest.substr(at + 1);
  const std::string first = factor.substr(0, factor.find('.'));
  if (first == "lora_magnitude_vector") return "tensor " + quote(name) + " is of DoRA, which is not supported" + kMergeElsewhere;
  if (factor.ends_with(".bias")) return "tensor " + quote(name) + ": lora_bias is not supported" + kMergeElsewhere;
  const std::pair<std::string_view, AdapterName::Kind> kinds[] = {{"lora_A", AdapterName::kA},
                                                                  {"lora_B", AdapterName::kB},
                                                                  {"lora_embedding_A", AdapterName::kEmbeddingA},
                                                                  {"lora_embedding_B", AdapterName::kEmbeddingB}};
  for (const auto& [word, kind] : kinds) {
    if (first != word) continue;
    out = {rest.substr(0, at) + ".weight", kind};
    return {};
  }
  return "tensor " + quote(name) + ": " + quote(first) + " is not a factor that this version knows" + kMergeElsewhere;
}

Wrong check_factor(const StoredTensor& tensor) {
  if (!is_float(tensor.shape.element_type)) return "tensor " + quote(tensor.name) + " is " + tensor.shape_text() + ", which is not a float";
  if (tensor.shape.dims.size() < 2)
    return "tensor " + quote(tensor.name) + " is " + tensor.shape_text() + ", and a factor has 2 dimensions or more";
  return {};
}

// The ranks of both must be equal, and a product must be possible.
Wrong check_pair(const WeightChange& change) {
  for (const StoredTensor* one : {change.a, change.b}) {
    if (Wrong wrong = check_factor(*one); !wrong.empty()) return wrong;
  }
  const std::vector<int64_t>&a = change.a->shape.dims, &b = change.b->shape.dims;
  const bool is_matrix = std::all_of(b.begin() + 2, b.end(), [](int64_t extent) { return extent == 1; });
  if (a[0] == b[1] && a[0] > 0 && is_matrix && (a.size() == 2 || !change.is_embedding)) return {};
  return "tensors " + quote(change.a->name) + ", " + change.a->shape_text() + ", and " + quote(change.b->name) + ", " +
         change.b->shape_text() + ", have no product of a rank: expected [rank,in] and [out,rank]";
}

}  // namespace

std::vector<int64_t> WeightChange::product_dims() const {
  std::vector<int64_t> dims = a->shape.dims;
  dims[0] = b->shape.dims[0];
  if (is_embedding) std::swap(dims[0], dims[1]);
  return dims;
}

Wrong Adapter::read(const Checkpoint& file, std::optional<double> alpha) {
  Config config;
  const std::filesystem::path beside = std::filesystem::path(file.path()).parent_path() / "adapter_config.json";
  if (Wrong wrong = config.read(beside.string()); !wrong.empty()) return wrong;
  is_fan_in_fan_out_ = config.is_on("fan_in_fan_out");
  if (!config.exists())
    notes_.push_back(
        "there is no " + quote(config.path()) +
        "; lora_alpha is that of --alpha, use_rslora and fan_in_fan_out are not set, and the training did not change the base");
  std::map<std::string, WeightChange> changes;
  std::set<std::string> bases;  // weights that the adapter has without the product
  for (const StoredTensor& tensor : file.tensors()) {
    AdapterName name;
    if (Wrong wrong = parse(tensor.name, name); !wrong.empty()) return quote(file.path()) + ": " + wrong;
    WeightChange& change = changes[name.weight];
    change.weight = name.weight;
    const bool is_embedding = name.kind >= AdapterName::kEmbeddingA;
    const bool is_a = name.kind == AdapterName::kA || name.kind == AdapterName::kEmbeddingA;
    const StoredTensor*& place = name.kind == AdapterName::kWhole ? change.whole : is_a ? change.a : change.b;
    const StoredTensor* factor = change.a ? change.a : change.b;
    // PEFT writes embeddings that have factors, too, in case that they were extended before the training.
    if (name.is_base_layer) bases.insert(name.weight);
    const bool is_start = name.kind == AdapterName::kWhole ? name.is_base_layer : bases.contains(name.weight);
    const StoredTensor* excluded = is_start ? nullptr : name.kind == AdapterName::kWhole ? factor : change.whole;
    if (const StoredTensor* other = place ? place : excluded)
      return quote(file.path()) + ": tensors " + quote(other->name) + " and " + quote(tensor.name) + " both change " + quote(name.weight) +
             "; save one adapter per file";
    if (factor && name.kind != AdapterName::kWhole && change.is_embedding != is_embedding)
      return quote(file.path()) + ": " + quote(name.weight) + " has factors of an embedding and others";
    place = &tensor;
    if (name.kind != AdapterName::kWhole) change.is_embedding = is_embedding;
  }
  bool has_factors = false;
  for (auto& [weight, change] : changes) {
    if (change.a || change.b) change.start = std::exchange(change.whole, nullptr);
    if (!change.whole) {
      has_factors = true;
      if (!change.a || !change.b)
        return quote(file.path()) + ": tensor " + quote((change.a ? change.a : change.b)->name) + " has no partner: a weight needs " +
               (change.is_embedding ? "lora_embedding_A and lora_embedding_B" : "lora_A and lora_B");
      if (Wrong wrong = check_pair(change); !wrong.empty()) return quote(file.path()) + ": " + wrong;
      double value = 0;
      const std::string module = weight.substr(0, weight.rfind('.'));
      if (alpha)
        value = *alpha;
      else if (Wrong wrong = config.alpha(module, value); !wrong.empty())
        return wrong;
      const double rank = static_cast<double>(change.rank());
      change.factor = value / (config.is_on("use_rslora") ? std::sqrt(rank) : rank);
    }
    changes_.push_back(std::move(change));
  }
  if (changes_.empty()) return quote(file.path()) + ": it has no tensors";
  if (!has_factors) notes_.push_back("the adapter has no factors, only tensors that replace those of the base");
  return {};
}

}  // namespace heddle::tool
