// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params merge`: adds a LoRA adapter to the weights of a parameter file. Writes the changed weights, one at a time, in pieces.
#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "sdk/module/element_types.h"
#include "sdk/module/nearest.h"
#include "sdk/module/safetensors.h"
#include "tools/heddle/npy.h"
#include "tools/heddle/same_file.h"
#include "tools/params/adapter.h"
#include "tools/params/element_blocks.h"
#include "tools/params/low_rank.h"
#include "tools/params/sources.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string base, adapter, output, type, progress = "auto";
  double alpha = 0;
  std::vector<std::string> renames, transposed;
  bool all = false;
  void declare(Flags& flags) {
    flags.positional("BASE", base, kParameterFileHelp);
    flags.positional("ADAPTER", adapter, "LoRA adapter as PEFT writes it, such as adapter_model.safetensors");
    flags.text("-o,--output", output, ".safetensors file; once complete, it replaces an existing file", "FILE");
    flags.number("--alpha", alpha, "lora_alpha of the training, instead of that of adapter_config.json beside ADAPTER", -1e300, 1e300);
    flags.texts("--rename", renames, "the weight OLD of the adapter has the name NEW in BASE", "OLD=NEW");
    flags.texts("--transpose", transposed, "these weights of BASE, and no others, are stored as [in, out]; default: by their shapes",
                "GLOB");
    flags.choice("--type", type, {"f32", "f16", "bf16"}, "float type of the tensors that are written; default: as in BASE");
    flags.on("--all", all, "write the unchanged tensors of BASE too");
    add_progress_flag(flags, progress);
  }
};

constexpr const char kSummary[] = "adds a LoRA adapter to weights: writes those that it changes";

// A weight of BASE and its change.
struct Merged {
  const StoredTensor* base;
  const WeightChange* change;  // null: unchanged
  bool is_transposed = false;
  uint64_t overflowed = 0;  // the source keeps a pointer to this counter: a Merged must not move
};

std::string quote(const std::string& text) {
  return "'" + text + "'";
}

// Finds weights of the adapter in BASE.
class Names {
 public:
  explicit Names(const Checkpoint& base) : base_(base) {}

  // Splits OLD=NEW; names may contain '=': the first split whose NEW exists is used.
  Wrong add_renames(const std::vector<std::string>& renames, const Adapter& adapter) {
    for (const std::string& rename : renames) {
      const StoredTensor* tensor = nullptr;
      size_t equals = rename.find('=');
      for (size_t at = equals; at != std::string::npos && !tensor; at = rename.find('=', at + 1)) {
        tensor = base_.find(rename.substr(at + 1));
        if (tensor) equals = at;
      }
      if (equals == std::string::npos) return "--rename " + quote(rename) + ": expected OLD=NEW";
      if (!tensor) return "--rename " + quote(rename) + ": " + missing(rename.substr(equals + 1));
      const std::string old = rename.substr(0, equals);
      std::vector<std::string> names;
      for (const WeightChange& change : adapter.changes()) names.push_back(change.weight);
      if (std::find(names.begin(), names.end(), old) == names.end()) {
        const std::string meant = module::nearest(old, names);
        return "--rename " + quote(rename) + ": the adapter does not change " + quote(old) +
               (meant.empty() ? ", but " + quote(names[0]) + " and others" : "; did you mean " + quote(meant) + "?");
      }
      if (!renames_.emplace(old, tensor).second) return "--rename: " + quote(old) + " is renamed twice";
    }
    return {};
  }

  // By its own name, or by the only name that differs from it in what is before a dot: models are trained and exported as parts of others.
  Wrong find(const std::string& weight, const StoredTensor*& out) {
    if (const auto at = renames_.find(weight); at != renames_.end()) {
      out = at->second;
      return {};
    }
    out = base_.find(weight);
    if (out) return {};
    std::vector<const StoredTensor*> found;
    for (const StoredTensor& tensor : base_.tensors()) {
      if (is_end_of(weight, tensor.name) || is_end_of(tensor.name, weight)) found.push_back(&tensor);
    }
    if (found.empty()) return missing(weight) + "; otherwise --rename " + quote(weight + "=NAME");
    if (found.size() > 1)
      return "the adapter changes " + quote(weight) + ", which may be " + quote(found[0]->name) + " or " + quote(found[1]->name) + " of " +
             quote(base_.path()) + "; choose one with --rename " + quote(weight + "=NAME");
    out = found[0];
    return {};
  }

