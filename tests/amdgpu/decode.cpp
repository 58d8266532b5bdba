// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decodes instructions with LLVM's disassembler, each address once. What is interpreted is the assembly text that LLVM prints: its syntax is documented
// (AMDGPU Operand Syntax, AMDGPU Modifier Syntax), the layout of an MCInst is not. Everything in the text has to be understood; otherwise the
// instruction is a fault when it is executed.
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>

#include <charconv>

#include "tests/amdgpu/machine.h"

namespace heddle::amdgpu {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}
std::vector<std::string> split(std::string_view s, char at) {  // outside of brackets
  std::vector<std::string> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (s[i] == at && depth == 0)) {
      const auto part = trimmed(s.substr(start, i - start));
      if (!part.empty()) parts.emplace_back(part);
      start = i + 1;
    } else if (s[i] == '[' || s[i] == '(') {
      ++depth;
    } else if (s[i] == ']' || s[i] == ')') {
      --depth;
    }
  }
  return parts;
}
bool starts(std::string_view s, std::string_view prefix) {
  return s.substr(0, prefix.size()) == prefix;
}

bool parse_integer(std::string_view s, int64_t& value) {
  bool negative = false;
  if (starts(s, "-")) {
    negative = true;
    s.remove_prefix(1);
  }
  int base = 10;
  if (starts(s, "0x")) {
    base = 16;
    s.remove_prefix(2);
  }
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), magnitude, base);
  if (error != std::errc() || end != s.data() + s.size() || s.empty()) return false;
  value = static_cast<int64_t>(negative ? -magnitude : magnitude);
  return true;
}
int64_t integer(std::string_view s) {
  int64_t value = 0;
  if (!parse_integer(s, value)) fault("'" + std::string(s) + "' is no number");
  return value;
}

struct Special {
  const char* name;
  Form form;
  uint16_t index;
  uint8_t count;
};
const Special kSpecial[] = {
    {"vcc", Form::Scalar, kVcc, 2},
    {"vcc_lo", Form::Scalar, kVcc, 1},
    {"vcc_hi", Form::Scalar, kVcc + 1, 1},
    {"exec", Form::Scalar, kExec, 2},
    {"exec_lo", Form::Scalar, kExec, 1},
    {"exec_hi", Form::Scalar, kExec + 1, 1},
    {"m0", Form::Scalar, kM0, 1},
    {"flat_scratch", Form::Scalar, 102, 2},
    {"flat_scratch_lo", Form::Scalar, 102, 1},
    {"flat_scratch_hi", Form::Scalar, 103, 1},
    {"xnack_mask", Form::Scalar, 104, 2},
    {"xnack_mask_lo", Form::Scalar, 104, 1},
    {"xnack_mask_hi", Form::Scalar, 105, 1},
    {"src_scc", Form::Scc, 0, 1},
    {"scc", Form::Scc, 0, 1},
    {"src_vccz", Form::Vccz, 0, 1},
    {"src_execz", Form::Execz, 0, 1},
    {"src_shared_base", Form::SharedBase, 0, 2},
    {"src_shared_limit", Form::SharedLimit, 0, 2},
    {"src_private_base", Form::PrivateBase, 0, 2},
    {"src_private_limit", Form::PrivateLimit, 0, 2},
    {"ttmp7", Form::Scalar, 115, 1},
    {"ttmp9", Form::Scalar, 117, 1},
    {"null", Form::Null, 0, 1},
    {"off", Form::Off, 0, 0},
};

