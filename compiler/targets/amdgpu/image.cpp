// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See image.h. Objects come from the cache of kernels, so their kernels have the names of units: both symbols of each kernel and its metadata are
// renamed. A loader reads one note, so the first object gets the metadata of all, and the others lose theirs.
#include "compiler/targets/amdgpu/image.h"

#include <algorithm>

#include "compiler/targets/amdgpu/metadata.h"
#include "compiler/targets/elf_link.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/AMDHSAKernelDescriptor.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"

namespace heddle::targets::amdgpu {
namespace {

constexpr llvm::StringLiteral note_section(".note");
constexpr uint64_t argument_bytes = 8, register_bytes = 4;

llvm::StringRef bytes_of(llvm::ArrayRef<char> bytes) {
  return {bytes.data(), bytes.size()};
}

// LLVM 19 fills in the number of scalar registers also where it has to be 0 (AMDGPUUsage, "Kernel Descriptor").
llvm::Error clear_scalar_count(const llvm::object::ObjectFile& file, const std::string& descriptor, llvm::MutableArrayRef<char> object) {
  auto wrong = [&](llvm::Error error) {
    return llvm::createStringError("the descriptor '" + descriptor + "' cannot be read: " + llvm::toString(std::move(error)));
  };
  for (const llvm::object::SymbolRef& symbol : file.symbols()) {
    auto name = symbol.getName();
    if (!name) return wrong(name.takeError());
    if (*name != descriptor) continue;
    auto section = symbol.getSection();
    if (!section) return wrong(section.takeError());
    auto contents = (*section)->getContents();
    if (!contents) return wrong(contents.takeError());
    auto start = symbol.getValue();
    if (!start) return wrong(start.takeError());
    if (*start > contents->size() || contents->size() - *start < sizeof(llvm::amdhsa::kernel_descriptor_t)) {
      return wrong(llvm::createStringError("it is not inside of its section"));
    }
    char* word = object.data() + (contents->data() - object.data()) + *start + llvm::amdhsa::COMPUTE_PGM_RSRC1_OFFSET;
    llvm::support::endian::write32le(
        word, llvm::support::endian::read32le(word) & ~uint32_t{llvm::amdhsa::COMPUTE_PGM_RSRC1_GRANULATED_WAVEFRONT_SGPR_COUNT});
    return llvm::Error::success();
  }
  return wrong(llvm::createStringError("there is no such symbol"));
}

// The object with the kernel's name and with this note, or, if it is empty, without one.
llvm::Expected<std::vector<char>> rename(std::vector<char> object, const Chip& chip, const LinkedKernel& kernel, const std::string& note) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(bytes_of(object), kernel.unit));
  if (!file) return file.takeError();
  const std::string old_descriptor = kernel.unit + ".kd", descriptor = kernel.symbol + ".kd";
  if (!chip.has_scalar_count) {
    if (llvm::Error error = clear_scalar_count(**file, old_descriptor, object)) return error;
  }
  llvm::objcopy::ConfigManager config;
  config.Common.SymbolsToRename[kernel.unit] = kernel.symbol;
  config.Common.SymbolsToRename[old_descriptor] = descriptor;
  if (note.empty()) {
    auto name =
        llvm::objcopy::NameOrPattern::create(note_section, llvm::objcopy::MatchStyle::Literal, [](llvm::Error error) { return error; });
    if (llvm::Error error = config.Common.ToRemove.addMatcher(std::move(name))) return error;
  } else {
    config.Common.UpdateSection.emplace_back(note_section, llvm::MemoryBuffer::getMemBuffer(note, "", /*RequiresNullTerminator=*/false));
  }
  llvm::SmallString<0> renamed;
  llvm::raw_svector_ostream stream(renamed);
  if (llvm::Error error = llvm::objcopy::executeObjcopyOnBinary(config, **file, stream)) return error;
  return std::vector<char>(renamed.begin(), renamed.end());
}

// Waves of a kernel that a SIMD runs at the same time.
uint32_t occupancy_of(const KernelMetadata& kernel, const Chip& chip, uint32_t workgroup_size) {
  const uint64_t registers = std::max<uint64_t>(llvm::alignTo(kernel.registers, chip.register_block), chip.register_block);
  uint64_t waves = std::min<uint64_t>(chip.most_waves, chip.register_file / registers);
  if (kernel.shared_bytes > 0) {
    const uint64_t workgroups = chip.shared_file_bytes / kernel.shared_bytes;
    const uint64_t workgroup_waves = llvm::divideCeil(workgroup_size, chip.wave_size);
    waves = std::min(waves, llvm::divideCeil(workgroups * workgroup_waves, chip.simds));
  }
  return static_cast<uint32_t>(waves);
}

