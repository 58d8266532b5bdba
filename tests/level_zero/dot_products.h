// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer dot products (SPV_KHR_integer_dot_product) for an OpenCL runtime that does not have them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::level_zero_stand_in {

// Replaces each OpSDot, OpUDot and OpSUDot of four bytes in 32 bits, with a result of 32 bits, by shifts, products and sums, and removes the capabilities
// and the extension. Other forms of dot products stay, for the runtime to refuse. Empty, or why the words are no module.
std::string lower_dot_products(std::vector<uint32_t>* words);
// Whether a module declares the capability DotProduct.
bool has_dot_products(const std::vector<uint32_t>& words);

}  // namespace heddle::level_zero_stand_in
