// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory instructions: addresses, bounds, the time at which they happen, the counters that waits look at. Sources: AMD Instinct MI200 ISA reference guide,
// chapters 4.4 (Data dependency resolution), 7 to 10 and 12.10 to 12.16; RDNA3 ISA reference guide, chapters 8 to 12; LLVM, User Guide for AMDGPU Backend,
// section "Memory Model".
//
// An operation happens at a time that the seed chooses, between its issue and the wait that covers it; those of one queue of a wave in their order. A
// register that an operation loads must not be touched before that wait.
#include <algorithm>

#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

enum Atomic : uint8_t {
  Swap,
  CompareSwap,
  Add,
  Sub,
  ReverseSub,
  MinI,
  MinU,
  MaxI,
  MaxU,
  And,
  Or,
  Xor,
  Inc,
  Dec,
  AddF,
  MinF,
  MaxF,
  PackedAddF16,
  PackedAddBf16
};

bool starts(std::string_view s, std::string_view prefix) {
  return s.substr(0, prefix.size()) == prefix;
}
bool take(std::string_view& s, std::string_view prefix) {
  if (!starts(s, prefix)) return false;
  s.remove_prefix(prefix.size());
  return true;
}

struct Size {
  const char* name;
  uint8_t bytes;
  bool is_signed, d16, high;
};
const Size kLoads[] = {
    {"ubyte", 1, false, false, false},      {"sbyte", 1, true, false, false},      {"ushort", 2, false, false, false},
    {"sshort", 2, true, false, false},      {"dword", 4, false, false, false},     {"dwordx2", 8, false, false, false},
    {"dwordx3", 12, false, false, false},   {"dwordx4", 16, false, false, false},  {"dwordx8", 32, false, false, false},
    {"dwordx16", 64, false, false, false},  {"ubyte_d16", 1, false, true, false},  {"ubyte_d16_hi", 1, false, true, true},
    {"sbyte_d16", 1, true, true, false},    {"sbyte_d16_hi", 1, true, true, true}, {"short_d16", 2, false, true, false},
    {"short_d16_hi", 2, false, true, true}, {"u8", 1, false, false, false},        {"i8", 1, true, false, false},
    {"u16", 2, false, false, false},        {"i16", 2, true, false, false},        {"b32", 4, false, false, false},
    {"b64", 8, false, false, false},        {"b96", 12, false, false, false},      {"b128", 16, false, false, false},
    {"b256", 32, false, false, false},      {"b512", 64, false, false, false},     {"d16_u8", 1, false, true, false},
    {"d16_hi_u8", 1, false, true, true},    {"d16_i8", 1, true, true, false},      {"d16_hi_i8", 1, true, true, true},
    {"d16_b16", 2, false, true, false},     {"d16_hi_b16", 2, false, true, true},  {"u8_d16", 1, false, true, false},
    {"u8_d16_hi", 1, false, true, true},    {"i8_d16", 1, true, true, false},      {"i8_d16_hi", 1, true, true, true},
    {"u16_d16", 2, false, true, false},     {"u16_d16_hi", 2, false, true, true}};
const Size kStores[] = {
    {"byte", 1, false, false, false},      {"short", 2, false, false, false},      {"dword", 4, false, false, false},
    {"dwordx2", 8, false, false, false},   {"dwordx3", 12, false, false, false},   {"dwordx4", 16, false, false, false},
    {"byte_d16_hi", 1, false, true, true}, {"short_d16_hi", 2, false, true, true}, {"b8", 1, false, false, false},
    {"b16", 2, false, false, false},       {"b32", 4, false, false, false},        {"b64", 8, false, false, false},
    {"b96", 12, false, false, false},      {"b128", 16, false, false, false},      {"d16_hi_b8", 1, false, true, true},
    {"d16_hi_b16", 2, false, true, true},  {"b8_d16_hi", 1, false, true, true},    {"b16_d16_hi", 2, false, true, true}};

bool is_scalar(std::string_view name, unsigned bytes) {  // a size of s_load
  return bytes >= 4 || name == "u8" || name == "i8" || name == "u16" || name == "i16";
}

bool set_size(Memo& m, std::string_view name, std::span<const Size> sizes) {
  for (const Size& s : sizes) {
    if (name == s.name) {
      m.bytes = s.bytes;
      m.is_signed = s.is_signed;
      m.d16 = s.d16;
      m.high = s.high;
      m.registers = static_cast<uint8_t>((s.bytes + 3) / 4);
      return true;
    }
  }
  return false;
}