Operand parse_operand(std::string_view s) {
  Operand o;
  o.text = s;
  if (s.size() > 1 && s[0] == '-' && (std::isalpha(static_cast<unsigned char>(s[1])) != 0 || s[1] == '|')) {
    o.neg = true;
    s.remove_prefix(1);
  }
  if (starts(s, "neg(") && s.back() == ')') {
    o.neg = true;
    s = s.substr(4, s.size() - 5);
  }
  if (starts(s, "sext(") && s.back() == ')') {
    o.sext = true;
    s = s.substr(5, s.size() - 6);
  }
  if (s.size() > 2 && s.front() == '|' && s.back() == '|') {
    o.abs = true;
    s = s.substr(1, s.size() - 2);
  }
  for (const Special& special : kSpecial) {
    if (s == special.name) {
      o.form = special.form;
      o.index = special.index;
      o.count = special.count;
      return o;
    }
  }
  if (s.size() > 1 && (s[0] == 'v' || s[0] == 's' || s[0] == 'a')) {
    int64_t first = -1, last = -1;
    const auto rest = s.substr(1);
    if (parse_integer(rest, first)) {
      last = first;
    } else if (rest.front() == '[' && rest.back() == ']') {
      const auto inside = rest.substr(1, rest.size() - 2);
      const auto colon = inside.find(':');
      if (colon == std::string_view::npos) {
        first = last = integer(inside);
      } else {
        first = integer(inside.substr(0, colon));
        last = integer(inside.substr(colon + 1));
      }
    }
    if (first >= 0 && last >= first && last < 512) {
      o.form = s[0] == 'v' ? Form::Vector : s[0] == 'a' ? Form::Accumulator : Form::Scalar;
      o.index = static_cast<uint16_t>(first);
      o.count = static_cast<uint8_t>(last - first + 1);
      if (o.form == Form::Scalar && last >= 106) fault("'" + o.text + "' is no scalar register");
      return o;
    }
  }
  if (parse_integer(s, o.integer)) {
    o.form = Form::Constant;
    o.constant = s.find("0x") != std::string_view::npos ? Operand::Literal : Operand::Integer;
    return o;
  }
  if (s.find('.') != std::string_view::npos) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), o.number);
    if (error == std::errc() && end == s.data() + s.size()) {
      o.form = Form::Constant;
      o.constant = Operand::Float;
      return o;
    }
  }
  o.form = Form::None;  // hwreg(...), sendmsg(...): for the instruction to understand
  return o;
}

