// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See names.h. The expansion of a name is a function from an index of the domain to places in tensors; it is compared with the node's expressions along
// each dimension, from the origin. Sums of terms in one index each that agree there are the same function.
#include "heddle/sdk/portable/names.h"

#include <algorithm>
#include <functional>

#include "heddle/sdk/portable/ops.h"

namespace heddle::sdk::portable {

namespace {

constexpr uint64_t kMostWork = uint64_t{1} << 24;  // expressions evaluated for one name

// A name that has another form, or whose node has; and one that its node contradicts.
struct Unknown {
  std::string reason;
};
struct Disagreement {
  std::string reason;
};

// Evaluates expressions of a kernel at one index.
class Places {
 public:
  Places(const Kernel& kernel, const std::vector<int64_t>& symbols) : kernel_(kernel), symbols_(symbols) {
    for (const Expression& e : kernel.expressions) {
      const bool has_operands = e.kind > Expression::kSymbol;
      uint64_t dims = has_operands ? dims_[e.a] | dims_[e.b] : e.kind == Expression::kDimension ? uint64_t{1} << e.value : 0;
      bool is_sum = (dims & (dims - 1)) == 0;
      if (e.kind == Expression::kAdd) is_sum |= is_sum_[e.a] && is_sum_[e.b];
      if (e.kind == Expression::kMul) is_sum |= (dims_[e.a] == 0 && is_sum_[e.b]) || (dims_[e.b] == 0 && is_sum_[e.a]);
      dims_.push_back(dims);
      is_sum_.push_back(is_sum);
    }
    values_.resize(kernel.expressions.size());
  }

  // Of an expression over symbols.
  int64_t known(uint32_t expression) { return at(expression, {}); }

  int64_t at(uint32_t expression, const std::vector<int64_t>& index) {
    work_ += expression + 1;
    if (work_ > kMostWork) throw Unknown{"it takes too long to compare"};
    for (uint32_t i = 0; i <= expression; ++i) {
      const Expression& e = kernel_.expressions[i];
      const bool has_operands = e.kind > Expression::kSymbol;
      const auto a = static_cast<uint64_t>(has_operands ? values_[e.a] : 0), b = static_cast<uint64_t>(has_operands ? values_[e.b] : 0);
      const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
      int64_t& out = values_[i];
      out = 0;
      if (e.kind == Expression::kConstant) out = e.value;
      if (e.kind == Expression::kSymbol) out = symbols_[static_cast<size_t>(e.value)];
      if (e.kind == Expression::kDimension && static_cast<size_t>(e.value) < index.size()) out = index[static_cast<size_t>(e.value)];
      if (e.kind == Expression::kAdd) out = static_cast<int64_t>(a + b);
      if (e.kind == Expression::kMul) out = static_cast<int64_t>(a * b);
      if (e.kind < Expression::kFloorDiv || y <= 0) continue;
      const int64_t down = x / y - (x % y < 0);
      out = e.kind == Expression::kFloorDiv ? down : e.kind == Expression::kCeilDiv ? down + (x % y != 0) : x % y + (x % y < 0 ? y : 0);
    }
    return values_[expression];
  }

  // Whether an expression is the sum that `expected` is, at every index below the extents.
  bool is(uint32_t expression, const std::vector<int64_t>& extents, const std::function<int64_t(const std::vector<int64_t>&)>& expected) {
    if (!is_sum_[expression]) throw Unknown{"a place is no sum of terms in one index each"};
    std::vector<int64_t> index(extents.size());
    for (size_t d = 0; d < extents.size(); ++d) {
      for (index[d] = 0; index[d] < extents[d]; ++index[d]) {
        if (at(expression, index) != expected(index)) return false;
      }
      index[d] = 0;
    }
    return true;
  }

