// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every tx op, written out from its definition. See reference.h.
#include "tests/compiler/reference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "compiler/ir/bits.h"
#include "compiler/ir/ngrams.h"
#include "compiler/ir/suppress.h"
#include "compiler/ir/trees.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "sdk/module/block_types.h"

using namespace mlir;
using namespace heddle;

namespace heddle::tests {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

using Index = std::vector<int64_t>;

int64_t offset(const Index& index, const std::vector<int64_t>& strides) {
  int64_t result = 0;
  for (size_t i = 0; i < index.size(); ++i) result += index[i] * strides[i];
  return result;
}

// Calls body(index, position) for every element in row-major order.
template <typename Body>
void for_each(const std::vector<int64_t>& shape, Body body) {
  int64_t count = element_count(shape);
  Index index(shape.size(), 0);
  for (int64_t position = 0; position < count; ++position) {
    body(index, position);
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

bool is_unsigned(Type element) {
  auto integer = llvm::dyn_cast<IntegerType>(element);
  return integer && (integer.isUnsigned() || integer.getWidth() == 1);
}

double saturate(double value, Type element) {
  if (element.isInteger(1)) return value != 0;
  unsigned width = element.getIntOrFloatBitWidth();
  double low = is_unsigned(element) ? 0 : -std::ldexp(1.0, static_cast<int>(width) - 1);
  double high = is_unsigned(element) ? std::ldexp(1.0, static_cast<int>(width)) : std::ldexp(1.0, static_cast<int>(width) - 1);
  if (std::isnan(value)) return 0;
  value = std::trunc(value);
  if (value < low) return low;
  if (value >= high) return high - 1;
  return value;
}

double compute_unary(Operation* op, double x) {
  return llvm::TypeSwitch<Operation*, double>(op)
      .Case([&](tx::NegOp) { return -x; })
      .Case([&](tx::AbsOp) { return std::fabs(x); })
      .Case([&](tx::ExpOp) { return std::exp(x); })
      .Case([&](tx::LogOp) { return std::log(x); })
      .Case([&](tx::SqrtOp) { return std::sqrt(x); })
      .Case([&](tx::RsqrtOp) { return 1 / std::sqrt(x); })
      .Case([&](tx::ReciprocalOp) { return 1 / x; })
      .Case([&](tx::TanhOp) { return std::tanh(x); })
      .Case([&](tx::SigmoidOp) { return 1 / (1 + std::exp(-x)); })
      .Case([&](tx::ErfOp) { return std::erf(x); })
      .Case([&](tx::CosOp) { return std::cos(x); })
      .Case([&](tx::SinOp) { return std::sin(x); })
      .Case([&](tx::ReluOp) { return std::isnan(x) ? x : std::max(x, 0.0); })
      .Case([&](tx::FloorOp) { return std::floor(x); })
      .Case([&](tx::CeilOp) { return std::ceil(x); })
      .Case([&](tx::RoundOp) { return std::nearbyint(x); })
      .Default([](Operation*) -> double { throw std::logic_error("no unary op"); });
}

double compute_binary(Operation* op, double a, double b, bool integer) {
  return llvm::TypeSwitch<Operation*, double>(op)
      .Case([&](tx::AddOp) { return a + b; })
      .Case([&](tx::SubOp) { return a - b; })
      .Case([&](tx::MulOp) { return a * b; })
      .Case([&](tx::DivOp) { return integer ? std::trunc(a / b) : a / b; })
      .Case([&](tx::MaxOp) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); })
      .Case([&](tx::MinOp) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b); })
      .Case([&](tx::PowOp) { return std::pow(a, b); })
      .Case([&](tx::BitAndOp) { return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b)); })
      .Case([&](tx::BitOrOp) { return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b)); })
      .Case([&](tx::BitXorOp) { return static_cast<double>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b)); })
      .Default([](Operation*) -> double { throw std::logic_error("no binary op"); });
}

// The bits of an element of that type, in the lower bits; and the other way round.
uint64_t bits_of(double value, Type element) {
  if (!llvm::isa<FloatType>(element))
    return is_unsigned(element) ? static_cast<uint64_t>(value) : static_cast<uint64_t>(static_cast<int64_t>(value));
  llvm::APFloat exact(value);
  bool lost;
  exact.convert(llvm::cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return exact.bitcastToAPInt().getZExtValue();
}
double from_bits(uint64_t bits, Type element) {
  const unsigned width = element.getIntOrFloatBitWidth();
  const llvm::APInt all(width, width == 64 ? bits : bits & ((uint64_t{1} << width) - 1));
  auto real = llvm::dyn_cast<FloatType>(element);
  if (!real) return is_unsigned(element) ? static_cast<double>(all.getZExtValue()) : static_cast<double>(all.getSExtValue());
  llvm::APFloat value(real.getFloatSemantics(), all);
  bool lost;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return value.convertToDouble();
}

// The words of a counter after ten rounds, of which this is the first.
uint32_t philox(int64_t index, int64_t seed) {
  uint32_t c[4] = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0};
  uint32_t k[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0];
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1];
    c[3] = static_cast<uint32_t>(a);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c[0];
}

