// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See interpreter.h.
#include "heddle/sdk/portable/interpreter.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <utility>

#include "nodes.h"
#include "own_parts.h"
#include "prepare.h"

namespace heddle::sdk::portable {

namespace {

// Expressions over symbols.
void evaluate_known(Call& call, const int64_t* symbols) {
  const std::vector<Expression>& all = call.prepared.kernel.expressions;
  for (size_t i = 0; i < all.size(); ++i) {
    if (call.prepared.dims[i] != 0) continue;
    const Expression& e = all[i];
    const auto a = static_cast<uint64_t>(call.known[e.a]), b = static_cast<uint64_t>(call.known[e.b]);
    const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
    int64_t& out = call.known[i];
    switch (e.kind) {
      case Expression::kConstant:
        out = e.value;
        break;
      case Expression::kSymbol:
        out = symbols[e.value];
        break;
      case Expression::kAdd:
        out = static_cast<int64_t>(a + b);
        break;
      case Expression::kMul:
        out = static_cast<int64_t>(a * b);
        break;
      default: {
        if (y <= 0) break;
        const int64_t down = x / y - (x % y < 0);
        out = e.kind == Expression::kFloorDiv ? down : e.kind == Expression::kCeilDiv ? down + (x % y != 0) : x % y + (x % y < 0 ? y : 0);
        break;
      }
    }
  }
}

bool count_of(const std::vector<int64_t>& extents, int64_t* out) {
  *out = 1;
  bool is_empty = false;
  for (int64_t extent : extents) {
    if (extent < 0) return false;
    is_empty |= extent == 0;
    if (extent > 0 && __builtin_mul_overflow(*out, extent, out)) return false;
  }
  if (is_empty) *out = 0;
  return *out <= INT64_MAX / 8;
}

}  // namespace

Program::Program(Kernel kernel, std::shared_ptr<const OwnKernels> own) {
  auto prepared = std::make_unique<Prepared>();
  prepared->kernel = std::move(kernel);
  prepare(*prepared);
  if (own) {
    prepared->parts = parts_of(prepared->kernel, own.get(), nullptr);
    prepared->own = std::move(own);
  }
  prepared_ = std::move(prepared);
}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

const Kernel& Program::kernel() const {
  return prepared_->kernel;
}

namespace {

// What a call has of its own, and its threads share.
struct CallState {
  std::vector<int64_t> known;
  std::vector<View> tensors;
};

// Symbols become the values of expressions, and the extents of tensors.
bool begin_call(Call& call, const int64_t* symbols, size_t symbol_count, std::string* out_error) {
  const Kernel& kernel = call.prepared.kernel;
  auto fail = [&](std::string text) {
    *out_error = std::move(text);
    return false;
  };
  if (symbol_count != kernel.symbols)
    return fail("it has " + std::to_string(kernel.symbols) + " symbols, and was called with " + std::to_string(symbol_count));
  call.known.resize(kernel.expressions.size());
  evaluate_known(call, symbols);
  for (size_t i = 0; i < kernel.tensors.size(); ++i) {
    const Tensor& tensor = kernel.tensors[i];
    View view;
    scalar_of(tensor.type, &view.scalar);
    view.is_unsigned = tensor.type == HEDDLE_TYPE_U8 || tensor.type == HEDDLE_TYPE_U16 || tensor.type == HEDDLE_TYPE_U32 ||
                       tensor.type == HEDDLE_TYPE_BOOL;
    for (uint32_t extent : tensor.extents) view.extents.push_back(call.known[extent]);
    if (!count_of(view.extents, &view.count)) return fail("tensor " + std::to_string(i) + " has a negative extent, or is too large");
    view.strides.resize(view.extents.size());
    int64_t stride = 1;
    for (size_t d = view.extents.size(); d-- > 0; stride *= std::max<int64_t>(1, view.extents[d])) view.strides[d] = stride;
    call.tensors.push_back(std::move(view));
  }
  return true;
}

uint64_t tensor_bytes(const View& view) {
  return static_cast<uint64_t>(view.count) * bytes_of(view.scalar);
}

uint64_t rounded_up(uint64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// Moves from one tensor between nodes to the place of the next one in the workspace.
bool next_in_workspace(uint64_t bytes, uint64_t* place) {
  return bytes <= INT64_MAX && !__builtin_add_overflow(*place, rounded_up(bytes), place);
}

// With less work, threads would wait for each other longer than they compute.
constexpr uint64_t kStepsForThreads = 1 << 15, kProductsForThreads = 1 << 20;

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};
using Aligned = std::unique_ptr<char, FreeMemory>;

Aligned aligned(uint64_t bytes) {
  constexpr uint64_t kAlignment = 64;
  if (bytes == 0) return nullptr;
  Aligned memory(static_cast<char*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

// The sums of a product that a kernel of the driver's own has computed.
struct OwnSums {
  Aligned memory;
  float* data = nullptr;
  bool finish = false;  // whether the results are still to be made of them
};
enum class Own { kNot, kDone, kFailed };

// Whether a product's results are its sums.
bool is_plain(const Kernel& kernel, const Node& node) {
  const Body& finish = node.bodies[1];
  return node.results.size() == 1 && kernel.tensors[node.results[0]].type == HEDDLE_TYPE_F32 && finish.yields.size() == 1 &&
         finish.yields[0] == finish.arguments.size() - 1;
}

// Runs a node or a set by a kernel of the driver's own, if that takes it with these symbols. taken: the answer without symbols.
Own run_own(const Prepared& prepared, Call& call, const std::vector<uint32_t>& nodes, const Answer& taken, const int64_t* symbols,
            const Limits& limits, Workers* workers, OwnSums* sums, uint64_t* own_ns, std::string* out_error) {
  if (taken.kernel.empty()) return Own::kNot;
  const Kernel& kernel = prepared.kernel;
  const Node& node = kernel.nodes[nodes[0]];
  ProductForm form;
  bool is_product = false;
  const Answer answer = ask(kernel, prepared.own.get(), nodes, symbols, &form, &is_product);
  if (answer.kernel.empty()) return Own::kNot;
  const Offer offer = {kernel, nodes[0], is_product ? &form : nullptr, true, nodes, values_of(kernel, symbols)};
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  uint64_t bytes = answer.workspace_bytes;
  if (is_product) {
    const View& result = call.tensors[node.results[0]];
    sums->finish = !is_plain(kernel, node);
    // A result takes the place of its sum. Of several, one may be the sum itself.
    const bool is_own = sums->finish && (node.results.size() > 1 || kernel.tensors[node.results[0]].type != HEDDLE_TYPE_F32);
    const uint64_t more = is_own ? static_cast<uint64_t>(result.count) * sizeof(float) : 0;
    if (__builtin_add_overflow(bytes, more, &bytes) || bytes > limits.memory_bytes) {
      *out_error = "kernel '" + answer.kernel + "' needs " + std::to_string(answer.workspace_bytes) + " bytes, and sums of " +
                   std::to_string(more) + ", and a call may take " + std::to_string(limits.memory_bytes);
      return Own::kFailed;
    }
    sums->memory = aligned(more);
    sums->data = reinterpret_cast<float*>(is_own ? sums->memory.get() : result.data);
  }
  const Aligned workspace = aligned(answer.workspace_bytes);
  std::vector<TensorMemory> tensors;
  for (const View& view : call.tensors) tensors.push_back({view.data, &view.extents});
  const bool is_done = prepared.own->run({offer, tensors, sums->data, workspace.get(), workers}, out_error);
  *own_ns += static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
  return is_done ? Own::kDone : Own::kFailed;
}

// A thread's own state in a call.
struct Share {
  // `memory`: room for the kernel's scratch memory; null: it is taken from the heap.
  Share(const Call& of, char* memory)
      : call(of),
        node_memory(memory),
        memory_of_call(memory, memory ? of.prepared.evaluator_bytes : 0),
        evaluator(call, memory ? &memory_of_call : heap()) {
    if (memory) node_memory += of.prepared.evaluator_bytes;
  }
  static std::pmr::memory_resource* heap() { return std::pmr::new_delete_resource(); }

  Call call;
  char* node_memory;  // null: the heap
  std::pmr::monotonic_buffer_resource memory_of_call;
  Evaluator evaluator;
  bool is_done = true, by_element = false;
};

// What is left of the workspace behind its tensors.
class Room {
 public:
  Room(char* data, uint64_t bytes) {
    const uint64_t gap = -reinterpret_cast<uintptr_t>(data) % kWorkspaceAlignment;
    if (bytes < gap) return;
    data_ = data + gap, bytes_ = bytes - gap;
  }
  // How many of up to `parts` have room for so many bytes, which is a multiple of kWorkspaceAlignment.
  uint32_t parts(uint64_t bytes, uint32_t parts) const { return static_cast<uint32_t>(std::min<uint64_t>(parts, bytes_ / bytes)); }
  char* take(uint64_t bytes) {
    bytes_ -= bytes;
    return std::exchange(data_, data_ + bytes);
  }
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace

std::vector<uint32_t> sorted_bytes(const Node& node) {
  std::vector<uint32_t> out;
  if (node.kind != NodeKind::kSort) return out;
  const Body& element = node.bodies[0];
  const auto arguments = static_cast<uint32_t>(element.arguments.size());
  for (uint32_t value : element.yields)  // keys
    out.push_back(bytes_of(value < arguments ? element.arguments[value] : element.instructions[value - arguments].type));
  out.insert(out.end(), 2, sizeof(int64_t));  // indices, before and after a pass
  return out;
}

bool Program::binding_bytes(const int64_t* symbols, size_t symbol_count, std::vector<uint64_t>* out, std::string* out_error,
                            uint64_t* out_workspace_bytes) const {
  CallState state;
  Call call = {*prepared_, state.known, state.tensors, {}};
  if (!begin_call(call, symbols, symbol_count, out_error)) return false;
  const size_t bindings = kernel().inputs + kernel().outputs;
  out->clear();
  for (size_t i = 0; i < bindings; ++i) out->push_back(tensor_bytes(call.tensors[i]));
  if (!out_workspace_bytes) return true;
  uint64_t place = 0;
  for (size_t i = bindings; i < call.tensors.size(); ++i) {
    if (!next_in_workspace(tensor_bytes(call.tensors[i]), &place)) return *out_error = "its workspace is too large", false;
  }
  *out_workspace_bytes = place;
  return true;
}

uint64_t Program::scratch_bytes() const {
  return prepared_->scratch_bytes;
}

bool Program::run(const std::vector<Memory>& bindings, const int64_t* symbols, size_t symbol_count, std::string* out_error,
                  const Limits& limits, Workers* workers, Used* out_used) const {
  const Kernel& kernel = prepared_->kernel;
  CallState state;
  Call call = {*prepared_, state.known, state.tensors, {}};
  uint64_t memory_bytes = limits.memory_bytes;  // that may still be taken
  auto fail = [&](std::string text) {
    *out_error = std::move(text);
    return false;
  };
  const size_t own_bindings = kernel.inputs + kernel.outputs;
  if (!takes_bindings(kernel, bindings.size()))
    return fail("it takes " + taken_bindings(kernel) + ", and was called with " + std::to_string(bindings.size()));
  if (!begin_call(call, symbols, symbol_count, out_error)) return false;
  const Memory* workspace = bindings.size() > own_bindings ? &bindings.back() : nullptr;
  std::vector<std::unique_ptr<char[]>> between;
  uint64_t place = 0;
  for (uint64_t i = 0; i < kernel.tensors.size(); ++i) {
    View& view = call.tensors[i];
    const uint64_t bytes = tensor_bytes(view);
    if (i < own_bindings) {
      if (bytes > bindings[i].bytes)
        return fail("binding " + std::to_string(i) + " has " + std::to_string(bindings[i].bytes) + " bytes, and its tensor " +
                    std::to_string(bytes));
      if (bytes > 0 && reinterpret_cast<uintptr_t>(bindings[i].data) % bytes_of(view.scalar) != 0)
        return fail("binding " + std::to_string(i) + " is not aligned to its elements");
      view.data = bindings[i].data;
    } else if (workspace) {
      const uint64_t at = place;
      if (!next_in_workspace(bytes, &place) || place > workspace->bytes)
        return fail("its workspace has " + std::to_string(workspace->bytes) + " bytes, and tensor " + std::to_string(i) +
                    " between two nodes has " + std::to_string(bytes) + " from byte " + std::to_string(at) + " on");
      if (bytes > 0 && reinterpret_cast<uintptr_t>(workspace->data + at) % bytes_of(view.scalar) != 0)
        return fail("its workspace is not aligned to elements of tensor " + std::to_string(i));
      view.data = workspace->data + at;
    } else {
      if (bytes > memory_bytes)
        return fail("a tensor between two nodes has " + std::to_string(bytes) + " bytes, and " + std::to_string(memory_bytes) +
                    " may still be taken");
      memory_bytes -= bytes;
      between.push_back(std::make_unique<char[]>(bytes));
      view.data = between.back().get();
    }
  }
  uint64_t steps = 0;
  uint32_t most_parts = 1;
  std::vector<uint32_t> parts;  // of each node
  for (const Node& node : kernel.nodes) {
    std::vector<int64_t> all, parallel;
    for (uint32_t extent : node.extents) all.push_back(call.known[extent]);
    parallel.assign(all.begin(), all.begin() + node.parallel_rank());
    int64_t count, whole;
    uint64_t more;
    if (!count_of(parallel, &count) || !count_of(all, &whole) ||
        __builtin_mul_overflow(static_cast<uint64_t>(whole), std::max<uint64_t>(1, node.steps), &more) ||
        __builtin_add_overflow(steps, more, &steps) || steps > limits.steps) {
      return fail("its nodes have a negative extent, or more than " + std::to_string(limits.steps) + " steps");
    }
    for (uint32_t result : node.results) {
      if (call.tensors[result].count != count)
        return fail("a node computes " + std::to_string(count) + " elements of tensor " + std::to_string(result) + ", which has " +
                    std::to_string(call.tensors[result].count));
    }
    const bool is_large = more >= (node.kind == NodeKind::kContract ? kProductsForThreads : kStepsForThreads);
    parts.push_back(workers && is_large ? workers->count() : 1);
    most_parts = std::max(most_parts, parts.back());
  }
  // Beyond kScratchBytes, threads share what the workspace has behind the tensors.
  Room room(workspace ? workspace->data + place : nullptr, workspace ? workspace->bytes - place : 0);
  uint64_t in_workspace = 0;  // of the scratch memory of a thread
  if (prepared_->scratch_bytes > kScratchBytes) {
    const uint64_t bytes = rounded_up(prepared_->evaluator_bytes + prepared_->node_bytes);
    if (const uint32_t most = room.parts(bytes, most_parts); most > 0) {
      in_workspace = bytes;
      most_parts = most;
    } else {
      const uint64_t above = prepared_->scratch_bytes - kScratchBytes;
      if (above > memory_bytes / most_parts)
        return fail("its scratch memory needs " + std::to_string(above) + " bytes above " + std::to_string(kScratchBytes) +
                    " for each of " + std::to_string(most_parts) + " threads, and " + std::to_string(memory_bytes) + " may still be taken");
      memory_bytes -= above * most_parts;
    }
  }
  std::vector<std::unique_ptr<Share>> shares;
  for (uint32_t i = 0; i < most_parts; ++i)
    shares.push_back(std::make_unique<Share>(call, in_workspace ? room.take(in_workspace) : nullptr));
  const uint64_t for_lines = kScratchBytes - std::min(kScratchBytes, in_workspace ? 0 : prepared_->scratch_bytes);
  std::vector<uint64_t> lines(kernel.nodes.size());  // of sorts: what a thread has of the workspace
  for (size_t i = 0; i < kernel.nodes.size(); ++i) {
    const Node& node = kernel.nodes[i];
    parts[i] = std::min(parts[i], most_parts);
    if (node.kind != NodeKind::kSort) continue;
    const int64_t count = call.known[node.extents.back()];
    uint64_t bytes;
    const bool is_known = sort_bytes(sorted_bytes(node), count, &bytes);
    if (is_known && bytes <= for_lines) continue;
    if (const uint32_t most = is_known ? room.parts(bytes, parts[i]) : 0; most > 0) {
      lines[i] = bytes;
      parts[i] = most;
    } else if (!is_known || bytes > memory_bytes / parts[i]) {
      return fail("a sort of " + std::to_string(count) + " elements in each of " + std::to_string(parts[i]) +
                  " threads takes more than the " + std::to_string(memory_bytes) + " bytes that may still be taken");
    }
  }
  // Runs a node, or what is left of one, in its parts; false, with the error, if one fails.
  auto run_parts = [&](uint32_t node, auto function) {
    auto run_part = [&](uint32_t part) {
      Share& share = *shares[part];
      std::pmr::monotonic_buffer_resource own(share.node_memory, share.node_memory ? prepared_->node_bytes : 0);
      NodeRunner runner(share.call, share.evaluator, node, {part, parts[node], lines[node] ? room.data() + part * lines[node] : nullptr},
                        share.node_memory ? &own : Share::heap());
      share.is_done = function(runner, share);
    };
    if (parts[node] == 1) {
      run_part(0);
    } else {
      workers->run(parts[node], run_part);
    }
    for (uint32_t part = 0; part < parts[node]; ++part) {
      if (!shares[part]->is_done) return fail("node " + std::to_string(node) + ": " + shares[part]->call.error);
    }
    return true;
  };
  Used used;
  auto interpret = [&](uint32_t i) {
    ++used.interpreted;
    bool again = false;
    for (bool by_element : {false, true}) {
      if (by_element && !again) break;
      if (!run_parts(i, [&](NodeRunner& runner, Share& share) {
            share.by_element = false;
            return runner.run(by_element, &share.by_element);
          }))
        return false;
      for (uint32_t part = 0; part < parts[i]; ++part) again |= shares[part]->by_element;
    }
    return true;
  };
  auto run_together = [&](const std::vector<uint32_t>& nodes, const Answer& taken) {
    OwnSums sums;
    const Own done = run_own(*prepared_, shares[0]->call, nodes, taken, symbols, limits, workers, &sums, &used.own_ns, out_error);
    if (done == Own::kFailed) *out_error = "node " + std::to_string(nodes[0]) + ": " + *out_error;
    if (done == Own::kDone) used.own += static_cast<uint32_t>(nodes.size());
    if (sums.finish && done == Own::kDone &&
        !run_parts(nodes[0], [&](NodeRunner& runner, Share&) { return runner.finish_product(sums.data); }))
      return Own::kFailed;
    return done;
  };
  for (uint32_t i = 0; i < kernel.nodes.size() && prepared_->parts.empty(); ++i) {
    if (!interpret(i)) return false;
  }
  for (const Part& part : prepared_->parts) {
    Own done = run_together(part.nodes, part.answer);
    // Without its set, each node is offered alone.
    for (size_t i = 0; i < part.nodes.size() && done == Own::kNot; ++i) {
      const std::vector<uint32_t> alone = {part.nodes[i]};
      const Own one = part.nodes.size() > 1 ? run_together(alone, part.answer) : Own::kNot;
      if (one == Own::kFailed || (one == Own::kNot && !interpret(alone[0]))) done = Own::kFailed;
    }
    if (done == Own::kFailed) return false;
  }
  if (out_used) *out_used = used;
  return true;
}

bool load(std::string_view image, std::vector<Program>* out, std::string* out_error, std::shared_ptr<const OwnKernels> own) {
  std::vector<Kernel> kernels;
  if (!read_image(image, &kernels, out_error)) return false;
  out->clear();
  for (Kernel& kernel : kernels) out->emplace_back(std::move(kernel), own);
  return true;
}

}  // namespace heddle::sdk::portable
