// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions: MFMA of CDNA2 and CDNA3, WMMA of RDNA3 and RDNA4. Source of the layouts and modifiers: AMD's matrix instruction calculator
// (github.com/ROCm/amd_matrix_instruction_calculator). Source of the rules for overlapping registers: LLVM, VOP3PInstructions.td and AMDGPUAsmParser.cpp.
// Sparse instructions are not implemented.
#include "tests/amdgpu/matrix.h"

#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

std::vector<Matrix> make_table() {
  std::vector<Matrix> table;
  const auto add = [&](std::string name, unsigned size, unsigned k, unsigned blocks, Element in, Element out) {
    table.push_back({"v_mfma_" + name, size, k, blocks, in, in, out});
  };
  struct Shape {
    unsigned size, k, blocks;
  };
  // For each type the instructions with several blocks, then those with one. GFX90A appends the type to the shape; GFX940 separates it, after the number of
  // blocks.
  const auto mfma = [&](const char* out, const char* in, const char* old, Element d, Element a, std::initializer_list<Shape> shapes) {
    for (const Shape& s : shapes) {
      const std::string size = std::to_string(s.size), shape = std::string(out) + "_" + size + "x" + size + "x" + std::to_string(s.k);
      if (old != nullptr) add(shape + old, s.size, s.k, s.blocks, a, d);
      if (in != nullptr) add(shape + (s.blocks > 1 ? "_" + std::to_string(s.blocks) + "b_" : "_") + in, s.size, s.k, s.blocks, a, d);
    }
  };
  mfma("f32", "f32", "f32", Element::F32, Element::F32, {{32, 1, 2}, {16, 1, 4}, {4, 1, 16}, {32, 2, 1}, {16, 4, 1}});
  mfma("f32", "f16", "f16", Element::F32, Element::F16, {{32, 4, 2}, {16, 4, 4}, {4, 4, 16}, {32, 8, 1}, {16, 16, 1}});
  mfma("f32", "bf16", "bf16_1k", Element::F32, Element::Bf16, {{32, 4, 2}, {16, 4, 4}, {4, 4, 16}, {32, 8, 1}, {16, 16, 1}});
  mfma("f32", nullptr, "bf16", Element::F32, Element::Bf16, {{32, 2, 2}, {16, 2, 4}, {4, 2, 16}, {32, 4, 1}, {16, 8, 1}});
  mfma("i32", "i8", "i8", Element::I32, Element::I8, {{32, 4, 2}, {16, 4, 4}, {4, 4, 16}});
  mfma("i32", nullptr, "i8", Element::I32, Element::I8, {{32, 8, 1}, {16, 16, 1}});
  mfma("i32", "i8", nullptr, Element::I32, Element::I8, {{32, 16, 1}, {16, 32, 1}});
  mfma("f32", "xf32", nullptr, Element::F32, Element::Xf32, {{32, 4, 1}, {16, 8, 1}});
  mfma("f64", "f64", "f64", Element::F64, Element::F64, {{16, 4, 1}, {4, 4, 4}});
  const auto wmma = [&](const char* name, unsigned k, Element in, Element out) {
    table.push_back({std::string("v_wmma_") + name, 16, k, 1, in, in, out, true});
  };
  wmma("f32_16x16x16_f16", 16, Element::F16, Element::F32);
  wmma("f32_16x16x16_bf16", 16, Element::Bf16, Element::F32);
  wmma("f16_16x16x16_f16", 16, Element::F16, Element::F16);
  wmma("bf16_16x16x16_bf16", 16, Element::Bf16, Element::Bf16);
  wmma("i32_16x16x16_iu8", 16, Element::Iu8, Element::I32);
  wmma("i32_16x16x16_iu4", 16, Element::Iu4, Element::I32);
  wmma("i32_16x16x32_iu4", 32, Element::Iu4, Element::I32);
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const std::string types = std::string(a ? "bf8" : "fp8") + (b ? "_bf8" : "_fp8");
      const Element fnuz[] = {Element::Fp8Fnuz, Element::Bf8Fnuz}, ocp[] = {Element::Fp8Ocp, Element::Bf8Ocp};
      table.push_back({"v_mfma_f32_32x32x16_" + types, 32, 16, 1, fnuz[a], fnuz[b], Element::F32});
      table.push_back({"v_mfma_f32_16x16x32_" + types, 16, 32, 1, fnuz[a], fnuz[b], Element::F32});
      table.push_back({"v_wmma_f32_16x16x16_" + types, 16, 16, 1, ocp[a], ocp[b], Element::F32, true});
    }
  }
  return table;
}
const std::vector<Matrix>& matrices() {
  static const std::vector<Matrix> table = make_table();
  return table;
}

