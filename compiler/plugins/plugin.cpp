// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See plugin.h.
#include "compiler/plugins/plugin.h"

#include <algorithm>
#include <set>

#include "heddle/code.h"
#include "sdk/module/printable.h"

namespace heddle::plugins {

namespace target = sdk::target;
using target::Kind;

namespace {

constexpr uint64_t most_of_answer = uint64_t{64} << 20;  // bytes of an answer that has no code
constexpr size_t most_entries = 64, most_expressions = 65536, most_guards = 64;
constexpr size_t most_shown = 300;

std::string shown(std::string_view text) {
  return module::one_line(std::string(text.substr(0, most_shown)));
}

bool is_printable(std::string_view text, size_t most) {
  return !text.empty() && text.size() <= most && module::one_line(std::string(text)) == text;
}

// What an expression lacks; empty: nothing. The host program computes them, so there is no division by what is not a positive constant.
std::string why_no_expression(const std::vector<target::Expression>& all, uint32_t symbols) {
  if (all.size() > most_expressions)
    return "it has " + std::to_string(all.size()) + " expressions, more than " + std::to_string(most_expressions);
  for (size_t i = 0; i < all.size(); ++i) {
    const target::Expression& one = all[i];
    const std::string which = "expression " + std::to_string(i);
    if (one.kind == HEDDLE_TARGET_CONSTANT) continue;
    if (one.kind == HEDDLE_TARGET_SYMBOL) {
      if (one.value < 0 || one.value >= static_cast<int64_t>(symbols))
        return which + " is symbol " + std::to_string(one.value) + ", and there are " + std::to_string(symbols);
      continue;
    }
    if (one.kind < HEDDLE_TARGET_ADD || one.kind > HEDDLE_TARGET_MODULO)
      return which + " is of kind " + std::to_string(one.kind) + ", which is not known";
    if (one.a >= i || one.b >= i) return which + " has operands that do not come before it";
    if (one.kind >= HEDDLE_TARGET_FLOOR_DIVIDE && (all[one.b].kind != HEDDLE_TARGET_CONSTANT || all[one.b].value <= 0))
      return which + " divides by something other than a positive constant";
  }
  return {};
}

}  // namespace

bool owns_format(std::string_view family, std::string_view format) {
  // Formats of this project stay its own, whatever a target is called.
  for (std::string_view own :
       {HEDDLE_CODE_X86_64_ELF, HEDDLE_CODE_PTX, HEDDLE_CODE_CUBIN, HEDDLE_CODE_HSACO, HEDDLE_CODE_SPIRV, HEDDLE_CODE_PORTABLE}) {
    if (own.substr(0, own.find('/')) == format.substr(0, format.find('/'))) return false;
  }
  if (!format.starts_with(family) || format.size() == family.size()) return false;
  const char next = format[family.size()];
  return next == '/' || next == '-' || next == '_' || next == '.';
}

std::string TargetPlugin::open(const std::string& family) {
  family_ = family;
  return start();
}

std::string TargetPlugin::start() {
  const std::string program = options_.host.empty() ? find_target_host() : options_.host;
  if (program.empty()) {
    return "compiler: " + who() + " cannot be started: there is no heddle-target-host beside " + library_folder() +
           "; install it, or name it (target_host)";
  }
  std::string wrong = process_.start(program);
  if (!wrong.empty()) return "compiler: " + who() + " cannot be started: " + wrong;
  target::Hello hello;
  hello.library = manifest_.library;
  hello.id = manifest_.id;
  hello.version = manifest_.version;
  hello.name = family_;
  hello.level = level_;
  hello.fast_math = options_.fast_math ? 1 : 0;
  hello.facts = manifest_.facts;
  hello.memory_bytes = options_.memory_bytes;
  // Several calls go to one process, so this only ends what the time for a call does not.
  hello.cpu_seconds = uint64_t{options_.seconds} * 64;
  std::string payload;
  if (wrong = call("opening it", target::encode(hello), Kind::kReady, payload); !wrong.empty()) return wrong;
  target::Ready ready;
  if (!target::decode(payload, &ready)) {
    process_.stop();
    return "compiler: " + who() + ": opening it failed: its process answered with a malformed frame";
  }
  can_inspect_ = ready.can_inspect != 0;
  return {};
}

std::string TargetPlugin::call(const char* what, const std::string& frame, Kind expected, std::string& payload, uint32_t* code) {
  if (code) *code = HEDDLE_STATUS_INTERNAL;
  auto failed = [&](const std::string& cause) { return "compiler: " + who() + ": " + what + " failed: " + cause; };
  if (frame.empty()) return failed("the request has more than 4 GiB");
  if (!process_.runs()) {
    if (std::string wrong = start(); !wrong.empty()) return wrong;
  }
  TargetProcess::Frame answer;
  const auto timeout = std::chrono::milliseconds(uint64_t{options_.seconds} * 1000);
  if (std::string wrong = process_.exchange(frame, timeout, most_of_answer + options_.code_bytes, answer); !wrong.empty())
    return failed(wrong);
  if (answer.kind == Kind::kFailed) {
    target::Failed said;
    if (!target::decode(answer.payload, &said)) said.message = "it gave no reason that can be read";
    if (code) *code = said.code;
    // Its state may be anything after a failure, except where it only declines.
    if (said.code != HEDDLE_STATUS_UNIMPLEMENTED) process_.stop();
    return failed(shown(said.message));
  }
  if (answer.kind != expected) {
    process_.stop();
    return failed("its process answered with a frame of kind " + std::to_string(static_cast<unsigned>(answer.kind)));
  }
  payload = std::move(answer.payload);
  return {};
}

std::string TargetPlugin::claim(const target::Graph& graph, target::Answer& answer) {
  const std::string what = "claiming nodes of function '" + graph.function + "'";
  std::string payload;
  if (std::string wrong = call(what.c_str(), target::encode(graph), Kind::kAnswer, payload); !wrong.empty()) return wrong;
  std::string cause;
  if (!target::decode(payload, &answer)) cause = "the answer is malformed";
  for (target::Claim& claim : answer.claims) {
    if (!is_printable(claim.name, 64)) cause = "a claim's name is '" + shown(claim.name) + "'; 1 to 64 printable bytes were expected";
    claim.reason = shown(claim.reason);
  }
  for (target::Refusal& refusal : answer.refusals) {
    if (refusal.node >= graph.nodes.size())
      cause = "a refusal is of node " + std::to_string(refusal.node) + ", and there are " + std::to_string(graph.nodes.size());
    refusal.reason = shown(refusal.reason);
  }
  if (cause.empty()) return {};
  process_.stop();
  return "compiler: " + who() + ": " + what + " failed: " + cause;
}

std::string TargetPlugin::check(const target::Kernel& kernel, const target::Code& code) const {
  if (code.bytes.size() > options_.code_bytes)
    return "the code has " + std::to_string(code.bytes.size()) + " bytes, more than the " + std::to_string(options_.code_bytes) +
           " that it may have";
  if (code.bytes.empty()) return "the code is empty";
  if (!is_printable(code.format, 64) || code.format.find('/') == std::string::npos)
    return "the format is '" + shown(code.format) + "'; NAME/VERSION was expected";
  if (!options_.takes_foreign_formats && !owns_format(family_, code.format)) {
    return "the format '" + code.format + "' does not belong to target '" + family_ + "', which may have '" + family_ + "/1' or '" +
           family_ + "-elf/1'; --foreign-formats allows others";
  }
  if (code.format == HEDDLE_CODE_PORTABLE) return "it returned portable code, which the compiler writes itself";
  if (!is_printable(code.target, 64))
    return "the target within the format is '" + shown(code.target) + "'; 1 to 64 printable bytes were expected";
  if (std::string wrong = why_no_expression(code.expressions, kernel.symbol_count); !wrong.empty()) return wrong;
  if (code.entries.empty()) return "the code has no entry";
  if (code.entries.size() > most_entries)
    return "the code has " + std::to_string(code.entries.size()) + " entries, more than " + std::to_string(most_entries);
  std::set<std::string> names;
  for (const target::Entry& entry : code.entries) {
    const std::string which = "entry '" + shown(entry.name) + "'";
    const bool is_named = entry.name == kernel.name || entry.name.starts_with(kernel.name + "_");
    if (!is_named || entry.name.size() > 255 ||
        entry.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != std::string::npos)
      return which + " has another name than '" + kernel.name + "', or that and '_' and more";
    if (!names.insert(entry.name).second) return which + " is there twice";
    if (entry.guards.size() > most_guards) return which + " has more than " + std::to_string(most_guards) + " guards";
    for (const target::Guard& guard : entry.guards) {
      if (guard.expression >= code.expressions.size() || guard.min > guard.max)
        return which + " has a guard without an expression or without a range";
    }
    if (entry.guards.empty() != (&entry == &code.entries.back()))
      return which + (entry.guards.empty() ? " has no guards, and is not the last" : " is the last, and has guards");
    if (entry.workgroups >= code.expressions.size()) return which + " has no expression for its number of workgroups";
    const target::Expression& workgroups = code.expressions[entry.workgroups];
    if (workgroups.kind == HEDDLE_TARGET_CONSTANT && (workgroups.value < 1 || workgroups.value > UINT32_MAX))
      return which + " has " + std::to_string(workgroups.value) + " workgroups";
    if (entry.binding_count != kernel.input_count + kernel.output_count) {
      return which + " has " + std::to_string(entry.binding_count) + " bindings, and the kernel " +
             std::to_string(kernel.input_count + kernel.output_count);
    }
    if (entry.constants_bytes != kernel.symbol_count * 8)
      return which + " has " + std::to_string(entry.constants_bytes) + " bytes of constants, and the kernel " +
             std::to_string(kernel.symbol_count * 8);
    if (entry.workgroup_size == 0 || entry.subgroup_size > entry.workgroup_size)
      return which + " has workgroups of " + std::to_string(entry.workgroup_size) + " threads, and subgroups of " +
             std::to_string(entry.subgroup_size);
    auto exceeds = [&](const char* what, uint64_t needed, uint64_t limit) {
      return needed <= limit ? std::string()
                             : which + " needs " + std::to_string(needed) + " " + what + ", more than the " + std::to_string(limit) +
                                   " of its manifest";
    };
    for (const std::string& wrong : {exceeds("threads of a workgroup", entry.workgroup_size, manifest_.limits.workgroup_size),
                                     exceeds("bytes of shared memory", entry.shared_memory_bytes, manifest_.limits.shared_memory_bytes),
                                     exceeds("bytes of workspace", entry.workspace_bytes, manifest_.limits.workspace_bytes)}) {
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

std::string TargetPlugin::compare(const target::Code& said, const target::Code& found) const {
  for (const target::Entry& entry : said.entries) {
    const auto at =
        std::find_if(found.entries.begin(), found.entries.end(), [&](const target::Entry& other) { return other.name == entry.name; });
    if (at == found.entries.end()) return "entry '" + entry.name + "' is not in the code, says its own inspect";
    struct Compared {
      const char* what;
      uint64_t said, found;
    };
    for (const Compared& one : {Compared{"bindings", entry.binding_count, at->binding_count},
                                {"bytes of constants", entry.constants_bytes, at->constants_bytes},
                                {"threads of a workgroup", entry.workgroup_size, at->workgroup_size},
                                {"threads of a subgroup", entry.subgroup_size, at->subgroup_size},
                                {"bytes of shared memory", entry.shared_memory_bytes, at->shared_memory_bytes},
                                {"bytes of workspace", entry.workspace_bytes, at->workspace_bytes}}) {
      if (one.said == one.found) continue;
      return "entry '" + entry.name + "' has " + std::to_string(one.said) + " " + one.what + " in its record, and " +
             std::to_string(one.found) + " in the code, says its own inspect";
    }
  }
  return {};
}

std::string TargetPlugin::emit(const target::Kernel& kernel, target::Code& code, bool& has_refused) {
  const std::string what = "emitting '" + kernel.name + "' (" + kernel.claim + ")";
  has_refused = false;
  std::string payload;
  uint32_t status = 0;
  if (std::string wrong = call(what.c_str(), target::encode(kernel), Kind::kCode, payload, &status); !wrong.empty()) {
    has_refused = status == HEDDLE_STATUS_UNIMPLEMENTED && process_.runs();
    return wrong;
  }
  auto failed = [&](const std::string& cause) { return "compiler: " + who() + ": " + what + " failed: " + cause; };
  std::string cause = target::decode(payload, &code) ? check(kernel, code) : "the answer is malformed";
  if (!cause.empty()) {
    process_.stop();
    return failed(cause);
  }
  code.note = shown(code.note);
  if (!can_inspect_) return {};
  target::Code asked, found;
  asked.format = code.format;
  asked.target = code.target;
  asked.bytes = code.bytes;
  // Another process than that which has emitted it, so that it can only go by the code.
  if (!reader_) {
    reader_ = std::make_unique<TargetPlugin>(manifest_, level_, options_);
    reader_->family_ = family_;
  }
  if (std::string wrong = reader_->call(("inspecting the code of '" + kernel.name + "'").c_str(), target::encode(asked, Kind::kInspect),
                                        Kind::kCode, payload);
      !wrong.empty())
    return wrong;
  cause = target::decode(payload, &found) ? compare(code, found) : "the answer of inspect is malformed";
  return cause.empty() ? cause : failed(cause);
}

}  // namespace heddle::plugins
