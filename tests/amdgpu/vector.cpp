// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes vector instructions: fetches and modifies sources (neg, abs, sext, op_sel, SDWA, DPP), runs the loop of the tables, writes results back.
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

using Lanes = std::array<uint64_t, 64>;

bool is_packed(Type type) {
  return type == Type::PackedF16 || type == Type::PackedI16 || type == Type::PackedF32;
}

void apply_modifiers(Type type, bool neg, bool abs, Lanes& values) {
  if (!neg && !abs) return;
  uint64_t sign = 0;
  switch (type) {
    case Type::F16:
    case Type::B16:
      sign = 0x8000;
      break;
    case Type::F32:
    case Type::B32:
      sign = 0x80000000;
      break;
    case Type::F64:
    case Type::B64:
      sign = uint64_t{1} << 63;
      break;
    default:
      fault("a sign modifier on an operand that is no float is not implemented");
  }
  for (uint64_t& v : values) {
    if (abs) v &= ~sign;
    if (neg) v ^= sign;
  }
}

// The registers of an operand, without any selection.
void fetch_raw(Wave& w, const Operand& o, Type type, uint64_t constant, Lanes& out) {
  const unsigned registers = registers_of(type);
  switch (o.form) {
    case Form::Vector:
    case Form::Accumulator: {
      const uint32_t* low = &w.vectors[w.vector_index(o) * 64];
      if (registers == 2) {
        for (unsigned i = 0; i < 64; ++i) out[i] = low[i] | uint64_t{low[64 + i]} << 32;
      } else {
        for (unsigned i = 0; i < 64; ++i) out[i] = low[i];
      }
      return;
    }
    case Form::Constant:
      out.fill(constant);
      return;
    default:
      out.fill(read_scalar(w, o, registers == 2 ? Type::B64 : Type::B32));
      return;
  }
}

void select_part(Select select, bool sext, Lanes& values) {
  for (uint64_t& v : values) {
    const auto x = static_cast<uint32_t>(v);
    switch (select) {
      case Select::Dword:
        v = x;
        break;
      case Select::Word0:
      case Select::Word1: {
        const uint32_t part = select == Select::Word1 ? x >> 16 : x & 0xffff;
        v = sext ? static_cast<uint32_t>(static_cast<int16_t>(part)) : part;
        break;
      }
      default: {
        const uint32_t part = x >> 8 * (static_cast<unsigned>(select) - static_cast<unsigned>(Select::Byte0)) & 255;
        v = sext ? static_cast<uint32_t>(static_cast<int8_t>(part)) : part;
      }
    }
  }
}

// The lane that a lane reads, or -1. MI200 ISA, section 6.7 (Data parallel processing); RDNA3 ISA, section 7.7.
int source_lane(const Instruction& i, unsigned lane, unsigned size) {
  const int l = static_cast<int>(lane), row = l & ~15, n = i.dpp_value, s = static_cast<int>(size);
  const auto in_row = [&](int at) { return at >= row && at < row + 16 ? at : -1; };
  switch (i.dpp) {
    case Dpp::None:
      return l;
    case Dpp::QuadPerm:
      return (l & ~3) | (n >> 2 * (l & 3) & 3);
    case Dpp::RowShl:
      return in_row(l + n);
    case Dpp::RowShr:
      return in_row(l - n);
    case Dpp::RowRor:
      return row | ((l - n) & 15);
    case Dpp::WaveShl:
      return l + 1 < s ? l + 1 : -1;
    case Dpp::WaveRol:
      return (l + 1) % s;
    case Dpp::WaveShr:
      return l - 1;
    case Dpp::WaveRor:
      return (l + s - 1) % s;
    case Dpp::RowMirror:
      return row | (15 - (l & 15));
    case Dpp::RowHalfMirror:
      return (l & ~7) | (7 - (l & 7));
    case Dpp::RowBcast15:
      return l >= 16 ? row - 1 : -1;
    case Dpp::RowBcast31:
      return l >= 32 ? 31 : -1;
    case Dpp::RowShare:
      return row | n;
    case Dpp::RowXmask:
      return row | ((l ^ n) & 15);
    case Dpp::Eight:
      return (l & ~7) | i.dpp8[l & 7];
  }
  return -1;
}

