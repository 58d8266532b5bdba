// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory instructions: addresses, bounds, and who uses which bytes of LDS. Sources: AMD Instinct MI200 ISA reference guide, chapters 7 to 10 and 12.10 to
// 12.16; RDNA3 ISA reference guide, chapters 8 to 12.
#include <algorithm>

#include "tests/amdgpu/memory.h"

namespace heddle::amdgpu {
namespace {

std::string lane_text(const Wave& w, unsigned lane) {
  return "lane " + std::to_string(lane) + " of wave " + std::to_string(w.index);
}

std::byte* global(Wave& w, unsigned lane, uint64_t address, unsigned bytes, bool writes, bool atomic) {
  const Memory::Block* block = w.machine->last_block;
  if (block == nullptr || address - block->address >= block->bytes) block = w.machine->last_block = w.machine->memory.find(address);
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
  const auto race = [&](const std::string& text) {
    fault(lane_text(w, lane) + (writes ? " writes" : " reads") + " byte " + std::to_string(address) + " of LDS, " + text + " [" +
          i.mnemonic + "]");
  };
  const unsigned writer = u.writer();
  if (writer != LdsUse::kNobody && writer != w.index && !(atomic && (u.written & LdsUse::kAtomic) != 0) &&
      u.sequence() > g.waves[writer]->lds_visible) {
    race("which wave " + std::to_string(writer) +
         " writes without a barrier in between, or with a barrier that its write is not waited for");
  }
  const uint64_t epoch = uint64_t{g.epoch} << 32, self = uint64_t{1} << w.index;
  const uint64_t readers = (u.read ^ epoch) >> 32 == 0 ? u.read & 0xffffffff : 0;
  if (writes) {
    if ((readers & ~self) != 0) {
      race("which wave " + std::to_string(std::countr_zero(readers & ~self)) + " reads without a barrier in between");
    }
    u.written = w.index | (atomic ? LdsUse::kAtomic : 0) | (u.written & LdsUse::kSplit) | sequence << 17;
  } else if (!atomic) {
    u.read = epoch | readers | self;
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
    if (whole && !u.split()) {
      use(u, word * 4);
      continue;
    }
    if (!u.split()) {
      if (g.lds_bytes.empty()) g.lds_bytes.resize(g.lds_words.size() * 4);
      for (uint64_t n = 0; n < 4; ++n) g.lds_bytes[word * 4 + n] = u;
      u.written |= LdsUse::kSplit;
    }
    for (uint64_t n = std::max(word * 4, address); n < std::min(word * 4 + 4, address + bytes); ++n) use(g.lds_bytes[n], n);
  }
  return &g.lds[address];
}

// Loads and stores of whole words, of which most are right: false if `in_lds` has to look at one. What this has noted, that notes again.
template <bool kWrites>
bool quick_lds(Wave& w, const Access& a, uint64_t address, unsigned words) {
  Group& g = *w.group;
  if ((address & 3) != 0 || address + uint64_t{words} * 4 > g.lds.size()) return false;
  if (!w.machine->options.check_races) return true;
  const uint64_t epoch = uint64_t{g.epoch} << 32, self = uint64_t{1} << w.index;
  for (LdsUse *u = &g.lds_words[address / 4], *end = u + words; u != end; ++u) {
    const uint64_t written = u->written, read = u->read;
    if ((written & LdsUse::kSplit) != 0) return false;
    const bool is_now = (read ^ epoch) >> 32 == 0;
    // Between two barriers nobody writes what this wave has read.
    if (!kWrites && is_now && (read & self) != 0) continue;
    const auto writer = static_cast<unsigned>(written & 0x7fff);
    if (writer != LdsUse::kNobody && writer != w.index && written >> 17 > g.waves[writer]->lds_visible) return false;
    if (kWrites) {
      if (is_now && (read & 0xffffffff & ~self) != 0) return false;
      u->written = w.index | a.sequence << 17;
    } else {
      u->read = (is_now ? read : epoch) | self;
    }
  }
  return true;
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

// Exchanges through the LDS hardware without LDS memory: computed at once, delivered late.
void deliver(Wave& w, const Instruction& i, const std::array<uint32_t, 64>& values) {
  const unsigned destination = w.vector_index(operand(i, 0));
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((w.exec() >> lane & 1) != 0) w.vector(destination, lane) = values[lane];
  }
  Access& a = w.lds_queue.next(i);
  a.performed = true;
  a.lgkm = true;
  a.sequence = ++w.lds_issued;
  a.vector_destination = static_cast<uint16_t>(destination);
  mark(w, a, 1);
  w.lds_queue.push();
}

}  // namespace

void execute_vector_memory(Wave& w, const Instruction& i) {
  const Memo& m = i.memo;
  Access& a = w.vector_queue.next(i);
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
    a.data.resize(std::max<size_t>(a.data.size(), 64 * data_registers));
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
  issue(w, w.vector_queue);
}

void execute_lds(Wave& w, const Instruction& i) {
  const Memo& m = i.memo;
  Access& a = w.lds_queue.next(i);
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
    a.data.resize(std::max<size_t>(a.data.size(), 64 * a.data_stride));
    for (unsigned n = 0; n < sources; ++n) {
      const Operand& data = operand(i, next++);
      if (data.form != Form::Vector && data.form != Form::Accumulator) fault("the data are no vector registers");
      capture(w, a, data, n * m.registers, m.registers);
    }
  }
  if (next != i.operands.size()) fault("the number of operands is not the expected one");
  const uint32_t* starts = &w.vector(w.vector_index(address), 0);
  const bool quick = m.bytes >= 4 && m.action != Memo::Atomic;
  std::array<uint64_t, 64> seen;  // addresses
  seen.fill(~uint64_t{0});
  for (uint64_t left = a.lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    for (unsigned part = 0; part < m.parts; ++part) {
      const auto offset = static_cast<uint64_t>(m.parts == 2 ? (part == 0 ? i.offset0 : i.offset1) * m.stride : i.offset);
      const uint64_t at = (starts[lane] + offset) & 0xffffffff;
      // Lanes of a wave often load the same words, which one of them has checked.
      uint64_t& checked = seen[at >> 4 & 63];
      if (quick && loads && checked == at) {
        a.host[part][lane] = &w.group->lds[at];
        continue;
      }
      checked = at;
      if (quick && (loads ? quick_lds<false>(w, a, at, m.bytes / 4) : quick_lds<true>(w, a, at, m.bytes / 4))) {
        a.host[part][lane] = &w.group->lds[at];
      } else {
        a.host[part][lane] = in_lds(w, i, lane, at, m.bytes, !loads, m.action == Memo::Atomic, a.sequence);
      }
    }
  }
  set_counters(w, a);
  issue(w, w.lds_queue);
}

