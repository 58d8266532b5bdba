// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interprets AMDGPU code objects (HSACO, code object version 4 and 5) on the host: the interface for tests, for the command amdgpu-run, and for
// stand-ins of AMD's runtime libraries. It depends on LLVM's disassembler and on nothing of Heddle. docs/vendors/amd.md says what it shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::amdgpu {

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

struct Argument {
  std::string name;  // may be empty
  std::string kind;  // "global_buffer", "by_value", "hidden_block_count_x", ...
  uint32_t offset = 0;
  uint32_t size = 0;
};

// One kernel, from its descriptor and from its metadata, which have to agree.
struct Kernel {
  std::string name;
  uint64_t descriptor = 0;  // address in the code object
  uint64_t entry = 0;       // address of the first instruction in the code object
  uint32_t kernarg_bytes = 0;
  uint32_t kernarg_alignment = 0;
  uint32_t lds_bytes = 0;      // fixed; a dispatch can add dynamic bytes
  uint32_t private_bytes = 0;  // per work item
  bool dynamic_stack = false;
  uint32_t wave_size = 64;
  uint32_t sgprs = 0, vgprs = 0, agprs = 0;          // that the metadata states
  uint32_t vgprs_allocated = 0, accum_offset = 256;  // that the descriptor asks for; AGPR 0 is VGPR accum_offset
  uint32_t sgprs_allocated = 0;
  uint32_t sgpr_spills = 0, vgpr_spills = 0;
  uint32_t max_workgroup = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0, properties = 0;
  std::vector<Argument> arguments;
};

// An instruction as `listing` shows it.
struct Line {
  uint64_t address;  // in the code object
  size_t file_offset;
  uint32_t bytes;
  std::string text;  // as LLVM prints it; empty if the bytes are no instruction
};

struct Instructions;  // decoded ones

// A code object, laid out as the loader lays it out. `load` copies the bytes. Throws std::runtime_error, with a text for users, if the bytes are
// damaged or of another kind.
class CodeObject {
 public:
  // 0 as load_address: an address that is far from those of the host.
  static std::unique_ptr<CodeObject> load(std::span<const std::byte> bytes, uint64_t load_address = 0);
  ~CodeObject();

  const std::string& target() const { return target_; }        // "amdgcn-amd-amdhsa--gfx90a"
  const std::string& processor() const { return processor_; }  // "gfx90a"
  const std::vector<Kernel>& kernels() const { return kernels_; }
  const Kernel* kernel(std::string_view name) const;
  const Kernel* kernel_at(uint64_t descriptor_address) const;  // a loaded address, as in an AQL packet
  uint64_t load_address() const { return load_address_; }
  // The loaded address and size of a variable; false if there is none of this name.
  bool symbol(std::string_view name, uint64_t& address, uint64_t& bytes) const;
  std::vector<Line> listing(std::string_view kernel) const;

  struct Segment {
    uint64_t address, bytes;
    bool writable;
  };
  const std::vector<Segment>& segments() const { return segments_; }
  std::byte* image() { return image_.data(); }
  const std::vector<std::byte>& image() const { return image_; }
  Instructions& instructions() const { return *instructions_; }

 private:
  CodeObject() = default;
  std::string target_, processor_;
  uint64_t load_address_ = 0;
  std::vector<Kernel> kernels_;
  std::vector<std::byte> file_, image_;
  std::vector<Segment> segments_;
  struct Symbol {
    uint64_t value, bytes;
  };
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::unique_ptr<Instructions> instructions_;
};

// The memory that kernels may access. Every access outside of it is a fault.
class Memory {
 public:
  struct Block {
    uint64_t address;
    uint64_t bytes;
    std::byte* host;
    bool writable;
    std::string name;  // for texts of faults
  };
  // Throws if the block is empty, wraps around, or overlaps another one.
  void map(uint64_t address, void* host, uint64_t bytes, bool writable, std::string name);
  // The address of the block in the kernel is that in the host.
  void map(void* host, uint64_t bytes, bool writable, std::string name) {
    map(reinterpret_cast<uint64_t>(host), host, bytes, writable, std::move(name));
  }
  void unmap(uint64_t address);
  const Block* find(uint64_t address) const;     // that contains the address
  std::string describe(uint64_t address) const;  // the blocks before and after it

 private:
  std::map<uint64_t, Block> blocks_;
};

struct Options {
  uint64_t seed = 0;
  uint64_t max_instructions = 4'000'000'000;  // of all waves together
  uint32_t resident_workgroups = 3;           // at most, whose waves take turns; the number varies with the seed
  bool approximate = true;     // v_rcp, v_sqrt, v_exp and the like differ from the exact result, within the error that AMD states
  bool late = true;            // memory operations happen at any time up to the wait that covers them; false: at once
  bool check_races = true;     // report LDS accesses of two waves that no barrier orders
  bool check_barriers = true;  // report barriers that a part of a workgroup or of a wave reaches
  bool add_code = true;        // false: the memory has the segments of the code object already
  // Called between the turns of waves, about a hundred instructions apart; false ends the dispatch with a fault. Dispatches on several threads may
  // take turns here, also of one code object, if only one of them runs at any time.
  std::function<bool()> between_turns;
};

struct Statistics {
  uint64_t instructions = 0;  // of waves
  uint64_t lanes = 0;         // active lanes of vector instructions
  uint64_t workgroups = 0, waves = 0, barriers = 0;
  std::map<std::string, uint64_t> by_opcode;
};

struct Outcome {
  std::string fault;  // empty if the dispatch ended well
  Statistics statistics;
  bool ok() const { return fault.empty(); }
};

struct Dispatch {
  Grid grid;   // in work items, as in an AQL packet
  Grid block;  // the size of a workgroup
  std::span<const std::byte> kernarg;
  uint32_t dynamic_lds_bytes = 0;
  // Numbers of the workgroups that run, each below the number of all, the x axis first; empty: all of them.
  std::span<const uint64_t> only = {};
};

// Runs one dispatch to its end. The memory has to contain whatever the kernel's arguments point to; the segments of the code object, the kernel
// arguments and the dispatch packet are added for the duration of the call, the segments unless the options say otherwise. Not thread-safe for one code object.
Outcome run(CodeObject& code, const Kernel& kernel, const Dispatch& dispatch, const Memory& memory, const Options& options = {});

// Writes what AMD's runtimes write into the hidden arguments (sizes of the grid and the workgroups); the others become 0.
void fill_hidden_arguments(const Kernel& kernel, const Dispatch& dispatch, std::span<std::byte> kernarg);

// Whether the interpreter knows the instruction at an address in the code object.
bool understood(const CodeObject& code, uint64_t address);
// Mnemonics that the interpreter implements, in alphabetical order, without the suffix of the encoding.
std::vector<std::string> implemented();

}  // namespace heddle::amdgpu
