// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params verify`: checks the structure of a file; with --nan its values, with --module whether a module finds its parameters in it, with
// --hashes whether they are those that it was compiled with. Of a module, checks the parameters that it stores.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "sdk/module/element_types.h"
#include "sdk/module/layout.h"
#include "sdk/module/reader.h"
#include "tools/heddle/npy.h"
#include "tools/params/actions.h"
#include "tools/params/element_blocks.h"
#include "tools/params/sources.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string file, module, scope, format = "table", progress = "auto";
  bool nan = false, hashes = false;
  void declare(Flags& flags) {
    flags.positional("FILE", file,
                     std::string(kParameterFileHelp) + "; or a module, whose stored parameters are compared with their hashes");
    flags.on("--nan", nan, "read all values; NaN, infinities and a wrong CRC in .npz are errors");
    flags.text("--module", module, "the file must have every parameter that this module reads from files, with its type and shape",
               "MODULE");
    flags.on("--hashes", hashes, "with --module: read the parameters, and compare them with those that the module was compiled with");
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

// 16 digits, as in error texts of the runtime
std::string hash_text(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// Compares a hash of bytes in a file with that of the module.
Wrong check_hash(const module_format::Parameter& parameter, const module::ParameterSource& bytes, Json& problems) {
  const module::Result<uint64_t> hash = module::hash_each_piece(bytes, [](std::span<const std::byte>) { return std::nullopt; });
  if (!hash) return wrong_of(hash.error());
  if (hash.value() == parameter.hash()) return {};
  const std::string found = hash_text(hash.value()), expected = hash_text(parameter.hash());
  problems.push_back(
      problem(parameter.name()->str(), "hash",
              "its " + std::to_string(bytes.size_bytes) + " bytes have hash " + found + ", and the module was compiled with " + expected));
  problems.back()["hash"] = found;
  problems.back()["expected"] = expected;
  return {};
}

// A parameter's bytes in the file; a problem if they cannot be those that the module was compiled with.
Wrong check_hash(const module_format::Parameter& parameter, const Checkpoint& checkpoint, const StoredTensor& tensor, Progress& progress,
                 Json& problems) {
  if (parameter.hash() == 0) {
    problems.push_back(
        problem(tensor.name, "hash",
                "the module has no hash of it: compile with --params-in-hashes, if it was left to a file, or with this version"));
    return {};
  }
  const size_t before = problems.size();
  Wrong wrong = check_hash(parameter, stored_bytes(checkpoint, tensor, progress), problems);
  if (tensor.block && problems.size() > before)
    problems.back()["text"] = "its values are stored in blocks, which are others than those that were compiled";
  return wrong;
}

// "Q8_0[2,64]" of rows of blocks.
std::string blocks_text(const module::BlockType& type, const std::vector<int64_t>& dims) {
  return module::type_text(type.name, std::vector{std::to_string(dims[0]), std::to_string(dims[1] / type.bytes * type.elements)});
}

// Checks the parameters that the module reads from files, of all scopes or of one. Returns how many it needs, and their scopes.
Wrong check_module(const module::Module& module, const Options& options, const std::string* scope, const Checkpoint& checkpoint,
                   Json& problems, std::set<std::string>& scopes, uint64_t& wanted) {
  std::vector<std::pair<const module_format::Parameter*, const StoredTensor*>> found;
  uint64_t bytes = 0;
  for (const module_format::Parameter* parameter : *module.metadata().parameters()) {
    if (parameter->stored()) continue;
    scopes.insert(parameter->scope()->str());
    if (scope && parameter->scope()->str() != *scope) continue;
    ++wanted;
    const std::string name = parameter->name()->str();
    const std::vector<int64_t> dims(parameter->dims()->begin(), parameter->dims()->end());
    const std::string in_scope = parameter->scope()->size() > 0 ? " in scope '" + parameter->scope()->str() + "'" : "";
    const auto* stored = parameter->blocks();
    const module::BlockType* blocks = stored ? module::block_type(stored->type()->string_view()) : nullptr;
    const std::string expected = (blocks ? blocks_text(*blocks, dims) : module::shape_text(parameter->element_type(), dims)) + in_scope;
    const StoredTensor* tensor = checkpoint.find(name);
    if (!tensor) {
      problems.push_back(problem(name, "missing", "the module needs " + expected + ", the file has no tensor of that name"));
    } else if (tensor->is_untyped) {
      if (tensor->length == parameter->size_bytes()) {
        found.emplace_back(parameter, tensor);
        continue;
      }
      problems.push_back(problem(name, "shape", "the module needs " + expected + ", the file has " + tensor->shape_text()));
    } else if (stored) {
      if (blocks && tensor->block == blocks && tensor->length == parameter->size_bytes() &&
          tensor->shape_text() == blocks_text(*blocks, dims)) {
        found.emplace_back(parameter, tensor);
        continue;
      }
      problems.push_back(problem(name, "type", "the module needs " + expected + ", the file has " + tensor->shape_text()));
    } else if (tensor->block ? !tensor->has_values() || !module::decodes_to(parameter->element_type())
                             : tensor->type_text() != module::element_type_name(parameter->element_type())) {
      problems.push_back(problem(name, "type", "the module needs " + expected + ", the file has " + tensor->shape_text()));
    } else if (tensor->shape.dims != dims) {
      problems.push_back(problem(name, "shape", "the module needs " + expected + ", the file has " + tensor->shape_text()));
    } else {
      found.emplace_back(parameter, tensor);
    }
  }
  if (!options.hashes) return {};
  for (const auto& [parameter, tensor] : found) bytes += tensor->length;
  Progress progress(options.progress, "reading", bytes);
  for (const auto& [parameter, tensor] : found) {
    if (Wrong wrong = check_hash(*parameter, checkpoint, *tensor, progress, problems); !wrong.empty()) return wrong;
  }
  return {};
}

bool is_module(const std::string& path) {
  InputFile file;
  char first[sizeof(module::kMagic)] = {};
  if (!file.open(path).empty() || file.size_bytes() < sizeof(first)) return false;
  return file.read(0, std::as_writable_bytes(std::span(first))).empty() && std::memcmp(first, module::kMagic, sizeof(first)) == 0;
}

// Prints the verdict on a file; returns the exit code.
int print_verdict(const Options& options, const Json& whole, const Json& problems, const std::string& found) {
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

// Checks the hashes of the parameters that a module stores. Opening it checks the rest.
int verify_module(const Flags& flags, const Options& options) {
  auto module = module::open_module(options.file);
  if (!module) return flags.failed(wrong_of(module.error()));
  InputFile file;
  if (Wrong wrong = file.open(options.file); !wrong.empty()) return flags.failed(file.about(wrong));
  std::vector<const module_format::Parameter*> stored;
  uint64_t bytes = 0, others = 0;
  for (const module_format::Parameter* parameter : *module.value()->metadata().parameters()) {
    if (!parameter->stored()) {
      ++others;
      continue;
    }
    stored.push_back(parameter);
    bytes += parameter->size_bytes();
  }
  Progress progress(options.progress, "reading", bytes);
  Json problems = Json::array();
  for (const module_format::Parameter* parameter : stored) {
    const module::FileExtent place = module.value()->parameter_extent(*parameter);
    auto read = [&](uint64_t offset, std::span<std::byte> out) -> module::Status {
      if (Wrong wrong = file.read(place.offset + offset, out); !wrong.empty())
        return module::Error{HEDDLE_STATUS_DATA_LOSS, file.about(wrong)};
      progress.add(out.size());
      return std::nullopt;
    };
    if (Wrong wrong = check_hash(*parameter, {place.length, {}, read}, problems); !wrong.empty()) return flags.failed(wrong);
  }
  if (Wrong wrong = file.changed(); !wrong.empty()) return flags.failed(file.about(wrong));
  const Json whole{{"file", options.file}, {"format", "module"}, {"valid", problems.empty()}, {"tensors", stored.size()},
                   {"bytes", bytes},       {"outside", others},  {"problems", problems}};
  return print_verdict(options, whole, problems,
                       "module, " + std::to_string(stored.size()) + " parameters, " + bytes_text(bytes) +
                           (others ? ", and " + std::to_string(others) + " in other files, which --module and --hashes check" : ""));
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
  if (is_module(options.file)) {
    if (options.nan || options.hashes || !options.module.empty())
      return flags.misuse("'" + options.file +
                          "' is a module: it takes no --nan, --module and --hashes, and its hashes are always checked");
    return verify_module(flags, options);
  }
  if (options.module.empty() && options.hashes)
    return flags.misuse("--hashes needs --module: the hashes are in the module that was compiled with these parameters");
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
    const std::string* scope = flags.given("--scope") ? &options.scope : nullptr;
    if (Wrong wrong = check_module(*module.value(), options, scope, checkpoint, problems, scopes, wanted); !wrong.empty())
      return flags.failed(wrong);
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
  return print_verdict(options, whole, problems, found);
}

}  // namespace

Command verify_action() {
  return {"verify", kSummary, run};
}

}  // namespace heddle::tool
