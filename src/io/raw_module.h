// SPDX-License-Identifier: Apache-2.0
// One attention module with its weights the way torch's linear layers store them, whatever the file
// they came from: the middle between reading and writing.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "ennead/weight_files.h"

namespace ennead::io {

struct RawModule {
  WeightFileInfo info;
  std::array<RawTensor, 3> weights;                ///< Q [d_out, d_in]; K, V [kv_heads * head_dim, d_in]
  std::optional<std::array<RawTensor, 3>> biases;  ///< as long as the weights have rows
  RawTensor out_weight;                            ///< [d_out, d_out]
  std::optional<RawTensor> out_bias;               ///< [d_out]

  std::int64_t d_in() const { return weights[0].sizes[1]; }
  std::int64_t d_out() const { return weights[0].sizes[0]; }
};

/// Finds out which layout `source` means. Throws FileError when none or more than one fits.
WeightLayout recognize(const SafetensorsFile& file, const WeightSource& source);

/// Reads the tensors of one module and checks that they fit each other. Throws FileError.
RawModule read_module(const SafetensorsFile& file, const WeightSource& source);

/// The module with `kv_heads` key heads: repeated where there are fewer, and joined where there are
/// more and all that would be joined are equal. Returns why not otherwise.
Refusal regroup(RawModule& module, std::int64_t kv_heads);

/// Writes the module. Throws FileError.
void write_module(const std::string& path, const RawModule& module, const WeightTarget& target);

/// The prefix with the dot that separates it from the names.
std::string dotted(const std::string& prefix);

}  // namespace ennead::io
