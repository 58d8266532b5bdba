// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See executor.h.
#include "tests/level_zero/executor.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>

#include "tests/level_zero/dot_products.h"
#include "tests/level_zero/settings.h"
#include "tests/support/opencl.h"

extern char** environ;

namespace heddle::level_zero_stand_in {

namespace {

using namespace heddle::test;

struct OpenCl : OpenClFunctions {
  void* device = nullptr;
  void* context = nullptr;
  void* queue = nullptr;
  ExecutorFacts facts;

  static OpenCl& get() {
    static OpenCl* const opencl = [] {
      auto* made = new OpenCl();  // never ended: OpenCL's own threads may outlive us
      made->facts.reason = made->open();
      return made;
    }();
    return *opencl;
  }

 private:
  OpenCl() : OpenClFunctions{} {}

  std::string open() {
    if (const std::string why = find(settings().opencl.c_str()); !why.empty()) return why;
    void* platforms[16] = {};
    unsigned count = 0;
    if (clGetPlatformIDs(16, platforms, &count) != 0 || count == 0) return "OpenCL has no platform; install pocl-opencl-icd";
    // A device that takes SPIR-V itself, if the settings do not name a platform.
    std::string names;
    void* translated = nullptr;
    for (unsigned i = 0; i < count && i < 16 && device == nullptr; ++i) {
      char name[256] = {};
      clGetPlatformInfo(platforms[i], kOpenClPlatformName, sizeof name - 1, name, nullptr);
      names += (names.empty() ? "'" : ", '") + std::string(name) + "'";
      if (strstr(name, settings().platform.c_str()) == nullptr) continue;
      if (clGetDeviceIDs(platforms[i], kOpenClCpu, 1, &device, nullptr) != 0) device = nullptr;
      if (device == nullptr || text(device, kOpenClIlVersion).find("SPIR-V") != std::string::npos) continue;
      if (translated == nullptr && text(device, kOpenClExtensions).find("cl_khr_spir ") != std::string::npos) translated = device;
      device = nullptr;
    }
    facts.takes_spirv = device != nullptr;
    if (device == nullptr) device = translated;
    if (device == nullptr) {
      return "OpenCL has no CPU that takes SPIR-V or SPIR, of a platform '" + settings().platform + "'; its platforms: " + names;
    }
    facts.name = text(device, kOpenClName);
    size_t threads = 0;
    clGetDeviceInfo(device, kOpenClMaxGroup, sizeof threads, &threads, nullptr);
    facts.most_threads = threads;
    clGetDeviceInfo(device, kOpenClUnits, sizeof facts.processors, &facts.processors, nullptr);
    int error = 0;
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    if (error == 0) queue = clCreateCommandQueueWithProperties(context, device, nullptr, &error);
    return error == 0 ? "" : "OpenCL gave error " + std::to_string(error);
  }
};

// Memory that a child process reads or writes as a file.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("heddle-spirv", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int descriptor() const { return descriptor_; }
  bool write_all(const void* bytes, size_t size) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = pwrite(descriptor_, static_cast<const char*>(bytes) + done, size - done, static_cast<off_t>(done));
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  std::string contents() const {
    std::string all;
    char part[65536];
    ssize_t n = 0;
    while ((n = pread(descriptor_, part, sizeof part, static_cast<off_t>(all.size()))) > 0) all.append(part, static_cast<size_t>(n));
    return all;
  }