 private:
  const Kernel& kernel_;
  const std::vector<int64_t>& symbols_;
  std::vector<uint64_t> dims_;
  std::vector<bool> is_sum_;
  std::vector<int64_t> values_;
  uint64_t work_ = 0;
};

// Numbers come from files: they wrap, as those of expressions do.
int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

std::vector<int64_t> integers(const NamedOp& op, const char* attribute, size_t count) {
  constexpr int64_t kMost = int64_t{1} << 31;  // so that nothing below wraps for extents that a tensor can have
  std::vector<int64_t> out;
  if (!integers_of(op, attribute, &out) || out.size() != count)
    throw Unknown{std::string("it has no attribute '") + attribute + "' of " + std::to_string(count) + " integers"};
  if (std::any_of(out.begin(), out.end(), [](int64_t value) { return value < -kMost || value > kMost; }))
    throw Unknown{std::string("its attribute '") + attribute + "' is too large"};
  return out;
}

class Checker {
 public:
  Checker(const Kernel& kernel, const std::vector<int64_t>& symbols) : k_(kernel), places_(kernel, symbols) {}

  void contraction(const NamedOp& op, const Node& node) {
    begin(node);
    const Body& factors = node.bodies[0];
    for (uint32_t i = 0; i < 2; ++i) {
      if (node.first_reads < 2 || factors.yields[i] != node.rank() + i)
        throw Unknown{"its factors are not its first two reads as they are"};
    }
    op.name == "conv" ? convolution(op, node) : product(node);
  }

  void pool(const NamedOp& op, const Node& node) {
    begin(node);
    const size_t windows = node.reduced;
    if (node.rank() != 2 * windows + 2 || node.first_reads != 1) throw Unknown{"its node has another form"};
    const std::vector<int64_t> kernel = integers(op, "kernel", windows);
    for (size_t i = 0; i < windows; ++i) require(extents_[windows + 2 + i] == kernel[i], "kernel");
    window(op, node, windows);
  }

  void transpose(const NamedOp& op, const Node& node) {
    begin(node);
    const size_t rank = node.rank();
    const std::vector<int64_t> permutation = integers(op, "permutation", rank);
    if (node.reads.size() != 1 || node.reads[0].place.size() != rank || node.bodies[0].yields != std::vector<uint32_t>{node.rank()})
      throw Unknown{"its node has another form"};
    std::vector<bool> is_used(rank);
    for (size_t d = 0; d < rank; ++d) {
      const int64_t of = permutation[d];
      if (of < 0 || of >= static_cast<int64_t>(rank) || is_used[static_cast<size_t>(of)]) throw Disagreement{"permutation is none"};
      is_used[static_cast<size_t>(of)] = true;
      require(tensor_extent(node.reads[0], static_cast<size_t>(of)) == extents_[d], "permutation");
      place(node.reads[0], static_cast<size_t>(of), "permutation", [d](const std::vector<int64_t>& i) { return i[d]; });
    }
  }

 private:
  void begin(const Node& node) {
    extents_.clear();
    for (uint32_t extent : node.extents) extents_.push_back(places_.known(extent));
    for (const Read& read : node.reads) {
      if (!read.gathers.empty()) throw Unknown{"a place is read from memory"};
    }
    uint64_t count = 1;
    for (uint32_t d = 0; d < node.parallel_rank(); ++d) count *= static_cast<uint64_t>(extents_[d]);
    for (uint32_t result : node.results) {
      uint64_t elements = 1;
      for (uint32_t extent : k_.tensors[result].extents) elements *= static_cast<uint64_t>(places_.known(extent));
      require(elements == count, "the number of results");
    }
    for (uint32_t i = 0; i < node.first_reads && i < 2; ++i) {
      if (node.reads[i].tensor >= k_.inputs) throw Unknown{"an operand is computed in the same kernel"};
    }
  }

  static void require(bool holds, const std::string& what) {
    if (!holds) throw Disagreement{what + " is not that of the node"};
  }

  int64_t tensor_extent(const Read& read, size_t d) { return places_.known(k_.tensors[read.tensor].extents[d]); }

  template <typename Expected>
  void place(const Read& read, size_t d, const std::string& what, Expected expected) {
    require(places_.is(read.place[d], extents_, expected), what);
  }

