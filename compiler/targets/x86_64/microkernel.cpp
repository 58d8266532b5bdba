// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits microkernels: broadcasts of A times vectors of B into accumulators that are loop-carried values, so that they stay in registers. The loop
// over k is not unrolled, since LLVM would spill. Called by contraction.
#include "compiler/targets/x86_64/microkernel.h"

#include "compiler/targets/code_units.h"

#include "llvm/Support/MD5.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

int64_t lanes_of(const MicrokernelForm& form, const Level& level) {
  return form.lanes > 0 ? form.lanes : level.f32_lanes();
}

std::string name_of(const MicrokernelForm& form, const Level& level) {
  const int64_t columns = form.vectors * lanes_of(form, level);
  std::string name = ("tile_" + Twine(form.rows) + "x" + Twine(columns)).str();
  if (form.columns != columns) name += "_of_" + std::to_string(form.columns);
  if (form.panel != 0 && form.panel != columns) name += "_in_" + std::to_string(form.panel);
  if (!form.packed) name += "_strided";
  if (form.gathered) name += "_gathered";
  if (form.scattered) name += "_scattered";
  if (form.integers) llvm::raw_string_ostream(name) << "_" << form.integers;
  if (form.has_zero) name += "_less_zero";
  if (form.parts) name += "_in_parts";
  if (form.epilogue && !form.epilogue->key().empty()) {
    llvm::MD5 hash;
    hash.update(form.epilogue->key());
    llvm::MD5::MD5Result digest;
    hash.final(digest);
    name += "_" + std::string(digest.digest().str());
  }
  return name;
}

// Emits the body of one form.
class TileWriter {
 public:
  TileWriter(KernelBuilder& kernel, const MicrokernelForm& form) : k_(kernel), form_(form), lanes_(lanes_of(form, kernel.level)) {}

  func::FuncOp write(StringRef name) {
    OpBuilder::InsertionGuard guard(k_.builder);
    k_.builder.setInsertionPointToEnd(k_.kernels.getBody());
    auto ptr = LLVM::LLVMPointerType::get(k_.builder.getContext());
    Type i64 = k_.builder.getI64Type(), i1 = k_.builder.getI1Type();
    SmallVector<Type> types{
        ptr, ptr, form_.gathered ? Type(ptr) : i64, i64, i64, ptr, i64, ptr, form_.scattered ? Type(ptr) : i64, i1, i64, ptr, i64, i64};
    if (form_.parts) types.append({i64, i64});
    if (form_.has_zero) types.push_back(ptr);
    if (form_.epilogue) types.append(form_.epilogue->operands().size(), ptr);
    auto function = k_.builder.create<func::FuncOp>(k_.location, name, k_.builder.getFunctionType(types, {}));
    function.setPrivate();
    function->setAttr(outlined_attr, k_.builder.getUnitAttr());
    Block* block = function.addEntryBlock();
    k_.builder.setInsertionPointToStart(block);
    body(block->getArguments());
    k_.builder.create<func::ReturnOp>(k_.location);
    return function;
  }

 private:
  using Values = KernelBuilder::Values;

  int64_t tile() const { return form_.rows * form_.vectors; }
  Type f32() { return k_.builder.getF32Type(); }
  Type b_element() { return form_.integers ? form_.integers : f32(); }
  VectorType vector() { return k_.vector_type(f32(), lanes_); }

  // Null unless vector j reaches beyond the existing columns.
  Value mask(int64_t j) {
    int64_t valid = form_.columns - j * lanes_;
    if (valid >= lanes_) return {};
    SmallVector<bool> bits;
    for (int64_t i = 0; i < lanes_; ++i) bits.push_back(i < valid);
    auto type = k_.vector_type(k_.builder.getI1Type(), lanes_);
    return k_.builder.create<arith::ConstantOp>(k_.location, DenseElementsAttr::get(type, ArrayRef<bool>(bits)));
  }
  // Whether none of the vector's columns exist.
  bool outside(int64_t j) const { return j * lanes_ >= form_.columns; }

