// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of the interpreter: decoded instructions, waves, workgroups, memory operations on their way. For the files of this directory only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "tests/amdgpu/interpreter.h"

namespace heddle::amdgpu {

struct Wave;
struct Instruction;
struct Matrix;
struct MatrixPlan;

// What ends a dispatch. The text is completed by `Machine::where`.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How the bits of an operand are interpreted. Tells the width, and what neg, abs and constants mean.
enum class Type : uint8_t { None, F16, B16, I16, U16, F32, B32, I32, U32, F64, B64, I64, U64, PackedF16, PackedI16, PackedF32 };

constexpr unsigned registers_of(Type type) {
  switch (type) {
    case Type::None:
      return 0;
    case Type::F64:
    case Type::B64:
    case Type::I64:
    case Type::U64:
    case Type::PackedF32:
      return 2;
    default:
      return 1;
  }
}
constexpr bool is_half(Type type) {
  return type == Type::F16 || type == Type::B16 || type == Type::I16 || type == Type::U16;
}

// Numbers of the unified scalar file, as the encodings have them where these agree between generations.
enum : uint16_t { kVcc = 106, kM0 = 124, kExec = 126, kScalars = 128 };

enum class Form : uint8_t {
  None,
  Vector,
  Accumulator,
  Scalar,
  Constant,
  Scc,
  Vccz,
  Execz,
  SharedBase,
  SharedLimit,
  PrivateBase,
  PrivateLimit,
  Null,
  Off
};

struct Operand {
  Form form = Form::None;
  uint16_t index = 0;  // of the first register
  uint8_t count = 0;   // registers, as printed
  bool neg = false, abs = false, sext = false;
  enum Constant : uint8_t { Integer, Float, Literal } constant = Integer;
  int64_t integer = 0;
  double number = 0;
  std::string text;
};

struct Mode {
  bool flush_in32 = false, flush_out32 = false, flush_in64 = false, flush_out64 = false;  // 64: f64 and f16
  bool ieee = true, dx10_clamp = true;
  // Of one instruction:
  bool clamp = false;
  uint8_t omod = 0;          // 1: times 2, 2: times 4, 3: divided by 2
  uint64_t approximate = 0;  // 0: exact, else the seed of the error
};

// One operation of all lanes. Inactive lanes are computed, too, and not written.
using Loop = void (*)(const Mode& mode, unsigned lanes, uint64_t* out, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                      uint64_t mask_in, uint64_t* mask_out);
// The same for values of 32 bits, 32 or 64 lanes of them, when nothing is flushed, clamped or multiplied afterwards. Returns the mask.
using Quick = uint64_t (*)(const Mode& mode, unsigned lanes, uint32_t* __restrict out, const uint32_t* a, const uint32_t* b,
                           const uint32_t* c, uint64_t mask_in);

enum : uint32_t {
  kMaskOut = 1,       // a second result: carry or scale
  kMaskIn = 2,        // a last source: carry or selection
  kAccumulate = 4,    // the destination is the third source
  kCompare = 8,       // the result is a mask
  kWritesExec = 16,   // v_cmpx
  kImplicitVcc = 32,  // v_div_fmas
  kKeepsHigh = 64,    // GFX9: a 16-bit result keeps the upper half
  kWritesHigh = 128,  // a 16-bit result goes into the upper half
  kMix = 256,         // op_sel_hi selects between f16 and f32, per source
  kOwnSelect = 512,   // the loop gets whole registers; op_sel must have its default
};

struct Valu {
  const char* name;
  Type result;
  std::array<Type, 3> sources;
  Loop loop;
  uint32_t flags;
  Quick quick = nullptr;  // nullptr: there is none
};

using Execute = void (*)(Wave&, const Instruction&);

enum class Dpp : uint8_t {
  None,
  QuadPerm,
  RowShl,
  RowShr,
  RowRor,
  WaveShl,
  WaveRol,
  WaveShr,
  WaveRor,
  RowMirror,
  RowHalfMirror,
  RowBcast15,
  RowBcast31,
  RowShare,
  RowXmask,
  Eight
};
enum class Select : uint8_t { Byte0, Byte1, Byte2, Byte3, Word0, Word1, Dword };

struct Range {
  bool scalar;
  uint16_t first, count;
};

struct Memo {  // of a memory instruction, made once
  enum Space : uint8_t { Global, Flat, Scratch, Buffer, Lds, ScalarMemory } space;
  enum Action : uint8_t { Load, Store, Atomic } action;
  uint8_t bytes = 4;      // of one part
  uint8_t parts = 1;      // 2 for ds_read2
  uint16_t stride = 0;    // of the offsets of the two parts
  uint8_t registers = 1;  // of one part
  bool is_signed = false, d16 = false, high = false, returns = false, floating = false;
  uint8_t atomic = 0;
  bool in_order = false;  // a later load may overwrite the result of an earlier one
};

struct Instruction {
  uint64_t address = 0;  // in the code object
  uint32_t bytes = 0;
  uint32_t words[5] = {};
  std::string text, mnemonic;  // the mnemonic without suffix
  std::vector<Operand> operands;
  std::map<std::string, std::string, std::less<>> modifiers;
  Execute execute = nullptr;
  const Valu* valu = nullptr;
  Quick quick = nullptr;  // of `valu`, if the instruction has nothing that it does not do
  int destination = -1, mask_out = -1, mask_in = -1, source[3] = {-1, -1, -1};  // indexes of operands
  uint64_t constant[3] = {};                                                    // bits of constant sources
  std::array<uint64_t, 8> scalar_constant = {};
  uint8_t op_sel = 0, op_sel_hi = 0, neg_lo = 0, neg_hi = 0, omod = 0;
  bool op_sel_given = false;
  bool clamp = false;
  Dpp dpp = Dpp::None;
  uint8_t dpp_value = 0, row_mask = 15, bank_mask = 15;
  uint8_t dpp8[8] = {};
  bool bound_ctrl = false, fetch_inactive = false;
  bool sdwa = false;
  Select dst_sel = Select::Dword, src_sel[2] = {Select::Dword, Select::Dword};
  uint8_t dst_unused = 0;  // 0 pad, 1 sign-extend, 2 preserve
  int64_t offset = 0, offset0 = 0, offset1 = 0;
  bool offen = false, idxen = false;
  bool vector_alu = false;  // v_...
  uint8_t wait_states = 1;  // of s_nop: as many as it says
  Memo memo{};
  std::vector<Range> reads, writes;
  uint16_t vector_limit = 0, accumulator_limit = 0, scalar_limit = 0;  // one past the highest register
  std::unique_ptr<Instruction> second;                                 // of a VOPD pair
  std::shared_ptr<const MatrixPlan> matrix;                            // of a matrix instruction
  mutable uint64_t count = 0;                                          // executions in this dispatch
};

struct Instructions {
  virtual ~Instructions() = default;
  virtual const Instruction& at(uint64_t address) = 0;  // throws Fault
  virtual std::string text(uint64_t address, uint32_t& bytes) = 0;
};
std::unique_ptr<Instructions> make_instructions(const std::string& processor, unsigned wave_size, const std::vector<std::byte>& image);

struct Processor {
  const char* name;
  uint32_t machine;    // in e_flags
  bool gfx11 = false;  // GFX11 or later
  bool gfx12 = false;
  bool flat_scratch = false;  // private memory needs no scalar registers
  bool cdna3 = false;
};
const Processor* find_processor(std::string_view name);

// A memory operation between its issue and the wait that covers it.
struct Access {
  const Instruction* instruction;
  uint64_t lanes = 0;
  uint64_t sequence = 0;
  std::array<std::array<std::byte*, 64>, 2> host;
  std::vector<uint32_t> data;  // stores and atomics: the dwords of each lane; may be larger
  unsigned data_stride = 0;
  bool vm = false, vs = false, lgkm = false;  // counters that still count it
  bool performed = false;
  uint16_t vector_destination = 0;
  uint16_t scalar_destination = 0;
};

// Operations of one kind, in the order of their issue. Their memory is used again.
class AccessQueue {
 public:
  class Iterator {
   public:
    Iterator(const AccessQueue& queue, size_t n) : queue_(queue), n_(n) {}
    Access& operator*() const { return queue_[n_]; }
    Iterator& operator++() { return ++n_, *this; }
    bool operator!=(const Iterator& other) const { return n_ != other.n_; }