  // [n, spatial..., c] of an image, in a domain [n, spatial..., c or o, window...]; *more depth follows. Places in c are not compared.
  void window(const NamedOp& op, const Node& node, size_t count) {
    const std::vector<int64_t> strides = integers(op, "strides", count), dilations = integers(op, "dilations", count),
                               low = integers(op, "pads_low", count), high = integers(op, "pads_high", count);
    const Read& image = node.reads[0];
    if (image.place.size() != count + 2) throw Unknown{"its node has another form"};
    require(tensor_extent(image, 0) == extents_[0], "the batch");
    place(image, 0, "the batch", [](const std::vector<int64_t>& i) { return i[0]; });
    size_t bounds = 0;
    for (size_t s = 0; s < count; ++s) {
      const size_t out = s + 1, in = count + 2 + s;
      const int64_t extent = tensor_extent(image, s + 1), windows = extents_[in];
      auto expected = [&](const std::vector<int64_t>& i) { return sub(add(mul(i[out], strides[s]), mul(i[in], dilations[s])), low[s]); };
      place(image, s + 1, "strides, dilations or pads_low", expected);
      require(strides[s] > 0 && dilations[s] > 0, "strides or dilations");
      const int64_t room = sub(add(add(extent, low[s]), high[s]), add(mul(dilations[s], sub(windows, 1)), 1));
      require(room >= 0 && add(room / strides[s], 1) == extents_[out], "pads_high");
      bool is_bounded = image.has_outside && image.outside == 0;
      for (const Within& within : node.within) {
        if (!places_.is(within.index, extents_, expected)) continue;
        require(places_.known(within.bound) == extent, "a bound");
        is_bounded = true;
        ++bounds;
      }
      const int64_t last = sub(add(mul(sub(extents_[out], 1), strides[s]), mul(sub(windows, 1), dilations[s])), low[s]);
      require(is_bounded || (low[s] <= 0 && last < extent), "the padding");
    }
    if (bounds < node.within.size()) throw Unknown{"the node has bounds of another form"};
  }

  void convolution(const NamedOp& op, const Node& node) {
    if (node.reduced < 1 || node.rank() != 2 * (node.reduced - 1) + 3) throw Unknown{"its node has another form"};
    const size_t windows = node.reduced - 1, o = windows + 1, c = node.rank() - 1;
    const int64_t groups = integers(op, "groups", 1)[0];
    const Read &image = node.reads[0], &weights = node.reads[1];
    if (weights.place.size() != windows + 2) throw Unknown{"its node has another form"};
    window(op, node, windows);
    require(groups > 0 && extents_[o] % groups == 0 && tensor_extent(image, windows + 1) == mul(groups, extents_[c]), "groups");
    const int64_t of_group = extents_[o] / groups, channels = extents_[c];
    place(image, windows + 1, "groups",
          [&](const std::vector<int64_t>& i) { return add(i[c], of_group > 0 ? mul(i[o] / of_group, channels) : 0); });
    for (size_t s = 0; s < windows; ++s) {
      require(tensor_extent(weights, s) == extents_[windows + 2 + s], "the window");
      place(weights, s, "the window", [&](const std::vector<int64_t>& i) { return i[windows + 2 + s]; });
    }
    require(tensor_extent(weights, windows) == channels && tensor_extent(weights, windows + 1) == extents_[o], "a factor's extents");
    place(weights, windows, "a factor's places", [&](const std::vector<int64_t>& i) { return i[c]; });
    place(weights, windows + 1, "a factor's places", [&](const std::vector<int64_t>& i) { return i[o]; });
  }

