// SPDX-License-Identifier: Apache-2.0
// The layouts as one table: what each calls its tensors, and how it stores them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ennead/weight_files.h"

namespace ennead::io {

/// How Q, K and V are stored.
enum class Parts {
  separate,  ///< a tensor for each
  fused,     ///< one tensor: Q, then K, then V
  per_head   ///< a tensor for each and every head, under heads.N.
};

struct PartNames {
  Parts parts;
  std::array<std::string_view, 3> names;  ///< of Q, K, V; the first alone when fused
};

struct LayoutSpec {
  WeightLayout layout;
  std::string_view name;
  PartNames weights;
  bool transposed;  ///< weights are [d_in, d_out]
  PartNames biases;
  std::string_view out_weight, out_bias;
  bool out_transposed;
  bool may_be_grouped;  ///< written with fewer key heads when the module has fewer
};

std::span<const LayoutSpec> layout_specs();
const LayoutSpec& spec_of(WeightLayout layout);

/// "heads.3.W_query.weight"
std::string head_name(std::int64_t head, std::string_view name);

/// The head in "heads.3.W_query.weight"; -1 when the name has no such form.
std::int64_t head_in(std::string_view name);

/// Every tensor of these parts, in the order Q, K, V and head by head.
std::vector<std::string> part_names(const PartNames& parts, std::int64_t num_heads);

/// Buffers that modules save beside their weights and that say nothing about them: causal masks.
bool is_mask_buffer(const LayoutSpec& spec, std::string_view name);

}  // namespace ennead::io
