// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See dispatch.h.
#include "heddle/sdk/portable/dispatch.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "heddle/code.h"
#include "heddle/sdk/portable/staging.h"

namespace heddle::sdk::portable {

namespace {

constexpr size_t kMostShown = 100;  // bytes of a name in an error text

// The buffers of a dispatch, some of which the host cannot address.
class DispatchMemory final : public DeviceMemory {
 public:
  DispatchMemory(Device* device, const std::vector<Range>& ranges) : device_(device), ranges_(ranges) {}

  bool read(size_t binding, char* to, uint64_t bytes, std::string* out_error) override {
    const Range& range = ranges_[binding];
    if (const char* memory = range.buffer->host_address()) {
      std::memcpy(to, memory + range.offset, bytes);
      return true;
    }
    return finish(device_->read(range.buffer, range.offset, to, bytes), out_error);
  }
  bool write(size_t binding, const char* from, uint64_t bytes, std::string* out_error) override {
    const Range& range = ranges_[binding];
    if (char* memory = range.buffer->host_address()) {
      std::memcpy(memory + range.offset, from, bytes);
      return true;
    }
    return finish(device_->write(range.buffer, range.offset, from, bytes), out_error);
  }

 private:
  bool finish(heddle_status_t* failure, std::string* out_error) {
    if (!failure) return true;
    const heddle_host_t* host = device_->host;
    *out_error = std::string(view_of(host->status_message(host->self, failure)));
    host->status_free(host->self, failure);
    return false;
  }

  Device* device_;
  const std::vector<Range>& ranges_;
};

uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

heddle_status_t* load_code(const Device* device, const Code& code, std::vector<Program>* out,
                           const std::shared_ptr<const OwnKernels>& own) noexcept {
  return guarded(device->host, "loading portable code", [&]() -> heddle_status_t* {
    std::string error;
    if (!load({code.bytes, code.size}, out, &error, choose(own, code.own_kernels)))
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: loading executable '%s' failed: %s [HD-C-01]", device->who,
                    std::string(code.name.substr(0, kMostShown)).c_str(), error.c_str());
    for (const heddle_entry_params_t& entry : code.entries) {
      for (const Program& program : *out) {
        const Kernel& kernel = program.kernel();
        if (view_of(entry.name) != kernel.name) continue;
        const uint32_t constants_bytes = kernel.symbols * 8;
        if (takes_bindings(kernel, entry.binding_count) && entry.constants_bytes == constants_bytes && entry.argument_count == 0) continue;
        return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                      "%s: loading kernel '%s' failed: it takes %s and %u bytes of constants, in fixed order [HD-C-01]", device->who,
                      kernel.name.c_str(), taken_bindings(kernel).c_str(), constants_bytes);
      }
    }
    return nullptr;
  });
}

heddle_status_t* tell_parts(const Device* device, const heddle_portable_query_t& query, const OwnKernels* own,
                            const std::function<void(const heddle_portable_part_t&)>& part) noexcept {
  return guarded(device->host, "asking how portable code would run", [&]() -> heddle_status_t* {
    auto refuse = [&](heddle_status_code_t code, const std::string& reason) {
      return status(device->host, code, "%s: asking how portable code would run failed: %s", device->who, reason.c_str());
    };
    std::vector<Kernel> kernels;
    std::string error;
    if (view_of(query.format) != HEDDLE_CODE_PORTABLE)
      return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "the code is no '" + std::string(HEDDLE_CODE_PORTABLE) + "'");
    if (!read_image({static_cast<const char*>(query.code), query.code_bytes}, &kernels, &error))
      return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, error);
    for (const Kernel& kernel : kernels) {
      if (kernel.name != view_of(query.entry)) continue;
      if (query.symbols && query.symbol_count != kernel.symbols)
        return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "kernel '" + kernel.name + "' has " + std::to_string(kernel.symbols) +
                                                          " symbols, and the query " + std::to_string(query.symbol_count));
      const auto chosen = choose(std::shared_ptr<const OwnKernels>(std::shared_ptr<const OwnKernels>(), own), view_of(query.own_kernels));
      for (const Part& each : parts_of(kernel, chosen.get(), query.symbols)) {
        heddle_portable_part_t out = {};
        out.struct_size = sizeof out;
        out.node_count = static_cast<uint32_t>(each.nodes.size());
        out.nodes = each.nodes.data();
        out.what = string_of(each.what);
        out.kernel = string_of(each.answer.kernel);
        out.reason = string_of(each.answer.reason);
        out.workspace_bytes = each.answer.workspace_bytes;
        out.cost_ns = each.answer.cost_ns;
        part(out);
      }
      return nullptr;
    }
    return refuse(HEDDLE_STATUS_NOT_FOUND, "the code has no kernel '" + std::string(view_of(query.entry)) + "'");
  });
}

heddle_status_t* run_dispatch(Device* device, const Operation& dispatch, const Program& program, Workers* workers,
                              const Limits& limits) noexcept {
  return guarded(device->host, "running a kernel", [&]() -> heddle_status_t* {
    if (dispatch.workgroups == 0) return nullptr;
    const uint64_t begin = nanoseconds();
    std::vector<int64_t> symbols(dispatch.bytes.size() / sizeof(int64_t));
    if (!symbols.empty()) std::memcpy(symbols.data(), dispatch.bytes.data(), symbols.size() * sizeof(int64_t));
    std::vector<Memory> bindings;
    std::vector<uint64_t> bytes;
    bool is_staged = false;
    for (const Range& range : dispatch.ranges) {
      char* memory = range.buffer ? range.buffer->host_address() : nullptr;
      is_staged |= range.buffer && range.length > 0 && !memory;
      bindings.push_back({memory ? memory + range.offset : nullptr, range.length});
      bytes.push_back(range.length);
    }
    std::string reason;
    uint64_t staged_bytes = 0;
    Program::Used used;
    bool is_done;
    if (is_staged) {
      DispatchMemory memory(device, dispatch.ranges);
      is_done = run_staged(program, bytes, memory, symbols.data(), symbols.size(), &reason, &staged_bytes, limits, workers, &used);
    } else {
      is_done = program.run(bindings, symbols.data(), symbols.size(), &reason, limits, workers, &used);
    }
    const uint64_t taken = nanoseconds() - begin;
    device->interpreted.fetch_add(used.interpreted > 0 || used.own == 0, std::memory_order_relaxed);
    device->interpreted_ns.fetch_add(taken - std::min(taken, used.own_ns), std::memory_order_relaxed);
    device->kernel_ns.fetch_add(taken, std::memory_order_relaxed);
    device->staged_bytes.fetch_add(staged_bytes, std::memory_order_relaxed);
    if (is_done) return nullptr;
    heddle_status_t* failure = status(device->host, HEDDLE_STATUS_INTERNAL, "%s: running kernel '%s' (region %u) failed: %s", device->who,
                                      program.kernel().name.c_str(), dispatch.region, reason.c_str());
    set_region(device->host, failure, dispatch.region);
    return failure;
  });
}

}  // namespace heddle::sdk::portable