   private:
    const AccessQueue& queue_;
    size_t n_;
  };
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  Access& operator[](size_t n) const { return *slots_[(first_ + n) & (slots_.size() - 1)]; }
  Access& front() const { return (*this)[0]; }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }
  // The next one, with nothing but its instruction. It counts after `push`.
  Access& next(const Instruction& instruction) {
    if (size_ == slots_.size()) grow();
    Access& a = (*this)[size_];
    a.instruction = &instruction;
    a.lanes = a.sequence = 0;
    a.vm = a.vs = a.lgkm = a.performed = false;
    return a;
  }
  void push() { ++size_; }
  void pop_front() { first_ = (first_ + 1) & (slots_.size() - 1), --size_; }
  void clear() { size_ = 0; }
  // The memory of another queue, which is no longer used.
  void take(AccessQueue& other) {
    slots_ = std::move(other.slots_);
    first_ = size_ = 0;
  }

 private:
  void grow() {  // to a power of two
    std::vector<std::unique_ptr<Access>> more(std::max<size_t>(8, 2 * slots_.size()));
    for (size_t n = 0; n < slots_.size(); ++n) more[n] = std::move(slots_[(first_ + n) & (slots_.size() - 1)]);
    for (size_t n = slots_.size(); n < more.size(); ++n) more[n] = std::make_unique<Access>();
    slots_ = std::move(more);
    first_ = 0;
  }
  std::vector<std::unique_ptr<Access>> slots_;
  size_t first_ = 0, size_ = 0;
};

