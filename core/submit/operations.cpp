// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// query, prepare, load: once per operator, device and tuple of extents. Called through operations.h.
#include "core/submit/operations.h"

#include <algorithm>

#include "sdk/module/element_types.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;

constexpr size_t kMostKept = 256;  // above this, unused ones are dropped
constexpr uint64_t kMostAlignment = 4096;
constexpr uint64_t kMostWorkspace = uint64_t{1} << 40;
constexpr uint32_t kMostShards = 1u << 20;

host::OperatorId id_of(const mf::Operation& wanted) {
  return {wanted.domain()->str(), wanted.name()->str(), wanted.version()};
}

// "; com.a declares it, but it has no device here: ...; 2 other library plugins do not declare it".
std::string told(const std::vector<std::string>& reasons, size_t others, const std::string& plugins) {
  std::string text;
  for (const std::string& reason : reasons) text += "; " + reason;
  if (others == 0 && reasons.empty())
    return plugins == kAnyLibrary ? "; no library plugin is installed" : fmt::format("; no library plugin '{}' is installed", plugins);
  if (others != 0)
    text += fmt::format("; {} {}library plugin{} not declare it", others, reasons.empty() ? "" : "other ", others == 1 ? " does" : "s do");
  return text;
}

}  // namespace

std::string name_of(const mf::Operation& wanted) {
  return fmt::format("{}::{}/{}", wanted.domain()->string_view(), wanted.name()->string_view(), wanted.version());
}

// The request to plugins, with the memory that it refers to.
struct Operations::Request {
  Request(const mf::Operation& wanted, std::span<const int64_t> dims) : name(name_of(wanted)) {
    for (const mf::OperationAttribute* from : *wanted.attributes()) {
      heddle_attribute_t& to = attributes.emplace_back();
      to.struct_size = sizeof to;
      to.kind = from->kind();
      to.name = to_c(from->name()->string_view());
      to.count = uint64_t{from->ints()->size()} + from->floats()->size();
      if (to.kind == HEDDLE_ATTRIBUTE_INT || to.kind == HEDDLE_ATTRIBUTE_INTS) to.ints = from->ints()->data();
      if (to.kind == HEDDLE_ATTRIBUTE_FLOAT || to.kind == HEDDLE_ATTRIBUTE_FLOATS) to.floats = from->floats()->data();
      to.text = {reinterpret_cast<const char*>(from->text()->data()), from->text()->size()};
    }
    size_t at = 0;
    for (uint32_t i = 0; i < wanted.operands()->size(); ++i) {
      const mf::BindingType* type = wanted.operands()->Get(i);
      const std::span<const int64_t> extents = dims.subspan(at, type->rank());
      at += type->rank();
      operands.push_back({sizeof(heddle_operand_t), type->element_type(), type->rank(), 0, extents.data()});
      const std::optional<uint64_t> bytes = module::tensor_bytes(HEDDLE_TYPE_BITS(type->element_type()), extents);
      if (!bytes) {
        failure = error(HEDDLE_STATUS_INVALID_ARGUMENT, "operand {} of {} would be {}, which is not a valid tensor", i, name,
                        module::shape_text(type->element_type(), extents));
        return;
      }
      operand_bytes.push_back(*bytes);
      types += i == 0 ? "" : i == wanted.input_count() ? " -> " : ", ";
      types += module::shape_text(type->element_type(), extents);
    }
    c.struct_size = sizeof c;
    c.version = wanted.version();
    c.domain = to_c(wanted.domain()->string_view());
    c.name = to_c(wanted.name()->string_view());
    c.attribute_count = static_cast<uint32_t>(attributes.size());
    c.attributes = attributes.data();
    c.attribute_stride = sizeof(heddle_attribute_t);
    c.operands = operands.data();
    c.operand_stride = sizeof(heddle_operand_t);
    c.input_count = wanted.input_count();
    c.output_count = static_cast<uint32_t>(operands.size()) - wanted.input_count();
  }
  Request(const Request&) = delete;

  std::string name;   // "com.acme::Whiten/1"
  std::string types;  // "f32[2x3] -> f32[2x3]"
  std::vector<heddle_attribute_t> attributes;
  std::vector<heddle_operand_t> operands;
  std::vector<uint64_t> operand_bytes;
  heddle_operation_request_t c{};
  Status failure;
};

namespace {

// An operation of a plugin, loaded by a driver.
struct PluginOperation final : Operation {
  ~PluginOperation() override {
    if (executable) device->api().dispatch->executable_unload(executable);
    if (operation) library->library.destroy(operation);
  }
  const host::LoadedLibrary* library = nullptr;
  memory::Ref<memory::Device> device;
  heddle_operation_t* operation = nullptr;
  heddle_executable_t* executable = nullptr;
};

}  // namespace

