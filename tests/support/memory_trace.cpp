// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generators, and the reader.
#include "memory_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>

namespace heddle::test {
namespace {

// Writes a trace; standard distributions differ between libraries, so that numbers are drawn here.
class Recorder {
 public:
  Recorder(std::string name, uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15u + 1) { trace_.name = std::move(name); }
  uint64_t allocate(uint64_t size_bytes, const char* owner) {
    const uint64_t block = live_.size();
    auto known = std::find(trace_.owners.begin(), trace_.owners.end(), owner);
    const auto index = static_cast<uint32_t>(known - trace_.owners.begin());
    if (known == trace_.owners.end()) trace_.owners.emplace_back(owner);
    trace_.events.push_back({block, size_bytes, index, false});
    live_.push_back(true);
    return block;
  }
  void free(uint64_t block) {
    if (!live_[block]) throw std::logic_error("a trace frees a block twice");
    live_[block] = false;
    trace_.events.push_back({block, 0, 0, true});
  }
  void free_all(std::vector<uint64_t>& blocks) {
    for (uint64_t block : blocks) free(block);
    blocks.clear();
  }
  MemoryTrace finish() {
    for (uint64_t block = 0; block < live_.size(); ++block) {
      if (live_[block]) free(block);
    }
    return std::move(trace_);
  }
  double uniform() { return (static_cast<double>(random_() >> 11) + 0.5) / 9007199254740992.0; }  // between 0 and 1, never either
  uint64_t below(uint64_t bound) { return static_cast<uint64_t>(uniform() * static_cast<double>(bound)); }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); }
  // 1 or more, with a tail that falls like x^-exponent.
  double power(double exponent) { return std::pow(uniform(), -1 / exponent); }

 private:
  MemoryTrace trace_;
  std::vector<bool> live_;
  std::mt19937_64 random_;
};

// One convolution with its batch normalization.
struct Conv {
  uint64_t in, out, kernel, stride;
  bool relu;
};
struct Block {
  std::vector<Conv> path;
  std::vector<Conv> shortcut;  // empty or one
};

std::vector<Block> resnet50_blocks() {
  std::vector<Block> blocks;
  uint64_t in = 64;
  const uint64_t counts[] = {3, 4, 6, 3}, widths[] = {64, 128, 256, 512};
  for (size_t stage = 0; stage < 4; ++stage) {
    for (uint64_t i = 0; i < counts[stage]; ++i) {
      const uint64_t width = widths[stage], out = 4 * width, stride = i == 0 && stage != 0 ? 2 : 1;
      Block block{{{in, width, 1, 1, true}, {width, width, 3, stride, true}, {width, out, 1, 1, false}}, {}};
      if (i == 0) block.shortcut.push_back({in, out, 1, stride, false});
      blocks.push_back(block);
      in = out;
    }
  }
  return blocks;
}

class ResNet {
 public:
  ResNet(Recorder& record, uint64_t batch) : record_(record), batch_(batch), blocks_(resnet50_blocks()) {
    auto parameter = [&](uint64_t elements) { parameters_.push_back(elements * 4); };
    auto conv = [&](const Conv& c) {
      parameter(c.in * c.out * c.kernel * c.kernel);
      parameter(c.out);
      parameter(c.out);
    };
    conv({3, 64, 7, 2, true});
    for (const Block& block : blocks_) {
      for (const Conv& c : block.path) conv(c);
      for (const Conv& c : block.shortcut) conv(c);
    }
    parameter(2048 * 1000);
    parameter(1000);
    for (uint64_t size : parameters_) record_.allocate(size, "weights");
  }

  void train(uint64_t batch, uint64_t image) { step(batch, image, true); }
  void evaluate(uint64_t batch, uint64_t image) { step(batch, image, false); }

 private:
  struct Saved {  // of one convolution, for its backward pass
    Conv conv;
    uint64_t in_bytes, out_bytes, in_side;
    uint64_t input, out, normalized, mean, deviation;  // blocks; input is another's output
  };