struct AtomicName {
  const char* name;
  Atomic operation;
  uint8_t bytes;
};
const AtomicName kAtomics[] = {
    // GFX9: global, flat, buffer
    {"swap", Swap, 4},
    {"swap_x2", Swap, 8},
    {"cmpswap", CompareSwap, 4},
    {"cmpswap_x2", CompareSwap, 8},
    {"add", Add, 4},
    {"add_x2", Add, 8},
    {"sub", Sub, 4},
    {"sub_x2", Sub, 8},
    {"smin", MinI, 4},
    {"smin_x2", MinI, 8},
    {"umin", MinU, 4},
    {"umin_x2", MinU, 8},
    {"smax", MaxI, 4},
    {"smax_x2", MaxI, 8},
    {"umax", MaxU, 4},
    {"umax_x2", MaxU, 8},
    {"and", And, 4},
    {"and_x2", And, 8},
    {"or", Or, 4},
    {"or_x2", Or, 8},
    {"xor", Xor, 4},
    {"xor_x2", Xor, 8},
    {"inc", Inc, 4},
    {"inc_x2", Inc, 8},
    {"dec", Dec, 4},
    {"dec_x2", Dec, 8},
    {"pk_add_f16", PackedAddF16, 4},
    {"pk_add_bf16", PackedAddBf16, 4},
    // GFX11, and LDS
    {"swap_b32", Swap, 4},
    {"swap_b64", Swap, 8},
    {"cmpswap_b32", CompareSwap, 4},
    {"cmpswap_b64", CompareSwap, 8},
    {"add_u32", Add, 4},
    {"add_u64", Add, 8},
    {"sub_u32", Sub, 4},
    {"sub_u64", Sub, 8},
    {"rsub_u32", ReverseSub, 4},
    {"rsub_u64", ReverseSub, 8},
    {"min_i32", MinI, 4},
    {"min_i64", MinI, 8},
    {"min_u32", MinU, 4},
    {"min_u64", MinU, 8},
    {"max_i32", MaxI, 4},
    {"max_i64", MaxI, 8},
    {"max_u32", MaxU, 4},
    {"max_u64", MaxU, 8},
    {"and_b32", And, 4},
    {"and_b64", And, 8},
    {"or_b32", Or, 4},
    {"or_b64", Or, 8},
    {"xor_b32", Xor, 4},
    {"xor_b64", Xor, 8},
    {"inc_u32", Inc, 4},
    {"inc_u64", Inc, 8},
    {"dec_u32", Dec, 4},
    {"dec_u64", Dec, 8},
    {"add_f32", AddF, 4},
    {"add_f64", AddF, 8},
    {"min_f32", MinF, 4},
    {"min_f64", MinF, 8},
    {"max_f32", MaxF, 4},
    {"max_f64", MaxF, 8},
    {"wrxchg_b32", Swap, 4},
    {"wrxchg_b64", Swap, 8},
    {"storexchg_b32", Swap, 4},
    {"storexchg_b64", Swap, 8},
    {"cmpst_b32", CompareSwap, 4},
    {"cmpst_b64", CompareSwap, 8},
    {"cmpstore_b32", CompareSwap, 4},
    {"cmpstore_b64", CompareSwap, 8}};

bool set_atomic(Memo& m, std::string_view name) {
  for (const AtomicName& a : kAtomics) {
    if (name == a.name) {
      m.action = Memo::Atomic;
      m.atomic = a.operation;
      m.bytes = a.bytes;
      m.registers = a.bytes / 4;
      return true;
    }
  }
  return false;
}

template <class T, class S, class F>
T combine(Atomic operation, T old, T data, T compare) {
  switch (operation) {
    case Swap:
      return data;
    case CompareSwap:
      return old == compare ? data : old;
    case Add:
      return old + data;
    case Sub:
      return old - data;
    case ReverseSub:
      return data - old;
    case MinI:
      return static_cast<S>(old) < static_cast<S>(data) ? old : data;
    case MinU:
      return std::min(old, data);
    case MaxI:
      return static_cast<S>(old) > static_cast<S>(data) ? old : data;
    case MaxU:
      return std::max(old, data);
    case And:
      return old & data;
    case Or:
      return old | data;
    case Xor:
      return old ^ data;
    case Inc:
      return old >= data ? 0 : old + 1;
    case Dec:
      return old == 0 || old > data ? data : old - 1;
    case AddF:
      return std::bit_cast<T>(std::bit_cast<F>(old) + std::bit_cast<F>(data));
    case MinF:
      return std::bit_cast<F>(data) < std::bit_cast<F>(old) || std::isnan(std::bit_cast<F>(old)) ? data : old;
    case MaxF:
      return std::bit_cast<F>(data) > std::bit_cast<F>(old) || std::isnan(std::bit_cast<F>(old)) ? data : old;
    case PackedAddF16: {
      const auto half = [&](unsigned shift) {
        const float sum = half_to_float(static_cast<uint16_t>(old >> shift)) + half_to_float(static_cast<uint16_t>(data >> shift));
        return static_cast<T>(T{float_to_half(sum)} << shift);
      };
      return half(0) | half(16);
    }
    case PackedAddBf16:
      break;
  }
  fault("this atomic operation is not implemented");
}

uint32_t sign_extended(const Memo& m, uint32_t value) {
  return m.bytes == 1 ? static_cast<uint32_t>(static_cast<int8_t>(value)) : static_cast<uint32_t>(static_cast<int16_t>(value));
}

