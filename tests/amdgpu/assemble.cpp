// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/amdgpu/assemble.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/MC/MCAsmBackend.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCCodeEmitter.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCObjectFileInfo.h>
#include <llvm/MC/MCObjectWriter.h>
#include <llvm/MC/MCParser/MCAsmParser.h>
#include <llvm/MC/MCParser/MCTargetAsmParser.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCStreamer.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>

#include <cstring>
#include <stdexcept>

namespace heddle::amdgpu {

std::vector<std::byte> assemble(const std::string& processor, const std::string& text, unsigned wave_size) {
  static const bool initialized = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmParser();
    return true;
  }();
  static_cast<void>(initialized);
  const llvm::Triple triple("amdgcn-amd-amdhsa");
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple.str(), error);
  if (target == nullptr) throw std::runtime_error("LLVM has no AMDGPU target: " + error);
  llvm::MCTargetOptions options;
  const std::unique_ptr<llvm::MCRegisterInfo> registers(target->createMCRegInfo(triple.str()));
  const std::unique_ptr<llvm::MCAsmInfo> assembly(target->createMCAsmInfo(*registers, triple.str(), options));
  const bool gfx9 = processor.rfind("gfx9", 0) == 0;
  const char* features = gfx9 || wave_size == 0 ? ""
                         : wave_size == 64      ? "+wavefrontsize64,-wavefrontsize32"
                                                : "+wavefrontsize32,-wavefrontsize64";
  const std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target->createMCSubtargetInfo(triple.str(), processor, features));
  const std::unique_ptr<llvm::MCInstrInfo> instructions(target->createMCInstrInfo());
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text), llvm::SMLoc());
  std::string messages;
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic& d, void* out) {
        *static_cast<std::string*>(out) += d.getMessage().str() + ": " + d.getLineContents().str() + "\n";
      },
      &messages);
  llvm::MCContext context(triple, assembly.get(), registers.get(), subtarget.get(), &sources, &options);
  const std::unique_ptr<llvm::MCObjectFileInfo> file_info(target->createMCObjectFileInfo(context, false));
  context.setObjectFileInfo(file_info.get());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  std::unique_ptr<llvm::MCAsmBackend> backend(target->createMCAsmBackend(*subtarget, *registers, options));
  auto writer = backend->createObjectWriter(stream);
  std::unique_ptr<llvm::MCCodeEmitter> emitter(target->createMCCodeEmitter(*instructions, context));
  const std::unique_ptr<llvm::MCStreamer> streamer(
      target->createMCObjectStreamer(triple, context, std::move(backend), std::move(writer), std::move(emitter), *subtarget));
  const std::unique_ptr<llvm::MCAsmParser> parser(llvm::createMCAsmParser(sources, context, *streamer, *assembly));
  const std::unique_ptr<llvm::MCTargetAsmParser> target_parser(target->createMCAsmParser(*subtarget, *parser, *instructions, options));
  parser->setTargetParser(*target_parser);
  if (parser->Run(false)) throw std::runtime_error("assembling for " + processor + " failed: " + messages);
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "object"));
  if (!file) throw std::runtime_error("assembling failed: " + llvm::toString(file.takeError()));
  for (const auto& section : (*file)->sections()) {
    auto name = section.getName();
    if (!name || *name != ".text") continue;
    auto contents = section.getContents();
    if (!contents) throw std::runtime_error("assembling failed: " + llvm::toString(contents.takeError()));
    std::vector<std::byte> bytes(contents->size());
    std::memcpy(bytes.data(), contents->data(), contents->size());
    return bytes;
  }
  throw std::runtime_error("assembling failed: the object has no .text");
}

}  // namespace heddle::amdgpu
