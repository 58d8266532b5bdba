// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes of the stablehlo and chlo dialects, which MLIR keeps as text since it does not know the dialects: `#stablehlo<comparison_direction LT>`,
// `#stablehlo.gather<offset_dims = [1], index_vector_dim = 1>`, `#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mlir/IR/Attributes.h"

namespace heddle::import::stablehlo {

// The word of an enumeration, such as "LT"; empty if the attribute is something else. Also of a plain string, as older programs have it.
std::string word_of(mlir::Attribute attribute);

// Named fields: lists of integers, single integers as lists of one, and anything else as its text.
struct Fields {
  std::map<std::string, std::vector<int64_t>, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;

  std::vector<int64_t> list(llvm::StringRef name) const;          // empty if it is not there
  int64_t number(llvm::StringRef name, int64_t otherwise) const;  // likewise
};
// Nothing if the attribute is not `kind<name = value, ...>`.
std::optional<Fields> fields_of(mlir::Attribute attribute, llvm::StringRef kind);

// Which dimension of each operand and of the result of a convolution is what.
struct ConvolutionDimensions {
  int64_t input_batch = -1, input_feature = -1, kernel_input = -1, kernel_output = -1, output_batch = -1, output_feature = -1;
  std::vector<int64_t> input_spatial, kernel_spatial, output_spatial;
};
// Nothing if the text is not well-formed. Numbers are dimensions of tensors of that rank, each once.
std::optional<ConvolutionDimensions> convolution_dimensions(mlir::Attribute attribute, int64_t rank);

}  // namespace heddle::import::stablehlo
