// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes OpenCL C for portable code. The driver does so when it loads portable code, the target plugin when a model is compiled.
#ifndef OPENCL_EXAMPLE_WRITER_H_
#define OPENCL_EXAMPLE_WRITER_H_

#include "heddle/sdk/portable/own_kernels.h"

namespace opencl {

namespace portable = heddle::sdk::portable;

// Why there is no OpenCL C for a node; empty: there is.
std::string why_not_written(const portable::Kernel& kernel, uint32_t node);
// Likewise for a whole kernel.
std::string why_not_written(const portable::Kernel& kernel);

// Whether a node is a product of f32 for the functions of product.h, as far as can be said without the values of symbols. Its results are made of the
// sums by a function "..._finish", unless they are the sums.
bool is_product(const portable::Kernel& kernel, uint32_t node);
bool is_plain(const portable::Kernel& kernel, uint32_t node);

// The tensors of a node in the order of the arguments of its function.
std::vector<uint32_t> tensors_of(const portable::Node& node);

// A program for those kernels for which why_not_written() is empty; empty if there are none. The nodes of kernel N have the functions kN_NODE, and products
// also kN_NODE_finish (the product itself is a program of the driver's). Their arguments:
//   for each tensor    global uchar*, ulong    as those of a binding (image.h); of a finish, after them, those of the sums
//   for each symbol    long
// A function computes everything with any number of work-items, in any number of work-groups.
std::string write_program(const std::vector<const portable::Kernel*>& kernels);

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_WRITER_H_