struct MfmaResult {
  const Matrix* matrix;
  Range registers;
  uint64_t issued;  // wait states of the wave after it
};

struct Machine;
struct Group;

struct Wave {
  Machine* machine;
  Group* group;
  unsigned index = 0, size = 64;
  uint64_t pc = 0;
  uint64_t launched = 0;
  bool scc = false;
  Mode mode;
  uint32_t mode_bits = 0;
  enum State : uint8_t { Running, Barrier, Ended } state = Running;
  uint64_t barrier_address = 0;
  const Instruction* current = nullptr;
  std::array<uint32_t, 256> scalars;
  std::vector<uint32_t> vectors;  // [register][64]
  std::vector<uint8_t> vector_pending;
  std::array<uint8_t, 256> scalar_pending{};
  AccessQueue vector_queue, lds_queue, scalar_queue;
  uint64_t lds_issued = 0, lds_retired = 0, lds_visible = 0, lds_signaled = 0;
  bool signaled = false;           // GFX12: between s_barrier_signal and s_barrier_wait
  std::vector<std::byte> scratch;  // [lane][private bytes]
  uint64_t scratch_base = 0;       // of MUBUF and FLAT_SCRATCH
  std::array<uint32_t, 3> workgroup{};
  Range wmma_result{};                   // of the last vector instruction, if that was WMMA
  uint64_t wait_states = 0;              // instructions, s_nop counted as often as it says
  std::vector<MfmaResult> mfma_results;  // of the last few instructions

  uint64_t mask() const { return size == 64 ? ~uint64_t{0} : 0xffffffffu; }
  uint64_t scalar64(unsigned n) const { return scalars[n] | uint64_t{scalars[n + 1]} << 32; }
  void set_scalar64(unsigned n, uint64_t value) {
    scalars[n] = static_cast<uint32_t>(value);
    scalars[n + 1] = static_cast<uint32_t>(value >> 32);
  }
  uint64_t exec() const { return size == 64 ? scalar64(kExec) : scalars[kExec]; }
  void set_exec(uint64_t value) { write_mask(kExec, value); }
  uint64_t read_mask(unsigned n) const { return size == 64 ? scalar64(n) : scalars[n]; }
  void write_mask(unsigned n, uint64_t value) {
    if (size == 64) {
      set_scalar64(n, value);
    } else {
      scalars[n] = static_cast<uint32_t>(value);
    }
  }
  uint32_t& vector(unsigned n, unsigned lane) { return vectors[n * 64 + lane]; }
  unsigned vector_index(const Operand& operand) const;
  void set_mode(uint32_t bits);
  void random_progress();
};

