// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See translated.h.
#include "translated.h"

#include <algorithm>
#include <cstring>

#include "code.h"
#include "heddle/code.h"
#include "heddle/sdk/portable/dispatch.h"
#include "instructions.h"
#include "product.h"
#include "writer.h"

namespace opencl {

namespace {

class Translated final : public Kernel {
 public:
  Translated(Device* device, portable::Program program, const std::vector<Function>& functions)
      : device_(device), program_(std::move(program)) {
    for (const Function& function : functions) names_.push_back(function.name);
    device_->programs->add(functions);
  }
  ~Translated() override { device_->programs->drop(names_); }

  heddle_status_t* run(Device* device, const sdk::Operation& dispatch) const override {
    const std::string who = "running kernel '" + dispatch.entry->name + "' (region " + std::to_string(dispatch.region) + ")";
    heddle_status_t* failure = nullptr;
    if (!runner_) {
      std::vector<cl_kernel> objects;
      failure = device->programs->find(names_, who, &objects);
      if (!failure) runner_ = std::make_unique<Runner>(device->cl, device->context, device->found, program_, objects);
    }
    std::vector<Place> bindings;
    std::vector<uint64_t> bytes;
    for (const sdk::Range& range : dispatch.ranges) {
      bindings.push_back(range.buffer ? Place{object_of(range), range.offset} : Place{});
      bytes.push_back(range.buffer ? range.length : 0);
    }
    std::vector<int64_t> symbols(dispatch.bytes.size() / sizeof(int64_t));
    if (!symbols.empty()) std::memcpy(symbols.data(), dispatch.bytes.data(), symbols.size() * sizeof(int64_t));
    std::string reason;
    if (!failure && !runner_->run(device->queue, bindings, bytes, symbols, &device->programs->scratch, &reason))
      failure = sdk::status(device->host, HEDDLE_STATUS_INTERNAL, "%s: %s failed: %s", device->who, who.c_str(), reason.c_str());
    if (failure) sdk::set_region(device->host, failure, dispatch.region);
    return failure;
  }

 private:
  Device* device_;
  portable::Program program_;
  std::vector<std::string> names_;
  mutable std::unique_ptr<Runner> runner_;  // since the first call
};

// The functions of a kernel, and that for products, if it has some.
std::vector<Function> all_functions(const portable::Kernel& kernel, std::vector<Function> written) {
  for (uint32_t node = 0; node < kernel.nodes.size(); ++node) {
    if (!is_product(kernel, node)) continue;
    written.push_back({"product", kProduct});
    break;
  }
  return written;
}

}  // namespace

Programs::~Programs() {
  if (scratch.place.object) device_->cl.clReleaseMemObject(scratch.place.object);
}

void Programs::add(const std::vector<Function>& functions) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Function& function : functions) {
    Entry& entry = functions_[function.name];
    entry.text = function.text;
    ++entry.uses;
  }
}

void Programs::drop(const std::vector<std::string>& names) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& name : names) {
    const auto found = functions_.find(name);
    if (--found->second.uses > 0) continue;
    if (found->second.object) device_->cl.clReleaseKernel(found->second.object);
    functions_.erase(found);
  }
}

heddle_status_t* Programs::build_all(const std::vector<std::string>& names, const std::string& who) {
  std::string source = kPrelude;
  for (const std::string& name : names) source += functions_[name].text;
  cl_program program = nullptr;
  if (heddle_status_t* failed = build(device_, source, who, &program)) return failed;
  cl_int error = CL_SUCCESS;
  for (const std::string& name : names) {
    if (!error) functions_[name].object = device_->cl.clCreateKernel(program, name.c_str(), &error);
  }
  device_->cl.clReleaseProgram(program);  // its kernels keep it
  return device_->check(error, who);
}

heddle_status_t* Programs::find(const std::vector<std::string>& names, const std::string& who, std::vector<cl_kernel>* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> wanted, missing;
  for (const auto& [name, entry] : functions_) {
    if (entry.object) continue;
    missing.push_back(name);
    if (std::find(names.begin(), names.end(), name) != names.end()) wanted.push_back(name);
  }
  if (!wanted.empty()) {
    heddle_status_t* failed = build_all(missing, who);
    if (failed && wanted.size() < missing.size()) {
      // Perhaps it was another kernel's.
      device_->host->status_free(device_->host->self, failed);
      failed = build_all(wanted, who);
    }
    if (failed) return failed;
  }
  for (const std::string& name : names) out->push_back(functions_[name].object);
  return nullptr;
}

heddle_status_t* load_translated(Device* device, const sdk::Code& code, Executable* out) {
  auto refuse = [&](const std::string& reason) {
    return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: loading executable '%s' failed: %s [HD-C-01]", device->who,
                       std::string(code.name.substr(0, 100)).c_str(), reason.c_str());
  };
  Image image;
  std::string error;
  sdk::Code portable_code = code;
  const bool is_written = code.format != HEDDLE_CODE_PORTABLE;
  if (is_written) {
    if (!read_image({code.bytes, code.size}, &image, &error)) return refuse(error);
    portable_code.bytes = image.portable.data();
    portable_code.size = image.portable.size();
  }
  std::vector<portable::Program> programs;
  if (heddle_status_t* bad = portable::load_code(device, portable_code, &programs)) return bad;
  size_t next = 0;
  for (portable::Program& program : programs) {
    const portable::Kernel& kernel = program.kernel();
    const std::string name = kernel.name;
    std::vector<Function> functions;
    if (is_written) {
      const size_t count = function_count(kernel);
      if (count > image.functions.size() - next) return refuse("it has too few functions for kernel '" + name + "'");
      const auto first = image.functions.begin() + static_cast<std::ptrdiff_t>(next);
      functions.assign(first, first + static_cast<std::ptrdiff_t>(count));
      next += count;
    }
    if (!why_not_written(kernel, device->found.has_f64).empty()) {
      out->kernels[name] = std::make_unique<Interpreted>(std::move(program));
      continue;
    }
    if (!is_written) functions = write_functions(kernel);
    functions = all_functions(kernel, std::move(functions));
    out->kernels[name] = std::make_unique<Translated>(device, std::move(program), functions);
  }
  if (next != image.functions.size()) return refuse("it has more functions than its kernels need");
  return nullptr;
}

}  // namespace opencl
