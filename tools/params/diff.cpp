// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params diff`: compares two parameter files of any formats, tensor by tensor.
#include <algorithm>
#include <cstdio>

#include "tools/heddle/comparison.h"
#include "tools/params/actions.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string a, b, format = "table", progress = "auto";
  std::vector<std::string> only;
  double rtol = 0, atol = 0;
  bool any_type = false;
  void declare(Flags& flags) {
    flags.positional("A", a, kParameterFileHelp);
    flags.positional("B", b, "parameter file that A is compared with");
    flags.number("--rtol", rtol, "allowed difference relative to the value in B (0)", 0, 1e300);
    flags.number("--atol", atol, "allowed absolute difference (0)", 0, 1e300);
    flags.on("--any-type", any_type, "types may differ; only values are compared");
    flags.texts("--only", only, "only tensors whose names match", "GLOB");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    add_progress_flag(flags, progress);
  }
};

constexpr const char kSummary[] = "compares two files: names, types, shapes, values; exit code 3 if they differ";

// Compares values of the same shape.
Wrong compare_values(const Checkpoint& a, const StoredTensor& in_a, const Checkpoint& b, const StoredTensor& in_b, Progress& progress,
                     Difference& out) {
  const uint64_t width_a = HEDDLE_TYPE_BITS(in_a.shape.element_type) / 8, width_b = HEDDLE_TYPE_BITS(in_b.shape.element_type) / 8;
  uint64_t done = 0;
  HostTensor other;
  other.shape.element_type = in_b.shape.element_type;
  return for_each_piece(a, in_a, [&](const HostTensor& piece) -> Wrong {
    other.shape.dims = piece.shape.dims;
    other.bytes.resize(piece.bytes.size() / width_a * width_b);
    if (Wrong wrong = b.read_values(in_b, done, other.bytes); !wrong.empty()) return wrong;
    out.add(piece, other);
    done += other.bytes.size();
    progress.add(piece.bytes.size() + other.bytes.size());
    return {};
  });
}

// For types that Heddle lacks: compares bytes, which are equal or not.
Wrong compare_bytes(const Checkpoint& a, const StoredTensor& in_a, const Checkpoint& b, const StoredTensor& in_b, Progress& progress,
                    uint64_t& different) {
  uint64_t done = 0;
  std::vector<std::byte> other;
  return for_each_piece(a, in_a, [&](const HostTensor& piece) -> Wrong {
    other.resize(piece.bytes.size());
    if (Wrong wrong = b.read(in_b, done, other); !wrong.empty()) return wrong;
    for (size_t i = 0; i < other.size(); ++i) different += piece.bytes[i] != other[i];
    done += other.size();
    progress.add(2 * other.size());
    return {};
  });
}

class Comparer {
 public:
  Comparer(const Options& options, const Checkpoint& a, const Checkpoint& b, Progress& progress)
      : options_(options), a_(a), b_(b), progress_(progress) {}

  // Null: the tensor is only in the other file.
  Wrong compare(const StoredTensor* in_a, const StoredTensor* in_b) {
    if (!in_a || !in_b) {
      add(in_a ? "only in A" : "only in B", in_a, in_b);
      return {};
    }
    ++compared_;
    if (in_a->shape.dims != in_b->shape.dims) {
      add("shape", in_a, in_b);
      return {};
    }
    const bool same_type = in_a->type_text() == in_b->type_text();
    const bool has_values = in_a->has_values() && in_b->has_values();
    if (!same_type && (!options_.any_type || !has_values)) add("type", in_a, in_b);
    if (has_values) {
      Difference difference(options_.rtol, options_.atol);
      if (Wrong wrong = compare_values(a_, *in_a, b_, *in_b, progress_, difference); !wrong.empty()) return wrong;
      if (difference.wrong() == 0) return {};
      Json& row = add("values", in_a, in_b);
      row["differing"] = difference.wrong();
      row["elements"] = difference.compared();
      row["max_abs"] = number_json(difference.largest());
      row["max_rel"] = number_json(difference.largest_relative());
      row["explanation"] = difference.explanation(in_a->shape);
    } else if (same_type) {
      uint64_t different = 0;
      if (Wrong wrong = compare_bytes(a_, *in_a, b_, *in_b, progress_, different); !wrong.empty()) return wrong;
      if (different)
        add("bytes", in_a, in_b)["explanation"] = std::to_string(different) + " of " + std::to_string(in_a->length) + " bytes differ";
    }
    return {};
  }

