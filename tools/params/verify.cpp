// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params verify`: checks the structure of a file; with --nan its values, with --module whether a module finds its parameters in it.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sdk/module/element_types.h"
#include "sdk/module/reader.h"
#include "tools/heddle/npy.h"
#include "tools/params/actions.h"
#include "tools/params/element_blocks.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string file, module, scope, format = "table", progress = "auto";
  bool nan = false;
  void declare(Flags& flags) {
    flags.positional("FILE", file, kParameterFileHelp);
    flags.on("--nan", nan, "read all values; NaN, infinities and a wrong CRC in .npz are errors");
    flags.text("--module", module, "the file must have every parameter that this module reads from files, with its type and shape",
               "MODULE");
    flags.text("--scope", scope, "with --module: only parameters of this scope", "NAME");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    add_progress_flag(flags, progress);
  }
};

constexpr const char kSummary[] = "checks a file's structure, its values, or that a module finds its parameters in it";

Json problem(const std::string& name, const char* what, const std::string& text) {
  return {{"name", name}, {"problem", what}, {"text", text}};
}

// Checks one tensor's values, and the CRC of its stored bytes.
Wrong check_values(const Checkpoint& checkpoint, const StoredTensor& tensor, Progress& progress, Json& problems) {
  uint64_t nans = 0, infinities = 0, index = 0, first = 0;
  uLong crc = 0;
  auto count = [&](std::span<const std::byte> bytes) { crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()); };
  if (tensor.crc) {
    StoredTensor whole = tensor;
    whole.offset -= tensor.header_bytes;
    std::vector<std::byte> header(tensor.header_bytes);
    if (Wrong wrong = checkpoint.read(whole, 0, header); !wrong.empty()) return wrong;
    count(header);
  }
  const heddle_element_type_t type = tensor.shape.element_type;
  Wrong wrong = for_each_piece(checkpoint, tensor, [&](const HostTensor& piece) -> Wrong {
    if (tensor.crc) count(piece.bytes);
    progress.add(piece.bytes.size());
    if (!is_float(type)) return {};
    double block[kBlockElements];
    const uint64_t elements = element_count(piece.shape).value_or(0), width = piece.bytes.size() / elements;
    for (uint64_t done = 0; done < elements; done += kBlockElements) {
      const std::span<double> values = std::span(block).first(std::min<uint64_t>(kBlockElements, elements - done));
      decode_block(type, piece.bytes.data() + done * width, values);
      for (double value : values) {
        if (!std::isfinite(value)) {
          if (nans + infinities == 0) first = index;
          ++(std::isnan(value) ? nans : infinities);
        }
        ++index;
      }
    }
    return {};
  });
  if (!wrong.empty()) return wrong;
  if (nans + infinities) {
    problems.push_back(problem(tensor.name, nans ? "nan" : "inf",
                               std::to_string(nans) + " NaN and " + std::to_string(infinities) + " infinities among " +
                                   std::to_string(index) + " values, the first at element " + std::to_string(first)));
    problems.back()["nan"] = nans;
    problems.back()["inf"] = infinities;
  }
  if (tensor.crc && *tensor.crc != crc)
    problems.push_back(problem(tensor.name, "crc", "the CRC does not match: its bytes were changed after they were stored"));
  return {};
}