// MFMA, A and B: a lane holds `together` consecutive elements of a row of A (a column of B). The rows of a block lie side by side, then the blocks, then
// the next elements of the rows.
Place mfma_input(const Matrix& m, unsigned row, unsigned k, unsigned block) {
  const unsigned columns = 64 / (m.size * m.blocks), together = m.k / columns;
  return {static_cast<uint8_t>((k / together * m.blocks + block) * m.size + row), static_cast<uint8_t>(k % together)};
}
// MFMA, C and D: a lane holds a column of four consecutive rows (one of f64) in as many registers. Such strips lie side by side: first those of the same
// rows of as many blocks as share a register, then those of the next rows. When the lanes are full, the next registers follow, and then the next blocks.
Place mfma_output(const Matrix& m, unsigned row, unsigned column, unsigned block) {
  const unsigned height = m.d == Element::F64 ? 1 : 4, strips = m.size / height;  // of a block
  const unsigned across = 64 / m.size;                                            // strips in a row of lanes
  const unsigned sharing = std::max(1u, across / strips);                         // blocks
  const unsigned per_block = std::max(1u, strips / across) * height;              // registers
  const unsigned strip = row / height, next = strip * sharing + block % sharing;
  return {static_cast<uint8_t>(next % across * m.size + column),
          static_cast<uint8_t>(block / sharing * per_block + next / across * height + row % height)};
}

// GFX11, A and B: lane `row` holds all of its row.
Place wmma11_input(unsigned row, unsigned k) {
  return {static_cast<uint8_t>(row), static_cast<uint8_t>(k)};
}
// GFX11, C and D: each register holds as many rows as it has groups of 16 lanes. An element of 16 bits has a register of its own, of which `upper`
// selects the half.
Place wmma11_output(const Matrix& m, unsigned wave_size, unsigned row, unsigned column, bool upper) {
  const unsigned rows = wave_size / 16, n = row / rows;
  return {static_cast<uint8_t>(row % rows * 16 + column), static_cast<uint8_t>(bits_of(m.d) == 16 ? 2 * n + (upper ? 1 : 0) : n)};
}
// GFX12, A and B: the groups of 16 lanes divide a row. With 16 bits, a group holds four consecutive elements, and in waves of 32 the same again of the
// second half of the row. With fewer bits, each group of a wave of 32 holds a half of the row; waves of 64 cut the halves once more, the first parts
// of which lie in the lower 32 lanes. Sixteen elements of 4 bits are too few for that: only 32 lanes count.
Place wmma12_input(const Matrix& m, unsigned wave_size, unsigned row, unsigned k) {
  unsigned group = 0, element = 0;
  if (bits_of(m.a) == 16) {
    group = wave_size == 64 ? k / 4 : k / 4 % 2;
    element = wave_size == 64 ? k % 4 : k / 8 * 4 + k % 4;
  } else {
    const unsigned half = m.k / 2;
    group = k / half;
    element = k % half;
    if (wave_size == 64 && !(bits_of(m.a) == 4 && m.k == 16)) {
      group += element / (half / 2) * 2;
      element %= half / 2;
    }
  }
  return {static_cast<uint8_t>(group * 16 + row), static_cast<uint8_t>(element)};
}
// GFX12, C and D: rows 0 to 7 in the first group of 16 lanes, rows 8 to 15 in the second; waves of 64 have rows 4 to 7 and 12 to 15 in the upper lanes.
Place wmma12_output(unsigned wave_size, unsigned row, unsigned column) {
  const unsigned group = wave_size == 64 ? row / 8 + row / 4 % 2 * 2 : row / 8;
  return {static_cast<uint8_t>(group * 16 + column), static_cast<uint8_t>(row % (wave_size == 64 ? 4 : 8))};
}

