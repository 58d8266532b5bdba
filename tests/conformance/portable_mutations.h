// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels with a mistake compute, as portable code: of drivers here, and of compiler targets in tests/target_plugins.
#ifndef HEDDLE_TESTS_CONFORMANCE_PORTABLE_MUTATIONS_H_
#define HEDDLE_TESTS_CONFORMANCE_PORTABLE_MUTATIONS_H_

#include "heddle/sdk/portable/code.h"

namespace heddle::odd {

// Windows begin at the edge of the image, and not in the padding before it.
inline void without_padding(sdk::portable::Kernel& kernel) {
  for (sdk::portable::Expression& each : kernel.expressions) {
    if (each.kind == sdk::portable::Expression::kConstant && each.value < 0) each.value = 0;
  }
}

// A dimension where it is multiplied by a number.
inline void without_strides(sdk::portable::Kernel& kernel) {
  for (sdk::portable::Expression& each : kernel.expressions) {
    if (each.kind == sdk::portable::Expression::kMul) each = sdk::portable::Expression(kernel.expressions[each.a]);
  }
}

// The first operand instead of the op's result.
inline void without(sdk::portable::Kernel& kernel, sdk::portable::Op op) {
  for (sdk::portable::Node& node : kernel.nodes) {
    for (sdk::portable::Body& body : node.bodies) {
      for (sdk::portable::Instruction& each : body.instructions) {
        if (each.op == op) each.op = sdk::portable::Op::kMaximumF, each.b = each.a;
      }
    }
  }
}

}  // namespace heddle::odd
#endif  // HEDDLE_TESTS_CONFORMANCE_PORTABLE_MUTATIONS_H_
