// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules that a kernel of portable code obeys (code.h). Whoever runs a verified kernel has to check only what depends on a call: extents, sizes of
// bindings, and places.
#include <algorithm>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

bool scalar_of(heddle_element_type_t element, Scalar* out) {
  switch (element) {
    case HEDDLE_TYPE_BOOL:
      *out = Scalar::kI1;
      return true;
    case HEDDLE_TYPE_I8:
    case HEDDLE_TYPE_U8:
      *out = Scalar::kI8;
      return true;
    case HEDDLE_TYPE_I16:
    case HEDDLE_TYPE_U16:
      *out = Scalar::kI16;
      return true;
    case HEDDLE_TYPE_I32:
    case HEDDLE_TYPE_U32:
      *out = Scalar::kI32;
      return true;
    case HEDDLE_TYPE_I64:
    case HEDDLE_TYPE_U64:
      *out = Scalar::kI64;
      return true;
    case HEDDLE_TYPE_F16:
      *out = Scalar::kF16;
      return true;
    case HEDDLE_TYPE_BF16:
      *out = Scalar::kBf16;
      return true;
    case HEDDLE_TYPE_F32:
      *out = Scalar::kF32;
      return true;
    case HEDDLE_TYPE_F64:
      *out = Scalar::kF64;
      return true;
    default:
      return false;
  }
}

uint32_t body_count(NodeKind kind) {
  switch (kind) {
    case NodeKind::kMap:
      return 1;
    case NodeKind::kContract:
    case NodeKind::kSort:
      return 2;
    case NodeKind::kScan:
    case NodeKind::kScatter:
    case NodeKind::kSieve:
      return 3;
    case NodeKind::kFold:
    case NodeKind::kWalk:
      return 4;
  }
  return 0;
}

BodyShape shape_of(const Node& node, uint32_t body) {
  const uint32_t rank = node.rank(), parallel = node.parallel_rank(), all = static_cast<uint32_t>(node.reads.size());
  const uint32_t first = node.first_reads, second = first + node.second_reads;
  switch (node.kind) {
    case NodeKind::kMap:
      return {parallel, 0, all};
    case NodeKind::kFold:
      return body == 1 ? BodyShape{rank, 0, first} : body == 3 ? BodyShape{parallel, first, all} : BodyShape{0, 0, 0};
    case NodeKind::kScan:
      return body == 1   ? BodyShape{rank + (node.is_placed ? 1 : 0), 0, first}
             : body == 2 ? BodyShape{rank, first, all}
                         : BodyShape{0, 0, 0};
    case NodeKind::kContract:
      return body == 0 ? BodyShape{rank, 0, first} : BodyShape{parallel, first, all};
    case NodeKind::kScatter:
      return body == 0 ? BodyShape{rank, 0, first} : body == 1 ? BodyShape{rank, first, second} : BodyShape{parallel, second, all};
    case NodeKind::kSort:
      return body == 0 ? BodyShape{rank, 0, all} : BodyShape{0, 0, 0};
    case NodeKind::kSieve:
      return body == 0 ? BodyShape{parallel, 0, first} : body == 1 ? BodyShape{rank, first, second} : BodyShape{parallel, second, all};
    case NodeKind::kWalk:
      return body == 0   ? BodyShape{rank, 0, first}
             : body == 1 ? BodyShape{rank + 1, first, second}
             : body == 2 ? BodyShape{rank + 1, second, all}
                         : BodyShape{parallel, 0, 0};
  }
  return {};
}

namespace {

bool takes_sign(Predicate predicate) {
  return predicate <= Predicate::kGreaterEqual;
}

class Verifier {
 public:
  Verifier(Kernel* kernel, std::string* error) : k_(*kernel), error_(*error) {}

  bool run() {
    if (k_.symbols > kMostSymbols || k_.inputs + k_.outputs > kMostBindings || k_.inputs + k_.outputs > k_.tensors.size())
      return fail("it has ", k_.inputs, " inputs, ", k_.outputs, " outputs, ", k_.tensors.size(), " tensors and ", k_.symbols, " symbols");
    if (k_.tensors.size() > kMostTensors || k_.nodes.size() > kMostTensors || k_.ops.size() > kMostTensors ||
        k_.expressions.size() > kMostExpressions)
      return fail("it has ", k_.tensors.size(), " tensors, ", k_.nodes.size(), " nodes, ", k_.ops.size(), " ops and ",
                  k_.expressions.size(), " expressions; the most are ", kMostTensors, " each, and ", kMostExpressions);
    return expressions() && tensors() && nodes() && names();
  }

