// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads bindings back, has them looked at, and says what was found in the module's words. Called through inspection.h.
#include "core/submit/inspection.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;

enum Access : uint32_t { kRead = 1, kWrite = 2 };
constexpr size_t kMostNameBytes = 120;  // of a region in a file's name

std::string file_name(std::string_view region) {
  std::string name(region.substr(0, kMostNameBytes));
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '_' && c != '.'; }, '_');
  return name;
}

// "4 [0, 4]": the position in the tensor, in C order.
std::string element_text(uint64_t index, std::span<const int64_t> dims) {
  std::string text = std::to_string(index), position;
  uint64_t rest = index;
  for (size_t i = dims.size(); i-- > 0 && dims[i] > 0;) {
    position = std::to_string(rest % static_cast<uint64_t>(dims[i])) + (position.empty() ? "" : ", ") + position;
    rest /= static_cast<uint64_t>(dims[i]);
  }
  return dims.size() > 1 ? text + " [" + position + "]" : text;
}

const char* plural(uint32_t kind) {
  return kind == HEDDLE_VALIDATION_NAN ? "NaN" : "infinite";
}

// Every dispatch says what its bindings hold.
bool says_types(const mf::Program& program) {
  return std::ranges::all_of(*program.dispatches(), [](const mf::DispatchSite* site) {
    return site->bindings()->size() == 0 || (site->binding_types() && site->binding_types()->size() != 0);
  });
}

}  // namespace

Result<std::unique_ptr<Inspection>> Inspection::create(host::Host& host, const open::OpenModule& module) {
  const host::ValidationConfig& config = host.config().validation;
  if (!config.values()) return std::unique_ptr<Inspection>();
  std::unique_ptr<Inspection> made(new Inspection(host, *host.validation()));
  made->kinds_ = (config.stop_at_nan ? HEDDLE_VALIDATION_NAN : 0) | (config.stop_at_inf ? HEDDLE_VALIDATION_INF : 0);
  bool known = true;
  for (const mf::Function* function : *module.metadata().functions()) {
    for (const mf::Program* program : *function->programs()) known = known && says_types(*program);
  }
  for (const mf::Program* program : *module.metadata().initializer()) known = known && says_types(*program);
  const std::string untold = fmt::format("{} was compiled before format 0.2 and does not say the element types of its regions; compile the model again",
                                         module.path());
  if (!known && made->kinds_ != 0) {
    return error(HEDDLE_STATUS_UNIMPLEMENTED, "heddle: looking for NaN, as [validation] asks, failed: {}", untold);
  }
  if (!known) host.log(HEDDLE_LOG_WARN, "validation", "dumps are raw bytes: " + untold);
  if (!config.dump.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(config.dump_folder, failed);
    if (failed) {
      return error(HEDDLE_STATUS_PERMISSION_DENIED, "heddle: making the folder '{}' of validation.dump_folder failed: {}", config.dump_folder,
                   failed.message());
    }
  }
  return made;
}

// The whole name, or its first word: behind it is what the region was made from.
bool Inspection::matches(std::string_view region) const {
  const std::string whole(region), word(region.substr(0, region.find(' ')));
  return std::ranges::any_of(host_.config().validation.dump, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), whole.c_str(), 0) == 0 || fnmatch(pattern.c_str(), word.c_str(), 0) == 0;
  });
}

Inspection::Type Inspection::type_of(const Look& look, uint32_t binding) const {
  Type type;
  const auto* types = look.site->binding_types();
  const uint64_t bytes = look.command->bindings[binding].length;
  if (types && binding < types->size()) {
    uint32_t first = 0;
    for (uint32_t i = 0; i < binding; ++i) first += types->Get(i)->rank();
    type.element_type = types->Get(binding)->element_type();
    for (uint32_t i = 0; i < types->Get(binding)->rank(); ++i) type.dims.push_back(look.site->binding_dims()->Get(first + i));
  }
  const uint32_t bits = HEDDLE_TYPE_BITS(type.element_type);
  // One extent that only the call knows follows from the others.
  if (auto open = std::ranges::find(type.dims, -1); open != type.dims.end() && bits != 0) {
    *open = 1;
    if (std::optional<uint64_t> each = module::tensor_bytes(bits, type.dims); each && *each != 0) *open = static_cast<int64_t>(bytes / *each);
  }
  if (bits != 0 && module::tensor_bytes(bits, type.dims) == bytes) return type;
  if (bits != 0 && bits % 8 == 0) return {type.element_type, {static_cast<int64_t>(bytes / (bits / 8))}};
  return {HEDDLE_TYPE_UNDEFINED, {static_cast<int64_t>(bytes)}};
}

