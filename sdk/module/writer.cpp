// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writing: parameters are hashed first, since their hashes are in the metadata before them; then everything is written in file order.
#include "sdk/module/writer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "sdk/module/layout.h"
#include "sdk/module/output_file.h"
#include "sdk/module/verifier.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace heddle::module {
namespace {

module_format::Range append_aligned(std::vector<std::byte>& section, std::span<const std::byte> bytes, uint64_t alignment) {
  section.resize(align_up(section.size(), alignment));
  const module_format::Range range(section.size(), bytes.size());
  section.insert(section.end(), bytes.begin(), bytes.end());
  return range;
}

// The model exceeds a limit of the format.
Error beyond(const OutputFile& file, std::string_view cause) {
  return {HEDDLE_STATUS_INVALID_ARGUMENT,
          concat("module: writing ", in_quotes(file.path()), " failed: ", cause, "; compile a smaller model, or split this one")};
}

Error invalid(std::string_view cause) {
  return {HEDDLE_STATUS_INVALID_ARGUMENT, concat("module: writing a file failed: ", cause, "; this is a bug in the compiler")};
}

}  // namespace

namespace {

// The version of the oldest readers that understand the module.
uint16_t minor_of(const module_format::ModuleT& module) {
  uint16_t minor = kFormatMinorOfKernels;
  auto look = [&](const module_format::ProgramT& program) {
    auto has_operation = [](const auto& site) { return site->operation != nullptr; };
    if (std::any_of(program.dispatches.begin(), program.dispatches.end(), has_operation)) minor = std::max(minor, kFormatMinorOfOperations);
    if (program.checks) minor = std::max(minor, kFormatMinorOfChecks);
    for (const module_format::Instruction& at : program.code) {
      if (at.op() == static_cast<uint16_t>(module_format::Op::ComputeUnits)) minor = std::max(minor, kFormatMinorOfChecks);
      if (at.op() == static_cast<uint16_t>(module_format::Op::Submit)) minor = std::max(minor, kFormatMinorOfPieces);
    }
  };
  for (const auto& executable : module.executables) {
    for (const auto& variant : executable->variants) {
      auto has_flags = [](const auto& resources) { return resources->flags.value_or(0) != 0; };
      if (std::any_of(variant->resources.begin(), variant->resources.end(), has_flags)) minor = std::max(minor, kFormatMinorOfChecks);
    }
  }
  for (const auto& program : module.initializer) look(*program);
  for (const auto& function : module.functions) {
    if (function->donations) minor = std::max(minor, kFormatMinorOfChecks);
    for (const auto& program : function->programs) look(*program);
  }
  return minor;
}

}  // namespace

module_format::Range ModuleWriter::add_code(std::span<const std::byte> image) {
  for (const module_format::Range& known : images_) {
    if (known.length() == image.size() && std::equal(image.begin(), image.end(), code_.begin() + static_cast<ptrdiff_t>(known.offset()))) {
      return known;
    }
  }
  images_.push_back(append_aligned(code_, image, kPageAlignment));
  return images_.back();
}

module_format::Range ModuleWriter::add_constant(std::span<const std::byte> data) {
  std::string key(reinterpret_cast<const char*>(data.data()), data.size());
  if (auto known = known_constants_.find(key); known != known_constants_.end()) return known->second;
  const module_format::Range range = append_aligned(constants_, data, kSectionAlignment);
  known_constants_.emplace(std::move(key), range);
  return range;
}

void ModuleWriter::set_parameter(uint32_t index, ParameterSource source) {
  sources_[index] = std::move(source);
}

Status ModuleWriter::write(module_format::ModuleT& module, const std::string& path) {
  OutputFile file(path);
  if (Status failed = prepare(module, file)) return failed;
  return file.commit();
}

