// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tables.h. Counts without an array, and structs with fields that are not known here, are errors (HD-E-04, HD-E-07).
#include "heddle/sdk/target/tables.h"

#include "heddle/sdk/status.h"

namespace heddle::sdk::target {
namespace {

uint32_t size_of(size_t size) {
  return static_cast<uint32_t>(size);
}

// The elements of an array with a stride, each as the struct that is known here.
template <class T, class Take>
bool each(const T* first, uint32_t count, uint64_t stride, const char* what, std::string* error, Take&& take) {
  if (count != 0 && (!first || stride < sizeof(uint32_t) || stride > 4096)) {
    *error = std::string(what) + ": " + std::to_string(count) + " are counted, and the array or its stride is missing [HD-E-07]";
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto* at = reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) + i * stride);
    T known;
    uint64_t bad_byte = 0;
    if (at->struct_size > stride || !read_struct(at, &known, &bad_byte)) {
      *error = std::string(what) + " " + std::to_string(i) + ": struct_size is " + std::to_string(at->struct_size) + ", with a stride of " +
               std::to_string(stride) + "; or byte " + std::to_string(bad_byte) + " of it is of a newer version [HD-E-04]";
      return false;
    }
    if (!take(known)) return false;
  }
  return true;
}

bool numbers(const uint32_t* from, uint32_t count, const char* what, std::vector<uint32_t>* out, std::string* error) {
  if (count != 0 && !from) {
    *error = std::string(what) + ": " + std::to_string(count) + " are counted, and the array is missing [HD-E-07]";
    return false;
  }
  out->assign(from, from + count);
  return true;
}

bool texts(std::initializer_list<std::pair<heddle_string_t, std::string*>> all, std::string* error) {
  for (const auto& [from, to] : all) {
    if (from.size != 0 && !from.data) {
      *error = "a text has " + std::to_string(from.size) + " bytes, and no data [HD-E-07]";
      return false;
    }
    *to = view_of(from);
  }
  return true;
}

bool expressions(const heddle_target_expression_t* from, uint32_t count, std::vector<Expression>* out, std::string* error) {
  if (count != 0 && !from) {
    *error = "expressions: " + std::to_string(count) + " are counted, and the array is missing [HD-E-07]";
    return false;
  }
  out->assign(from, from + count);
  return true;
}

}  // namespace

GraphTables::GraphTables(const Graph& graph) {
  for (const Value& value : graph.values) {
    values.push_back({sizeof(heddle_target_value_t), value.type, size_of(value.extents.size()), value.flags, value.extents.data()});
  }
  for (const Node& node : graph.nodes) {
    nodes.push_back({sizeof(heddle_target_node_t), node.kernel, string_of(node.name), string_of(node.location), node.inputs.data(),
                     node.outputs.data(), size_of(node.inputs.size()), size_of(node.outputs.size()), node.group, 0});
  }
  c = {sizeof(heddle_target_graph_t),
       graph.symbol_count,
       string_of(graph.function),
       string_of(graph.code),
       graph.expressions.data(),
       values.data(),
       nodes.data(),
       sizeof(heddle_target_value_t),
       sizeof(heddle_target_node_t),
       size_of(graph.expressions.size()),
       size_of(values.size()),
       size_of(nodes.size()),
       graph.group_count};
}

AnswerTables::AnswerTables(const Answer& answer) {
  for (const Claim& claim : answer.claims) {
    claims.push_back({sizeof(heddle_target_claim_t), size_of(claim.nodes.size()), claim.nodes.data(), string_of(claim.name),
                      string_of(claim.reason), claim.cost_ns});
  }
  for (const Refusal& refusal : answer.refusals) {
    refusals.push_back({sizeof(heddle_target_refusal_t), refusal.node, string_of(refusal.reason)});
  }
  c = {sizeof(heddle_target_answer_t),
       size_of(claims.size()),
       claims.data(),
       refusals.data(),
       sizeof(heddle_target_claim_t),
       sizeof(heddle_target_refusal_t),
       size_of(refusals.size()),
       0};
}

CodeTables::CodeTables(const Code& code) {
  for (const Entry& entry : code.entries) {
    entries.push_back({sizeof(heddle_target_entry_t), size_of(entry.guards.size()), string_of(entry.name), entry.guards.data(),
                       entry.workgroups, entry.workgroup_size, entry.subgroup_size, entry.binding_count, entry.constants_bytes, 0,
                       entry.shared_memory_bytes, entry.workspace_bytes, entry.cost_ns});
  }
  c = {sizeof(heddle_target_code_t),
       size_of(entries.size()),
       string_of(code.format),
       string_of(code.target),
       string_of(code.bytes),
       code.expressions.data(),
       entries.data(),
       sizeof(heddle_target_entry_t),
       size_of(code.expressions.size()),
       0,
       string_of(code.note)};
}

