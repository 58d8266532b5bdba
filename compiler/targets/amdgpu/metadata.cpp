// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See metadata.h. A note has a header of three words, a name, and the description; the latter two are padded to words.
#include "compiler/targets/amdgpu/metadata.h"

#include <cstring>
#include <optional>

#include "llvm/BinaryFormat/AMDGPUMetadataVerifier.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/BinaryFormat/MsgPackReader.h"
#include "llvm/Object/ELF.h"

namespace heddle::targets::amdgpu {
namespace {

using llvm::msgpack::DocNode;
using llvm::msgpack::Document;

constexpr llvm::StringLiteral owner = llvm::StringLiteral::withInnerNUL("AMDGPU\0");
constexpr llvm::StringLiteral kernels_key("amdhsa.kernels"), target_key("amdhsa.target");

llvm::Error wrong(const llvm::Twine& cause) {
  return llvm::createStringError("amdgpu: reading the metadata of a code object failed: " + cause);
}

size_t padded(size_t size) {
  return llvm::alignTo(size, sizeof(uint32_t));
}

// The description of the only metadata note, in the bytes of the file.
llvm::Expected<llvm::StringRef> find_metadata(llvm::StringRef elf) {
  auto file = llvm::object::ELF64LEFile::create(elf);
  if (!file) return wrong(llvm::toString(file.takeError()));
  if (file->getHeader().e_machine != llvm::ELF::EM_AMDGPU) return wrong("it is not for AMD GPUs");
  auto sections = file->sections();
  if (!sections) return wrong(llvm::toString(sections.takeError()));
  std::optional<llvm::StringRef> found;
  for (const auto& section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_NOTE) continue;
    auto bytes = file->getSectionContents(section);
    if (!bytes) return wrong(llvm::toString(bytes.takeError()));
    llvm::StringRef notes(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    while (!notes.empty()) {
      llvm::ELF::Elf64_Nhdr header;
      if (notes.size() < sizeof header) return wrong("a note ends after " + llvm::Twine(notes.size()) + " bytes of its header");
      std::memcpy(&header, notes.data(), sizeof header);
      notes = notes.drop_front(sizeof header);
      const uint64_t needed = uint64_t{padded(header.n_namesz)} + padded(header.n_descsz);
      if (needed > notes.size()) {
        return wrong("a note needs " + llvm::Twine(needed) + " bytes after its header, and its section has " + llvm::Twine(notes.size()));
      }
      const bool is_ours = header.n_type == llvm::ELF::NT_AMDGPU_METADATA && notes.take_front(header.n_namesz) == owner;
      const llvm::StringRef description = notes.substr(padded(header.n_namesz), header.n_descsz);
      notes = notes.drop_front(needed);
      if (!is_ours) continue;
      if (found) return wrong("it has more than one note with metadata");
      found = description;
    }
  }
  if (!found) return wrong("it has no note with metadata");
  return *found;
}

// Whether the text is one complete object whose maps have text as keys; LLVM's Document takes other keys for a fault of the program.
bool is_document(llvm::StringRef metadata) {
  constexpr size_t most_levels = 16;
  llvm::msgpack::Reader reader(metadata);
  struct Level {
    uint64_t left;
    bool is_map;
  };
  llvm::SmallVector<Level> levels;
  do {
    llvm::msgpack::Object object;
    auto has_read = reader.read(object);
    if (!has_read) return llvm::consumeError(has_read.takeError()), false;
    if (!*has_read || object.Kind == llvm::msgpack::Type::Extension || levels.size() == most_levels) return false;
    if (!levels.empty()) {
      if (levels.back().is_map && levels.back().left % 2 == 0 && object.Kind != llvm::msgpack::Type::String) return false;
      --levels.back().left;
    }
    if (object.Kind == llvm::msgpack::Type::Map) levels.push_back({uint64_t{object.Length} * 2, true});
    if (object.Kind == llvm::msgpack::Type::Array) levels.push_back({object.Length, false});
    while (!levels.empty() && levels.back().left == 0) levels.pop_back();
  } while (!levels.empty());
  return true;
}

// Parsed, and with the entries that AMDGPUUsage requires.
llvm::Error parse(llvm::StringRef metadata, Document& document) {
  if (!is_document(metadata) || !document.readFromBlob(metadata, /*Multi=*/false)) return wrong("it is not valid MessagePack");
  if (!llvm::AMDGPU::HSAMD::V3::MetadataVerifier(/*Strict=*/true).verify(document.getRoot())) {
    return wrong("an entry is missing, or not of its type");
  }
  return llvm::Error::success();
}

// A number of a kernel, which may be absent; the verifier has checked its type.
uint64_t number(llvm::msgpack::MapDocNode& map, llvm::StringRef key) {
  auto entry = map.find(key);
  if (entry == map.end()) return 0;
  const DocNode& node = entry->second;
  return node.getKind() == llvm::msgpack::Type::UInt ? node.getUInt() : static_cast<uint64_t>(node.getInt());
}

std::string text(llvm::msgpack::MapDocNode& map, llvm::StringRef key) {
  auto entry = map.find(key);
  return entry == map.end() || !entry->second.isString() ? std::string() : entry->second.getString().str();
}

KernelMetadata read_kernel(llvm::msgpack::MapDocNode& map) {
  KernelMetadata kernel;
  kernel.name = text(map, ".name");
  kernel.registers = number(map, ".vgpr_count");
  kernel.accumulators = number(map, ".agpr_count");
  kernel.scalar_registers = number(map, ".sgpr_count");
  kernel.spilled_registers = number(map, ".vgpr_spill_count");
  kernel.spilled_scalar_registers = number(map, ".sgpr_spill_count");
  kernel.shared_bytes = number(map, ".group_segment_fixed_size");
  kernel.private_bytes = number(map, ".private_segment_fixed_size");
  kernel.kernarg_bytes = number(map, ".kernarg_segment_size");
  kernel.wave_size = number(map, ".wavefront_size");
  kernel.workgroup_size = number(map, ".max_flat_workgroup_size");
  auto arguments = map.find(".args");
  if (arguments == map.end()) return kernel;
  for (DocNode& argument : arguments->second.getArray()) {
    auto& fields = argument.getMap();
    kernel.arguments.push_back({number(fields, ".offset"), number(fields, ".size"), text(fields, ".value_kind")});
  }
  return kernel;
}

}  // namespace

llvm::Expected<CodeObject> read_metadata(llvm::StringRef elf) {
  auto metadata = find_metadata(elf);
  if (!metadata) return metadata.takeError();
  Document document;
  if (llvm::Error error = parse(*metadata, document)) return error;
  auto& root = document.getRoot().getMap();
  CodeObject code{text(root, target_key), {}};
  if (code.target.empty()) return wrong("it does not name its target");
  for (DocNode& kernel : root[kernels_key].getArray()) {
    code.kernels.push_back(read_kernel(kernel.getMap()));
    if (const KernelMetadata& read = code.kernels.back(); text(kernel.getMap(), ".symbol") != read.name + ".kd") {
      return wrong("the descriptor of kernel '" + read.name + "' has another name");
    }
  }
  return code;
}

llvm::Expected<std::string> join_metadata(llvm::ArrayRef<llvm::StringRef> objects, llvm::ArrayRef<llvm::StringRef> names) {
  Document all;
  // Arrays grow at their ends, except the version, which is the same everywhere, as is the target.
  auto merge = [](DocNode* old, DocNode added, DocNode key) -> int {
    if (old->isMap() && added.isMap()) return 0;
    if (!old->isArray() || !added.isArray()) return *old == added ? 0 : -1;
    return key.isString() && key.getString() == kernels_key ? static_cast<int>(old->getArray().size()) : 0;
  };
  for (auto [object, name] : llvm::zip_equal(objects, names)) {
    auto metadata = find_metadata(object);
    if (!metadata) return metadata.takeError();
    Document own;
    if (llvm::Error error = parse(*metadata, own)) return error;
    if (own.getRoot().getMap()[kernels_key].getArray().size() != 1) return wrong("a unit does not have one kernel");
    if (!all.readFromBlob(*metadata, /*Multi=*/false, merge)) return wrong("units of code are for different targets");
    auto& kernels = all.getRoot().getMap()[kernels_key].getArray();
    auto& kernel = kernels[kernels.size() - 1].getMap();
    kernel[".name"] = all.getNode(name, /*Copy=*/true);
    kernel[".symbol"] = all.getNode((name + ".kd").str(), /*Copy=*/true);
  }
  std::string description;
  all.writeToBlob(description);
  const llvm::ELF::Elf64_Nhdr header{static_cast<uint32_t>(owner.size()), static_cast<uint32_t>(description.size()),
                                     llvm::ELF::NT_AMDGPU_METADATA};
  std::string note(reinterpret_cast<const char*>(&header), sizeof header);
  note += owner;
  note.resize(padded(note.size()));
  note += description;
  note.resize(padded(note.size()));
  return note;
}

}  // namespace heddle::targets::amdgpu
