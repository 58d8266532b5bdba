// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads bindings back and passes them to the inspector. Called through inspection.h.
#include "core/submit/inspection.h"

#include <algorithm>
#include <cstring>

namespace heddle::submit {

namespace {

namespace mf = module_format;

constexpr uint32_t kRead = 1, kWritten = 2;  // of BindingRef.access

// Whether every dispatch states the types of its bindings.
bool says_types(const mf::Program& program) {
  return std::ranges::all_of(*program.dispatches(), [](const mf::DispatchSite* site) {
    return site->bindings()->size() == 0 || (site->binding_types() && site->binding_types()->size() != 0);
  });
}

// Whether a binding that the region writes shares bytes with this one: a result may replace an operand.
bool is_overwritten(const Inspection::Look& look, uint32_t index) {
  const heddle_binding_t& read = look.command->bindings[index];
  for (uint32_t i = 0; i < look.bindings.size(); ++i) {
    const heddle_binding_t& other = look.command->bindings[i];
    if (i == index || !(look.bindings[i].access & kWritten) || other.buffer != read.buffer) continue;
    if (other.offset < read.offset + read.length && read.offset < other.offset + other.length) return true;
  }
  return false;
}

// Rows in memory: bytes of each, and from the start of one to the start of the next. Dense memory is one row.
struct Rows {
  uint64_t bytes, pitch;

