// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params ls`: lists what a parameter file contains, and where. Reads no data.
#include <algorithm>

#include "tools/params/actions.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string file, format = "table";
  std::vector<std::string> names;
  void declare(Flags& flags) {
    flags.positional("FILE", file, kParameterFileHelp);
    flags.positionals("NAME", names, "only tensors with these names; globs such as 'layers.0.*' are allowed");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
  }
};

constexpr const char kSummary[] = "lists tensors: name, type, shape, bytes, location";

int run(const Arguments& arguments) {
  Options options;
  Flags flags("params ls", kSummary);
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  Checkpoint checkpoint;
  if (std::optional<int> code = open_checkpoint(flags, options.file, checkpoint)) return *code;
  std::vector<const StoredTensor*> tensors;
  if (Wrong wrong = select(checkpoint, options.names, tensors); !wrong.empty()) return flags.misuse(wrong);

  Json rows = Json::array();
  uint64_t bytes = 0;
  for (const StoredTensor* tensor : tensors) {
    bytes += tensor->length;
    rows.push_back({{"name", tensor->name},
                    {"type", tensor->type_text()},
                    {"shape", shape_json(*tensor)},
                    {"bytes", tensor->length},
                    {"offset", tensor->offset},
                    {"file", checkpoint.files()[tensor->file].path()}});
  }
  Json metadata = Json::object();
  // operator[] would search all earlier names for each name, although names are unique.
  for (const auto& [name, text] : checkpoint.metadata()) metadata.get_ref<Json::object_t&>().push_back({name, text});
  const Json total{{"tensors", tensors.size()}, {"bytes", bytes}};
  const Json whole{{"file", options.file}, {"format", checkpoint.format()}, {"metadata", metadata}, {"tensors", rows}, {"total", total}};
  std::vector<Column> columns{field("name", "name"),
                              field("type", "type"),
                              {"shape",
                               [](const Json& row) {
                                 std::string out;
                                 for (const Json& extent : row["shape"]) out += (out.empty() ? "" : "x") + cell_text(extent);
                                 return out.empty() ? std::string("-") : out;
                               }},
                              field("bytes", "bytes"),
                              field("offset", "offset")};
  if (checkpoint.files().size() > 1) columns.push_back(field("file", "file"));
  const Format format = format_from_name(options.format);
  print_rows(whole, rows, columns, format);
  if (format == Format::kTable) {
    print_line(std::to_string(tensors.size()) + (tensors.size() == 1 ? " tensor, " : " tensors, ") + bytes_text(bytes) + " (" +
               std::to_string(bytes) + " bytes), " + checkpoint.format());
  }
  return kFine;
}

}  // namespace

Command ls_action() {
  return {"ls", kSummary, run};
}

}  // namespace heddle::tool
