// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sample driver's compiler target: `heddle compile --target sample` asks it what it takes of a model, and for the code. It takes element-wise ops of
// f32 (sums, differences, products, maxima, minima) and writes "sample-stack/1", a workgroup for each range of elements; everything else the driver
// interprets. Replace the format, and what is taken, with your own. It runs in a process of its own: nothing here can harm the compiler.
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "heddle/sdk/target/plugin.h"

namespace sample {

namespace portable = heddle::sdk::portable;
namespace target = heddle::sdk::target;
using portable::Expression;
using portable::Op;
using target::Refused;

constexpr char kFormat[] = "sample-stack/1";

// The instruction of the stack machine for an op of two operands; NULL: it has none.
const char* instruction_of(Op op) {
  switch (op) {
    case Op::kAddF:
      return "addf";
    case Op::kSubF:
      return "subf";
    case Op::kMulF:
      return "mulf";
    case Op::kMaximumF:
      return "maxf";
    case Op::kMinimumF:
      return "minf";
    default:
      return nullptr;
  }
}

// A kernel that is a single map of f32, each element from those at its own place, and from single elements.
class Translator {
 public:
  // elements: that a workgroup computes.
  Translator(const portable::Kernel& kernel, int64_t most_instructions, int64_t elements)
      : kernel_(kernel), most_(most_instructions), elements_(elements) {}

  // Why it cannot be translated; empty: it can.
  std::string check() {
    if (kernel_.nodes.size() != 1 || kernel_.nodes[0].kind != portable::NodeKind::kMap) return "it is not one map";
    const portable::Node& node = kernel_.nodes[0];
    if (node.results.size() != 1 || node.bodies[0].yields.size() != 1) return "it has several results";
    for (const portable::Tensor& tensor : kernel_.tensors) {
      if (tensor.type != HEDDLE_TYPE_F32) return "a tensor is not f32";
    }
    for (const portable::Read& read : node.reads) {
      if (read.has_outside || !read.gathers.empty()) return "it reads outside of a tensor, or at places that it reads";
      if (!is_own_place(node, read) && !is_single(read)) return "it reads other elements than the one at its own place";
    }
    steps_ = 0;
    std::ostringstream text;
    return write(node.bodies[0].yields[0], 1, text) ? "" : reason_;
  }

  // After check().
  target::Code translate(const std::string& name) {
    const portable::Node& node = kernel_.nodes[0];
    std::ostringstream text;
    text << "kernel " << name << " " << kernel_.inputs + kernel_.outputs << " " << kernel_.symbols * 8 << "\n  each " << elements_;
    // The last workgroup may have fewer.
    text << " item size32 " << node.results[0] << " less require item";
    steps_ = 0;
    write(node.bodies[0].yields[0], 1, text);
    text << " store32 " << node.results[0] << "\n";
    target::Code code;
    code.format = kFormat;
    code.target = "generic";
    code.bytes = text.str();
    target::Entry entry;
    entry.name = name;
    entry.binding_count = kernel_.inputs + kernel_.outputs;
    entry.constants_bytes = kernel_.symbols * 8;
    entry.workgroups = workgroups_of(node, code.expressions);
    code.entries.push_back(entry);
    return code;
  }

 private:
  bool is_own_place(const portable::Node& node, const portable::Read& read) const {
    const portable::Tensor& tensor = kernel_.tensors[read.tensor];
    if (tensor.extents != node.extents || read.place.size() != node.extents.size()) return false;
    for (size_t i = 0; i < read.place.size(); ++i) {
      const Expression& at = kernel_.expressions[read.place[i]];
      if (at.kind != Expression::kDimension || at.value != static_cast<int64_t>(i)) return false;
    }
    return true;
  }
  bool is_single(const portable::Read& read) const {
    for (uint32_t extent : kernel_.tensors[read.tensor].extents) {
      if (kernel_.expressions[extent].kind != Expression::kConstant || kernel_.expressions[extent].value != 1) return false;
    }
    return true;
  }

  // Code that pushes a value of the body, which is computed again wherever it is used. depth: of the stack before it.
  bool write(uint32_t value, int depth, std::ostringstream& text) {
    const portable::Node& node = kernel_.nodes[0];
    const portable::Body& body = node.bodies[0];
    constexpr int kDepth = 8;  // of the machine
    if (++steps_ > most_ || depth + 1 > kDepth) return refuse("it needs more instructions or a deeper stack than the device has");
    if (value < node.rank()) return refuse("it computes with its index");
    if (value < body.arguments.size()) {
      const portable::Read& read = node.reads[value - node.rank()];
      text << (is_own_place(node, read) ? " item" : " push 0") << " load32 " << read.tensor;
      return true;
    }
    const portable::Instruction& at = body.instructions[value - body.arguments.size()];
    if (at.type != portable::Scalar::kF32) return refuse("it computes in another type than f32");
    if (at.op == Op::kConstant) {
      text << " push " << at.value;
      return true;
    }
    if (const char* instruction = instruction_of(at.op)) {
      if (!write(at.a, depth, text) || !write(at.b, depth + 1, text)) return false;
      text << " " << instruction;
      return true;
    }
    return refuse("the device has no instruction for an op of it");
  }
  bool refuse(const char* reason) {
    reason_ = reason;
    return false;
  }