// Moves the first source across lanes, and takes the lanes out of the mask that are not written.
void apply_dpp(const Wave& w, const Instruction& i, uint64_t& written, Lanes& values) {
  const Lanes from = values;
  const uint64_t exec = w.exec();
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if (i.dpp != Dpp::Eight && ((i.row_mask >> lane / 16 & 1) == 0 || (i.bank_mask >> (lane & 15) / 4 & 1) == 0)) {
      written &= ~(uint64_t{1} << lane);
      continue;
    }
    const int source = source_lane(i, lane, w.size);
    const bool inside = source >= 0;
    const bool active = inside && (exec >> source & 1) != 0;
    if (inside && (active || i.fetch_inactive)) {
      values[lane] = from[static_cast<unsigned>(source)];
    } else if (i.bound_ctrl || i.dpp == Dpp::Eight) {
      values[lane] = 0;
    } else {
      written &= ~(uint64_t{1} << lane);
    }
  }
}

void fetch(Wave& w, const Instruction& i, unsigned n, uint64_t& written, Lanes& out) {
  const Valu& op = *i.valu;
  const Operand& o = i.operands[static_cast<size_t>(i.source[n])];
  const Type type = op.sources[n];
  fetch_raw(w, o, type, i.constant[n], out);
  if (n == 0 && i.dpp != Dpp::None) apply_dpp(w, i, written, out);
  if (i.sdwa && n < 2) select_part(i.src_sel[n], o.sext, out);
  if ((op.flags & kMix) != 0) {
    bool neg = o.neg, abs = o.abs;
    if ((i.op_sel_hi >> n & 1) != 0) {
      const unsigned shift = (i.op_sel >> n & 1) != 0 ? 16 : 0;
      for (uint64_t& v : out) v = as_bits(half_to_float(static_cast<uint16_t>(v >> shift)));
    }
    apply_modifiers(Type::F32, neg, abs, out);
    return;
  }
  if (is_half(type) && (i.op_sel >> n & 1) != 0) {
    for (uint64_t& v : out) v = static_cast<uint32_t>(v) >> 16;
  }
  apply_modifiers(type, o.neg, o.abs, out);
}

void write_half(Wave& w, const Instruction& i, const Operand& o, uint64_t lanes, const Lanes& values) {
  uint32_t* registers = &w.vectors[w.vector_index(o) * 64];
  const unsigned select_bit = i.op_sel_given ? (i.op_sel >> 3 & 1) : 0;
  const bool high = select_bit != 0 || (i.valu->flags & kWritesHigh) != 0;
  const bool keeps = w.machine->gfx11 || (i.valu->flags & kKeepsHigh) != 0;
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    uint32_t& r = registers[lane];
    const auto v = static_cast<uint32_t>(values[lane] & 0xffff);
    if (high) {
      r = (r & 0xffff) | v << 16;
    } else {
      r = keeps ? (r & 0xffff0000) | v : v;
    }
  }
}

void write_sdwa(Wave& w, const Instruction& i, const Operand& o, uint64_t lanes, const Lanes& values) {
  uint32_t* registers = &w.vectors[w.vector_index(o) * 64];
  unsigned shift = 0, bits = 32;
  switch (i.dst_sel) {
    case Select::Dword:
      break;
    case Select::Word0:
    case Select::Word1:
      bits = 16;
      shift = i.dst_sel == Select::Word1 ? 16 : 0;
      break;
    default:
      bits = 8;
      shift = 8 * (static_cast<unsigned>(i.dst_sel) - static_cast<unsigned>(Select::Byte0));
  }
  const uint64_t part = ((uint64_t{1} << bits) - 1) << shift;
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const uint64_t v = values[lane] << shift & part;
    uint64_t result = v;
    if (bits < 32) {
      if (i.dst_unused == 2) {
        result |= registers[lane] & ~part;
      } else if (i.dst_unused == 1 && (values[lane] >> (bits - 1) & 1) != 0) {
        result |= ~((uint64_t{1} << (shift + bits)) - 1);
      }
    }
    registers[lane] = static_cast<uint32_t>(result);
  }
}

void write_vector(Wave& w, const Operand& o, unsigned registers, uint64_t lanes, const Lanes& values) {
  uint32_t* low = &w.vectors[w.vector_index(o) * 64];
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    low[lane] = static_cast<uint32_t>(values[lane]);
    if (registers == 2) low[64 + lane] = static_cast<uint32_t>(values[lane] >> 32);
  }
}

