// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks drivers how they run portable code.
// Called through portable_parts.h.
#include "core/submit/portable_parts.h"

#include <fmt/format.h>

#include "heddle/code.h"

namespace heddle::submit {

namespace mf = module_format;

void visit_portable_parts(memory::Device& device, const open::OpenModule& module, const route::ChosenCode& chosen, VisitPart visit,
                          void* context) {
  const mf::Executable* executable = module.metadata().executables()->Get(chosen.executable);
  const mf::Variant* variant = executable->variants()->Get(chosen.variant);
  if (variant->format()->string_view() != HEDDLE_CODE_PORTABLE) return;
  const auto bytes = module.file().code(*variant->code());
  struct Visit {
    VisitPart visit;
    void* context;
    heddle_portable_query_t query;
  } of = {
      visit, context, {sizeof(of.query), 0, to_c(HEDDLE_CODE_PORTABLE), bytes.data(), bytes.size(), {}, nullptr, to_c(chosen.own_kernels)}};
  for (uint32_t index : chosen.entries) {
    of.query.entry = to_c(executable->entries()->Get(index)->name()->string_view());
    auto part = [](void* its, const heddle_portable_part_t* told) {
      const Visit& its_visit = *static_cast<Visit*>(its);
      heddle_portable_part_t whole{};
      std::memcpy(&whole, told, std::min<size_t>(told->struct_size, sizeof(whole)));
      its_visit.visit(its_visit.context, its_visit.query.entry, whole);
    };
    if (Status(device.api().dispatch->portable_parts(device.get(), &of.query, part, &of)).ok()) continue;
    heddle_portable_part_t all{};
    all.reason = to_c("the driver interprets all portable code");
    visit(context, of.query.entry, all);
  }
}

Status check_interpreted(host::Host& host, memory::Device& device, const open::OpenModule& module, const route::ChosenCode& chosen) {
  const host::Interpreted rule = host.config().interpreted;
  // A rule that orders the device's kernels says what is interpreted.
  if (rule == host::Interpreted::kAllow || (rule == host::Interpreted::kWarn && !chosen.own_kernels.empty())) return Status();
  struct Found {
    heddle_string_t last{};
    size_t kernels = 0;
    std::string first;
  } found;
  visit_portable_parts(
      device, module, chosen,
      [](void* its, heddle_string_t entry, const heddle_portable_part_t& part) {
        auto& all = *static_cast<Found*>(its);
        if (part.kernel.size != 0 || entry.data == all.last.data) return;
        all.last = entry;
        if (all.kernels++ == 0) all.first = fmt::format("'{}' ({})", view(entry), view(part.reason));
      },
      &found);
  if (found.kernels == 0) return Status();
  const std::string text = fmt::format("device '{}' interprets {} of {} kernels of portable code, such as {}, which is slow",
                                       device.alias(), found.kernels, chosen.entries.size(), found.first);
  if (rule == host::Interpreted::kForbid)
    return error(HEDDLE_STATUS_FAILED_PRECONDITION, "{}, and interpreted = \"forbid\" in heddle.toml", text);
  host.log(HEDDLE_LOG_WARN, "host", text + "; interpreted = \"allow\" in heddle.toml ends this warning");
  return Status();
}

}  // namespace heddle::submit
