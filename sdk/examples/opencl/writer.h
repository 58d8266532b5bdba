// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes OpenCL C for portable code. The driver does so when it loads portable code, the target plugin when a model is compiled.
#ifndef OPENCL_EXAMPLE_WRITER_H_
#define OPENCL_EXAMPLE_WRITER_H_

#include "heddle/sdk/portable/own_kernels.h"
#include "image.h"

namespace opencl {

namespace portable = heddle::sdk::portable;

// Why there is no OpenCL C for a node, on a device with or without f64; empty: there is.
std::string why_not_written(const portable::Kernel& kernel, uint32_t node, bool has_f64);
// Likewise for a whole kernel.
std::string why_not_written(const portable::Kernel& kernel, bool has_f64);

// Whether a node is a product of f32 for the functions of product.h, as far as can be said without the values of symbols. Its results are made of the
// sums by a function of their own, unless they are the sums (plain).
bool is_product(const portable::Kernel& kernel, uint32_t node);
bool is_plain(const portable::Kernel& kernel, uint32_t node);

// The tensors of a node in the order of the arguments of its function.
std::vector<uint32_t> tensors_of(const portable::Node& node);

// The functions of a kernel for which why_not_written() is empty, node by node: one that computes its results, and for a product that is not plain another
// one, which computes them from the sums (the product itself is a function of the driver's). Their arguments:
//   for each tensor    global uchar*, ulong    as those of a binding (image.h); of the second one, after them, those of the sums
//   for each symbol    long
// A function computes everything with any number of work-items, in any number of work-groups.
std::vector<Function> write_functions(const portable::Kernel& kernel);
size_t function_count(const portable::Kernel& kernel);

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_WRITER_H_