// What happens in memory, and the registers that it loads.
void perform(Wave& w, Access& a) {
  if (a.performed) return;
  a.performed = true;
  const Instruction& i = *a.instruction;
  const Memo& m = i.memo;
  if (m.space == Memo::ScalarMemory) {
    for (unsigned n = 0; n < m.registers; ++n) {
      uint32_t value = 0;
      if (a.host[0][n] != nullptr) std::memcpy(&value, a.host[0][n], std::min<size_t>(m.bytes, 4));
      w.scalars[a.scalar_destination + n] = m.is_signed ? sign_extended(m, value) : value;
    }
    return;
  }
  for (unsigned part = 0; part < m.parts; ++part) {
    for (unsigned lane = 0; lane < w.size; ++lane) {
      if ((a.lanes >> lane & 1) == 0) continue;
      std::byte* host = a.host[part][lane];
      uint32_t* data = a.data.empty() ? nullptr : &a.data[lane * a.data_stride];
      const unsigned destination = a.vector_destination + part * m.registers;
      if (m.action == Memo::Store) {
        if (host == nullptr) continue;
        if (m.bytes >= 4) {
          std::memcpy(host, data + part * m.registers, m.bytes);
        } else {
          const uint32_t value = m.high ? *data >> 16 : *data;
          std::memcpy(host, &value, m.bytes);
        }
      } else if (m.action == Memo::Load) {
        if (m.bytes >= 4) {
          for (unsigned n = 0; n < m.registers; ++n) {
            uint32_t value = 0;
            if (host != nullptr) std::memcpy(&value, host + 4 * n, 4);
            w.vector(destination + n, lane) = value;
          }
          continue;
        }
        uint32_t value = 0;
        if (host != nullptr) std::memcpy(&value, host, m.bytes);
        if (m.is_signed) value = sign_extended(m, value);
        uint32_t& r = w.vector(destination, lane);
        if (!m.d16) {
          r = value;
        } else {
          // With ECC, which gfx90a and gfx942 have, the other half is lost.
          const uint32_t other = w.machine->gfx11 ? r : static_cast<uint32_t>(Random{r}.next());
          r = m.high ? (other & 0xffff) | value << 16 : (other & 0xffff0000) | (value & 0xffff);
        }
      } else {
        if (host == nullptr) {
          if (m.returns) {
            for (unsigned n = 0; n < m.registers; ++n) w.vector(destination + n, lane) = 0;
          }
          continue;
        }
        // Operands of compare and swap: (new, compare) in one tuple, except for LDS of GFX9, which has (compare, new).
        uint64_t old = 0, first = 0, second = 0;
        std::memcpy(&old, host, m.bytes);
        std::memcpy(&first, data, m.bytes);
        if (m.atomic == CompareSwap) std::memcpy(&second, data + m.registers, m.bytes);
        if (m.space == Memo::Lds && !w.machine->gfx11 && m.atomic == CompareSwap) std::swap(first, second);
        const auto operation = static_cast<Atomic>(m.atomic);
        const uint64_t result = m.bytes == 8
                                    ? combine<uint64_t, int64_t, double>(operation, old, first, second)
                                    : combine<uint32_t, int32_t, float>(operation, static_cast<uint32_t>(old), static_cast<uint32_t>(first),
                                                                        static_cast<uint32_t>(second));
        std::memcpy(host, &result, m.bytes);
        if (m.returns) {
          w.vector(destination, lane) = static_cast<uint32_t>(old);
          if (m.bytes == 8) w.vector(destination + 1, lane) = static_cast<uint32_t>(old >> 32);
        }
      }
    }
  }
}

unsigned loaded_registers(const Memo& m) {
  if (m.action == Memo::Store || (m.action == Memo::Atomic && !m.returns)) return 0;
  return m.registers * m.parts;
}

// Registers that an outstanding operation loads. Plain vector loads return in order, so that a later one may overwrite.
constexpr uint8_t kInOrder = 1, kOther = 16;
uint8_t pending_unit(const Access& a) {
  return a.instruction->memo.space == Memo::Lds || a.instruction->memo.space == Memo::Flat ? kOther : kInOrder;
}

void mark(Wave& w, const Access& a, int sign) {
  const Memo& m = a.instruction->memo;
  const unsigned count = loaded_registers(m);
  for (unsigned n = 0; n < count; ++n) {
    if (m.space == Memo::ScalarMemory) {
      w.scalar_pending[a.scalar_destination + n] = static_cast<uint8_t>(w.scalar_pending[a.scalar_destination + n] + sign);
    } else {
      uint8_t& p = w.vector_pending[a.vector_destination + n];
      p = static_cast<uint8_t>(p + sign * pending_unit(a));
    }
  }
}

void perform_first(Wave& w, std::deque<Access>& queue, size_t count) {
  for (size_t n = 0; n < count; ++n) perform(w, queue[n]);
}

// Drops entries that no counter counts any more.
void drop_finished(Wave& w, std::deque<Access>& queue) {
  while (!queue.empty() && !queue.front().vm && !queue.front().vs && !queue.front().lgkm) {
    perform(w, queue.front());
    queue.pop_front();
  }
}

void retire(Wave& w, Access& a) {
  if (!a.vm && !a.vs && !a.lgkm) mark(w, a, -1);
}

std::string lane_text(const Wave& w, unsigned lane) {
  return "lane " + std::to_string(lane) + " of wave " + std::to_string(w.index);
}

std::byte* global(Wave& w, unsigned lane, uint64_t address, unsigned bytes, bool writes, bool atomic) {
  const Memory::Block* block = w.machine->memory.find(address);
  const char* verb = writes ? "writes" : "reads";
  const auto what = [&] { return lane_text(w, lane) + " " + verb + " " + std::to_string(bytes) + " bytes at " + hex(address); };
  if (block == nullptr || address + bytes > block->address + block->bytes)
    fault(what() + ", outside of every allocation; " + w.machine->memory.describe(address));
  if (writes && !block->writable) fault(what() + " in " + block->name + ", which is read-only");
  if (atomic && address % bytes != 0) fault(what() + " with an atomic operation, which needs an aligned address");
  return block->host + (address - block->address);
}

