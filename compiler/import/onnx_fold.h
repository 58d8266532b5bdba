// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called for every node before it is translated.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// Computes an element-wise operator on a few known floats, or between those and integers, and sets its result. False if the node is not of this kind.
bool fold_numbers(Node& node);

}  // namespace heddle::import