 private:
  template <typename... Parts>
  bool fail(Parts... parts) {
    error_.clear();
    auto add = [&](auto part) {
      if constexpr (std::is_arithmetic_v<decltype(part)>) {
        error_ += std::to_string(part);
      } else {
        error_ += part;
      }
    };
    (add(parts), ...);
    return false;
  }

  bool expressions() {
    for (uint32_t i = 0; i < k_.expressions.size(); ++i) {
      const Expression& e = k_.expressions[i];
      uint64_t dims = 0;
      if (e.kind == Expression::kDimension) {
        if (e.value < 0 || e.value >= 64) return fail("expression ", i, " is dimension ", e.value, "; there are at most 64");
        dims = uint64_t{1} << e.value;
      } else if (e.kind == Expression::kSymbol) {
        if (e.value < 0 || e.value >= k_.symbols) return fail("expression ", i, " is symbol ", e.value, " of ", k_.symbols);
      } else if (e.kind > Expression::kSymbol) {
        if (e.a >= i || e.b >= i) return fail("expression ", i, " uses one that does not come before it");
        dims = dims_[e.a] | dims_[e.b];
      }
      dims_.push_back(dims);
    }
    return true;
  }

  // Whether these are expressions over the first `dims` dimensions.
  bool over(uint32_t expression, uint32_t dims) const {
    return expression < dims_.size() && (dims >= 64 || dims_[expression] >> dims == 0);
  }

  bool tensors() {
    for (uint32_t i = 0; i < k_.tensors.size(); ++i) {
      const Tensor& tensor = k_.tensors[i];
      Scalar scalar;
      if (!scalar_of(tensor.type, &scalar)) return fail("tensor ", i, " has elements of type ", tensor.type, ", which kernels cannot read");
      for (uint32_t extent : tensor.extents) {
        if (!over(extent, 0)) return fail("an extent of tensor ", i, " is no expression over symbols");
      }
      scalars_.push_back(scalar);
      is_made_.push_back(i < k_.inputs);
    }
    return true;
  }

  bool nodes() {
    for (node_ = 0; node_ < k_.nodes.size(); ++node_) {
      Node& node = k_.nodes[node_];
      if (!domain(node) || !reads(node) || !bodies(node)) return false;
      for (uint32_t result : node.results) is_made_[result] = true;
    }
    for (uint32_t i = k_.inputs; i < k_.inputs + k_.outputs; ++i) {
      if (!is_made_[i]) return fail("no node makes output ", i - k_.inputs);
    }
    return true;
  }

  // Their form only: names and attributes that nobody knows are no fault.
  bool names() {
    size_t values = k_.inputs;
    auto are_known = [&](const std::vector<uint32_t>& some) {
      return std::all_of(some.begin(), some.end(), [&](uint32_t value) { return value < values; });
    };
    for (uint32_t i = 0; i < k_.ops.size(); ++i) {
      const NamedOp& op = k_.ops[i];
      if (op.name.empty() || op.version == 0) return fail("op ", i, " has no name, or version 0");
      for (size_t j = 0; j < op.attributes.size(); ++j) {
        if (op.attributes[j].name <= (j == 0 ? std::string() : op.attributes[j - 1].name))
          return fail("attributes of op ", i, " are not sorted by name, or one has no name");
      }
      for (const Tensor& result : op.results) {
        if (!std::all_of(result.extents.begin(), result.extents.end(), [&](uint32_t extent) { return over(extent, 0); }))
          return fail("an extent of op ", i, " is no expression over symbols");
      }
      if (!are_known(op.operands)) return fail("an operand of op ", i, " is no input, and no result of an earlier op");
      values += op.results.size();
    }
    if (!k_.named_outputs.empty() && (k_.named_outputs.size() != k_.outputs || !are_known(k_.named_outputs)))
      return fail("ops are named for ", k_.named_outputs.size(), " of ", k_.outputs, " outputs, or one is of an unknown value");
    return true;
  }