Result<std::shared_ptr<const Operation>> Operations::ask(const host::LoadedLibrary& library, Request& request, uint32_t device_index) {
  const memory::Ref<memory::Device>& device = devices_[device_index];
  // A driver that has operations of its own gets its own device.
  request.c.device = device->api().instance == library.instance ? device->get() : nullptr;
  auto made = std::make_shared<PluginOperation>();
  made->library = &library;
  made->device = device;
  made->plugin = library.id;
  heddle_operation_properties_t properties{};
  properties.struct_size = sizeof properties;
  HEDDLE_RETURN_IF_ERROR(Status(library.library.query(library.instance, &request.c, &properties)));
  const uint64_t alignment = properties.workspace_alignment_bytes;
  if (properties.workspace_bytes > kMostWorkspace || alignment > kMostAlignment || (alignment & (alignment - 1)) != 0 ||
      properties.shard_count > kMostShards) {
    return error(HEDDLE_STATUS_INTERNAL,
                 "query requests {} bytes of workspace on {} and {} shards; up to {}, a power of two up to {} and {} "
                 "are possible [HD-O-02]",
                 properties.workspace_bytes, alignment, properties.shard_count, kMostWorkspace, kMostAlignment, kMostShards);
  }
  if (alignment != 0) made->workspace_alignment = alignment;
  made->workspace_bytes = properties.workspace_bytes;
  made->shards = std::max(properties.shard_count, 1u);
  HEDDLE_RETURN_IF_ERROR(Status(library.library.prepare(library.instance, &request.c, &made->operation)));
  if (!made->operation) return error(HEDDLE_STATUS_INTERNAL, "prepare returned neither a status nor an operation [HD-O-02]");
  heddle_operation_params_t params{};
  params.struct_size = sizeof params;
  params.operand_count = static_cast<uint32_t>(request.operands.size());
  params.name = to_c(request.name);
  params.target = request.c.target;
  params.library = &library.library;
  params.operation = made->operation;
  params.workspace_bytes = properties.workspace_bytes;
  params.cost_ns = properties.cost_ns;
  const heddle_dispatch_interface_t& dispatch = *device->api().dispatch;
  HEDDLE_RETURN_IF_ERROR(device->noted(Status(dispatch.operation_load(device->get(), &params, &made->executable))));
  HEDDLE_RETURN_IF_ERROR(device->noted(Status(dispatch.entry(made->executable, 0, &made->entry))));
  made->operand_bytes = request.operand_bytes;
  return std::shared_ptr<const Operation>(std::move(made));
}

Result<std::shared_ptr<const Operation>> Operations::find(const mf::Operation& wanted, uint32_t device, std::span<const int64_t> dims,
                                                          const std::string& plugins) {
  Request request(wanted, dims);
  if (!request.failure.ok()) return std::move(request.failure);
  const heddle_device_description_t& description = devices_[device]->description();
  const std::string which = fmt::format("{} ({}) on device '{}'", request.name, request.types, devices_[device]->alias());
  if (view(description.operation_target).empty()) {
    return error(HEDDLE_STATUS_NOT_FOUND,
                 "{}: its driver does not run operations of library plugins; bind the slot to another device [HD-O-02]", which)
        .payload("operator", request.name);
  }
  request.c.target = description.operation_target;
  request.c.family = description.family;
  request.c.compute_units = description.compute_units;
  size_t others = 0;
  std::vector<std::string> reasons;
  for (const host::LibraryCandidate& candidate : host_.libraries(id_of(wanted), plugins, &others)) {
    if (!candidate.library) {
      reasons.push_back(candidate.reason);
      continue;
    }
    Result<std::shared_ptr<const Operation>> made = ask(*candidate.library, request, device);
    if (made.ok()) {
      host_.log(HEDDLE_LOG_DEBUG, "submit", fmt::format("{} comes from {}", which, candidate.id));
      return made;
    }
    reasons.push_back(
        fmt::format("{} returned {}: {}", candidate.id, view(heddle_status_code_name(made.status().code())), made.status().message()));
  }
  return error(HEDDLE_STATUS_NOT_FOUND, "{} is not offered by any plugin{}", which, told(reasons, others, plugins))
      .payload("operator", request.name);
}

Status Operations::check(const mf::Operation& wanted, const std::string& plugins) {
  size_t others = 0;
  std::vector<std::string> reasons;
  for (const host::LibraryCandidate& candidate : host_.libraries(id_of(wanted), plugins, &others)) {
    if (candidate.library) return Status();
    reasons.push_back(candidate.reason);
  }
  return error(HEDDLE_STATUS_NOT_FOUND, "{} is not offered by any plugin{}", name_of(wanted), told(reasons, others, plugins))
      .payload("operator", name_of(wanted));
}

Result<std::shared_ptr<const Operation>> Operations::prepare(const mf::Operation& wanted, uint32_t device, std::span<const int64_t> dims,
                                                             const std::string& plugins) {
  const Key key{&wanted, device, {dims.begin(), dims.end()}, plugins};
  {
    std::lock_guard lock(mutex_);
    if (auto known = known_.find(key); known != known_.end()) return known->second;
  }
  Result<std::shared_ptr<const Operation>> made = find(wanted, device, dims, plugins);
  if (!made.ok()) return made;
  std::vector<std::shared_ptr<const Operation>> dropped;  // destroyed outside the lock: this calls a plugin
  std::lock_guard lock(mutex_);
  for (auto at = known_.begin(); known_.size() >= kMostKept && at != known_.end();) {
    if (at->second.use_count() > 1) {
      ++at;
      continue;
    }
    dropped.push_back(std::move(at->second));
    at = known_.erase(at);
  }
  auto [at, is_new] = known_.emplace(key, *made);
  return at->second;  // that of another thread, if it was faster
}

std::vector<std::string> Operations::prepared() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> list;
  for (const auto& [key, operation] : known_) list.push_back(fmt::format("{} from {}", name_of(*key.wanted), operation->plugin));
  return list;
}

}  // namespace heddle::submit
