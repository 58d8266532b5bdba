// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See runner.h.
#include "runner.h"

#include <algorithm>

#include "product.h"
#include "writer.h"

namespace opencl {

using portable::Expression;
using portable::Kernel;
using portable::ProductBound;
using portable::ProductDim;
using portable::ProductForm;

namespace {

constexpr uint64_t kAlignment = 128;
constexpr size_t kMostPlans = 16;               // of a kernel
constexpr size_t kMostTable = size_t{1} << 24;  // longs
constexpr int64_t kFewest = 4;                  // columns; with fewer, most of a tile would be empty

// The values of expressions over symbols, which arithmetic wraps; others are 0.
std::vector<int64_t> evaluate(const Kernel& kernel, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> out;
  for (const Expression& e : kernel.expressions) {
    const bool has_operands = e.kind > Expression::kSymbol;
    const int64_t a = has_operands ? out[e.a] : 0, b = has_operands ? out[e.b] : 0;
    const int64_t down = b > 0 ? a / b - (a % b < 0) : 0, rest = b > 0 ? a % b : 0;
    int64_t value = 0;
    switch (e.kind) {
      case Expression::kConstant:
        value = e.value;
        break;
      case Expression::kSymbol:
        value = symbols[static_cast<size_t>(e.value)];
        break;
      case Expression::kDimension:
        break;
      case Expression::kAdd:
        value = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        break;
      case Expression::kMul:
        value = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        break;
      case Expression::kFloorDiv:
        value = down;
        break;
      case Expression::kCeilDiv:
        value = down + (rest != 0);
        break;
      case Expression::kMod:
        value = rest + (rest < 0 ? b : 0);
        break;
    }
    out.push_back(value);
  }
  return out;
}

// False if there are too many to count.
bool count_of(const std::vector<uint32_t>& extents, size_t rank, const std::vector<int64_t>& known, int64_t* out) {
  *out = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (known[extents[d]] < 0 || __builtin_mul_overflow(*out, known[extents[d]], out)) return false;
  }
  return *out <= INT64_MAX / 16;
}

// *to += a * b. Code comes from files, and what it says wraps.
void add_product(int64_t a, int64_t b, int64_t* to) {
  *to = static_cast<int64_t>(static_cast<uint64_t>(*to) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Of each number of a group's dimensions, together in row-major order: the sum of index * step, from `offset` on.
void add_places(const ProductForm& form, ProductDim::Group group, int64_t count, int64_t offset, const std::vector<int64_t>& steps,
                std::vector<int64_t>* out) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < form.dims.size(); ++d) {
    if (form.dims[d].group == group) dims.push_back(d);
  }
  std::vector<int64_t> index(dims.size());
  for (int64_t n = 0; n < count; ++n) {
    int64_t place = offset;
    for (size_t i = 0; i < dims.size(); ++i) add_product(index[i], steps[dims[i]], &place);
    out->push_back(place);
    for (size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < form.dims[dims[i]].extent) break;
      index[i] = 0;
    }
  }
}

bool depends_on(const ProductForm& form, const ProductBound& bound, ProductDim::Group group) {
  for (size_t d = 0; d < form.dims.size(); ++d) {
    if (form.dims[d].group == group && bound.steps[d] != 0) return true;
  }
  return false;
}

// The first depth of each run.
std::vector<int64_t> runs_of(const std::vector<int64_t>& places, const std::vector<std::vector<int64_t>>& bounds, int64_t deep) {
  std::vector<int64_t> out;
  const auto depth = static_cast<int64_t>(places.size());
  for (int64_t k = 0; k < depth; ++k) {
    const auto at = static_cast<size_t>(k);
    bool is_new = k % deep == 0;
    // The first two of a run say its step.
    const bool has_step = !is_new && k - out.back() > 1;
    is_new = is_new || (has_step && places[at] - places[at - 1] != places[at - 1] - places[at - 2]);
    for (const std::vector<int64_t>& bound : bounds) is_new = is_new || bound[at] != bound[at - 1];
    if (is_new) out.push_back(k);
  }
  return out;
}

