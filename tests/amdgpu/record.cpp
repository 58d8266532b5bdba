// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes dispatches to files, for another emulator to repeat (against_tinygrad.py, which reads them). A file has one line of JSON, then the code object as
// it is loaded, the kernel's arguments, and for each block of memory its bytes before the dispatch and after it.
#include "tests/amdgpu/record.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>

namespace heddle::amdgpu {
namespace {

constexpr uint64_t kMostBytes = uint64_t{8} << 20;  // of memory in one record

// The first dispatch of each kernel and grid, as others have the same instructions.
bool is_first(const CodeObject& code, const Kernel& kernel, const Dispatch& d) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::string_view image(reinterpret_cast<const char*>(code.image().data()), code.image().size());
  std::string key = code.processor() + " " + kernel.name + " " + std::to_string(std::hash<std::string_view>()(image));
  for (const uint32_t extent : {d.grid.x, d.grid.y, d.grid.z, d.block.x, d.block.y, d.block.z}) key += " " + std::to_string(extent);
  std::lock_guard<std::mutex> lock(mutex);
  return known.insert(key).second;
}

}  // namespace

std::unique_ptr<Record> Record::begin(const CodeObject& code, const Kernel& kernel, const Dispatch& dispatch, const Memory& memory) {
  const char* folder = std::getenv("HEDDLE_AMDGPU_RECORD");
  if (folder == nullptr || !dispatch.only.empty() || dispatch.kernarg.size() < kernel.kernarg_bytes) return nullptr;
  auto record = std::unique_ptr<Record>(new Record);
  uint64_t bytes = 0;
  std::set<uint64_t> seen;
  for (const Argument& a : kernel.arguments) {
    if (a.kind != "global_buffer" || a.size != 8) continue;
    uint64_t address = 0;
    std::memcpy(&address, dispatch.kernarg.data() + a.offset, 8);
    const Memory::Block* block = memory.find(address);
    if (block == nullptr) return nullptr;  // a pointer into nothing, from which the kernel computes others
    record->pointers_.push_back(a.offset);
    if (!seen.insert(block->address).second) continue;
    bytes += block->bytes;
    if (bytes > kMostBytes) return nullptr;
    record->blocks_.push_back({*block, {block->host, block->host + block->bytes}});
  }
  if (!is_first(code, kernel, dispatch)) return nullptr;
  static std::atomic<unsigned> number{0};
  record->path_ = std::string(folder) + "/" + std::to_string(::getpid()) + "." + std::to_string(++number) + ".dispatch";
  return record;
}

void Record::end(const CodeObject& code, const Kernel& kernel, const Dispatch& d, uint64_t instructions) const {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  const auto grid = [&](const Grid& g) { return "[" + number(g.x) + "," + number(g.y) + "," + number(g.z) + "]"; };
  std::string line = R"({"processor":")" + code.processor() + R"(","kernel":")" + kernel.name + R"(","grid":)" + grid(d.grid) +
                     R"(,"block":)" + grid(d.block);
  const std::pair<const char*, uint64_t> fields[] = {
      {"entry", kernel.entry},           {"load_address", code.load_address()},
      {"image", code.image().size()},    {"rsrc2", kernel.rsrc2},
      {"properties", kernel.properties}, {"private_bytes", kernel.private_bytes},
      {"wave_size", kernel.wave_size},   {"lds_bytes", uint64_t{kernel.lds_bytes} + d.dynamic_lds_bytes},
      {"kernarg", d.kernarg.size()},     {"instructions", instructions},
  };
  for (const auto& [name, value] : fields) line += std::string(",\"") + name + "\":" + number(value);
  line += ",\"pointers\":[";
  for (size_t n = 0; n < pointers_.size(); ++n) line += (n == 0 ? "" : ",") + number(pointers_[n]);
  line += "],\"blocks\":[";
  for (size_t n = 0; n < blocks_.size(); ++n)
    line += (n == 0 ? "[" : ",[") + number(blocks_[n].where.address) + "," + number(blocks_[n].where.bytes) + "]";
  line += "]}\n";
  std::ofstream file(path_, std::ios::binary);
  const auto write = [&](const void* bytes, size_t size) {
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  };
  write(line.data(), line.size());
  write(code.image().data(), code.image().size());
  write(d.kernarg.data(), d.kernarg.size());
  for (const Before& block : blocks_) {
    write(block.bytes.data(), block.bytes.size());
    write(block.where.host, block.where.bytes);
  }
  if (!file.flush()) throw std::runtime_error("amdgpu: writing '" + path_ + "' failed; HEDDLE_AMDGPU_RECORD has to name a folder");
}

}  // namespace heddle::amdgpu