double compute_compare(tx::CompareKind kind, double a, double b) {
  switch (kind) {
    case tx::CompareKind::eq:
      return a == b;
    case tx::CompareKind::ne:
      return a != b;
    case tx::CompareKind::lt:
      return a < b;
    case tx::CompareKind::le:
      return a <= b;
    case tx::CompareKind::gt:
      return a > b;
    case tx::CompareKind::ge:
      return a >= b;
  }
  return 0;
}

class Evaluator {
 public:
  explicit Evaluator(ArrayRef<int64_t> symbols) : symbols_(symbols) {}

  const Tensor& get(Value value) { return values_.find(value)->second; }
  void set(Value value, Tensor tensor) { values_.insert_or_assign(value, std::move(tensor)); }

  void run(Operation* op) {
    auto type = llvm::cast<RankedTensorType>(op->getResult(0).getType());
    Tensor result;
    result.shape = shape_of(type, symbols_);
    result.data.resize(element_count(result.shape));
    if (tx::is_elementwise(op)) {
      elementwise(op, result, type);
    } else {
      llvm::TypeSwitch<Operation*>(op)
          .Case([&](tx::ConstantOp constant) { fill(constant, result); })
          .Case([&](tx::ReshapeOp move) { result.data = get(move.getInput()).data; })
          .Case([&](tx::TransposeOp move) { transpose(move, result); })
          .Case([&](tx::BroadcastOp move) { broadcast(move, result); })
          .Case([&](tx::SliceOp move) { slice(move, result); })
          .Case([&](tx::PadOp move) { pad(move, result); })
          .Case([&](tx::ConcatOp move) { concat(move, result); })
          .Case([&](tx::GatherOp move) { gather(move, result); })
          .Case([&](tx::GatherElementsOp move) { gather_elements(move, result); })
          .Case([&](tx::GatherNdOp move) { gather_nd(move, result); })
          .Case([&](tx::IotaOp iota) {
            for_each(result.shape, [&](const Index& index, int64_t position) {
              result.data[position] = static_cast<double>(index[iota.getDimension()]);
            });
          })
          .Case([&](tx::MatmulOp matmul_op) { matmul(matmul_op, result); })
          .Case([&](tx::ConvOp conv_op) { conv(conv_op, result); })
          .Case([&](tx::PackOp pack) { result = get(pack.getInput()); })
          .Case([&](tx::PoolOp pool_op) { pool(pool_op, result); })
          .Case([&](tx::ReduceOp reduce_op) { reduce(reduce_op, result); })
          .Case([&](tx::ArgReduceOp arg_op) { arg_reduce(arg_op, result); })
          .Case([&](tx::CumsumOp cumsum_op) { cumsum(cumsum_op, result); })
          .Case([&](tx::SortOp sort_op) { sort(sort_op, result); })
          .Case([&](tx::ScatterOp scatter_op) { scatter(scatter_op, result); })
          .Case([&](tx::SuppressOp suppress_op) { suppress(suppress_op, result); })
          .Case([&](tx::NgramsOp ngrams_op) { ngrams(ngrams_op, result); })
          .Case([&](tx::TreesOp trees_op) { trees(trees_op, result); })
          .Case([&](tx::SoftmaxOp softmax_op) { softmax(softmax_op, result); })
          .Case([&](tx::LrnOp lrn_op) { lrn(lrn_op, result); })
          .Case([&](tx::BatchNormOp norm) { batch_norm(norm, result); })
          .Default(
              [](Operation* other) { throw std::logic_error("reference: no evaluation of " + other->getName().getStringRef().str()); });
    }
    set(op->getResult(0), std::move(result));
  }