 private:
  static bool is_end_of(const std::string& end, const std::string& whole) {
    return whole.size() > end.size() && whole[whole.size() - end.size() - 1] == '.' && whole.ends_with(end);
  }

  std::string missing(const std::string& name) const {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : base_.tensors()) names.push_back(tensor.name);
    const std::string meant = module::nearest(name, names);
    return quote(base_.path()) + " has no tensor " + quote(name) +
           (meant.empty() ? "; heddle params ls lists its " + std::to_string(names.size()) : "; did you mean " + quote(meant) + "?");
  }

  const Checkpoint& base_;
  std::map<std::string, const StoredTensor*> renames_;
};

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (int64_t extent : dims) out += (out.size() > 1 ? "," : "") + std::to_string(extent);
  return out + "]";
}

// Compares the shapes. Decides for each product whether BASE stores the weight transposed: the shape of a square one does not tell.
Wrong match_shapes(const Options& options, bool is_fan_in_fan_out, std::vector<Merged>& merged) {
  const StoredTensor *direct = nullptr, *turned = nullptr, *square = nullptr;
  std::vector<Merged*> squares;
  for (Merged& one : merged) {
    if (!one.change) continue;
    const std::vector<int64_t>& dims = one.base->shape.dims;
    if (one.change->whole) {
      if (one.change->whole->shape.dims != dims)
        return "tensor " + quote(one.base->name) + " is " + one.base->shape_text() + " in " + quote(options.base) + ", and " +
               one.change->whole->shape_text() + " in the adapter, which replaces it";
      continue;
    }
    std::vector<int64_t> product = one.change->product_dims(), reversed(product.rbegin(), product.rend());
    const bool is_stated = !options.transposed.empty(), may_turn = product.size() == 2 && !one.change->is_embedding;
    one.is_transposed = is_stated ? may_turn && fits(one.base->name, options.transposed) : may_turn && product != dims && reversed == dims;
    if ((one.is_transposed ? reversed : product) != dims)
      return "weight " + quote(one.base->name) + " is " + one.base->shape_text() + ", and the product of the adapter's factors, " +
             one.change->b->shape_text() + " and " + one.change->a->shape_text() + ", is " + dims_text(product) +
             (one.is_transposed ? ", not [in, out] as --transpose says" : "");
    if (is_stated || !may_turn) continue;
    if (product == reversed) {
      squares.push_back(&one);
      square = one.base;
    } else {
      (one.is_transposed ? turned : direct) = one.base;
    }
  }
  // The others tell, or the layers of the model that was trained.
  const bool is_turned = direct || turned ? turned != nullptr : is_fan_in_fan_out;
  if (square && ((direct && turned) || is_turned != is_fan_in_fan_out))
    return "weight " + quote(square->name) + " is square, and may be stored as [in, out]" +
           (turned ? ", as " + quote(turned->name) + " is" : "") + "; name all weights that are, with --transpose GLOB";
  for (Merged* one : squares) one->is_transposed = is_turned;
  for (const std::string& glob : options.transposed) {
    if (std::none_of(merged.begin(), merged.end(), [&](const Merged& one) { return one.is_transposed && fits(one.base->name, {glob}); }))
      return "--transpose " + quote(glob) + " matches no matrix that the adapter changes";
  }
  return {};
}

Wrong read_factor(const Checkpoint& file, const StoredTensor& tensor, std::vector<double>& out) {
  out.reserve(element_count(tensor.shape).value_or(0));
  return for_each_piece(file, tensor, [&](const HostTensor& piece) -> Wrong {
    const size_t begin = out.size(), count = element_count(piece.shape).value_or(0);
    out.resize(begin + count);
    decode_block(tensor.shape.element_type, piece.bytes.data(), std::span(out).subspan(begin));
    return {};
  });
}

