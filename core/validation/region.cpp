// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions: which ones are dumped, under which names, and the messages about their values.
#include "core/validation/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/validation/objects.h"
#include "core/validation/values.h"
#include "sdk/module/element_types.h"
#include "sdk/module/region_name.h"

namespace heddle::validation {

namespace {

constexpr size_t kMostNameBytes = 120;  // part of a region's name in a file name

struct Type {
  heddle_element_type_t element_type;
  std::vector<int64_t> dims;
};

// Includes the extents that the module leaves open, as far as they are known.
Type type_of(const heddle_validation_binding_t& binding) {
  Type type{binding.element_type, {binding.dims, binding.dims + binding.rank}};
  const uint32_t bits = HEDDLE_TYPE_BITS(type.element_type);
  // A single extent that only the call knows follows from the others.
  if (auto open = std::find(type.dims.begin(), type.dims.end(), -1); open != type.dims.end() && bits != 0) {
    *open = 1;
    std::optional<uint64_t> each = module::tensor_bytes(bits, type.dims);
    if (each && *each != 0) *open = static_cast<int64_t>(binding.size_bytes / *each);
  }
  if (bits != 0 && module::tensor_bytes(bits, type.dims) == binding.size_bytes) return type;
  if (bits != 0 && bits % 8 == 0) return {type.element_type, {static_cast<int64_t>(binding.size_bytes / (bits / 8))}};
  return {HEDDLE_TYPE_UNDEFINED, {static_cast<int64_t>(binding.size_bytes)}};
}

bool is_dumped(const heddle_validation_rules_t& rules, heddle_string_t region) {
  return std::any_of(rules.patterns, rules.patterns + rules.pattern_count,
                     [&](const heddle_string_t& one) { return module::region_matches(std::string(view(one)), view(region)); });
}

std::string file_name(std::string_view region) {
  std::string name(region.substr(0, kMostNameBytes));
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '_' && c != '.'; }, '_');
  return name;
}

// "4 [0, 4]": the position in the tensor, in C order.
std::string element_text(uint64_t index, const std::vector<int64_t>& dims) {
  std::string position;
  uint64_t rest = index;
  for (size_t i = dims.size(); i-- > 0 && dims[i] > 0;) {
    position = fmt::format("{}{}{}", rest % static_cast<uint64_t>(dims[i]), position.empty() ? "" : ", ", position);
    rest /= static_cast<uint64_t>(dims[i]);
  }
  return dims.size() > 1 ? fmt::format("{} [{}]", index, position) : std::to_string(index);
}

heddle_status_t* failure(const heddle_validation_rules_t& rules, heddle_status_code_t code, const std::string& text) {
  return rules.status_create(code, {text.data(), text.size()});
}

heddle_status_t* dump(const heddle_validation_rules_t& rules, const heddle_validation_region_t& region, uint32_t index, bool after) {
  const heddle_validation_binding_t& binding = region.bindings[index];
  const Type type = type_of(binding);
  const std::string path = fmt::format("{}/{:06}-{:04}-{}-{}-{}.npy", view(rules.folder), region.call, region.order,
                                       file_name(view(region.name)), index, after ? "out" : "in");
  const std::string wrong = write_npy(path, type.element_type, type.dims, after ? binding.after : binding.before, binding.size_bytes);
  if (wrong.empty()) return nullptr;
  return failure(rules, HEDDLE_STATUS_DATA_LOSS,
                 fmt::format("dumping {} bytes of its binding {} failed: {}", binding.size_bytes, index, wrong));
}