// Reports an access of which no barrier says whether it comes before or after that of another wave.
void use_lds(const Wave& w, const Instruction& i, unsigned lane, LdsUse& u, uint64_t address, bool writes, bool atomic, uint64_t sequence) {
  const Group& g = *w.group;
  constexpr uint16_t kAtomicFlag = 0x8000;
  const uint16_t writer = u.writer & 0x7fff;
  const auto race = [&](const std::string& text) {
    fault(lane_text(w, lane) + (writes ? " writes" : " reads") + " byte " + std::to_string(address) + " of LDS, " + text + " [" +
          i.mnemonic + "]");
  };
  if (u.writer != 0xffff && writer != w.index && !(atomic && (u.writer & kAtomicFlag) != 0) &&
      u.write_sequence > g.waves[writer]->lds_visible) {
    race("which wave " + std::to_string(writer) +
         " writes without a barrier in between, or with a barrier that its write is not waited for");
  }
  if (writes) {
    if (u.reader_epoch == g.epoch && (u.readers & ~(1u << w.index)) != 0) {
      race("which wave " + std::to_string(std::countr_zero(u.readers & ~(1u << w.index))) + " reads without a barrier in between");
    }
    u.writer = static_cast<uint16_t>(w.index | (atomic ? kAtomicFlag : 0));
    u.write_sequence = sequence;
  } else if (!atomic) {
    if (u.reader_epoch != g.epoch) u.readers = 0;
    u.reader_epoch = g.epoch;
    u.readers |= 1u << w.index;
  }
}

std::byte* in_lds(Wave& w, const Instruction& i, unsigned lane, uint64_t address, unsigned bytes, bool writes, bool atomic,
                  uint64_t sequence) {
  Group& g = *w.group;
  const char* verb = writes ? "writes" : "reads";
  if (address + bytes > g.lds.size()) {
    fault(lane_text(w, lane) + " " + verb + " " + std::to_string(bytes) + " bytes at " + std::to_string(address) + " of LDS, which has " +
          std::to_string(g.lds.size()) + " bytes");
  }
  if (atomic && address % bytes != 0)
    fault(lane_text(w, lane) + " has the unaligned LDS address " + std::to_string(address) + " for an atomic operation");
  if (!w.machine->options.check_races) return &g.lds[address];
  const auto use = [&](LdsUse& u, uint64_t at) { use_lds(w, i, lane, u, at, writes, atomic, sequence); };
  const bool whole = ((address | bytes) & 3) == 0;
  for (uint64_t word = address / 4; word * 4 < address + bytes; ++word) {
    LdsUse& u = g.lds_words[word];
    if (whole && !u.split) {
      use(u, word * 4);
      continue;
    }
    if (!u.split) {
      if (g.lds_bytes.empty()) g.lds_bytes.resize(g.lds_words.size() * 4);
      for (uint64_t n = 0; n < 4; ++n) g.lds_bytes[word * 4 + n] = u;
      u.split = true;
    }
    for (uint64_t n = std::max(word * 4, address); n < std::min(word * 4 + 4, address + bytes); ++n) use(g.lds_bytes[n], n);
  }
  return &g.lds[address];
}

std::byte* in_scratch(Wave& w, unsigned lane, int64_t offset, unsigned bytes) {
  const uint32_t size = w.machine->kernel.private_bytes;
  if (offset < 0 || offset + bytes > size) {
    fault(lane_text(w, lane) + " accesses " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
          " of its private memory, which has " + std::to_string(size) + " bytes");
  }
  return &w.scratch[lane * size + static_cast<uint64_t>(offset)];
}

std::byte* resolve(Wave& w, const Instruction& i, unsigned lane, uint64_t address, unsigned bytes, bool writes, bool atomic,
                   uint64_t sequence) {
  if (i.memo.space == Memo::Flat) {
    if (address >> 32 == w.machine->shared_base >> 32) return in_lds(w, i, lane, address & 0xffffffff, bytes, writes, atomic, sequence);
    if (address >> 32 == w.machine->private_base >> 32) return in_scratch(w, lane, static_cast<int64_t>(address & 0xffffffff), bytes);
  }
  return global(w, lane, address, bytes, writes, atomic);
}

void issue(Wave& w, std::deque<Access>& queue, Access&& access) {
  mark(w, access, 1);
  queue.push_back(std::move(access));
  if (!w.machine->options.late) perform_first(w, queue, queue.size());
}

void capture(Wave& w, Access& a, const Operand& o, unsigned first, unsigned registers) {
  const unsigned base = w.vector_index(o);
  for (unsigned lane = 0; lane < w.size; ++lane) {
    for (unsigned n = 0; n < registers; ++n) a.data[lane * a.data_stride + first + n] = w.vector(base + n, lane);
  }
}

const Operand& operand(const Instruction& i, size_t n) {
  if (n >= i.operands.size()) fault("an operand is missing");
  return i.operands[n];
}

void set_counters(const Wave& w, Access& a) {
  const Memo& m = a.instruction->memo;
  const bool returns = loaded_registers(m) != 0;
  if (m.space == Memo::Lds) {
    a.lgkm = true;
  } else {
    a.vm = !w.machine->gfx11 || returns;
    a.vs = !a.vm;
    a.lgkm = m.space == Memo::Flat;
  }
}

