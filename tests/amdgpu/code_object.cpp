// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads AMDGPU code objects: segments, symbols, relocations, kernel descriptors, metadata. Source: LLVM, User Guide for AMDGPU Backend, sections "ELF Code
// Object", "Code Object Metadata" and "Kernel Descriptor". Damaged files end in an exception with a text for users.
#include <llvm/BinaryFormat/MsgPackReader.h>
#include <llvm/Support/Error.h>

#include <algorithm>
#include <fstream>

#include "tests/amdgpu/machine.h"

namespace heddle::amdgpu {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw std::runtime_error("amdgpu: reading a code object failed: " + text);
}

// Little-endian fields at checked offsets.
struct Bytes {
  std::span<const std::byte> data;
  const char* what;
  template <class T>
  T at(uint64_t offset) const {
    if (offset > data.size() || data.size() - offset < sizeof(T)) {
      refuse(std::string(what) + " ends at byte " + std::to_string(data.size()) + ", but a field of " + std::to_string(sizeof(T)) +
             " bytes is at " + std::to_string(offset));
    }
    T value;
    std::memcpy(&value, data.data() + offset, sizeof(T));
    return value;
  }
  std::span<const std::byte> part(uint64_t offset, uint64_t bytes, const char* name) const {
    if (offset > data.size() || data.size() - offset < bytes) {
      refuse(std::string(name) + " takes " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + ", but " + what + " has " +
             std::to_string(data.size()));
    }
    return data.subspan(offset, bytes);
  }
  std::string text(uint64_t offset) const {
    std::string result;
    for (char c = at<char>(offset); c != '\0'; c = at<char>(++offset)) result += c;
    return result;
  }
};

const Processor kProcessors[] = {
    {.name = "gfx90a", .machine = 0x3f},
    {.name = "gfx942", .machine = 0x4c, .flat_scratch = true, .cdna3 = true},
    {.name = "gfx1100", .machine = 0x41, .gfx11 = true, .flat_scratch = true},
    {.name = "gfx1201", .machine = 0x4e, .gfx11 = true, .gfx12 = true, .flat_scratch = true},
};
constexpr uint64_t kMaxImage = uint64_t{1} << 30;

// A value of the metadata. LLVM's own document of these is not made for damaged input.
struct Node {
  enum Kind : uint8_t { Other, Number, Text, List, Map } kind = Other;
  uint64_t number = 0;
  std::string text;
  std::vector<Node> list;
  std::map<std::string, Node, std::less<>> map;
};
constexpr unsigned kMaxDepth = 16;

Node read_node(llvm::msgpack::Reader& reader, unsigned depth) {
  llvm::msgpack::Object object;
  llvm::Expected<bool> read = reader.read(object);
  if (!read) refuse("the metadata is no MessagePack: " + llvm::toString(read.takeError()));
  if (!*read) refuse("the metadata ends in the middle of a value");
  if (depth > kMaxDepth) refuse("the metadata is nested too deeply");
  Node node;
  switch (object.Kind) {
    case llvm::msgpack::Type::UInt:
      node.kind = Node::Number;
      node.number = object.UInt;
      break;
    case llvm::msgpack::Type::Int:
      if (object.Int < 0) break;
      node.kind = Node::Number;
      node.number = static_cast<uint64_t>(object.Int);
      break;
    case llvm::msgpack::Type::String:
      node.kind = Node::Text;
      node.text = object.Raw.str();
      break;
    case llvm::msgpack::Type::Array:
      node.kind = Node::List;
      for (size_t n = 0; n < object.Length; ++n) node.list.push_back(read_node(reader, depth + 1));
      break;
    case llvm::msgpack::Type::Map:
      node.kind = Node::Map;
      for (size_t n = 0; n < object.Length; ++n) {
        const Node key = read_node(reader, depth + 1);
        if (key.kind != Node::Text) refuse("the metadata has a key that is no text");
        node.map[key.text] = read_node(reader, depth + 1);
      }
      break;
    default:
      break;
  }
  return node;
}