ParamsTables::ParamsTables(const Hello& hello) {
  for (const Fact& fact : hello.facts) {
    facts.push_back({sizeof(heddle_option_t), fact.kind, string_of(fact.name), fact.integer, fact.number, string_of(fact.text)});
  }
  c = {sizeof(heddle_target_params_t),
       size_of(facts.size()),
       string_of(hello.name),
       string_of(hello.level),
       facts.data(),
       sizeof(heddle_option_t),
       hello.fast_math,
       0};
}

heddle_target_kernel_t table_of(const Kernel& kernel) {
  return {sizeof(heddle_target_kernel_t), kernel.symbol_count, string_of(kernel.name), string_of(kernel.claim),
          string_of(kernel.code),         kernel.input_count,  kernel.output_count};
}

bool read(const heddle_target_graph_t& from, Graph* out, std::string* error) {
  *out = {};
  out->symbol_count = from.symbol_count;
  out->group_count = from.group_count;
  return texts({{from.function, &out->function}, {from.code, &out->code}}, error) &&
         expressions(from.expressions, from.expression_count, &out->expressions, error) &&
         each(from.values, from.value_count, from.value_stride, "values", error,
              [&](const heddle_target_value_t& value) {
                out->values.push_back({value.element_type, value.flags, {}});
                return numbers(value.extents, value.rank, "extents", &out->values.back().extents, error);
              }) &&
         each(from.nodes, from.node_count, from.node_stride, "nodes", error, [&](const heddle_target_node_t& node) {
           Node& made = out->nodes.emplace_back();
           made.kernel = node.kernel;
           made.group = node.group;
           return texts({{node.name, &made.name}, {node.location, &made.location}}, error) &&
                  numbers(node.inputs, node.input_count, "inputs of a node", &made.inputs, error) &&
                  numbers(node.outputs, node.output_count, "outputs of a node", &made.outputs, error);
         });
}

bool read(const heddle_target_answer_t& from, Answer* out, std::string* error) {
  *out = {};
  return each(from.claims, from.claim_count, from.claim_stride, "claims", error,
              [&](const heddle_target_claim_t& claim) {
                Claim& made = out->claims.emplace_back();
                made.cost_ns = claim.cost_ns;
                return texts({{claim.name, &made.name}, {claim.reason, &made.reason}}, error) &&
                       numbers(claim.nodes, claim.node_count, "nodes of a claim", &made.nodes, error);
              }) &&
         each(from.refusals, from.refusal_count, from.refusal_stride, "refusals", error, [&](const heddle_target_refusal_t& refusal) {
           Refusal& made = out->refusals.emplace_back();
           made.node = refusal.node;
           return texts({{refusal.reason, &made.reason}}, error);
         });
}

bool read(const heddle_target_kernel_t& from, Kernel* out, std::string* error) {
  *out = {};
  out->symbol_count = from.symbol_count;
  out->input_count = from.input_count;
  out->output_count = from.output_count;
  return texts({{from.name, &out->name}, {from.claim, &out->claim}, {from.code, &out->code}}, error);
}

bool read(const heddle_target_code_t& from, Code* out, std::string* error) {
  *out = {};
  return texts({{from.format, &out->format}, {from.target, &out->target}, {from.bytes, &out->bytes}, {from.note, &out->note}}, error) &&
         expressions(from.expressions, from.expression_count, &out->expressions, error) &&
         each(from.entries, from.entry_count, from.entry_stride, "entries", error, [&](const heddle_target_entry_t& entry) {
           Entry& made = out->entries.emplace_back();
           made.workgroups = entry.workgroups;
           made.workgroup_size = entry.workgroup_size;
           made.subgroup_size = entry.subgroup_size;
           made.binding_count = entry.binding_count;
           made.constants_bytes = entry.constants_bytes;
           made.shared_memory_bytes = entry.shared_memory_bytes;
           made.workspace_bytes = entry.workspace_bytes;
           made.cost_ns = entry.cost_ns;
           if (entry.guard_count != 0 && !entry.guards) {
             *error = "guards: " + std::to_string(entry.guard_count) + " are counted, and the array is missing [HD-E-07]";
             return false;
           }
           made.guards.assign(entry.guards, entry.guards + entry.guard_count);
           return texts({{entry.name, &made.name}}, error);
         });
}

bool read(const heddle_target_params_t& from, Hello* out, std::string* error) {
  *out = {};
  out->fast_math = from.fast_math;
  return texts({{from.name, &out->name}, {from.level, &out->level}}, error) &&
         each(from.facts, from.fact_count, from.fact_stride, "facts", error, [&](const heddle_option_t& fact) {
           Fact& made = out->facts.emplace_back();
           made.kind = fact.kind;
           made.integer = fact.int_value;
           made.number = fact.float_value;
           return texts({{fact.name, &made.name}, {fact.string_value, &made.text}}, error);
         });
}

}  // namespace heddle::sdk::target
