// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params merge`: adds a LoRA adapter to the weights of a parameter file. Writes the changed weights, one at a time, in pieces.
#include <algorithm>
#include <cmath>
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
  bool all = false, none_transposed = false;
  void declare(Flags& flags) {
    flags.positional("BASE", base, kParameterFileHelp);
    flags.positional("ADAPTER", adapter, "LoRA adapter as PEFT writes it, such as adapter_model.safetensors");
    flags.text("-o,--output", output, ".safetensors file; once complete, it replaces an existing file", "FILE");
    flags.number("--alpha", alpha, "lora_alpha of the training, instead of that of adapter_config.json beside ADAPTER", -1e300, 1e300);
    flags.texts("--rename", renames, "the weight OLD of the adapter has the name NEW in BASE", "OLD=NEW");
    flags.texts("--transpose", transposed, "these weights of BASE, and no others, are stored as [in, out]; default: by their shapes",
                "GLOB");
    flags.on("--no-transpose", none_transposed, "no weight of BASE is stored as [in, out]");
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
  bool is_renamed = false;  // by --rename, to a name that has another end
  uint64_t overflowed = 0;  // the source keeps a pointer to this counter: a Merged must not move
};

std::string quote(const std::string& text) {
  return module::in_quotes(text);
}

// A weight and the layer that it belongs to are at least common to both.
bool is_end_of(const std::string& end, const std::string& whole) {
  return whole.size() > end.size() && whole[whole.size() - end.size() - 1] == '.' && whole.ends_with(end) &&
         end.find('.') != std::string::npos;
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

// Compares the shapes. Decides for each matrix whether BASE stores it transposed: the shape of a square one does not tell. note: what was assumed.
Wrong match_shapes(const Options& options, bool is_fan_in_fan_out, std::vector<Merged>& merged, std::string& note) {
  const StoredTensor *direct = nullptr, *turned = nullptr;
  const bool is_stated = !options.transposed.empty() || options.none_transposed;
  bool is_told_of_renamed = false;
  std::vector<Merged*> squares;
  for (Merged& one : merged) {
    if (!one.change) continue;
    const WeightChange& change = *one.change;
    const std::vector<int64_t>&dims = one.base->shape.dims, given = change.whole ? change.whole->shape.dims : change.product_dims();
    const std::vector<int64_t> reversed(given.rbegin(), given.rend());
    const bool may_turn = given.size() == 2 && !change.is_embedding;
    one.is_transposed = is_stated ? may_turn && fits(one.base->name, options.transposed) : may_turn && given != dims && reversed == dims;
    if ((one.is_transposed ? reversed : given) != dims) {
      const std::string stated = one.is_transposed ? ", not [in, out] as --transpose says" : "";
      const std::string step = may_turn && reversed == dims ? "; name it with --transpose, too" : "; give the base of this adapter";
      if (change.whole)
        return "tensor " + quote(one.base->name) + " is " + one.base->shape_text() + " in " + quote(options.base) + ", and " +
               change.whole->shape_text() + " in the adapter, which replaces it" + stated + (one.is_transposed ? "" : step);
      return "weight " + quote(one.base->name) + " is " + one.base->shape_text() + ", and the product of the adapter's factors, " +
             change.b->shape_text() + " and " + change.a->shape_text() + ", is " + dims_text(given) + stated +
             (one.is_transposed ? "" : step);
    }
    if (change.start && (one.is_transposed || change.start->shape.dims != dims))
      return "weight " + quote(one.base->name) + " is " + one.base->shape_text() + " in " + quote(options.base) + ", and " +
             change.start->shape_text() + " in the adapter, which was trained on it; merge it with PEFT's merge_and_unload";
    if (is_stated || !may_turn) continue;
    if (given == reversed) {
      squares.push_back(&one);
    } else if (!change.whole || one.is_transposed) {  // a whole one that is not may be a table, which is never transposed
      (one.is_transposed ? turned : direct) = one.base;
      is_told_of_renamed |= one.is_renamed;
    }
  }
  // The others tell, or the layers of the model that was trained.
  const bool is_told = direct || turned, is_turned = is_told ? turned != nullptr : is_fan_in_fan_out;
  for (Merged* one : squares) {
    const StoredTensor& square = *one->base;
    if ((direct && turned) || is_turned != is_fan_in_fan_out)
      return "weight " + quote(square.name) + " is square, and may be stored as [in, out]" +
             (turned ? ", as " + quote(turned->name) + " is" : "") + "; name all weights that are, with --transpose GLOB";
    if (one->is_renamed && !is_told_of_renamed)
      return "weight " + quote(square.name) + ", which is " + quote(one->change->weight) +
             " of the adapter, is square, and its name does not tell whether it is stored as [in, out]; if it is, as for MatMul of ONNX, "
             "name all weights that are, with --transpose GLOB, else --no-transpose";
    one->is_transposed = is_turned;
  }
  if (!squares.empty() && !is_told)
    note = std::to_string(squares.size()) + (squares.size() == 1 ? " square weight is taken as " : " square weights are taken as ") +
           (is_turned ? "[in, out], as fan_in_fan_out of the adapter says"
                      : "[out, in]; if BASE is of ONNX, name those of MatMul with --transpose GLOB");
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
  const Checkpoint& file = one.change->start ? adapter : base;
  const StoredTensor& start = one.change->start ? *one.change->start : *one.base;
  const heddle_element_type_t from = start.shape.element_type;
  const uint64_t given = HEDDLE_TYPE_BITS(from) / 8, written = HEDDLE_TYPE_BITS(type) / 8, all = start.value_bytes() / given * written;
  // The factors are in memory while the weight is written.
  auto product = std::make_shared<std::unique_ptr<LowRank>>();
  auto read = [&file, &start, &adapter, &one, &progress, product, type, from, given, written, all](
                  uint64_t offset, std::span<std::byte> out) -> module::Status {
    auto lost = [](const Wrong& wrong) { return module::Error{HEDDLE_STATUS_DATA_LOSS, wrong}; };
    if (!*product) {
      *product = std::make_unique<LowRank>();
      if (Wrong wrong = read_product(adapter, one, **product); !wrong.empty()) return lost(wrong);
    }
    std::vector<std::byte> values(out.size() / written * given);
    if (Wrong wrong = file.read_values(start, offset / written * given, values); !wrong.empty()) return lost(wrong);
    one.overflowed += add_product(**product, offset / written, values, from, out, type);
    progress.add(values.size());
    if (offset + out.size() < all) return std::nullopt;
    product->reset();
    if (Wrong wrong = file.changed(); !wrong.empty()) return lost(wrong);
    return std::nullopt;
  };
  return {all, {}, read};
}

// A matrix of the adapter, transposed. It is in memory while it is written.
module::ParameterSource turned_values(const Checkpoint& file, const StoredTensor& tensor, heddle_element_type_t type, Progress& progress,
                                      uint64_t& overflowed) {
  const heddle_element_type_t from = tensor.shape.element_type;
  const uint64_t given = HEDDLE_TYPE_BITS(from) / 8, written = HEDDLE_TYPE_BITS(type) / 8, all = tensor.value_bytes() / given * written;
  auto values = std::make_shared<std::vector<std::byte>>();
  auto read = [&file, &tensor, &progress, &overflowed, values, type, from, given, written, all](
                  uint64_t offset, std::span<std::byte> out) -> module::Status {
    auto lost = [](const Wrong& wrong) { return module::Error{HEDDLE_STATUS_DATA_LOSS, wrong}; };
    if (values->empty()) {
      values->resize(tensor.value_bytes());
      if (Wrong wrong = file.read_values(tensor, 0, *values); !wrong.empty()) return lost(wrong);
      if (Wrong wrong = file.changed(); !wrong.empty()) return lost(wrong);
    }
    const auto rows = static_cast<uint64_t>(tensor.shape.dims[0]), columns = static_cast<uint64_t>(tensor.shape.dims[1]);
    std::vector<std::byte> turned(out.size() / written * given);
    for (uint64_t i = 0, first = offset / written; i < out.size() / written; ++i) {
      const uint64_t row = (first + i) / rows, column = (first + i) % rows;
      std::copy_n(values->data() + (column * columns + row) * given, given, turned.data() + i * given);
    }
    if (from == type) {
      std::copy(turned.begin(), turned.end(), out.begin());
    } else {
      std::vector<double> numbers(out.size() / written);
      decode_block(from, turned.data(), numbers);
      encode_block(type, numbers, out.data());
      for (double value : numbers) overflowed += std::fabs(value) >= overflow_limit(type) && !std::isinf(value);
    }
    progress.add(turned.size());
    if (offset + out.size() == all) *values = {};
    return std::nullopt;
  };
  return {all, {}, read};
}

const StoredTensor& written_tensor(const Merged& one) {
  return one.change && one.change->whole ? *one.change->whole : *one.base;
}

bool has_floats(const Merged& one) {
  return is_float(one.base->shape.element_type) && is_float(written_tensor(one).shape.element_type);
}

// A replaced tensor keeps the type of BASE.
heddle_element_type_t written_type(const Options& options, const Merged& one) {
  return has_floats(one) && !options.type.empty() ? module::element_type_from_name(options.type) : one.base->shape.element_type;
}

// What was done, for people: the reader may have expected other weights.
void print_summary(const Options& options, const std::vector<Merged>& merged, uint64_t bytes, const std::string& note) {
  uint64_t sums = 0, turned = 0, replaced = 0, renamed = 0;
  const Merged* other_name = nullptr;
  for (const Merged& one : merged) {
    if (!one.change) continue;
    ++(one.change->whole ? replaced : sums);
    turned += one.is_transposed && !one.change->whole;
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
  if (!note.empty()) print_line(note);
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
  if (options.none_transposed && !options.transposed.empty()) return flags.misuse("--no-transpose and --transpose exclude each other");
  if (Wrong wrong = adapter.read(file, flags.given("--alpha") ? std::optional(options.alpha) : std::nullopt); !wrong.empty())
    return flags.failed(wrong);
  for (const std::string& note : adapter.notes()) flags.failed("warning: " + note);

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
    if (at == changes.end() && !options.all) continue;
    merged.push_back({&tensor, at == changes.end() ? nullptr : at->second});
    Merged& one = merged.back();
    if (one.change)
      one.is_renamed =
          tensor.name != one.change->weight && !is_end_of(tensor.name, one.change->weight) && !is_end_of(one.change->weight, tensor.name);
  }
  std::string note;
  if (Wrong wrong = match_shapes(options, adapter.is_fan_in_fan_out(), merged, note); !wrong.empty()) return flags.failed(wrong);

  // safetensors has no padding between tensors: the widest types first, and otherwise in the order of the file.
  auto place = [&](const Merged& one) {
    return std::make_tuple(~uint64_t{HEDDLE_TYPE_BITS(written_type(options, one))}, one.base->file, one.base->offset, one.base->name);
  };
  std::sort(merged.begin(), merged.end(), [&](const Merged& a, const Merged& b) { return place(a) < place(b); });
  uint64_t bytes = 0;
  for (const Merged& one : merged) bytes += one.base->value_bytes();
  Progress progress(options.progress, "merging", bytes);
  std::vector<module::SafetensorsTensor> tensors;
  uint64_t written = 0;
  for (Merged& one : merged) {
    const StoredTensor& tensor = written_tensor(one);
    const Checkpoint& from = one.change && one.change->whole ? file : base;
    const bool is_of_floats = has_floats(one);
    const heddle_element_type_t type = written_type(options, one);
    auto refuse = [&](const std::string& why) {
      return flags.failed("tensor " + quote(one.base->name) + " of " + quote(options.base) + why);
    };
    if (one.base->block && !one.base->has_values())
      return refuse(" has type " + one.base->dtype + ", which cannot be read; " +
                    (one.change ? "merge into a base of another type" : "leave out --all, so that only changed tensors are written"));
    if (one.base->block && options.type.empty())
      return refuse(" has type " + one.base->dtype +
                    ", whose values are stored in blocks; choose another type with --type f32, f16 or bf16");
    if (one.change && !one.change->whole && !is_of_floats)
      return refuse(" is " + one.base->shape_text() + ", and a product can only be added to floats");
    const bool is_changed_in_type = tensor.shape.element_type != type;
    if (is_changed_in_type && !is_of_floats)
      return refuse(" is " + one.base->shape_text() + ", and " + tensor.shape_text() +
                    " in the adapter, which replaces it; give the base of this adapter");
    if ((one.change || is_changed_in_type) && HEDDLE_TYPE_BITS(type) == 8 && is_of_floats)
      return refuse(" is " + one.base->shape_text() + ", a type that is not written; choose another with --type f32, f16 or bf16");
    if (one.change && one.change->start && !is_float(one.change->start->shape.element_type))
      return refuse(", as the adapter has it, is " + one.change->start->shape_text() + ", and a product can only be added to floats");
    if (one.is_transposed && one.change->whole && !tensor.has_values())
      return refuse(" would be transposed, and is " + tensor.shape_text() + " in the adapter, a type that is only copied; save it as f32");
    module::ParameterSource source = one.change && !one.change->whole ? sum_of(base, file, one, type, progress)
                                     : one.is_transposed              ? turned_values(from, tensor, type, progress, one.overflowed)
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
  print_summary(options, merged, written, note);
  return kFine;
}

}  // namespace

Command merge_action() {
  return {"merge", kSummary, run};
}

}  // namespace heddle::tool