// Checks the parameters that the module reads from files, of all scopes or of one. Returns how many it needs, and their scopes.
void check_module(const module::Module& module, const std::string* scope, const Checkpoint& checkpoint, Json& problems,
                  std::set<std::string>& scopes, uint64_t& wanted) {
  for (const module_format::Parameter* parameter : *module.metadata().parameters()) {
    if (parameter->stored()) continue;
    scopes.insert(parameter->scope()->str());
    if (scope && parameter->scope()->str() != *scope) continue;
    ++wanted;
    const std::string name = parameter->name()->str();
    const std::vector<int64_t> dims(parameter->dims()->begin(), parameter->dims()->end());
    const std::string in_scope = parameter->scope()->size() > 0 ? " in scope '" + parameter->scope()->str() + "'" : "";
    const std::string expected = module::shape_text(parameter->element_type(), dims) + in_scope;
    const StoredTensor* tensor = checkpoint.find(name);
    if (!tensor) {
      problems.push_back(problem(name, "missing", "the module needs " + expected + ", the file has no tensor of that name"));
    } else if (tensor->is_untyped) {
      if (tensor->length == parameter->size_bytes()) continue;
      problems.push_back(problem(name, "shape", "the module needs " + expected + ", the file has " + tensor->shape_text()));
    } else if (tensor->block ? !tensor->has_values() || !module::decodes_to(parameter->element_type())
                             : tensor->shape.element_type != parameter->element_type()) {
      problems.push_back(problem(name, "type", "the module needs " + expected + ", the file has " + tensor->shape_text()));
    } else if (tensor->shape.dims != dims) {
      problems.push_back(problem(name, "shape", "the module needs " + expected + ", the file has " + tensor->shape_text()));
    }
  }
}

std::string quoted_list(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags("params verify", kSummary);
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.module.empty() && flags.given("--scope")) return flags.misuse("--scope needs --module");
  Checkpoint checkpoint;
  if (std::optional<int> code = open_checkpoint(flags, options.file, checkpoint)) return *code;
  Json problems = Json::array();
  std::string found =
      checkpoint.format() + ", " + std::to_string(checkpoint.tensors().size()) + " tensors, " + bytes_text(checkpoint.tensor_bytes());
  if (!options.module.empty()) {
    auto module = module::open_module(options.module);
    if (!module) return flags.failed(wrong_of(module.error()));
    std::set<std::string> scopes;
    uint64_t wanted = 0;
    check_module(*module.value(), flags.given("--scope") ? &options.scope : nullptr, checkpoint, problems, scopes, wanted);
    if (flags.given("--scope") && !scopes.contains(options.scope))
      return flags.misuse("--scope: the module has no external parameters in scope '" + options.scope +
                          "'; its scopes are: " + (scopes.empty() ? "none" : quoted_list(scopes)));
    if (!flags.given("--scope") && scopes.size() > 1)
      return flags.misuse("the module's parameters are in " + std::to_string(scopes.size()) + " scopes, " + quoted_list(scopes) +
                          "; name one with --scope");
    found += ", " + (wanted ? std::to_string(wanted) : std::string("none")) + " needed by the module";
  }
  if (options.nan) {
    uint64_t bytes = 0;
    for (const StoredTensor& tensor : checkpoint.tensors()) bytes += tensor.value_bytes();
    Progress progress(options.progress, "reading", bytes);
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      if (Wrong wrong = check_values(checkpoint, tensor, progress, problems); !wrong.empty()) return flags.failed(wrong);
    }
    if (Wrong wrong = checkpoint.changed(); !wrong.empty()) return flags.failed(wrong);
  }
  const Json whole{{"file", options.file},
                   {"format", checkpoint.format()},
                   {"valid", problems.empty()},
                   {"tensors", checkpoint.tensors().size()},
                   {"bytes", checkpoint.tensor_bytes()},
                   {"warnings", checkpoint.warnings()},
                   {"problems", problems}};
  const Format format = format_from_name(options.format);
  if (format == Format::kJsonLines) {
    print_line(dump_json(whole, -1));
  } else if (format != Format::kTable || !problems.empty()) {
    print_rows(whole, problems, {field("name", "name"), field("problem", "problem"), field("text", "text")}, format);
  }
  if (format == Format::kTable) {
    print_line(options.file + ": " + found + "; " + (problems.empty() ? "no error" : std::to_string(problems.size()) + " errors"));
  }
  return problems.empty() ? kFine : kFailed;
}

}  // namespace

Command verify_action() {
  return {"verify", kSummary, run};
}

}  // namespace heddle::tool
