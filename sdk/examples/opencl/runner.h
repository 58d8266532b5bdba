// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a kernel of portable code for which there is OpenCL C (writer.h): its nodes one after the other, with memory of the device between them.
#ifndef OPENCL_EXAMPLE_RUNNER_H_
#define OPENCL_EXAMPLE_RUNNER_H_

#include <map>

#include "heddle/sdk/portable/interpreter.h"
#include "opencl.h"

namespace opencl {

namespace portable = heddle::sdk::portable;

// What a product needs beside its factors: its sizes, and its table (product.h).
struct ProductPlan {
  uint32_t left, right;  // tensors
  int64_t batch, rows, columns, depth, left_bounds, right_bounds, left_runs;
  std::vector<int64_t> table;
};
// False, with the reason, for a product that is faster element by element, or that the kernel does not do.
bool plan_product(const portable::ProductForm& form, int64_t deep, ProductPlan* out, std::string* out_reason);

// What the driver's query says of a node: "opencl.product", "opencl.node".
class OwnKernels final : public portable::OwnKernels {
 public:
  explicit OwnKernels(bool has_f64) : has_f64_(has_f64) {}
  portable::Answer takes(const portable::Offer& offer) const override;
  bool run(const portable::OwnCall&, std::string* out_error) const override;

 private:
  bool has_f64_;
};

// Where a tensor is.
struct Place {
  cl_mem object;
  uint64_t offset;
};

// Memory of the device between the nodes of a kernel, which grows.
struct Scratch {
  Place place = {};
  uint64_t bytes = 0;
};

// The functions of a kernel's nodes, and what calls with the same symbols share. Used by the device's thread alone.
class Runner {
 public:
  // `functions`: those of write_functions(), in its order, and after them, if the kernel has products, that of product.h. They are used with other kernels,
  // too.
  Runner(const Functions& cl, cl_context context, const Found& found, const portable::Program& program,
         const std::vector<cl_kernel>& functions);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Enqueues everything; bindings have `bytes`, and the last one may be the workspace of the call. All runners of a queue share *scratch. False: *out_error.
  bool run(cl_command_queue queue, const std::vector<Place>& bindings, const std::vector<uint64_t>& bytes,
           const std::vector<int64_t>& symbols, Scratch* scratch, std::string* out_error);

 private:
  struct Node {
    cl_kernel elements = nullptr, product = nullptr, finish = nullptr;
  };
  struct Step {
    uint32_t node;
    int64_t elements;  // of the results
    bool is_product = false;
    ProductPlan product;
    cl_mem table = nullptr;
    uint64_t sums_offset = 0;  // in the scratch memory
  };
  struct Plan {
    std::vector<uint64_t> binding_bytes;
    std::vector<uint64_t> offsets;  // of tensors between nodes in the workspace, or, without one, in the scratch memory
    uint64_t scratch_bytes = 0;
    std::vector<Step> steps;
  };
  bool make_plan(const std::vector<int64_t>& symbols, bool has_workspace, Plan* out, std::string* out_error);
  void drop(Plan& plan);

  const Functions& cl_;
  cl_context context_;
  const Found& found_;
  const portable::Program& program_;
  std::vector<Node> nodes_;
  std::map<std::vector<int64_t>, Plan> plans_;
};

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_RUNNER_H_
