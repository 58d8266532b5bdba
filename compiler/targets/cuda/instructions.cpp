// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See instructions.h.
#include "compiler/targets/cuda/instructions.h"

using namespace mlir;

namespace heddle::targets::cuda {

Instructions::Instructions(KernelBuilder& kernel) : k(kernel) {
  shared_ = k.builder.create<LLVM::PtrToIntOp>(k.location, i32(), k.shared_base());
}

Value Instructions::shared_pointer(Value address, int64_t offset) const {
  auto type = LLVM::LLVMPointerType::get(k.builder.getContext(), 3);
  Value base = k.builder.create<LLVM::IntToPtrOp>(k.location, type, address);
  if (offset == 0) return base;
  return k.builder.create<LLVM::GEPOp>(k.location, type, k.builder.getI8Type(), base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
}

Value Instructions::load_shared(Value address, int64_t offset, Type type, unsigned alignment) const {
  return k.builder.create<LLVM::LoadOp>(k.location, type, shared_pointer(address, offset), alignment);
}

void Instructions::store_shared(Value value, Value address, int64_t offset, unsigned alignment) const {
  k.builder.create<LLVM::StoreOp>(k.location, value, shared_pointer(address, offset), alignment);
}

Value Instructions::assembly(const std::string& text, const std::string& constraints, ValueRange operands, Type result, bool pure) const {
  std::string all = constraints;
  if (!pure) all += all.empty() ? "~{memory}" : ",~{memory}";
  auto op = k.builder.create<LLVM::InlineAsmOp>(k.location, result ? TypeRange(result) : TypeRange(), operands, text, all,
                                                /*has_side_effects=*/!pure, /*is_align_stack=*/false, LLVM::AsmDialectAttr(), ArrayAttr());
  return result ? op.getResult(0) : Value();
}

void Instructions::cluster_barrier() const {
  assembly("barrier.cluster.arrive.release.aligned;", "", {});
  assembly("barrier.cluster.wait.acquire.aligned;", "", {});
}

Value Instructions::in_cluster(Value address, int64_t rank) const {
  return assembly("mapa.shared::cluster.u32 $0, $1, " + std::to_string(rank) + ";", "=r,r", address, i32(), /*pure=*/true);
}

Value Instructions::load_cluster(Value address) const {
  Type floats = LLVM::LLVMStructType::getLiteral(k.builder.getContext(), SmallVector<Type>(4, k.builder.getF32Type()));
  Value loaded = assembly("ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [$4];", "=f,=f,=f,=f,r", address, floats);
  Value all = k.constant(k.vector_type(k.builder.getF32Type(), 4), 0);
  for (int64_t e = 0; e < 4; ++e) {
    Value one = k.builder.create<LLVM::ExtractValueOp>(k.location, loaded, e);
    all = k.builder.create<vector::InsertOp>(k.location, one, all, ArrayRef<int64_t>{e});
  }
  return all;
}

void Instructions::load_matrices(Value address, int64_t offset, bool transposed, KernelBuilder::Values& to) const {
  Type words = LLVM::LLVMStructType::getLiteral(k.builder.getContext(), SmallVector<Type>(4, i32()));
  std::string text = std::string("ldmatrix.sync.aligned.m8n8.x4") + (transposed ? ".trans" : "") + ".shared.b16 {$0, $1, $2, $3}, [$4+" +
                     std::to_string(offset) + "];";
  Value loaded = assembly(text, "=r,=r,=r,=r,r", address, words);
  for (int64_t i = 0; i < 4; ++i) to.push_back(k.builder.create<LLVM::ExtractValueOp>(k.location, loaded, i));
}

void Instructions::multiply_add(StringRef type, ValueRange lhs, ValueRange rhs, MutableArrayRef<Value> sums) const {
  std::string name = type.str(), text = std::string("mma.sync.aligned.") + (name == "tf32" ? "m16n8k8" : "m16n8k16") + ".row.col.f32." +
                                        name + "." + name + ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};";
  Type floats = LLVM::LLVMStructType::getLiteral(k.builder.getContext(), SmallVector<Type>(4, k.builder.getF32Type()));
  SmallVector<Value> operands(lhs.begin(), lhs.end());
  operands.append(rhs.begin(), rhs.end());
  operands.append(sums.begin(), sums.end());
  Value product = assembly(text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", operands, floats, /*pure=*/true);
  for (auto [e, sum] : llvm::enumerate(sums)) sum = k.builder.create<LLVM::ExtractValueOp>(k.location, product, static_cast<int64_t>(e));
}

}  // namespace heddle::targets::cuda