Select parse_select(std::string_view s) {
  static const char* const kNames[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  for (unsigned n = 0; n < 7; ++n) {
    if (s == kNames[n]) return static_cast<Select>(n);
  }
  fault("'" + std::string(s) + "' is no part of a register");
}

std::vector<int64_t> parse_list(std::string_view s) {
  if (s.size() < 2 || s.front() != '[' || s.back() != ']') fault("'" + std::string(s) + "' is no list");
  std::vector<int64_t> values;
  for (const auto& part : split(s.substr(1, s.size() - 2), ',')) values.push_back(integer(part));
  return values;
}
uint8_t bits_of(std::string_view s) {
  uint8_t bits = 0;
  const auto values = parse_list(s);
  for (size_t n = 0; n < values.size() && n < 8; ++n) bits |= static_cast<uint8_t>(values[n] << n);
  return bits;
}

void apply_modifier(Instruction& i, const std::string& name, const std::string& value) {
  const auto set_dpp = [&](Dpp kind, int64_t n) {
    i.dpp = kind;
    i.dpp_value = static_cast<uint8_t>(n);
  };
  static const std::pair<const char*, Dpp> kDpp[] = {
      {"row_shl", Dpp::RowShl},     {"row_shr", Dpp::RowShr},     {"row_ror", Dpp::RowRor},   {"wave_shl", Dpp::WaveShl},
      {"wave_rol", Dpp::WaveRol},   {"wave_shr", Dpp::WaveShr},   {"wave_ror", Dpp::WaveRor}, {"row_newbcast", Dpp::RowShare},
      {"row_share", Dpp::RowShare}, {"row_xmask", Dpp::RowXmask},
  };
  for (const auto& [key, kind] : kDpp) {
    if (name == key) return set_dpp(kind, integer(value));
  }
  if (name == "quad_perm") {
    const auto lanes = parse_list(value);
    if (lanes.size() != 4) fault("quad_perm has not four lanes");
    set_dpp(Dpp::QuadPerm, lanes[0] | lanes[1] << 2 | lanes[2] << 4 | lanes[3] << 6);
  } else if (name == "row_mirror") {
    set_dpp(Dpp::RowMirror, 0);
  } else if (name == "row_half_mirror") {
    set_dpp(Dpp::RowHalfMirror, 0);
  } else if (name == "row_bcast") {
    set_dpp(integer(value) == 15 ? Dpp::RowBcast15 : Dpp::RowBcast31, 0);
  } else if (name == "dpp8") {
    const auto lanes = parse_list(value);
    if (lanes.size() != 8) fault("dpp8 has not eight lanes");
    set_dpp(Dpp::Eight, 0);
    for (size_t n = 0; n < 8; ++n) i.dpp8[n] = static_cast<uint8_t>(lanes[n]);
  } else if (name == "row_mask") {
    i.row_mask = static_cast<uint8_t>(integer(value));
  } else if (name == "bank_mask") {
    i.bank_mask = static_cast<uint8_t>(integer(value));
  } else if (name == "bound_ctrl") {
    i.bound_ctrl = true;  // printed only if the bit is set, as 0 or 1 depending on LLVM's version
  } else if (name == "fi") {
    i.fetch_inactive = integer(value) != 0;
  } else if (name == "dst_sel") {
    i.sdwa = true;
    i.dst_sel = parse_select(value);
  } else if (name == "src0_sel" || name == "src1_sel") {
    i.sdwa = true;
    i.src_sel[name == "src1_sel" ? 1 : 0] = parse_select(value);
  } else if (name == "dst_unused") {
    i.sdwa = true;
    i.dst_unused = value == "UNUSED_PAD" ? 0 : value == "UNUSED_SEXT" ? 1 : 2;
  } else if (name == "clamp") {
    i.clamp = true;
  } else if (name == "mul") {
    i.omod = integer(value) == 2 ? 1 : 2;
  } else if (name == "div") {
    i.omod = 3;
  } else if (name == "op_sel") {
    i.op_sel_given = true;
    i.op_sel = bits_of(value);
  } else if (name == "op_sel_hi") {
    i.op_sel_hi = bits_of(value);
  } else if (name == "neg_lo") {
    i.neg_lo = bits_of(value);
  } else if (name == "neg_hi") {
    i.neg_hi = bits_of(value);
  } else if (name == "offset") {
    if (!parse_integer(value, i.offset) && value.find("swizzle") == std::string::npos) fault("'" + value + "' is no offset");
  } else if (name == "offset0") {
    i.offset0 = integer(value);
  } else if (name == "offset1") {
    i.offset1 = integer(value);
  } else if (name == "offen") {
    i.offen = true;
  } else if (name == "idxen") {
    i.idxen = true;
  } else if (name == "cbsz" || name == "abid" || name == "blgp" || name == "neg") {
    if (!starts(i.mnemonic, "v_mfma_")) fault("modifier '" + name + "' is not implemented");  // bind_matrix reads them
  } else if (name == "glc" || name == "slc" || name == "dlc" || name == "scc" || name == "nt" || name == "sc0" || name == "sc1" ||
             name == "scope" || name == "th") {
    // How caches are used: nothing to interpret.
  } else {
    fault("modifier '" + name + "' is not implemented");
  }
}

struct Llvm {
  const llvm::Target* target;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembly;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstPrinter> printer;

  Llvm(const std::string& processor, unsigned wave_size) {
    static const bool initialized = [] {
      LLVMInitializeAMDGPUTargetInfo();
      LLVMInitializeAMDGPUTargetMC();
      LLVMInitializeAMDGPUDisassembler();
      return true;
    }();
    static_cast<void>(initialized);
    const std::string triple = "amdgcn-amd-amdhsa";
    std::string error;
    target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (target == nullptr) throw std::runtime_error("amdgpu: LLVM has no AMDGPU target: " + error);
    registers.reset(target->createMCRegInfo(triple));
    assembly.reset(target->createMCAsmInfo(*registers, triple, llvm::MCTargetOptions()));
    const char* features = !find_processor(processor)->gfx11 ? ""
                           : wave_size == 64                 ? "+wavefrontsize64,-wavefrontsize32"
                                                             : "+wavefrontsize32,-wavefrontsize64";
    subtarget.reset(target->createMCSubtargetInfo(triple, processor, features));
    instructions.reset(target->createMCInstrInfo());
    context = std::make_unique<llvm::MCContext>(llvm::Triple(triple), assembly.get(), registers.get(), subtarget.get());
    disassembler.reset(target->createMCDisassembler(*subtarget, *context));
    printer.reset(target->createMCInstPrinter(llvm::Triple(triple), 0, *assembly, *instructions, *registers));
    if (disassembler == nullptr || printer == nullptr) throw std::runtime_error("amdgpu: LLVM has no AMDGPU disassembler");
  }
};

void touch(Instruction& i, const Operand& o) {
  if (o.form == Form::Vector) {
    i.vector_limit = std::max<uint16_t>(i.vector_limit, o.index + o.count);
  } else if (o.form == Form::Accumulator) {
    i.accumulator_limit = std::max<uint16_t>(i.accumulator_limit, o.index + o.count);
  } else if (o.form == Form::Scalar && o.index < 102) {
    i.scalar_limit = std::max<uint16_t>(i.scalar_limit, o.index + o.count);
  }
}

bool is_ignored(std::string_view name) {
  static const char* const kIgnored[] = {"s_nop",
                                         "s_delay_alu",
                                         "s_clause",
                                         "s_waitcnt_depctr",
                                         "s_set_inst_prefetch_distance",
                                         "s_inst_prefetch",
                                         "s_setprio",
                                         "s_icache_inv",
                                         "s_dcache_inv",
                                         "s_dcache_wb",
                                         "s_dcache_inv_vol",
                                         "s_dcache_wb_vol",
                                         "s_gl1_inv",
                                         "buffer_gl0_inv",
                                         "buffer_gl1_inv",
                                         "buffer_wbl2",
                                         "buffer_invl2",
                                         "buffer_wbinvl1",
                                         "buffer_wbinvl1_vol",
                                         "buffer_inv",
                                         "s_ttracedata",
                                         "s_wait_idle",
                                         "global_inv",
                                         "global_wb",
                                         "global_wbinv",
                                         "s_wait_alu",
                                         "s_prefetch_inst",
                                         "s_prefetch_inst_pc_rel",
                                         "s_prefetch_data",
                                         "s_prefetch_data_pc_rel"};
  return std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored);
}
void nothing(Wave&, const Instruction&) {}

