// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// amdgpu-run: lists the kernels of a code object, says which of their instructions the interpreter does not know, and runs one of them. docs/vendors/amd.md
// describes it. A tool for tests, which is not installed.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <stdexcept>

#include "tests/amdgpu/covered_names.h"
#include "tests/amdgpu/interpreter.h"
#include "tests/amdgpu/matrix.h"
#include "tests/amdgpu/mnemonics.h"

namespace {

using namespace heddle::amdgpu;

const char* const kUsage =
    "usage: amdgpu-run FILE                       kernels, their resources, instructions that are not implemented\n"
    "       amdgpu-run FILE --list KERNEL         its instructions\n"
    "       amdgpu-run FILE KERNEL OPTION...      run it\n"
    "  --grid X,Y,Z --block X,Y,Z                 work items; 1,1,1 is the default\n"
    "  --arg u32:N | i64:N | f32:X | f64:X        the next argument\n"
    "  --arg buffer:BYTES[=FILE][>FILE]           the next argument is a new buffer, with the contents of a file or zero, written to a "
    "file at the end\n"
    "  --lds BYTES --seed N --seeds N             dynamic LDS; seed; that many seeds from there\n"
    "  --statistics                               instructions by opcode\n"
    "       amdgpu-run --implemented              mnemonics that are implemented\n"
    "       amdgpu-run --layouts                  answers each line PROCESSOR WAVE MNEMONIC CBSZ ABID BLGP UPPER of stdin: where the "
    "elements of "
    "A, B and D lie\n"
    "       amdgpu-run --untested FILE...         mnemonics of their kernels that no test of the interpreter executes, and how many there "
    "are\n";

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("amdgpu-run: opening '" + path + "' failed");
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

template <class T>
T number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error("amdgpu-run: '" + text + "' is not a number in range");
  return value;
}

Grid grid(const std::string& text) {
  Grid g;
  uint32_t* const fields[] = {&g.x, &g.y, &g.z};
  size_t start = 0;
  for (uint32_t* field : fields) {
    const size_t comma = text.find(',', start);
    *field = number<uint32_t>(text.substr(start, comma - start));
    if (comma == std::string::npos) return g;
    start = comma + 1;
  }
  throw std::runtime_error("amdgpu-run: '" + text + "' has more than three extents");
}

std::string mnemonic(const std::string& text) {
  std::string name = text.substr(0, text.find_first_of(" \t"));
  return name;
}

void show(const CodeObject& code) {
  std::printf("%s\n", code.target().c_str());
  for (const Kernel& k : code.kernels()) {
    const auto lines = code.listing(k.name);
    std::printf("%s: %zu instructions, wave %u, %u SGPR, %u VGPR, %u AGPR, %u bytes of LDS, %u of private memory, %u of arguments\n",
                k.name.c_str(), lines.size(), k.wave_size, k.sgprs, k.vgprs, k.agprs, k.lds_bytes, k.private_bytes, k.kernarg_bytes);
    std::set<std::string> unknown;
    for (const Line& line : lines) {
      if (!line.text.empty() && !understood(code, line.address)) unknown.insert(mnemonic(line.text));
    }
    for (const std::string& name : unknown) std::printf("  not implemented: %s\n", name.c_str());
  }
}

struct Buffer {
  std::vector<std::byte> data;
  std::string out;
};

int execute(CodeObject& code, const std::string& name, const std::vector<std::string>& options) {
  const Kernel* kernel = code.kernel(name);
  if (kernel == nullptr) throw std::runtime_error("amdgpu-run: there is no kernel '" + name + "'");
  Dispatch dispatch;
  Options run_options;
  Memory memory;
  std::vector<std::byte> kernarg(kernel->kernarg_bytes);
  std::vector<std::unique_ptr<Buffer>> buffers;
  size_t argument = 0, seeds = 1;
  bool statistics = false;
  for (size_t n = 0; n < options.size(); ++n) {
    const std::string& option = options[n];
    if (option == "--statistics") {
      statistics = true;
      continue;
    }
    if (n + 1 == options.size()) throw std::runtime_error("amdgpu-run: option '" + option + "' needs a value, or does not exist");
    const std::string& value = options[++n];
    if (option == "--grid") {
      dispatch.grid = grid(value);
    } else if (option == "--block") {
      dispatch.block = grid(value);
    } else if (option == "--lds") {
      dispatch.dynamic_lds_bytes = number<uint32_t>(value);
    } else if (option == "--seed") {
      run_options.seed = number<uint64_t>(value);
    } else if (option == "--seeds") {
      seeds = number<uint64_t>(value);
    } else if (option == "--arg") {
      if (argument >= kernel->arguments.size())
        throw std::runtime_error("amdgpu-run: the kernel has " + std::to_string(kernel->arguments.size()) + " arguments");
      const Argument& a = kernel->arguments[argument++];
      const auto put = [&](auto v) {
        if (a.size != sizeof(v))
          throw std::runtime_error("amdgpu-run: argument '" + a.name + "' has " + std::to_string(a.size) + " bytes, not " +
                                   std::to_string(sizeof(v)));
        std::memcpy(kernarg.data() + a.offset, &v, sizeof(v));
      };
      const std::string type = value.substr(0, value.find(':')), text = value.substr(std::min(value.size(), type.size() + 1));
      if (type == "u32") {
        put(number<uint32_t>(text));
      } else if (type == "i32") {
        put(number<int32_t>(text));
      } else if (type == "i64") {
        put(number<int64_t>(text));
      } else if (type == "f32") {
        put(number<float>(text));
      } else if (type == "f64") {
        put(number<double>(text));
      } else if (type == "buffer") {
        auto b = std::make_unique<Buffer>();
        const size_t out = text.find('>'), in = text.find('=');
        if (out != std::string::npos) b->out = text.substr(out + 1);
        if (in != std::string::npos && in < out) b->data = read_file(text.substr(in + 1, out == std::string::npos ? out : out - in - 1));
        b->data.resize(number<size_t>(text.substr(0, std::min(in, out))));
        memory.map(b->data.data(), b->data.size(), true, "argument '" + a.name + "'");
        put(reinterpret_cast<uint64_t>(b->data.data()));
        buffers.push_back(std::move(b));
      } else {
        throw std::runtime_error("amdgpu-run: '" + type + "' is no kind of argument");
      }
    } else {
      throw std::runtime_error("amdgpu-run: option '" + option + "' does not exist");
    }
  }
  fill_hidden_arguments(*kernel, dispatch, kernarg);
  dispatch.kernarg = kernarg;
  for (size_t n = 0; n < seeds; ++n, ++run_options.seed) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = run(code, *kernel, dispatch, memory, run_options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Statistics& s = outcome.statistics;
    std::printf("seed %llu: %llu instructions of %llu waves in %.3f s, %.2f million per second\n",
                static_cast<unsigned long long>(run_options.seed), static_cast<unsigned long long>(s.instructions),
                static_cast<unsigned long long>(s.waves), seconds, static_cast<double>(s.instructions) / seconds / 1e6);
    if (statistics) {
      for (const auto& [opcode, count] : s.by_opcode) std::printf("%12llu  %s\n", static_cast<unsigned long long>(count), opcode.c_str());
    }
    if (!outcome.ok()) {
      std::fprintf(stderr, "%s\n", outcome.fault.c_str());
      return 1;
    }
  }
  for (const auto& b : buffers) {
    if (b->out.empty()) continue;
    std::ofstream file(b->out, std::ios::binary);
    file.write(reinterpret_cast<const char*>(b->data.data()), static_cast<std::streamsize>(b->data.size()));
    if (!file.flush()) throw std::runtime_error("amdgpu-run: writing '" + b->out + "' failed");
  }
  return 0;
}

