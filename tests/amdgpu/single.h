// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One wave without a kernel, on which tests run single instructions.
#pragma once

#include "tests/amdgpu/assemble.h"
#include "tests/amdgpu/covered.h"
#include "tests/amdgpu/machine.h"
#include "tests/amdgpu/mnemonics.h"

namespace heddle::amdgpu {

class Single {
 public:
  // 0 as wave_size: that of the processor's kernels by default.
  explicit Single(const std::string& processor, unsigned wave_size = 0) : processor_(processor) {
    machine_.kernel.name = "single";
    machine_.kernel.vgprs_allocated = 256;
    machine_.kernel.accum_offset = 128;
    machine_.kernel.sgprs_allocated = 102;
    machine_.kernel.wave_size = wave_size != 0 ? wave_size : find_processor(processor)->gfx11 ? 32 : 64;
    machine_.gfx11 = find_processor(processor)->gfx11;
    machine_.gfx12 = find_processor(processor)->gfx12;
    machine_.cdna3 = find_processor(processor)->cdna3;
    machine_.options.approximate = false;
    if (machine_.gfx11) machine_.kernel.accum_offset = 256;
    wave_.machine = &machine_;
    wave_.group = &group_;
    wave_.size = machine_.kernel.wave_size;
    wave_.launched = wave_.mask();
    wave_.scalars.fill(0);
    wave_.vectors.assign(257 * 64, 0);
    wave_.vector_pending.assign(512, 0);
    wave_.set_exec(wave_.launched);
    wave_.set_mode(0xf << 4 | 1 << 8 | 1 << 9);
  }
  // Runs the instructions once.
  void run(const std::string& text) {
    prepare(text);
    again();
  }
  void prepare(const std::string& text) {
    for (size_t start = 0; start < text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      for (const std::string& name : mnemonics_of(text.substr(start, end - start))) covered_instructions().insert(name);
      start = end + 1;
    }
    prepare(assemble(processor_, text, wave_.size));
  }
  void prepare(std::vector<std::byte> bytes) {
    image_ = std::move(bytes);
    if (instructions_ != nullptr) earlier_.push_back(std::move(instructions_));
    instructions_ = make_instructions(processor_, wave_.size, image_);
    is_recorded_ = false;
  }
  void again() {
    for (wave_.pc = 0; wave_.pc < image_.size();) {
      const Instruction& i = instructions_->at(wave_.pc);
      step(wave_, i);
      if (is_recorded_) continue;
      covered_instructions().insert(i.mnemonic);
      if (i.second) covered_instructions().insert(i.second->mnemonic);
    }
    is_recorded_ = true;
  }
  Wave& wave() { return wave_; }
  Machine& machine() { return machine_; }
  unsigned lanes() const { return wave_.size; }
  void set64(unsigned n, unsigned lane, uint64_t value) {
    wave_.vector(n, lane) = static_cast<uint32_t>(value);
    wave_.vector(n + 1, lane) = static_cast<uint32_t>(value >> 32);
  }
  uint64_t get64(unsigned n, unsigned lane) { return wave_.vector(n, lane) | uint64_t{wave_.vector(n + 1, lane)} << 32; }

 private:
  std::string processor_;
  Machine machine_{};
  Group group_;
  Wave wave_{};
  std::vector<std::byte> image_;
  std::unique_ptr<Instructions> instructions_;
  bool is_recorded_ = false;                            // its instructions, in covered_instructions()
  std::vector<std::unique_ptr<Instructions>> earlier_;  // whose memory operations may be on their way
};

}  // namespace heddle::amdgpu
