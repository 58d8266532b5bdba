// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of a driver's own for nodes of portable code; the interpreter runs the rest. The library offers each node, products of matrices and convolutions
// in a form that says all about them, and sets of nodes that the driver names; a driver takes what it has a kernel for.
#ifndef HEDDLE_SDK_PORTABLE_OWN_KERNELS_H_
#define HEDDLE_SDK_PORTABLE_OWN_KERNELS_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/sdk/portable/code.h"
#include "heddle/sdk/portable/workers.h"

namespace heddle::sdk::portable {

// A dimension of a product. Steps are in elements, from one index to the next; 0 where nothing depends on it.
struct ProductDim {
  enum Group : uint8_t { kBatch, kRows, kColumns, kDepth };  // both factors depend on it, the first, the second; it is summed over
  Group group;
  int64_t extent;
  int64_t left, right, sums;
};

// Elements of the product count only where 0 <= offset + the sum of index * step < bound, with a step for each dimension.
struct ProductBound {
  int64_t offset, bound;
  std::vector<int64_t> steps;
  enum Of : uint8_t { kNode, kLeft, kRight } of = kNode;  // a condition of the node, or an extent of a factor's tensor
};

// A contraction whose factors are elements of two tensors, as they are:
//   sums[batch, rows, columns] = sum over depth of left[left_offset + steps] * right[right_offset + steps], where all bounds hold
// A convolution has the same form: a window is a part of the depth, and a factor depends on sums of multiples of both.
struct ProductForm {
  uint32_t left, right;  // tensors
  Scalar left_type, right_type, accumulator;
  int64_t left_offset, right_offset;
  std::vector<ProductDim> dims;  // in the order of the node's domain: those that are not summed over first; sums are dense, in their order
  std::vector<ProductBound> bounds;
  bool is_convolution;  // a place in the left factor depends on a dimension of the result and on one that is summed over
};

// Whether node `node` of a verified kernel has that form; if not, *out_reason says why, in a few words. Without symbols (NULL) numbers that depend on one
// are 0, and the rest is as for any.
bool find_product(const Kernel& kernel, uint32_t node, const int64_t* symbols, ProductForm* out, std::string* out_reason);

// A node that is offered, or a set of them, before or after code is loaded.
struct Offer {
  const Kernel& kernel;
  uint32_t node;                       // the first one of a set
  const ProductForm* product;          // NULL if it has not that form, and for a set
  bool has_symbols;                    // the numbers of `product` are those of a call; always, if the kernel has no symbols
  const std::vector<uint32_t>& nodes;  // in ascending order: `node` alone, or a set that sets() has named
  // The value of each symbol of the kernel, for check_names() and for extents. They are known in a call: in run(), and in takes() if has_symbols. Before,
  // and of a kernel without symbols, there are none.
  std::span<const int64_t> symbols = {};
};

struct Answer {
  std::string kernel;  // the name of the driver's kernel; empty: not taken
  std::string reason;  // in a few words
  uint64_t workspace_bytes = 0, cost_ns = 0;
};

// A tensor in a call: dense elements in row-major order.
struct TensorMemory {
  char* data;
  const std::vector<int64_t>* extents;
};

struct OwnCall {
  Offer offer;                               // with symbols
  const std::vector<TensorMemory>& tensors;  // of the kernel, by number
  float* sums;                               // of a product: all are to be written, since they are not 0 before; NULL for others, see run()
  char* workspace;                           // Answer::workspace_bytes for this call, aligned to 64
  Workers* workers;                          // NULL: only the calling thread
};

// What a driver implements. Any number of threads may call it at once.
class OwnKernels {
 public:
  virtual ~OwnKernels() = default;
  // Nodes that kernels of the driver compute together, such as a product and the softmax that follows: sets of two or more, by number. A set has to be
  // convex: no path between two of its nodes goes through another node. Those that are not, and nodes that an earlier set has, are ignored. Each set is
  // offered as a whole, and its nodes alone if it is not taken. Pure.
  virtual std::vector<std::vector<uint32_t>> sets(const Kernel& kernel) const;
  // Pure: the same answer for the same offer. What is taken without symbols is offered again in each call, with them, and may then be refused.
  virtual Answer takes(const Offer& offer) const = 0;
  // Computes what was taken, in this call: for a product only the sums, from which the interpreter computes the results; for others the results in
  // `tensors`. Of a set, results that only nodes of it read need not be computed. Sizes of bindings and limits of memory were checked before; places of
  // elements were not: those of a product are inside its tensors where all bounds of the form hold. Extents may be 0. False: *out_error says what is wrong,
  // and the call fails.
  virtual bool run(const OwnCall& call, std::string* out_error) const = 0;
};

// The same kernels, of which only those run whose name matches the pattern (*, ?, []): what a [[prefer]] of heddle.toml allows. Empty: all.
std::shared_ptr<const OwnKernels> choose(std::shared_ptr<const OwnKernels> own, std::string_view pattern);

// A node of a kernel, as reports show it: "contract (conv)".
std::string describe_node(const Kernel& kernel, uint32_t node);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_OWN_KERNELS_H_
