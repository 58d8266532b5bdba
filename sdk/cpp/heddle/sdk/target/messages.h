// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The structs of heddle/target.h as C++ values, and as bytes: what the compiler and heddle-target-host say to each other. The page
// plugin-targets.md has the protocol. Knows no process and no plugin. Bytes may be hostile: decoding checks every count against
// the bytes that are left.
#ifndef HEDDLE_SDK_TARGET_MESSAGES_H_
#define HEDDLE_SDK_TARGET_MESSAGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/target.h"

namespace heddle::sdk::target {

// Of every frame. A process of another version answers kFailed, and neither side guesses.
inline constexpr uint16_t kProtocol = 1;

enum class Kind : uint16_t {
  kHello = 1,  // to the process, first: Hello; the answer is kReady
  kClaim,      // Graph; kAnswer
  kEmit,       // Kernel; kCode
  kInspect,    // Code; kCode
  kReady,      // from the process: Ready
  kAnswer,     // Answer
  kCode,       // Code
  kFailed,     // Failed, instead of any answer
};

// A frame is this header, little-endian, and `bytes` of payload.
struct FrameHeader {
  uint32_t bytes;
  uint16_t kind;
  uint16_t protocol;
};
inline constexpr uint32_t kHeaderBytes = 8;

using Expression = heddle_target_expression_t;
using Guard = heddle_target_guard_t;

struct Fact {
  std::string name;
  uint32_t kind = HEDDLE_OPTION_INT;  // HEDDLE_OPTION_*
  int64_t integer = 0;
  double number = 0;
  std::string text;
};

struct Hello {
  std::string library;      // path of the plugin, absolute
  std::string id, version;  // as in its manifest
  std::string name, level;  // of the target
  uint32_t fast_math = 0;
  std::vector<Fact> facts;                     // sorted by name
  uint64_t memory_bytes = 0, cpu_seconds = 0;  // limits of the process
};

struct Ready {
  uint32_t abi_minor = 0;
  uint32_t can_inspect = 0;
};

struct Failed {
  uint32_t code = 0;  // heddle_status_code_t
  std::string message;
};

struct Value {
  heddle_element_type_t type = 0;
  uint32_t flags = 0;  // HEDDLE_TARGET_VALUE_*
  std::vector<uint32_t> extents;
};

struct Node {
  uint32_t kernel = 0, group = 0;
  std::string name, location;
  std::vector<uint32_t> inputs, outputs;
};

struct Graph {
  std::string function, code;
  uint32_t symbol_count = 0, group_count = 0;
  std::vector<Expression> expressions;
  std::vector<Value> values;
  std::vector<Node> nodes;
};

struct Claim {
  std::vector<uint32_t> nodes;
  std::string name, reason;
  uint64_t cost_ns = 0;
};

struct Refusal {
  uint32_t node = 0;
  std::string reason;
};

struct Answer {
  std::vector<Claim> claims;
  std::vector<Refusal> refusals;
};

struct Kernel {
  std::string name, claim, code;
  uint32_t symbol_count = 0, input_count = 0, output_count = 0;
};

struct Entry {
  std::string name;
  std::vector<Guard> guards;
  uint32_t workgroups = 0, workgroup_size = 1, subgroup_size = 0, binding_count = 0, constants_bytes = 0;
  uint64_t shared_memory_bytes = 0, workspace_bytes = 0, cost_ns = 0;
};

struct Code {
  std::string format, target, bytes, note;
  std::vector<Expression> expressions;
  std::vector<Entry> entries;
};

// A whole frame.
std::string encode(const Hello& message);
std::string encode(const Ready& message);
std::string encode(const Failed& message);
std::string encode(const Graph& message);
std::string encode(const Answer& message);
std::string encode(const Kernel& message);
std::string encode(const Code& message, Kind kind);  // kInspect or kCode

// A payload. False: it ends early, has bytes too many, or a count that its bytes cannot hold.
bool decode(std::string_view payload, Hello* out);
bool decode(std::string_view payload, Ready* out);
bool decode(std::string_view payload, Failed* out);
bool decode(std::string_view payload, Graph* out);
bool decode(std::string_view payload, Answer* out);
bool decode(std::string_view payload, Kernel* out);
bool decode(std::string_view payload, Code* out);

std::string write_header(const FrameHeader& header);
FrameHeader read_header(const char (&bytes)[kHeaderBytes]);

}  // namespace heddle::sdk::target
#endif  // HEDDLE_SDK_TARGET_MESSAGES_H_