// The blocks of a product, of which a work-group packs both factors into local memory.
struct ProductBlocks {
  int64_t rows, columns, deep;
};

// 96 and 256 KiB where a work-group may have them, as on processors; else 6 and 16 KiB. Rows and columns are multiples of each tile's.
ProductBlocks blocks_of(const Found& found) {
  return found.local_bytes >= (512 << 10) ? ProductBlocks{96, 256, 256} : ProductBlocks{24, 64, 64};
}

int64_t count_of(const ProductPlan& product, const ProductBlocks& blocks) {
  return product.batch * ((product.rows + blocks.rows - 1) / blocks.rows) * ((product.columns + blocks.columns - 1) / blocks.columns);
}

// Smaller blocks, if there would not be enough of them for all units.
ProductBlocks fitting_blocks(const Found& found, const ProductPlan& product) {
  ProductBlocks blocks = blocks_of(found);
  const int64_t rows = tile_rows(found.vector_width), columns = 2 * static_cast<int64_t>(found.vector_width);
  while (count_of(product, blocks) < 2 * static_cast<int64_t>(found.compute_units)) {
    if (blocks.columns > columns && (blocks.columns >= blocks.rows || blocks.rows <= rows)) {
      blocks.columns /= 2;
    } else if (blocks.rows > rows) {
      blocks.rows /= 2;
    } else {
      break;
    }
  }
  return blocks;
}

}  // namespace

bool plan_product(const ProductForm& form, int64_t deep, ProductPlan* out, std::string* out_reason) {
  auto refuse = [&](std::string reason) {
    *out_reason = std::move(reason);
    return false;
  };
  std::vector<int64_t> left, right, sums;
  int64_t counts[4] = {1, 1, 1, 1};
  for (const ProductDim& dim : form.dims) {
    left.push_back(dim.left);
    right.push_back(dim.right);
    sums.push_back(dim.sums);
    if (__builtin_mul_overflow(counts[dim.group], dim.extent, &counts[dim.group])) return refuse("it has too many elements");
  }
  *out = {};
  out->left = form.left;
  out->right = form.right;
  out->batch = counts[ProductDim::kBatch];
  out->rows = counts[ProductDim::kRows];
  out->columns = counts[ProductDim::kColumns];
  out->depth = counts[ProductDim::kDepth];
  if (out->columns < kFewest || (out->rows < kFewest && form.is_convolution))
    return refuse(std::to_string(out->rows) + " x " + std::to_string(out->columns) + " sums are too few for tiles");
  std::vector<const ProductBound*> of_left, of_right;
  for (const ProductBound& bound : form.bounds) {
    const bool of_columns = depends_on(form, bound, ProductDim::kColumns);
    if (of_columns && depends_on(form, bound, ProductDim::kRows)) return refuse("a bound is on rows and columns together");
    (of_columns ? of_right : of_left).push_back(&bound);
  }
  out->left_bounds = static_cast<int64_t>(of_left.size());
  out->right_bounds = static_cast<int64_t>(of_right.size());
  const size_t most = kMostTable / (form.bounds.size() + 4);
  for (int64_t count : counts) {
    if (static_cast<uint64_t>(count) > most / 4) return refuse("its table would have more than " + std::to_string(kMostTable) + " numbers");
  }
  std::vector<int64_t>& table = out->table;
  add_places(form, ProductDim::kBatch, out->batch, form.left_offset, left, &table);
  add_places(form, ProductDim::kBatch, out->batch, form.right_offset, right, &table);
  add_places(form, ProductDim::kBatch, out->batch, 0, sums, &table);
  add_places(form, ProductDim::kRows, out->rows, 0, left, &table);
  add_places(form, ProductDim::kRows, out->rows, 0, sums, &table);
  add_places(form, ProductDim::kColumns, out->columns, 0, right, &table);
  add_places(form, ProductDim::kColumns, out->columns, 0, sums, &table);
  std::vector<int64_t> depth_left, depth_right;
  add_places(form, ProductDim::kDepth, out->depth, 0, left, &depth_left);
  add_places(form, ProductDim::kDepth, out->depth, 0, right, &depth_right);
  table.insert(table.end(), depth_left.begin(), depth_left.end());
  table.insert(table.end(), depth_right.begin(), depth_right.end());
  std::vector<std::vector<int64_t>> of_depth[2];
  for (const bool is_right : {false, true}) {
    for (const ProductBound* bound : is_right ? of_right : of_left) {
      table.push_back(bound->bound);
      add_places(form, ProductDim::kBatch, out->batch, bound->offset, bound->steps, &table);
      add_places(form, is_right ? ProductDim::kColumns : ProductDim::kRows, is_right ? out->columns : out->rows, 0, bound->steps, &table);
      std::vector<int64_t>& places = of_depth[is_right].emplace_back();
      add_places(form, ProductDim::kDepth, out->depth, 0, bound->steps, &places);
      table.insert(table.end(), places.begin(), places.end());
    }
  }
  for (const bool is_right : {false, true}) {
    const std::vector<int64_t> runs = runs_of(is_right ? depth_right : depth_left, of_depth[is_right], deep);
    if (!is_right) out->left_runs = static_cast<int64_t>(runs.size());
    table.insert(table.end(), runs.begin(), runs.end());
    table.push_back(out->depth);
  }
  return true;
}

