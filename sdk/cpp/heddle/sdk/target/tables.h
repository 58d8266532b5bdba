// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages as the structs of heddle/target.h, and back. Used by plugin.h and by heddle-target-host, each for the other direction.
#ifndef HEDDLE_SDK_TARGET_TABLES_H_
#define HEDDLE_SDK_TARGET_TABLES_H_

#include "heddle/sdk/target/messages.h"

namespace heddle::sdk::target {

// The C structs of a message, which they refer to.
struct GraphTables {
  explicit GraphTables(const Graph& graph);
  std::vector<heddle_target_value_t> values;
  std::vector<heddle_target_node_t> nodes;
  heddle_target_graph_t c;
};
struct AnswerTables {
  explicit AnswerTables(const Answer& answer);
  std::vector<heddle_target_claim_t> claims;
  std::vector<heddle_target_refusal_t> refusals;
  heddle_target_answer_t c;
};
struct CodeTables {
  explicit CodeTables(const Code& code);
  std::vector<heddle_target_entry_t> entries;
  heddle_target_code_t c;
};
struct ParamsTables {
  explicit ParamsTables(const Hello& hello);
  std::vector<heddle_option_t> facts;
  heddle_target_params_t c;
};
heddle_target_kernel_t table_of(const Kernel& kernel);

// Copies what the other side gave. On failure false: *out_error names the field.
bool read(const heddle_target_graph_t& from, Graph* out, std::string* out_error);
bool read(const heddle_target_answer_t& from, Answer* out, std::string* out_error);
bool read(const heddle_target_kernel_t& from, Kernel* out, std::string* out_error);
bool read(const heddle_target_code_t& from, Code* out, std::string* out_error);
bool read(const heddle_target_params_t& from, Hello* out, std::string* out_error);

}  // namespace heddle::sdk::target
#endif  // HEDDLE_SDK_TARGET_TABLES_H_