  uint64_t activation(uint64_t channels, uint64_t side, const char* owner = "activations") {
    return record_.allocate(batch_now_ * channels * side * side * 4, owner);
  }
  // im2col of one image, as a library would ask for it.
  void workspace(const Conv& conv, uint64_t side) {
    if (conv.kernel == 1) return;
    record_.free(record_.allocate(conv.in * conv.kernel * conv.kernel * side * side * 4, "workspace"));
  }
  Saved forward(const Conv& conv, uint64_t input, uint64_t side, bool training) {
    const uint64_t out_side = (side + conv.stride - 1) / conv.stride;
    Saved saved{conv, batch_now_ * conv.in * side * side * 4, batch_now_ * conv.out * out_side * out_side * 4, side, input, 0, 0, 0, 0};
    saved.out = activation(conv.out, out_side);
    workspace(conv, out_side);
    if (training) {
      saved.mean = record_.allocate(conv.out * 4, "activations");
      saved.deviation = record_.allocate(conv.out * 4, "activations");
    }
    saved.normalized = activation(conv.out, out_side);  // relu in place
    if (!training) record_.free(saved.out);
    return saved;
  }
  // Takes the gradient of the output, gives that of the input.
  uint64_t backward(const Saved& saved, uint64_t gradient) {
    if (saved.conv.relu) {
      const uint64_t before = record_.allocate(saved.out_bytes, "gradients");
      record_.free(gradient);
      gradient = before;
    }
    const uint64_t of_out = record_.allocate(saved.out_bytes, "gradients");
    parameter_gradients_.push_back(record_.allocate(saved.conv.out * 4, "gradients"));
    parameter_gradients_.push_back(record_.allocate(saved.conv.out * 4, "gradients"));
    record_.free(gradient);
    for (uint64_t block : {saved.out, saved.mean, saved.deviation}) record_.free(block);
    workspace(saved.conv, saved.in_side / saved.conv.stride);
    parameter_gradients_.push_back(
        record_.allocate(saved.conv.in * saved.conv.out * saved.conv.kernel * saved.conv.kernel * 4, "gradients"));
    const uint64_t of_in = record_.allocate(saved.in_bytes, "gradients");
    record_.free(of_out);
    return of_in;
  }

