// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/emit/globals.h"

#include "compiler/ir/narrow.h"

using namespace mlir;

namespace heddle::emit {
namespace {

// A splat below this size is stored; above it, the initializer fills it in.
constexpr uint64_t largest_stored_splat_bytes = 4096;

// The bits of one element, in the low bytes.
uint64_t element_bits(Attribute element) {
  if (auto value = llvm::dyn_cast<FloatAttr>(element)) return value.getValue().bitcastToAPInt().getZExtValue();
  return llvm::cast<IntegerAttr>(element).getValue().getZExtValue();
}

uint32_t element_bytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

}  // namespace

std::vector<char> constant_bytes(ElementsAttr value) {
  uint32_t size = element_bytes(value.getElementType());
  std::vector<char> bytes;
  bytes.reserve(value.getNumElements() * size);
  for (Attribute element : value.getValues<Attribute>()) {
    uint64_t bits = element_bits(element);
    for (uint32_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i)));
  }
  return bytes;
}

uint32_t Globals::add(std::unique_ptr<module_format::GlobalT> global) {
  global->initializer_only = true;  // until the main program uses it
  module_.globals.push_back(std::move(global));
  return module_.globals.size() - 1;
}

void Globals::note_use(uint32_t index, bool in_initializer) {
  if (!in_initializer) module_.globals[index]->initializer_only = false;
}

void Globals::begin_combination(StringRef name) {
  combination_ = name.str();
  filled_.clear();
  fills_.clear();
}

void Globals::check_size(uint32_t index, uint64_t size_bytes) {
  const module_format::GlobalT& global = *module_.globals[index];
  if (global.size_bytes == size_bytes || !mistake_.empty()) return;
  mistake_ = "parameter '" + global.name + "' is used with " + std::to_string(global.size_bytes) + " and with " +
             std::to_string(size_bytes) + " bytes; one name must mean one tensor";
}

uint32_t Globals::derived(StringRef name, uint32_t slot, uint64_t size_bytes) {
  auto [it, is_new] = derived_by_name_.try_emplace(combination_ + "." + name.str(), 0);
  if (is_new) {
    auto global = std::make_unique<module_format::GlobalT>();
    global->name = it->first().str();
    global->kind = module_format::GlobalKind::Derived;
    global->size_bytes = size_bytes;
    global->slot = slot;
    it->second = add(std::move(global));
  }
  check_size(it->second, size_bytes);
  return it->second;
}

uint32_t Globals::state(StringRef function, StringRef argument, uint32_t slot, uint64_t size_bytes) {
  auto [it, is_new] = states_.try_emplace({function.str(), argument.str()}, 0);
  if (is_new) {
    auto global = std::make_unique<module_format::GlobalT>();
    global->name = argument.str();
    global->kind = module_format::GlobalKind::State;
    global->size_bytes = size_bytes;
    global->slot = slot;
    it->second = add(std::move(global));
    note_use(it->second, /*in_initializer=*/false);
  }
  return it->second;
}

uint32_t Globals::parameter(tx::ParameterOp op, uint32_t slot, bool in_initializer) {
  auto type = llvm::cast<RankedTensorType>(op.getType());
  StringRef name = op.getName();
  if (!op.getScope() && name.starts_with(tx::derived_prefix)) {
    uint32_t index = derived(name, slot, tx::byte_size(type));
    note_use(index, in_initializer);
    return index;
  }
  auto [parameter, is_new_parameter] =
      parameters_.try_emplace({op.getScope().value_or("").str(), name.str()}, static_cast<uint32_t>(module_.parameters.size()));
  if (is_new_parameter) {
    auto described = std::make_unique<module_format::ParameterT>();
    described->scope = parameter->first.first;
    described->name = name.str();
    const RankedTensorType declared = tx::declared_type(type, op->getAttrDictionary());
    described->element_type = tx::element_type_code(declared.getElementType());
    described->dims.assign(declared.getShape().begin(), declared.getShape().end());
    described->size_bytes = tx::byte_size(type);
    if (op.getBlocks() && llvm::isa<IntegerType>(type.getElementType())) {
      described->blocks = std::make_unique<module_format::StoredBlocksT>();
      described->blocks->type = op.getBlocks()->str();
    }
    module_.parameters.push_back(std::move(described));
    is_left_.push_back(op.getScope().has_value());
  } else if (is_left_[parameter->second] != op.getScope().has_value() && mistake_.empty()) {
    mistake_ = "parameter '" + name.str() + "' is both a tensor of a file and one of the model; rename one of them";
  }
  auto [it, is_new] = of_parameters_.try_emplace({parameter->second, slot}, 0);
  if (is_new) {
    auto global = std::make_unique<module_format::GlobalT>();
    global->name = name.str();
    global->kind = module_format::GlobalKind::Parameter;
    global->index = parameter->second;
    global->size_bytes = module_.parameters[parameter->second]->size_bytes;
    global->slot = slot;
    it->second = add(std::move(global));
  }
  check_size(it->second, tx::byte_size(type));
  note_use(it->second, in_initializer);
  return it->second;
}

uint32_t Globals::constant(tx::ConstantOp op, uint32_t slot, bool in_initializer) {
  ElementsAttr value = op.getValue();
  uint64_t size_bytes = tx::byte_size(llvm::cast<RankedTensorType>(op.getType()));
  auto splat = llvm::dyn_cast<SplatElementsAttr>(value);
  bool is_filled = splat && size_bytes > largest_stored_splat_bytes;
  auto& known = is_filled ? filled_ : stored_;
  auto [it, is_new] = known.try_emplace({value, slot}, 0);
  if (is_new) {
    auto global = std::make_unique<module_format::GlobalT>();
    std::string number = std::to_string(known.size() - 1);
    global->name = is_filled ? combination_ + ".splat." + number : "constant." + number;
    global->size_bytes = size_bytes;
    global->slot = slot;
    if (is_filled) {
      global->kind = module_format::GlobalKind::Derived;
      fills_.push_back({static_cast<uint32_t>(module_.globals.size()), element_bits(splat.getSplatValue<Attribute>()),
                        element_bytes(splat.getElementType())});
    } else {
      global->kind = module_format::GlobalKind::Constant;
      auto [data, is_new_data] = data_.try_emplace(value);
      if (is_new_data) {
        std::vector<char> bytes = constant_bytes(value);
        data->second = writer_.add_constant(std::as_bytes(std::span(bytes)));
      }
      global->data = std::make_unique<module_format::Range>(data->second);
    }
    it->second = add(std::move(global));
  }
  note_use(it->second, in_initializer);
  return it->second;
}

}  // namespace heddle::emit
