// SPDX-License-Identifier: Apache-2.0
// The packed weights of the module.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_MODULE_PACKED_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_MODULE_PACKED_WEIGHTS_INL_H_
#undef ENNEAD_KERNELS_AMX_MODULE_PACKED_WEIGHTS_INL_H_
#else
#define ENNEAD_KERNELS_AMX_MODULE_PACKED_WEIGHTS_INL_H_
#endif
#include "kernels/amx/entries-inl.h"
#include "kernels/amx/split/packed_right-inl.h"
#include "kernels/shared/module/plan-inl.h"
#include "kernels/shared/vector/exp2-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

namespace {

/// A packed linear layer: its panels, then its bias (zeros where there is none), filled up to whole panels.
struct PackedLayer {
  PackedRight right;
  const float* bias;

  /// Where the bias of a layer lies.
  static std::int64_t bias_offset(std::int64_t depth, std::int64_t columns) {
    return PackedRight::bytes(depth, columns);
  }
  static std::int64_t bytes(std::int64_t depth, std::int64_t columns) {
    return bias_offset(depth, columns) + panels_of(columns) * kPanel * std::int64_t{sizeof(float)};
  }
};

/// The packed module: head after head the projections of a head, then the output projection. A head's queries, keys and
/// values are one matrix, each filled up with zeros to whole panels.
struct PackedWeights {
  const PackedByte* data;
  std::int64_t d_in, d_out, num_heads;

  std::int64_t head_dim() const { return d_out / num_heads; }
  std::int64_t head_panels() const { return panels_of(head_dim()); }
  /// Columns of each of a head's three projections, filled up.
  std::int64_t head_columns() const { return head_panels() * kPanel; }
  std::int64_t head_bytes() const { return PackedLayer::bytes(d_in, 3 * head_columns()); }
  std::int64_t bytes() const { return num_heads * head_bytes() + PackedLayer::bytes(d_out, d_out); }

  PackedLayer layer(std::int64_t offset, std::int64_t depth, std::int64_t columns) const {
    const PackedByte* const at = data + offset;
    return {{at, depth, columns}, reinterpret_cast<const float*>(at + PackedLayer::bias_offset(depth, columns))};
  }
  PackedLayer head_layer(std::int64_t head) const { return layer(head * head_bytes(), d_in, 3 * head_columns()); }
  PackedLayer out_layer() const { return layer(num_heads * head_bytes(), d_out, d_out); }
};

void pack_head_weights(const ModuleWeights<float>& weights, std::int64_t head, const PackedWeights& module,
                       PackedByte* to) {
  // Scores come out as powers of two: scale and log2(e) are part of the query's weights.
  const std::int64_t head_dim = module.head_dim();
  const float scale = static_cast<float>(kLog2E<double> / std::sqrt(static_cast<double>(head_dim)));
  const View<const float, 2> matrices[] = {weights.W_query, weights.W_key, weights.W_value};
  const float* const biases[] = {weights.b_query, weights.b_key, weights.b_value};
  float* const packed_bias =
      reinterpret_cast<float*>(to + PackedLayer::bias_offset(module.d_in, 3 * module.head_columns()));
  const RightPacker packer(module.d_in, 3 * module.head_columns(), to);
  for (std::int64_t which = 0; which < 3; ++which) {
    const float factor = which == 0 ? scale : 1.0F;
    View<const float, 2> rows = matrices[which];
    rows.data += head * head_dim * rows.stride(0);
    rows.sizes[0] = head_dim;
    for (std::int64_t panel = 0; panel < module.head_panels(); ++panel) {
      packer.pack(rows, panel, factor, which * module.head_panels() + panel);
    }
    pack_bias(biases[which], head * head_dim, head_dim, module.head_columns(), factor,
              packed_bias + which * module.head_columns());
  }
  packer.finish();
}

}  // namespace

std::size_t module_packed_bytes(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads) {
  return static_cast<std::size_t>(PackedWeights{nullptr, d_in, d_out, num_heads}.bytes());
}

void pack_module(const ModuleWeights<float>& weights, PackedByte* packed) {
  const PackedWeights module{packed, weights.W_query.size(1), weights.out_proj.size(0), weights.num_heads};
  for (std::int64_t head = 0; head < weights.num_heads; ++head) {
    pack_head_weights(weights, head, module, packed + head * module.head_bytes());
  }
  PackedByte* const out = packed + module.num_heads * module.head_bytes();
  pack_right(weights.out_proj, 1.0F, out);
  pack_bias(weights.b_out, 0, module.d_out, panels_of(module.d_out) * kPanel, 1.0F,
            reinterpret_cast<float*>(out + PackedLayer::bias_offset(module.d_out, module.d_out)));
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