Wrong read_product(const Checkpoint& file, const Merged& one, LowRank& out) {
  const WeightChange& change = *one.change;
  if (Wrong wrong = read_factor(file, *change.a, out.right); !wrong.empty()) return wrong;
  if (Wrong wrong = read_factor(file, *change.b, out.left); !wrong.empty()) return wrong;
  if (Wrong wrong = file.changed(); !wrong.empty()) return wrong;
  for (double& value : out.left) value *= change.factor;
  out.rank = static_cast<uint64_t>(change.rank());
  out.rows = out.left.size() / out.rank;
  out.columns = out.right.size() / out.rank;
  if (!one.is_transposed && !change.is_embedding) return {};
  // (left * right) transposed
  std::vector<double> left = transposed(out.right, out.rank);
  out.right = transposed(out.left, out.rows);
  out.left = std::move(left);
  std::swap(out.rows, out.columns);
  return {};
}

module::ParameterSource sum_of(const Checkpoint& base, const Checkpoint& adapter, Merged& one, heddle_element_type_t type,
                               Progress& progress) {
  const heddle_element_type_t from = one.base->shape.element_type;
  const uint64_t given = HEDDLE_TYPE_BITS(from) / 8, written = HEDDLE_TYPE_BITS(type) / 8, all = one.base->value_bytes() / given * written;
  // The factors are in memory while the weight is written.
  auto product = std::make_shared<std::unique_ptr<LowRank>>();
  auto read = [&base, &adapter, &one, &progress, product, type, from, given, written, all](uint64_t offset,
                                                                                           std::span<std::byte> out) -> module::Status {
    auto lost = [](const Wrong& wrong) { return module::Error{HEDDLE_STATUS_DATA_LOSS, wrong}; };
    if (!*product) {
      *product = std::make_unique<LowRank>();
      if (Wrong wrong = read_product(adapter, one, **product); !wrong.empty()) return lost(wrong);
    }
    std::vector<std::byte> values(out.size() / written * given);
    if (Wrong wrong = base.read_values(*one.base, offset / written * given, values); !wrong.empty()) return lost(wrong);
    one.overflowed += add_product(**product, offset / written, values, from, out, type);
    progress.add(values.size());
    if (offset + out.size() < all) return std::nullopt;
    product->reset();
    if (Wrong wrong = base.changed(); !wrong.empty()) return lost(wrong);
    return std::nullopt;
  };
  return {all, {}, read};
}