const Node* member(const Node& map, std::string_view name) {
  if (map.kind != Node::Map) refuse("the metadata has a value of the wrong kind where a map is expected");
  const auto found = map.map.find(name);
  return found == map.map.end() ? nullptr : &found->second;
}
uint64_t number(const Node& map, std::string_view name, std::optional<uint64_t> fallback = {}) {
  const Node* node = member(map, name);
  if (node == nullptr && fallback) return *fallback;
  if (node == nullptr || node->kind != Node::Number) refuse("the metadata has no number '" + std::string(name) + "'");
  return node->number;
}
std::string string(const Node& map, std::string_view name, std::optional<std::string> fallback = {}) {
  const Node* node = member(map, name);
  if (node == nullptr && fallback) return *fallback;
  if (node == nullptr || node->kind != Node::Text) refuse("the metadata has no text '" + std::string(name) + "'");
  return node->text;
}
uint32_t narrow(uint64_t value, const char* what) {
  if (value > 0xffffffff) refuse(std::string(what) + " is " + std::to_string(value) + ", more than 32 bits");
  return static_cast<uint32_t>(value);
}

}  // namespace

const Processor* find_processor(std::string_view name) {
  for (const Processor& p : kProcessors) {
    if (name == p.name) return &p;
  }
  return nullptr;
}

CodeObject::~CodeObject() = default;