 private:
  void elementwise(Operation* op, Tensor& result, RankedTensorType type) {
    Type element = type.getElementType();
    bool integer = llvm::isa<IntegerType>(element);
    for (size_t i = 0; i < result.data.size(); ++i) {
      double value;
      if (auto compare = llvm::dyn_cast<tx::CompareOp>(op)) {
        value = compute_compare(compare.getKind(), get(compare.getLhs()).data[i], get(compare.getRhs()).data[i]);
      } else if (auto select = llvm::dyn_cast<tx::SelectOp>(op)) {
        value = get(select.getCondition()).data[i] != 0 ? get(select.getOnTrue()).data[i] : get(select.getOnFalse()).data[i];
      } else if (auto cast = llvm::dyn_cast<tx::CastOp>(op)) {
        value = get(cast.getInput()).data[i];
        bool from_float = llvm::isa<FloatType>(llvm::cast<RankedTensorType>(cast.getInput().getType()).getElementType());
        if (integer) value = element.isInteger(1) ? value != 0 : from_float ? saturate(value, element) : stored(value, element);
      } else if (auto cast = llvm::dyn_cast<tx::BitCastOp>(op)) {
        value = from_bits(bits_of(get(cast.getInput()).data[i], tx::element_of(cast.getInput())), element);
      } else if (auto random = llvm::dyn_cast<tx::RandomBitsOp>(op)) {
        value = philox(static_cast<int64_t>(get(random.getIndex()).data[i]), static_cast<int64_t>(get(random.getSeed()).data[i]));
      } else if (op->getNumOperands() == 2) {
        value = compute_binary(op, get(op->getOperand(0)).data[i], get(op->getOperand(1)).data[i], integer);
      } else {
        value = compute_unary(op, get(op->getOperand(0)).data[i]);
      }
      result.data[i] = integer ? stored(value, element) : value;
    }
  }

  void fill(tx::ConstantOp op, Tensor& result) {
    auto dense = llvm::cast<DenseElementsAttr>(op.getValue());
    Type element = dense.getElementType();
    for (size_t i = 0; i < result.data.size(); ++i) {
      size_t at = dense.isSplat() ? 0 : i;
      if (llvm::isa<FloatType>(element)) {
        APFloat value = *(dense.value_begin<APFloat>() + at);
        bool lost;
        value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
        result.data[i] = value.convertToDouble();
      } else {
        APInt value = *(dense.value_begin<APInt>() + at);
        result.data[i] = is_unsigned(element) ? static_cast<double>(value.getZExtValue()) : static_cast<double>(value.getSExtValue());
      }
    }
  }