  bool domain(Node& node) {
    const uint32_t rank = node.rank();
    if (rank > kMostRank || node.reduced > rank)
      return fail("node ", node_, " has ", rank, " dimensions, of which ", node.reduced, " are reduced");
    for (uint32_t extent : node.extents) {
      if (!over(extent, 0)) return fail("an extent of node ", node_, " is no expression over symbols");
    }
    const bool has_line = node.kind >= NodeKind::kScatter;
    if (has_line && node.reduced != 1) return fail("node ", node_, " reduces ", node.reduced, " dimensions, and its kind 1");
    if ((node.kind == NodeKind::kMap || node.kind == NodeKind::kScan) && node.reduced != 0)
      return fail("node ", node_, " reduces ", node.reduced, " dimensions, and its kind none");
    if ((has_line || node.kind == NodeKind::kScan) && node.along >= node.parallel_rank())
      return fail("node ", node_, " goes along dimension ", node.along, " of ", node.parallel_rank());
    if (node.is_placed && node.kind != NodeKind::kScan) return fail("node ", node_, " has a place, which its kind has not");
    // What a kind does not use is as in a new node, so that a later version may give it a meaning.
    const Node unused;
    const bool has_seconds = node.kind == NodeKind::kScatter || node.kind == NodeKind::kSieve || node.kind == NodeKind::kWalk;
    const bool has_firsts = node.kind != NodeKind::kMap && node.kind != NodeKind::kSort;
    if ((node.reverse && node.kind != NodeKind::kScan) || (node.steps != 0 && node.kind != NodeKind::kWalk) ||
        (node.along != 0 && !has_line && node.kind != NodeKind::kScan) || (node.first_reads != 0 && !has_firsts) ||
        (node.second_reads != 0 && !has_seconds) || (node.accumulator != unused.accumulator && node.kind != NodeKind::kContract))
      return fail("node ", node_, " has a field that its kind does not use, and that is not 0 or f32");
    if (!node.within.empty() && node.kind != NodeKind::kFold && node.kind != NodeKind::kContract)
      return fail("node ", node_, " leaves elements out, which its kind does not");
    for (const Within& within : node.within) {
      if (!over(within.index, rank) || !over(within.bound, 0)) return fail("node ", node_, " leaves out elements by an unknown expression");
    }
    if (node.results.empty()) return fail("node ", node_, " has no result");
    for (uint32_t result : node.results) {
      if (result >= k_.tensors.size() || result < k_.inputs || is_made_[result] ||
          std::count(node.results.begin(), node.results.end(), result) != 1)
        return fail("node ", node_, " makes tensor ", result, ", which is unknown, an input, or made already");
    }
    return true;
  }

  bool reads(Node& node) {
    if (node.first_reads > node.reads.size() || node.second_reads > node.reads.size() - node.first_reads)
      return fail("node ", node_, " divides ", node.reads.size(), " reads into ", node.first_reads, ", ", node.second_reads, " and others");
    for (uint32_t body = 0; body < node.bodies.size(); ++body) {
      const BodyShape shape = shape_of(node, body);
      for (uint32_t i = shape.first_read; i < shape.end_read; ++i) {
        if (!read(node.reads[i], i, shape, node)) return false;
      }
    }
    return true;
  }

  bool read(Read& read, uint32_t i, const BodyShape& shape, const Node& node) {
    if (read.tensor >= k_.tensors.size() || !is_made_[read.tensor])
      return fail("read ", i, " of node ", node_, " is of tensor ", read.tensor, ", which is not there yet");
    if (read.place.size() != k_.tensors[read.tensor].extents.size())
      return fail("read ", i, " of node ", node_, " has ", read.place.size(), " indices for rank ", k_.tensors[read.tensor].extents.size());
    read.outside = read.has_outside ? masked(scalars_[read.tensor], read.outside) : 0;
    if (read.has_outside && !read.gathers.empty()) return fail("read ", i, " of node ", node_, " has both gathers and a value outside");
    for (uint32_t gather : read.gathers) {
      if (gather >= i - shape.first_read || is_float(scalars_[node.reads[shape.first_read + gather].tensor]))
        return fail("read ", i, " of node ", node_, " is at indices of read ", gather, ", which is not an earlier one of integers");
    }
    const uint32_t dims = shape.indices + static_cast<uint32_t>(read.gathers.size());
    for (uint32_t index : read.place) {
      if (!over(index, dims)) return fail("an index of read ", i, " of node ", node_, " is no expression over ", dims, " dimensions");
      const bool is_gathered = shape.indices < 64 && dims_[index] >> shape.indices != 0;
      if (is_gathered && k_.expressions[index].kind != Expression::kDimension)
        return fail("read ", i, " of node ", node_, " computes with an index that it reads");
    }
    return true;
  }