void execute_scalar_memory(Wave& w, const Instruction& i) {
  const Memo& m = i.memo;
  Access& a = w.scalar_queue.next(i);
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
  issue(w, w.scalar_queue);
}

void execute_bpermute(Wave& w, const Instruction& i) {
  const unsigned address = w.vector_index(operand(i, 1)), data = w.vector_index(operand(i, 2));
  std::array<uint32_t, 64> out{};
  for (unsigned lane = 0; lane < w.size; ++lane) {
    const unsigned from = (w.vector(address, lane) + static_cast<uint32_t>(i.offset)) / 4 % w.size;
    out[lane] = (w.exec() >> from & 1) != 0 ? w.vector(data, from) : 0;
  }
  deliver(w, i, out);
}

void execute_permute(Wave& w, const Instruction& i) {
  const unsigned address = w.vector_index(operand(i, 1)), data = w.vector_index(operand(i, 2));
  std::array<uint32_t, 64> out{};
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((w.exec() >> lane & 1) == 0) continue;
    out[(w.vector(address, lane) + static_cast<uint32_t>(i.offset)) / 4 % w.size] = w.vector(data, lane);
  }
  deliver(w, i, out);
}

void execute_swizzle(Wave& w, const Instruction& i) {
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

void execute_memtime(Wave& w, const Instruction& i) {
  w.set_scalar64(operand(i, 0).index, w.machine->statistics.instructions);
  Access& a = w.scalar_queue.next(i);
  a.performed = true;
  a.lgkm = true;
  a.scalar_destination = operand(i, 0).index;
  mark(w, a, 1);
  w.scalar_queue.push();
}

}  // namespace heddle::amdgpu