 private:
  int descriptor_;
};

// LLVM bitcode of SPIR-V; empty if that fails, with the translator's words in *log.
std::string translate(const std::vector<uint32_t>& words, std::string* log) {
  const MemoryFile in, out, messages;
  if (in.descriptor() < 0 || out.descriptor() < 0 || messages.descriptor() < 0 ||
      !in.write_all(words.data(), words.size() * sizeof(uint32_t))) {
    *log = "writing the module for the translator failed";
    return "";
  }
  const std::string& program = settings().translator;
  // The child has the files as its standard ones; the translator opens names.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.descriptor(), 0);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), 1);
  posix_spawn_file_actions_adddup2(&actions, messages.descriptor(), 2);
  const char* const arguments[] = {program.c_str(), "-r", "/dev/stdin", "-o", "/dev/stdout", nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    *log = "starting '" + program + "' failed: " + strerror(error) + "; install llvm-spirv-15";
    return "";
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::string bitcode = out.contents();
  *log = messages.contents();
  if (status != 0 || bitcode.empty()) {
    if (WIFSIGNALED(status)) *log += "\n'" + program + "' ended with signal " + std::to_string(WTERMSIG(status));
    if (log->empty()) *log = "'" + program + "' ended with status " + std::to_string(status);
    return "";
  }
  return bitcode;
}

}  // namespace

const ExecutorFacts& executor_facts() {
  return OpenCl::get().facts;
}

std::shared_ptr<Program> Program::build(std::vector<uint32_t> words, const std::string& flags, std::string* log) {
  OpenCl& cl = OpenCl::get();
  if (!cl.facts.reason.empty()) {
    *log = cl.facts.reason;
    return nullptr;
  }
  std::shared_ptr<Program> made(new Program());
  made->words_ = std::move(words);
  *log = read_kernels(made->words_, &made->kernels_);
  if (!log->empty()) return nullptr;
  int error = 0;
  std::string options = flags;
  if (cl.facts.takes_spirv) {
    made->program_ = cl.clCreateProgramWithIL(cl.context, made->words_.data(), made->words_.size() * sizeof(uint32_t), &error);
  } else {
    // PoCL's library has no such functions.
    std::vector<uint32_t> lowered = made->words_;
    *log = lower_dot_products(&lowered);
    if (!log->empty()) return nullptr;
    const std::string bitcode = translate(lowered, log);
    if (bitcode.empty()) return nullptr;
    const auto* bytes = reinterpret_cast<const unsigned char*>(bitcode.data());
    const size_t size = bitcode.size();
    int state = 0;
    made->program_ = cl.clCreateProgramWithBinary(cl.context, 1, &cl.device, &size, &bytes, &state, &error);
    options += " -x spir -spir-std=1.2";
  }
  if (made->program_ == nullptr || error != 0) {
    *log = "OpenCL refuses the module with error " + std::to_string(error);
    return nullptr;
  }
  error = cl.clBuildProgram(made->program_, 1, &cl.device, options.c_str(), nullptr, nullptr);
  *log = cl.build_log(made->program_, cl.device);
  if (error != 0) {
    if (log->empty()) *log = "OpenCL gave error " + std::to_string(error);
    return nullptr;
  }
  for (const KernelInfo& kernel : made->kernels_) {
    void* handle = cl.clCreateKernel(made->program_, kernel.name.c_str(), &error);
    if (error != 0) {
      *log = "OpenCL finds no kernel '" + kernel.name + "': error " + std::to_string(error);
      return nullptr;
    }
    made->handles_.push_back(handle);
  }
  return made;
}

Program::~Program() {
  OpenCl& cl = OpenCl::get();
  for (void* handle : handles_) cl.clReleaseKernel(handle);
  if (program_ != nullptr) cl.clReleaseProgram(program_);
}

std::string Program::run(const KernelInfo& kernel, const std::vector<ArgumentValue>& arguments, const uint32_t (&group)[3],
                         const uint32_t (&count)[3]) {
  OpenCl& cl = OpenCl::get();
  void* handle = handles_[static_cast<size_t>(&kernel - kernels_.data())];
  for (unsigned i = 0; i < arguments.size(); ++i) {
    const ArgumentValue& value = arguments[i];
    int error = 0;
    if (kernel.arguments[i].kind == ArgumentInfo::kLocal) {
      error = cl.clSetKernelArg(handle, i, value.local_bytes, nullptr);
    } else if (kernel.arguments[i].kind == ArgumentInfo::kGlobal) {
      void* pointer = nullptr;
      memcpy(&pointer, value.bytes.data(), sizeof pointer);
      error = cl.clSetKernelArgSVMPointer(handle, i, pointer);
    } else {
      error = cl.clSetKernelArg(handle, i, value.bytes.size(), value.bytes.data());
    }
    if (error != 0) return "OpenCL refuses argument " + std::to_string(i) + " with error " + std::to_string(error);
  }
  size_t global[3], local[3];
  for (int d = 0; d < 3; ++d) {
    if (count[d] == 0) return "";
    local[d] = group[d];
    global[d] = size_t{group[d]} * count[d];
  }
  int error = cl.clEnqueueNDRangeKernel(cl.queue, handle, 3, nullptr, global, local, 0, nullptr, nullptr);
  if (error == 0) error = cl.clFinish(cl.queue);
  return error == 0 ? "" : "OpenCL gave error " + std::to_string(error);
}

}  // namespace heddle::level_zero_stand_in