  uint64_t dense_bytes(uint64_t range) const { return range / pitch * bytes + std::min(range % pitch, bytes); }
  // Moves the rows of the range together.
  void compact(std::vector<std::byte>& range) const {
    const uint64_t size = dense_bytes(range.size());
    for (uint64_t from = pitch, to = bytes; from < range.size(); from += pitch, to += bytes) {
      std::memmove(range.data() + to, range.data() + from, std::min<uint64_t>(bytes, range.size() - from));
    }
    range.resize(size);
  }
};

Rows rows_of(const mf::DispatchSite& site, uint32_t index, const heddle_validation_binding_t& binding, uint64_t range) {
  const int64_t pitch = site.binding_pitches() ? site.binding_pitches()->all()->Get(index) : 0;
  if (pitch == 0) return {range, std::max<uint64_t>(range, 1)};
  const uint64_t element_bytes = (HEDDLE_TYPE_BITS(binding.element_type) + 7) / 8;
  return {static_cast<uint64_t>(binding.dims[binding.rank - 1]) * element_bytes, static_cast<uint64_t>(pitch) * element_bytes};
}

// The binding's elements, without what is between its rows.
Status read_back(const Inspection::Look& look, uint32_t index, std::vector<std::byte>& bytes) {
  const uint64_t range = look.command->bindings[index].length;
  bytes.resize(range);
  HEDDLE_RETURN_IF_ERROR(look.device->download(look.command->bindings[index], bytes.data()));
  rows_of(*look.site, index, look.bindings[index], range).compact(bytes);
  return Status();
}

}  // namespace

Result<std::unique_ptr<Inspection>> Inspection::create(host::Host& host, const open::OpenModule& module) {
  const host::ValidationConfig& config = host.config().validation;
  if (!config.values()) return std::unique_ptr<Inspection>();
  std::unique_ptr<Inspection> made(new Inspection(*host.validation()));
  made->rules_.kinds = (config.stop_at_nan ? HEDDLE_VALIDATION_NAN : 0) | (config.stop_at_inf ? HEDDLE_VALIDATION_INF : 0);
  bool known = true;
  for (const mf::Function* function : *module.metadata().functions()) {
    for (const mf::Program* program : *function->programs()) known = known && says_types(*program);
  }
  for (const mf::Program* program : *module.metadata().initializer()) known = known && says_types(*program);
  const std::string untold = fmt::format(
      "{} was compiled before format 0.2 and does not say the element types of its regions; compile the model again", module.path());
  if (!known && made->rules_.kinds != 0) {
    return error(HEDDLE_STATUS_UNIMPLEMENTED, "heddle: searching for NaN, as [validation] requires, failed: {}", untold);
  }
  if (!known) host.log(HEDDLE_LOG_WARN, "validation", "dumps are raw bytes: " + untold);
  for (const std::string& pattern : config.dump) made->patterns_.push_back(to_c(pattern));
  heddle_validation_rules_t& rules = made->rules_;
  rules.struct_size = sizeof(rules);
  rules.patterns = made->patterns_.data();
  rules.pattern_count = made->patterns_.size();
  rules.folder = to_c(config.dump_folder);
  rules.log_context = &host;
  rules.log = [](void* to, uint32_t level, heddle_string_t message) {
    static_cast<host::Host*>(to)->log(level, "validation", view(message));
  };
  rules.status_create = heddle_status_create;
  HEDDLE_RETURN_IF_ERROR(made->check_patterns(module));
  return made;
}

// A pattern that matches no region is an error, since otherwise nothing would be written, silently.
Status Inspection::check_patterns(const open::OpenModule& module) const {
  std::vector<const mf::Program*> programs(module.metadata().initializer()->begin(), module.metadata().initializer()->end());
  for (const mf::Function* function : *module.metadata().functions())
    programs.insert(programs.end(), function->programs()->begin(), function->programs()->end());
  for (const heddle_string_t& pattern : patterns_) {
    heddle_validation_rules_t one = rules_;
    one.kinds = 0;
    one.patterns = &pattern;
    one.pattern_count = 1;
    const bool fits = std::ranges::any_of(programs, [&](const mf::Program* program) {
      return std::ranges::any_of(*program->dispatches(), [&](const mf::DispatchSite* site) {
        return layer_.looks_at(&one, to_c(site->name()->string_view())) != 0;
      });
    });
    if (fits) continue;
    return error(HEDDLE_STATUS_NOT_FOUND,
                 "heddle: dumping regions failed: no region of {} has a name like '{}'; heddle explain lists the names, and * matches "
                 "any part of a name",
                 module.path(), view(pattern));
  }
  return Status();
}

Status Inspection::told(const Look& look,
                        heddle_status_t* (*tell)(const heddle_validation_rules_t*, const heddle_validation_region_t*)) const {
  const heddle_validation_region_t region{look.call, look.order, static_cast<uint32_t>(look.bindings.size()),
                                          to_c(look.site->name()->string_view()), look.bindings.data()};
  return Status(tell(&rules_, &region)).payload("region", std::to_string(look.command->region));
}

Status Inspection::before(Look& look) const {
  look.looks = layer_.looks_at(&rules_, to_c(look.site->name()->string_view())) != 0;
  if (!look.looks) return Status();
  const uint32_t count = look.site->bindings()->size();
  look.in.resize(count);
  look.out.resize(count);
  look.bindings.resize(count);
  const auto* types = look.site->binding_types();
  uint32_t dim = 0;
  for (uint32_t i = 0; i < count; ++i) {
    heddle_validation_binding_t& binding = look.bindings[i];
    binding.access = look.site->bindings()->Get(i)->access();
    const uint64_t range = look.command->bindings[i].length;
    if (types && i < types->size()) {
      binding.element_type = types->Get(i)->element_type();
      binding.rank = types->Get(i)->rank();
      binding.dims = look.site->binding_dims()->data() + dim;
      dim += binding.rank;
    }
    const Rows rows = rows_of(*look.site, i, binding, range);
    binding.size_bytes = rows.dense_bytes(range);
    if (!(binding.access & kRead)) continue;
    HEDDLE_RETURN_IF_ERROR(read_back(look, i, look.in[i]));
    binding.before = look.in[i].data();
  }
  return told(look, layer_.region_begins);
}

Status Inspection::after(Look& look) const {
  if (!look.looks) return Status();
  for (uint32_t i = 0; i < look.bindings.size(); ++i) {
    if (!(look.bindings[i].access & kWritten) && is_overwritten(look, i)) continue;
    HEDDLE_RETURN_IF_ERROR(read_back(look, i, look.out[i]));
    look.bindings[i].after = look.out[i].data();
  }
  return told(look, layer_.region_ended);
}

}  // namespace heddle::submit
