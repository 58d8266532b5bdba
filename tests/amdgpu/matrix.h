// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions: which element of a matrix lies in which register and lane, and the sums of products. For the files of this directory only.
#pragma once

#include "tests/amdgpu/machine.h"

namespace heddle::amdgpu {

// The type of the elements of a matrix. Fnuz: the formats of CDNA3, whose only special value is a NaN at 0x80; Ocp: those of RDNA4.
enum class Element : uint8_t { F64, F32, Xf32, F16, Bf16, Fp8Fnuz, Bf8Fnuz, Fp8Ocp, Bf8Ocp, I32, I8, Iu8, Iu4 };

inline unsigned bits_of(Element e) {
  switch (e) {
    case Element::F64:
      return 64;
    case Element::F32:
    case Element::Xf32:
    case Element::I32:
      return 32;
    case Element::F16:
    case Element::Bf16:
      return 16;
    case Element::Iu4:
      return 4;
    default:
      return 8;
  }
}

// D = A * B + C for `blocks` independent matrices: A is size x k, B is k x size, C and D are size x size.
struct Matrix {
  std::string name;
  unsigned size, k, blocks;
  Element a, b, d;
  bool wmma = false;
  bool broadcasts_a() const { return !wmma && blocks > 1 && a != Element::F64; }  // has cbsz and abid
  bool permutes_b() const { return !wmma && a != Element::F64; }                  // has blgp
};
const Matrix* find_matrix(std::string_view mnemonic);

// Where one element lies: bits [bits * element, bits * element + bits) of the registers of a lane, the first register lowest.
struct Place {
  uint8_t lane;
  uint8_t element;
};

// What one instruction multiplies, with its modifiers applied.
struct MatrixPlan {
  const Matrix* matrix = nullptr;
  std::vector<Place> a, b, d;  // [block][row][k], [block][k][column], [block][row][column]; C lies like D
  unsigned registers_ab = 0, registers_d = 0;
  bool replicated = false;              // GFX11: lanes from 16 on have to repeat the first 16
  bool flushes = false;                 // denormals of A, B, C, D count as 0
  bool rows_b = false, rows_d = false;  // each row of B, of D lies in one register, in lanes that follow each other
  bool constant_c = false;
  uint64_t c_bits = 0;  // of each element of a constant C
  uint64_t name_hash = 0;
  enum Arithmetic : uint8_t { Chain, PairsOfCdna2, FusedOfCdna3 } arithmetic = Chain;  // measured on the hardware, or the guess for it
  unsigned group = 2;                                                                  // products that are added before they are added to C
  bool negate_a[2] = {}, negate_b[2] = {}, negate_c = false, absolute_c = false;       // [in the upper half of a register]
  bool signed_a = true, signed_b = true, clamp = false;
};

// The layout of a processor's instruction, without modifiers but cbsz, abid and blgp.
struct Broadcast {
  unsigned cbsz = 0, abid = 0, blgp = 0;
};
void place_matrix(MatrixPlan& plan, const Processor& processor, unsigned wave_size, const Broadcast& broadcast, bool upper_half);

// How one dispatch adds. AMD documents neither the order nor the precision of the sums.
struct Summation {
  enum Order : uint8_t { Measured, Forward, Backward, Tree, Wide } order = Measured;
  bool flush = false;
};
Summation choose_summation(const MatrixPlan& plan, const Options& options);

// The value of an element; `sum` decides what Xf32 loses.
float decode_element(Element type, uint32_t bits, const Summation& sum);
// Makes a row of C one of D: adds the products of a row of A, [k], and all of B, [k][size], to each element, rounded to the type of D. All values are those
// of `decode_element`.
void add_products(const MatrixPlan& plan, const Summation& sum, const float* a, const float* b, float* c);
void add_products(const MatrixPlan& plan, const Summation& sum, const double* a, const double* b, double* c);

}  // namespace heddle::amdgpu
