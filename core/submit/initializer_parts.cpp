// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See initializer_parts.h.
#include "core/submit/initializer_parts.h"

#include <algorithm>
#include <functional>

namespace heddle::submit {

namespace {

namespace mf = module_format;

constexpr uint64_t kFewestBytes = uint64_t{4} << 20;
constexpr uint64_t kMostParts = 64;

// Calls visit with each value that the instruction names. False for an instruction that may jump or wait for a value.
bool visit_values(const mf::Program& program, const mf::Instruction& instruction, const std::function<void(uint32_t)>& visit) {
  switch (static_cast<mf::Op>(instruction.op())) {
    case mf::Op::Branch:
    case mf::Op::BranchIf:
    case mf::Op::ReadScalar:
    case mf::Op::Submit:
      return false;
    case mf::Op::Dispatch:
      for (const mf::BindingRef* binding : *program.dispatches()->Get(instruction.a())->bindings()) visit(binding->value());
      return true;
    case mf::Op::Copy:
      visit(program.copies()->Get(instruction.a())->source().value());
      visit(program.copies()->Get(instruction.a())->target().value());
      return true;
    case mf::Op::Fill:
      visit(program.fills()->Get(instruction.a())->target().value());
      return true;
    default:
      return true;
  }
}

uint64_t bytes_of(const mf::Module& module, uint32_t global) {
  return module.parameters()->Get(module.globals()->Get(global)->index())->size_bytes();
}

}  // namespace

uint64_t usual_part_bytes(const mf::Module& module) {
  uint64_t all = 0;
  for (const mf::Parameter* parameter : *module.parameters()) {
    if (__builtin_add_overflow(all, parameter->size_bytes(), &all)) all = UINT64_MAX;
  }
  return std::max(kFewestBytes, all / kMostParts);
}

Rerun rerun_of_initializer(const mf::Module& module, const mf::Program& initializer, const std::vector<bool>& changed) {
  constexpr int kMostPasses = 64;
  const uint32_t globals = module.globals()->size(), count = initializer.code()->size();
  Rerun rerun{std::vector<bool>(count), changed};
  // Globals, then the program's transients.
  rerun.globals.resize(globals + initializer.transients()->size());
  bool is_simple = true, grows = true;
  for (int pass = 0; grows; ++pass) {
    grows = false;
    for (uint32_t at = 0; at < count; ++at) {
      if (rerun.instructions[at]) continue;
      std::vector<uint32_t> shared;
      bool is_touched = false;
      is_simple &= visit_values(initializer, *initializer.code()->Get(at), [&](uint32_t value) {
        const mf::Value& named = *initializer.values()->Get(value);
        const bool is_global = named.kind() == mf::ValueKind::Global;
        const uint32_t key = named.index() + (is_global ? 0 : globals);
        const mf::GlobalKind kind = is_global ? module.globals()->Get(key)->kind() : mf::GlobalKind::Derived;
        is_simple &= kind != mf::GlobalKind::State && (is_global || named.kind() == mf::ValueKind::Transient);
        if (!is_simple) return;
        if (kind == mf::GlobalKind::Derived) shared.push_back(key);
        is_touched = is_touched || rerun.globals[key];
      });
      if (!is_simple || pass == kMostPasses) return {};
      if (!is_touched) continue;
      rerun.instructions[at] = grows = true;
      for (uint32_t key : shared) rerun.globals[key] = true;
    }
  }
  return rerun;
}

std::vector<InitializerPart> parts_of_initializer(const mf::Module& module, const mf::Program& initializer,
                                                  const std::vector<bool>& read_by_functions, uint64_t most_bytes,
                                                  const std::vector<bool>& runs) {
  const uint32_t globals = module.globals()->size();
  std::vector<uint32_t> loaded_in(globals, UINT32_MAX), last_part(globals, 0);
  std::vector<InitializerPart> parts(1);
  uint64_t bytes = 0;
  bool is_straight = true;
  for (uint32_t at = 0; at < initializer.code()->size() && is_straight; ++at) {
    if (!runs.empty() && !runs[at]) continue;
    std::vector<uint32_t> read, fresh;
    is_straight = visit_values(initializer, *initializer.code()->Get(at), [&](uint32_t value) {
      const mf::Value& named = *initializer.values()->Get(value);
      if (named.kind() != mf::ValueKind::Global) return;
      const uint32_t global = named.index();
      if (module.globals()->Get(global)->kind() != mf::GlobalKind::Parameter || read_by_functions[global]) return;
      read.push_back(global);
      if (loaded_in[global] == UINT32_MAX && std::ranges::find(fresh, global) == fresh.end()) fresh.push_back(global);
    });
    uint64_t more = 0;
    for (uint32_t global : fresh) {
      if (__builtin_add_overflow(more, bytes_of(module, global), &more)) more = UINT64_MAX;
    }
    if (bytes != 0 && more > most_bytes - std::min(bytes, most_bytes)) {
      parts.push_back({at, {}, {}});
      bytes = 0;
    }
    for (uint32_t global : fresh) {
      loaded_in[global] = static_cast<uint32_t>(parts.size() - 1);
      parts.back().loaded.push_back(global);
    }
    bytes += more;
    for (uint32_t global : read) last_part[global] = static_cast<uint32_t>(parts.size() - 1);
  }
  if (!is_straight) {
    parts.assign(1, {});
    for (const mf::Value* value : *initializer.values()) {
      if (value->kind() != mf::ValueKind::Global) continue;
      const uint32_t global = value->index();
      const bool is_ours = module.globals()->Get(global)->kind() == mf::GlobalKind::Parameter && !read_by_functions[global];
      if (is_ours && std::ranges::find(parts[0].loaded, global) == parts[0].loaded.end()) parts[0].loaded.push_back(global);
    }
    parts[0].freed = parts[0].loaded;
    return parts;
  }
  for (uint32_t global = 0; global < globals; ++global) {
    if (loaded_in[global] != UINT32_MAX) parts[last_part[global]].freed.push_back(global);
  }
  return parts;
}

Result<InitializerStage> stage_of_initializer(const mf::Module& module, const std::vector<InitializerPart>& parts, const Machine& machine,
                                              const std::vector<bool>& elsewhere) {
  const uint32_t globals = module.globals()->size();
  const size_t devices = machine.device_names.size();
  std::vector<uint32_t> first_part(globals, 0);
  std::vector<std::vector<uint32_t>> staged(devices);
  std::vector<std::vector<Slice>> slices(devices);
  for (uint32_t part = 0; part < parts.size(); ++part) {
    for (uint32_t global : parts[part].loaded) first_part[global] = part;
    for (uint32_t global : parts[part].freed) {
      if (elsewhere[global]) continue;
      const uint32_t device = machine.globals[global].device;
      staged[device].push_back(global);
      slices[device].push_back(
          {bytes_of(module, global), std::max<uint64_t>(machine.min_alignment_of_device[device], 64), first_part[global], part, 0});
    }
  }
  InitializerStage stage{std::vector<uint64_t>(globals, 0), std::vector<uint64_t>(devices, 0)};
  for (size_t device = 0; device < devices; ++device) {
    Result<uint64_t> bytes = pack(slices[device]);
    if (!bytes.ok()) return bytes.take_status();
    stage.bytes_of_device[device] = *bytes;
    for (size_t i = 0; i < staged[device].size(); ++i) stage.offsets[staged[device][i]] = slices[device][i].offset;
  }
  return stage;
}

}  // namespace heddle::submit
