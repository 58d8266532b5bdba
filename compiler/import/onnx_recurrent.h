// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RNN, GRU and LSTM as functions: a product for all steps, and a Scan for each direction.
#pragma once

#include <string_view>

#include "compiler/import/onnx_file.h"

namespace heddle::import {

// The opset of the bodies.
constexpr int64_t recurrent_opset = 17;

// Whether the default domain's operator is one of these.
bool is_recurrent(std::string_view op_type);
// The body for a call with these attributes and inputs. Its inputs and outputs have the names of ONNX's specification. Throws Failure for attributes
// that are not known.
onnx::FunctionProto recurrent_body(const onnx::NodeProto& call, int64_t opset);

}  // namespace heddle::import