portable::Answer OwnKernels::takes(const portable::Offer& offer) const {
  portable::Answer answer;
  if (const std::string why = why_not_written(offer.kernel, has_f64_); !why.empty()) {
    answer.reason = why;
    return answer;
  }
  answer.kernel = "opencl.node";
  answer.reason = "OpenCL C that is written for the node";
  ProductPlan plan;
  std::string reason;
  if (is_product(offer.kernel, offer.node) && (!offer.has_symbols || plan_product(*offer.product, INT64_MAX, &plan, &reason))) {
    answer.kernel = "opencl.product";
    answer.reason = "f32 in f32";
  }
  return answer;
}

// The driver runs whole kernels, and offers no node to the interpreter.
bool OwnKernels::run(const portable::OwnCall&, std::string* out_error) const {
  *out_error = "the driver runs no single nodes";
  return false;
}

Runner::Runner(const Functions& cl, cl_context context, const Found& found, const portable::Program& program,
               const std::vector<cl_kernel>& functions)
    : cl_(cl), context_(context), found_(found), program_(program) {
  const Kernel& kernel = program.kernel();
  size_t next = 0;
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) {
    Node& node = nodes_.emplace_back();
    node.elements = functions[next++];
    if (!is_product(kernel, i)) continue;
    node.product = functions.back();
    if (!is_plain(kernel, i)) node.finish = functions[next++];
  }
}

Runner::~Runner() {
  for (auto& [symbols, plan] : plans_) drop(plan);
}

void Runner::drop(Plan& plan) {
  for (Step& step : plan.steps) {
    if (step.table) cl_.clReleaseMemObject(step.table);
  }
}