heddle_status_t* judge(const heddle_validation_rules_t& rules, const heddle_validation_region_t& region, uint32_t index, const Type& type,
                       const Found& found) {
  const bool nan = rules.kinds & HEDDLE_VALIDATION_NAN, inf = rules.kinds & HEDDLE_VALIDATION_INF;
  const std::string what =
      fmt::format("{} of {} elements of its binding {} ({}) are {}{}{}; the first, {}, is element {}", found.count,
                  region.bindings[index].size_bytes * 8 / HEDDLE_TYPE_BITS(type.element_type), index,
                  module::shape_text(type.element_type, type.dims), nan ? "NaN" : "", nan && inf ? " or " : "", inf ? "infinite" : "",
                  found.kind == HEDDLE_VALIDATION_NAN ? "a NaN" : "infinite", element_text(found.first, type.dims));
  for (uint32_t i = 0; i < region.binding_count; ++i) {
    const heddle_validation_binding_t& input = region.bindings[i];
    if (!input.before || scan(type_of(input).element_type, input.before, input.size_bytes, rules.kinds).count == 0) continue;
    const std::string line =
        fmt::format("call {}, region '{}': {}; its binding {} had such values before", region.call, view(region.name), what, i);
    rules.log(rules.log_context, HEDDLE_LOG_WARN, {line.data(), line.size()});
    return nullptr;
  }
  return failure(rules, HEDDLE_STATUS_ABORTED,
                 fmt::format("{}, but the values that it read had none; validation.stop_at_{} stops the call there", what,
                             found.kind == HEDDLE_VALIDATION_NAN ? "nan" : "inf"));
}

// Any failure here only fails the call.
template <class Function>
heddle_status_t* contained(const heddle_validation_rules_t& rules, Function function) {
  try {
    return function();
  } catch (const std::exception& wrong) {
    return failure(rules, HEDDLE_STATUS_RESOURCE_EXHAUSTED, fmt::format("inspecting its values failed: {}", wrong.what()));
  }
}

}  // namespace

uint32_t looks_at(const heddle_validation_rules_t* rules, heddle_string_t region) noexcept {
  return rules->kinds != 0 || is_dumped(*rules, region) ? 1 : 0;
}

heddle_status_t* region_begins(const heddle_validation_rules_t* rules, const heddle_validation_region_t* region) noexcept {
  return contained(*rules, [&]() -> heddle_status_t* {
    if (!is_dumped(*rules, region->name)) return nullptr;
    std::error_code failed;
    std::filesystem::create_directories(view(rules->folder), failed);
    if (failed) {
      return failure(
          *rules, HEDDLE_STATUS_PERMISSION_DENIED,
          fmt::format("creating the directory '{}' of validation.dump_folder failed: {}", view(rules->folder), failed.message()));
    }
    for (uint32_t i = 0; i < region->binding_count; ++i) {
      if (!region->bindings[i].before) continue;
      if (heddle_status_t* failed = dump(*rules, *region, i, false)) return failed;
    }
    return nullptr;
  });
}

heddle_status_t* region_ended(const heddle_validation_rules_t* rules, const heddle_validation_region_t* region) noexcept {
  return contained(*rules, [&]() -> heddle_status_t* {
    const bool dumps = is_dumped(*rules, region->name);
    for (uint32_t i = 0; i < region->binding_count; ++i) {
      const heddle_validation_binding_t& binding = region->bindings[i];
      if (binding.access & 2u) {
        if (!dumps) continue;
        if (heddle_status_t* failed = dump(*rules, *region, i, true)) return failed;
      } else if (binding.after && std::memcmp(binding.before, binding.after, binding.size_bytes) != 0) {
        const auto *before = static_cast<const char*>(binding.before), *after = static_cast<const char*>(binding.after);
        return failure(*rules, HEDDLE_STATUS_INTERNAL,
                       fmt::format("it wrote to byte {} of its binding {}, which is read-only according to the module [HD-C-01]",
                                   std::mismatch(before, before + binding.size_bytes, after).first - before, i));
      }
    }
    for (uint32_t i = 0; rules->kinds != 0 && i < region->binding_count; ++i) {
      const heddle_validation_binding_t& binding = region->bindings[i];
      if (!(binding.access & 2u)) continue;
      const Type type = type_of(binding);
      const Found found = scan(type.element_type, binding.after, binding.size_bytes, rules->kinds);
      if (found.count == 0) continue;
      if (heddle_status_t* stop = judge(*rules, *region, i, type, found)) return stop;
    }
    return nullptr;
  });
}

}  // namespace heddle::validation