  void body(ValueRange arguments) {
    Value a = arguments[0], offsets = arguments[1], lda = arguments[2], batches = arguments[3], depth = arguments[4], b = arguments[5],
          ldb = arguments[6], c = arguments[7], ldc = arguments[8], accumulate = arguments[9], ahead = arguments[10], next = arguments[11],
          next_step = arguments[12], next_batch = arguments[13];
    ValueRange more = arguments.drop_front(14);
    auto taken = [&](size_t count) {
      ValueRange first = more.take_front(count);
      more = more.drop_front(count);
      return first;
    };
    ValueRange part = taken(form_.parts ? 2 : 0), zeros = taken(form_.has_zero ? 1 : 0), epilogue = more;
    for (int64_t j = 0; form_.has_zero && j < form_.vectors; ++j) {
      zeros_.push_back(outside(j) ? Value() : k_.load(zeros[0], k_.index(j * lanes_), f32(), lanes_, mask(j)));
    }
    Value zero = k_.index(0), one = k_.index(1);
    if (form_.packed) ldb = k_.index(form_.panel > 0 ? form_.panel : form_.vectors * lanes_);

    SmallVector<Value> a_rows, c_rows;
    for (int64_t i = 0; i < form_.rows; ++i) {
      a_rows.push_back(form_.gathered ? k_.load(lda, k_.index(i), k_.builder.getI64Type()) : k_.mul(lda, i));
      c_rows.push_back(form_.scattered ? k_.load(ldc, k_.index(i), k_.builder.getI64Type()) : k_.mul(ldc, i));
    }
    for (int64_t i = 0; i < form_.rows; ++i) {
      for (int64_t j = 0; j < form_.vectors; ++j) {
        if (j * lanes_ % 16 != 0 || outside(j)) continue;
        Value at = k_.add(k_.add(c_rows[i], j * lanes_), ahead);
        prefetch(c, at, /*write=*/1, 3);
        if (!form_.epilogue) continue;
        for (auto [operand, base] : llvm::zip_equal(form_.epilogue->operands(), epilogue)) {
          if (operand.kind == EpilogueOperand::full) prefetch(base, at, 0, 3);
        }
      }
    }

    const Values nothing(tile(), k_.constant(vector(), 0.0));
    auto sum = [&](Value first_batch, Value last_batch, Value first_k, Value last_k) {
      return k_.loop(first_batch, last_batch, one, nothing, [&](Value r, ValueRange outer) {
        Value a_offset = k_.load(offsets, r, k_.builder.getI64Type());
        Value b_block = k_.pointer(b, k_.mul(k_.mul(r, depth), ldb), b_element());
        Value next_block = k_.pointer(next, k_.mul(r, next_batch), f32());
        return k_.loop(first_k, last_k, one, outer,
                       [&](Value k, ValueRange inner) { return step(k, inner, a, a_offset, a_rows, b_block, ldb, next_block, next_step); });
      });
    };
    Values sums;
    if (form_.parts) {
      sums = k_.loop(zero, batches, part[0], nothing, [&](Value r, ValueRange outer) {
        return k_.loop(zero, depth, part[1], outer, [&](Value k, ValueRange before) {
          Values added = sum(r, k_.min(k_.add(r, part[0]), batches), k, k_.min(k_.add(k, part[1]), depth));
          for (auto [value, earlier] : llvm::zip_equal(added, before)) value = k_.make<arith::AddFOp>(earlier, value);
          return added;
        });
      });
    } else {
      sums = sum(zero, batches, zero, depth);
    }
    sums = k_.branch(
        accumulate, SmallVector<Type>(tile(), vector()),
        [&] {
          Values added;
          for_tile([&](int64_t i, int64_t j, int64_t at) {
            added.push_back(outside(j)
                                ? sums[at]
                                : k_.make<arith::AddFOp>(k_.load(c, k_.add(c_rows[i], j * lanes_), f32(), lanes_, mask(j)), sums[at]));
          });
          return added;
        },
        [&] { return sums; });

    store(sums, c, c_rows, ldc, epilogue);
  }

  void prefetch(Value base, Value element, int rw, int locality) {
    k_.builder.create<LLVM::Prefetch>(k_.location, k_.pointer(base, element, f32()), rw, locality, /*cache=*/1);
  }

