// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector instructions that look at other lanes or at single lanes: readlane, writelane, mbcnt, permlane, swap.
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

uint32_t scalar_source(Wave& w, const Instruction& i, size_t n) {
  return static_cast<uint32_t>(read_scalar(w, i.operands[n], Type::B32));
}

uint32_t lane_value(Wave& w, const Instruction& i, size_t n, unsigned lane) {
  const Operand& o = i.operands[n];
  if (o.form == Form::Vector || o.form == Form::Accumulator) return w.vector(w.vector_index(o), lane);
  return scalar_source(w, i, n);
}

void readlane(Wave& w, const Instruction& i) {
  const unsigned lane = scalar_source(w, i, 2) & (w.size - 1);
  write_scalar(w, i.operands[0], lane_value(w, i, 1, lane), 1);
}

void readfirstlane(Wave& w, const Instruction& i) {
  write_scalar(w, i.operands[0], lane_value(w, i, 1, first_lane(w.exec())), 1);
}

void writelane(Wave& w, const Instruction& i) {
  const unsigned lane = scalar_source(w, i, 2) & (w.size - 1);
  w.vector(w.vector_index(i.operands[0]), lane) = scalar_source(w, i, 1);
}

template <bool kHigh>
void mbcnt(Wave& w, const Instruction& i) {
  std::array<uint32_t, 64> out{};
  for (unsigned lane = 0; lane < w.size; ++lane) {
    const uint64_t below = (uint64_t{1} << lane) - 1;
    const auto mask = static_cast<uint32_t>(kHigh ? below >> 32 : below);
    out[lane] = static_cast<uint32_t>(std::popcount(lane_value(w, i, 1, lane) & mask)) + lane_value(w, i, 2, lane);
  }
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((w.exec() >> lane & 1) != 0) w.vector(w.vector_index(i.operands[0]), lane) = out[lane];
  }
}

void swap(Wave& w, const Instruction& i) {
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((w.exec() >> lane & 1) != 0)
      std::swap(w.vector(w.vector_index(i.operands[0]), lane), w.vector(w.vector_index(i.operands[1]), lane));
  }
}

// RDNA3 ISA, V_PERMLANE16_B32: each lane of a row of 16 reads any lane of its row; X: of the other row. op_sel[0] is FI, op_sel[1] is BOUND_CTRL.
template <bool kOther>
void permlane16(Wave& w, const Instruction& i) {
  const uint64_t select = scalar_source(w, i, 2) | uint64_t{scalar_source(w, i, 3)} << 32;
  const bool fetch_inactive = (i.op_sel & 1) != 0, bound_ctrl = (i.op_sel & 2) != 0;
  std::array<uint32_t, 64> from{};
  for (unsigned lane = 0; lane < w.size; ++lane) from[lane] = lane_value(w, i, 1, lane);
  for (unsigned lane = 0; lane < w.size; ++lane) {
    if ((w.exec() >> lane & 1) == 0) continue;
    const unsigned row = (lane & ~15u) ^ (kOther ? 16 : 0), source = row | (select >> 4 * (lane & 15) & 15);
    if (fetch_inactive || (w.exec() >> source & 1) != 0) {
      w.vector(w.vector_index(i.operands[0]), lane) = from[source];
    } else if (bound_ctrl) {
      w.vector(w.vector_index(i.operands[0]), lane) = 0;
    }
  }
}

void permlane64(Wave& w, const Instruction& i) {
  if (w.size == 32) return;
  std::array<uint32_t, 64> from{};
  for (unsigned lane = 0; lane < 64; ++lane) from[lane] = lane_value(w, i, 1, lane);
  for (unsigned lane = 0; lane < 64; ++lane) {
    if ((w.exec() >> lane & 1) != 0) w.vector(w.vector_index(i.operands[0]), lane) = from[lane ^ 32];
  }
}

void nothing(Wave&, const Instruction&) {}

const std::pair<const char*, Execute> kTable[] = {
    {"v_readlane_b32", readlane},
    {"v_readfirstlane_b32", readfirstlane},
    {"v_writelane_b32", writelane},
    {"v_mbcnt_lo_u32_b32", mbcnt<false>},
    {"v_mbcnt_hi_u32_b32", mbcnt<true>},
    {"v_swap_b32", swap},
    {"v_permlane16_b32", permlane16<false>},
    {"v_permlanex16_b32", permlane16<true>},
    {"v_permlane64_b32", permlane64},
    {"v_nop", nothing},
};

}  // namespace

Execute find_lane_operation(std::string_view name) {
  for (const auto& [mnemonic, execute] : kTable) {
    if (name == mnemonic) return execute;
  }
  return nullptr;
}

void list_lane(std::vector<std::string>& names) {
  for (const auto& [mnemonic, execute] : kTable) names.emplace_back(mnemonic);
}

}  // namespace heddle::amdgpu