std::unique_ptr<CodeObject> CodeObject::load(std::span<const std::byte> bytes, uint64_t load_address) {
  std::unique_ptr<CodeObject> result(new CodeObject);
  CodeObject& code = *result;
  code.file_.assign(bytes.begin(), bytes.end());
  code.load_address_ = load_address != 0 ? load_address : uint64_t{0x5000} << 32;
  const Bytes file{code.file_, "the file"};
  if (file.at<uint32_t>(0) != 0x464c457f || file.at<uint8_t>(4) != 2 || file.at<uint8_t>(5) != 1)
    refuse("this is no 64-bit little-endian ELF file");
  if (file.at<uint16_t>(18) != 224) refuse("the machine is " + std::to_string(file.at<uint16_t>(18)) + ", not AMDGPU (224)");
  if (file.at<uint8_t>(7) != 64) refuse("the operating system is " + std::to_string(file.at<uint8_t>(7)) + ", not HSA (64)");
  const unsigned version = file.at<uint8_t>(8) + 2u;
  if (version != 4 && version != 5) refuse("code object version " + std::to_string(version) + " is not 4 or 5");
  if (file.at<uint16_t>(16) != 3) refuse("this is no shared object; link it with ld.lld -shared");
  const uint32_t processor = file.at<uint32_t>(48) & 0xff;
  for (const Processor& p : kProcessors) {
    if (p.machine == processor) code.processor_ = p.name;
  }
  if (code.processor_.empty())
    refuse("processor " + hex(processor) + " of e_flags is not gfx90a (0x3f), gfx942 (0x4c), gfx1100 (0x41) or gfx1201 (0x4e)");

  // Segments.
  const auto program_headers = file.at<uint64_t>(32);
  const unsigned program_count = file.at<uint16_t>(56);
  if (file.at<uint16_t>(54) != 56 && program_count != 0) refuse("program headers have a size other than 56");
  std::span<const std::byte> metadata;
  uint64_t end = 0;
  const auto header = [&](unsigned n) { return file.part(program_headers + uint64_t{n} * 56, 56, "a program header"); };
  for (unsigned n = 0; n < program_count; ++n) {
    const Bytes h{header(n), "a program header"};
    const auto type = h.at<uint32_t>(0);
    const auto offset = h.at<uint64_t>(8), address = h.at<uint64_t>(16), in_file = h.at<uint64_t>(32), in_memory = h.at<uint64_t>(40);
    if (type == 1) {
      if (in_memory > kMaxImage || address > kMaxImage - in_memory || in_file > in_memory)
        refuse("a segment of more than 1 GiB, or with more bytes in the file than in memory");
      file.part(offset, in_file, "a segment");
      end = std::max(end, address + in_memory);
      if (in_memory != 0) code.segments_.push_back({code.load_address_ + address, in_memory, (h.at<uint32_t>(4) & 2) != 0});
    } else if (type == 4) {
      const Bytes notes{file.part(offset, in_file, "the notes"), "the notes"};
      for (uint64_t at = 0; at + 12 <= notes.data.size();) {
        const uint64_t name_bytes = notes.at<uint32_t>(at), value_bytes = notes.at<uint32_t>(at + 4);
        const auto note = notes.at<uint32_t>(at + 8);
        const uint64_t value_at = at + 12 + (name_bytes + 3) / 4 * 4;
        const auto value = notes.part(value_at, value_bytes, "a note");
        if (note == 32 && name_bytes == 7 && notes.text(at + 12) == "AMDGPU") metadata = value;
        at = value_at + (value_bytes + 3) / 4 * 4;
      }
    }
  }
  if (end == 0) refuse("it has no segments to load");
  if (metadata.empty()) refuse("it has no metadata note");
  code.image_.resize(end);
  for (unsigned n = 0; n < program_count; ++n) {
    const Bytes h{header(n), "a program header"};
    if (h.at<uint32_t>(0) != 1) continue;
    const auto part = file.part(h.at<uint64_t>(8), h.at<uint64_t>(32), "a segment");
    std::copy(part.begin(), part.end(), code.image_.begin() + static_cast<ptrdiff_t>(h.at<uint64_t>(16)));
  }

  // Symbols and relocations.
  const auto section_headers = file.at<uint64_t>(40);
  const unsigned section_count = file.at<uint16_t>(60);
  if (section_count != 0 && file.at<uint16_t>(58) != 64) refuse("section headers have a size other than 64");
  const auto section = [&](unsigned n) {
    return Bytes{file.part(section_headers + uint64_t{n} * 64, 64, "a section header"), "a section header"};
  };
  std::vector<uint64_t> symbol_values;
  for (unsigned n = 0; n < section_count; ++n) {
    const Bytes s = section(n);
    if (s.at<uint32_t>(4) != 11) continue;
    const auto link = s.at<uint32_t>(40);
    if (link >= section_count) refuse("the symbols name section " + std::to_string(link) + " of " + std::to_string(section_count));
    const Bytes strings_header = section(link);
    const Bytes strings{file.part(strings_header.at<uint64_t>(24), strings_header.at<uint64_t>(32), "the names of symbols"),
                        "the names of symbols"};
    const Bytes symbols{file.part(s.at<uint64_t>(24), s.at<uint64_t>(32), "the symbols"), "the symbols"};
    for (uint64_t at = 0; at + 24 <= symbols.data.size(); at += 24) {
      const auto value = symbols.at<uint64_t>(at + 8), size = symbols.at<uint64_t>(at + 16);
      symbol_values.push_back(symbols.at<uint16_t>(at + 6) == 0 ? ~uint64_t{0} : value);
      const std::string name = strings.text(symbols.at<uint32_t>(at));
      if (!name.empty() && symbols.at<uint16_t>(at + 6) != 0) code.symbols_[name] = {value, size};
    }
  }
  for (unsigned n = 0; n < section_count; ++n) {
    const Bytes s = section(n);
    if (s.at<uint32_t>(4) != 4 || (s.at<uint64_t>(8) & 2) == 0) continue;  // SHT_RELA that is loaded
    const Bytes entries{file.part(s.at<uint64_t>(24), s.at<uint64_t>(32), "the relocations"), "the relocations"};
    for (uint64_t at = 0; at + 24 <= entries.data.size(); at += 24) {
      const auto offset = entries.at<uint64_t>(at), info = entries.at<uint64_t>(at + 8), addend = entries.at<uint64_t>(at + 16);
      const auto type = static_cast<uint32_t>(info), symbol = static_cast<uint32_t>(info >> 32);
      uint64_t value = code.load_address_ + addend;
      if (type == 3) {  // R_AMDGPU_ABS64
        if (symbol >= symbol_values.size() || symbol_values[symbol] == ~uint64_t{0})
          refuse("a relocation needs symbol " + std::to_string(symbol) + ", which is not defined");
        value += symbol_values[symbol];
      } else if (type != 13) {  // R_AMDGPU_RELATIVE64
        refuse("relocation type " + std::to_string(type) + " is not implemented");
      }
      if (offset > code.image_.size() || code.image_.size() - offset < 8) refuse("a relocation outside of the segments");
      std::memcpy(code.image_.data() + offset, &value, 8);
    }
  }

  // Metadata.
  llvm::msgpack::Reader reader(llvm::StringRef(reinterpret_cast<const char*>(metadata.data()), metadata.size()));
  const Node root = read_node(reader, 0);
  code.target_ = string(root, "amdhsa.target");
  if (code.target_.find("--" + code.processor_) == std::string::npos) {
    refuse("the metadata is for '" + code.target_ + "', e_flags for " + code.processor_);
  }
  const Node* kernels = member(root, "amdhsa.kernels");
  if (kernels == nullptr || kernels->kind != Node::List) refuse("the metadata has no list 'amdhsa.kernels'");
  const Bytes image{code.image_, "the loaded image"};
  for (const Node& node : kernels->list) {
    Kernel k;
    k.name = string(node, ".name");
    const std::string symbol = string(node, ".symbol");
    const auto found = code.symbols_.find(symbol);
    if (found == code.symbols_.end()) refuse("the metadata names kernel descriptor '" + symbol + "', which is no symbol");
    k.descriptor = found->second.value;
    k.lds_bytes = image.at<uint32_t>(k.descriptor);
    k.private_bytes = image.at<uint32_t>(k.descriptor + 4);
    k.kernarg_bytes = image.at<uint32_t>(k.descriptor + 8);
    k.entry = k.descriptor + static_cast<uint64_t>(image.at<int64_t>(k.descriptor + 16));
    k.rsrc3 = image.at<uint32_t>(k.descriptor + 44);
    k.rsrc1 = image.at<uint32_t>(k.descriptor + 48);
    k.rsrc2 = image.at<uint32_t>(k.descriptor + 52);
    k.properties = image.at<uint16_t>(k.descriptor + 56);
    if (image.at<uint16_t>(k.descriptor + 58) != 0) refuse("kernel '" + k.name + "' preloads arguments, which is not implemented");
    if (k.entry % 256 != 0 || k.entry >= code.image_.size())
      refuse("kernel '" + k.name + "' starts at " + hex(k.entry) + ", outside of the image or not at a multiple of 256");
    const auto agree = [&](uint32_t descriptor, const std::string& key) {
      const uint64_t stated = number(node, key);
      if (stated != descriptor) {
        refuse("kernel '" + k.name + "': the descriptor says " + std::to_string(descriptor) + " and the metadata " +
               std::to_string(stated) + " for " + key);
      }
    };
    agree(k.lds_bytes, ".group_segment_fixed_size");
    agree(k.private_bytes, ".private_segment_fixed_size");
    agree(k.kernarg_bytes, ".kernarg_segment_size");
    k.kernarg_alignment = narrow(number(node, ".kernarg_segment_align"), ".kernarg_segment_align");
    k.wave_size = narrow(number(node, ".wavefront_size"), ".wavefront_size");
    const uint32_t wave = (k.properties & 1 << 10) != 0 ? 32 : 64;
    if (wave != k.wave_size) refuse("kernel '" + k.name + "': the descriptor and the metadata disagree about the size of a wave");
    k.dynamic_stack = (k.properties & 1 << 11) != 0;
    k.max_workgroup = narrow(number(node, ".max_flat_workgroup_size"), ".max_flat_workgroup_size");
    k.sgprs = narrow(number(node, ".sgpr_count"), ".sgpr_count");
    k.vgprs = narrow(number(node, ".vgpr_count"), ".vgpr_count");
    k.agprs = narrow(number(node, ".agpr_count", 0), ".agpr_count");
    k.sgpr_spills = narrow(number(node, ".sgpr_spill_count", 0), ".sgpr_spill_count");
    k.vgpr_spills = narrow(number(node, ".vgpr_spill_count", 0), ".vgpr_spill_count");
    const bool gfx9 = !find_processor(code.processor_)->gfx11;
    k.vgprs_allocated = ((k.rsrc1 & 63) + 1) * (wave == 32 || gfx9 ? 8 : 4);
    k.sgprs_allocated = gfx9 ? std::min(102u, ((k.rsrc1 >> 6 & 15) / 2 + 1) * 16) : 106;
    k.accum_offset = gfx9 ? ((k.rsrc3 & 63) + 1) * 4 : 256;
    if (const Node* list = member(node, ".args"); list != nullptr) {
      if (list->kind != Node::List) refuse("the arguments of kernel '" + k.name + "' are no list");
      for (const Node& argument : list->list) {
        k.arguments.push_back({string(argument, ".name", ""), string(argument, ".value_kind"),
                               narrow(number(argument, ".offset"), ".offset"), narrow(number(argument, ".size"), ".size")});
        const Argument& a = k.arguments.back();
        if (uint64_t{a.offset} + a.size > k.kernarg_bytes)
          refuse("argument '" + a.name + "' of kernel '" + k.name + "' ends after the arguments");
      }
    }
    code.kernels_.push_back(std::move(k));
  }
  // The disassembler has one size for all.
  const unsigned wave_size = code.kernels_.empty() ? 64 : code.kernels_.front().wave_size;
  for (const Kernel& k : code.kernels_) {
    if (k.wave_size != wave_size)
      refuse("it has kernels with waves of " + std::to_string(wave_size) + " and of " + std::to_string(k.wave_size));
  }
  code.instructions_ = make_instructions(code.processor_, wave_size, code.image_);
  return result;
}

