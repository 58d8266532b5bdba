// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params convert`: writes a parameter file in another format, optionally with a subset of the tensors, other names or other float types.
// Processes one tensor at a time, in pieces.
#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "sdk/module/element_types.h"
#include "sdk/module/irpa.h"
#include "sdk/module/npy_header.h"
#include "sdk/module/safetensors.h"
#include "sdk/module/utf8.h"
#include "tools/heddle/npy.h"
#include "tools/heddle/same_file.h"
#include "tools/params/element_blocks.h"
#include "tools/params/npz_writer.h"
#include "tools/params/sources.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string file, output, type, progress = "auto";
  std::vector<std::string> only, renames;
  void declare(Flags& flags) {
    flags.positional("FILE", file, kParameterFileHelp);
    flags.text("-o,--output", output, ".safetensors, .irpa, .npz, or .npy for a single tensor; once complete, it replaces an existing file",
               "FILE");
    flags.choice("--type", type, {"f32", "f16", "bf16"}, "cast all floats to this type; integers and booleans are unchanged");
    flags.texts("--only", only, "only tensors whose names match", "GLOB");
    flags.texts("--rename", renames, "new name for a tensor", "OLD=NEW");
    add_progress_flag(flags, progress);
  }
};

constexpr const char kSummary[] = "writes tensors into a file of another format, with other names or types";

// A tensor to be written.
struct Planned {
  const StoredTensor* from;
  std::string name;
  Shape shape;
  module::ParameterSource source;
  uint64_t overflowed = 0;  // the source keeps a pointer to this counter: a Planned must not move
};

// Gives the tensors their new names; returns an error text for a wrong --rename.
Wrong rename_all(const std::vector<std::string>& renames, std::vector<Planned>& planned) {
  std::set<std::string> renamed;
  for (const std::string& rename : renames) {
    // Names may contain '=': the first split whose OLD exists is used.
    auto found = planned.end();
    size_t equals = std::string::npos;
    for (size_t at = rename.find('='); at != std::string::npos && found == planned.end(); at = rename.find('=', at + 1)) {
      found = std::find_if(planned.begin(), planned.end(), [&](const Planned& one) { return one.from->name == rename.substr(0, at); });
      equals = at;
    }
    if (equals == std::string::npos) return "--rename '" + rename + "': expected OLD=NEW";
    if (found == planned.end()) return "--rename '" + rename + "': no tensor of that name is written";
    if (equals + 1 == rename.size()) return "--rename '" + rename + "': there is no name after '='";
    if (!renamed.insert(found->from->name).second) return "--rename: " + module::in_quotes(found->from->name) + " is renamed twice";
    found->name = rename.substr(equals + 1);
  }
  std::set<std::string> names;
  for (const Planned& one : planned) {
    if (!names.insert(one.name).second) return "--rename: two tensors would have the name " + module::in_quotes(one.name);
  }
  return {};
}

// An error text for a name that NumPy and `ls` could not read.
Wrong refuse_npz_name(const std::string& name) {
  if (name.size() > kMaxNpzNameBytes) return "tensor '" + name.substr(0, 40) + "...': its name is too long for .npz; rename it";
  if (!module::is_utf8_text(name))
    return "tensor " + module::in_quotes(name) + ": its name is not valid UTF-8 or contains a NUL, which .npz does not allow; rename it";
  return {};
}

Wrong refuse_npy_type(const Planned& one) {
  if (one.shape.dims.size() > HEDDLE_MAX_RANK) {
    return "tensor " + module::in_quotes(one.name) + " has " + std::to_string(one.shape.dims.size()) +
           " dimensions, and .npy files are supported with at most " + std::to_string(HEDDLE_MAX_RANK) + "; write .safetensors";
  }
  if (one.from->has_values() && !module::npy_type_code(one.shape.element_type).empty()) return {};
  if (!one.from->has_values()) return "tensor " + module::in_quotes(one.name) + ": " + why_not_npy(*one.from) + "; write .safetensors";
  return "tensor " + module::in_quotes(one.name) + ": NumPy has no type for " +
         std::string(module::element_type_name(one.shape.element_type)) + "; cast it with --type f32, or write .safetensors";
}

// No format that is written has types of blocks.
Wrong refuse_blocks(const StoredTensor& tensor) {
  return "tensor " + module::in_quotes(tensor.name) + " has type " + tensor.dtype + ", whose values are stored in blocks; " +
         (tensor.has_values() ? "convert them with --type f32, f16 or bf16, or leave it out with --only"
                              : "this version cannot convert them: leave it out with --only");
}