void interpret_text(Instruction& i, std::string_view text, const Processor& processor, unsigned wave_size) {
  text = trimmed(text);
  i.text = text;
  const auto space = text.find_first_of(" \t");
  std::string_view name = text.substr(0, space);
  const std::string_view rest = space == std::string_view::npos ? std::string_view{} : trimmed(text.substr(space));
  i.mnemonic = canonical(name);
  i.vector_alu = starts(i.mnemonic, "v_");
  if (is_ignored(i.mnemonic)) {
    if (i.mnemonic == "s_nop") i.wait_states = static_cast<uint8_t>(1 + (i.words[0] & 15));
    i.execute = nothing;
    return;
  }
  if (starts(i.mnemonic, "s_waitcnt") || starts(i.mnemonic, "s_wait_")) {
    i.execute = execute_waitcnt;
    i.modifiers["text"] = rest;
    return;
  }
  auto pieces = split(rest, ',');
  i.op_sel_hi = 0xff;
  if (i.mnemonic.find("_mix") != std::string::npos) i.op_sel_hi = 0;
  if (!pieces.empty()) {
    auto tail = split(pieces.back(), ' ');
    pieces.back() = tail.front();
    for (size_t n = 1; n < tail.size(); ++n) {
      const auto colon = tail[n].find(':');
      const std::string key = tail[n].substr(0, colon), value = colon == std::string::npos ? "" : tail[n].substr(colon + 1);
      i.modifiers[key] = value;
      apply_modifier(i, key, value);
    }
  }
  for (const auto& piece : pieces) i.operands.push_back(parse_operand(piece));
  for (const Operand& o : i.operands) {
    touch(i, o);
    if (o.form == Form::Vector || o.form == Form::Accumulator || o.form == Form::Scalar) {
      i.reads.push_back({o.form == Form::Scalar, o.index, o.count});
      if (o.form == Form::Accumulator) i.reads.back().first |= 0x8000;
    }
  }
  if (find_memory(i) || bind_matrix(i, processor, wave_size)) return;
  if ((i.execute = find_scalar(i.mnemonic)) != nullptr) return;
  if (bind_scalar_float(i)) return;
  if ((i.execute = find_lane_operation(i.mnemonic)) != nullptr) return;
  i.valu = find_float_valu(i.mnemonic);
  if (i.valu == nullptr) i.valu = find_integer_valu(i.mnemonic);
  if (i.valu == nullptr) fault("the interpreter does not know this instruction");
  if ((i.valu->flags & kImplicitVcc) != 0) i.reads.push_back({true, kVcc, 2});
  if (i.op_sel_given) {
    // A list that is one longer than the sources ends with the destination.
    const size_t sources = i.valu->sources[2] != Type::None && (i.valu->flags & kAccumulate) == 0 ? 3
                           : i.valu->sources[1] != Type::None                                     ? 2
                                                                                                  : 1;
    const size_t given = parse_list(i.modifiers["op_sel"]).size();
    if (given == sources + 1) {
      const uint8_t destination = i.op_sel >> sources & 1;
      i.op_sel = static_cast<uint8_t>((i.op_sel & ((1u << sources) - 1)) | destination << 3);
    }
  }
  bind_valu(i);
}

