// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A LoRA adapter as PEFT writes it: a file of factors, and adapter_config.json beside it. Reads names, shapes and the configuration. Used by merge.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/params/checkpoint.h"

namespace heddle::tool {

// What an adapter does to one weight.
struct WeightChange {
  std::string weight;  // its name in the model that was trained: "model.layers.0.self_attn.q_proj.weight"
  // Either the product b * a, multiplied with the factor, is added ...
  const StoredTensor *a = nullptr, *b = nullptr;
  bool is_embedding = false;  // the transposed product, since rows of an embedding are its inputs
  double factor = 0;
  const StoredTensor* start = nullptr;  // what it is added to, in place of the weight of the base; or null
  // ... or the weight is replaced.
  const StoredTensor* whole = nullptr;

  int64_t rank() const { return a->shape.dims[0]; }
  // The shape of b * a, transposed for an embedding.
  std::vector<int64_t> product_dims() const;
};

class Adapter {
 public:
  // alpha: instead of that of the configuration.
  Wrong read(const Checkpoint& file, std::optional<double> alpha);
  const std::vector<WeightChange>& changes() const { return changes_; }  // sorted by weight
  // Whether the layers hold their weights transposed to PyTorch's Linear, as GPT-2 does.
  bool is_fan_in_fan_out() const { return is_fan_in_fan_out_; }
  // What a user should know of it: texts without an end.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<WeightChange> changes_;
  std::vector<std::string> notes_;
  bool is_fan_in_fan_out_ = false;
};

}  // namespace heddle::tool
