// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See plugin.h.
#include "compiler/plugins/plugin.h"

#include <utility>

#include "heddle/sdk/portable/text.h"
#include "heddle/sdk/target/checks.h"
#include "heddle/sdk/target/plugin.h"
#include "sdk/module/printable.h"

namespace heddle::plugins {

namespace target = sdk::target;
using target::Kind;

namespace {

constexpr uint64_t most_of_answer = uint64_t{64} << 20;  // bytes of an answer that has no code
constexpr size_t most_shown = 300;

std::string shown(std::string_view text) {
  return module::one_line(std::string(text.substr(0, most_shown)));
}

}  // namespace

std::string TargetPlugin::open(const std::string& family) {
  family_ = family;
  if (std::optional<std::string> known = find("open"); known && known->size() == 1) {
    can_inspect_ = known->front() == 1;
    return {};
  }
  std::string wrong = start();
  if (wrong.empty()) keep("open", std::string(1, can_inspect_ ? 1 : 0));
  return wrong;
}

std::optional<std::string> TargetPlugin::find(const std::string& question) const {
  return options_.find ? options_.find(manifest_.sha256 + target::encode(hello()) + question) : std::nullopt;
}

void TargetPlugin::keep(const std::string& question, const std::string& answer) const {
  if (options_.keep) options_.keep(manifest_.sha256 + target::encode(hello()) + question, answer);
}

target::Hello TargetPlugin::hello() const {
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
  return hello;
}

std::string TargetPlugin::start() {
  const std::string program = options_.host.empty() ? find_target_host() : options_.host;
  if (program.empty()) {
    return "compiler: " + who() + " cannot be started: there is no heddle-target-host beside " + library_folder() +
           "; install it, or name it (target_host)";
  }
  std::string wrong = process_.start(program);
  if (!wrong.empty()) return "compiler: " + who() + " cannot be started: " + wrong;
  std::string payload;
  if (wrong = call("opening it", target::encode(hello()), Kind::kReady, payload); !wrong.empty()) return wrong;
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
  ++calls;
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

void TargetPlugin::tell(const std::string& name, const std::string& code, const target::Graph* graph) const {
  if (!options_.tell) return;
  std::vector<sdk::portable::Kernel> kernels;
  std::string error;
  if (!sdk::portable::read_image(code, &kernels, &error)) return options_.tell(family_ + "." + name, error + "\n");
  std::string text = graph ? target::text_of(*graph, kernels) : "";
  for (size_t i = 0; i < kernels.size() && !graph; ++i) text += sdk::portable::text_of(kernels[i]);
  options_.tell(family_ + "." + name, text);
}

std::string TargetPlugin::claim(const target::Graph& graph, target::Answer& answer) {
  tell(graph.function + ".graph", graph.code, &graph);
  const std::string what = "claiming nodes of function '" + graph.function + "'";
  const std::string frame = target::encode(graph);
  const std::optional<std::string> known = find(frame);
  std::string payload = known.value_or("");
  if (!known) {
    if (std::string wrong = call(what.c_str(), frame, Kind::kAnswer, payload); !wrong.empty()) return wrong;
  }
  const std::string cause = target::decode(payload, &answer) ? target::check(graph, answer) : "the answer is malformed";
  for (target::Claim& claim : answer.claims) claim.reason = shown(claim.reason);
  for (target::Refusal& refusal : answer.refusals) refusal.reason = shown(refusal.reason);
  if (cause.empty()) {
    if (!known) keep(frame, payload);
    return {};
  }
  process_.stop();
  return "compiler: " + who() + ": " + what + " failed: " + cause;
}

std::string TargetPlugin::emit(const target::Kernel& kernel, target::Code& code, bool& has_refused) {
  const std::string what = "emitting '" + kernel.name + "' (" + kernel.claim + ")";
  has_refused = false;
  tell(kernel.name, kernel.code, nullptr);
  // Limits are a part of the question, since code that exceeds them is no answer.
  const std::string frame = target::encode(kernel), question = frame + std::to_string(options_.code_bytes) +
                                                               (options_.takes_foreign_formats ? " foreign " : " ") +
                                                               std::to_string(manifest_.limits.workgroup_size) + " " +
                                                               std::to_string(manifest_.limits.shared_memory_bytes) + " " +
                                                               std::to_string(manifest_.limits.workspace_bytes);
  // Of an earlier compile: a byte that tells code from a refusal, and the payload or the reason.
  const std::optional<std::string> known = find(question);
  if (known && known->starts_with('r')) {
    has_refused = true;
    return known->substr(1);
  }
  if (known && known->starts_with('c') && target::decode(std::string_view(*known).substr(1), &code)) {
    code.note = shown(code.note);
    return {};
  }
  std::string payload, emitted;
  uint32_t status = 0;
  if (std::string wrong = call(what.c_str(), frame, Kind::kCode, emitted, &status); !wrong.empty()) {
    has_refused = status == HEDDLE_STATUS_UNIMPLEMENTED && process_.runs();
    if (has_refused) keep(question, "r" + wrong);
    return wrong;
  }
  auto failed = [&](const std::string& cause) { return "compiler: " + who() + ": " + what + " failed: " + cause; };
  const target::CodeRules rules = {family_, options_.takes_foreign_formats, options_.code_bytes, manifest_.limits};
  std::string cause = target::decode(emitted, &code) ? target::check(kernel, code, rules) : "the answer is malformed";
  if (!cause.empty()) {
    process_.stop();
    return failed(cause);
  }
  code.note = shown(code.note);
  if (!can_inspect_) {
    keep(question, "c" + emitted);
    return {};
  }
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
  cause = target::decode(payload, &found) ? target::compare_records(code, found) : "the answer of inspect is malformed";
  if (!cause.empty()) return failed(cause);
  calls += std::exchange(reader_->calls, 0);
  keep(question, "c" + emitted);
  return {};
}

}  // namespace heddle::plugins