// What was done, for people: the reader may have expected other weights.
void print_summary(const Options& options, const std::vector<Merged>& merged, uint64_t bytes) {
  uint64_t sums = 0, turned = 0, replaced = 0, renamed = 0;
  const Merged* other_name = nullptr;
  for (const Merged& one : merged) {
    if (!one.change) continue;
    ++(one.change->whole ? replaced : sums);
    turned += one.is_transposed;
    if (one.base->name == one.change->weight) continue;
    ++renamed;
    other_name = &one;
  }
  auto count = [](uint64_t number, const char* what) { return std::to_string(number) + what; };
  print_line(options.output + ": " + count(merged.size(), " tensors, ") + bytes_text(bytes) + "; " + count(sums, " merged") +
             (turned ? ", " + count(turned, " of them stored as [in, out]") : "") + (replaced ? ", " + count(replaced, " replaced") : ""));
  if (other_name)
    print_line(count(renamed, " have other names than in the adapter, such as ") + quote(other_name->base->name) + " for " +
               quote(other_name->change->weight));
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags("params merge", kSummary);
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.output.empty()) return flags.misuse("-o FILE is missing");
  if (!options.output.ends_with(".safetensors"))
    return flags.misuse("-o " + quote(options.output) + ": expected .safetensors; heddle params convert writes other formats");
  Checkpoint base, file;
  if (std::optional<int> code = open_checkpoint(flags, options.base, base)) return *code;
  if (std::optional<int> code = open_checkpoint(flags, options.adapter, file)) return *code;
  for (const auto& [checkpoint, name] : {std::pair(&base, "BASE"), std::pair(&file, "ADAPTER")}) {
    for (const InputFile& read : checkpoint->files()) {
      if (Wrong wrong = file_named_twice({{"-o", options.output}}, {{name, read.path()}}); !wrong.empty()) return flags.misuse(wrong);
    }
  }
  Adapter adapter;
  if (Wrong wrong = adapter.read(file, flags.given("--alpha") ? std::optional(options.alpha) : std::nullopt); !wrong.empty())
    return flags.failed(wrong);

  Names names(base);
  if (Wrong wrong = names.add_renames(options.renames, adapter); !wrong.empty()) return flags.misuse(wrong);
  std::unordered_map<const StoredTensor*, const WeightChange*> changes;
  for (const WeightChange& change : adapter.changes()) {
    const StoredTensor* tensor = nullptr;
    if (Wrong wrong = names.find(change.weight, tensor); !wrong.empty()) return flags.failed(wrong);
    if (const auto [at, is_new] = changes.emplace(tensor, &change); !is_new)
      return flags.failed(quote(at->second->weight) + " and " + quote(change.weight) + " of the adapter would both be " +
                          quote(tensor->name) + "; choose others with --rename OLD=NEW");
  }
  std::vector<Merged> merged;
  for (const StoredTensor& tensor : base.tensors()) {
    const auto at = changes.find(&tensor);
    if (at != changes.end() || options.all) merged.push_back({&tensor, at == changes.end() ? nullptr : at->second});
  }
  if (Wrong wrong = match_shapes(options, adapter.is_fan_in_fan_out(), merged); !wrong.empty()) return flags.failed(wrong);

  // safetensors has no padding between tensors: the widest types first, and otherwise in the order of the file.
  auto place = [](const Merged& one) {
    return std::make_tuple(~uint64_t{HEDDLE_TYPE_BITS(one.base->shape.element_type)}, one.base->file, one.base->offset, one.base->name);
  };
  std::sort(merged.begin(), merged.end(), [&](const Merged& a, const Merged& b) { return place(a) < place(b); });
  uint64_t bytes = 0;
  for (const Merged& one : merged) bytes += one.base->value_bytes();
  Progress progress(options.progress, "merging", bytes);
  const heddle_element_type_t wanted = module::element_type_from_name(options.type);
  std::vector<module::SafetensorsTensor> tensors;
  uint64_t written = 0;
  for (Merged& one : merged) {
    const StoredTensor& tensor = one.change && one.change->whole ? *one.change->whole : *one.base;
    const Checkpoint& from = one.change && one.change->whole ? file : base;
    // A replaced tensor keeps the type of BASE.
    const bool has_floats = is_float(one.base->shape.element_type) && is_float(tensor.shape.element_type);
    const heddle_element_type_t type = has_floats && !options.type.empty() ? wanted : one.base->shape.element_type;
    auto refuse = [&](const std::string& why) {
      return flags.failed("tensor " + quote(one.base->name) + " of " + quote(options.base) + why);
    };
    if (one.base->block && options.type.empty())
      return refuse(" has type " + one.base->dtype +
                    ", whose values are stored in blocks; choose another type with --type f32, f16 or bf16");
    if (one.change && !one.change->whole && !has_floats)
      return refuse(" is " + one.base->shape_text() + ", and a product can only be added to floats");
    const bool is_changed_in_type = tensor.shape.element_type != type;
    if (is_changed_in_type && !has_floats)
      return refuse(" is " + one.base->shape_text() + ", and " + tensor.shape_text() + " in the adapter, which replaces it");
    if ((one.change || is_changed_in_type) && HEDDLE_TYPE_BITS(type) == 8 && has_floats)
      return refuse(" is " + one.base->shape_text() + ", a type that is not written; choose another with --type f32, f16 or bf16");
    module::ParameterSource source = one.change && !one.change->whole ? sum_of(base, file, one, type, progress)
                                     : is_changed_in_type             ? cast_values(from, tensor, type, progress, one.overflowed)
                                                                      : values_of(from, tensor, progress);
    written += source.size_bytes;
    tensors.push_back({one.base->name, type, one.base->shape.dims, std::move(source), tensor.has_values() ? "" : tensor.dtype});
  }
  if (Wrong wrong =
          wrong_of(module::write_safetensors(tensors, options.output, options.all ? base.metadata() : module::ParameterMetadata()));
      !wrong.empty())
    return flags.failed(wrong);
  for (const Merged& one : merged) {
    if (one.overflowed)
      flags.failed("warning: " + std::to_string(one.overflowed) + " numbers of tensor " + quote(one.base->name) +
                   " are too large for their type and became infinite");
  }
  print_summary(options, merged, written);
  return kFine;
}

}  // namespace

Command merge_action() {
  return {"merge", kSummary, run};
}

}  // namespace heddle::tool