  void for_tile(const std::function<void(int64_t, int64_t, int64_t)>& visit) {
    for (int64_t i = 0; i < form_.rows; ++i) {
      for (int64_t j = 0; j < form_.vectors; ++j) visit(i, j, i * form_.vectors + j);
    }
  }

  Values step(Value k, ValueRange sums, Value a, Value a_offset, ArrayRef<Value> a_rows, Value b, Value ldb, Value next, Value next_step) {
    Value b_row = k_.mul(k, ldb);
    prefetch(next, k_.mul(k, next_step), 0, 2);
    SmallVector<Value> columns;
    for (int64_t j = 0; j < form_.vectors; ++j) {
      if (!form_.packed && outside(j)) {
        columns.push_back(k_.constant(vector(), 0.0));
        continue;
      }
      Value loaded = k_.load(b, k_.add(b_row, j * lanes_), b_element(), lanes_, form_.packed ? Value() : mask(j));
      Value column = k_.to_f32(loaded, b_element());
      columns.push_back(form_.has_zero && !outside(j) ? k_.make<arith::SubFOp>(column, zeros_[j]) : column);
    }
    Values result;
    Value a_column = k_.add(k, a_offset);
    for (int64_t i = 0; i < form_.rows; ++i) {
      Value element = k_.load(a, k_.add(a_column, a_rows[i]), f32());
      Value row = k_.make<vector::BroadcastOp>(vector(), element);
      for (int64_t j = 0; j < form_.vectors; ++j) result.push_back(k_.make<vector::FMAOp>(row, columns[j], sums[i * form_.vectors + j]));
    }
    return result;
  }

  void store(ValueRange sums, Value c, ArrayRef<Value> c_rows, Value ldc, ValueRange epilogue) {
    bool is_late = form_.epilogue && form_.epilogue->is_long();
    Value apart;  // a vector with a mask waits on the stack, since processors do not forward what was stored with a mask
    for (int64_t j = 0; j < form_.vectors; ++j) {
      if (outside(j)) continue;
      if (is_late && mask(j)) {
        auto ptr = LLVM::LLVMPointerType::get(k_.builder.getContext());
        apart = k_.builder.create<LLVM::AllocaOp>(k_.location, ptr, vector(), k_.index(form_.rows), /*alignment=*/64);
        for (int64_t i = 0; i < form_.rows; ++i) k_.store(sums[i * form_.vectors + j], apart, k_.index(i * lanes_));
        continue;
      }
      Operands operands = is_late ? Operands() : column_operands(j, epilogue);
      for (int64_t i = 0; i < form_.rows; ++i) {
        Value at = k_.add(c_rows[i], j * lanes_), value = sums[i * form_.vectors + j];
        if (form_.epilogue && !is_late) value = with_epilogue(value, k_.index(i), at, j, operands, epilogue);
        k_.store(value, c, at, mask(j));
      }
    }
    if (!is_late) return;
    // The tile is in the first-level cache now. The vectors of a row are independent, so the processor stays busy while each waits for its own last
    // step.
    SmallVector<Operands> operands;
    for (int64_t j = 0; j < form_.vectors; ++j) operands.push_back(outside(j) ? Operands() : column_operands(j, epilogue));
    k_.loop(k_.index(0), k_.index(form_.rows), [&](Value row) {
      for (int64_t j = 0; j < form_.vectors; ++j) {
        if (outside(j)) continue;
        Value at = k_.add(form_.scattered ? k_.load(ldc, row, k_.builder.getI64Type()) : k_.mul(row, ldc), j * lanes_);
        Value value = mask(j) ? k_.load(apart, k_.mul(row, lanes_), f32(), lanes_) : k_.load(c, at, f32(), lanes_);
        k_.store(with_epilogue(value, row, at, j, operands[j], epilogue), c, at, mask(j));
      }
    });
  }

  using Operands = SmallVector<Value>;