void execute_vector_memory(Wave& w, const Instruction& i) {
  const Memo& m = i.memo;
  Access a{};
  a.instruction = &i;
  a.lanes = w.exec();
  a.sequence = ++w.lds_issued;
  const bool loads = m.action == Memo::Load, returns = loaded_registers(m) != 0, atomic = m.action == Memo::Atomic;
  const bool buffer = m.space == Memo::Buffer;
  size_t next = 0;
  const Operand* destination = nullptr;
  const Operand* data = nullptr;
  if (buffer) {
    (loads ? destination : data) = &operand(i, next++);
    if (atomic && returns) destination = data;
  } else if (returns) {
    destination = &operand(i, next++);
  }
  const Operand& address = operand(i, next++);
  if (!buffer && !loads) data = &operand(i, next++);
  const unsigned data_registers = m.registers * (m.atomic == CompareSwap && atomic ? 2u : 1u);
  if (data != nullptr) {
    if (data->form != Form::Vector && data->form != Form::Accumulator) fault("the data are no vector registers");
    a.data_stride = data_registers;
    a.data.resize(64 * data_registers);
    capture(w, a, *data, 0, data_registers);
  }
  if (destination != nullptr) {
    if (destination->form != Form::Vector && destination->form != Form::Accumulator) fault("the destination is no vector register");
    a.vector_destination = static_cast<uint16_t>(w.vector_index(*destination));
  }
  const bool writes = !loads;
  const bool vector_address = address.form == Form::Vector;
  const unsigned address_register = vector_address ? w.vector_index(address) : 0;
  uint64_t base = 0, records = 0, stride = 0, scalar_offset = 0;
  bool swizzled = false;
  if (buffer) {
    const Operand& descriptor = operand(i, next++);
    if (descriptor.form != Form::Scalar || descriptor.count != 4) fault("the buffer descriptor is no group of four scalar registers");
    const uint32_t* words = &w.scalars[descriptor.index];
    base = words[0] | uint64_t{words[1] & 0xffff} << 32;
    stride = words[1] >> 16 & 0x3fff;
    records = words[2];
    swizzled = words[1] >> 31 != 0;
    scalar_offset = read_scalar(w, operand(i, next++), Type::B32);
  } else if (m.space == Memo::Global || m.space == Memo::Scratch) {
    const Operand& scalar = operand(i, next++);
    if (scalar.form != Form::Off) base = read_scalar(w, scalar, m.space == Memo::Global ? Type::B64 : Type::B32);
  }
  if (next != i.operands.size()) fault("the number of operands is not the expected one");
  const uint64_t exec = a.lanes;
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((exec >> lane & 1) == 0) continue;
    const uint64_t low = vector_address ? w.vector(address_register, lane) : 0;
    const uint64_t pair = vector_address && address.count == 2 ? low | uint64_t{w.vector(address_register + 1, lane)} << 32 : low;
    switch (m.space) {
      case Memo::Global:
      case Memo::Flat:
        a.host[0][lane] = resolve(w, i, lane, base + pair + static_cast<uint64_t>(i.offset), m.bytes, writes, atomic, a.sequence);
        break;
      case Memo::Scratch: {
        const auto offset = static_cast<int32_t>(static_cast<uint32_t>(base + low) + static_cast<uint32_t>(i.offset));
        a.host[0][lane] = in_scratch(w, lane, offset, m.bytes);
        break;
      }
      default: {
        const uint64_t index = i.idxen ? low : 0;
        const uint64_t voffset = i.offen ? (i.idxen ? w.vector(address_register + 1, lane) : low) : 0;
        const uint64_t offset = voffset + static_cast<uint64_t>(i.offset);
        if (swizzled) {
          // The descriptor of private memory: add_tid_enable, elements of 4 bytes, as the wave's initial registers have it.
          const uint64_t delta = base - w.scratch_base + scalar_offset;
          if (i.idxen || delta % w.size != 0) fault("a swizzled buffer other than private memory is not implemented");
          a.host[0][lane] = in_scratch(w, lane, static_cast<int64_t>(offset + delta / w.size), m.bytes);
          break;
        }
        if (stride != 0 && !i.idxen) fault("a structured buffer without an index is not implemented");
        // An access out of range is no fault: it reads 0 or writes nothing.
        const bool inside =
            i.idxen && stride != 0 ? index < records && offset + m.bytes <= stride : offset + scalar_offset + m.bytes <= records;
        const bool partly = !inside && !(i.idxen && stride != 0) && m.bytes > 4 && offset + scalar_offset < records;
        if (partly) fault(lane_text(w, lane) + " accesses a buffer partly out of its range, which is not implemented");
        a.host[0][lane] = inside ? global(w, lane, base + index * stride + offset + scalar_offset, m.bytes, writes, atomic) : nullptr;
      }
    }
  }
  set_counters(w, a);
  issue(w, w.vector_queue, std::move(a));
}

void execute_lds(Wave& w, const Instruction& i) {
  const Memo& m = i.memo;
  Access a{};
  a.instruction = &i;
  a.lanes = w.exec();
  a.sequence = ++w.lds_issued;
  const bool returns = loaded_registers(m) != 0, loads = m.action == Memo::Load;
  size_t next = 0;
  if (returns) {
    const Operand& destination = operand(i, next++);
    if (destination.form != Form::Vector && destination.form != Form::Accumulator) fault("the destination is no vector register");
    a.vector_destination = static_cast<uint16_t>(w.vector_index(destination));
  }
  const Operand& address = operand(i, next++);
  if (address.form != Form::Vector) fault("the address is no vector register");
  if (!loads) {
    const unsigned sources = m.parts == 2 || (m.action == Memo::Atomic && m.atomic == CompareSwap) ? 2 : 1;
    a.data_stride = m.registers * sources;
    a.data.resize(64 * a.data_stride);
    for (unsigned n = 0; n < sources; ++n) {
      const Operand& data = operand(i, next++);
      if (data.form != Form::Vector && data.form != Form::Accumulator) fault("the data are no vector registers");
      capture(w, a, data, n * m.registers, m.registers);
    }
  }
  if (next != i.operands.size()) fault("the number of operands is not the expected one");
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((a.lanes >> lane & 1) == 0) continue;
    const uint32_t start = w.vector(w.vector_index(address), lane);
    for (unsigned part = 0; part < m.parts; ++part) {
      const auto offset = static_cast<uint64_t>(m.parts == 2 ? (part == 0 ? i.offset0 : i.offset1) * m.stride : i.offset);
      a.host[part][lane] = in_lds(w, i, lane, (start + offset) & 0xffffffff, m.bytes, !loads, m.action == Memo::Atomic, a.sequence);
    }
  }
  set_counters(w, a);
  issue(w, w.lds_queue, std::move(a));
}