class Decoded final : public Instructions {
 public:
  Decoded(const std::string& processor, unsigned wave_size, const std::vector<std::byte>& image)
      : processor_(processor), wave_size_(wave_size), image_(image) {}

  const Instruction& at(uint64_t address) override {
    if (address % 4 != 0 || address >= image_.size()) fault("the program counter is " + hex(address) + ", outside of the code");
    if (index_.empty()) index_.resize(image_.size() / 4 + 1);
    auto& entry = index_[address / 4];
    if (entry == nullptr) entry = decode(address);
    return *entry;
  }

  std::string text(uint64_t address, uint32_t& bytes) override {
    llvm::MCInst inst;
    uint64_t size = 0;
    return disassemble(address, inst, size) ? (bytes = static_cast<uint32_t>(size), printed(inst, address)) : (bytes = 4, std::string());
  }

 private:
  bool disassemble(uint64_t address, llvm::MCInst& inst, uint64_t& size) {
    const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(image_.data()) + address,
                                        std::min<size_t>(image_.size() - address, 32));
    return llvm().disassembler->getInstruction(inst, size, bytes, address, llvm::nulls()) == llvm::MCDisassembler::Success;
  }
  std::string printed(const llvm::MCInst& inst, uint64_t address) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm().printer->printInst(&inst, address, "", *llvm().subtarget, stream);
    return std::string(trimmed(text));
  }
  std::unique_ptr<Instruction> decode(uint64_t address) {
    auto i = std::make_unique<Instruction>();
    i->address = address;
    llvm::MCInst inst;
    uint64_t size = 0;
    if (!disassemble(address, inst, size) || size > image_.size() - address) {
      uint32_t word = 0;
      std::memcpy(&word, image_.data() + address, std::min<size_t>(4, image_.size() - address));
      fault("the bytes at " + hex(address) + " (" + hex(word) + ") are no instruction");
    }
    i->bytes = static_cast<uint32_t>(size);
    std::memcpy(i->words, image_.data() + address, std::min<size_t>(size, sizeof(i->words)));
    const std::string text = printed(inst, address);
    const Processor& processor = *find_processor(processor_);
    try {
      const auto both = text.find(" :: ");
      if (both == std::string::npos) {
        interpret_text(*i, text, processor, wave_size_);
      } else {
        interpret_text(*i, std::string_view(text).substr(0, both), processor, wave_size_);
        i->second = std::make_unique<Instruction>();
        interpret_text(*i->second, std::string_view(text).substr(both + 4), processor, wave_size_);
        if (i->valu == nullptr || i->second->valu == nullptr) fault("this pair is not implemented");
        i->execute = execute_pair;
        i->reads.insert(i->reads.end(), i->second->reads.begin(), i->second->reads.end());
        i->vector_limit = std::max(i->vector_limit, i->second->vector_limit);
        i->text = text;
      }
    } catch (const Fault& f) {
      fault(std::string(f.what()) + ": '" + text + "' at " + hex(address));
    }
    return i;
  }

  // Kept for other code objects of the thread: making one takes longer than decoding a kernel. The code object may live longer than the thread.
  Llvm& llvm() {
    thread_local std::map<std::pair<std::string, unsigned>, std::shared_ptr<Llvm>> kept;
    if (llvm_ == nullptr) {
      auto& entry = kept[{processor_, wave_size_}];
      if (entry == nullptr) entry = std::make_shared<Llvm>(processor_, wave_size_);
      llvm_ = entry;
    }
    return *llvm_;
  }

  std::string processor_;
  unsigned wave_size_;
  std::shared_ptr<Llvm> llvm_;
  const std::vector<std::byte>& image_;
  std::vector<std::unique_ptr<Instruction>> index_;
};

}  // namespace

