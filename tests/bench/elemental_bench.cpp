// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times memory-bound kernels of the x86-64 target on one core against memcpy of as many bytes: elemental_bench [v3|v4] [rounds].
// Run by people, pinned to a core; needs no driver.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/compiler/kernel_run.h"

namespace {

using namespace heddle::tests;

struct Case {
  const char* name;
  std::vector<std::string> operands;
  std::string result;
  std::string body;
};

std::string pool(const std::string& kind, const std::string& in, const std::string& out, int kernel, int stride, int low, int high) {
  auto pair = [](int value) { return "array<i64: " + std::to_string(value) + ", " + std::to_string(value) + ">"; };
  return "%x = tx.pool " + kind + " %0 {kernel = " + pair(kernel) + ", strides = " + pair(stride) + ", pads_low = " + pair(low) +
         ", pads_high = " + pair(high) + ", dilations = " + pair(1) + "} : tensor<" + in + "> -> tensor<" + out + ">";
}

std::string transpose(const std::string& in, const std::string& out, const std::string& permutation) {
  return "%x = tx.transpose %0 {permutation = array<i64: " + permutation + ">} : tensor<" + in + "> -> tensor<" + out + ">";
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median_us(int rounds, const std::function<void()>& body) {
  std::vector<double> times;
  body();
  for (int i = 0; i < rounds; ++i) {
    double start = seconds();
    body();
    times.push_back((seconds() - start) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::string level = std::string("x86-64-") + (argc > 1 ? argv[1] : "v4");
  int rounds = argc > 2 ? atoi(argv[2]) : 51;
  const std::vector<Case> cases = {
      {"relu 56x56x256", {"1x56x56x256xf32"}, "1x56x56x256xf32", "%x = tx.relu %0 : tensor<1x56x56x256xf32>"},
      {"add relu 56x56x256",
       {"1x56x56x256xf32", "1x56x56x256xf32"},
       "1x56x56x256xf32",
       "%s = tx.add %0, %1 : tensor<1x56x56x256xf32>\n%x = tx.relu %s : tensor<1x56x56x256xf32>"},
      {"scale bias relu 28x28x256",
       {"1x28x28x256xf32", "256xf32", "256xf32"},
       "1x28x28x256xf32",
       "%a = tx.broadcast %1 {dimensions = array<i64: 3>} : tensor<256xf32> -> tensor<1x28x28x256xf32>\n"
       "%b = tx.broadcast %2 {dimensions = array<i64: 3>} : tensor<256xf32> -> tensor<1x28x28x256xf32>\n"
       "%m = tx.mul %0, %a : tensor<1x28x28x256xf32>\n%s = tx.add %m, %b : tensor<1x28x28x256xf32>\n%x = tx.relu %s : "
       "tensor<1x28x28x256xf32>"},
      {"exp 1M", {"1048576xf32"}, "1048576xf32", "%x = tx.exp %0 : tensor<1048576xf32>"},
      {"tanh 1M", {"1048576xf32"}, "1048576xf32", "%x = tx.tanh %0 : tensor<1048576xf32>"},
      {"erf 1M", {"1048576xf32"}, "1048576xf32", "%x = tx.erf %0 : tensor<1048576xf32>"},
      {"NCHW>NHWC 3x224x224", {"1x3x224x224xf32"}, "1x224x224x3xf32", transpose("1x3x224x224xf32", "1x224x224x3xf32", "0, 2, 3, 1")},
      {"NHWC>NCHW 3x224x224", {"1x224x224x3xf32"}, "1x3x224x224xf32", transpose("1x224x224x3xf32", "1x3x224x224xf32", "0, 3, 1, 2")},
      {"NCHW>NHWC 64x56x56", {"1x64x56x56xf32"}, "1x56x56x64xf32", transpose("1x64x56x56xf32", "1x56x56x64xf32", "0, 2, 3, 1")},
      {"NHWC>NCHW 64x56x56", {"1x56x56x64xf32"}, "1x64x56x56xf32", transpose("1x56x56x64xf32", "1x64x56x56xf32", "0, 3, 1, 2")},
      {"OIHW>HWIO 512x512x3x3", {"512x512x3x3xf32"}, "3x3x512x512xf32", transpose("512x512x3x3xf32", "3x3x512x512xf32", "2, 3, 1, 0")},
      {"transpose 4096x4096", {"4096x4096xf32"}, "4096x4096xf32", transpose("4096x4096xf32", "4096x4096xf32", "1, 0")},
      {"shuffle 28x28x4x68", {"1x28x28x4x68xf32"}, "1x28x28x68x4xf32", transpose("1x28x28x4x68xf32", "1x28x28x68x4xf32", "0, 1, 2, 4, 3")},
      {"concat 28x28 (128+192+96+64)",
       {"1x28x28x128xf32", "1x28x28x192xf32", "1x28x28x96xf32", "1x28x28x64xf32"},
       "1x28x28x480xf32",
       "%x = tx.concat %0, %1, %2, %3 {axis = 3} : tensor<1x28x28x128xf32>, tensor<1x28x28x192xf32>, tensor<1x28x28x96xf32>, "
       "tensor<1x28x28x64xf32> -> tensor<1x28x28x480xf32>"},
      {"pad 56x56x64 by 1",
       {"1x56x56x64xf32"},
       "1x58x58x64xf32",
       "%x = tx.pad %0 {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>, value = 0.0} : tensor<1x56x56x64xf32> -> "
       "tensor<1x58x58x64xf32>"},
      {"max 3x3/2 112x112x64", {"1x112x112x64xf32"}, "1x56x56x64xf32", pool("max", "1x112x112x64xf32", "1x56x56x64xf32", 3, 2, 1, 1)},
      {"max 2x2/2 224x224x64", {"1x224x224x64xf32"}, "1x112x112x64xf32", pool("max", "1x224x224x64xf32", "1x112x112x64xf32", 2, 2, 0, 0)},
      {"max 3x3/1 28x28x192", {"1x28x28x192xf32"}, "1x28x28x192xf32", pool("max", "1x28x28x192xf32", "1x28x28x192xf32", 3, 1, 1, 1)},
      {"average 3x3/1 28x28x192",
       {"1x28x28x192xf32"},
       "1x28x28x192xf32",
       pool("average", "1x28x28x192xf32", "1x28x28x192xf32", 3, 1, 1, 1)},
      {"mean 7x7x2048",
       {"1x7x7x2048xf32"},
       "1x2048xf32",
       "%x = tx.reduce mean %0 {axes = array<i64: 1, 2>} : tensor<1x7x7x2048xf32> -> tensor<1x2048xf32>"},
      {"sum rows 1024x1024",
       {"1024x1024xf32"},
       "1024xf32",
       "%x = tx.reduce sum %0 {axes = array<i64: 1>} : tensor<1024x1024xf32> -> tensor<1024xf32>"},
      {"softmax 1000", {"1x1000xf32"}, "1x1000xf32", "%x = tx.softmax %0 {axis = 1} : tensor<1x1000xf32>"},
      {"softmax 512x512", {"512x512xf32"}, "512x512xf32", "%x = tx.softmax %0 {axis = 1} : tensor<512x512xf32>"},
      {"layer norm 128x768",
       {"128x768xf32", "768xf32", "768xf32"},
       "128x768xf32",
       "%m = tx.reduce mean %0 {axes = array<i64: 1>} : tensor<128x768xf32> -> tensor<128xf32>\n"
       "%b = tx.broadcast %m {dimensions = array<i64: 0>} : tensor<128xf32> -> tensor<128x768xf32>\n"
       "%d = tx.sub %0, %b : tensor<128x768xf32>\n%q = tx.mul %d, %d : tensor<128x768xf32>\n"
       "%v = tx.reduce mean %q {axes = array<i64: 1>} : tensor<128x768xf32> -> tensor<128xf32>\n"
       "%c = tx.constant dense<1.0e-5> : tensor<128xf32>\n%e = tx.add %v, %c : tensor<128xf32>\n%r = tx.rsqrt %e : tensor<128xf32>\n"
       "%s = tx.broadcast %r {dimensions = array<i64: 0>} : tensor<128xf32> -> tensor<128x768xf32>\n"
       "%n = tx.mul %d, %s : tensor<128x768xf32>\n%g = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<768xf32> -> "
       "tensor<128x768xf32>\n"
       "%h = tx.mul %n, %g : tensor<128x768xf32>\n%i = tx.broadcast %2 {dimensions = array<i64: 1>} : tensor<768xf32> -> "
       "tensor<128x768xf32>\n"
       "%x = tx.add %h, %i : tensor<128x768xf32>"},
      {"lrn 5 56x56x192",
       {"1x56x56x192xf32"},
       "1x56x56x192xf32",
       "%x = tx.lrn %0 {size = 5, alpha = 1.0e-4, beta = 0.75, bias = 1.0} : tensor<1x56x56x192xf32>"},
  };
  printf("%-30s %6s %6s %10s %10s %8s %8s %8s\n", "kernel (", "groups", "plan us", "us", "memcpy us", "GB/s", "x memcpy", "compile ms");
  for (const Case& c : cases) {
    ParsedRegion parsed(region_text(c.operands, {c.result}, c.body + "\ntx.yield %x : tensor<" + c.result + ">"));
    double start = seconds();
    LoadedKernel kernel(parsed.region(), level);
    double compile_ms = (seconds() - start) * 1e3;
    if (!kernel.usable()) return 1;
    std::vector<void*> bindings;
    std::vector<uint64_t> lengths;
    uint64_t total = 0;
    auto add = [&](mlir::Type type) {
      uint64_t bytes = static_cast<uint64_t>(llvm::cast<mlir::RankedTensorType>(type).getNumElements()) * 4;
      void* memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
      for (uint64_t i = 0; i < bytes / 4; ++i) static_cast<float*>(memory)[i] = static_cast<float>(i % 1021) / 512 - 1;
      bindings.push_back(memory);
      lengths.push_back(bytes);
      total += bytes;
    };
    for (mlir::Value input : parsed.region().getInputs()) add(input.getType());
    for (mlir::Value output : parsed.region().getOutputs()) add(output.getType());
    uint64_t groups = kernel.workgroups();
    double us = median_us(rounds, [&] { kernel.call(bindings, lengths, {}, 0, groups); });
    std::vector<char> from(total / 2, 1), to(total / 2);
    double copy_us = median_us(rounds, [&] {
      memcpy(to.data(), from.data(), to.size());
      asm volatile("" : : "r"(to.data()) : "memory");
    });
    printf("%-30s %6llu %7.1f %10.1f %10.1f %8.1f %8.2f %8.0f\n", c.name, static_cast<unsigned long long>(groups),
           static_cast<double>(kernel.cost_ns()) / 1e3, us, copy_us, static_cast<double>(total) / us / 1e3, us / copy_us, compile_ms);
    for (void* memory : bindings) free(memory);
  }
  return 0;
}