  void step(uint64_t batch, uint64_t image, bool training) {
    batch_now_ = batch;
    if (training) record_.free_all(parameter_gradients_);
    const uint64_t input = activation(3, image, "input");
    uint64_t side = image / 2;
    const Saved stem = forward({3, 64, 7, 2, true}, input, image, training);
    side = (side + 1) / 2;
    uint64_t x = activation(64, side);
    const uint64_t indices = training ? activation(64, side) : 0;
    if (!training) record_.free(stem.normalized);
    struct SavedBlock {
      std::vector<Saved> path, shortcut;
      uint64_t input, sum;
    };
    std::vector<SavedBlock> saved;
    for (const Block& block : blocks_) {
      SavedBlock kept{{}, {}, x, 0};
      uint64_t y = x, y_side = side;
      for (const Conv& conv : block.path) {
        kept.path.push_back(forward(conv, y, y_side, training));
        if (!training && y != x) record_.free(y);
        y = kept.path.back().normalized;
        y_side = (y_side + conv.stride - 1) / conv.stride;
      }
      if (!block.shortcut.empty()) kept.shortcut.push_back(forward(block.shortcut[0], x, side, training));
      kept.sum = activation(block.path.back().out, y_side);
      record_.free(y);
      if (!kept.shortcut.empty()) record_.free(kept.shortcut[0].normalized);
      if (!training) record_.free(x);
      x = kept.sum;
      side = y_side;
      saved.push_back(std::move(kept));
    }
    const uint64_t pooled = record_.allocate(batch * 2048 * 4, "activations");
    const uint64_t logits = record_.allocate(batch * 1000 * 4, "activations");
    const uint64_t probabilities = record_.allocate(batch * 1000 * 4, "activations");
    const uint64_t loss = record_.allocate(4, "activations");
    if (!training) {
      for (uint64_t block : {input, x, pooled, logits, probabilities, loss}) record_.free(block);
      return;
    }
    uint64_t gradient = record_.allocate(batch * 1000 * 4, "gradients");
    record_.free(probabilities);
    record_.free(logits);
    parameter_gradients_.push_back(record_.allocate(2048 * 1000 * 4, "gradients"));
    parameter_gradients_.push_back(record_.allocate(1000 * 4, "gradients"));
    const uint64_t of_pooled = record_.allocate(batch * 2048 * 4, "gradients");
    record_.free(gradient);
    record_.free(pooled);
    gradient = activation(2048, side, "gradients");
    record_.free(of_pooled);
    for (size_t i = saved.size(); i-- > 0;) {
      SavedBlock& block = saved[i];
      const Saved& last = block.path.back();
      const uint64_t of_sum = record_.allocate(last.out_bytes, "gradients");  // of the relu behind the sum
      record_.free(gradient);
      record_.free(block.sum);
      uint64_t of_path = record_.allocate(last.out_bytes, "gradients");
      for (size_t j = block.path.size(); j-- > 0;) {
        of_path = backward(block.path[j], of_path);
        if (j != 0) record_.free(block.path[j].input);  // the normalized output of the one before
      }
      if (block.shortcut.empty()) {
        gradient = record_.allocate(last.out_bytes, "gradients");
        record_.free(of_sum);
      } else {
        const uint64_t of_shortcut = backward(block.shortcut[0], of_sum);
        gradient = record_.allocate(block.path[0].in_bytes, "gradients");
        record_.free(of_shortcut);
      }
      record_.free(of_path);
    }
    const uint64_t of_stem = record_.allocate(stem.out_bytes, "gradients");  // of the pooling
    for (uint64_t block : {gradient, indices, saved[0].input}) record_.free(block);
    const uint64_t of_input = backward(stem, of_stem);
    for (uint64_t block : {stem.normalized, of_input, input, loss}) record_.free(block);
    if (momentum_.empty()) {
      for (uint64_t size : parameters_) momentum_.push_back(record_.allocate(size, "optimizer"));
    }
    for (uint64_t size : parameters_) record_.free(record_.allocate(size, "optimizer"));  // the weight decay's product
  }

  Recorder& record_;
  const uint64_t batch_;
  uint64_t batch_now_ = 0;
  const std::vector<Block> blocks_;
  std::vector<uint64_t> parameters_;  // bytes
  std::vector<uint64_t> parameter_gradients_, momentum_;
};

struct DecoderShape {
  const char* name;
  uint64_t layers, hidden, cache_width, inner, vocabulary;
  bool gated;
};
constexpr DecoderShape kDecoders[] = {
    {"GPT-2 medium", 24, 1024, 1024, 4096, 50257, false},
    {"Llama 2 7B", 32, 4096, 4096, 11008, 32000, true},
    {"Llama 3 8B", 32, 4096, 1024, 14336, 128256, true},
};

class Decoder {
 public:
  Decoder(Recorder& record, const DecoderShape& shape) : record_(record), shape_(shape) {
    auto weight = [&](uint64_t elements) { record_.allocate(elements * 2, "weights"); };
    weight(shape.vocabulary * shape.hidden);
    for (uint64_t layer = 0; layer < shape.layers; ++layer) {
      weight(shape.hidden * shape.hidden);
      weight(shape.hidden * shape.cache_width);
      weight(shape.hidden * shape.cache_width);
      weight(shape.hidden * shape.hidden);
      for (int i = shape.gated ? 0 : 1; i < 3; ++i) weight(shape.hidden * shape.inner);
      weight(shape.hidden);
      weight(shape.hidden);
    }
    weight(shape.hidden);
    if (shape.gated) weight(shape.vocabulary * shape.hidden);
  }