bool Runner::make_plan(const std::vector<int64_t>& symbols, bool has_workspace, Plan* out, std::string* out_error) {
  const Kernel& kernel = program_.kernel();
  auto fail = [&](std::string text) {
    *out_error = std::move(text);
    return false;
  };
  uint64_t workspace = 0, place = 0;
  if (!program_.binding_bytes(symbols.data(), symbols.size(), &out->binding_bytes, out_error, &workspace)) return false;
  const size_t own_bindings = out->binding_bytes.size();
  if (has_workspace) out->binding_bytes.push_back(workspace);
  const std::vector<int64_t> known = evaluate(kernel, symbols);
  std::vector<int64_t> counts;
  auto take = [&](uint64_t bytes, uint64_t* offset) {
    *offset = out->scratch_bytes;
    return !__builtin_add_overflow(out->scratch_bytes, (bytes + kAlignment - 1) / kAlignment * kAlignment, &out->scratch_bytes) &&
           out->scratch_bytes <= found_.max_allocation_bytes;
  };
  const std::string too_large = "the tensors between its nodes have more than the " + std::to_string(found_.max_allocation_bytes) +
                                " bytes that a buffer of the device may have";
  for (size_t t = 0; t < kernel.tensors.size(); ++t) {
    portable::Scalar scalar = portable::Scalar::kF32;
    portable::scalar_of(kernel.tensors[t].type, &scalar);
    const std::vector<uint32_t>& extents = kernel.tensors[t].extents;
    if (!count_of(extents, extents.size(), known, &counts.emplace_back()))
      return fail("tensor " + std::to_string(t) + " has a negative extent, or is too large");
    if (t < own_bindings) continue;
    const uint64_t tensor_bytes = static_cast<uint64_t>(counts[t]) * bytes_of(scalar);
    if (has_workspace) {
      out->offsets.push_back(place);
      place += (tensor_bytes + portable::kWorkspaceAlignment - 1) / portable::kWorkspaceAlignment * portable::kWorkspaceAlignment;
    } else if (!take(tensor_bytes, &out->offsets.emplace_back())) {
      return fail(too_large);
    }
  }
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) {
    const portable::Node& node = kernel.nodes[i];
    Step& step = out->steps.emplace_back();
    step.node = i;
    int64_t all;
    if (!count_of(node.extents, node.parallel_rank(), known, &step.elements) || !count_of(node.extents, node.rank(), known, &all))
      return fail("node " + std::to_string(i) + " has a negative extent, or is too large");
    for (uint32_t result : node.results) {
      if (counts[result] != step.elements)
        return fail("node " + std::to_string(i) + " computes " + std::to_string(step.elements) + " elements of tensor " +
                    std::to_string(result) + ", which has " + std::to_string(counts[result]));
    }
    ProductForm form;
    std::string reason;
    if (!nodes_[i].product || step.elements == 0 || !portable::find_product(kernel, i, symbols.data(), &form, &reason) ||
        !plan_product(form, blocks_of(found_).deep, &step.product, &reason))
      continue;
    step.is_product = true;
    cl_int error = CL_SUCCESS;
    std::vector<int64_t>& table = step.product.table;
    step.table =
        cl_.clCreateBuffer(context_, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, table.size() * sizeof(int64_t), table.data(), &error);
    if (error) return fail("a table of " + std::to_string(table.size()) + " numbers: " + name_of(error));
    table.clear();
    table.shrink_to_fit();
    if (nodes_[i].finish && !take(static_cast<uint64_t>(step.elements) * sizeof(float), &step.sums_offset)) return fail(too_large);
  }
  return true;
}

