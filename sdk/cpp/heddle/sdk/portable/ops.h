// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ops of models that names in portable code stand for (NamedOp): what each computes, its version, and its attributes. One list, by which the compiler
// writes names and a driver or checker knows what a name says; the page portable-ops.md is made of it.
#ifndef HEDDLE_SDK_PORTABLE_OPS_H_
#define HEDDLE_SDK_PORTABLE_OPS_H_

#include <span>
#include <string>
#include <string_view>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

struct OpAttribute {
  const char* name = nullptr;
  AttributeType type = AttributeType::kBoolean;
  const char* meaning = nullptr;
  bool is_optional = false;  // may be absent; a boolean may be, too, and is false then
};

// Versions begin with 1 and rise whenever the meaning of the op or of an attribute changes, or an attribute is added.
struct KnownOp {
  const char* name;
  uint32_t version;
  const char* operands;  // their names, in order; those in brackets may be absent
  const char* meaning;
  OpAttribute all[7] = {};
  std::span<const OpAttribute> attributes() const;  // sorted by name, as those of a NamedOp
};

// All of them, sorted by name.
std::span<const KnownOp> known_ops();
// Null for a name that is none of them.
const KnownOp* known_op(std::string_view name);

const char* name_of(AttributeType type);

// Whether the op is a known one of the known version, with all of its attributes, of their types, and no others. If not, *out_reason says why.
bool is_as_known(const NamedOp& op, std::string* out_reason);

// The attribute's value; null if the op has none of that name and type.
template <typename T>
const T* attribute_of(const NamedOp& op, std::string_view name) {
  for (const Attribute& attribute : op.attributes) {
    if (attribute.name == name) return std::get_if<T>(&attribute.value);
  }
  return nullptr;
}

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_OPS_H_