  struct Sequence {
    uint64_t length = 0, capacity = 0, left = 0;
    std::vector<uint64_t> cache;  // keys and values, by layer
  };
  void start(Sequence& sequence, uint64_t prompt, uint64_t answer) {
    sequence.left = answer;
    run(prompt, 1, {&sequence});
    sequence.length = prompt;
  }
  void decode(std::vector<Sequence>& sequences) {
    std::vector<Sequence*> all;
    for (Sequence& sequence : sequences) all.push_back(&sequence);
    run(all.size(), all.size(), all);
    for (Sequence& sequence : sequences) {
      ++sequence.length;
      --sequence.left;
    }
  }
  void end(Sequence& sequence) { record_.free_all(sequence.cache); }

 private:
  // One pass over `rows` tokens, which end in logits for `answers` of them.
  void run(uint64_t rows, uint64_t answers, const std::vector<Sequence*>& sequences) {
    const uint64_t added = sequences.size() == 1 ? rows : 1;
    uint64_t x = record_.allocate(rows * shape_.hidden * 2, "activations");
    for (uint64_t layer = 0; layer < shape_.layers; ++layer) {
      auto temporary = [&](uint64_t width) { return record_.allocate(rows * width * 2, "activations"); };
      const uint64_t normalized = temporary(shape_.hidden);
      const uint64_t q = temporary(shape_.hidden), k = temporary(shape_.cache_width), v = temporary(shape_.cache_width);
      record_.free(normalized);
      for (Sequence* sequence : sequences) reserve(*sequence, sequence->length + added, layer);
      record_.free(k);
      record_.free(v);
      const uint64_t attended = temporary(shape_.hidden);
      record_.free(q);
      const uint64_t projected = temporary(shape_.hidden);
      record_.free(attended);
      const uint64_t sum = temporary(shape_.hidden);
      record_.free(projected);
      record_.free(x);
      const uint64_t again = temporary(shape_.hidden), up = temporary(shape_.inner);
      uint64_t inner = up;
      if (shape_.gated) {
        const uint64_t gate = temporary(shape_.inner);
        inner = temporary(shape_.inner);
        record_.free(gate);
        record_.free(up);
      }
      record_.free(again);
      const uint64_t down = temporary(shape_.hidden);
      record_.free(inner);
      x = temporary(shape_.hidden);
      record_.free(down);
      record_.free(sum);
    }
    const uint64_t logits = record_.allocate(answers * shape_.vocabulary * 4, "activations");
    record_.free(x);
    const uint64_t probabilities = record_.allocate(answers * shape_.vocabulary * 4, "activations");
    record_.free(logits);
    record_.free(probabilities);
  }
  // Room for `length` positions in one layer's caches; a larger cache is copied into before the old one goes.
  void reserve(Sequence& sequence, uint64_t length, uint64_t layer) {
    if (length <= sequence.capacity) return;
    const uint64_t bytes = (length + 255) / 256 * 256 * shape_.cache_width * 2;
    for (uint64_t i = 2 * layer; i < 2 * layer + 2; ++i) {
      const uint64_t larger = record_.allocate(bytes, "cache");
      if (i < sequence.cache.size()) {
        record_.free(sequence.cache[i]);
        sequence.cache[i] = larger;
      } else {
        sequence.cache.push_back(larger);
      }
    }
    if (layer + 1 == shape_.layers) sequence.capacity = (length + 255) / 256 * 256;
  }

  Recorder& record_;
  const DecoderShape& shape_;
};

}  // namespace

uint64_t MemoryTrace::blocks() const {
  uint64_t count = 0;
  for (const Event& event : events) count += !event.is_free;
  return count;
}

