// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params extract`: writes one tensor to a file, as .npy or as raw bytes.
#include "sdk/module/output_file.h"
#include "tools/heddle/npy.h"
#include "tools/heddle/same_file.h"
#include "tools/params/sources.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string file, name, output, progress = "auto";
  void declare(Flags& flags) {
    flags.positional("FILE", file, kParameterFileHelp);
    flags.positional("NAME", name, "name of a tensor");
    flags.text("-o,--output", output, "file to write: .npy, or .bin for raw bytes; once complete, it replaces an existing file", "FILE");
    add_progress_flag(flags, progress);
  }
};

constexpr const char kSummary[] = "writes one tensor into a .npy file, or its bytes into a .bin file";

int run(const Arguments& arguments) {
  Options options;
  Flags flags("params extract", kSummary);
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.output.empty()) return flags.misuse("-o FILE is missing");
  const bool is_npy = options.output.ends_with(".npy");
  // A pipe has no such suffix.
  if (!is_npy && !options.output.ends_with(".bin") && !module::OutputFile::is_stream(options.output))
    return flags.misuse("-o '" + options.output +
                        "': expected a .npy file, or a .bin file for raw bytes; heddle params convert writes other formats");
  Checkpoint checkpoint;
  if (std::optional<int> code = open_checkpoint(flags, options.file, checkpoint)) return *code;
  const StoredTensor* tensor = checkpoint.find(options.name);
  if (!tensor)
    return flags.misuse("'" + options.file + "' has no tensor " + module::in_quotes(options.name) + "; heddle params ls lists its " +
                        std::to_string(checkpoint.tensors().size()));
  for (const InputFile& file : checkpoint.files()) {
    if (Wrong wrong = file_named_twice({{"-o", options.output}}, {{"FILE", file.path()}}); !wrong.empty()) return flags.misuse(wrong);
  }
  if (is_npy && !tensor->has_values())
    return flags.failed("tensor " + module::in_quotes(tensor->name) + ": " + why_not_npy(*tensor) + "; write a .bin file");
  Progress progress(options.progress, "extracting", is_npy ? tensor->value_bytes() : tensor->length);
  const module::ParameterSource data = is_npy ? values_of(checkpoint, *tensor, progress) : stored_bytes(checkpoint, *tensor, progress);
  if (Wrong wrong = is_npy ? write_npy(options.output, tensor->shape, data) : write_raw(options.output, data); !wrong.empty())
    return flags.failed(wrong);
  return kFine;
}

}  // namespace

Command extract_action() {
  return {"extract", kSummary, run};
}

}  // namespace heddle::tool
