// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The basis of the cases about target plugins: an instance, an open target, and its answers as values. Destroyed in the right order.
#ifndef HEDDLE_CONFORMANCE_TARGET_SESSION_H_
#define HEDDLE_CONFORMANCE_TARGET_SESSION_H_

#include "graphs.h"
#include "heddle/sdk/target/checks.h"
#include "heddle/sdk/target/tables.h"
#include "session.h"

namespace heddle::conformance {

// What open gets, from the manifest: its first family and its facts.
target::Hello hello();
target::CodeRules code_rules();

// Bounds the address space of the process as the compiler does; not under a sanitizer.
void bound_memory();

class TargetSession {
 public:
  // Opens it, which must succeed.
  explicit TargetSession(const target::Hello& with = hello());
  ~TargetSession();
  TargetSession(const TargetSession&) = delete;
  TargetSession& operator=(const TargetSession&) = delete;

  const heddle_target_interface_t& table() const { return instance.tables.target; }
  // Each must succeed, or end the case; answers are read as heddle-target-host reads them.
  target::Answer claim(const target::Graph& graph);
  // False, with the reason: the plugin gives the claim back.
  bool emit(const target::Kernel& kernel, target::Code* out, std::string* out_reason);
  target::Code inspect(const target::Code& code);

  Instance instance;
  heddle_target_t* handle = nullptr;
};

// The claims of a graph that are as they have to be, and what they become.
struct Emitted {
  ClaimedKernel kernel;
  target::Code code;
};
struct Compiled {
  MadeGraph made;
  target::Answer answer;
  std::vector<Emitted> emitted;
  uint32_t given_back = 0;
};
Compiled compile(TargetSession& session, MadeGraph made);
// Of a random graph.
Compiled compile(TargetSession& session, std::mt19937_64& random, uint32_t node_count);

// Texts that two answers to the same question share.
std::string text_of(const target::Answer& answer);
std::string text_of(const target::Code& code);

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_TARGET_SESSION_H_