  std::vector<Scalar> results_of(const Node& node) const {
    std::vector<Scalar> types;
    for (uint32_t result : node.results) types.push_back(scalars_[result]);
    return types;
  }

  // The types that a body yields.
  std::vector<Scalar> yielded(const Body& body) const {
    std::vector<Scalar> types;
    for (uint32_t value : body.yields) types.push_back(type_of(body, value));
    return types;
  }
  static Scalar type_of(const Body& body, uint32_t value) {
    return value < body.arguments.size() ? body.arguments[value] : body.instructions[value - body.arguments.size()].type;
  }

  bool bodies(Node& node) {
    if (node.bodies.size() != body_count(node.kind)) return fail("node ", node_, " has ", node.bodies.size(), " bodies");
    const std::vector<Scalar> elements = results_of(node), none, place = {Scalar::kI64}, flag = {Scalar::kI1};
    auto check = [&](uint32_t index, const std::vector<Scalar>& more, const std::vector<Scalar>* yields) {
      return body(node, index, more) && yields_are(node, index, yields);
    };
    auto twice = [](std::vector<Scalar> types) {
      const size_t count = types.size();
      types.reserve(2 * count);
      for (size_t i = 0; i < count; ++i) types.push_back(types[i]);
      return types;
    };
    switch (node.kind) {
      case NodeKind::kMap:
        return check(0, none, &elements);
      case NodeKind::kFold: {
        if (!check(0, none, nullptr)) return false;
        const std::vector<Scalar> sums = yielded(node.bodies[0]);
        return check(1, sums, &sums) && check(2, twice(sums), &sums) && check(3, sums, &elements);
      }
      case NodeKind::kScan: {
        if (!check(0, none, nullptr)) return false;
        const std::vector<Scalar> sums = yielded(node.bodies[0]);
        if (node.is_placed && sums.front() != Scalar::kI64) return fail("node ", node_, " has a place that is no i64");
        return check(1, sums, &sums) && check(2, twice(sums), &elements);
      }
      case NodeKind::kContract: {
        const Scalar type = node.accumulator;
        if (type == Scalar::kI1 || type == Scalar::kF16 || type == Scalar::kBf16)
          return fail("node ", node_, " adds up in a type that has no sums");
        const std::vector<Scalar> sum = {type}, factors = {type, type};
        return check(0, none, &factors) && check(1, sum, &elements);
      }
      case NodeKind::kScatter:
        return check(0, none, &place) && check(1, elements, &elements) && check(2, none, &elements);
      case NodeKind::kSort: {
        if (elements != place) return fail("node ", node_, " sorts, and its result is not one tensor of i64");
        if (!check(0, none, nullptr)) return false;
        return check(1, twice(yielded(node.bodies[0])), &flag);
      }
      case NodeKind::kSieve:
        if (elements != flag) return fail("node ", node_, " is a sieve, and its result is not one tensor of bool");
        return check(0, none, &place) && check(1, none, &flag) && check(2, none, &flag);
      case NodeKind::kWalk:
        return check(0, none, &place) && check(1, none, &place) && check(2, elements, &elements) && check(3, none, &elements);
    }
    return false;
  }

  bool yields_are(const Node& node, uint32_t index, const std::vector<Scalar>* expected) {
    const std::vector<Scalar> types = yielded(node.bodies[index]);
    if (types.empty() || (expected && types != *expected))
      return fail("body ", index, " of node ", node_, " yields ", types.size(), " values, which are not of the types that the node needs");
    return true;
  }