Wrong write(const Checkpoint& checkpoint, std::vector<Planned>& planned, const std::string& path) {
  if (path.ends_with(".safetensors")) {
    std::vector<module::SafetensorsTensor> tensors;
    for (Planned& one : planned)
      tensors.push_back(
          {one.name, one.shape.element_type, one.shape.dims, std::move(one.source), one.from->has_values() ? "" : one.from->dtype});
    return wrong_of(module::write_safetensors(tensors, path, checkpoint.metadata()));
  }
  if (path.ends_with(".irpa")) {
    std::vector<module::SafetensorsTensor> tensors;
    for (Planned& one : planned) {
      tensors.push_back({one.name, one.shape.element_type, one.shape.dims, std::move(one.source),
                         one.from->has_values() && !one.from->is_packed ? "" : one.from->dtype, one.from->is_untyped});
    }
    return wrong_of(module::write_irpa(tensors, path));
  }
  for (const Planned& one : planned) {
    if (Wrong wrong = refuse_npy_type(one); !wrong.empty()) return wrong;
  }
  if (path.ends_with(".npy")) return write_npy(path, planned[0].shape, planned[0].source);
  for (const Planned& one : planned) {
    if (Wrong wrong = refuse_npz_name(one.name); !wrong.empty()) return wrong;
  }
  std::vector<NpzArray> arrays;
  for (Planned& one : planned) arrays.push_back({one.name, one.shape, std::move(one.source)});
  return wrong_of(write_npz(arrays, path));
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags("params convert", kSummary);
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.output.empty()) return flags.misuse("-o FILE is missing");
  const std::array<const char*, 4> kSuffixes = {".safetensors", ".irpa", ".npz", ".npy"};
  if (std::none_of(kSuffixes.begin(), kSuffixes.end(), [&](const char* suffix) { return options.output.ends_with(suffix); }))
    return flags.misuse("-o '" + options.output + "': expected .safetensors, .irpa, .npz or .npy");
  Checkpoint checkpoint;
  if (std::optional<int> code = open_checkpoint(flags, options.file, checkpoint)) return *code;
  for (const InputFile& file : checkpoint.files()) {
    if (Wrong wrong = file_named_twice({{"-o", options.output}}, {{"FILE", file.path()}}); !wrong.empty()) return flags.misuse(wrong);
  }
  std::vector<const StoredTensor*> tensors;
  if (Wrong wrong = select(checkpoint, options.only, tensors); !wrong.empty()) return flags.misuse("--only: " + wrong);
  if (options.output.ends_with(".npy") && tensors.size() != 1)
    return flags.misuse("-o '" + options.output + "': a .npy file holds one tensor, but there are " + std::to_string(tensors.size()) +
                        "; select one with --only");
  // In file order, so that files are read sequentially. safetensors has no padding between tensors, so there the widest types come first, which
  // aligns each tensor to its type.
  const bool is_aligned_by_order = options.output.ends_with(".safetensors");
  auto place = [&](const StoredTensor* tensor) {
    const uint64_t count = element_count(tensor->shape).value_or(0);
    const uint64_t width = is_aligned_by_order && count ? tensor->value_bytes() / count : 0;
    return std::make_tuple(~width, tensor->file, tensor->offset, tensor->name);
  };
  std::sort(tensors.begin(), tensors.end(), [&](const StoredTensor* a, const StoredTensor* b) { return place(a) < place(b); });

  // IRPA files have any type; the others have none of 4 bits.
  const bool keeps_packed = options.output.ends_with(".irpa");
  uint64_t bytes = 0, unpacked = 0;
  for (const StoredTensor* tensor : tensors) bytes += keeps_packed && tensor->is_packed ? tensor->length : tensor->value_bytes();
  Progress progress(options.progress, "converting", bytes);
  const heddle_element_type_t type = module::element_type_from_name(options.type);
  std::vector<Planned> planned(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    Planned& one = planned[i];
    one.from = tensors[i];
    one.name = one.from->name;
    one.shape = one.from->shape;
    const bool cast = !options.type.empty() && is_float(one.shape.element_type) && one.shape.element_type != type;
    if (cast) one.shape.element_type = type;
    if (one.from->block && (options.type.empty() || !one.from->has_values())) return flags.failed(refuse_blocks(*one.from));
    unpacked += one.from->is_packed && !keeps_packed;
    one.source = cast                                  ? cast_values(checkpoint, *one.from, type, progress, one.overflowed)
                 : keeps_packed && one.from->is_packed ? stored_bytes(checkpoint, *one.from, progress)
                                                       : values_of(checkpoint, *one.from, progress);
  }
  if (Wrong wrong = rename_all(options.renames, planned); !wrong.empty()) return flags.misuse(wrong);
  if (Wrong wrong = write(checkpoint, planned, options.output); !wrong.empty()) return flags.failed(wrong);
  if (unpacked) {
    flags.failed("warning: " + std::to_string(unpacked) + " tensors of 4-bit integers are written as i8 or u8, one value per byte, since " +
                 options.output.substr(options.output.rfind('.')) + " files have no type for them; .irpa keeps them as they are");
  }
  for (const Planned& one : planned) {
    if (one.overflowed)
      flags.failed("warning: " + std::to_string(one.overflowed) + " numbers of tensor " + module::in_quotes(one.name) +
                   " are too large for " + options.type + " and became infinite");
  }
  return kFine;
}

}  // namespace

Command convert_action() {
  return {"convert", kSummary, run};
}

}  // namespace heddle::tool
