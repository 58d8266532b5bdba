// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/compile/compile_flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "sdk/module/file_view.h"
#include "sdk/module/safetensors_shards.h"
#include "tools/heddle/failure.h"
#include "tools/heddle/scoped_file.h"

namespace heddle::tool {
namespace {

void add_views(const std::vector<std::string>& texts, std::vector<heddle_string_t>& out) {
  for (const std::string& text : texts) out.push_back(view(text));
}

uint32_t size_of(const std::vector<heddle_string_t>& list) {
  return static_cast<uint32_t>(list.size());
}

}  // namespace

std::vector<NamedFile> with_shards(const NamedFile& file) {
  std::vector<NamedFile> all{file};
  const int descriptor = module::open_to_read(file.path);
  struct stat facts;
  char first[8];
  if (descriptor >= 0 && fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) &&
      pread(descriptor, first, sizeof(first), 0) == sizeof(first) && module::is_shard_index({first, sizeof(first)})) {
    // What reads the file reports a wrong index.
    if (auto index = module::read_shard_index(descriptor, static_cast<uint64_t>(facts.st_size), file.path)) {
      for (const std::string& shard : index.value().shards)
        all.push_back({"a shard of " + file.flag, module::shard_path(file.path, shard)});
    }
  }
  if (descriptor >= 0) close(descriptor);
  return all;
}

void CompileFlags::add_model(Flags& flags) {
  flags.positional("MODEL", model, "model file: .onnx, or .mlir in the tx dialect");
}

void CompileFlags::add_to(Flags& flags) {
  flags.text("--target", target,
             "targets, comma separated: cpu (x86-64-v3 and v4), cuda (sm_80 and sm_90a), hip (gfx90a, gfx942, gfx1100 and gfx1201), "
             "level_zero (spv1.0 and spv1.3-sg32, also with -dp4a), portable (for any device), or one level of them, such as "
             "cpu:x86-64-v4, cuda:sm_90a, hip:gfx942; or the target of a plugin; "
             "default: cpu",
             "LIST");
  flags.texts("--target-plugin", target_plugins,
              "the manifest of a target plugin, or a directory of manifests, in addition to the plugins that are installed", "FILE");
  flags.count("--target-seconds", target_seconds, "how long one call of a target plugin may take (0: 60)", 0, 86400);
  flags.on("--foreign-formats", foreign_formats, "a target plugin may return code of formats that its target does not own");
  flags.texts("--place", places,
              "run the nodes whose names match a glob on a slot, such as 'Softmax*=@host'; op:PATTERN for operators, input:PATTERN and "
              "output:PATTERN for the model's inputs and outputs; the last match decides",
              "PATTERN=@SLOT");
  flags.texts("--slot", slots, "compile this slot for devices of that family, independent of the other slots", "@SLOT=FAMILY");
  flags.texts("--alias", aliases, "an output takes the memory of an input of the same type, which callers give up", "INPUT=OUTPUT");
  flags.texts("--donate", donated, "callers give this input up, so that its memory may be overwritten: by an output if possible", "INPUT");
  flags.texts("--state", states,
              "calls keep this output, and the next one reads it as the input of the same type: neither is in the signature",
              "INPUT=OUTPUT");
  flags.texts("--specialize", specializations,
              "what the model is compiled for where its file leaves it open: x=3 (the sequence x has 3 elements: x[0], x[1], x[2]), "
              "x=absent or x=present (an optional), x=[n,4] or x[0]=[n,4] (the shape of an input that states none)",
              "NAME=FORM");
  flags.texts("--operators", operators,
              "the manifest of a library plugin, or a directory of manifests; declares operators of other domains in the model, and "
              "ONNX operators that the plugin may run",
              "FILE");
  flags.texts("--params-in", params_in,
              "leave the weights that this file has to it: their values are not needed, and heddle run takes them from it with --params; "
              "safetensors, the index of its shards, GGUF, IRPA, .npz, .npy or .onnx",
              "[SCOPE=]FILE");
  flags.on(
      "--params-in-values", params_in_values,
      "weights that are left to files become values when they are loaded, instead of staying in blocks of a GGUF file; files, overlays "
      "and refits may then store them in other types");
  flags.texts("--param-name", param_names,
              "a weight has another name in the file of --params-in; with :transposed at the end, it is the transposed matrix; one * "
              "on each side stands for the same text",
              "MODEL_NAME=[SCOPE=]FILE_NAME");
  flags.choice("--math", math, {"strict", "default", "fast", "fast-convolutions"},
               "floating-point policy of kernels; fast: on CUDA, f32 products in TF32; fast-convolutions: those of convolutions alone; "
               "default: same as strict");
  flags.count("--threads", threads, "threads of the compiler (0: all cores)", 0, 4096);
  flags.text("--cache", cache, "directory of the kernel cache (default: the user's cache directory)", "DIRECTORY");
}

std::string CompileFlags::check() const {
  if (params_in_values && params_in.empty())
    return "--params-in-values is for --params-in, which is missing; weights in the module are values";
  for (const std::string& text : aliases) {
    if (text.find('=') == std::string::npos)
      return "--alias '" + text + "': expected INPUT=OUTPUT; --donate " + text + " lets the compiler look for an output";
  }
  return {};
}

std::vector<NamedFile> CompileFlags::files() const {
  std::vector<NamedFile> read{{"MODEL", model}};
  for (const std::string& path : operators) read.push_back({"--operators", path});
  for (const std::string& path : target_plugins) read.push_back({"--target-plugin", path});
  for (const std::string& text : params_in) {
    for (NamedFile& file : with_shards({"--params-in", split_scope(text).path})) read.push_back(std::move(file));
  }
  return read;
}

CompileParams::CompileParams(const CompileFlags& flags) : scoped_files_(with_scopes(flags.params_in)) {
  add_views(flags.places, places_);
  add_views(flags.slots, slots_);
  add_views(flags.donated, donations_);
  add_views(flags.aliases, donations_);
  add_views(flags.states, states_);
  add_views(flags.operators, operators_);
  add_views(flags.specializations, specializations_);
  add_views(flags.target_plugins, target_plugins_);
  add_views(scoped_files_, parameter_files_);
  add_views(flags.param_names, parameter_names_);
  c.struct_size = sizeof(c);
  c.threads = static_cast<uint32_t>(flags.threads);
  if (flags.params_in_values) c.flags |= HEDDLE_COMPILE_PARAMETER_VALUES;
  c.input_path = view(flags.model);
  c.targets = view(flags.target);
  c.math = view(flags.math);
  c.cache_path = view(flags.cache);
  c.placements = places_.data();
  c.placement_count = size_of(places_);
  c.slots = slots_.data();
  c.slot_count = size_of(slots_);
  c.donations = donations_.data();
  c.donation_count = size_of(donations_);
  c.states = states_.data();
  c.state_count = size_of(states_);
  c.operators = operators_.data();
  c.operator_count = size_of(operators_);
  c.specializations = specializations_.data();
  c.specialization_count = size_of(specializations_);
  if (flags.foreign_formats) c.flags |= HEDDLE_COMPILE_FOREIGN_FORMATS;
  c.target_seconds = static_cast<uint32_t>(flags.target_seconds);
  c.target_plugins = target_plugins_.data();
  c.target_plugin_count = size_of(target_plugins_);
  c.parameter_files = parameter_files_.data();
  c.parameter_file_count = size_of(parameter_files_);
  c.parameter_names = parameter_names_.data();
  c.parameter_name_count = size_of(parameter_names_);
}

}  // namespace heddle::tool