uint64_t MemoryTrace::peak_live_bytes() const {
  std::vector<uint64_t> sizes;
  uint64_t live = 0, peak = 0;
  for (const Event& event : events) {
    if (event.is_free) {
      live -= sizes[event.block];
      continue;
    }
    sizes.push_back(event.size_bytes);
    live += event.size_bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

MemoryTrace resnet50_training(uint64_t seed) {
  Recorder record("ResNet-50 training", seed);
  const uint64_t batch = 8 * (2 + record.below(7));
  ResNet network(record, batch);
  for (int step = 0; step < 16; ++step) {
    const uint64_t image = seed % 2 ? 32 * (4 + record.below(6)) : 224;
    const uint64_t rows = step % 6 == 5 ? 1 + record.below(batch) : batch;
    network.train(rows, image);
    if (step % 4 == 3) network.evaluate(2 * batch, 224);
  }
  return record.finish();
}

MemoryTrace transformer_serving(uint64_t seed) {
  Recorder record("transformer serving", seed);
  const DecoderShape& shape = kDecoders[seed % 3];
  Decoder decoder(record, shape);
  std::vector<Decoder::Sequence> sequences;
  const uint64_t most = 4 + record.below(9);
  for (int waiting = 48; waiting > 0 || !sequences.empty();) {
    if (waiting > 0 && sequences.size() < most && record.uniform() < 0.1) {
      const double prompt = std::exp(5.5 + record.normal());
      const double answer = -120 * std::log(record.uniform());
      sequences.emplace_back();
      decoder.start(sequences.back(), static_cast<uint64_t>(std::clamp(prompt, 8.0, 3000.0)),
                    static_cast<uint64_t>(std::clamp(answer, 1.0, 1000.0)));
      --waiting;
    }
    if (sequences.empty()) continue;
    decoder.decode(sequences);
    for (Decoder::Sequence& sequence : sequences) {
      if (sequence.left == 0) decoder.end(sequence);
    }
    std::erase_if(sequences, [](const Decoder::Sequence& sequence) { return sequence.left == 0; });
  }
  return record.finish();
}

MemoryTrace power_law(uint64_t seed) {
  Recorder record("power law", seed);
  const double size_exponent = 0.6 + 0.4 * record.uniform(), life_exponent = 0.8 + 0.4 * record.uniform();
  std::multimap<uint64_t, uint64_t> ends;  // step -> block
  for (uint64_t step = 0; step < 30000; ++step) {
    for (auto end = ends.begin(); end != ends.end() && end->first <= step; end = ends.erase(end)) record.free(end->second);
    const auto size = static_cast<uint64_t>(std::min(512 * record.power(size_exponent), 67108864.0));
    const double life = std::min(1500 * record.power(life_exponent), 20000.0);
    ends.emplace(step + static_cast<uint64_t>(life), record.allocate(size, "blocks"));
  }
  return record.finish();
}

MemoryTrace read_trace(const std::string& name, std::istream& file) {
  MemoryTrace trace;
  trace.name = name;
  std::string line;
  if (!std::getline(file, line) || line != "heddle-memory-trace 1") throw std::runtime_error(name + " is no trace of heddle.log");
  std::vector<bool> live;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    char kind = 0;
    uint64_t block = 0, size = 0, alignment = 0;
    words >> kind;
    if (kind == 'a' && words >> block >> size >> alignment && block == live.size()) {
      std::string owner;
      std::getline(words >> std::ws, owner);
      auto known = std::find(trace.owners.begin(), trace.owners.end(), owner);
      const auto index = static_cast<uint32_t>(known - trace.owners.begin());
      if (known == trace.owners.end()) trace.owners.push_back(owner);
      trace.events.push_back({block, size, index, false});
      live.push_back(true);
    } else if (kind == 'f' && words >> block && block < live.size() && live[block]) {
      trace.events.push_back({block, 0, 0, true});
      live[block] = false;
    } else if (kind != 'x') {
      throw std::runtime_error(name + " has a line that cannot be: " + line);
    }
  }
  for (uint64_t block = 0; block < live.size(); ++block) {
    if (live[block]) trace.events.push_back({block, 0, 0, true});  // the recording ended before
  }
  return trace;
}

}  // namespace heddle::test
