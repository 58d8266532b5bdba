// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The template's target plugin with one fault, which the fact `fault` of its manifest names: what the compiler must notice, and survive. Faults of emit are
// in the code of the first kernel only, "c0_...".
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/code.h"
#include "heddle/sdk/target/plugin.h"

// The template with another name for its entry.
#undef HEDDLE_TARGET_PLUGIN
#define HEDDLE_TARGET_PLUGIN(Id, Version, T)                  \
  namespace {                                                 \
  struct OwnId {                                              \
    static constexpr const char* id = "test.mutant_target";   \
    static constexpr const char* version = "0.1.0";           \
  };                                                          \
  using Sample = heddle::sdk::target::TargetPlugin<OwnId, T>; \
  }
#include "sdk/template/target/cpp/target.cpp"
#include "tests/conformance/portable_mutations.h"

namespace {

using heddle::sdk::string_of;
using heddle::sdk::view_of;

std::string g_fault;  // of all open targets
const heddle_host_t* g_host;
const heddle_target_interface_t* g_inner;
std::vector<heddle_target_t*> g_open;

bool is(const char* fault) {
  return g_fault == fault;
}

// Faults that any function can have.
heddle_status_t* misbehave(const std::string& function) {
  if (g_fault.rfind(function + "_", 0) != 0) return nullptr;
  const std::string what = g_fault.substr(function.size() + 1);
  if (what == "crash") raise(SIGSEGV);
  if (what == "abort") std::abort();
  if (what == "exit") _exit(3);
  if (what == "hang") {
    while (true) usleep(100000);
  }
  if (what == "throw") throw std::runtime_error("thrown by the mutant");
  if (what == "memory") {
    std::vector<std::vector<char>> all;
    while (true) all.emplace_back(size_t{64} << 20, 'x');
  }
  if (what == "prints") {
    for (int i = 0; i < 100; ++i) std::printf("a line of the mutant\n");
    std::fflush(stdout);
  }
  if (what == "status") return heddle::sdk::status(g_host, HEDDLE_STATUS_INTERNAL, "the mutant does not want to");
  return nullptr;
}

heddle_status_t* open(heddle_plugin_instance_t* instance, const heddle_target_params_t* params, heddle_target_t** out) {
  for (uint32_t i = 0; i < params->fact_count; ++i) {
    if (view_of(params->facts[i].name) == "fault") g_fault = view_of(params->facts[i].string_value);
  }
  if (is("facts_crash") && view_of(params->level) == "no-such-level") raise(SIGSEGV);
  if (heddle_status_t* failed = misbehave("open")) return failed;
  heddle_status_t* failed = g_inner->open(instance, params, out);
  if (!failed) g_open.push_back(*out);
  return failed;
}

// Sets of up to 6 nodes that read one another, some of which are not convex, of about two thirds of all nodes. None of them gets code, so that they become
// portable code of that shape.
void claim_at_random(const heddle_target_graph_t* graph, heddle_target_answer_t* out) {
  static std::vector<std::vector<uint32_t>> sets;
  static std::vector<heddle_target_claim_t> claims;
  sets.clear();
  claims.clear();
  uint32_t state = graph->node_count * 2654435761u + 1;
  auto chance = [&](uint32_t of) { return (state = state * 1664525u + 1013904223u) >> 16 & 0xffff ? (state >> 16) % of : 0; };
  std::vector<bool> is_taken(graph->node_count);
  for (uint32_t first = 0; first < graph->node_count; ++first) {
    if (is_taken[first] || chance(3) == 0) continue;
    std::vector<uint32_t> set{first};
    for (uint32_t next = first + 1; next < graph->node_count && set.size() < 6; ++next) {
      const heddle_target_node_t& node = graph->nodes[next];
      bool reads = false;
      for (uint32_t member : set) {
        for (uint32_t i = 0; i < node.input_count; ++i) reads |= node.inputs[i] == graph->nodes[member].outputs[0];
      }
      if (reads && !is_taken[next] && chance(4) != 0) set.push_back(next);
    }
    for (uint32_t member : set) is_taken[member] = true;
    sets.push_back(std::move(set));
  }
  for (const std::vector<uint32_t>& set : sets) {
    claims.push_back({sizeof(heddle_target_claim_t), static_cast<uint32_t>(set.size()), set.data(), string_of("random"), string_of(""), 0});
  }
  out->claims = claims.data();
  out->claim_count = static_cast<uint32_t>(claims.size());
  out->claim_stride = sizeof(heddle_target_claim_t);
  out->refusal_count = 0;
}

// Faults of kernels that the template does not take: every group is claimed as a whole, and its code is portable code under another name, which
// the change runs_portable_as_sample of tests/conformance/oddities.cpp lets a driver run.
bool is_fused() {
  return g_fault.rfind("fused", 0) == 0;
}

void claim_groups(const heddle_target_graph_t* graph, heddle_target_answer_t* out) {
  static std::vector<std::vector<uint32_t>> groups;
  static std::vector<heddle_target_claim_t> claims;
  groups.assign(graph->group_count, {});
  claims.clear();
  for (uint32_t i = 0; i < graph->node_count; ++i) groups[graph->nodes[i].group].push_back(i);
  for (const std::vector<uint32_t>& group : groups)
    claims.push_back(
        {sizeof(heddle_target_claim_t), static_cast<uint32_t>(group.size()), group.data(), string_of("fused"), string_of(""), 0});
  out->claims = claims.data();
  out->claim_count = static_cast<uint32_t>(claims.size());
  out->claim_stride = sizeof(heddle_target_claim_t);
  out->refusal_count = 0;
}

heddle_status_t* emit_fused(const heddle_target_kernel_t* asked, heddle_target_code_t* out) {
  static std::string text;
  static heddle_target_entry_t entry;
  static const heddle_target_expression_t one = {HEDDLE_TARGET_CONSTANT, 0, 0, 0, 1};
  std::vector<heddle::sdk::portable::Kernel> kernels;
  std::string error;
  if (!heddle::sdk::portable::read_image(view_of(asked->code), &kernels, &error))
    return heddle::sdk::status(g_host, HEDDLE_STATUS_INVALID_ARGUMENT, "the mutant cannot read: %s", error.c_str());
  heddle::sdk::portable::Kernel& kernel = kernels[0];
  if (is("fused_without_bias")) heddle::odd::without(kernel, heddle::sdk::portable::Op::kAddF);
  if (is("fused_without_activation")) heddle::odd::without(kernel, heddle::sdk::portable::Op::kMaximumF);
  if (is("fused_without_padding")) heddle::odd::without_padding(kernel);
  if (is("fused_without_strides")) heddle::odd::without_strides(kernel);
  const std::string code = heddle::sdk::portable::write_kernel(kernel);
  text = heddle::sdk::portable::write_image({{kernel.name, code}});
  entry = {};
  entry.struct_size = sizeof entry;
  entry.name = asked->name;
  entry.binding_count = asked->input_count + asked->output_count;
  entry.constants_bytes = asked->symbol_count * 8;
  entry.workgroup_size = 1;
  out->format = string_of("sample-portable/1");
  out->target = string_of("generic");
  out->bytes = string_of(text);
  out->entries = &entry;
  out->entry_count = 1;
  out->entry_stride = sizeof entry;
  out->expressions = &one;
  out->expression_count = 1;
  return nullptr;
}

// What `close` of any target, and the claim of another, must leave alone: kept for each, unless the fault is to share it.
std::vector<heddle_target_claim_t>& claims_of(heddle_target_t* target) {
  static std::mutex mutex;
  static std::map<heddle_target_t*, std::vector<heddle_target_claim_t>> all;
  std::lock_guard<std::mutex> lock(mutex);
  return all[is("claims_shared") ? nullptr : target];
}

void close(heddle_target_t* target) {
  if (is("close_clears")) {
    for (heddle_target_t* each : g_open) {
      for (heddle_target_claim_t& claim : claims_of(each)) claim.name = string_of("closed");
    }
  }
  g_open.erase(std::remove(g_open.begin(), g_open.end(), target), g_open.end());
  g_inner->close(target);
}

heddle_status_t* claim(heddle_target_t* target, const heddle_target_graph_t* given, heddle_target_answer_t* out) {
  if (heddle_status_t* failed = misbehave("claim")) return failed;
  heddle_target_graph_t own = *given;
  const heddle_target_graph_t* graph = given;
  if (is("newer_ignored")) own.struct_size = sizeof own, graph = &own;
  if (is("damaged_crash") && (graph->code.size < 8 || std::string_view(graph->code.data, 7) != "HDLPORT")) raise(SIGSEGV);
  if (is("numbers_crash")) {
    for (uint32_t i = 0; i < graph->node_count; ++i) {
      if (graph->nodes[i].kernel > graph->node_count) raise(SIGSEGV);
    }
  }
  if (is("missing_arrays_crash") && (!graph->nodes || !graph->values)) raise(SIGSEGV);
  if (is("large_graph_crash") && graph->node_count > 1000) raise(SIGSEGV);
  if (is("answer_too_long")) std::memset(reinterpret_cast<char*>(out) + 4, 0, sizeof *out - 4);
  if (is("claim_leaks")) std::memset(std::malloc(1 << 20), 1, 1 << 20);
  if (is("random")) {
    claim_at_random(graph, out);
    return nullptr;
  }
  if (is_fused()) {
    claim_groups(graph, out);
    return nullptr;
  }
  if (heddle_status_t* failed = g_inner->claim(target, graph, out)) return failed;
  std::vector<heddle_target_claim_t>& claims = claims_of(target);
  static uint32_t nodes[4];
  claims.assign(out->claims, out->claims + out->claim_count);
  if (claims.empty()) return nullptr;
  if (is("takes_nothing")) out->claim_count = 0;
  out->claims = claims.data();
  heddle_target_claim_t& first = claims.front();
  auto other_nodes = [&](std::initializer_list<uint32_t> all) {
    first.node_count = 0;
    for (uint32_t node : all) nodes[first.node_count++] = node;
    first.nodes = nodes;
  };
  if (is("claim_unknown_node")) other_nodes({graph->node_count});
  if (is("claim_node_twice")) other_nodes({first.nodes[0], first.nodes[0]});
  if (is("claim_nothing")) other_nodes({});
  if (is("claim_not_convex")) {
    other_nodes({0, graph->node_count - 1});
    out->claim_count = 1;
  }
  if (is("claim_claimed_twice") && claims.size() > 1) claims[1] = claims[0];
  static uint32_t calls = 0;
  if (is("claim_varies") && ++calls % 2 == 0) --out->claim_count;
  if (is("claim_no_array")) out->claims = nullptr;
  if (is("claim_no_nodes")) first.nodes = nullptr;
  if (is("claim_stride")) out->claim_stride = 2;
  if (is("claim_size")) first.struct_size = 100000;
  if (is("claim_no_name")) first.name = string_of("");
  if (is("claim_odd_name")) first.name = string_of("a\nb");
  static const heddle_target_refusal_t refusal = {sizeof(heddle_target_refusal_t), 1u << 30, string_of("no such node")};
  if (is("claim_odd_refusal")) {
    out->refusals = &refusal;
    out->refusal_count = 1;
  }
  return nullptr;
}

heddle_status_t* emit(heddle_target_t* target, const heddle_target_kernel_t* kernel, heddle_target_code_t* out) {
  if (is("random")) return heddle::sdk::status(g_host, HEDDLE_STATUS_UNIMPLEMENTED, "claims at random have no code");
  if (is_fused()) return emit_fused(kernel, out);
  const bool is_first = view_of(kernel->name).rfind("c0_", 0) == 0;
  if (is_first) {
    if (heddle_status_t* failed = misbehave("emit")) return failed;
  }
  if (heddle_status_t* failed = g_inner->emit(target, kernel, out)) return failed;
  if (!is_first) return nullptr;
  static std::vector<heddle_target_entry_t> entries;
  static std::vector<heddle_target_expression_t> expressions;
  static std::string text, name;
  static const heddle_target_guard_t guard = {0, 0, 0, 1};
  entries.assign(out->entries, out->entries + out->entry_count);
  expressions.assign(out->expressions, out->expressions + out->expression_count);
  out->entries = entries.data();
  out->expressions = expressions.data();
  text = view_of(out->bytes);
  heddle_target_entry_t& entry = entries.front();
  auto bytes = [&](std::string other) {
    text = std::move(other);
    out->bytes = string_of(text);
  };
  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    if (const size_t at = other.find(from); at != std::string::npos) other.replace(at, from.size(), to);
    return other;
  };
  if (is("emit_too_large")) bytes(std::string(size_t{65} << 20, ' '));
  if (is("emit_empty")) bytes("");
  if (is("emit_foreign_format")) out->format = string_of("acme-elf/1");
  if (is("emit_own_format_of_heddle")) out->format = string_of("x86_64-elf/1");
  if (is("emit_portable")) out->format = string_of(HEDDLE_CODE_PORTABLE);
  if (is("emit_no_version")) out->format = string_of("sample-stack");
  if (is("emit_no_target")) out->target = string_of("");
  if (is("emit_no_entry")) out->entry_count = 0;
  if (is("emit_other_name")) entry.name = string_of("main");
  if (is("emit_empty_name")) entry.name = string_of("");
  if (is("emit_entry_twice")) {
    entry.guards = &guard, entry.guard_count = 1;
    entries.push_back(out->entries[0]);
    entries.back().guard_count = 0;
    out->entries = entries.data();
    out->entry_count = 2;
  }
  if (is("emit_unguarded_first")) {
    entries.push_back(out->entries[0]);
    static std::string second;
    second = std::string(view_of(kernel->name)) + "_2";
    entries.back().name = string_of(second);
    out->entries = entries.data();
    out->entry_count = 2;
  }
  if (is("emit_bindings")) ++entry.binding_count;
  if (is("emit_constants")) entry.constants_bytes += 8;
  if (is("emit_no_threads")) entry.workgroup_size = 0;
  if (is("emit_too_many_threads")) entry.workgroup_size = 4096;
  if (is("emit_too_much_memory")) entry.shared_memory_bytes = 1 << 20;
  if (is("emit_too_much_workspace")) entry.workspace_bytes = 1 << 20;
  if (is("emit_guarded")) {  // no fault: calls with more than 2 rows are portable code
    static heddle_target_guard_t few = {0, 0, 0, 2};
    few.expression = out->expression_count;
    expressions.push_back({HEDDLE_TARGET_SYMBOL, 0, 0, 0, 0});
    out->expressions = expressions.data();
    ++out->expression_count;
    entry.guards = &few, entry.guard_count = 1;
  }
  if (is("emit_no_guards")) entry.guard_count = 1;
  if (is("emit_no_expressions")) out->expressions = nullptr;
  if (is("emit_other_expression")) entry.workgroups = out->expression_count;
  if (is("emit_later_operand")) expressions.back().a = out->expression_count;
  if (is("emit_unknown_symbol")) expressions.front() = {HEDDLE_TARGET_SYMBOL, 0, 0, 0, 7};
  if (is("emit_unknown_kind")) expressions.front().kind = 99;
  if (is("emit_no_workgroups")) entry.workgroups = 0, expressions.front() = {HEDDLE_TARGET_CONSTANT, 0, 0, 0, 0};
  static uint32_t emitted = 0;
  if (is("emit_varies")) bytes(text + std::string(++emitted, ' '));
  // What only inspect can tell.
  if (is("emit_missing_entry")) bytes(replaced(std::string(view_of(kernel->name)), "other"));
  if (is("emit_lying_record")) bytes(replaced(" 3 ", " 2 "));
  if (is("emit_damaged_code")) bytes("kernel");
  // What only its numbers tell.
  if (is("emit_wrong_numbers")) bytes(replaced("addf", "subf"));
  if (is("emit_endless")) {  // a million workgroups of additions
    std::string additions = "push 1";
    for (int n = 0; n < 8000; ++n) additions += " push 1 add";
    bytes(text.substr(0, text.find("each")) + additions + "\n");
    entry.workgroups = 0, expressions.front() = {HEDDLE_TARGET_CONSTANT, 0, 0, 0, 1 << 20};
  }
  if (is("emit_writes_less")) bytes(replaced("each 262144", "each 1"));
  if (is("emit_writes_input")) bytes(text.substr(0, text.rfind("store32")) + "store32 0\n");
  if (is("emit_loses_device")) bytes(replaced(" item ", " lose item "));
  return nullptr;
}