  // Operands that all rows of a tile's column of vectors share; null for operands of which each row reads its own element.
  Operands column_operands(int64_t j, ValueRange epilogue) {
    Operands operands;
    if (!form_.epilogue) return operands;
    for (auto [operand, base] : llvm::zip_equal(form_.epilogue->operands(), epilogue)) {
      Value loaded;
      if (operand.kind == EpilogueOperand::column) loaded = k_.load(base, k_.index(j * lanes_), f32(), lanes_, mask(j));
      if (operand.kind == EpilogueOperand::scalar) loaded = k_.make<vector::BroadcastOp>(vector(), k_.load(base, k_.index(0), f32()));
      operands.push_back(loaded);
    }
    return operands;
  }

  Value with_epilogue(Value value, Value row, Value at, int64_t j, Operands operands, ValueRange epilogue) {
    for (auto [operand, base, loaded] : llvm::zip_equal(form_.epilogue->operands(), epilogue, operands)) {
      if (operand.kind == EpilogueOperand::full) loaded = k_.load(base, at, f32(), lanes_, mask(j));
      if (operand.kind == EpilogueOperand::row) loaded = k_.make<vector::BroadcastOp>(vector(), k_.load(base, row, f32()));
    }
    return form_.epilogue->emit(k_, value, operands);
  }

  KernelBuilder& k_;
  const MicrokernelForm& form_;
  int64_t lanes_;
  SmallVector<Value> zeros_;  // by vectors of columns; null where none exist
};

// One batch at offset 0.
Value single_offset(KernelBuilder& kernel) {
  return constant_offsets(kernel, {0});
}

}  // namespace

int64_t tile_rows(const Level& level, int64_t vectors) {
  if (level.register_count < 32) return vectors <= 2 ? 6 : 4;
  switch (vectors) {
    case 1:
      return 14;
    case 2:
      return 14;
    case 3:
      return 8;
    default:
      return 6;
  }
}

PanelVectors PanelVectors::of(const Level& level, int64_t width, int64_t columns) {
  constexpr int64_t few = 8, rows_of_few = 12;
  if (columns <= few && width > few) return {1, few, level.register_count < 32 ? rows_of_few : tile_rows(level, 1)};
  const int64_t vectors = width / level.f32_lanes();
  return {vectors, level.f32_lanes(), tile_rows(level, vectors)};
}

Value constant_offsets(KernelBuilder& kernel, ArrayRef<int64_t> offsets) {
  std::string name = "offsets";
  llvm::MD5 hash;
  for (int64_t offset : offsets) hash.update(std::to_string(offset) + ",");
  llvm::MD5::MD5Result digest;
  hash.final(digest);
  name += "_" + std::string(digest.digest().str());
  auto ptr = LLVM::LLVMPointerType::get(kernel.builder.getContext());
  if (!kernel.kernels.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(kernel.builder);
    kernel.builder.setInsertionPointToStart(kernel.kernels.getBody());
    auto type = LLVM::LLVMArrayType::get(kernel.builder.getI64Type(), offsets.size());
    auto tensor = RankedTensorType::get({static_cast<int64_t>(offsets.size())}, kernel.builder.getI64Type());
    kernel.builder.create<LLVM::GlobalOp>(kernel.location, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                                          DenseElementsAttr::get(tensor, offsets), /*alignment=*/64);
  }
  return kernel.builder.create<LLVM::AddressOfOp>(kernel.location, ptr, name);
}

void call_microkernel(KernelBuilder& kernel, const MicrokernelForm& form, const MicrokernelArguments& in) {
  std::string name = name_of(form, kernel.level);
  auto function = kernel.kernels.lookupSymbol<func::FuncOp>(name);
  if (!function) function = TileWriter(kernel, form).write(name);
  Value offsets = in.offsets ? in.offsets : single_offset(kernel);
  SmallVector<Value> arguments{in.a, offsets, in.lda,        in.batches, in.depth, in.b,        in.ldb,
                               in.c, in.ldc,  in.accumulate, in.ahead,   in.next,  in.next_step};
  arguments.push_back(in.next_batch ? in.next_batch : kernel.mul(in.depth, in.next_step));
  if (form.parts) arguments.append({in.part_batches, in.part_depth});
  if (form.has_zero) arguments.push_back(in.zero);
  if (form.epilogue) arguments.append(in.epilogue.begin(), in.epilogue.end());
  kernel.builder.create<func::CallOp>(kernel.location, function, arguments);
}

}  // namespace heddle::targets::x86_64