// Who has accessed a word of LDS, or one byte of it.
struct LdsUse {
  static constexpr uint64_t kNobody = 0x7fff, kAtomic = 0x8000, kSplit = 0x10000;
  uint64_t written =
      kNobody;        // the wave that wrote last; kAtomic; of a word, kSplit: its bytes have records of their own; << 17: the sequence
  uint64_t read = 0;  // a bit for each wave that has read since a barrier; << 32: the number of the barrier, as `Group::epoch`
  unsigned writer() const { return written & 0x7fff; }
  uint64_t sequence() const { return written >> 17; }
  bool split() const { return (written & kSplit) != 0; }
};

struct Group {
  std::array<uint32_t, 3> id{};
  std::vector<std::unique_ptr<Wave>> waves;
  std::vector<std::byte> lds;
  std::vector<LdsUse> lds_words, lds_bytes;
  uint32_t epoch = 1;
};

struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }
};

struct Machine {
  CodeObject* code;
  Kernel kernel;
  Dispatch dispatch;
  Options options;
  uint64_t load_address = 0;
  Memory memory;
  const Memory::Block* last_block = nullptr;  // of `memory`, that was accessed last
  Random random{0};
  Statistics statistics;
  std::vector<const Instruction*> executed;
  bool gfx11 = false, gfx12 = false, cdna3 = false;
  uint64_t shared_base = uint64_t{0x10000} << 32, private_base = uint64_t{0x20000} << 32;
  std::string where(const Wave& wave) const;
};

// Tables, one per file. nullptr: not of this file.
const Valu* find_float_valu(std::string_view name);
const Valu* find_integer_valu(std::string_view name);
Execute find_lane_operation(std::string_view name);
Execute find_scalar(std::string_view name);
bool bind_scalar_float(Instruction& instruction);                                            // s_add_f32 and the like, if it is one
bool find_memory(Instruction& instruction);                                                  // sets `memo` and `execute`
bool bind_matrix(Instruction& instruction, const Processor& processor, unsigned wave_size);  // sets `matrix` and `execute`
void list_float(std::vector<std::string>&);
void list_integer(std::vector<std::string>&);
void list_lane(std::vector<std::string>&);
void list_scalar(std::vector<std::string>&);
void list_memory(std::vector<std::string>&);
void list_matrix(std::vector<std::string>&);

void step(Wave&, const Instruction&);                // checks the registers, executes
void check_wmma_hazard(Wave&, const Instruction&);   // before each vector ALU instruction
void check_mfma_hazards(Wave&, const Instruction&);  // before MFMA, and while there are results of it

void execute_valu(Wave&, const Instruction&);
void execute_pair(Wave&, const Instruction&);
void bind_valu(Instruction&);

// Memory counters.
void wait_vector(Wave&, unsigned loads, unsigned stores);
void wait_lgkm(Wave&, unsigned count, bool lds = true, bool scalar = true);
void finish_all(Wave&);
void execute_waitcnt(Wave&, const Instruction&);

// Scalar operands.
uint64_t read_scalar(Wave&, const Operand&, Type);
void write_scalar(Wave&, const Operand&, uint64_t value, unsigned registers);
uint64_t constant_bits(const Operand&, Type);
unsigned first_lane(uint64_t exec);
[[noreturn]] void fault(std::string text);
std::string hex(uint64_t value);
// The name without suffixes of encodings. GFX11 and GFX12 name things differently: the GFX9 name of the same instruction.
std::string canonical(std::string_view mnemonic);

}  // namespace heddle::amdgpu
