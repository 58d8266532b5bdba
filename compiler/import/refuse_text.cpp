// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/refuse_text.h"

#include <algorithm>

#include "compiler/import/onnx_file.h"
#include "llvm/ADT/StringExtras.h"

namespace heddle::import {
namespace {

constexpr int deepest_nesting = 256;

// MLIR's parser, and everything that walks regions, calls itself for each level.
std::string refuse_nesting(llvm::StringRef text) {
  int depth = 0, minuses = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i) i += text[i] == '\\';
      continue;
    }
    if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    minuses = c == '-' ? minuses + 1 : c == ' ' ? minuses : 0;
    if (c == '(' || c == '[' || c == '{' || c == '<') ++depth;
    if (c == ')' || c == ']' || c == '}' || (c == '>' && (i == 0 || text[i - 1] != '-'))) depth = std::max(depth - 1, 0);
    if (std::max(depth, minuses) > deepest_nesting) {
      return "its brackets are nested above " + std::to_string(deepest_nesting) + " deep, at byte " + std::to_string(i) +
             "; take functions out of each other, or split the program";
    }
  }
  return {};
}

// MLIR's parser makes room for all results of an op up to one that is named, before it knows how many there are.
std::string refuse_result_numbers(llvm::StringRef text) {
  constexpr unsigned most_results = 65536;
  for (size_t at = text.find('#'); at != llvm::StringRef::npos; at = text.find('#', at + 1)) {
    const size_t before = text.take_front(at).find_last_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.-");
    if (before == llvm::StringRef::npos || text[before] != '%') continue;
    const llvm::StringRef digits = text.drop_front(at + 1).take_while(llvm::isDigit);
    unsigned number = 0;
    if (digits.empty() || (!digits.getAsInteger(10, number) && number < most_results)) continue;
    return "result #" + digits.take_front(20).str() + " of an op is named, and ops have up to " + std::to_string(most_results) + " results";
  }
  return {};
}

}  // namespace

std::string refuse_text(llvm::StringRef text) {
  if (text.contains('\0')) return "it is not text";
  for (size_t begin = 0; begin < text.size();) {  // names in it get into error texts and reports
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (!is_utf8(text.substr(begin, end - begin).str())) {
      return "line " + std::to_string(1 + text.take_front(begin).count('\n')) + " is not UTF-8 text; export the program again";
    }
    begin = end + 1;
  }
  if (std::string cause = refuse_result_numbers(text); !cause.empty()) return cause;
  return refuse_nesting(text);
}

}  // namespace heddle::import