const Kernel* CodeObject::kernel(std::string_view name) const {
  for (const Kernel& k : kernels_) {
    if (k.name == name) return &k;
  }
  return nullptr;
}

const Kernel* CodeObject::kernel_at(uint64_t descriptor_address) const {
  for (const Kernel& k : kernels_) {
    if (load_address_ + k.descriptor == descriptor_address) return &k;
  }
  return nullptr;
}

bool CodeObject::symbol(std::string_view name, uint64_t& address, uint64_t& bytes) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) return false;
  address = load_address_ + found->second.value;
  bytes = found->second.bytes;
  return true;
}

std::vector<Line> CodeObject::listing(std::string_view name) const {
  const Kernel* k = kernel(name);
  if (k == nullptr) throw std::runtime_error("amdgpu: there is no kernel '" + std::string(name) + "'");
  uint64_t end = image_.size();
  if (const auto found = symbols_.find(name); found != symbols_.end() && found->second.bytes != 0)
    end = std::min(end, k->entry + found->second.bytes);
  // The bytes of the image are those of the file, except for relocations.
  const Bytes file{file_, "the file"};
  uint64_t delta = 0;
  for (unsigned n = 0; n < file.at<uint16_t>(56); ++n) {
    const Bytes h{file.part(file.at<uint64_t>(32) + uint64_t{n} * 56, 56, "a program header"), "a program header"};
    if (h.at<uint32_t>(0) == 1 && k->entry >= h.at<uint64_t>(16) && k->entry < h.at<uint64_t>(16) + h.at<uint64_t>(40)) {
      delta = h.at<uint64_t>(8) - h.at<uint64_t>(16);
    }
  }
  std::vector<Line> lines;
  for (uint64_t at = k->entry; at + 4 <= end;) {
    uint32_t size = 4;
    std::string text = instructions_->text(at, size);
    lines.push_back({at, static_cast<size_t>(at + delta), size, std::move(text)});
    at += size;
  }
  return lines;
}

}  // namespace heddle::amdgpu