void execute_scalar_memory(Wave& w, const Instruction& i) {
  const Memo& m = i.memo;
  Access a{};
  a.instruction = &i;
  const Operand& destination = operand(i, 0);
  if (destination.form != Form::Scalar) fault("the destination is no scalar register");
  a.scalar_destination = destination.index;
  const Operand& base = operand(i, 1);
  if (base.form != Form::Scalar) fault("the address is no scalar register");
  const Operand& offset = operand(i, 2);
  if (i.operands.size() != 3) fault("the number of operands is not the expected one");
  // A constant is an offset of either sign; a register is unsigned.
  const uint64_t added = (offset.form == Form::Constant ? static_cast<uint64_t>(offset.integer) : read_scalar(w, offset, Type::B32)) +
                         static_cast<uint64_t>(i.offset);
  const bool buffer = starts(i.mnemonic, "s_buffer_");
  uint64_t records = 0;
  if (buffer) {
    if (base.count != 4) fault("the buffer descriptor is no group of four scalar registers");
    const uint64_t stride = w.scalars[base.index + 1] >> 16 & 0x3fff;
    records = w.scalars[base.index + 2] * std::max<uint64_t>(stride, 1);
  }
  // Whole dwords ignore the lowest two bits of the base and of the offset. GFX12's loads of a byte or of 16 bits do not.
  const unsigned bytes = std::min<unsigned>(m.bytes, 4);
  const uint64_t ignored = bytes == 4 ? 3 : 0;
  const uint64_t start = (buffer ? w.scalar64(base.index) & 0xffffffffffff : w.scalar64(base.index)) & ~ignored;
  for (unsigned n = 0; n < m.registers; ++n) {
    const uint64_t at = (added & ~ignored) + 4 * n;
    if ((start + at) % bytes != 0)
      fault("a scalar load of " + std::to_string(bytes) + " bytes at " + hex(start + at) + ", which is not aligned");
    a.host[0][n] = buffer && at + bytes > records ? nullptr : global(w, 0, start + at, bytes, false, false);
  }
  a.lgkm = true;
  issue(w, w.scalar_queue, std::move(a));
}

// Exchanges through the LDS hardware without LDS memory: computed at once, delivered late.
void deliver(Wave& w, const Instruction& i, const std::array<uint32_t, 64>& values) {
  const unsigned destination = w.vector_index(operand(i, 0));
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((w.exec() >> lane & 1) != 0) w.vector(destination, lane) = values[lane];
  }
  Access a{};
  a.instruction = &i;
  a.performed = true;
  a.lgkm = true;
  a.sequence = ++w.lds_issued;
  a.vector_destination = static_cast<uint16_t>(destination);
  mark(w, a, 1);
  w.lds_queue.push_back(std::move(a));
}

void bpermute(Wave& w, const Instruction& i) {
  const unsigned address = w.vector_index(operand(i, 1)), data = w.vector_index(operand(i, 2));
  std::array<uint32_t, 64> out{};
  for (unsigned lane = 0; lane < w.size; ++lane) {
    const unsigned from = (w.vector(address, lane) + static_cast<uint32_t>(i.offset)) / 4 % w.size;
    out[lane] = (w.exec() >> from & 1) != 0 ? w.vector(data, from) : 0;
  }
  deliver(w, i, out);
}

void permute(Wave& w, const Instruction& i) {
  const unsigned address = w.vector_index(operand(i, 1)), data = w.vector_index(operand(i, 2));
  std::array<uint32_t, 64> out{};
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((w.exec() >> lane & 1) == 0) continue;
    out[(w.vector(address, lane) + static_cast<uint32_t>(i.offset)) / 4 % w.size] = w.vector(data, lane);
  }
  deliver(w, i, out);
}

void swizzle(Wave& w, const Instruction& i) {
  const unsigned data = w.vector_index(operand(i, 1)), offset = i.words[0] & 0xffff;
  std::array<uint32_t, 64> out{};
  for (unsigned lane = 0; lane < w.size; ++lane) {
    unsigned from = 0;
    if (offset >= 0xc000) {
      fault("the rotate and FFT modes of ds_swizzle are not implemented");
    } else if ((offset & 0x8000) != 0) {
      from = (lane & ~3u) | (offset >> 2 * (lane & 3) & 3);
    } else {
      from = (lane & ~31u) | ((((lane & offset & 31) | (offset >> 5 & 31)) ^ (offset >> 10 & 31)) & 31);
    }
    out[lane] = (w.exec() >> from & 1) != 0 ? w.vector(data, from) : 0;
  }
  deliver(w, i, out);
}

void memtime(Wave& w, const Instruction& i) {
  w.set_scalar64(operand(i, 0).index, w.machine->statistics.instructions);
  Access a{};
  a.instruction = &i;
  a.performed = true;
  a.lgkm = true;
  a.scalar_destination = operand(i, 0).index;
  mark(w, a, 1);
  w.scalar_queue.push_back(std::move(a));
}

}  // namespace