bool Runner::run(cl_command_queue queue, const std::vector<Place>& bindings, const std::vector<uint64_t>& bytes,
                 const std::vector<int64_t>& symbols, Scratch* scratch, std::string* out_error) {
  auto fail = [&](std::string text) {
    *out_error = std::move(text);
    return false;
  };
  const Kernel& kernel = program_.kernel();
  const size_t own_bindings = kernel.inputs + kernel.outputs;
  if (plans_.size() >= kMostPlans && !plans_.contains(symbols)) {
    for (auto& [key, plan] : plans_) drop(plan);
    plans_.clear();
  }
  const auto [found, is_new] = plans_.try_emplace(symbols);
  Plan& plan = found->second;
  if (is_new && !make_plan(symbols, bindings.size() > own_bindings, &plan, out_error)) {
    drop(plan);
    plans_.erase(found);
    return false;
  }
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (plan.binding_bytes[i] > bytes[i])
      return fail("binding " + std::to_string(i) + " has " + std::to_string(bytes[i]) + " bytes, and its tensor " +
                  std::to_string(plan.binding_bytes[i]));
  }
  cl_int error = CL_SUCCESS;
  cl_mem& between = scratch->place.object;
  if (plan.scratch_bytes > scratch->bytes) {
    // Commands that use the smaller one keep it.
    if (between) cl_.clReleaseMemObject(between);
    scratch->bytes = 0;
    between = cl_.clCreateBuffer(context_, CL_MEM_READ_WRITE, plan.scratch_bytes, nullptr, &error);
    if (error) {
      between = nullptr;
      return fail(std::to_string(plan.scratch_bytes) + " bytes between its nodes: " + name_of(error));
    }
    scratch->bytes = plan.scratch_bytes;
  }
  cl_kernel function = nullptr;
  cl_uint argument = 0;
  auto set = [&](size_t size, const void* value) {
    if (!error) error = cl_.clSetKernelArg(function, argument++, size, value);
  };
  auto set_place = [&](const Place& place) {
    const cl_ulong offset = place.offset;
    set(sizeof place.object, place.object ? &place.object : nullptr);
    set(sizeof offset, &offset);
  };
  auto place_of = [&](uint32_t tensor) {
    if (tensor < own_bindings) return bindings[tensor];
    const uint64_t offset = plan.offsets[tensor - own_bindings];
    return bindings.size() > own_bindings ? Place{bindings.back().object, bindings.back().offset + offset} : Place{between, offset};
  };
  const bool is_cpu = found_.type & CL_DEVICE_TYPE_CPU;
  auto enqueue_node = [&](cl_kernel which, const Step& step, bool with_sums) {
    function = which;
    argument = 0;
    for (uint32_t tensor : tensors_of(kernel.nodes[step.node])) set_place(place_of(tensor));
    if (with_sums) set_place({between, step.sums_offset});
    for (int64_t symbol : symbols) set(sizeof symbol, &symbol);
    const size_t local = is_cpu ? 1 : std::min<uint64_t>(64, found_.workgroup_size), most = found_.compute_units * (is_cpu ? 4 : 32);
    const size_t global = std::min((static_cast<size_t>(step.elements) + local - 1) / local, most) * local;
    if (!error) error = cl_.clEnqueueNDRangeKernel(queue, function, 1, nullptr, &global, &local, 0, nullptr, nullptr);
  };
  for (const Step& step : plan.steps) {
    if (step.elements == 0) continue;
    if (!step.is_product) {
      enqueue_node(nodes_[step.node].elements, step, false);
    } else {
      const ProductPlan& product = step.product;
      const ProductBlocks blocks = fitting_blocks(found_, product);
      function = nodes_[step.node].product;
      argument = 0;
      set_place(place_of(product.left));
      set_place(place_of(product.right));
      set_place(nodes_[step.node].finish ? Place{between, step.sums_offset} : place_of(kernel.nodes[step.node].results[0]));
      set_place({step.table, 0});
      set(static_cast<size_t>(blocks.rows * blocks.deep) * sizeof(float), nullptr);
      set(static_cast<size_t>(blocks.columns * blocks.deep) * sizeof(float), nullptr);
      for (int64_t number : {product.batch, product.rows, product.columns, product.depth, product.left_bounds, product.right_bounds,
                             product.left_runs, blocks.rows, blocks.columns, blocks.deep})
        set(sizeof number, &number);
      const size_t local = 1,
                   global =
                       static_cast<size_t>(std::min<int64_t>(count_of(product, blocks), 4 * static_cast<int64_t>(found_.compute_units)));
      if (!error) error = cl_.clEnqueueNDRangeKernel(queue, function, 1, nullptr, &global, &local, 0, nullptr, nullptr);
      if (nodes_[step.node].finish) enqueue_node(nodes_[step.node].finish, step, true);
    }
    if (error) return fail("node " + std::to_string(step.node) + ": " + name_of(error));
  }
  return true;
}

}  // namespace opencl
