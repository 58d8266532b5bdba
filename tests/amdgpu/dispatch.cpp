// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a dispatch: initial registers, waves in an order that the seed chooses, barriers, checks of registers before each instruction. Source of the
// initial registers: LLVM, User Guide for AMDGPU Backend, sections "Initial Kernel Execution State" and "Kernel Prolog".
#include <algorithm>

#include "tests/amdgpu/machine.h"
#include "tests/amdgpu/record.h"

namespace heddle::amdgpu {

void fault(std::string text) {
  throw Fault(std::move(text));
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

unsigned first_lane(uint64_t exec) {
  return exec == 0 ? 0 : static_cast<unsigned>(std::countr_zero(exec));
}

void Memory::map(uint64_t address, void* host, uint64_t bytes, bool writable, std::string name) {
  if (bytes == 0 || address + bytes < address)
    throw std::runtime_error("amdgpu: block '" + name + "' of " + std::to_string(bytes) + " bytes at " + hex(address) +
                             " is empty or wraps around");
  const auto next = blocks_.lower_bound(address);
  const Block* overlapped = nullptr;
  if (next != blocks_.end() && next->first < address + bytes) overlapped = &next->second;
  if (next != blocks_.begin()) {
    const Block& before = std::prev(next)->second;
    if (before.address + before.bytes > address) overlapped = &before;
  }
  if (overlapped != nullptr)
    throw std::runtime_error("amdgpu: block '" + name + "' at " + hex(address) + " overlaps '" + overlapped->name + "'");
  blocks_.emplace(address, Block{address, bytes, static_cast<std::byte*>(host), writable, std::move(name)});
}

void Memory::unmap(uint64_t address) {
  blocks_.erase(address);
}

const Memory::Block* Memory::find(uint64_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  const Block& block = std::prev(next)->second;
  return address - block.address < block.bytes ? &block : nullptr;
}

std::string Memory::describe(uint64_t address) const {
  const auto next = blocks_.upper_bound(address);
  std::string text;
  const auto add = [&](const Block& b) {
    if (!text.empty()) text += ", ";
    text += "'" + b.name + "' has " + std::to_string(b.bytes) + " bytes at " + hex(b.address);
  };
  if (next != blocks_.begin()) add(std::prev(next)->second);
  if (next != blocks_.end()) add(next->second);
  return text.empty() ? "there is none" : "near it, " + text;
}

unsigned Wave::vector_index(const Operand& o) const {
  if (o.form == Form::Vector) return o.index;
  if (o.form == Form::Accumulator) return machine->kernel.accum_offset + o.index;
  fault("operand '" + o.text + "' is no vector register");
}

void Wave::set_mode(uint32_t bits) {
  mode_bits = bits;
  if ((bits & 15) != 0) fault("a rounding mode other than to the nearest even is not implemented");
  // FP_DENORM: bit 0 of each pair allows denormals as sources, bit 1 as results.
  mode.flush_in32 = (bits >> 4 & 1) == 0;
  mode.flush_out32 = (bits >> 5 & 1) == 0;
  mode.flush_in64 = (bits >> 6 & 1) == 0;
  mode.flush_out64 = (bits >> 7 & 1) == 0;
  mode.dx10_clamp = (bits >> 8 & 1) != 0;
  mode.ieee = (bits >> 9 & 1) != 0;
}

std::string Machine::where(const Wave& wave) const {
  std::string text = "amdgpu: kernel '" + kernel.name + "'";
  const auto number = [](auto n) { return std::to_string(n); };
  text += ", workgroup (" + number(wave.workgroup[0]) + ", " + number(wave.workgroup[1]) + ", " + number(wave.workgroup[2]) + "), wave " +
          number(wave.index);
  if (wave.current != nullptr) {
    text +=
        ", '" + wave.current->text + "' at " + hex(wave.current->address) + " (kernel + " + hex(wave.current->address - kernel.entry) + ")";
  } else {
    text += " at " + hex(wave.pc);
  }
  return text + ": ";
}

namespace {

// Which operation loads a register that is touched.
std::string loader(const Wave& w, const Range& r) {
  for (const auto* queue : {&w.vector_queue, &w.lds_queue, &w.scalar_queue}) {
    for (const Access& a : *queue) {
      const Memo& m = a.instruction->memo;
      const bool scalar = m.space == Memo::ScalarMemory;
      const unsigned first = scalar ? a.scalar_destination : a.vector_destination;
      if (scalar == r.scalar && first < r.first + r.count && r.first < first + m.registers * m.parts && m.action != Memo::Store) {
        return "'" + a.instruction->text + "' at " + hex(a.instruction->address);
      }
    }
  }
  return "an earlier instruction";
}

void check_registers(Wave& w, const Instruction& i) {
  const Kernel& k = w.machine->kernel;
  const unsigned vectors = std::min<unsigned>(k.accum_offset, k.vgprs_allocated);
  if (i.vector_limit > vectors)
    fault("v" + std::to_string(i.vector_limit - 1) + " is not among the " + std::to_string(vectors) + " vector registers of the kernel");
  if (i.accumulator_limit != 0 && k.accum_offset + i.accumulator_limit > k.vgprs_allocated) {
    fault("a" + std::to_string(i.accumulator_limit - 1) + " is not among the accumulation registers of the kernel");
  }
  if (i.scalar_limit > k.sgprs_allocated)
    fault("s" + std::to_string(i.scalar_limit - 1) + " is not among the " + std::to_string(k.sgprs_allocated) +
          " scalar registers of the kernel");
  if (w.vector_queue.empty() && w.lds_queue.empty() && w.scalar_queue.empty()) return;  // nothing is pending
  bool in_order = i.memo.in_order;
  for (const Range& range : i.reads) {
    Range r = range;
    if ((r.first & 0x8000) != 0) r.first = static_cast<uint16_t>((r.first & 0x7fff) + k.accum_offset);
    const uint8_t* first = r.scalar ? &w.scalar_pending[r.first] : &w.vector_pending[r.first];
    if (std::all_of(first, first + r.count, [](uint8_t pending) { return pending == 0; })) continue;
    for (unsigned n = r.first; n < unsigned{r.first} + r.count; ++n) {
      const uint8_t pending = r.scalar ? w.scalar_pending[n] : w.vector_pending[n];
      if (pending == 0 || (in_order && !r.scalar && pending < 16)) continue;
      fault(std::string(r.scalar ? "s" : "v") + std::to_string(n) + " is used before a wait for " + loader(w, r) + ", which loads it");
    }
    in_order = false;
  }
}

struct Launch {
  Machine& machine;
  uint64_t dispatch_address, kernarg_address, scratch_base, next_scratch = 0;

  std::vector<std::unique_ptr<Wave>> spare = {};  // that have ended, for their memory

  std::unique_ptr<Group> group(const std::array<uint32_t, 3>& id);
  void initialize(Wave& w, const std::array<uint32_t, 3>& size);
};

void fill(std::vector<std::byte>& bytes, Random& random) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t noise = random.next();
    std::memcpy(&bytes[at], &noise, std::min<size_t>(8, bytes.size() - at));
  }
}

std::unique_ptr<Group> Launch::group(const std::array<uint32_t, 3>& id) {
  const Dispatch& d = machine.dispatch;
  const std::array<uint32_t, 3> grid = {d.grid.x, d.grid.y, d.grid.z}, block = {d.block.x, d.block.y, d.block.z};
  std::array<uint32_t, 3> size{};
  for (size_t n = 0; n < 3; ++n) size[n] = static_cast<uint32_t>(std::min<uint64_t>(block[n], grid[n] - uint64_t{id[n]} * block[n]));
  auto result = std::make_unique<Group>();
  Group& g = *result;
  g.id = id;
  g.lds.resize(machine.kernel.lds_bytes + d.dynamic_lds_bytes);
  fill(g.lds, machine.random);
  if (machine.options.check_races) g.lds_words.resize(g.lds.size() / 4 + 1);
  const unsigned items = size[0] * size[1] * size[2], wave_size = machine.kernel.wave_size;
  for (unsigned first = 0; first < items; first += wave_size) {
    auto wave = std::make_unique<Wave>();
    if (!spare.empty()) {
      wave->vectors.swap(spare.back()->vectors);
      wave->vector_queue.take(spare.back()->vector_queue);
      wave->lds_queue.take(spare.back()->lds_queue);
      wave->scalar_queue.take(spare.back()->scalar_queue);
      spare.pop_back();
    }
    wave->machine = &machine;
    wave->group = &g;
    wave->index = first / wave_size;
    wave->size = wave_size;
    wave->workgroup = id;
    const unsigned lanes = std::min(wave_size, items - first);
    wave->launched = lanes == 64 ? ~uint64_t{0} : (uint64_t{1} << lanes) - 1;
    initialize(*wave, size);
    g.waves.push_back(std::move(wave));
  }
  machine.statistics.workgroups += 1;
  machine.statistics.waves += g.waves.size();
  return result;
}

void Launch::initialize(Wave& w, const std::array<uint32_t, 3>& size) {
  const Kernel& k = machine.kernel;
  Random& random = machine.random;
  for (uint32_t& s : w.scalars) s = static_cast<uint32_t>(random.next());
  const unsigned registers = std::max(k.vgprs_allocated, 4u);
  w.vectors.resize(size_t{registers} * 64 + 64);
  auto noise = static_cast<uint32_t>(random.next());
  for (uint32_t& v : w.vectors) {
    uint32_t x = noise += 0x9e3779b9;
    x = (x ^ x >> 16) * 0x7feb352d;
    v = (x ^ x >> 15) * 0x846ca68b;
  }
  w.vector_pending.assign(registers + 64, 0);
  w.scc = (random.next() & 1) != 0;
  w.pc = k.entry;
  w.set_exec(w.launched);
  if (w.size == 32) w.scalars[kExec + 1] = 0;
  w.set_mode((k.rsrc1 >> 12 & 0xff) | (machine.gfx12 ? 1u << 8 : (k.rsrc1 >> 21 & 1) << 8 | (k.rsrc1 >> 23 & 1) << 9));
  w.scratch.resize(size_t{k.private_bytes} * w.size);
  fill(w.scratch, random);
  const uint64_t scratch_offset = next_scratch;
  next_scratch += (w.scratch.size() + 1023) / 1024 * 1024;
  w.scratch_base = scratch_base + scratch_offset;

  // Scalar registers: user registers, then those of the system.
  unsigned s = 0;
  const auto put = [&](uint64_t value, unsigned count) {
    for (unsigned n = 0; n < count; ++n) w.scalars[s + n] = static_cast<uint32_t>(value >> 32 * n);
    s += count;
  };
  if ((k.properties & 1) != 0) {  // a descriptor of private memory: swizzled, with the lane as the index
    put(scratch_base | uint64_t{1} << 63, 2);
    put(0xffffffff | uint64_t{3u << 21 | 1u << 23} << 32, 2);
  }
  if ((k.properties & 2) != 0) put(dispatch_address, 2);
  if ((k.properties & 4) != 0) put(0xdead0000dead0000, 2);  // the queue
  if ((k.properties & 8) != 0) put(kernarg_address, 2);
  if ((k.properties & 16) != 0) put(1, 2);  // dispatch id
  if ((k.properties & 32) != 0) put(scratch_base, 2);
  if ((k.properties & 64) != 0) put(k.private_bytes, 1);
  const unsigned user = k.rsrc2 >> 1 & 31;
  if (s > user) fault("the descriptor enables " + std::to_string(s) + " user registers and counts " + std::to_string(user));
  s = user;
  for (unsigned n = 0; n < 3; ++n) {
    if ((k.rsrc2 >> (7 + n) & 1) != 0 && !machine.gfx12) put(w.workgroup[n], 1);
  }
  if ((k.rsrc2 >> 10 & 1) != 0) put(0, 1);  // work group info
  if ((k.rsrc2 & 1) != 0 && !find_processor(machine.code->processor())->flat_scratch) put(scratch_offset, 1);
  if (machine.gfx12) {
    w.scalars[117] = w.workgroup[0];                         // ttmp9
    w.scalars[115] = w.workgroup[1] | w.workgroup[2] << 16;  // ttmp7
  }
  // Vector registers: all of these processors pack the work item id into v0.
  const unsigned ids = k.rsrc2 >> 11 & 3;
  for (unsigned lane = 0; lane < w.size; ++lane) {
    const uint32_t item = w.index * w.size + lane;
    uint32_t packed = item % size[0];
    if (ids >= 1) packed |= item / size[0] % size[1] << 10;
    if (ids >= 2) packed |= item / size[0] / size[1] << 20;
    w.vector(0, lane) = packed;
  }
}

// Lets waves go on that wait at a barrier, if all have arrived.
bool release_barrier(Machine& machine, Group& g) {
  size_t waiting = 0, ended = 0;
  const Wave* first = nullptr;
  for (const auto& w : g.waves) {
    if (w->state == Wave::Ended) ++ended;
    if (w->state != Wave::Barrier) continue;
    ++waiting;
    if (first == nullptr) first = w.get();
  }
  if (waiting == 0 || waiting + ended < g.waves.size()) return false;
  if (machine.options.check_barriers) {
    for (const auto& w : g.waves) {
      if (w->state == Wave::Ended) {
        fault("wave " + std::to_string(first->index) + " waits at the barrier at " + hex(first->barrier_address) + ", but wave " +
              std::to_string(w->index) + " has ended without it");
      }
      if (w->barrier_address != first->barrier_address) {
        fault("waves wait at different barriers: wave " + std::to_string(first->index) + " at " + hex(first->barrier_address) + ", wave " +
              std::to_string(w->index) + " at " + hex(w->barrier_address));
      }
    }
  }
  for (const auto& w : g.waves) {
    if (w->state == Wave::Barrier) w->state = Wave::Running;
    w->lds_visible = machine.gfx12 ? w->lds_signaled : w->lds_retired;
    w->signaled = false;
  }
  ++g.epoch;
  ++machine.statistics.barriers;
  return true;
}

void check_launch(const Kernel& k, const Dispatch& d, bool gfx11) {
  const uint64_t items = uint64_t{d.block.x} * d.block.y * d.block.z;
  if (items == 0 || d.grid.x == 0 || d.grid.y == 0 || d.grid.z == 0) fault("the grid or the workgroup is empty");
  if (items > k.max_workgroup || d.block.x > 1024 || d.block.y > 1024 || d.block.z > 1024) {
    fault("the workgroup has " + std::to_string(items) + " work items, but the kernel allows " + std::to_string(k.max_workgroup));
  }
  if (d.kernarg.size() < k.kernarg_bytes)
    fault("there are " + std::to_string(d.kernarg.size()) + " bytes of arguments, but the kernel has " + std::to_string(k.kernarg_bytes));
  if (uint64_t{k.lds_bytes} + d.dynamic_lds_bytes > 65536)
    fault("the kernel needs " + std::to_string(uint64_t{k.lds_bytes} + d.dynamic_lds_bytes) + " bytes of LDS; there are 65536");
  if (k.wave_size == 32 && !gfx11) fault("waves of " + std::to_string(k.wave_size) + " are not implemented for this processor");
  if ((k.rsrc1 >> 26 & 1) != 0) fault("FP16_OVFL is not implemented");
}

}  // namespace

