// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params dump`: prints values of tensors in the form in which `heddle run` prints results.
#include <algorithm>

#include "tools/heddle/json_text.h"
#include "tools/params/actions.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string file, format = "table";
  std::vector<std::string> names;
  uint64_t values = 1000;
  void declare(Flags& flags) {
    flags.positional("FILE", file, kParameterFileHelp);
    flags.positionals("NAME", names, "names of tensors, or globs");
    flags.count("--values", values, "maximum number of values printed per tensor (1000)", 0, UINT64_MAX);
    flags.choice("--format", format, {"table", "json", "jsonl"}, "format of the results on stdout");
  }
};

constexpr const char kSummary[] = "prints the values of tensors";

// Prints one tensor of any size, one piece at a time.
Wrong print_tensor(const Checkpoint& checkpoint, const StoredTensor& tensor, Format format, uint64_t most) {
  const bool json = format != Format::kTable;
  std::string out =
      json ? result_json_head(tensor.name, tensor.shape) : module::one_line(tensor.name) + "=" + shape_text(tensor.shape) + "=";
  const uint64_t count = element_count(tensor.shape).value_or(0), wanted = std::min(count, most);
  uint64_t done = 0;
  auto print = [&] {
    std::fwrite(out.data(), 1, out.size(), stdout);
    out.clear();
  };
  StoredTensor part = tensor;
  part.shape.dims = {static_cast<int64_t>(wanted)};
  Wrong wrong = for_each_piece(checkpoint, part, [&](const HostTensor& piece) -> Wrong {
    const uint64_t in_piece = element_count(piece.shape).value_or(0);
    for (uint64_t i = 0; i < in_piece; ++i, ++done) {
      if (done) out += ',';
      out += json ? value_json(piece, i) : element_text(piece, i);
      if (out.size() > 65536) print();
    }
    return {};
  });
  if (!wrong.empty()) return wrong;
  out += json ? "]}" : wanted == count ? "" : wanted ? ",..." : "...";
  print();
  return {};
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags("params dump", kSummary);
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.names.empty()) return flags.misuse("NAME is required");
  Checkpoint checkpoint;
  if (std::optional<int> code = open_checkpoint(flags, options.file, checkpoint)) return *code;
  std::vector<const StoredTensor*> tensors;
  if (Wrong wrong = select(checkpoint, options.names, tensors); !wrong.empty()) return flags.misuse(wrong);
  for (const StoredTensor* tensor : tensors) {
    if (!tensor->has_values())
      return flags.failed("tensor " + module::in_quotes(tensor->name) + " is " + tensor->shape_text() +
                          ", a type whose values this version cannot print; " + "heddle params extract writes its bytes");
  }
  const Format format = format_from_name(options.format);
  if (format == Format::kJson) std::fputs("{\"results\":[", stdout);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (format == Format::kJson && i) std::fputc(',', stdout);
    if (Wrong wrong = print_tensor(checkpoint, *tensors[i], format, options.values); !wrong.empty()) return flags.failed(wrong);
    if (format != Format::kJson) std::fputc('\n', stdout);
  }
  if (format == Format::kJson) std::fputs("]}\n", stdout);
  if (Wrong wrong = checkpoint.changed(); !wrong.empty()) return flags.failed(wrong);
  return kFine;
}

}  // namespace

Command dump_action() {
  return {"dump", kSummary, run};
}

}  // namespace heddle::tool
