// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions that would see a result of a matrix instruction too early: CDNA does not hold them back, and RDNA not always. Sources: LLVM,
// GCNHazardRecognizer.cpp, checkMAIHazards90A, checkMAIVALUHazards and fixWMMAHazards; cycles of each instruction: AMD's matrix instruction calculator. Not
// checked: registers that an MFMA still reads, and what vector instructions write just before it.
#include <algorithm>

#include "tests/amdgpu/matrix.h"

namespace heddle::amdgpu {
namespace {

// Of 4 cycles each.
unsigned passes_of(const Matrix& m, bool cdna3) {
  if (m.d == Element::F64) return m.size == 16 ? 8 : 4;
  const unsigned passes = m.size / 2;
  return cdna3 && m.blocks == 1 && m.a != Element::F32 ? passes / 2 : passes;
}

// What touches a result. C: as C of another MFMA.
enum class Use : uint8_t { Vector, Input, PartOfC, SameC };

// The wait states between an MFMA and something that touches its result.
unsigned needed_states(const Matrix& m, bool cdna3, Use use, const Matrix* user) {
  const unsigned passes = passes_of(m, cdna3);
  const bool f64 = m.d == Element::F64;
  const bool wide = user != nullptr && user->d == Element::F64;
  // The matrix pipeline proper: on CDNA3, all but f32 and f64.
  const auto in_pipeline = [&](const Matrix& x) { return x.d != Element::F64 && (!cdna3 || x.a != Element::F32); };
  switch (use) {
    case Use::SameC:  // forwarded
      if (f64 && m.size == 4 && wide && user->size == 4) return 4;
      return cdna3 && passes == 2 ? 2 : 0;
    case Use::PartOfC:
      if (f64) return !wide || in_pipeline(*user) ? 0 : m.size == 4 ? 4 : 9;
      if (cdna3) return in_pipeline(*user) && !in_pipeline(m) ? 0 : in_pipeline(m) ? passes + 1 : passes;
      return passes + (wide ? 1 : 0);
    case Use::Vector:
    case Use::Input:
      if (f64) return m.size == 4 ? 6 : 11;
      if (cdna3) return in_pipeline(m) ? passes + 3 : passes + 2;
      return passes + 3;
  }
  return 0;
}

bool overlaps(const Range& x, const Range& y) {
  return x.first < y.first + y.count && y.first < x.first + x.count;
}
Range registers_of(const Wave& w, const Operand& o) {
  return {false, static_cast<uint16_t>(w.vector_index(o)), o.count};
}

void check(const Wave& w, const MfmaResult& result, const Operand& o, Use use, const Matrix* user) {
  const unsigned needed = needed_states(*result.matrix, w.machine->cdna3, use, user);
  const uint64_t passed = w.wait_states - result.issued;
  if (passed >= needed) return;
  fault("'" + o.text + "' is the result of " + result.matrix->name + ", " + std::to_string(passed) + " wait states before; it takes " +
        std::to_string(needed) + ", for instance s_nop " + std::to_string(needed - passed - 1) + " more");
}

}  // namespace

void check_mfma_hazards(Wave& w, const Instruction& i) {
  constexpr uint64_t kLongest = 19;
  std::erase_if(w.mfma_results, [&](const MfmaResult& r) { return w.wait_states - r.issued >= kLongest; });
  const Matrix* user = i.matrix == nullptr ? nullptr : i.matrix->matrix;
  for (const MfmaResult& result : w.mfma_results) {
    for (size_t n = 0; n < i.operands.size(); ++n) {
      const Operand& o = i.operands[n];
      if (o.form != Form::Vector && o.form != Form::Accumulator) continue;
      const Range r = registers_of(w, o);
      if (!overlaps(r, result.registers)) continue;
      if (user == nullptr) {
        check(w, result, o, Use::Vector, user);
      } else if (n == 1 || n == 2) {
        check(w, result, o, Use::Input, user);
      } else if (n == 3) {
        const bool same = r.first == result.registers.first && r.count == result.registers.count;
        check(w, result, o, same ? Use::SameC : Use::PartOfC, user);
      }
    }
  }
  if (user != nullptr && !user->wmma) w.mfma_results.push_back({user, registers_of(w, i.operands[0]), w.wait_states + i.wait_states});
}

// A WMMA whose A or B is the result of the WMMA before needs a vector instruction in between, v_nop if there is no other.
void check_wmma_hazard(Wave& w, const Instruction& i) {
  const bool wmma = i.matrix != nullptr && i.matrix->matrix->wmma;
  if (wmma && w.wmma_result.count != 0) {
    for (size_t n = 1; n < 3; ++n) {
      if (overlaps(registers_of(w, i.operands[n]), w.wmma_result))
        fault("'" + i.operands[n].text +
              "' is the result of the WMMA before; there has to be another vector instruction (v_nop) in between");
    }
  }
  w.wmma_result = wmma ? registers_of(w, i.operands[0]) : Range{};
}

}  // namespace heddle::amdgpu
