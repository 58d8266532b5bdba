// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The terms of what a kernel's names say that it computes: what each op of ops.h means, as terms. Values are numbered: inputs of the kernel, then
// the results of its named ops.
#pragma once

#include <array>
#include <functional>
#include <set>

#include "terms.h"

namespace heddle::sdk::portable {

// A name that cannot be right, whatever the nodes compute.
struct Disagreement {
  std::string reason;
};

class NameTerms {
 public:
  using TermIds = std::vector<TermId>;
  using Integers = std::vector<int64_t>;

  // `known` are the values of the kernel's expressions over symbols.
  NameTerms(Terms& terms, const Kernel& kernel, const std::vector<int64_t>& known);

  // Throws Disagreement or Unknown if the op's operands, attributes and result do not fit each other, or it is not known.
  void check(uint32_t op) const;
  // The element of a value at a place of which levels below `depth` are in use, in the type in which it is computed: f32 for f16 and bf16.
  TermId element(uint32_t value, const TermIds& at, uint32_t depth);
  TermId to_storage(TermId term, heddle_element_type_t type);
  const Integers& extents(uint32_t value) const { return values_[value].extents; }
  // The terms of an op's elements that were asked for.
  const std::set<TermId>& instances(uint32_t op) const { return instances_[op]; }
  bool is_input(uint32_t value) const { return value < kernel_.inputs; }

 private:
  struct Value {
    heddle_element_type_t type;
    Integers extents;
  };
  // An op at one place of its result.
  struct Use {
    const NamedOp& op;
    const Value& result;
    const TermIds& at;
    uint32_t depth;
    uint32_t operand(size_t i) const { return op.operands[i]; }
  };
  // A binder while it is made: its dimensions, and the depth in its bodies.
  struct Binder {
    Term term;
    TermIds dims;
    uint32_t arguments = 0, depth = 0;
  };

  const Value& operand(const NamedOp& op, size_t i) const { return values_[op.operands[i]]; }
  TermId made(const Use& use);

  // terms_of_names.cpp
  TermId moved(const Use& use);
  TermId pad(const Use& use);
  TermId concat(const Use& use);
  TermId gathered(const Use& use);
  TermId index_at(uint32_t indices, const TermIds& at, int64_t extent, uint32_t depth);

  // terms_of_elements.cpp
  TermId element_wise(const NamedOp& op, const Value& result, const TermIds& x);
  TermId cast(TermId x, heddle_element_type_t from, heddle_element_type_t to);
  TermId cast_as_computed(TermId x, heddle_element_type_t from, heddle_element_type_t to);
  TermId bit_cast(TermId x, heddle_element_type_t from, heddle_element_type_t to);
  TermId compare(const std::string& kind, TermId a, TermId b, bool no_sign);
  TermId divided(TermId a, TermId b, bool no_sign);
  TermId power(TermId x, double exponent);
  TermId random_bits(TermId index, TermId seed);
  TermId combined(const std::string& kind, TermId a, TermId b, bool no_sign);
  TermId identity(const std::string& kind, Scalar type, bool no_sign);

  // terms_of_reductions.cpp
  static Binder begin(Terms& terms, Term::Kind kind, uint32_t depth, const Integers& extents, bool leaves_out_ones);
  using Combine = std::function<TermIds(const TermIds& sums, TermId element, const TermIds& dims)>;
  using Merge = std::function<TermIds(const TermIds& first, const TermIds& second)>;
  TermIds fold(const Use& use, const Integers& extents, const TermIds& init, const std::function<TermIds(const TermIds& dims)>& place,
               const Combine& combine, const Merge& merge, const std::function<TermId(const TermIds& dims)>& counts = {});
  TermId reduction(const Use& use, const std::string& kind, const Integers& axes, const std::function<TermId(TermId)>& change = {});
  TermId matmul(const Use& use);
  TermId conv(const Use& use);
  TermId contract(const Use& use, const Integers& extents, const std::function<TermIds(const TermIds& dims, uint32_t side)>& place,
                  const std::function<TermId(const TermIds& dims)>& counts);
  TermId widened(TermId factor, heddle_element_type_t from, Scalar type);
  TermId pool(const Use& use);
  TermId mean(TermId sum, TermId count, bool no_sign);
  TermId reduce(const Use& use);
  TermId arg_reduce(const Use& use);
  TermId softmax(const Use& use);
  TermId lrn(const Use& use);
  TermId cumsum(const Use& use);
  TermId scatter(const Use& use);
  TermId sort(const Use& use);

  // terms_of_lists.cpp
  TermId suppress(const Use& use);
  TermId trees(const Use& use);
  TermId ngrams(const Use& use);

  // terms_of_formats.cpp
  TermId narrow_decode(const NamedOp& op, TermId x);
  TermId narrow_encode(const NamedOp& op, TermId x);
  TermId block_element(uint32_t value, const std::string& type, TermIds at, uint32_t depth);

  Terms& terms_;
  const Kernel& kernel_;
  std::vector<Value> values_;
  std::vector<std::set<TermId>> instances_;
  std::map<std::pair<std::pair<uint32_t, uint32_t>, TermIds>, TermId> elements_;
  uint32_t nested_ = 0;
};

// Attributes of an op that is as known.
int64_t integer_of(const NamedOp& op, std::string_view name);
double real_of(const NamedOp& op, std::string_view name);
bool flag_of(const NamedOp& op, std::string_view name);
std::string text_of(const NamedOp& op, std::string_view name);
std::vector<int64_t> list_of(const NamedOp& op, std::string_view name, size_t count);

// The scalar in which elements of the type are stored, and the one in which they are computed.
Scalar stored_as(heddle_element_type_t type);
Scalar computed_as(heddle_element_type_t type);

}  // namespace heddle::sdk::portable