  // The number of elements divided by that of a workgroup, rounded up, as an expression over symbols. It is 0 in calls in which nothing is to be written.
  uint32_t workgroups_of(const portable::Node& node, std::vector<target::Expression>& out) {
    auto add = [&](target::Expression expression) {
      out.push_back(expression);
      return static_cast<uint32_t>(out.size() - 1);
    };
    std::map<uint32_t, uint32_t> known;
    // Those of extents are over symbols, and have the same kinds.
    auto copy = [&](auto&& self, uint32_t from) -> uint32_t {
      if (auto found = known.find(from); found != known.end()) return found->second;
      const Expression& one = kernel_.expressions[from];
      target::Expression made{static_cast<uint32_t>(one.kind), 0, 0, 0, one.value};
      if (one.kind > Expression::kSymbol) made.a = self(self, one.a), made.b = self(self, one.b);
      return known[from] = add(made);
    };
    uint32_t count = add({HEDDLE_TARGET_CONSTANT, 0, 0, 0, 1});
    for (uint32_t extent : node.extents) {
      const uint32_t factor = copy(copy, extent);
      count = add({HEDDLE_TARGET_MULTIPLY, count, factor, 0, 0});
    }
    const uint32_t elements = add({HEDDLE_TARGET_CONSTANT, 0, 0, 0, elements_});
    return add({HEDDLE_TARGET_CEIL_DIVIDE, count, elements, 0, 0});
  }

  const portable::Kernel& kernel_;
  const int64_t most_, elements_;
  int64_t steps_ = 0;
  std::string reason_;
};

class Target {
 public:
  explicit Target(const target::Hello& hello)
      : instructions_(target::integer_of(hello, "instructions", 64)), elements_(target::integer_of(hello, "elements", 1 << 18)) {
    for (const target::Fact& fact : hello.facts) {
      if (fact.name == "parts" && fact.kind == HEDDLE_OPTION_BOOL) parts_ = fact.integer != 0;
    }
    if (instructions_ < 1) throw Refused("fact 'instructions' must be 1 or more", HEDDLE_STATUS_INVALID_ARGUMENT);
    if (elements_ < 1) throw Refused("fact 'elements' must be 1 or more", HEDDLE_STATUS_INVALID_ARGUMENT);
    if (!hello.level.empty()) throw Refused("target '" + hello.name + "' has no levels", HEDDLE_STATUS_INVALID_ARGUMENT);
  }

  // Groups of which it can do every node, as a whole; of other groups, if it is to take parts, the nodes alone.
  target::Answer claim(const target::Graph& graph, const std::vector<portable::Kernel>& kernels) {
    target::Answer answer;
    std::vector<std::vector<uint32_t>> good(graph.group_count);
    std::vector<bool> is_whole(graph.group_count, true);
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const target::Node& node = graph.nodes[i];
      const std::string reason = Translator(kernels[node.kernel], instructions_, elements_).check();
      if (reason.empty()) {
        good[node.group].push_back(i);
      } else {
        is_whole[node.group] = false;
        answer.refusals.push_back({i, reason});
      }
    }
    for (uint32_t group = 0; group < graph.group_count; ++group) {
      if (is_whole[group] && !good[group].empty()) {
        answer.claims.push_back({good[group], "sample.elements", "sums, products and maxima of f32", 0});
        continue;
      }
      for (uint32_t node : good[group]) {
        if (parts_) {
          answer.claims.push_back({{node}, "sample.elements", "a part of a group", 0});
        } else {
          answer.refusals.push_back({node, "other nodes of its group are not element-wise"});
        }
      }
    }
    return answer;
  }

  target::Code emit(const target::Kernel& asked, const portable::Kernel& kernel) {
    Translator translator(kernel, instructions_, elements_);
    if (const std::string reason = translator.check(); !reason.empty()) throw Refused(reason);
    return translator.translate(asked.name);
  }

  // "kernel NAME BINDINGS CONSTANTS_BYTES", as the driver reads it.
  std::vector<target::Entry> inspect(const target::Code& code) {
    if (code.format != kFormat) throw Refused("format '" + code.format + "' is not " + kFormat);
    std::vector<target::Entry> entries;
    std::istringstream words(code.bytes);
    for (std::string word; words >> word;) {
      if (word != "kernel") continue;
      target::Entry& entry = entries.emplace_back();
      if (!(words >> entry.name >> entry.binding_count >> entry.constants_bytes))
        throw Refused("a kernel's first line is damaged", HEDDLE_STATUS_DATA_LOSS);
    }
    return entries;
  }

 private:
  // A device runs a limited number of workgroups, and a call with more fails. The driver says 2^20, so that the default of 2^18 elements for each suffices
  // for 2^38, which is all that its memory may hold.
  int64_t instructions_, elements_;
  bool parts_ = false;
};

}  // namespace sample

HEDDLE_TARGET_PLUGIN("org.example.sample_target", "0.1.0", sample::Target)