  void transpose(tx::TransposeOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    auto strides = strides_of(input.shape);
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index source(index.size());
      for (size_t i = 0; i < index.size(); ++i) source[op.getPermutation()[i]] = index[i];
      result.data[position] = input.data[offset(source, strides)];
    });
  }

  void broadcast(tx::BroadcastOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    auto strides = strides_of(input.shape);
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index source(input.shape.size());
      for (size_t i = 0; i < source.size(); ++i) source[i] = input.shape[i] == 1 ? 0 : index[op.getDimensions()[i]];
      result.data[position] = input.data[offset(source, strides)];
    });
  }

  void slice(tx::SliceOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    auto strides = strides_of(input.shape);
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index source(index.size());
      for (size_t i = 0; i < index.size(); ++i) source[i] = op.getStarts()[i] + index[i] * op.getStrides()[i];
      result.data[position] = input.data[offset(source, strides)];
    });
  }

  void pad(tx::PadOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    auto strides = strides_of(input.shape);
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index source(index.size());
      bool inside = true;
      for (size_t i = 0; i < index.size(); ++i) {
        source[i] = index[i] - op.getLow()[i];
        inside &= source[i] >= 0 && source[i] < input.shape[i];
      }
      result.data[position] = inside ? input.data[offset(source, strides)] : op.getValue().convertToDouble();
    });
  }

  void concat(tx::ConcatOp op, Tensor& result) {
    int64_t axis = static_cast<int64_t>(op.getAxis());
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index source = index;
      for (Value value : op.getInputs()) {
        const Tensor& input = get(value);
        if (source[axis] < input.shape[axis]) {
          result.data[position] = input.data[offset(source, strides_of(input.shape))];
          return;
        }
        source[axis] -= input.shape[axis];
      }
    });
  }

  // The values of rows of blocks.
  static Tensor decoded(const Tensor& rows, std::optional<StringRef> blocks) {
    if (!blocks) return rows;
    const module::BlockType& type = *module::block_type(blocks->str());
    std::vector<std::byte> bytes;
    for (double byte : rows.data) bytes.push_back(static_cast<std::byte>(byte));
    const size_t count = bytes.size() / type.bytes;
    std::vector<float> values(count * type.elements);
    module::decode_blocks(type, bytes.data(), count, HEDDLE_TYPE_F32, reinterpret_cast<std::byte*>(values.data()));
    return {{rows.shape[0], rows.shape[1] / type.bytes * type.elements}, std::vector<double>(values.begin(), values.end())};
  }

  void gather(tx::GatherOp op, Tensor& result) {
    const Tensor input = decoded(get(op.getInput()), op.getBlocks());
    const Tensor& indices = get(op.getIndices());
    size_t axis = static_cast<size_t>(op.getAxis()), rank = indices.shape.size();
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index which(index.begin() + axis, index.begin() + axis + rank);
      int64_t chosen = static_cast<int64_t>(indices.data[offset(which, strides_of(indices.shape))]);
      if (chosen < 0) chosen += input.shape[axis];
      Index source(index.begin(), index.begin() + axis);
      source.push_back(chosen);
      source.insert(source.end(), index.begin() + axis + rank, index.end());
      result.data[position] = input.data[offset(source, strides_of(input.shape))];
    });
  }

  void gather_elements(tx::GatherElementsOp op, Tensor& result) {
    const Tensor &input = get(op.getInput()), &indices = get(op.getIndices());
    size_t axis = static_cast<size_t>(op.getAxis());
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index source(index);
      source[axis] = static_cast<int64_t>(indices.data[position]);
      if (source[axis] < 0) source[axis] += input.shape[axis];
      result.data[position] = input.data[offset(source, strides_of(input.shape))];
    });
  }

  void gather_nd(tx::GatherNdOp op, Tensor& result) {
    const Tensor &input = get(op.getInput()), &indices = get(op.getIndices());
    size_t rank = indices.shape.size() - 1, batch = static_cast<size_t>(op.getBatchDims());
    for_each(result.shape, [&](const Index& index, int64_t position) {
      Index source(index.begin(), index.begin() + batch), row(index.begin(), index.begin() + rank);
      row.push_back(0);
      for (; row.back() < indices.shape[rank]; ++row.back()) {
        int64_t chosen = static_cast<int64_t>(indices.data[offset(row, strides_of(indices.shape))]);
        source.push_back(chosen < 0 ? chosen + input.shape[source.size()] : chosen);
      }
      source.insert(source.end(), index.begin() + rank, index.end());
      result.data[position] = input.data[offset(source, strides_of(input.shape))];
    });
  }

  double zero_of(Value zeros, int64_t column) { return zeros ? get(zeros).data[static_cast<size_t>(column)] : 0; }

  void matmul(tx::MatmulOp op, Tensor& result) {
    const Tensor& lhs = get(op.getLhs());
    const Tensor rhs = decoded(get(op.getRhs()), op.getBlocks());
    size_t rank = lhs.shape.size(), rhs_rank = rhs.shape.size();
    int64_t depth = lhs.shape[rank - (op.getTransposeLhs() ? 2 : 1)];
    auto lhs_strides = strides_of(lhs.shape), rhs_strides = strides_of(rhs.shape);
    for_each(result.shape, [&](const Index& index, int64_t position) {
      int64_t m = index[rank - 2], n = index[rank - 1];
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        Index a(index), b(index);
        a[rank - 2] = op.getTransposeLhs() ? k : m;
        a[rank - 1] = op.getTransposeLhs() ? m : k;
        b[rank - 2] = op.getTransposeRhs() ? n : k;
        b[rank - 1] = op.getTransposeRhs() ? k : n;
        if (rhs_rank == 2) b.erase(b.begin(), b.end() - 2);
        sum += lhs.data[offset(a, lhs_strides)] * (rhs.data[offset(b, rhs_strides)] - zero_of(op.getZero(), n));
      }
      result.data[position] = sum;
    });
  }

  void conv(tx::ConvOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    const Tensor& filter = get(op.getFilter());
    size_t spatial = input.shape.size() - 2;
    int64_t groups = static_cast<int64_t>(op.getGroups());
    int64_t group_channels = filter.shape[spatial], group_filters = filter.shape[spatial + 1] / groups;
    auto input_strides = strides_of(input.shape), filter_strides = strides_of(filter.shape);
    std::vector<int64_t> window(filter.shape.begin(), filter.shape.begin() + spatial + 1);  // with the channels
    for_each(result.shape, [&](const Index& index, int64_t position) {
      int64_t group = index[spatial + 1] / group_filters;
      double sum = 0;
      for_each(window, [&](const Index& tap, int64_t) {
        Index source(index);
        for (size_t d = 0; d < spatial; ++d) {
          source[d + 1] = index[d + 1] * op.getStrides()[d] + tap[d] * op.getDilations()[d] - op.getPadsLow()[d];
          if (source[d + 1] < 0 || source[d + 1] >= input.shape[d + 1]) return;
        }
        source[spatial + 1] = group * group_channels + tap[spatial];
        Index weight(tap);
        weight.push_back(index[spatial + 1]);
        sum += input.data[offset(source, input_strides)] *
               (filter.data[offset(weight, filter_strides)] - zero_of(op.getZero(), index[spatial + 1]));
      });
      result.data[position] = sum;
    });
  }

  void pool(tx::PoolOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    size_t spatial = input.shape.size() - 2;
    auto strides = strides_of(input.shape);
    std::vector<int64_t> window(op.getKernel().begin(), op.getKernel().end());
    bool is_max = op.getKind() == tx::PoolKind::max;
    for_each(result.shape, [&](const Index& index, int64_t position) {
      double value = is_max ? -infinity : 0;
      int64_t inside = 0, with_pad = 0;
      for_each(window, [&](const Index& tap, int64_t) {
        Index source(index);
        bool in_input = true, in_pad = true;
        for (size_t d = 0; d < spatial; ++d) {
          int64_t at = index[d + 1] * op.getStrides()[d] + tap[d] * op.getDilations()[d] - op.getPadsLow()[d];
          in_input &= at >= 0 && at < input.shape[d + 1];
          in_pad &= at < input.shape[d + 1] + op.getPadsHigh()[d];
          source[d + 1] = at;
        }
        with_pad += in_pad;
        if (!in_input) return;
        ++inside;
        double x = input.data[offset(source, strides)];
        value = is_max ? std::max(value, x) : value + x;
      });
      if (!is_max) value /= static_cast<double>(op.getIncludePad() ? with_pad : inside);
      result.data[position] = value;
    });
  }

  // Calls visit with where the first element of each line along the axis is, how far apart its elements are, and how many there are.
  static void for_lines(const std::vector<int64_t>& shape, uint64_t axis, const std::function<void(int64_t, int64_t, int64_t)>& visit) {
    int64_t before = 1, behind = 1;
    for (size_t i = 0; i < shape.size(); ++i) (i < axis ? before : behind) *= i == axis ? 1 : shape[i];
    for (int64_t i = 0; i < before; ++i) {
      for (int64_t j = 0; j < behind; ++j) visit(i * shape[axis] * behind + j, behind, shape[axis]);
    }
  }

  void arg_reduce(tx::ArgReduceOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    double sign = op.getKind() == tx::ReduceKind::max ? 1 : -1;
    size_t line = 0;
    for_lines(input.shape, op.getAxis(), [&](int64_t first, int64_t step, int64_t count) {
      int64_t found = 0;
      double best = -infinity;
      for (int64_t i = 0; i < count; ++i) {
        double x = sign * input.data[first + i * step];
        if (!(x > best || (op.getLast() && x == best))) continue;
        best = x;
        found = i;
      }
      result.data[line++] = static_cast<double>(found);
    });
  }

  void cumsum(tx::CumsumOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    for_lines(input.shape, op.getAxis(), [&](int64_t first, int64_t step, int64_t count) {
      double sum = 0;
      for (int64_t n = 0; n < count; ++n) {
        int64_t at = first + (op.getReverse() ? count - 1 - n : n) * step;
        double next = sum + input.data[at];
        result.data[at] = op.getExclusive() ? sum : next;
        sum = next;
      }
    });
  }

  void sort(tx::SortOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    const int64_t wanted = result.shape[op.getAxis()];
    size_t line = 0;
    std::vector<std::vector<int64_t>> lines;
    for_lines(input.shape, op.getAxis(), [&](int64_t first, int64_t step, int64_t count) {
      std::vector<int64_t> order(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        double x = input.data[first + a * step], y = input.data[first + b * step];
        if (op.getDescending()) std::swap(x, y);
        return x < y || (!std::isnan(x) && std::isnan(y));
      });
      lines.push_back(std::move(order));
    });
    for_lines(result.shape, op.getAxis(), [&](int64_t first, int64_t step, int64_t) {
      for (int64_t i = 0; i < wanted; ++i) result.data[first + i * step] = static_cast<double>(lines[line][static_cast<size_t>(i)]);
      ++line;
    });
  }

  // How much of the area of two boxes (y1, x1, y2, x2) is in both.
  static double overlap(const double* a, const double* b) {
    auto area = [](const double* box) { return std::fabs(box[2] - box[0]) * std::fabs(box[3] - box[1]); };
    double shared = 1;
    for (int side : {0, 1}) {
      const double low = std::max(std::min(a[side], a[side + 2]), std::min(b[side], b[side + 2]));
      const double high = std::min(std::max(a[side], a[side + 2]), std::max(b[side], b[side + 2]));
      shared *= std::max(0.0, high - low);
    }
    return shared > 0 ? shared / (area(a) + area(b) - shared) : -1;
  }

  void suppress(tx::SuppressOp op, Tensor& result) {
    const Tensor &boxes = get(op.getBoxes()), &candidates = get(op.getCandidates());
    const double threshold = get(op.getThreshold()).data[0], limit = get(op.getLimit()).data[0];
    const int64_t count = result.shape.back();
    for (int64_t first = 0; first < static_cast<int64_t>(result.data.size()); first += count) {
      std::vector<int64_t> chosen;
      for (int64_t i = first; i < first + count; ++i) {
        const double* own = &boxes.data[static_cast<size_t>(4 * i)];
        const bool is_free =
            llvm::none_of(chosen, [&](int64_t other) { return overlap(&boxes.data[static_cast<size_t>(4 * other)], own) > threshold; });
        const bool stays = candidates.data[static_cast<size_t>(i)] != 0 && is_free && static_cast<double>(chosen.size()) < limit;
        if (stays) chosen.push_back(i);
        result.data[static_cast<size_t>(i)] = stays;
      }
    }
  }

  void scatter(tx::ScatterOp op, Tensor& result) {
    const Tensor &indices = get(op.getIndices()), &updates = get(op.getUpdates());
    const auto axis = static_cast<size_t>(op.getAxis());
    const bool by_slice = indices.shape.size() == 1 && updates.shape.size() > 1;
    Type element = tx::tensor(op.getResult()).getElementType();
    result = get(op.getInput());
    auto strides = strides_of(result.shape);
    for_each(updates.shape, [&](const Index& index, int64_t position) {
      auto place = static_cast<int64_t>(indices.data[static_cast<size_t>(by_slice ? index[axis] : position)]);
      if (place < 0) place += result.shape[axis];
      if (place < 0 || place >= result.shape[axis]) return;
      Index at(index);
      at[axis] = place;
      double &old = result.data[offset(at, strides)], update = updates.data[static_cast<size_t>(position)];
      if (op.getKind() == tx::ReduceKind::sum) update = old + update;
      if (op.getKind() == tx::ReduceKind::prod) update = old * update;
      if (op.getKind() == tx::ReduceKind::max) update = std::max(old, update);
      if (op.getKind() == tx::ReduceKind::min) update = std::min(old, update);
      old = stored(update, element);
    });
  }

  // Element i of a table.
  static double at(const Tensor& table, int64_t i) { return table.data[static_cast<size_t>(i)]; }

  static bool goes_first(tx::TreesOp op, double x, double threshold, int64_t flags) {
    if ((flags & 1) != 0 && std::isnan(x)) return true;
    if ((flags & 4) != 0) return x < threshold;
    if ((flags & 2) != 0) return x == threshold;
    return op.getStrict() ? x < threshold : x <= threshold;
  }

  void trees(tx::TreesOp op, Tensor& result) {
    const Tensor &input = get(op.getInput()), &features = get(op.getFeatures()), &thresholds = get(op.getThresholds()),
                 &weights = get(op.getWeights());
    const bool is_complete = !op.getChildren();
    const int64_t columns = input.shape[1], groups = result.shape[1], outputs = result.shape[2];
    const int64_t count = is_complete ? weights.shape[1] : get(op.getRoots()).shape[1], nodes = features.shape.back();
    for (int64_t row = 0; row < result.shape[0]; ++row) {
      for (int64_t tree = 0; tree < groups * count; ++tree) {
        int64_t place = is_complete ? 0 : static_cast<int64_t>(at(get(op.getRoots()), tree));
        for (uint64_t step = 0; step < op.getSteps(); ++step) {
          const int64_t node = is_complete ? tree * nodes + place : place;
          const auto feature = std::min(static_cast<int64_t>(at(features, node)), columns - 1);
          const int64_t flags = op.getFlags() ? static_cast<int64_t>(at(get(op.getFlags()), node)) : 0;
          const bool first = goes_first(op, at(input, row * columns + feature), at(thresholds, node), flags);
          if (is_complete) {
            place = 2 * place + (first ? 1 : 2);
          } else {
            const auto child = static_cast<int64_t>(at(get(op.getChildren()), node));
            place = child / 2 + (child % 2 == 1 && !first ? 1 : 0);
          }
        }
        const int64_t leaf = is_complete ? tree * (nodes + 1) + place - nodes : place;
        for (int64_t i = 0; i < outputs; ++i) {
          double& sum = result.data[static_cast<size_t>((row * groups + tree / count) * outputs + i)];
          const double weight = at(weights, leaf * outputs + i);
          const bool is_new = tree % count == 0;
          if (op.getKind() == tx::ReduceKind::sum) sum = (is_new ? 0 : sum) + weight;
          if (op.getKind() == tx::ReduceKind::max) sum = is_new ? weight : std::max(sum, weight);
          if (op.getKind() == tx::ReduceKind::min) sum = is_new ? weight : std::min(sum, weight);
        }
      }
    }
  }

  // Token by token, and n-gram by n-gram.
  void ngrams(tx::NgramsOp op, Tensor& result) {
    const Tensor &text = get(op.getText()), &leads = get(op.getLeads()), &letters = get(op.getLetters()), &nodes = get(op.getNodes());
    const int64_t width = text.shape[1], longest = result.shape[1], rows = letters.shape[0], count = nodes.shape[0];
    struct Token {
      int64_t from, to;
      bool begins;
    };
    std::fill(result.data.begin(), result.data.end(), static_cast<double>(op.getNone()));
    for (int64_t n = 0; n < text.shape[0]; ++n) {
      auto letter = [&](int64_t i) {
        const int64_t byte = i < width ? static_cast<int64_t>(at(text, n * width + i)) : 0;
        const int64_t before = i > 0 ? static_cast<int64_t>(at(text, n * width + i - 1)) : 0;
        const auto row = std::min<int64_t>(static_cast<int64_t>(at(leads, before)), rows - 1);
        return static_cast<int64_t>(at(letters, (rows > 1 ? row : 0) * 256 + byte));
      };
      std::vector<Token> tokens;
      for (int64_t i = 0; i < width; ++i) {
        if (letter(i) == 0) continue;
        const bool is_behind = i > 0 && letter(i - 1) != 0, begins = op.getRuns() ? !is_behind : letter(i) % 2 != 0;
        if (begins || !is_behind) tokens.push_back({i, i, begins});
        tokens.back().to = i + 1;
      }
      auto characters = [&](const Token& token) {
        int64_t number = 1;
        for (int64_t i = token.from + 1; i < token.to; ++i) number += letter(i) % 2;
        return number;
      };
      if (op.getLeast() > 1)
        llvm::erase_if(tokens, [&](const Token& token) { return characters(token) < static_cast<int64_t>(op.getLeast()); });
      for (int64_t last = 0; last < static_cast<int64_t>(tokens.size()); ++last) {
        for (int64_t phase = 0; phase < std::min(longest, last + 1); ++phase) {
          int64_t node = 0;
          for (int64_t t = last - (last - phase) % longest; t <= last; ++t) {
            if (!tokens[static_cast<size_t>(t)].begins) node = -2;
            for (int64_t i = tokens[static_cast<size_t>(t)].from; i < tokens[static_cast<size_t>(t)].to && node >= 0; ++i) {
              const bool is_first = i == tokens[static_cast<size_t>(t)].from;
              int64_t place = static_cast<int64_t>(at(nodes, node * 3 + 1)) * (node != 0) + letter(i) / 2 +
                              (is_first ? 0 : static_cast<int64_t>(op.getGoesOn()));
              if (place < 0 || place >= count) place = count - 1;
              node = static_cast<int64_t>(at(nodes, place * 3)) == node ? place : -2;
            }
          }
          const int64_t to = tokens[static_cast<size_t>(last)].to;
          if (node >= 0) result.data[static_cast<size_t>((n * longest + phase) * (width + 1) + to)] = at(nodes, node * 3 + 2);
        }
      }
    }
  }

  void reduce(tx::ReduceOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    std::vector<bool> reduced(input.shape.size(), false);
    int64_t count = 1;
    for (int64_t axis : op.getAxes()) {
      reduced[axis] = true;
      count *= input.shape[axis];
    }
    double initial = 0;
    if (op.getKind() == tx::ReduceKind::max) initial = -infinity;
    if (op.getKind() == tx::ReduceKind::min) initial = infinity;
    if (op.getKind() == tx::ReduceKind::prod) initial = 1;
    for (double& value : result.data) value = initial;
    // The kept dimensions in order, whether or not the result has extents of 1 for the reduced ones.
    std::vector<int64_t> kept;
    for (size_t i = 0; i < input.shape.size(); ++i) kept.push_back(reduced[i] ? 1 : input.shape[i]);
    auto strides = strides_of(kept);
    for_each(input.shape, [&](const Index& index, int64_t position) {
      Index target(index);
      for (size_t i = 0; i < index.size(); ++i) {
        if (reduced[i]) target[i] = 0;
      }
      double& value = result.data[offset(target, strides)];
      double x = input.data[position];
      switch (op.getKind()) {
        case tx::ReduceKind::sum:
        case tx::ReduceKind::mean:
          value += x;
          break;
        case tx::ReduceKind::max:
          value = std::max(value, x);
          break;
        case tx::ReduceKind::min:
          value = std::min(value, x);
          break;
        case tx::ReduceKind::prod:
          value *= x;
          break;
      }
    });
    if (op.getKind() == tx::ReduceKind::mean) {
      for (double& value : result.data) value /= static_cast<double>(count);
    }
  }

  void softmax(tx::SoftmaxOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    int64_t axis = static_cast<int64_t>(op.getAxis());
    int64_t extent = input.shape[axis], stride = strides_of(input.shape)[axis];
    for_each(input.shape, [&](const Index& index, int64_t position) {
      if (index[axis] != 0) return;
      double largest = -infinity, sum = 0;
      for (int64_t i = 0; i < extent; ++i) largest = std::max(largest, input.data[position + i * stride]);
      for (int64_t i = 0; i < extent; ++i) sum += std::exp(input.data[position + i * stride] - largest);
      for (int64_t i = 0; i < extent; ++i) {
        double x = input.data[position + i * stride] - largest;
        result.data[position + i * stride] = op.getLog() ? x - std::log(sum) : std::exp(x) / sum;
      }
    });
  }

  void lrn(tx::LrnOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    int64_t channels = input.shape.back(), size = static_cast<int64_t>(op.getSize());
    for (int64_t position = 0; position < static_cast<int64_t>(input.data.size()); ++position) {
      int64_t c = position % channels;
      double sum = 0;
      for (int64_t i = std::max<int64_t>(0, c - (size - 1) / 2); i <= std::min(channels - 1, c + size / 2); ++i) {
        double x = input.data[position - c + i];
        sum += x * x;
      }
      double base = op.getBias().convertToDouble() + op.getAlpha().convertToDouble() / static_cast<double>(size) * sum;
      result.data[position] = input.data[position] / std::pow(base, op.getBeta().convertToDouble());
    }
  }

  void batch_norm(tx::BatchNormOp op, Tensor& result) {
    const Tensor& input = get(op.getInput());
    int64_t channels = input.shape.back();
    for (int64_t i = 0; i < static_cast<int64_t>(input.data.size()); ++i) {
      int64_t c = i % channels;
      double deviation = std::sqrt(get(op.getVariance()).data[c] + op.getEpsilon().convertToDouble());
      result.data[i] = (input.data[i] - get(op.getMean()).data[c]) / deviation * get(op.getScale()).data[c] + get(op.getBias()).data[c];
    }
  }

  llvm::DenseMap<Value, Tensor> values_;
  ArrayRef<int64_t> symbols_;
};

}  // namespace