void step(Wave& w, const Instruction& i) {
  w.current = &i;
  check_registers(w, i);
  if (i.vector_alu) check_wmma_hazard(w, i);
  if (!w.mfma_results.empty() || i.matrix != nullptr) check_mfma_hazards(w, i);
  w.wait_states += i.wait_states;
  w.pc += i.bytes;
  i.execute(w, i);
}

Outcome run(CodeObject& code, const Kernel& kernel, const Dispatch& dispatch, const Memory& memory, const Options& options) {
  Machine machine{};
  machine.code = &code;
  machine.load_address = code.load_address();
  machine.kernel = kernel;
  machine.dispatch = dispatch;
  machine.options = options;
  machine.memory = memory;
  machine.random.state = options.seed * 0x9e3779b97f4a7c15 + 12345;
  machine.gfx11 = find_processor(code.processor())->gfx11;
  machine.gfx12 = find_processor(code.processor())->gfx12;
  machine.cdna3 = find_processor(code.processor())->cdna3;
  Outcome outcome;
  const Wave* running = nullptr;
  const auto finish = [&] {
    for (const Instruction* i : machine.executed) {
      machine.statistics.by_opcode[i->mnemonic] += i->count;
      i->count = 0;
    }
    outcome.statistics = std::move(machine.statistics);
  };
  std::vector<std::unique_ptr<Group>> resident;
  try {
    check_launch(kernel, dispatch, machine.gfx11);
    const std::unique_ptr<Record> record = Record::begin(code, kernel, dispatch, machine.memory);
    if (record != nullptr) machine.options.approximate = false;
    for (const CodeObject::Segment& s : code.segments()) {
      if (!options.add_code) break;
      machine.memory.map(s.address, code.image() + (s.address - code.load_address()), s.bytes, s.writable, "code object");
    }
    constexpr uint64_t kKernarg = uint64_t{0x6000} << 32, kPacket = uint64_t{0x6100} << 32, kScratch = uint64_t{0x3000} << 32;
    std::vector<std::byte> kernarg(dispatch.kernarg.begin(), dispatch.kernarg.end());
    // Up to their alignment: compilers load whole groups of registers. What follows the arguments is not defined.
    while (kernarg.size() % 16 != 0) kernarg.push_back(static_cast<std::byte>(machine.random.next()));
    if (!kernarg.empty()) machine.memory.map(kKernarg, kernarg.data(), kernarg.size(), false, "kernel arguments");
    std::array<std::byte, 64> packet{};
    const auto field = [&](size_t at, auto value) { std::memcpy(packet.data() + at, &value, sizeof(value)); };
    field(0, uint16_t{2});
    field(2, uint16_t{3});
    field(4, static_cast<uint16_t>(dispatch.block.x));
    field(6, static_cast<uint16_t>(dispatch.block.y));
    field(8, static_cast<uint16_t>(dispatch.block.z));
    field(12, dispatch.grid.x);
    field(16, dispatch.grid.y);
    field(20, dispatch.grid.z);
    field(24, kernel.private_bytes);
    field(28, kernel.lds_bytes + dispatch.dynamic_lds_bytes);
    field(32, code.load_address() + kernel.descriptor);
    field(40, kKernarg);
    machine.memory.map(kPacket, packet.data(), packet.size(), false, "dispatch packet");
    Launch launch{machine, kPacket, kKernarg, kScratch};

    const auto count = [](uint32_t grid, uint32_t block) { return (uint64_t{grid} + block - 1) / block; };
    const uint64_t nx = count(dispatch.grid.x, dispatch.block.x), ny = count(dispatch.grid.y, dispatch.block.y),
                   nz = count(dispatch.grid.z, dispatch.block.z);
    const uint64_t total = dispatch.only.empty() ? nx * ny * nz : dispatch.only.size();
    for (uint64_t number : dispatch.only) {
      if (number >= nx * ny * nz) fault("workgroup " + std::to_string(number) + " is none of " + std::to_string(nx * ny * nz));
    }
    // Workgroups start in an order that the seed chooses: a step that has no common factor with their number.
    uint64_t stride = 1 + machine.random.below(total), start = machine.random.below(total);
    const auto gcd = [](uint64_t a, uint64_t b) {
      while (b != 0) std::tie(a, b) = std::pair(b, a % b);
      return a;
    };
    while (gcd(stride, total) != 1) ++stride;
    const uint64_t at_once = 1 + machine.random.below(std::max(1u, options.resident_workgroups));
    uint64_t launched = 0;
    Instructions& instructions = code.instructions();
    while (launched < total || !resident.empty()) {
      if (options.between_turns && !options.between_turns()) fault("the dispatch was ended by its caller");
      while (launched < total && resident.size() < at_once) {
        uint64_t n = (start + launched++ * stride) % total;
        if (!dispatch.only.empty()) n = dispatch.only[n];
        resident.push_back(
            launch.group({static_cast<uint32_t>(n % nx), static_cast<uint32_t>(n / nx % ny), static_cast<uint32_t>(n / nx / ny)}));
      }
      const size_t chosen = machine.random.below(resident.size());
      Group& g = *resident[chosen];
      size_t runnable = 0;
      for (const auto& w : g.waves) runnable += w->state == Wave::Running ? 1 : 0;
      if (runnable == 0) {
        running = g.waves[0].get();
        for (const auto& w : g.waves) {
          if (w->state == Wave::Barrier) running = w.get();
        }
        if (release_barrier(machine, g)) continue;
        running = nullptr;
        for (auto& w : g.waves) launch.spare.push_back(std::move(w));
        resident.erase(resident.begin() + static_cast<ptrdiff_t>(chosen));
        continue;
      }
      size_t pick = machine.random.below(runnable);
      Wave* w = nullptr;
      for (const auto& candidate : g.waves) {
        candidate->random_progress();
        if (candidate->state == Wave::Running && pick-- == 0) w = candidate.get();
      }
      running = w;
      for (uint64_t quantum = 1 + machine.random.below(96); quantum > 0 && w->state == Wave::Running; --quantum) {
        w->current = nullptr;
        const Instruction& i = instructions.at(w->pc);
        if (i.count++ == 0) machine.executed.push_back(&i);
        if (++machine.statistics.instructions > options.max_instructions)
          fault("the dispatch has not ended after " + std::to_string(options.max_instructions) + " instructions");
        if (i.valu != nullptr || i.matrix != nullptr) machine.statistics.lanes += static_cast<unsigned>(std::popcount(w->exec()));
        w->random_progress();
        step(*w, i);
      }
    }
    if (record != nullptr) record->end(code, kernel, dispatch, machine.statistics.instructions);
  } catch (const Fault& f) {
    outcome.fault = running == nullptr ? "amdgpu: kernel '" + kernel.name + "': " + f.what() : machine.where(*running) + f.what();
  } catch (const std::exception& e) {
    outcome.fault = "amdgpu: kernel '" + kernel.name + "': " + e.what();
  }
  finish();
  return outcome;
}