Mode mode_of(const Wave& w, const Instruction& i) {
  Mode m = w.mode;
  m.clamp = i.clamp;
  m.omod = i.omod;
  if (w.machine->options.approximate) m.approximate = w.machine->options.seed * 2 + 1;
  return m;
}

void execute_packed(Wave& w, const Instruction& i) {
  const Valu& op = *i.valu;
  const bool wide = op.result == Type::PackedF32;
  const Mode m = mode_of(w, i);
  Lanes part[2][3], raw;
  for (unsigned n = 0; n < 3; ++n) {
    if (op.sources[n] == Type::None) {
      part[0][n].fill(0);
      part[1][n].fill(0);
      continue;
    }
    const Operand& o = i.operands[static_cast<size_t>(i.source[n])];
    fetch_raw(w, o, op.sources[n], i.constant[n], raw);
    const bool high[2] = {(i.op_sel >> n & 1) != 0, (i.op_sel_hi >> n & 1) != 0};
    const bool neg[2] = {(i.neg_lo >> n & 1) != 0, (i.neg_hi >> n & 1) != 0};
    // Neither AMD's documents nor LLVM say what the upper half of a constant is, unless all of it is 0. v_pk_mov_b32 has no op_sel_hi: LLVM uses it with
    // the same constant twice for a pair of registers that both get this constant (SIInstrInfo::expandPostRAPseudo, V_MOV_B64_PSEUDO).
    const bool upper = high[0] || (high[1] && op.loop != nullptr);
    if (wide && o.form == Form::Constant && i.constant[n] != 0 && upper)
      fault("the upper half of a constant of two f32, other than 0, is not implemented");
    for (unsigned h = 0; h < 2; ++h) {
      const unsigned shift = !high[h] ? 0 : wide ? 32 : 16;
      const uint64_t half = wide ? 0xffffffff : 0xffff;
      for (unsigned lane = 0; lane < 64; ++lane) part[h][n][lane] = raw[lane] >> shift & half;
      if (neg[h] != o.neg || o.abs) {
        if (o.neg || o.abs || op.sources[n] == Type::PackedI16) fault("this modifier of a packed operand is not implemented");
        apply_modifiers(wide ? Type::F32 : Type::F16, true, false, part[h][n]);
      }
    }
  }
  Lanes low, high;
  uint64_t ignored = 0;
  if (op.loop == nullptr) {  // v_pk_mov_b32
    low = part[0][0];
    high = part[1][1];
    // Its second half is selected by op_sel, too.
    const Operand& o = i.operands[static_cast<size_t>(i.source[1])];
    fetch_raw(w, o, op.sources[1], i.constant[1], raw);
    for (unsigned lane = 0; lane < 64; ++lane) high[lane] = (i.op_sel >> 1 & 1) != 0 ? raw[lane] >> 32 : raw[lane] & 0xffffffff;
  } else {
    op.loop(m, w.size, low.data(), part[0][0].data(), part[0][1].data(), part[0][2].data(), 0, &ignored);
    op.loop(m, w.size, high.data(), part[1][0].data(), part[1][1].data(), part[1][2].data(), 0, &ignored);
  }
  for (unsigned lane = 0; lane < w.size; ++lane) low[lane] |= high[lane] << (wide ? 32 : 16);
  write_vector(w, i.operands[static_cast<size_t>(i.destination)], wide ? 2 : 1, w.exec(), low);
}

void check_output_modifier(const Wave& w, const Instruction& i) {
  if (i.omod == 0) return;
  const bool flushes = i.valu->result == Type::F32 ? w.mode.flush_out32 : w.mode.flush_out64;
  if (!flushes) fault("an output modifier while denormals are enabled, which the hardware ignores");
}

// A quick instruction: the values of all lanes.
struct QuickResult {
  alignas(32) uint32_t values[64];
  uint64_t mask = 0;
};

bool can_be_quick(const Wave& w, const Instruction& i) {
  return i.quick != nullptr && !w.mode.flush_in32 && !w.mode.flush_out32;
}