std::unique_ptr<Instructions> make_instructions(const std::string& processor, unsigned wave_size, const std::vector<std::byte>& image) {
  return std::make_unique<Decoded>(processor, wave_size, image);
}

uint64_t constant_bits(const Operand& o, Type type) {
  const bool half = is_half(type), wide = registers_of(type) == 2 && type != Type::PackedF32;
  switch (o.constant) {
    case Operand::Integer:
      if (half) return static_cast<uint16_t>(o.integer);
      if (wide) return static_cast<uint64_t>(o.integer);
      return static_cast<uint32_t>(o.integer);
    case Operand::Literal: {
      const auto bits = static_cast<uint64_t>(o.integer);
      if (!wide) {
        if (bits >> 32 != 0 && bits >> 32 != 0xffffffff) fault("literal " + o.text + " has more than 32 bits");
        return half ? bits & 0xffff : bits & 0xffffffff;
      }
      if (bits >> 32 != 0) return bits;
      if (type == Type::F64) return bits << 32;
      return type == Type::I64 ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits))) : bits;
    }
    case Operand::Float: {
      const bool inverse = o.number > 0.159 && o.number < 0.16;  // 1 / (2 * pi)
      switch (type) {
        case Type::F64:
        case Type::B64:
        case Type::I64:
        case Type::U64:
          return inverse ? 0x3fc45f306dc9c882 : std::bit_cast<uint64_t>(o.number);
        case Type::F16:
        case Type::B16:
        case Type::PackedF16: {
          if (inverse) return 0x3118;
          const auto f = std::bit_cast<uint32_t>(static_cast<float>(o.number));  // 0.5, 1, 2 or 4: exact
          return (f >> 16 & 0x8000) | ((f >> 23 & 255) - 127 + 15) << 10;
        }
        case Type::I16:
        case Type::U16:
          fault("the float constant " + o.text + " as a 16-bit integer");
        default:
          return inverse ? 0x3e22f983 : std::bit_cast<uint32_t>(static_cast<float>(o.number));
      }
    }
  }
  return 0;
}

}  // namespace heddle::amdgpu