void fill_hidden_arguments(const Kernel& kernel, const Dispatch& d, std::span<std::byte> kernarg) {
  const uint32_t grid[3] = {d.grid.x, d.grid.y, d.grid.z}, block[3] = {d.block.x, d.block.y, d.block.z};
  for (const Argument& a : kernel.arguments) {
    if (a.kind.substr(0, 7) != "hidden_") continue;
    uint64_t value = 0;
    const unsigned axis = static_cast<unsigned>(a.kind.back() - 'x') % 3;
    if (a.kind.substr(0, 19) == "hidden_block_count_") value = grid[axis] / block[axis];
    if (a.kind.substr(0, 18) == "hidden_group_size_") value = block[axis];
    if (a.kind.substr(0, 17) == "hidden_remainder_") value = grid[axis] % block[axis];
    if (a.kind == "hidden_grid_dims") value = grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1;
    if (uint64_t{a.offset} + a.size > kernarg.size())
      throw std::runtime_error("amdgpu: the arguments of kernel '" + kernel.name + "' are " + std::to_string(kernarg.size()) +
                               " bytes, but argument " + a.kind + " ends after them");
    std::memcpy(kernarg.data() + a.offset, &value, std::min<size_t>(a.size, 8));
  }
}

bool understood(const CodeObject& code, uint64_t address) {
  try {
    code.instructions().at(address);
    return true;
  } catch (const Fault&) {
    return false;
  }
}

std::vector<std::string> implemented() {
  std::vector<std::string> names;
  list_float(names);
  list_integer(names);
  list_lane(names);
  list_scalar(names);
  list_memory(names);
  list_matrix(names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace heddle::amdgpu