// Where the values of a source are: in its register, or here.
const uint32_t* quick_source(Wave& w, const Instruction& i, unsigned n, uint32_t* here) {
  const Operand& o = i.operands[static_cast<size_t>(i.source[n])];
  const bool is_vector = o.form == Form::Vector || o.form == Form::Accumulator;
  const uint32_t* from = is_vector ? &w.vectors[w.vector_index(o) * 64] : here;
  if (!is_vector) std::fill_n(here, 64, static_cast<uint32_t>(o.form == Form::Constant ? i.constant[n] : read_scalar(w, o, Type::B32)));
  if (!o.neg && !o.abs) return from;
  const uint32_t kept = o.abs ? 0x7fffffff : 0xffffffff, flipped = o.neg ? 0x80000000 : 0;
  for (unsigned lane = 0; lane < 64; ++lane) here[lane] = (from[lane] & kept) ^ flipped;
  return here;
}

void quick_compute(Wave& w, const Instruction& i, QuickResult& result) {
  const Valu& op = *i.valu;
  alignas(32) uint32_t here[3][64];
  const uint32_t* sources[3] = {here[0], here[1], here[2]};
  for (unsigned n = 0; n < 3 && op.sources[n] != Type::None; ++n) sources[n] = quick_source(w, i, n, here[n]);
  uint64_t mask_in = 0;
  if ((op.flags & kMaskIn) != 0 && i.mask_in >= 0) {
    mask_in = read_scalar(w, i.operands[static_cast<size_t>(i.mask_in)], w.size == 64 ? Type::B64 : Type::B32);
  } else if ((op.flags & (kMaskIn | kImplicitVcc)) != 0) {
    mask_in = w.read_mask(kVcc);
  }
  Mode m = w.mode;
  if (w.machine->options.approximate) m.approximate = w.machine->options.seed * 2 + 1;
  result.mask = i.quick(m, w.size, result.values, sources[0], sources[1], sources[2], mask_in);
}

void quick_store(Wave& w, const Instruction& i, const QuickResult& result) {
  const uint32_t flags = i.valu->flags;
  const uint64_t written = w.exec();
  if ((flags & (kMaskOut | kCompare)) != 0) {
    const uint64_t mask = result.mask & written;
    if ((flags & kWritesExec) != 0) w.set_exec(mask);
    if (i.mask_out >= 0) write_scalar(w, i.operands[static_cast<size_t>(i.mask_out)], mask, w.size == 64 ? 2 : 1);
    if ((flags & kCompare) != 0) return;
  }
  const Operand& destination = i.operands[static_cast<size_t>(i.destination)];
  if (destination.form != Form::Vector && destination.form != Form::Accumulator) fault("the destination is no vector register");
  uint32_t* to = &w.vectors[w.vector_index(destination) * 64];
  if (written == w.mask()) {
    std::memcpy(to, result.values, w.size * sizeof(uint32_t));
    return;
  }
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (unsigned lane = 0; lane < w.size; lane += 8) {
    const __m256i all = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(written >> lane & 255)), bits);
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to + lane), _mm256_cmpeq_epi32(all, bits),
                           _mm256_load_si256(reinterpret_cast<const __m256i*>(result.values + lane)));
  }
}

struct Result {
  Lanes values;
  uint64_t mask = 0, written = 0;
};

void compute(Wave& w, const Instruction& i, Result& result) {
  const Valu& op = *i.valu;
  Lanes sources[3];
  result.written = w.exec();
  for (unsigned n = 0; n < 3; ++n) {
    if (op.sources[n] != Type::None) fetch(w, i, n, result.written, sources[n]);
  }
  uint64_t mask_in = 0;
  if ((op.flags & kMaskIn) != 0) {
    mask_in = i.mask_in >= 0 ? read_scalar(w, i.operands[static_cast<size_t>(i.mask_in)], w.size == 64 ? Type::B64 : Type::B32)
                             : w.read_mask(kVcc);
  }
  if ((op.flags & kImplicitVcc) != 0) mask_in = w.read_mask(kVcc);
  op.loop(mode_of(w, i), w.size, result.values.data(), sources[0].data(), sources[1].data(), sources[2].data(), mask_in, &result.mask);
}