// Reasons for which the chip cannot run the kernel, or a driver not call it.
llvm::Error check(const KernelMetadata& kernel, const Chip& chip, const LinkedKernel& linked, const KernelResources& resources) {
  auto wrong = [&](const llvm::Twine& cause) {
    return llvm::createStringError("amdgpu: kernel '" + linked.symbol + "' for " + std::string(chip.name) + " " + cause);
  };
  struct Limit {
    const char* what;
    uint64_t needed, most;
  };
  for (const Limit& limit : {Limit{"bytes of local memory", kernel.shared_bytes, most_shared_bytes},
                             Limit{"threads in a workgroup", resources.workgroup_size, most_workgroup_size},
                             Limit{"vector registers", kernel.registers, chip.most_registers},
                             Limit{"scalar registers", kernel.scalar_registers, most_scalar_registers},
                             Limit{"bytes of private memory in each thread", kernel.private_bytes, chip.most_private_bytes}}) {
    if (limit.needed > limit.most) {
      return wrong("needs " + llvm::Twine(limit.needed) + " " + limit.what + ", and the chip has " + llvm::Twine(limit.most));
    }
  }
  if (kernel.wave_size != chip.wave_size || kernel.workgroup_size != resources.workgroup_size) {
    return wrong("was compiled for waves of " + llvm::Twine(kernel.wave_size) + " threads in workgroups of " +
                 llvm::Twine(kernel.workgroup_size) + ", and should be for " + llvm::Twine(chip.wave_size) + " and " +
                 llvm::Twine(resources.workgroup_size));
  }
  if (linked.argument_count && kernel.arguments.size() != *linked.argument_count) {
    return wrong("has " + llvm::Twine(kernel.arguments.size()) + " arguments, and a driver passes " + llvm::Twine(*linked.argument_count));
  }
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const KernelMetadata::Argument& argument = kernel.arguments[i];
    if (argument.offset == i * argument_bytes && argument.size == argument_bytes &&
        !llvm::StringRef(argument.kind).starts_with("hidden_")) {
      continue;
    }
    return wrong("expects argument " + llvm::Twine(i) + " (" + argument.kind + ") at byte " + llvm::Twine(argument.offset) + ", of " +
                 llvm::Twine(argument.size) + " bytes; drivers pass 8 bytes at byte " + llvm::Twine(i * argument_bytes));
  }
  if (kernel.kernarg_bytes != kernel.arguments.size() * argument_bytes) {
    return wrong("reads " + llvm::Twine(kernel.kernarg_bytes) + " bytes of arguments, and drivers pass " +
                 llvm::Twine(kernel.arguments.size() * argument_bytes));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::vector<char>> link_image(llvm::ArrayRef<llvm::ArrayRef<char>> objects, const Chip& chip,
                                             llvm::ArrayRef<LinkedKernel> kernels) {
  if (objects.size() != kernels.size()) {
    return llvm::createStringError("amdgpu: linking failed: kernels call functions of other units, which is not supported");
  }
  llvm::SmallVector<llvm::StringRef> texts, names;
  for (auto [object, kernel] : llvm::zip_equal(objects, kernels)) {
    texts.push_back(bytes_of(object));
    names.push_back(kernel.symbol);
  }
  auto note = join_metadata(texts, names);
  if (!note) return note.takeError();
  std::vector<std::vector<char>> renamed;
  for (auto [object, kernel] : llvm::zip_equal(objects, kernels)) {
    auto copy = rename(object.vec(), chip, kernel, renamed.empty() ? *note : std::string());
    if (!copy) return llvm::createStringError("amdgpu: naming kernel '" + kernel.symbol + "' failed: " + llvm::toString(copy.takeError()));
    renamed.push_back(std::move(*copy));
  }
  std::string error;
  const ElfLink link{.who = "amdgpu", .options = {"--discard-all"}, .version_script = {}};
  std::vector<char> image = link_elf(llvm::SmallVector<llvm::ArrayRef<char>>(renamed.begin(), renamed.end()), link, error);
  if (image.empty()) return llvm::createStringError(error);
  return image;
}

llvm::Error inspect_image(llvm::ArrayRef<char> image, const Chip& chip, llvm::ArrayRef<LinkedKernel> kernels,
                          llvm::MutableArrayRef<KernelResources> resources) {
  auto code = read_metadata(bytes_of(image));
  if (!code) return code.takeError();
  llvm::StringMap<const KernelMetadata*> by_name;
  for (const KernelMetadata& kernel : code->kernels) by_name[kernel.name] = &kernel;
  for (auto [linked, needs] : llvm::zip_equal(kernels, resources)) {
    const KernelMetadata* kernel = by_name.lookup(linked.symbol);
    if (!kernel) return llvm::createStringError("amdgpu: the metadata of an image lacks kernel '" + linked.symbol + "'");
    if (llvm::Error error = check(*kernel, chip, linked, needs)) return error;
    needs.subgroup_size = chip.wave_size;
    needs.shared_memory_bytes = kernel->shared_bytes;
    needs.registers = static_cast<uint32_t>(kernel->registers);
    needs.spilled_bytes = kernel->spilled_registers * register_bytes;
    needs.machine = MachineResources{.scalar_registers = static_cast<uint32_t>(kernel->scalar_registers),
                                     .accumulators = static_cast<uint32_t>(kernel->accumulators),
                                     .spilled_scalar_registers = static_cast<uint32_t>(kernel->spilled_scalar_registers),
                                     .private_bytes = kernel->private_bytes,
                                     .argument_bytes = kernel->kernarg_bytes,
                                     .occupancy = occupancy_of(*kernel, chip, needs.workgroup_size)};
  }
  return llvm::Error::success();
}

}  // namespace heddle::targets::amdgpu