bool find_memory(Instruction& i) {
  std::string_view name = i.mnemonic;
  Memo& m = i.memo;
  if (name == "ds_bpermute_b32" || name == "ds_permute_b32" || name == "ds_swizzle_b32") {
    m.space = Memo::Lds;
    m.action = Memo::Load;
    i.execute = name == "ds_bpermute_b32" ? bpermute : name == "ds_permute_b32" ? permute : swizzle;
    return true;
  }
  if (name == "s_memtime" || name == "s_memrealtime") {
    m.space = Memo::ScalarMemory;
    m.action = Memo::Load;
    m.registers = 2;
    i.execute = memtime;
    return true;
  }
  if (take(name, "s_load_") || take(name, "s_buffer_load_")) {
    m.space = Memo::ScalarMemory;
    m.action = Memo::Load;
    i.execute = execute_scalar_memory;
    return set_size(m, name, kLoads) && is_scalar(name, m.bytes);
  }
  if (take(name, "ds_")) {
    m.space = Memo::Lds;
    i.execute = execute_lds;
    const auto two = [&](std::string_view rest, Memo::Action action, bool st64) {
      m.action = action;
      m.parts = 2;
      if (rest != "b32" && rest != "b64") return false;
      m.bytes = rest == "b32" ? 4 : 8;
      m.registers = m.bytes / 4;
      m.stride = static_cast<uint16_t>(m.bytes * (st64 ? 64 : 1));
      return true;
    };
    if (take(name, "read2st64_") || take(name, "load_2addr_stride64_")) return two(name, Memo::Load, true);
    if (take(name, "read2_") || take(name, "load_2addr_")) return two(name, Memo::Load, false);
    if (take(name, "write2st64_") || take(name, "store_2addr_stride64_")) return two(name, Memo::Store, true);
    if (take(name, "write2_") || take(name, "store_2addr_")) return two(name, Memo::Store, false);
    if (take(name, "read_") || take(name, "load_")) {
      m.action = Memo::Load;
      return set_size(m, name, kLoads);
    }
    if (take(name, "write_") || take(name, "store_")) {
      m.action = Memo::Store;
      return set_size(m, name, kStores);
    }
    std::string plain(name);
    if (const auto rtn = plain.find("_rtn_"); rtn != std::string::npos) {
      m.returns = true;
      plain.erase(rtn, 4);
    }
    return set_atomic(m, plain);
  }
  if (take(name, "global_")) {
    m.space = Memo::Global;
  } else if (take(name, "flat_")) {
    m.space = Memo::Flat;
  } else if (take(name, "scratch_")) {
    m.space = Memo::Scratch;
  } else if (take(name, "buffer_")) {
    m.space = Memo::Buffer;
  } else {
    return false;
  }
  i.execute = execute_vector_memory;
  if (take(name, "load_")) {
    m.action = Memo::Load;
    m.in_order = m.space != Memo::Flat;
    return set_size(m, name, kLoads);
  }
  if (take(name, "store_")) {
    m.action = Memo::Store;
    return set_size(m, name, kStores);
  }
  if (!take(name, "atomic_") || !set_atomic(m, name)) return false;
  // With a result: a buffer atomic has glc, the others one operand more.
  const size_t plain = m.space == Memo::Flat ? 2 : 3;
  const auto th = i.modifiers.find("th");
  const bool marked = i.modifiers.count("glc") != 0 || i.modifiers.count("sc0") != 0 ||
                      (th != i.modifiers.end() && th->second.find("RETURN") != std::string::npos);
  m.returns = m.space == Memo::Buffer ? marked : i.operands.size() > plain;
  return true;
}

void list_memory(std::vector<std::string>& names) {
  for (const char* space : {"global_", "flat_", "scratch_", "buffer_"}) {
    for (const Size& s : kLoads) {
      if (s.bytes <= 16) names.push_back(std::string(space) + "load_" + s.name);
    }
    for (const Size& s : kStores) names.push_back(std::string(space) + "store_" + s.name);
    if (std::string_view(space) == "scratch_") continue;
    for (const AtomicName& a : kAtomics) names.push_back(std::string(space) + "atomic_" + a.name);
  }
  for (const Size& s : kLoads) {
    if (is_scalar(s.name, s.bytes)) names.push_back(std::string("s_load_") + s.name);
  }
  for (const char* name : {"ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32", "ds_read2_b32", "ds_read2_b64", "ds_read2st64_b32",
                           "ds_read2st64_b64", "ds_write2_b32", "ds_write2_b64", "ds_write2st64_b32", "ds_write2st64_b64", "s_memtime",
                           "s_waitcnt", "s_waitcnt_vscnt", "s_wait_loadcnt", "s_wait_storecnt", "s_wait_dscnt", "s_wait_kmcnt"}) {
    names.emplace_back(name);
  }
}

void wait_vector(Wave& w, unsigned loads, unsigned stores) {
  const auto wait = [&](bool Access::* counter, unsigned limit) {
    unsigned outstanding = 0;
    for (const Access& a : w.vector_queue) outstanding += a.*counter ? 1 : 0;
    for (size_t n = 0; n < w.vector_queue.size() && outstanding > limit; ++n) {
      perform(w, w.vector_queue[n]);
      Access& a = w.vector_queue[n];
      if (!(a.*counter)) continue;
      a.*counter = false;
      --outstanding;
      retire(w, a);
    }
  };
  wait(&Access::vm, loads);
  wait(&Access::vs, stores);
  drop_finished(w, w.vector_queue);
}