  bool body(Node& node, uint32_t index, const std::vector<Scalar>& more) {
    Body& body = node.bodies[index];
    const BodyShape shape = shape_of(node, index);
    if (body.instructions.size() > kMostInstructions)
      return fail("body ", index, " of node ", node_, " has ", body.instructions.size(), " instructions; the most are ", kMostInstructions);
    body.arguments.assign(shape.indices, Scalar::kI64);
    for (uint32_t i = shape.first_read; i < shape.end_read; ++i) body.arguments.push_back(scalars_[node.reads[i].tensor]);
    body.arguments.insert(body.arguments.end(), more.begin(), more.end());
    for (uint32_t i = 0; i < body.instructions.size(); ++i) {
      Instruction& at = body.instructions[i];
      if (at.op == Op::kConstant) at.value = masked(at.type, at.value);
      if (!instruction(body, i))
        return fail("instruction ", i, " of body ", index, " of node ", node_, " has wrong operands or a wrong type");
    }
    const size_t values = body.arguments.size() + body.instructions.size();
    for (uint32_t value : body.yields) {
      if (value >= values) return fail("body ", index, " of node ", node_, " yields value ", value, " of ", values);
    }
    return true;
  }

  bool instruction(const Body& body, uint32_t i) const {
    const Instruction& at = body.instructions[i];
    const size_t known = body.arguments.size() + i;
    const uint32_t operands = operand_count(at.op);
    if ((operands > 0 && at.a >= known) || (operands > 1 && at.b >= known) || (operands > 2 && at.c >= known)) return false;
    const Scalar type = at.type, a = operands > 0 ? type_of(body, at.a) : type, b = operands > 1 ? type_of(body, at.b) : a;
    auto computes = [](Scalar scalar) { return scalar == Scalar::kF32 || scalar == Scalar::kF64; };
    const uint32_t bytes = bytes_of(type), from = bytes_of(a);
    const bool to_float = is_float(type), of_float = is_float(a);
    auto wider = [&] { return bytes > from || (a == Scalar::kI1 && type != Scalar::kI1); };
    auto narrower = [&] { return bytes < from || (type == Scalar::kI1 && a != Scalar::kI1); };
    if (at.op == Op::kConstant) return true;
    if (at.op == Op::kExtent) return type == Scalar::kI64 && at.value < dims_.size() && dims_[at.value] == 0;
    if (at.op <= Op::kErfF) return a == type && b == type && computes(type);
    if (at.op <= Op::kShrSI) return a == type && b == type && !to_float;
    switch (at.op) {
      case Op::kCompareF:
        return type == Scalar::kI1 && a == b && computes(a) && at.value < static_cast<uint64_t>(Predicate::kBelow);
      case Op::kCompareI:
        return type == Scalar::kI1 && a == b && !of_float && at.value < kPredicates &&
               (takes_sign(static_cast<Predicate>(at.value)) || at.value >= static_cast<uint64_t>(Predicate::kBelow));
      case Op::kSelect:
        return a == Scalar::kI1 && b == type && type_of(body, at.c) == type;
      case Op::kExtF:
        return of_float && to_float && wider();
      case Op::kTruncF:
        return of_float && to_float && narrower();
      case Op::kExtSI:
      case Op::kExtUI:
        return !of_float && !to_float && wider();
      case Op::kTruncI:
        return !of_float && !to_float && narrower();
      case Op::kSIToF:
      case Op::kUIToF:
        return !of_float && computes(type);
      case Op::kFToSI:
      case Op::kFToUI:
        return computes(a) && !to_float;
      case Op::kBitcast:
        return bytes == from && a != Scalar::kI1 && type != Scalar::kI1;
      default:
        return false;
    }
  }

  Kernel& k_;
  std::string& error_;
  std::vector<uint64_t> dims_;   // of each expression, a bit for each dimension
  std::vector<Scalar> scalars_;  // of each tensor
  std::vector<bool> is_made_;
  uint32_t node_ = 0;
};

}  // namespace

bool verify(Kernel* kernel, std::string* out_error) {
  return Verifier(kernel, out_error).run();
}

}  // namespace heddle::sdk::portable