heddle_validation_found_t Inspection::scan(const Type& type, const std::vector<std::byte>& bytes) const {
  return layer_.scan(type.element_type, bytes.data(), bytes.size(), kinds_);
}

Status Inspection::dump(const Look& look, uint32_t binding, const char* side, const Type& type, const std::vector<std::byte>& bytes) const {
  const std::string path = fmt::format("{}/{:06}-{:04}-{}-{}-{}.npy", host_.config().validation.dump_folder, look.call, look.order,
                                       file_name(look.site->name()->string_view()), binding, side);
  char wrong[512] = {};
  if (layer_.dump(path.c_str(), type.element_type, type.dims.data(), static_cast<uint32_t>(type.dims.size()), bytes.data(), bytes.size(), wrong,
                  sizeof(wrong))) {
    return Status();
  }
  return error(HEDDLE_STATUS_DATA_LOSS, "dumping {} bytes of binding {} failed: {}", bytes.size(), binding, wrong)
      .payload("region", std::to_string(look.command->region));
}

Status Inspection::before(Look& look) const {
  look.dumps = matches(look.site->name()->string_view());
  if (!look.dumps && kinds_ == 0) return Status();
  look.inputs.resize(look.site->bindings()->size());
  for (uint32_t i = 0; i < look.inputs.size(); ++i) {
    if (!(look.site->bindings()->Get(i)->access() & kRead)) continue;
    look.inputs[i].resize(look.command->bindings[i].length);
    HEDDLE_RETURN_IF_ERROR(look.device->download(look.command->bindings[i], look.inputs[i].data()));
    if (look.dumps) HEDDLE_RETURN_IF_ERROR(dump(look, i, "in", type_of(look, i), look.inputs[i]));
  }
  return Status();
}

Status Inspection::judge(const Look& look, uint32_t binding, const Type& type, const heddle_validation_found_t& found) const {
  const uint64_t all = look.command->bindings[binding].length * 8 / HEDDLE_TYPE_BITS(type.element_type);
  const std::string what =
      fmt::format("{} of {} elements of its binding {} ({}) are {}{}, the first is element {}", found.count, all, binding,
                  module::shape_text(type.element_type, type.dims), kinds_ == 3 ? "NaN or " : "", kinds_ == 3 ? "infinite" : plural(found.kind),
                  element_text(found.first, type.dims));
  for (uint32_t i = 0; i < look.inputs.size(); ++i) {
    if (look.inputs[i].empty()) continue;
    const Type input = type_of(look, i);
    if (scan(input, look.inputs[i]).count == 0) continue;
    host_.log(HEDDLE_LOG_WARN, "validation",
              fmt::format("call {}, region '{}': {}; it was so already in its binding {}", look.call, look.site->name()->string_view(), what, i));
    return Status();
  }
  return error(HEDDLE_STATUS_ABORTED, "{}, and there was none in what it read; validation.stop_at_{} stops there", what,
               found.kind == HEDDLE_VALIDATION_NAN ? "nan" : "inf")
      .payload("region", std::to_string(look.command->region));
}

Status Inspection::after(const Look& look) const {
  if (!look.dumps && kinds_ == 0) return Status();
  Status first;
  std::vector<std::byte> bytes;
  for (uint32_t i = 0; i < look.inputs.size(); ++i) {
    const uint32_t access = look.site->bindings()->Get(i)->access();
    bytes.resize(look.command->bindings[i].length);
    HEDDLE_RETURN_IF_ERROR(look.device->download(look.command->bindings[i], bytes.data()));
    if (!(access & kWrite)) {
      if (bytes == look.inputs[i]) continue;
      const auto at = std::ranges::mismatch(bytes, look.inputs[i]).in1 - bytes.begin();
      return error(HEDDLE_STATUS_INTERNAL, "it wrote to byte {} of its binding {}, which the module says it only reads [HD-C-01]", at, i)
          .payload("region", std::to_string(look.command->region));
    }
    const Type type = type_of(look, i);
    if (look.dumps) HEDDLE_RETURN_IF_ERROR(dump(look, i, "out", type, bytes));
    if (kinds_ == 0 || !first.ok()) continue;
    if (const heddle_validation_found_t found = scan(type, bytes); found.count != 0) first = judge(look, i, type, found);
  }
  return first;
}

}  // namespace heddle::submit
