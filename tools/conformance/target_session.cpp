// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See target_session.h.
#include "target_session.h"

#include <sys/resource.h>

namespace heddle::conformance {

target::Hello hello() {
  target::Hello out;
  const TargetSettings& from = settings().target;
  out.name = from.families.empty() ? "target" : from.families.front();
  out.facts = from.facts;
  return out;
}

target::CodeRules code_rules() {
  target::CodeRules rules;
  rules.family = hello().name;
  rules.takes_foreign_formats = settings().foreign_formats;
  rules.limits = settings().target.limits;
  return rules;
}

void bound_memory() {
  constexpr rlim_t kMostBytes = rlim_t{4} << 30;
  if (kHasShadowMemory) return;
  rlimit bounds{};
  getrlimit(RLIMIT_AS, &bounds);
  bounds.rlim_cur = std::min<rlim_t>(bounds.rlim_max, kMostBytes);
  setrlimit(RLIMIT_AS, &bounds);
}

TargetSession::TargetSession(const target::Hello& with) {
  bound_memory();
  const target::ParamsTables params(with);
  REQUIRE_OK(table().open(instance.handle, &params.c, &handle));
  REQUIRE(handle, "open returned neither a status nor a target");
}

TargetSession::~TargetSession() {
  table().close(handle);
}

target::Answer TargetSession::claim(const target::Graph& graph) {
  const target::GraphTables tables(graph);
  heddle_target_answer_t answered{};
  answered.struct_size = sizeof answered;
  REQUIRE_OK(table().claim(handle, &tables.c, &answered));
  target::Answer answer;
  std::string error;
  REQUIRE(target::read(answered, &answer, &error), "claim's answer is malformed: %s", error.c_str());
  error = target::check(graph, answer);
  REQUIRE(error.empty(), "claim's answer is wrong: %s", error.c_str());
  return answer;
}

bool TargetSession::emit(const target::Kernel& kernel, target::Code* out, std::string* out_reason) {
  const heddle_target_kernel_t table = target::table_of(kernel);
  heddle_target_code_t emitted{};
  emitted.struct_size = sizeof emitted;
  Result result(this->table().emit(handle, &table, &emitted));
  if (result.code() == HEDDLE_STATUS_UNIMPLEMENTED) {
    *out_reason = result.message();
    CHECK(!out_reason->empty(), "emit gives claim '%s' back without a reason", kernel.claim.c_str());
    return false;
  }
  REQUIRE(result.ok(), "emit of kernel '%s' (%s) returned %s; code, or UNIMPLEMENTED with a reason, was expected", kernel.name.c_str(),
          kernel.claim.c_str(), result.text().c_str());
  std::string error;
  REQUIRE(target::read(emitted, out, &error), "emit's answer is malformed: %s", error.c_str());
  return true;
}

target::Code TargetSession::inspect(const target::Code& code) {
  target::Code asked;
  asked.format = code.format;
  asked.target = code.target;
  asked.bytes = code.bytes;
  const target::CodeTables tables(asked);
  heddle_target_code_t found{};
  found.struct_size = sizeof found;
  REQUIRE_OK(table().inspect(handle, &tables.c, &found));
  target::Code out;
  std::string error;
  REQUIRE(target::read(found, &out, &error), "inspect's answer is malformed: %s", error.c_str());
  return out;
}

Compiled compile(TargetSession& session, std::mt19937_64& random, uint32_t node_count) {
  return compile(session, make_graph(random, node_count));
}

Compiled compile(TargetSession& session, MadeGraph made) {
  Compiled out;
  out.made = std::move(made);
  out.answer = session.claim(out.made.graph);
  std::vector<bool> is_claimed(out.made.graph.nodes.size());
  uint32_t number = 0;
  for (const target::Claim& claim : out.answer.claims) {
    std::string wrong = why_not_claimed(out.made.graph, claim.nodes);
    for (size_t i = 0; wrong.empty() && i < claim.nodes.size(); ++i) {
      if (is_claimed[claim.nodes[i]]) wrong = "node " + std::to_string(claim.nodes[i]) + " is in two claims";
      is_claimed[claim.nodes[i]] = true;
    }
    REQUIRE(wrong.empty(), "claim '%s' is wrong: %s", claim.name.c_str(), wrong.c_str());
    Emitted one;
    if (!join(out.made, claim, number, &one.kernel)) continue;
    ++number;
    std::string reason;
    if (!session.emit(one.kernel.asked, &one.code, &reason)) {
      ++out.given_back;
      continue;
    }
    wrong = target::check(one.kernel.asked, one.code, code_rules());
    REQUIRE(wrong.empty(), "the code of kernel '%s' (%s) is wrong: %s", one.kernel.asked.name.c_str(), claim.name.c_str(), wrong.c_str());
    out.emitted.push_back(std::move(one));
  }
  return out;
}

std::string text_of(const target::Answer& answer) {
  return target::encode(answer);
}

std::string text_of(const target::Code& code) {
  return target::encode(code, target::Kind::kCode);
}

}  // namespace heddle::conformance