int64_t element_count(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::vector<int64_t> shape_of(RankedTensorType type, ArrayRef<int64_t> symbols) {
  std::vector<int64_t> shape;
  SmallVector<Attribute> values;
  for (int64_t symbol : symbols) values.push_back(IntegerAttr::get(IntegerType::get(type.getContext(), 64), symbol));
  for (AffineExpr extent : tx::extents(type)) {
    auto map = AffineMap::get(0, static_cast<unsigned>(symbols.size()), extent);
    auto replaced = map;
    for (size_t i = 0; i < symbols.size(); ++i) {
      replaced = AffineMap::get(0, static_cast<unsigned>(symbols.size()),
                                replaced.getResult(0).replace(getAffineSymbolExpr(static_cast<unsigned>(i), type.getContext()),
                                                              getAffineConstantExpr(symbols[i], type.getContext())));
    }
    shape.push_back(llvm::cast<AffineConstantExpr>(simplifyAffineExpr(replaced.getResult(0), 0, 0)).getValue());
  }
  return shape;
}

double stored(double value, Type element) {
  if (element.isF64()) return value;
  if (auto float_type = llvm::dyn_cast<FloatType>(element)) {
    APFloat rounded(value);
    bool lost;
    rounded.convert(float_type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    rounded.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return rounded.convertToDouble();
  }
  if (element.isInteger(1)) return value != 0;
  unsigned width = element.getIntOrFloatBitWidth();
  if (width == 64) return value;
  double modulus = std::ldexp(1.0, static_cast<int>(width));
  double wrapped = value - std::floor(value / modulus) * modulus;
  if (!is_unsigned(element) && wrapped >= modulus / 2) wrapped -= modulus;
  return wrapped;
}

std::vector<Tensor> evaluate(tx::DispatchOp region, ArrayRef<Tensor> inputs, ArrayRef<int64_t> symbols) {
  Evaluator evaluator(symbols);
  Block& block = region.getBody().front();
  for (auto [argument, input] : llvm::zip_equal(block.getArguments(), inputs)) evaluator.set(argument, input);
  for (Operation& op : block.without_terminator()) evaluator.run(&op);
  std::vector<Tensor> results;
  for (Value value : block.getTerminator()->getOperands()) results.push_back(evaluator.get(value));
  return results;
}

}  // namespace heddle::tests