int show_untested(std::span<const std::string> paths) {
  const std::set<std::string> covered = covered_names();
  std::map<std::string, std::string> found;  // the first file that has the instruction
  for (const std::string& path : paths) {
    const auto code = CodeObject::load(read_file(path));
    for (const Kernel& kernel : code->kernels()) {
      for (const Line& line : code->listing(kernel.name)) {
        for (const std::string& name : mnemonics_of(line.text)) found.emplace(name, path);
      }
    }
  }
  size_t untested = 0;
  for (const auto& [name, path] : found) {
    if (covered.contains(name)) continue;
    ++untested;
    std::printf("untested: %s in %s\n", name.c_str(), path.c_str());
  }
  std::printf("%zu files, %zu instructions, %zu untested\n", paths.size(), found.size(), untested);
  return 0;
}

// For each question a line "unknown", or the bits of the elements of A and B and of D, followed by three lists LANE.ELEMENT: A by [block][row][k], B by
// [block][k][column], D by [block][row][column]. The element counts within the registers of a lane.
int answer_layouts() {
  std::string processor, mnemonic;
  unsigned wave = 0, upper = 0;
  Broadcast broadcast;
  while (std::cin >> processor >> wave >> mnemonic >> broadcast.cbsz >> broadcast.abid >> broadcast.blgp >> upper) {
    const Processor* found = find_processor(processor);
    MatrixPlan plan;
    plan.matrix = find_matrix(mnemonic);
    if (found == nullptr || plan.matrix == nullptr || (wave != 32 && wave != 64) || broadcast.cbsz > 4 || broadcast.abid > 15 ||
        broadcast.blgp > 7) {
      std::printf("unknown\n");
      continue;
    }
    place_matrix(plan, *found, wave, broadcast, upper != 0);
    std::printf("%u %u", bits_of(plan.matrix->a), bits_of(plan.matrix->d));
    for (const auto* places : {&plan.a, &plan.b, &plan.d}) {
      std::printf(" ;");
      for (const Place& place : *places) std::printf(" %u.%u", place.lane, place.element);
    }
    std::printf("\n");
  }
  return 0;
}

int run_command(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments[0] == "--implemented") {
    for (const std::string& name : implemented()) std::printf("%s\n", name.c_str());
    return 0;
  }
  if (arguments.size() == 1 && arguments[0] == "--layouts") return answer_layouts();
  if (arguments.size() > 1 && arguments[0] == "--untested") return show_untested(std::span(arguments).subspan(1));
  if (arguments.empty() || arguments[0].substr(0, 2) == "--") {
    std::fputs(kUsage, arguments.size() == 1 && arguments[0] == "--help" ? stdout : stderr);
    return arguments.size() == 1 && arguments[0] == "--help" ? 0 : 2;
  }
  const auto code = CodeObject::load(read_file(arguments[0]));
  if (arguments.size() == 1) {
    show(*code);
    return 0;
  }
  if (arguments[1] == "--list" && arguments.size() == 3) {
    for (const Line& line : code->listing(arguments[2]))
      std::printf("%8llx  %s\n", static_cast<unsigned long long>(line.address), line.text.c_str());
    return 0;
  }
  return execute(*code, arguments[1], {arguments.begin() + 2, arguments.end()});
}

}  // namespace

int main(int count, char** values) {
  try {
    return run_command({values + 1, values + count});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