  void product(const Node& node) {
    if (node.reduced != 1 || node.rank() < 3 || !node.within.empty()) throw Unknown{"its node has another form"};
    const size_t depth = node.rank() - 1, columns = depth - 1, rows = depth - 2;
    for (uint32_t side = 0; side < 2; ++side) {
      const Read& read = node.reads[side];
      const size_t rank = read.place.size();
      if (rank < 2 || rank > rows + 2 || (side == 0 && rank != rows + 2)) throw Unknown{"its node has another form"};
      const size_t first = side == 0 ? rows : depth, second = side == 0 ? depth : columns;
      require(tensor_extent(read, rank - 2) == extents_[first] && tensor_extent(read, rank - 1) == extents_[second], "a factor's extents");
      place(read, rank - 2, "a factor's places", [&](const std::vector<int64_t>& i) { return i[first]; });
      place(read, rank - 1, "a factor's places", [&](const std::vector<int64_t>& i) { return i[second]; });
      for (size_t d = 0; d + 2 < rank; ++d) {
        const size_t of = d + rows + 2 - rank;
        const int64_t extent = tensor_extent(read, d);
        require(extent == 1 || extent == extents_[of], "the batch");
        place(read, d, "the batch", [&](const std::vector<int64_t>& i) { return extent == 1 ? 0 : i[of]; });
      }
    }
  }

  const Kernel& k_;
  Places places_;
  std::vector<int64_t> extents_;
};

}  // namespace

bool integers_of(const NamedOp& op, std::string_view attribute, std::vector<int64_t>* out) {
  if (const auto* values = attribute_of<std::vector<int64_t>>(op, attribute)) {
    *out = *values;
  } else if (const auto* value = attribute_of<int64_t>(op, attribute)) {
    *out = {*value};
  } else if (const auto* flag = attribute_of<bool>(op, attribute)) {
    *out = {*flag ? 1 : 0};
  } else {
    out->clear();
    return false;
  }
  return true;
}

std::vector<NameCheck> check_names(const Kernel& kernel, const std::vector<int64_t>& symbols) {
  std::vector<NameCheck> out;
  auto kind_of = [](const NamedOp& op) {
    if (op.name == "conv" || op.name == "matmul") return NodeKind::kContract;
    return op.name == "pool" ? NodeKind::kFold : NodeKind::kMap;
  };
  auto is_known = [](const NamedOp& op) { return op.name == "conv" || op.name == "matmul" || op.name == "pool" || op.name == "transpose"; };
  for (uint32_t i = 0; i < kernel.ops.size(); ++i) {
    const NamedOp& op = kernel.ops[i];
    NameCheck check = {NameCheck::kUnknown, i, UINT32_MAX, {}};
    try {
      if (!is_known(op)) throw Unknown{"the library has no expansion of it"};
      if (std::string why; !is_as_known(op, &why)) throw Unknown{why};
      if (symbols.size() != kernel.symbols) throw Unknown{"the kernel has another number of symbols"};
      if (op.name == "transpose" && kernel.ops.size() != 1) throw Unknown{"it is one of several ops"};
      // The nodes of a kind are in the order of the ops that they compute.
      std::vector<uint32_t> nodes;
      for (uint32_t n = 0; n < kernel.nodes.size(); ++n) {
        if (kernel.nodes[n].kind == kind_of(op)) nodes.push_back(n);
      }
      size_t number = 0, count = 0;
      for (uint32_t j = 0; j < kernel.ops.size(); ++j) {
        if (!is_known(kernel.ops[j]) || kind_of(kernel.ops[j]) != kind_of(op)) continue;
        number += j < i;
        ++count;
      }
      if (nodes.size() != count) throw Unknown{"it is not clear which node computes it"};
      check.node = nodes[number];
      Checker checker(kernel, symbols);
      const Node& node = kernel.nodes[check.node];
      if (kind_of(op) == NodeKind::kContract) {
        checker.contraction(op, node);
      } else if (kind_of(op) == NodeKind::kFold) {
        checker.pool(op, node);
      } else {
        checker.transpose(op, node);
      }
      check.verdict = NameCheck::kAgrees;
    } catch (Unknown& unknown) {
      check.reason = std::move(unknown.reason);
    } catch (Disagreement& found) {
      // What comes before it may be a part of the node.
      if (i == 0) check.verdict = NameCheck::kDisagrees;
      check.reason = std::move(found.reason);
    }
    out.push_back(std::move(check));
  }
  return out;
}

}  // namespace heddle::sdk::portable
