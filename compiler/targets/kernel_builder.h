// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A machine as emitters see it: loops, loads, stores, index arithmetic, and the current workgroup and thread. Each target derives a builder that
// opens a kernel with its own ABI; the machine decides what an address is. Knows no strategy. All indices are i64 values that count
// elements.
#pragma once

#include <functional>

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets {

class KernelBuilder {
 public:
  virtual ~KernelBuilder() = default;
  // Ends the kernel. Must be the last call, with the builder at the end of the body.
  virtual void finish() = 0;

  mlir::OpBuilder builder;
  mlir::Location location;
  mlir::ModuleOp kernels;
  mlir::StringRef symbol;

  // The start of a tensor's memory, for load() and store().
  mlir::Value operand(unsigned i) const { return bindings_[i]; }
  mlir::Value result(unsigned i) const { return bindings_[operand_count_ + i]; }
  // Runs `body` with these operands and this result as the only ones, in this order.
  void with_bindings(llvm::ArrayRef<unsigned> operands, unsigned result, const std::function<void()>& body);
  // The same by number, operands first.
  mlir::Value binding(unsigned i) const { return bindings_[i]; }
  // Runs `body` with other starts of memory for these bindings.
  void with_bindings(llvm::ArrayRef<std::pair<unsigned, mlir::Value>> replaced, const std::function<void()>& body);
  // Elements from one row of the only result to the next, if they are not dense (tx.dispatch).
  std::optional<int64_t> pitch() const { return pitch_; }

  // ---- the workgroup, on machines that run one for each group of threads; other machines have one thread, and loops over workgroups
  int64_t threads() const { return threads_; }
  mlir::Value block() const { return block_; }    // i64, of the grid in x
  mlir::Value thread() const { return thread_; }  // i64, 0 .. threads - 1

  // For machines whose threads work together:
  // Every thread of the workgroup waits for all others and sees what they wrote.
  virtual void barrier();
  // The value of lane (own lane ^ distance) of the same subgroup. All threads of the subgroup must take part or, on machines that need it
  // (ThreadMachine), all threads of the workgroup. Any scalar of 8 to 64 bits.
  virtual mlir::Value exchange(mlir::Value value, int64_t distance);
  // `count` elements of memory that the workgroup shares, for load() and store(). Each call returns different memory.
  virtual mlir::Value shared(mlir::Type element, int64_t count);
  virtual int64_t shared_bytes() const { return 0; }
  // From here on, the next kernel may start and wait for this one. Nothing on machines that do not start kernels early.
  virtual void let_next_start() {}

  // For machines with clusters of workgroups (ThreadMachine):
  // Each `count` neighboring workgroups become a cluster. Once per kernel.
  virtual void set_cluster(int64_t count);
  // Every thread of the cluster waits for all others and sees what they wrote to shared memory.
  virtual void cluster_barrier();
  // The same memory, which shared() returned, of the workgroup of that rank in the cluster. It exists until that workgroup ends.
  virtual mlir::Value shared_of(mlir::Value memory, int64_t rank);

  // Value of an affine expression over the function's symbols.
  mlir::Value extent(mlir::AffineExpr expression);

  // ---- scalars and index arithmetic; constants fold
  template <typename OpType, typename... Args>
  mlir::Value make(Args&&... args) {
    return builder.createOrFold<OpType>(location, std::forward<Args>(args)...);
  }
  mlir::Value index(int64_t value);
  mlir::Value constant(mlir::Type type, double value);  // int, float or a vector of these
  mlir::Value add(mlir::Value a, mlir::Value b);        // i64
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);  // not negative
  mlir::Value rem(mlir::Value a, mlir::Value b);
  mlir::Value ceil_div(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b) { return add(a, index(b)); }
  mlir::Value mul(mlir::Value a, int64_t b) { return mul(a, index(b)); }
  mlir::Value less(mlir::Value a, mlir::Value b);  // i1, signed

  // ---- memory. `lanes` 0 is a scalar. Bools are i1 in values and one byte in memory; other types are as in memory.
  mlir::Type memory_type(mlir::Type element) const;
  mlir::Value load(mlir::Value base, mlir::Value element_index, mlir::Type element, int64_t lanes = 0, mlir::Value mask = {});
  void store(mlir::Value value, mlir::Value base, mlir::Value element_index, mlir::Value mask = {});
  // For machines with lanes: `lanes` elements from `start` on, a vector of i32 or i64. Lanes outside of the mask are zeros.
  virtual mlir::Value gather(mlir::Value base, mlir::Value start, mlir::Value offsets, mlir::Type element, mlir::Value mask);
  // For machines that have constants in memory: the start of these elements, in row-major order, for load(). They are stored once, next to the code.
  virtual mlir::Value table(mlir::DenseElementsAttr elements);
  // Converts a loaded value of type `element`, integers or floats of 16 or 32 bits, to f32.
  mlir::Value to_f32(mlir::Value loaded, mlir::Type element);

  // ---- vectors
  mlir::VectorType vector_type(mlir::Type element, int64_t lanes) const { return mlir::VectorType::get({lanes}, element); }
  mlir::Value splat(mlir::Value scalar, int64_t lanes);
  // i1 lanes: lane < count.
  mlir::Value remainder_mask(mlir::Value count, int64_t lanes);
  // 0, 1, 2 ...
  mlir::Value iota(mlir::Type element, int64_t lanes);

  // ---- control. Bodies get the induction variable (i64) and the carried values, and return the next carried values.
  using Values = llvm::SmallVector<mlir::Value>;
  Values loop(mlir::Value from, mlir::Value to, mlir::Value step, mlir::ValueRange carried,
              const std::function<Values(mlir::Value, mlir::ValueRange)>& body);
  void loop(mlir::Value from, mlir::Value to, mlir::Value step, const std::function<void(mlir::Value)>& body);
  void loop(mlir::Value from, mlir::Value to, const std::function<void(mlir::Value)>& body) { loop(from, to, index(1), body); }
  void branch(mlir::Value condition, const std::function<void()>& then, const std::function<void()>& otherwise = {});
  Values branch(mlir::Value condition, mlir::TypeRange types, const std::function<Values()>& then,
                const std::function<Values()>& otherwise);

 protected:
  // Appended to `kernels`; the derived class opens the function and fills in bindings and symbols.
  KernelBuilder(tx::DispatchOp region, mlir::ModuleOp kernels);
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;

  // For a scalar or vector of a type in memory. A masked load gives zeros in the other lanes.
  virtual mlir::Value load_memory(mlir::Type type, mlir::Value base, mlir::Value element_index, mlir::Value mask) = 0;
  virtual void store_memory(mlir::Value value, mlir::Value base, mlir::Value element_index, mlir::Value mask) = 0;

  // Bindings that may be the same memory, since the region ties them.
  llvm::SmallVector<bool> aliased_bindings(tx::DispatchOp region) const;

  llvm::SmallVector<mlir::Value> bindings_;  // operands, then results
  llvm::SmallVector<mlir::Value> symbols_;
  unsigned operand_count_ = 0;
  std::optional<int64_t> pitch_;
  int64_t threads_ = 1;
  mlir::Value block_, thread_;
};

// Attribute with the workgroup size, of the function of a kernel of threads.
inline constexpr llvm::StringLiteral threads_attr = "heddle.threads";

// Number of symbols of the function that the region is in.
int64_t symbol_count(tx::DispatchOp region);

}  // namespace heddle::targets
