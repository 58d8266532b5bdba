// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutants of kernels for portable code. What a kernel with the mistake would compute is written into the code, which the template then runs.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/code.h"
#include "heddle/sdk/portable/code.h"
#include "mutation.h"
#include "portable_mutations.h"

namespace heddle::odd {
namespace {

namespace portable = heddle::sdk::portable;
using portable::Expression;

constexpr int64_t kBlock = 256;

// Replaces the products of each kernel.
template <auto change>
void change_products() {
  odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* params,
                                    heddle_executable_t** out) noexcept -> Status {
    std::vector<portable::Kernel> kernels;
    std::string error;
    if (sdk::view_of(params->format) != HEDDLE_CODE_PORTABLE ||
        !portable::read_image({static_cast<const char*>(params->code), params->code_bytes}, &kernels, &error))
      return good.dispatch.executable_load(device, params, out);
    std::vector<std::string> codes;
    std::vector<std::pair<std::string_view, std::string_view>> named;
    for (portable::Kernel& kernel : kernels) {
      for (portable::Node& node : kernel.nodes) {
        if (node.kind == portable::NodeKind::kContract) change(kernel, node);
      }
      codes.push_back(portable::write_kernel(kernel));
    }
    for (size_t i = 0; i < kernels.size(); ++i) named.emplace_back(kernels[i].name, codes[i]);
    const std::string code = portable::write_image(named);
    heddle_executable_params_t changed = *params;
    changed.code = code.data();
    changed.code_bytes = code.size();
    return good.dispatch.executable_load(device, &changed, out);
  };
}

// Only indices from `first` on, or those before `end`, are added up.
void only_from(portable::Kernel& kernel, portable::Node& node, uint32_t dimension, int64_t first) {
  auto add = [&](Expression expression) {
    kernel.expressions.push_back(expression);
    return static_cast<uint32_t>(kernel.expressions.size()) - 1;
  };
  const uint32_t index = add({Expression::kDimension, dimension, 0, 0}), less = add({Expression::kConstant, -first, 0, 0});
  node.within.push_back({add({Expression::kAdd, 0, index, less}), node.extents[dimension]});
}
void only_before(portable::Kernel& kernel, portable::Node& node, uint32_t dimension, int64_t end) {
  kernel.expressions.push_back({Expression::kDimension, dimension, 0, 0});
  kernel.expressions.push_back({Expression::kConstant, end, 0, 0});
  const auto count = static_cast<uint32_t>(kernel.expressions.size());
  node.within.push_back({count - 2, count - 1});
}

}  // namespace

const std::vector<Change> kPortableMutations = {
    {"last_block_of_depth",
     [] { change_products<[](portable::Kernel& k, portable::Node& n) { only_from(k, n, n.rank() - 1, kBlock); }>(); }},
    {"first_block_of_depth",
     [] { change_products<[](portable::Kernel& k, portable::Node& n) { only_before(k, n, n.rank() - 1, kBlock); }>(); }},
    {"first_block_of_rows",
     [] { change_products<[](portable::Kernel& k, portable::Node& n) { only_before(k, n, n.parallel_rank() - 2, kBlock); }>(); }},
    {"first_block_of_columns",
     [] { change_products<[](portable::Kernel& k, portable::Node& n) { only_before(k, n, n.parallel_rank() - 1, kBlock); }>(); }},
    {"ignores_padding", [] { change_products<[](portable::Kernel& k, portable::Node&) { without_padding(k); }>(); }},
    {"ignores_window_strides", [] { change_products<[](portable::Kernel& k, portable::Node&) { without_strides(k); }>(); }},
    {"drops_bias", [] { change_products<[](portable::Kernel& k, portable::Node&) { without(k, portable::Op::kAddF); }>(); }},
    {"drops_activation", [] { change_products<[](portable::Kernel& k, portable::Node&) { without(k, portable::Op::kMaximumF); }>(); }},
};

}  // namespace heddle::odd
