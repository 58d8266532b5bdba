// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time at which memory operations happen, and the counters that waits look at. Sources: AMD Instinct MI200 ISA reference guide, section 4.4 (Data
// dependency resolution); RDNA3 and RDNA4 ISA reference guides, the same section; LLVM, User Guide for AMDGPU Backend, section "Memory Model".
//
// An operation happens at a time that the seed chooses, between its issue and the wait that covers it; those of one queue of a wave in their order. A
// register that an operation loads must not be touched before that wait.
#include <algorithm>

#include "tests/amdgpu/memory.h"
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

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

// Loads of whole dwords, which have an address in every lane.
void load_dwords(Wave& w, const Access& a) {
  const Memo& m = a.instruction->memo;
  for (unsigned part = 0; part < m.parts; ++part) {
    uint32_t* to = &w.vector(a.vector_destination + part * m.registers, 0);
    if (m.registers == 4 && a.lanes == w.mask()) {  // four lanes at a time
      for (unsigned lane = 0; lane < w.size; lane += 4) {
        __m128 rows[4];
        for (unsigned n = 0; n < 4; ++n) rows[n] = _mm_loadu_ps(reinterpret_cast<const float*>(a.host[part][lane + n]));
        _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
        for (unsigned n = 0; n < 4; ++n) _mm_storeu_ps(reinterpret_cast<float*>(to + n * 64 + lane), rows[n]);
      }
      continue;
    }
    for (uint64_t left = a.lanes; left != 0; left &= left - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(left));
      const std::byte* host = a.host[part][lane];
      for (unsigned n = 0; n < m.registers; ++n) std::memcpy(&to[n * 64 + lane], host + 4 * n, 4);
    }
  }
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
  if (m.action == Memo::Load && m.bytes >= 4 && m.space != Memo::Buffer) return load_dwords(w, a);
  for (unsigned part = 0; part < m.parts; ++part) {
    for (unsigned lane = 0; lane < w.size; ++lane) {
      if ((a.lanes >> lane & 1) == 0) continue;
      std::byte* host = a.host[part][lane];
      uint32_t* data = m.action == Memo::Load ? nullptr : &a.data[lane * a.data_stride];
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

// Registers that an outstanding operation loads. Plain vector loads return in order, so that a later one may overwrite.
constexpr uint8_t kInOrder = 1, kOther = 16;
uint8_t pending_unit(const Access& a) {
  return a.instruction->memo.space == Memo::Lds || a.instruction->memo.space == Memo::Flat ? kOther : kInOrder;
}

void perform_first(Wave& w, AccessQueue& queue, size_t count) {
  for (size_t n = 0; n < count; ++n) perform(w, queue[n]);
}

// Drops entries that no counter counts any more.
void drop_finished(Wave& w, AccessQueue& queue) {
  while (!queue.empty() && !queue.front().vm && !queue.front().vs && !queue.front().lgkm) {
    perform(w, queue.front());
    queue.pop_front();
  }
}

void retire(Wave& w, Access& a) {
  if (!a.vm && !a.vs && !a.lgkm) mark(w, a, -1);
}

}  // namespace

unsigned loaded_registers(const Memo& m) {
  if (m.action == Memo::Store || (m.action == Memo::Atomic && !m.returns)) return 0;
  return m.registers * m.parts;
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

void issue(Wave& w, AccessQueue& queue) {
  queue.push();
  mark(w, queue[queue.size() - 1], 1);
  if (!w.machine->options.late) perform_first(w, queue, queue.size());
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