void store(Wave& w, const Instruction& i, Result& result) {
  const Valu& op = *i.valu;
  // A lane that is not active gets 0 in masks; one whose DPP source is invalid keeps its bit.
  if ((op.flags & (kMaskOut | kCompare)) != 0) {
    uint64_t mask = result.mask & result.written;
    if (result.written != w.exec()) fault("a mask as the result of an instruction with disabled DPP lanes is not implemented");
    if ((op.flags & kWritesExec) != 0) w.set_exec(mask);
    if (i.mask_out >= 0) write_scalar(w, i.operands[static_cast<size_t>(i.mask_out)], mask, w.size == 64 ? 2 : 1);
    if ((op.flags & kCompare) != 0) return;
  }
  const Operand& destination = i.operands[static_cast<size_t>(i.destination)];
  if (destination.form != Form::Vector && destination.form != Form::Accumulator) fault("the destination is no vector register");
  if (i.sdwa) {
    if (is_half(op.result) && i.dst_sel == Select::Dword) {
      write_half(w, i, destination, result.written, result.values);
    } else {
      write_sdwa(w, i, destination, result.written, result.values);
    }
  } else if (is_half(op.result)) {
    write_half(w, i, destination, result.written, result.values);
  } else {
    write_vector(w, destination, registers_of(op.result), result.written, result.values);
  }
}

}  // namespace

// Whether all sources with neg or abs are floats or raw bits.
static bool may_be_signed(const Instruction& i) {
  for (size_t n = 0; n < 3; ++n) {
    const Type type = i.valu->sources[n];
    if (type == Type::None || type == Type::F32 || type == Type::B32) continue;
    const Operand& o = i.operands[static_cast<size_t>(i.source[n])];
    if (o.neg || o.abs) return false;
  }
  return true;
}

// Finds out which operand is what, and what constants mean. Throws Fault for combinations that are not implemented.
void bind_valu(Instruction& i) {
  const Valu* op = i.valu;
  if (i.mnemonic == "v_dot4_i32_iu8" || i.mnemonic == "v_dot8_i32_iu4") {
    op = i.valu += i.neg_lo & 3;
    i.neg_lo = 0;
  }
  const size_t sources = op->sources[2] != Type::None ? 3 : op->sources[1] != Type::None ? 2 : 1;
  const bool accumulates = (op->flags & kAccumulate) != 0;
  size_t next = 0;
  if ((op->flags & kCompare) != 0) {
    // GFX11's v_cmpx has no mask as a result.
    if (i.operands.size() == sources + 1) i.mask_out = static_cast<int>(next++);
  } else {
    i.destination = static_cast<int>(next++);
    if ((op->flags & kMaskOut) != 0) i.mask_out = static_cast<int>(next++);
  }
  for (size_t n = 0; n < sources; ++n) {
    if (n == 2 && accumulates) {
      i.source[n] = i.destination;
    } else {
      i.source[n] = static_cast<int>(next++);
    }
  }
  if ((op->flags & kMaskIn) != 0 && next < i.operands.size()) i.mask_in = static_cast<int>(next++);
  if (next != i.operands.size())
    fault(i.text + " has " + std::to_string(i.operands.size()) + " operands; expected " + std::to_string(next));
  for (size_t n = 0; n < sources; ++n) {
    const Operand& o = i.operands[static_cast<size_t>(i.source[n])];
    if (o.form == Form::Constant) i.constant[n] = constant_bits(o, op->sources[n]);
    if ((op->flags & kMix) != 0 && o.form == Form::Constant && (i.op_sel_hi >> n & 1) != 0) i.constant[n] = constant_bits(o, Type::F16);
    if (i.sdwa && n < 2 && registers_of(op->sources[n]) == 2) fault("SDWA on 64 bits");
  }
  if ((op->flags & kOwnSelect) != 0) {
    const auto all = static_cast<uint8_t>((1u << sources) - 1);
    if (i.op_sel != 0 || (i.op_sel_hi & all) != all || i.neg_lo != 0 || i.neg_hi != 0) fault("op_sel of a dot product is not implemented");
  } else if (!is_packed(op->result) && (op->flags & kMix) == 0) {
    if (i.neg_lo != 0 || i.neg_hi != 0) fault("neg_lo of an instruction that is not packed");
    if (i.op_sel != 0) {
      for (size_t n = 0; n < sources; ++n) {
        if ((i.op_sel >> n & 1) != 0 && !is_half(op->sources[n])) fault("op_sel selects a half of an operand that has none");
      }
      if ((i.op_sel & 8) != 0 && !is_half(op->result)) fault("op_sel selects a half of a result that has none");
    }
  }
  if (is_packed(op->result) && i.dpp != Dpp::None) fault("DPP of a packed instruction is not implemented");
  if (i.dpp != Dpp::None) {
    const Operand& o = i.operands[static_cast<size_t>(i.source[0])];
    if (o.form != Form::Vector) fault("DPP of an operand that is no vector register");
  }
  if (i.clamp) {
    switch (op->result) {
      case Type::B16:
      case Type::B64:
      case Type::None:
        fault("clamp of a result without a type is not implemented");
      default:
        break;
    }
    if (op->result == Type::B32) fault("clamp of a result without a type is not implemented");
  }
  if (i.omod != 0 && op->result != Type::F32 && op->result != Type::F16 && op->result != Type::F64)
    fault("an output modifier of an integer");
  i.execute = is_packed(op->result) ? execute_packed : execute_valu;
  if (i.dpp == Dpp::None && !i.sdwa && !i.clamp && i.omod == 0 && (op->flags & kMix) == 0 && may_be_signed(i)) i.quick = op->quick;
}