Status ModuleWriter::prepare(module_format::ModuleT& module, OutputFile& file) try {
  using module_format::GlobalKind;
  uint64_t parameters_bytes = 0;
  for (auto& [index, source] : sources_) {
    if (index >= module.parameters.size()) {
      return invalid(concat("there are bytes for parameter ", index, " of ", module.parameters.size()));
    }
    if (!source.read && source.bytes.size() != source.size_bytes) {
      return invalid(
          concat("parameter ", index, " has a source of ", source.bytes.size(), " bytes, but its stated size is ", source.size_bytes));
    }
  }
  for (uint32_t index = 0; index < module.parameters.size(); ++index) {
    module_format::ParameterT& parameter = *module.parameters[index];
    const auto found = sources_.find(index);
    parameter.stored = found != sources_.end();
    parameter.data.reset();
    if (!parameter.stored) continue;
    parameter.hash = 0;
    parameters_bytes = align_up(parameters_bytes, kSectionAlignment);
    parameter.data = std::make_unique<module_format::Range>(parameters_bytes, found->second.size_bytes);
    if (__builtin_add_overflow(parameters_bytes, found->second.size_bytes, &parameters_bytes) || parameters_bytes > kMaxSizeBytes) {
      return beyond(file, concat("its parameters have ", parameters_bytes, " bytes in all, above ", kMaxSizeBytes));
    }
  }
  for (auto& global : module.globals) {
    if (global->kind == GlobalKind::Parameter && global->index < module.parameters.size()) {
      global->size_bytes = module.parameters[global->index]->size_bytes;
    }
    if (global->kind == GlobalKind::Constant && global->data) global->size_bytes = global->data->length();
  }

  // Hashes are known once the parameters are written, and have the same size as the zeros in their place until then.
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  builder.ForceDefaults(true);
  auto pack = [&] {
    builder.Clear();
    module_format::FinishModuleBuffer(builder, module_format::Module::Pack(builder, &module));
    return std::span<const std::byte>(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize());
  };
  std::span<const std::byte> metadata = pack();
  if (Status failed = verify_metadata(metadata, {constants_.size(), code_.size(), parameters_bytes})) return invalid(failed->message);

  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.format_major = kFormatMajor;
  header.format_minor = minor_of(module);
  header.section_count = kSectionCount;
  const uint64_t sizes[kSectionCount] = {metadata.size(), constants_.size(), code_.size(), parameters_bytes};
  uint64_t end = sizeof(header);
  for (uint32_t i = 0; i < kSectionCount; ++i) {
    header.sections[i] = {i, 0, align_up(end, kSectionAlignments[i]), sizes[i]};
    end = header.sections[i].offset + sizes[i];
  }
  header.file_bytes = end;
  if (metadata.size() > kMaxMetadataBytes || header.sections[3].offset > kMaxHeadBytes) {
    return beyond(file, concat("it has ", metadata.size(), " bytes of metadata and ", header.sections[3].offset,
                               " bytes before the parameters; the limits are ", kMaxMetadataBytes, " and ", kMaxHeadBytes));
  }

  std::vector<std::byte> head(header.sections[3].offset);
  if (Status failed = file.open()) return failed;
  if (Status failed = file.append(head)) return failed;
  for (const auto& [index, source] : sources_) {
    if (Status failed = file.pad_to(kSectionAlignment)) return failed;
    const Result<uint64_t> hash = hash_each_piece(source, [&](std::span<const std::byte> piece) { return file.append(piece); });
    if (!hash) return hash.error();
    module.parameters[index]->hash = hash.value();
  }
  metadata = pack();
  if (file.size_bytes() != header.file_bytes || metadata.size() != header.sections[0].size) {
    return invalid(concat("its parts have ", file.size_bytes(), " bytes of file and ", metadata.size(), " of metadata, expected ",
                          header.file_bytes, " and ", header.sections[0].size));
  }

  // The part before the parameters is small: it is built in memory, hashed and written.
  std::memcpy(head.data(), &header, sizeof(header));
  auto place = [&](uint32_t section, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(head.data() + header.sections[section].offset, bytes.data(), bytes.size());
  };
  place(0, metadata);
  place(1, constants_);
  place(2, code_);
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(head.data(), head.size()));
  std::memcpy(head.data() + offsetof(FileHeader, content_hash), hash.digest, 16);
  if (Status failed = file.overwrite(0, head)) return failed;
  return file.finish();
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: writing a file failed: out of memory; free memory"};
}

}  // namespace heddle::module
