// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ResNet-50's 53 convolutions, bias and tail included, one after the other on one core as in the network, so that each finds its
// weights as cold as there. Run by hand: conv_bench [rounds]. Prints each shape's share of the peak, and the sum.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/bench/gemm_kernel.h"

namespace heddle::bench {
namespace {

struct Layer {
  int64_t size, channels, columns, kernel, stride;
  bool residual;
  bool operator==(const Layer&) const = default;
};

std::vector<Layer> resnet50() {
  std::vector<Layer> layers{{224, 3, 64, 7, 2, false}};
  int64_t size = 56, channels = 64;
  const int64_t widths[] = {64, 128, 256, 512}, counts[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    for (int64_t i = 0; i < counts[stage]; ++i) {
      int64_t width = widths[stage], stride = i == 0 && stage > 0 ? 2 : 1;
      layers.push_back({size, channels, width, 1, 1, false});
      layers.push_back({size, width, width, 3, stride, false});
      if (i == 0) layers.push_back({size, channels, width * 4, 1, stride, false});
      size /= stride;
      layers.push_back({size, width, width * 4, 1, 1, true});
      channels = width * 4;
    }
  }
  return layers;
}

std::string type(std::initializer_list<int64_t> shape) {
  std::string text;
  for (int64_t extent : shape) text += std::to_string(extent) + "x";
  return text + "f32";
}

struct Instance {
  const Kernel* kernel;
  size_t shape;
  std::unique_ptr<Floats> weights;
};

// Other layers than ResNet-50's: "size,channels,columns,kernel,stride;..." with pads that keep the size.
std::vector<Layer> layers_of(const char* text) {
  std::vector<Layer> layers;
  Layer layer{};
  int used = 0;
  while (sscanf(text, "%ld,%ld,%ld,%ld,%ld%n", &layer.size, &layer.channels, &layer.columns, &layer.kernel, &layer.stride, &used) == 5) {
    layers.push_back(layer);
    text += used;
    if (*text == ';') ++text;
  }
  return layers;
}

int run(int rounds) {
  auto context = make_context();
  std::string level = level_of_this_cpu();
  const char* others = getenv("HEDDLE_BENCH_LAYERS");
  std::vector<Layer> layers = others ? layers_of(others) : resnet50(), shapes;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<Instance> instances;
  std::vector<double> flops;
  Floats bias(2048), first(224 * 224 * 64), second(224 * 224 * 64), residual(56 * 56 * 256);
  double compile = 0, packing = 0;
  for (const Layer& layer : layers) {
    size_t shape = 0;
    while (shape < shapes.size() && !(shapes[shape] == layer)) ++shape;
    int64_t out = (layer.size + layer.stride - 1) / layer.stride, pad = layer.kernel / 2;
    int64_t high = (out - 1) * layer.stride + layer.kernel - layer.size - pad;
    const bool winograd = layer.kernel == 3 && layer.stride == 1 && getenv("HEDDLE_BENCH_WINOGRAD") != nullptr;
    const std::string form = winograd ? ", winograd" : "";
    int64_t depth = layer.kernel * layer.kernel * layer.channels,
            size = (winograd ? 16 * layer.channels : depth) * ((layer.columns + 15) / 16 * 16);
    std::string x = type({1, layer.size, layer.size, layer.channels}),
                w = type({layer.kernel, layer.kernel, layer.channels, layer.columns}), p = type({size}), f = type({layer.columns}),
                y = type({1, out, out, layer.columns});
    if (shape == shapes.size()) {
      shapes.push_back(layer);
      auto pair = [](int64_t v) { return "array<i64: " + std::to_string(v) + ", " + std::to_string(v) + ">"; };
      std::string attributes =
          "{strides = " + pair(layer.stride) + ", pads_low = " + pair(pad) + ", pads_high = " + pair(std::max<int64_t>(high, 0)) +
          ", dilations = " + pair(1) + ", groups = 1 : i64, packed_shape = array<i64: " + std::to_string(layer.kernel) + ", " +
          std::to_string(layer.kernel) + ", " + std::to_string(layer.channels) + ", " + std::to_string(layer.columns) + ">" + form + "}";
      std::string t = "tensor<" + y + ">";
      std::string body = "%y = tx.conv %0, %1 " + attributes + " : tensor<" + x + ">, tensor<" + p + "> -> " + t +
                         "\n%b = tx.broadcast %2 {dimensions = array<i64: 3>} : tensor<" + f + "> -> " + t + "\n%s = tx.add %y, %b : " + t +
                         "\n";
      std::vector<std::string> operands{x, p, f};
      if (layer.residual) {
        operands.push_back(y);
        body += "%u = tx.add %s, %3 : " + t + "\n%z = tx.relu %u : " + t;
      } else {
        body += "%z = tx.relu %s : " + t;
      }
      kernels.push_back(std::make_unique<Kernel>(*context, level, operands, y, body + "\ntx.yield %z : " + t));
      compile += kernels.back()->compile_seconds();
      flops.push_back(2.0 * static_cast<double>(out * out * layer.columns * depth));
    }
    Kernel pack(*context, level, {w}, p,
                "%p = tx.pack %0 {groups = 1" + form + "} : tensor<" + w + "> -> tensor<" + p + ">\ntx.yield %p : tensor<" + p + ">");
    Floats weights(static_cast<size_t>(depth * layer.columns), 3);
    instances.push_back({kernels[shape].get(), shape, std::make_unique<Floats>(size)});
    double start = now();
    pack.run({weights.data(), instances.back().weights->data()});
    packing += now() - start;
  }

  std::vector<std::vector<double>> times(shapes.size());
  std::vector<double> totals, peaks;
  for (int round = -1; round < rounds; ++round) {
    double peak = peak_gflops(level), total = 0;
    std::vector<double> sums(shapes.size(), 0);
    float *x = first.data(), *y = second.data();
    for (const Instance& instance : instances) {
      std::vector<float*> bindings{x, instance.weights->data(), bias.data()};
      if (shapes[instance.shape].residual) bindings.push_back(residual.data());
      bindings.push_back(y);
      double start = now();
      instance.kernel->run(bindings);
      double seconds = now() - start;
      sums[instance.shape] += seconds;
      total += seconds;
      std::swap(x, y);
    }
    if (round < 0) continue;
    peaks.push_back(peak);
    totals.push_back(total);
    for (size_t i = 0; i < shapes.size(); ++i) times[i].push_back(sums[i]);
  }
  // On a machine that does other work too, the best round says more about the kernel than the median does.
  bool best = getenv("HEDDLE_BENCH_BEST") != nullptr;
  auto settle = [&](const std::vector<double>& values) { return best ? *std::min_element(values.begin(), values.end()) : median(values); };
  double peak = best ? *std::max_element(peaks.begin(), peaks.end()) : median(peaks), all = 0, ideal = 0;
  printf("level %s, %d rounds, %s; peak %.1f GFLOP/s; compiled %zu kernels in %.2f s, packed weights in %.1f ms\n", level.c_str(), rounds,
         best ? "best" : "medians", peak, shapes.size(), compile, packing * 1e3);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Layer& layer = shapes[i];
    double count = 0;
    for (const Instance& instance : instances) count += instance.shape == i;
    double seconds = settle(times[i]), rate = flops[i] * count / seconds * 1e-9;
    all += flops[i] * count;
    ideal += flops[i] * count / peak * 1e-9;
    printf("%ldx%ld /%ld %4ld^2 %5ld ->%5ld%s x%.0f: %8.1f us, %6.1f GFLOP/s, %5.1f %% of peak, %lu workgroups\n", layer.kernel,
           layer.kernel, layer.stride, layer.size, layer.channels, layer.columns, layer.residual ? " +res" : "     ", count,
           seconds / count * 1e6, rate, 100 * rate / peak, kernels[i]->workgroups());
  }
  printf("all: %.2f ms, %.1f GFLOP/s, %.1f %% of peak (ideal %.2f ms)\n", settle(totals) * 1e3, all / settle(totals) * 1e-9,
         100 * all / settle(totals) * 1e-9 / peak, ideal * 1e3);
  return 0;
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  heddle::bench::pin();
  return heddle::bench::run(argc > 1 ? atoi(argv[1]) : 15);
}