  const Json& rows() const { return rows_; }
  uint64_t compared() const { return compared_; }

 private:
  Json& add(const char* what, const StoredTensor* in_a, const StoredTensor* in_b) {
    rows_.push_back({{"name", (in_a ? in_a : in_b)->name},
                     {"difference", what},
                     {"a", in_a ? Json(in_a->shape_text()) : Json()},
                     {"b", in_b ? Json(in_b->shape_text()) : Json()}});
    return rows_.back();
  }

  const Options& options_;
  const Checkpoint &a_, &b_;
  Progress& progress_;
  Json rows_ = Json::array();
  uint64_t compared_ = 0;
};

// Tensors that match, sorted by name. A glob may match in one of the files only.
std::vector<const StoredTensor*> chosen(const Checkpoint& checkpoint, const std::vector<std::string>& only) {
  std::vector<const StoredTensor*> out;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (only.empty() || fits(tensor.name, only)) out.push_back(&tensor);
  }
  return out;
}

void print(const Options& options, const Comparer& comparer) {
  const Json whole{{"a", options.a},
                   {"b", options.b},
                   {"equal", comparer.rows().empty()},
                   {"compared", comparer.compared()},
                   {"differences", comparer.rows()}};
  const Format format = format_from_name(options.format);
  Column explanation = field("explanation", "explanation");
  explanation.is_below = true;
  if (format != Format::kTable || !comparer.rows().empty()) {
    print_rows(whole, comparer.rows(),
               {field("name", "name"), field("difference", "difference"), field("a", "a"), field("b", "b"), field("differing", "differing"),
                field("elements", "elements"), field("max_abs", "max_abs"), field("max_rel", "max_rel"), explanation},
               format);
  }
  if (format != Format::kTable) return;
  print_line(std::to_string(comparer.compared()) + " tensors compared, " +
             (comparer.rows().empty() ? "no difference" : std::to_string(comparer.rows().size()) + " differences"));
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags("params diff", kSummary);
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  Checkpoint a, b;
  if (std::optional<int> code = open_checkpoint(flags, options.a, a)) return *code;
  if (std::optional<int> code = open_checkpoint(flags, options.b, b)) return *code;
  const std::vector<const StoredTensor*> left = chosen(a, options.only), right = chosen(b, options.only);
  for (const std::string& glob : options.only) {
    if (chosen(a, {glob}).empty() && chosen(b, {glob}).empty())
      return flags.misuse("--only: no tensor of either file matches '" + glob + "'");
  }
  uint64_t bytes = 0;
  for (const auto* side : {&left, &right}) {
    for (const StoredTensor* tensor : *side) bytes += tensor->value_bytes();
  }
  Progress progress(options.progress, "comparing", bytes);
  Comparer comparer(options, a, b, progress);
  // Both are sorted by name.
  for (size_t i = 0, j = 0; i < left.size() || j < right.size();) {
    const int order = i == left.size() ? 1 : j == right.size() ? -1 : left[i]->name.compare(right[j]->name);
    Wrong wrong = comparer.compare(order <= 0 ? left[i] : nullptr, order >= 0 ? right[j] : nullptr);
    if (!wrong.empty()) return flags.failed(wrong);
    i += order <= 0;
    j += order >= 0;
  }
  for (const Checkpoint* one : {&a, &b}) {
    if (Wrong wrong = one->changed(); !wrong.empty()) return flags.failed(wrong);
  }
  print(options, comparer);
  return comparer.rows().empty() ? kFine : kNumbersDiffer;
}

}  // namespace

Command diff_action() {
  return {"diff", kSummary, run};
}

}  // namespace heddle::tool