// Scalar loads return in any order, LDS operations in theirs: of a mixture, only a wait for 0 says something about each.
void wait_lgkm(Wave& w, unsigned limit, bool lds, bool scalar) {
  size_t flat = 0;
  for (const Access& a : w.vector_queue) flat += a.lgkm ? 1 : 0;
  const size_t others = (lds ? flat : 0) + (scalar ? w.scalar_queue.size() : 0);
  const size_t total = others + (lds ? w.lds_queue.size() : 0);
  if (lds && total > limit) {
    const size_t done = total - limit;
    for (size_t n = limit == 0 ? w.lds_queue.size() : done > others ? done - others : 0; n > 0; --n) {
      Access& a = w.lds_queue.front();
      perform(w, a);
      a.lgkm = false;
      w.lds_retired = a.sequence;
      retire(w, a);
      w.lds_queue.pop_front();
    }
  }
  if (limit != 0) return;
  if (scalar) {
    for (Access& a : w.scalar_queue) {
      perform(w, a);
      a.lgkm = false;
      retire(w, a);
    }
    w.scalar_queue.clear();
  }
  if (!lds) return;
  for (size_t n = 0, last = 0; n < w.vector_queue.size(); ++n) {
    if (!w.vector_queue[n].lgkm) continue;
    for (; last <= n; ++last) perform(w, w.vector_queue[last]);
    w.vector_queue[n].lgkm = false;
    retire(w, w.vector_queue[n]);
  }
  if (w.lds_queue.empty()) {  // flat operations are numbered, too
    bool flat_left = false;
    for (const Access& a : w.vector_queue) flat_left = flat_left || (a.instruction->memo.space == Memo::Flat && (a.vm || a.vs));
    if (!flat_left) w.lds_retired = w.lds_issued;
  }
  drop_finished(w, w.vector_queue);
}

void finish_all(Wave& w) {
  wait_vector(w, 0, 0);
  wait_lgkm(w, 0);
}

void Wave::random_progress() {
  if (!machine->options.late || (vector_queue.empty() && lds_queue.empty() && scalar_queue.empty())) return;
  const uint64_t r = machine->random.next();
  if ((r & 7) == 0 && !vector_queue.empty()) perform_first(*this, vector_queue, 1 + (r >> 8) % vector_queue.size());
  if ((r >> 3 & 7) == 0 && !lds_queue.empty()) perform_first(*this, lds_queue, 1 + (r >> 16) % lds_queue.size());
  if ((r >> 6 & 7) == 0 && !scalar_queue.empty()) perform(*this, scalar_queue[(r >> 24) % scalar_queue.size()]);
}

// MI200 ISA, S_WAITCNT; RDNA3 ISA, S_WAITCNT, S_WAITCNT_VSCNT and the others. A counter that is not named is not waited for.
void execute_waitcnt(Wave& w, const Instruction& i) {
  constexpr unsigned kAll = ~0u;
  unsigned vm = kAll, vs = kAll, lgkm = kAll;
  const std::string& text = i.modifiers.find("text")->second;
  if (i.mnemonic == "s_waitcnt") {
    // gfx90a: vmcnt in bits 3:0 and 15:14, expcnt in 6:4, lgkmcnt in 11:8. GFX11: vmcnt in 15:10, lgkmcnt in 9:4.
    const uint32_t bits = i.words[0] & 0xffff;
    vm = w.machine->gfx11 ? bits >> 10 : (bits & 15) | (bits >> 14 & 3) << 4;
    lgkm = w.machine->gfx11 ? bits >> 4 & 63 : bits >> 8 & 15;
    if (vm == 63) vm = kAll;
    if (lgkm == (w.machine->gfx11 ? 63u : 15u)) lgkm = kAll;
  } else if (starts(i.mnemonic, "s_wait_")) {  // GFX12: a counter per kind
    const unsigned count = i.words[0] & 0xffff;
    const std::string_view kind = std::string_view(i.mnemonic).substr(7);
    if (kind == "loadcnt") {
      vm = count;
    } else if (kind == "storecnt") {
      vs = count;
    } else if (kind == "loadcnt_dscnt" || kind == "storecnt_dscnt") {
      (kind == "loadcnt_dscnt" ? vm : vs) = count >> 8 & 63;
      wait_lgkm(w, count & 63, true, false);
    } else if (kind == "dscnt") {
      wait_lgkm(w, count, true, false);
    } else if (kind == "kmcnt") {
      wait_lgkm(w, count, false, true);
    } else if (kind != "expcnt" && kind != "samplecnt" && kind != "bvhcnt") {
      fault("the interpreter does not know this instruction");
    }
  } else {
    const auto comma = text.find(',');
    if (text.substr(0, comma) != "null") fault("a wait for a number in a register is not implemented");
    const unsigned count = i.words[0] & 0xffff;
    if (i.mnemonic == "s_waitcnt_vscnt") {
      vs = count;
    } else if (i.mnemonic == "s_waitcnt_vmcnt") {
      vm = count;
    } else if (i.mnemonic == "s_waitcnt_lgkmcnt") {
      lgkm = count;
    } else if (i.mnemonic != "s_waitcnt_expcnt") {
      fault("the interpreter does not know this instruction");
    }
  }
  if (vm != kAll || vs != kAll) wait_vector(w, vm, vs);
  if (lgkm != kAll) wait_lgkm(w, lgkm);
}

}  // namespace heddle::amdgpu
