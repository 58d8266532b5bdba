// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The extern "C" interface of the compiler: implements compiler.h on top of pipeline.h. Exceptions stop here.
#include "heddle/compiler.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "compiler/code/target_devices.h"
#include "compiler/pipeline.h"
#include "compiler/targets/portable/portable.h"
#include "sdk/module/user_cache.h"

namespace {

using heddle::compiler::Failure;
using heddle::compiler::Options;

heddle_status_t* make_status(heddle_status_code_t code, std::string_view message) {
  return heddle_status_create(code, {message.data(), message.size()});
}

std::string text(heddle_string_t value) {
  return value.size ? std::string(value.data, value.size) : std::string();
}

bool is_target_name(std::string_view family) {
  return !family.empty() && family.size() <= 64 && family.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

// "cpu", "cpu:x86-64-v3", "cuda", "hip", "level_zero", "portable", targets of plugins, separated by commas; empty: "cpu".
Failure parse_targets(std::string_view text, Options& options) {
  auto& targets = options.targets;
  if (text.empty()) text = "cpu";
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view target = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    size_t colon = std::min(target.find(':'), target.size());
    std::string family(target.substr(0, colon)), level(target.substr(std::min(colon + 1, target.size())));
    const std::vector<std::string> levels = heddle::compiler::levels_of(family);
    if (levels.empty() && is_target_name(family)) {  // a plugin's; the pipeline looks for it
      auto [known, is_new] = options.plugin_levels.try_emplace(family, level);
      if (!is_new && known->second != level) {
        return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: target '" + family + "' is given with levels '" + known->second + "' and '" +
                                                    level + "'; a plugin's target has one, so give it once"};
      }
      targets.emplace_back(family, heddle::targets::portable_level);
      continue;
    }
    if (levels.empty()) {
      return {HEDDLE_STATUS_INVALID_ARGUMENT,
              "compiler: target '" + std::string(target) +
                  "' is not known; use cpu, cuda, hip, level_zero, portable, or one level of them, such as cpu:" +
                  heddle::compiler::levels_of("cpu").front() + ", cuda:" + heddle::compiler::levels_of("cuda").front() +
                  " or hip:" + heddle::compiler::levels_of("hip").front()};
    }
    if (colon < target.size()) {
      targets.emplace_back(family, level);
    } else {
      for (const std::string& each : levels) targets.emplace_back(family, each);
    }
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return {};
}

Failure parse_math(std::string_view text, heddle::targets::Math& math) {
  using heddle::targets::Math;
  if (text.empty() || text == "default") return {};
  for (Math one : {Math::strict, Math::fast_convolutions, Math::fast}) {
    if (text != name_of(one)) continue;
    math = one;
    return {};
  }
  return {HEDDLE_STATUS_INVALID_ARGUMENT,
          "compiler: math policy '" + std::string(text) + "' is not known; use strict, default, fast or fast-convolutions"};
}

Failure compile(const heddle_compile_params_t& params) {
  Options options;
  options.input_path = text(params.input_path);
  options.output_path = text(params.output_path);
  options.parameters_path = text(params.parameters_path);
  options.dump_after = text(params.dump_after);
  options.dump_path = text(params.dump_path);
  options.report_path = text(params.report_path);
  options.reproducer_path = text(params.reproducer_path);
  options.code_path = text(params.code_path);
  options.ptxas = text(params.ptxas);
  if ((params.placement_count && !params.placements) || (params.slot_count && !params.slots) ||
      (params.operator_count && !params.operators) || (params.donation_count && !params.donations) ||
      (params.state_count && !params.states) || (params.parameter_file_count && !params.parameter_files) ||
      (params.parameter_name_count && !params.parameter_names) || (params.specialization_count && !params.specializations) ||
      (params.target_plugin_count && !params.target_plugins) || (params.target_refused_count && !params.target_refused)) {
    return {HEDDLE_STATUS_INVALID_ARGUMENT,
            "compiler: heddle_compile failed: placements, slots, operators, donations, states, parameter files or names, specializations "
            "or target plugins are counted, and missing"};
  }
  options.affinity_path = text(params.affinity_path);
  options.threads = params.threads;
  if ((params.flags & ~(HEDDLE_COMPILE_NO_CACHE | HEDDLE_COMPILE_HASH_PARAMETER_FILES | HEDDLE_COMPILE_PARAMETER_VALUES |
                        HEDDLE_COMPILE_KEEP_REPRODUCER | HEDDLE_COMPILE_FOREIGN_FORMATS)) != 0)
    return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: heddle_compile failed: flags has bits of a newer version [HD-E-04]"};
  options.tuned_path = text(params.tuned_path);
  options.cache_path = text(params.cache_path);
  if (options.cache_path.empty()) options.cache_path = heddle::module::UserCache::default_folder("kernels");
  if ((params.flags & HEDDLE_COMPILE_NO_CACHE) != 0) options.cache_path.clear();
  options.hash_parameter_files = (params.flags & HEDDLE_COMPILE_HASH_PARAMETER_FILES) != 0;
  options.keeps_reproducer = (params.flags & HEDDLE_COMPILE_KEEP_REPRODUCER) != 0;
  options.parameters_become_values = (params.flags & HEDDLE_COMPILE_PARAMETER_VALUES) != 0;
  for (uint32_t i = 0; i < params.placement_count; ++i) options.placements.push_back(text(params.placements[i]));
  for (uint32_t i = 0; i < params.specialization_count; ++i) options.specializations.push_back(text(params.specializations[i]));
  for (uint32_t i = 0; i < params.slot_count; ++i) options.slots.push_back(text(params.slots[i]));
  for (uint32_t i = 0; i < params.operator_count; ++i) options.operators.push_back(text(params.operators[i]));
  for (uint32_t i = 0; i < params.donation_count; ++i) options.donations.push_back(text(params.donations[i]));
  for (uint32_t i = 0; i < params.state_count; ++i) options.states.push_back(text(params.states[i]));
  for (uint32_t i = 0; i < params.parameter_file_count; ++i) options.parameter_files.push_back(text(params.parameter_files[i]));
  for (uint32_t i = 0; i < params.parameter_name_count; ++i) options.parameter_names.push_back(text(params.parameter_names[i]));
  for (uint32_t i = 0; i < params.target_plugin_count; ++i) options.plugins.manifests.push_back(text(params.target_plugins[i]));
  options.plugins.host = text(params.target_host);
  options.verification_path = text(params.target_verification);
  for (uint32_t i = 0; i < params.target_refused_count; ++i) options.plugins.refused.insert(text(params.target_refused[i]));
  options.plugins.takes_foreign_formats = (params.flags & HEDDLE_COMPILE_FOREIGN_FORMATS) != 0;
  if (params.target_seconds != 0) options.plugins.seconds = params.target_seconds;
  if (params.target_memory_bytes != 0) options.plugins.memory_bytes = params.target_memory_bytes;
  if (params.target_code_bytes != 0) options.plugins.code_bytes = std::min<uint64_t>(params.target_code_bytes, uint64_t{1} << 30);
  if (Failure failure = parse_math(text(params.math), options.math)) return failure;
  options.plugins.fast_math = options.math == heddle::targets::Math::fast;
  if (Failure failure = parse_targets(text(params.targets), options)) return failure;
  if (params.progress) {
    options.progress = [&params](std::string_view stage, unsigned done, unsigned total) {
      return params.progress(params.context, {stage.data(), stage.size()}, done, total) == 0;
    };
  }
  if (params.warning) options.warn = [&params](const std::string& text) { params.warning(params.context, {text.data(), text.size()}); };
  return heddle::compiler::compile(options);
}

}  // namespace

heddle_status_t* heddle_compile(const heddle_compile_params_t* params) {
  if (!params || params->struct_size < sizeof(uint32_t)) {
    return make_status(HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: heddle_compile failed: params has no struct_size");
  }
  heddle_compile_params_t known{};
  if (params->struct_size > sizeof known) {
    const char* unknown = reinterpret_cast<const char*>(params) + sizeof known;
    if (std::any_of(unknown, unknown + (params->struct_size - sizeof known), [](char c) { return c != 0; })) {
      return make_status(HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: heddle_compile failed: params has fields of a newer version [HD-E-04]");
    }
  }
  std::memcpy(&known, params, std::min<size_t>(params->struct_size, sizeof known));
  try {
    Failure failure = compile(known);
    return failure ? make_status(failure.code, failure.message) : nullptr;
  } catch (const std::bad_alloc&) {
    return make_status(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "compiler: heddle_compile failed: out of memory");
  } catch (const std::exception& error) {
    return make_status(HEDDLE_STATUS_INTERNAL, std::string("compiler: heddle_compile failed: ") + error.what());
  }
}