heddle_status_t* inspect(heddle_target_t* target, const heddle_target_code_t* code, heddle_target_code_t* out) {
  if (is("inspect_damaged_crash") && view_of(code->format) == "org.example.nobody/1") raise(SIGSEGV);
  if (heddle_status_t* failed = misbehave("inspect")) return failed;
  heddle_target_code_t as_own = *code;
  if (is("emit_foreign_format")) as_own.format = string_of("sample-stack/1");
  return g_inner->inspect(target, &as_own, out);
}

const void* get_interface(heddle_plugin_instance_t* instance, heddle_string_t id) {
  static const heddle_target_interface_t table = {sizeof(heddle_target_interface_t), 0, open, close, claim, emit, inspect};
  (void)instance;
  return view_of(id) == HEDDLE_TARGET_INTERFACE ? &table : nullptr;
}

heddle_status_t* create(const heddle_host_t* host, heddle_plugin_instance_t** out);
const heddle_plugin_t* g_sample;

const heddle_plugin_t* table() {
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t), HEDDLE_PLUGIN_TARGET, g_sample->id, g_sample->version, nullptr, create,
                                         g_sample->shutdown,      get_interface};
  return &plugin;
}

heddle_status_t* create(const heddle_host_t* host, heddle_plugin_instance_t** out) {
  g_host = host;
  if (heddle_status_t* failed = g_sample->create(host, out)) return failed;
  g_inner = static_cast<const heddle_target_interface_t*>(g_sample->get_interface(*out, string_of(HEDDLE_TARGET_INTERFACE)));
  return nullptr;
}

}  // namespace

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  g_sample = Sample::entry(negotiation);
  return g_sample ? table() : nullptr;
}
