// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A write takes its bytes from the writers before it; a read uses every writer that still has bytes of its part. A range that is known only at a call
// may be any: such a write takes no bytes from others.
#include "tools/page/graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "sdk/module/element_types.h"
#include "sdk/module/error.h"

namespace heddle::tool {
namespace {

constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

std::optional<uint64_t> known(const Json& object, const char* name) {
  const Json& value = part(object, name);
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

struct Range {
  uint64_t begin = 0, end = kEnd;
  bool is_exact = true;  // otherwise some bytes of it, known only at a call

  // size: of the whole value, if it is known.
  static Range of(const Json& binding, std::optional<uint64_t> size) {
    const uint64_t last = size.value_or(kEnd);
    const auto begin = binding.contains("offset") ? known(binding, "offset") : 0;
    if (!begin) return {0, last, false};
    if (!binding.contains("bytes")) return {*begin, last, true};
    const auto bytes = known(binding, "bytes");
    if (!bytes || *bytes > kEnd - *begin) return {*begin, last, false};
    return {*begin, *begin + *bytes, true};
  }
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

// Bytes of "f32[1,197,768]"; nothing if an extent is not a number or one of the symbols. The symbols that occur are added to `factors`.
std::optional<uint64_t> bytes_of_type(const std::string& type, const std::vector<std::string>& symbols = {},
                                      std::string* factors = nullptr) {
  const size_t open = type.find('[');
  if (open == std::string::npos || type.back() != ']') return std::nullopt;
  const heddle_element_type_t code = module::element_type_from_name(type.substr(0, open));
  if (code == HEDDLE_TYPE_UNDEFINED) return std::nullopt;
  std::vector<int64_t> dims;
  for (size_t begin = open + 1; begin + 1 < type.size();) {
    const size_t end = std::min(type.find(',', begin), type.size() - 1);
    const std::string extent = type.substr(begin, end - begin);
    begin = end + 1;
    if (std::find(symbols.begin(), symbols.end(), extent) != symbols.end()) {
      *factors += " \xC3\x97 " + extent;
      continue;
    }
    if (extent.empty() || extent.size() > 18 || extent.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    dims.push_back(std::stoll(extent));
  }
  return module::tensor_bytes(HEDDLE_TYPE_BITS(code), dims);
}

struct Writer {
  size_t node;
  Range range;  // where it may have written last
  std::string type;
};

// Takes the bytes of `range` from the writers.
void overwrite(std::vector<Writer>& writers, const Range& range) {
  std::vector<Writer> kept;
  for (Writer& one : writers) {
    for (const Range& rest :
         {Range{one.range.begin, std::min(one.range.end, range.begin)}, Range{std::max(one.range.begin, range.end), one.range.end}}) {
      if (rest.begin < rest.end) kept.push_back({one.node, rest, one.type});
    }
  }
  writers = std::move(kept);
}

class Builder {
 public:
  Builder(const Json& whole, const Json& function, const Json& program)
      : whole_(whole), function_(function), program_(program), slots_(array(whole, "slots")), report_(part(whole, "compiler_report")) {}

  Graph build() {
    index_report();
    for (const Json& command : array(program_, "commands")) add_command(command);
    add_results();
    find_slots();
    return std::move(graph_);
  }

 private:
  using Values = std::map<std::string, std::vector<Writer>>;

  static std::string key_of(const Json& binding) { return text(binding, "value") + " " + text(binding, "index"); }

  void index_report() {
    for (const Json& region : array(report_, "regions")) {
      if (region.is_object() && array(region, "families") == array(program_, "families"))
        regions_.try_emplace(text(region, "region"), &region);
    }
    for (const Json& kernel : array(report_, "kernels"))
      kernels_.try_emplace(text(kernel, "family") + ' ' + text(kernel, "kernel"), &kernel);
    for (const Json& one : array(program_, "operations")) {
      if (one.value("required", true)) operators_.try_emplace(text(one, "region"), text(one, "operator"));
    }
  }

  const Json& tensor(const char* list, uint64_t index) const {
    static const Json kNothing = Json::object();
    const Json& all = array(function_, list);
    return index < all.size() ? all[index] : kNothing;
  }
  const Json& global(uint64_t index) const {
    static const Json kNothing = Json::object();
    const Json& all = array(whole_, "globals");
    return index < all.size() ? all[index] : kNothing;
  }

  // Of a whole value.
  std::optional<uint64_t> size_of(const Json& binding) const {
    const std::string kind = text(binding, "value");
    const uint64_t index = number(binding, "index");
    if (kind == "global") return known(global(index), "size_bytes");
    if (kind == "argument" || kind == "result")
      return bytes_of_type(text(tensor(kind == "argument" ? "arguments" : "results", index), "type"));
    const Json& sizes = array(program_, "transient_bytes");
    if (kind == "transient" && index < sizes.size() && sizes[index].is_number_unsigned()) return sizes[index].get<uint64_t>();
    return std::nullopt;
  }
  std::optional<uint64_t> bytes_of(const Json& binding) const {
    if (binding.contains("bytes")) return known(binding, "bytes");
    if (const auto bytes = bytes_of_type(text(binding, "type"))) return bytes;
    return size_of(binding);
  }

  // Only of transients: other values are accessed as a whole, or up to their end.
  std::optional<uint64_t> whole_size(const Json& binding) const {
    return text(binding, "value") == "transient" ? size_of(binding) : std::nullopt;
  }

  size_t add(Node node) {
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.size() - 1;
  }

  // The values from outside of the function: a node when it is first read.
  void add_source(const Json& binding) {
    const std::string key = key_of(binding), kind = text(binding, "value");
    const bool is_state = kind == "global" && text(global(number(binding, "index")), "kind") == "state";
    if ((kind != "argument" && !is_state) || written_.contains(key)) return;
    Node node;
    const Json& from = is_state ? global(number(binding, "index")) : tensor("arguments", number(binding, "index"));
    node.kind = is_state ? Node::Kind::kState : Node::Kind::kArgument;
    node.name = text(from, "name");
    node.group = is_state ? "state" : "argument";
    node.slot = node.from_slot = number(from, "slot");
    node.outputs.push_back(is_state ? bytes_text(number(from, "size_bytes")) : text(from, "type"));
    node.written_bytes = size_of(binding);
    written_[key].push_back({add(std::move(node)), {}, graph_.nodes.back().outputs[0]});
  }

  void describe_region(const Json& command, Node& node) const {
    node.whole_name = text(command, "region");
    node.name = region_name(node.whole_name);
    node.slot = node.from_slot = number(command, "slot");
    if (node.whole_name.size() > node.name.size() + 1) node.nodes.push_back(node.whole_name.substr(node.name.size() + 1));
    node.group = "other";
    if (const auto own = operators_.find(node.whole_name); own != operators_.end()) {
      node.group = "plugin operator";
      node.ops.push_back(own->second);
    }
    const auto region = regions_.find(node.name);
    if (region == regions_.end()) return;
    node.region = region->second;
    if (node.region->contains("kind")) node.group = text(*node.region, "kind");
    const Json& ops = array(*node.region, "ops");
    // Compilers before 0.1 was released did not state the operators.
    const bool has_operators =
        std::any_of(ops.begin(), ops.end(), [](const Json& op) { return op.is_object() && op.contains("operator"); });
    // A node may have no more than the broadcast of a constant here, which it shares with a node of this region; it is computed elsewhere.
    std::set<std::string> computed;
    for (const Json& op : ops) {
      if (text(op, "op") != "tx.broadcast" && text(op, "op") != "tx.constant") computed.insert(text(op, "node"));
    }
    std::vector<std::string> known;
    for (const Json& op : ops) {
      std::string word = text(op, "op");
      if (word.starts_with("tx.")) word.erase(0, 3);
      if (word == "constant") continue;
      const std::string name = text(op, "node");
      if (word == "broadcast" && name != "-" && !computed.empty() && !computed.contains(name)) continue;
      if (name != "-" && std::find(node.nodes.begin(), node.nodes.end(), name) == node.nodes.end()) node.nodes.push_back(name);
      if (!has_operators) {
        if (word != "broadcast") node.ops.push_back(std::move(word));
      } else if (op.contains("operator") && std::find(known.begin(), known.end(), name) == known.end()) {
        known.push_back(name);
        if (!node.nodes.empty() && name == node.nodes[0]) node.root = text(op, "operator");
        node.ops.push_back(text(op, "operator"));
      }
    }
    if (const Json& flops = part(*node.region, "flops"); flops.is_number()) node.flops = flops.get<double>();
    // Only the compiler's own changes of layout: the operator that they are for is computed elsewhere.
    if (node.group == "movement" && moves_only(ops)) node.ops = {"transpose"};
    if (node.group == "movement" && !ops.empty() && std::all_of(ops.begin(), ops.end(), [](const Json& op) {
          return text(op, "op") == "tx.broadcast" && op.contains("operator") && text(op, "operator") != "Expand";
        })) {
      node.ops = {"broadcast"};
    }
    const auto kernel = kernels_.find(text(*node.region, "family") + ' ' + text(*node.region, "kernel"));
    if (kernel != kernels_.end()) node.kernel = kernel->second;
  }

  static bool moves_only(const Json& ops) {
    return std::all_of(ops.begin(), ops.end(),
                       [](const Json& op) { return text(op, "op") == "tx.transpose" || text(op, "op") == "tx.reshape"; });
  }

  void add_command(const Json& command) {
    const std::string kind = text(command, "command");
    Node node;
    if (kind == "dispatch") {
      describe_region(command, node);
    } else {
      node.kind = kind == "copy" ? Node::Kind::kCopy : kind == "fill" ? Node::Kind::kFill : Node::Kind::kRead;
      node.name = kind == "read" ? "read by the host" : kind;
      node.group = kind == "copy" ? "copy" : "other";
    }
    auto sum = [](std::optional<uint64_t>& total, std::optional<uint64_t> bytes) {
      total = total && bytes ? std::optional(*total + *bytes) : std::nullopt;
    };
    const Json& bindings = array(command, "bindings");
    auto has = [](const Json& binding, const char* access) {
      return text(binding, "access") == access || text(binding, "access") == "both";
    };
    // A check of values, such as of the indices of a Gather, computes nothing else.
    if (node.kind == Node::Kind::kRegion && !node.ops.empty() && !bindings.empty() &&
        std::all_of(bindings.begin(), bindings.end(),
                    [&](const Json& one) { return has(one, "write") == (text(one, "value") == "verdict"); })) {
      node.ops = {"check of " + node.ops[0]};
    }
    if (node.kind != Node::Kind::kRegion &&
        std::any_of(bindings.begin(), bindings.end(), [](const Json& one) { return text(one, "value") == "verdict"; }))
      return;  // hands on the verdict of a check; no data
    for (const Json& binding : bindings) {
      if (!binding.is_object() || !has(binding, "read") || text(binding, "value") == "verdict") continue;
      add_source(binding);
      const std::string key = key_of(binding);
      const auto bytes = bytes_of(binding);
      sum(node.read_bytes, bytes);
      if (const auto writers = written_.find(key); writers != written_.end()) {
        use(writers->first, writers->second, Range::of(binding, whole_size(binding)), bytes, node);
      } else if (text(binding, "value") == "global") {
        const Json& from = global(number(binding, "index"));
        node.weights.push_back({text(from, "name"), text(from, "kind"), text(binding, "type"), number(from, "size_bytes")});
      }
    }
    size_t output = 0;
    std::vector<std::pair<const Json*, std::string>> written;
    for (const Json& binding : bindings) {
      if (!binding.is_object() || !has(binding, "write") || text(binding, "value") == "verdict") continue;
      sum(node.written_bytes, bytes_of(binding));
      std::string type = binding.contains("type") ? text(binding, "type") : std::string();
      // The compiler's report has the names of symbols.
      const Json& results = node.region ? array(*node.region, "results") : array(Json(), "");
      if (output < results.size()) type = cell_text(results[output]);
      if (node.kind == Node::Kind::kCopy && !node.uses.empty()) type = node.uses[0].type;
      ++output;
      node.outputs.push_back(type);
      written.emplace_back(&binding, std::move(type));
    }
    const size_t index = add(std::move(node));
    for (auto& [binding, type] : written) {
      std::vector<Writer>& writers = written_[key_of(*binding)];
      const Range range = Range::of(*binding, whole_size(*binding));
      if (range.is_exact) overwrite(writers, range);
      writers.push_back({index, range, std::move(type)});
    }
  }

  void use(const std::string& value, const std::vector<Writer>& writers, const Range& range, std::optional<uint64_t> bytes,
           Node& node) const {
    for (const Writer& writer : writers) {
      const bool is_known =
          std::any_of(node.uses.begin(), node.uses.end(), [&](const Use& one) { return one.from == writer.node && one.value == value; });
      if (!is_known && writer.range.overlaps(range)) node.uses.push_back({writer.node, value, writer.type, bytes});
    }
  }

  // What remains after the last command.
  void add_results() {
    auto add_end = [&](const std::string& key, Node node) {
      const auto writers = written_.find(key);
      if (writers == written_.end()) return;
      use(key, writers->second, {}, std::nullopt, node);
      std::erase_if(node.uses, [&](const Use& one) { return graph_.nodes[one.from].kind == Node::Kind::kState; });
      if (!node.uses.empty()) add(std::move(node));
    };
    const Json& results = array(function_, "results");
    for (size_t i = 0; i < results.size(); ++i) {
      Node node;
      node.kind = Node::Kind::kResult;
      node.name = text(results[i], "name");
      node.group = "result";
      node.slot = node.from_slot = number(results[i], "slot");
      node.outputs.push_back(text(results[i], "type"));
      add_end(module::concat("result ", i), std::move(node));
    }
    const Json& globals = array(whole_, "globals");
    for (size_t i = 0; i < globals.size(); ++i) {
      if (text(globals[i], "kind") != "state") continue;
      Node node;
      node.kind = Node::Kind::kState;
      node.name = text(globals[i], "name");
      node.group = "state";
      node.slot = node.from_slot = number(globals[i], "slot");
      node.outputs.push_back(bytes_text(number(globals[i], "size_bytes")));
      add_end(module::concat("global ", i), std::move(node));
    }
  }

  // A copy is from the slot of the value's writer to that of its first reader.
  void find_slots() {
    std::vector<Node>& nodes = graph_.nodes;
    auto has_own = [](const Node& node) {
      return node.kind != Node::Kind::kCopy && node.kind != Node::Kind::kFill && node.kind != Node::Kind::kRead;
    };
    for (Node& node : nodes) {
      if (!has_own(node) && !node.uses.empty()) node.slot = node.from_slot = nodes[node.uses[0].from].slot;
    }
    for (size_t i = nodes.size(); i-- > 0;) {
      for (const Use& one : nodes[i].uses) {
        if (!has_own(nodes[one.from])) nodes[one.from].slot = nodes[i].slot;
      }
    }
    for (Node& node : nodes) {
      if (!node.crosses()) continue;
      auto name = [&](uint64_t slot) {
        return slot < slots_.size() && cell_text(slots_[slot]) != "-" ? cell_text(slots_[slot]) : std::string("default");
      };
      node.name = "copy from " + name(node.from_slot) + " to " + name(node.slot);
      if (node.written_bytes) {
        node.size = bytes_text(*node.written_bytes);
      } else if (!node.outputs.empty()) {
        std::vector<std::string> symbols;
        for (const Json& symbol : array(function_, "symbols")) symbols.push_back(text(symbol, "name"));
        std::string factors;
        if (const auto bytes = bytes_of_type(node.outputs[0], symbols, &factors)) node.size = bytes_text(*bytes) + factors;
      }
    }
  }

  const Json &whole_, &function_, &program_, &slots_, &report_;
  std::map<std::string, const Json*> regions_, kernels_;
  std::map<std::string, std::string> operators_;
  Values written_;
  Graph graph_;
};

}  // namespace

std::string region_name(const std::string& whole_name) {
  return whole_name.substr(0, whole_name.find(' '));
}

Graph make_graph(const Json& whole, const Json& function, const Json& program) {
  return Builder(whole, function, program).build();
}

}  // namespace heddle::tool