// blgp: which lane of B a lane gets.
unsigned permuted_lane(unsigned lane, unsigned blgp) {
  switch (blgp) {
    case 0:
      return lane;
    case 1:
    case 2:  // one half of the lanes to both
      return lane % 32 + (blgp == 2 ? 32 : 0);
    case 3:  // rotated by 16
      return (lane + 16) % 64;
    default:  // one quarter of the lanes to all
      return lane % 16 + (blgp - 4) * 16;
  }
}

uint64_t hash_of(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return h;
}

std::string range_text(const Operand& o) {
  return "'" + o.text + "'";
}
bool overlaps(const Operand& x, const Operand& y) {
  const bool registers = x.form == Form::Vector || x.form == Form::Accumulator;
  return registers && x.form == y.form && x.index < y.index + y.count && y.index < x.index + x.count;
}

// What the guides and LLVM demand of operands. Operands: D, A, B, C.
void check_operands(const Instruction& i, const MatrixPlan& plan, const Processor& processor) {
  const unsigned expected[4] = {plan.registers_d, plan.registers_ab, plan.registers_ab, plan.registers_d};
  for (size_t n = 0; n < 4; ++n) {
    const Operand& o = i.operands[n];
    if (n == 3 && o.form == Form::Constant) continue;
    if (o.form != Form::Vector && (processor.gfx11 || o.form != Form::Accumulator)) fault(range_text(o) + " is no vector register");
    if (o.count != expected[n])
      fault(range_text(o) + " has " + std::to_string(o.count) + " registers; the matrix takes " + std::to_string(expected[n]));
    if (!processor.gfx11 && o.count > 1 && o.index % 2 != 0) fault(range_text(o) + " does not begin at an even register");
    if (o.neg || o.abs || o.sext) fault("a modifier of " + range_text(o) + ", which is a matrix");
  }
  const Operand &d = i.operands[0], &c = i.operands[3];
  if (!processor.gfx11 && c.form != Form::Constant && c.form != d.form) fault("C and D are not in the same register file");
  // The hardware writes D while it still reads the others, unless D is so small that it is written last.
  if (processor.gfx11 || plan.registers_d > 4) {
    if (overlaps(d, c) && d.index != c.index) fault("D, " + range_text(d) + ", overlaps a part of C, " + range_text(c));
    for (size_t n = 1; n < 3; ++n) {
      if (overlaps(d, i.operands[n]))
        fault("D, " + range_text(d) + ", overlaps " + range_text(i.operands[n]) + ", which is read after D is written");
    }
  }
}

