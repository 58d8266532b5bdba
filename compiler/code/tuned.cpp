// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/code/tuned.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace json = llvm::json;

namespace heddle::compiler {

std::string name_of_kernel(const std::string& text) {
  llvm::BLAKE3 hash;
  hash.update(text);
  return llvm::toHex(hash.final<12>(), /*LowerCase=*/true);
}

namespace {

constexpr uint64_t most_choices_bytes = uint64_t{64} << 20;

// The parser recurses for each level of nesting.
bool is_deep(llvm::StringRef text) {
  constexpr int most_levels = 32;
  int levels = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') is_text = !is_text;
    if (is_text && c == '\\') ++i;
    if (is_text) continue;
    if (c == '[' || c == '{') ++levels;
    if (c == ']' || c == '}') --levels;
    if (levels > most_levels) return true;
  }
  return false;
}

std::string refusal(const std::string& path, const std::string& cause) {
  return "compiler: reading choices from '" + path + "' failed: " + cause + "; write the file anew with heddle tune";
}

}  // namespace

std::string Tuned::read(const std::string& path) {
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path)) return refusal(path, "it is not a regular file");
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file) return refusal(path, file.getError().message());
  return parse(path, (*file)->getBuffer());
}

std::string Tuned::parse(const std::string& path, llvm::StringRef text) {
  auto wrong = [&](const std::string& cause) { return refusal(path, cause); };
  if (text.size() > most_choices_bytes) return wrong("it has more than " + std::to_string(most_choices_bytes >> 20) + " MiB");
  if (is_deep(text)) return wrong("its lists are nested too deeply");
  auto parsed = json::parse(text);
  if (!parsed) return wrong(llvm::toString(parsed.takeError()));
  const json::Object* whole = parsed->getAsObject();
  const json::Array* choices = whole ? whole->getArray("choices") : nullptr;
  if (!choices) return wrong("it has no list \"choices\"");
  device_ = whole->getString("device").value_or("").str();
  for (size_t i = 0; i < choices->size(); ++i) {
    const json::Object* one = (*choices)[i].getAsObject();
    auto field = [&](llvm::StringRef name) { return one ? one->getString(name) : std::nullopt; };
    auto family = field("family"), kernel = field("kernel"), when = field("when"), choice = field("choice");
    if (!family || !kernel || !when || !choice) return wrong("choice " + std::to_string(i) + " lacks family, kernel, when or choice");
    choices_[{family->str(), kernel->str(), when->str()}] = {choice->str()};
  }
  return {};
}

std::string Tuned::find(const std::string& family, const std::string& kernel, const std::string& when) const {
  auto it = choices_.find({family, kernel, when});
  if (it == choices_.end()) return {};
  return it->second.choice;
}

void Tuned::note_taken(const std::string& family, const std::string& kernel, const std::string& when) {
  auto it = choices_.find({family, kernel, when});
  if (it == choices_.end()) return;
  if (!it->second.is_taken) ++taken_;
  it->second.is_taken = true;
}

}  // namespace heddle::compiler
