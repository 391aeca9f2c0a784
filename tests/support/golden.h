// SPDX-License-Identifier: Apache-2.0
// tests/golden: what PyTorch computed, one .safetensors file a case, its options in the metadata.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ennead/io.h"
#include "ennead/variants.h"
#include "support/modules.h"

namespace ennead::test {

/// A case of x through the whole module.
template <class T>
struct GoldenModuleInputs {
  Config config;
  Weights<T> weights;
  Tensor<T> x, dy;
  CallOptions<T> options;
};

class GoldenFile {
 public:
  /// @param name of the case, e.g. "square_bias"
  explicit GoldenFile(const std::string& name);

  const std::string& path() const { return file_.path(); }
  bool has(std::string_view tensor) const { return file_.find(tensor) != nullptr; }
  /// Names of the tensors that start so.
  std::vector<std::string> names(std::string_view prefix) const;
  /// A tensor, converted to T; empty when the case has none of that name.
  template <class T>
  Tensor<T> tensor(const Context& context, std::string_view name) const {
    return has(name) ? file_.read<T>(context, name) : Tensor<T>();
  }
  std::vector<double> values(std::string_view name) const;
  /// The largest magnitude in the tensors whose names start so.
  double largest(std::string_view prefix) const;

  /// Options of the case; absent ones are 0, false or "".
  std::int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  bool flag(const std::string& key) const { return text(key) == "true"; }
  std::string text(const std::string& key) const;

  template <class T>
  GoldenModuleInputs<T> module(const Context& context) const {
    GoldenModuleInputs<T> inputs;
    inputs.config.d_in = integer("d_in");
    inputs.config.d_out = integer("d_out");
    inputs.config.num_heads = integer("num_heads");
    inputs.config.context_length = integer("tokens");
    inputs.config.qkv_bias = flag("qkv_bias");
    inputs.config.is_causal = flag("is_causal");
    const auto weight = [&](const char* name) { return tensor<T>(context, std::string("weights.") + name); };
    inputs.weights = {weight("W_query.weight"),  weight("W_key.weight"), weight("W_value.weight"),
                      weight("W_query.bias"),    weight("W_key.bias"),   weight("W_value.bias"),
                      weight("out_proj.weight"), weight("out_proj.bias")};
    inputs.x = tensor<T>(context, "x");
    inputs.dy = tensor<T>(context, "dy");
    inputs.options.attn_mask = {tensor<bool>(context, "mask.allow"), tensor<T>(context, "mask.bias")};
    inputs.options.key_padding_block = tensor<bool>(context, "mask.key_padding_block");
    return inputs;
  }

 private:
  SafetensorsFile file_;
};

/// Where a file of tests/golden is.
std::string golden_path(const std::string& file);

/// The cases of one kind ("module", "attention", "flex") that are `wanted`, sorted by name.
std::vector<std::string> golden_cases(std::string_view kind, bool (*wanted)(const GoldenFile& file) = nullptr);

/// What the files call a weight: "W_query" -> "W_query.weight", "out_proj.bias" as it is.
std::string golden_name(std::string_view weight);

inline std::string case_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace ennead::test