unsigned number_modifier(const Instruction& i, const char* name) {
  const auto found = i.modifiers.find(name);
  if (found == i.modifiers.end()) return 0;
  unsigned value = 0;
  for (const char c : found->second) {
    if (c < '0' || c > '9' || value > 99) fault(std::string("'") + name + ":" + found->second + "' is no number");
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  return value;
}

void bind_modifiers(Instruction& i, MatrixPlan& plan, const Processor& processor, Broadcast& broadcast, bool& upper_half) {
  const Matrix& m = *plan.matrix;
  for (const auto& [name, value] : i.modifiers) {
    static const char* const kMfma[] = {"cbsz", "abid", "blgp", "neg"};
    static const char* const kWmma[] = {"neg_lo", "neg_hi", "op_sel", "op_sel_hi", "clamp"};
    const auto known = [&](const auto& list) { return std::find(std::begin(list), std::end(list), name) != std::end(list); };
    if (!(m.wmma ? known(kWmma) : known(kMfma))) fault("modifier '" + name + "' of a matrix instruction is not implemented");
  }
  if (!m.wmma) {
    broadcast = {number_modifier(i, "cbsz"), number_modifier(i, "abid"), number_modifier(i, "blgp")};
    const auto given = i.modifiers.find("neg");
    const std::string neg = given == i.modifiers.end() ? std::string() : given->second;
    if (m.d == Element::F64 && !neg.empty()) {
      if (neg.size() != 7) fault("'neg:" + neg + "' has not three values");
      plan.negate_a[0] = plan.negate_a[1] = neg[1] == '1';
      plan.negate_b[0] = plan.negate_b[1] = neg[3] == '1';
      plan.negate_c = neg[5] == '1';
    } else if (!neg.empty()) {
      fault("'neg' is a modifier of f64 only");
    }
    if ((broadcast.cbsz != 0 || broadcast.abid != 0) && !m.broadcasts_a()) fault("cbsz and abid of this instruction are not implemented");
    if (broadcast.blgp != 0 && !m.permutes_b()) fault("blgp of this instruction is not implemented");
    if (broadcast.cbsz > 5 || 1u << broadcast.cbsz > m.blocks || broadcast.abid >= 1u << broadcast.cbsz || broadcast.blgp > 7)
      fault("cbsz:" + std::to_string(broadcast.cbsz) + " abid:" + std::to_string(broadcast.abid) + " do not fit " +
            std::to_string(m.blocks) + " blocks");
    return;
  }
  if (i.modifiers.count("op_sel_hi") != 0 && (i.op_sel_hi & 7) != 7) fault("op_sel_hi of a matrix instruction is not implemented");
  const bool has_halves = !processor.gfx12 && bits_of(m.d) == 16;
  if (i.op_sel != 0 && !(has_halves && i.op_sel == 4)) fault("op_sel of this instruction is not implemented");
  upper_half = i.op_sel == 4;
  if (m.d == Element::I32) {
    if (i.neg_hi != 0 || (i.neg_lo & 4) != 0) fault("neg_lo and neg_hi of integers other than the signs of A and B");
    plan.signed_a = (i.neg_lo & 1) != 0;
    plan.signed_b = (i.neg_lo & 2) != 0;
    plan.clamp = i.clamp;
    return;
  }
  if (i.clamp) fault("clamp of a matrix of floats is not implemented");
  if (bits_of(m.a) == 8 && (i.neg_lo != 0 || i.neg_hi != 0)) fault("neg_lo and neg_hi of 8-bit floats are not implemented");
  plan.negate_a[0] = (i.neg_lo & 1) != 0;
  plan.negate_a[1] = (i.neg_hi & 1) != 0;
  plan.negate_b[0] = (i.neg_lo & 2) != 0;
  plan.negate_b[1] = (i.neg_hi & 2) != 0;
  plan.negate_c = (i.neg_lo & 4) != 0;
  plan.absolute_c = (i.neg_hi & 4) != 0;
}

void bind_constant(const Operand& c, MatrixPlan& plan) {
  plan.constant_c = true;
  switch (plan.matrix->d) {
    case Element::F64:
      plan.c_bits = constant_bits(c, Type::F64);
      break;
    case Element::F16:  // of every element, as LLVM uses it
      plan.c_bits = constant_bits(c, Type::F16);
      break;
    case Element::Bf16:
      plan.c_bits = constant_bits(c, Type::B32);
      if (plan.c_bits != 0) fault("a constant of bf16 other than 0 is not implemented");
      break;
    default:
      plan.c_bits = constant_bits(c, Type::F32);
  }
}

uint64_t read_bits(const uint32_t* registers, const Place& p, unsigned bits) {
  if (bits == 64) return registers[128u * p.element + p.lane] | uint64_t{registers[128u * p.element + 64 + p.lane]} << 32;
  const unsigned at = bits * p.element;
  const uint32_t value = registers[at / 32 * 64 + p.lane] >> at % 32;
  return bits == 32 ? value : value & ((1u << bits) - 1);
}
void write_bits(uint32_t* registers, const Place& p, unsigned bits, uint64_t value) {
  if (bits == 64) {
    registers[128u * p.element + p.lane] = static_cast<uint32_t>(value);
    registers[128u * p.element + 64 + p.lane] = static_cast<uint32_t>(value >> 32);
    return;
  }
  const unsigned at = bits * p.element;
  uint32_t& r = registers[at / 32 * 64 + p.lane];
  if (bits == 32) {
    r = static_cast<uint32_t>(value);
  } else {
    const uint32_t part = ((1u << bits) - 1) << at % 32;
    r = (r & ~part) | (static_cast<uint32_t>(value) << at % 32 & part);
  }
}

// GFX11: lanes from 16 on have to hold what the first 16 hold. What happens otherwise is not documented.
void check_replicas(const Wave& w, const Operand& o) {
  for (unsigned r = o.index; r < unsigned{o.index} + o.count; ++r) {
    const uint32_t* lanes = &w.vectors[r * 64];
    for (unsigned lane = 16; lane < w.size; ++lane) {
      if (lanes[lane] != lanes[lane % 16])
        fault("lane " + std::to_string(lane) + " of v" + std::to_string(r) + " is " + hex(lanes[lane]) + ", but lane " +
              std::to_string(lane % 16) + " is " + hex(lanes[lane % 16]) + "; lanes from 16 on have to repeat the first 16");
    }
  }
}

constexpr size_t kMaxInput = 512, kMaxOutput = 2048;  // elements of A or B, and of D

bool are_rows(const std::vector<Place>& places, unsigned size) {
  for (size_t n = 0; n < places.size(); ++n) {
    const Place& first = places[n - n % size];
    if (places[n].element != first.element || places[n].lane != first.lane + n % size) return false;
  }
  return true;
}

// Of elements of 32 bits whose bits are their values.
template <class Value>
void load_rows(const uint32_t* registers, const std::vector<Place>& places, unsigned size, Value* out) {
  for (size_t n = 0; n < places.size(); n += size)
    std::memcpy(&out[n], &registers[64u * places[n].element + places[n].lane], size * sizeof(Value));
}
template <class Value>
void store_rows(uint32_t* registers, const std::vector<Place>& places, unsigned size, const Value* values) {
  for (size_t n = 0; n < places.size(); n += size)
    std::memcpy(&registers[64u * places[n].element + places[n].lane], &values[n], size * sizeof(Value));
}

// `decode` makes a value of bits, `add` a row of C one of D, `encode` bits of a value. D is written after all of it has been computed: small results may
// overlap A and B. `plain_ab`, `plain_d`: elements have 32 bits, which are their values.
template <class Value, class Decode, class Add, class Encode>
void multiply(Wave& w, const Instruction& i, bool plain_ab, bool plain_d, const Decode& decode, const Add& add, const Encode& encode) {
  const MatrixPlan& plan = *i.matrix;
  const Matrix& m = *plan.matrix;
  std::array<Value, kMaxInput> a, b;
  std::array<Value, kMaxOutput> d;
  const uint32_t* from_a = &w.vectors[w.vector_index(i.operands[1]) * 64];
  const uint32_t* from_b = &w.vectors[w.vector_index(i.operands[2]) * 64];
  for (size_t n = 0; n < plan.a.size() && plain_ab; ++n) {
    const uint32_t bits = from_a[64u * plan.a[n].element + plan.a[n].lane];
    std::memcpy(&a[n], &bits, sizeof(bits));
  }
  for (size_t n = 0; n < plan.a.size() && !plain_ab; ++n)
    a[n] = decode(m.a, read_bits(from_a, plan.a[n], bits_of(m.a)), plan.negate_a[plan.a[n].element & 1], plan.signed_a);
  if (plain_ab && plan.rows_b) {
    load_rows(from_b, plan.b, m.size, b.data());
  } else {
    for (size_t n = 0; n < plan.b.size(); ++n)
      b[n] = decode(m.b, read_bits(from_b, plan.b[n], bits_of(m.b)), plan.negate_b[plan.b[n].element & 1], plan.signed_b);
  }
  const unsigned bits = bits_of(m.d);
  const uint32_t* from_c = plan.constant_c ? nullptr : &w.vectors[w.vector_index(i.operands[3]) * 64];
  const bool rows_d = plain_d && plan.rows_d;
  if (rows_d && from_c != nullptr) {
    load_rows(from_c, plan.d, m.size, d.data());
  } else {
    for (size_t n = 0; n < plan.d.size(); ++n)
      d[n] = decode(m.d, plan.constant_c ? plan.c_bits : read_bits(from_c, plan.d[n], bits), false, true);
  }
  for (unsigned row = 0; row < m.blocks * m.size; ++row)
    add(&a[size_t{row} * m.k], &b[size_t{row / m.size} * m.size * m.k], &d[size_t{row} * m.size]);
  uint32_t* to = &w.vectors[w.vector_index(i.operands[0]) * 64];
  if (rows_d) return store_rows(to, plan.d, m.size, d.data());
  for (size_t n = 0; n < plan.d.size(); ++n) write_bits(to, plan.d[n], bits, encode(d[n]));
}

void multiply_integers(Wave& w, const Instruction& i) {
  const MatrixPlan& plan = *i.matrix;
  const unsigned k = plan.matrix->k, size = plan.matrix->size;
  const auto decode = [](Element type, uint64_t bits, bool, bool is_signed) {
    const unsigned unused = 32 - bits_of(type);
    const auto shifted = static_cast<uint32_t>(bits) << unused;
    return is_signed ? static_cast<int32_t>(shifted) >> unused : static_cast<int32_t>(shifted >> unused);
  };
  const auto add = [&](const int32_t* a, const int32_t* b, int32_t* c) {
    int32_t products[32] = {};  // at most 32 products of 16 bits
    for (unsigned n = 0; n < k; ++n) {
      for (unsigned j = 0; j < size; ++j) products[j] += a[n] * b[n * size + j];
    }
    for (unsigned j = 0; j < size; ++j) {
      const int64_t sum = int64_t{c[j]} + products[j];
      const int64_t lowest = std::numeric_limits<int32_t>::min(), highest = std::numeric_limits<int32_t>::max();
      if (!plan.clamp && (sum < lowest || sum > highest))
        fault("a sum of " + std::to_string(sum) + " does not fit 32 bits; what becomes of it is not documented");
      c[j] = static_cast<int32_t>(std::clamp(sum, lowest, highest));
    }
  };
  multiply<int32_t>(w, i, false, true, decode, add, [](int32_t x) { return static_cast<uint32_t>(x); });
}

void multiply_f64(Wave& w, const Instruction& i) {
  const MatrixPlan& plan = *i.matrix;
  const Summation sum = choose_summation(plan, w.machine->options);
  multiply<double>(
      w, i, false, false, [](Element, uint64_t bits, bool negate, bool) { return negate ? -as_double(bits) : as_double(bits); },
      [&](const double* a, const double* b, double* c) {
        for (unsigned j = 0; plan.negate_c && j < plan.matrix->size; ++j) c[j] = -c[j];
        add_products(plan, sum, a, b, c);
      },
      [](double x) { return as_bits(x); });
}

void multiply_floats(Wave& w, const Instruction& i) {
  const MatrixPlan& plan = *i.matrix;
  const Summation sum = choose_summation(plan, w.machine->options);
  const Matrix& m = *plan.matrix;
  multiply<float>(
      w, i, m.a == Element::F32 && m.b == Element::F32 && !sum.flush, m.d == Element::F32 && !sum.flush,
      [&](Element type, uint64_t bits, bool negate, bool) {
        const float x = decode_element(type, static_cast<uint32_t>(bits), sum);
        return negate ? -x : x;
      },
      [&](const float* a, const float* b, float* c) {
        for (unsigned j = 0; plan.absolute_c && j < plan.matrix->size; ++j) c[j] = std::fabs(c[j]);
        for (unsigned j = 0; plan.negate_c && j < plan.matrix->size; ++j) c[j] = -c[j];
        add_products(plan, sum, a, b, c);
      },
      [d = plan.matrix->d](float x) {
        if (d == Element::F16) return uint32_t{float_to_half(x)};
        if (d == Element::Bf16) return as_bits(x) >> 16 | (std::isnan(x) ? 0x40u : 0u);
        return as_bits(x);
      });
}

// MFMA ignores EXEC. WMMA with lanes off is refused, since it is not certain what it does.
void execute_matrix(Wave& w, const Instruction& i) {
  const MatrixPlan& plan = *i.matrix;
  if (plan.matrix->wmma && w.exec() != w.mask()) fault("EXEC is " + hex(w.exec()) + "; a WMMA instruction needs all lanes");
  if (!plan.matrix->wmma && plan.matrix->d == Element::F32 && !plan.flushes && (w.mode.flush_in32 || w.mode.flush_out32))
    fault("the mode flushes denormals of f32; what MFMA does then is not documented");
  if (plan.replicated) {
    check_replicas(w, i.operands[1]);
    check_replicas(w, i.operands[2]);
  }
  switch (plan.matrix->d) {
    case Element::I32:
      return multiply_integers(w, i);
    case Element::F64:
      return multiply_f64(w, i);
    default:
      return multiply_floats(w, i);
  }
}

}  // namespace