void execute_valu(Wave& w, const Instruction& i) {
  if (can_be_quick(w, i)) {
    QuickResult result;
    quick_compute(w, i, result);
    quick_store(w, i, result);
    return;
  }
  check_output_modifier(w, i);
  Result result;
  compute(w, i, result);
  store(w, i, result);
}

// GFX11.5 and later compute with floats in scalar registers, too: one lane of the vector instruction of the same name, whatever EXEC is. RDNA4 ISA:
// s_add_f32 and the like, which have no modifiers, and v_s_exp_f32 and the like, which have those of VOP3. A result of 16 bits clears the upper half.
void execute_scalar_float(Wave& w, const Instruction& i) {
  const Valu& op = *i.valu;
  check_output_modifier(w, i);
  uint64_t sources[3] = {}, result = 0, mask = 0;
  for (unsigned n = 0; n < 3; ++n) {
    if (op.sources[n] == Type::None) continue;
    const Operand& o = i.operands[static_cast<size_t>(i.source[n])];
    sources[n] = o.form == Form::Constant ? i.constant[n] : read_scalar(w, o, Type::B32);
    const uint64_t sign = is_half(op.sources[n]) ? 0x8000 : 0x80000000;
    if (o.abs) sources[n] &= ~sign;
    if (o.neg) sources[n] ^= sign;
  }
  op.loop(mode_of(w, i), 1, &result, &sources[0], &sources[1], &sources[2], 0, &mask);
  if ((op.flags & kCompare) != 0) {
    w.scc = (mask & 1) != 0;
  } else {
    write_scalar(w, i.operands[static_cast<size_t>(i.destination)], result, 1);
  }
}

bool bind_scalar_float(Instruction& i) {
  const bool modifiers = i.mnemonic.substr(0, 4) == "v_s_";
  if (!modifiers &&
      (i.mnemonic.substr(0, 2) != "s_" || (i.mnemonic.find("_f32") == std::string::npos && i.mnemonic.find("_f16") == std::string::npos)))
    return false;
  if (i.op_sel != 0) return false;
  const Valu* op = find_float_valu("v_" + i.mnemonic.substr(modifiers ? 4 : 2));
  if (op == nullptr || (op->flags & ~(kCompare | kAccumulate | kKeepsHigh)) != 0) return false;
  i.valu = op;
  const size_t sources = op->sources[2] != Type::None ? 3 : op->sources[1] != Type::None ? 2 : 1;
  size_t next = 0;
  if ((op->flags & kCompare) == 0) i.destination = static_cast<int>(next++);
  for (size_t n = 0; n < sources; ++n) {
    i.source[n] = n == 2 && (op->flags & kAccumulate) != 0 ? i.destination : static_cast<int>(next++);
    if (next > i.operands.size()) return false;
    const Operand& o = i.operands[static_cast<size_t>(i.source[n])];
    if (o.form == Form::Constant) i.constant[n] = constant_bits(o, op->sources[n]);
    if ((!modifiers && (o.neg || o.abs)) || registers_of(op->sources[n]) != 1) return false;
  }
  if (next != i.operands.size()) return false;
  i.execute = execute_scalar_float;
  return true;
}

// VOPD: both halves read before either writes.
void execute_pair(Wave& w, const Instruction& i) {
  if (can_be_quick(w, i) && can_be_quick(w, *i.second)) {
    QuickResult first, second;
    quick_compute(w, i, first);
    quick_compute(w, *i.second, second);
    quick_store(w, i, first);
    quick_store(w, *i.second, second);
    return;
  }
  Result first, second;
  compute(w, i, first);
  compute(w, *i.second, second);
  store(w, i, first);
  store(w, *i.second, second);
}

}  // namespace heddle::amdgpu