void place_matrix(MatrixPlan& plan, const Processor& processor, unsigned wave_size, const Broadcast& broadcast, bool upper_half) {
  const Matrix& m = *plan.matrix;
  plan.b.resize(size_t{m.blocks} * m.k * m.size);
  for (unsigned block = 0; block < m.blocks; ++block) {
    for (unsigned row = 0; row < m.size; ++row) {
      for (unsigned k = 0; k < m.k; ++k) {
        if (m.wmma) {
          const Place p = processor.gfx12 ? wmma12_input(m, wave_size, row, k) : wmma11_input(row, k);
          plan.a.push_back(p);
          plan.b[(size_t{block} * m.k + k) * m.size + row] = p;
        } else {
          const unsigned group = 1u << broadcast.cbsz;  // blocks of D that get the same block of A
          plan.a.push_back(mfma_input(m, row, k, broadcast.cbsz == 0 ? block : block / group * group + broadcast.abid));
          Place p = mfma_input(m, row, k, block);
          p.lane = static_cast<uint8_t>(permuted_lane(p.lane, broadcast.blgp));
          plan.b[(size_t{block} * m.k + k) * m.size + row] = p;
        }
      }
      for (unsigned column = 0; column < m.size; ++column) {
        plan.d.push_back(!m.wmma           ? mfma_output(m, row, column, block)
                         : processor.gfx12 ? wmma12_output(wave_size, row, column)
                                           : wmma11_output(m, wave_size, row, column, upper_half));
      }
    }
  }
  unsigned input = 0, output = 0;
  for (const Place& p : plan.a) input = std::max(input, p.element + 1u);
  for (const Place& p : plan.d) output = std::max(output, p.element + 1u);
  plan.registers_ab = (input * bits_of(m.a) + 31) / 32;
  plan.registers_d = (output * bits_of(m.d) + 31) / 32;
  plan.rows_b = are_rows(plan.b, m.size);
  plan.rows_d = are_rows(plan.d, m.size);
}

const Matrix* find_matrix(std::string_view mnemonic) {
  for (const Matrix& m : matrices()) {
    if (m.name == mnemonic) return &m;
  }
  return nullptr;
}

bool bind_matrix(Instruction& i, const Processor& processor, unsigned wave_size) {
  const Matrix* m = find_matrix(i.mnemonic);
  if (m == nullptr) return false;
  if (i.operands.size() != 4) fault("a matrix instruction with " + std::to_string(i.operands.size()) + " operands");
  auto plan = std::make_shared<MatrixPlan>();
  plan->matrix = m;
  plan->name_hash = hash_of(m->name);
  Broadcast broadcast;
  bool upper_half = false;
  bind_modifiers(i, *plan, processor, broadcast, upper_half);
  place_matrix(*plan, processor, wave_size, broadcast, upper_half);
  plan->replicated = m->wmma && !processor.gfx12;
  if (!m->wmma && m->d == Element::F32 && m->a != Element::F32) {
    if (processor.cdna3) {
      plan->arithmetic = MatrixPlan::FusedOfCdna3;
      plan->group = m->a == Element::Xf32 ? 4 : bits_of(m->a) == 16 ? 8 : 16;
    } else {
      plan->arithmetic = MatrixPlan::PairsOfCdna2;
      plan->group = m->k % 4 != 0 || i.mnemonic.ends_with("x4bf16") || i.mnemonic.ends_with("x8bf16") ? 2 : 4;
      plan->flushes = true;
    }
  }
  check_operands(i, *plan, processor);
  if (i.operands[3].form == Form::Constant) bind_constant(i.operands[3], *plan);
  i.matrix = std::move(plan);
  i.execute = execute_matrix;
  return true;
}

void list_matrix(std::vector<std::string>& names) {
  for (const Matrix& m : matrices()) names.push_back(m.name);
}

}  // namespace heddle::amdgpu
