// SPDX-License-Identifier: Apache-2.0
// The packed weights of the module.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_MODULE_PACKED_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_MODULE_PACKED_WEIGHTS_INL_H_
#undef ENNEAD_KERNELS_SIMD_MODULE_PACKED_WEIGHTS_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_MODULE_PACKED_WEIGHTS_INL_H_
#endif
#include "kernels/shared/module/plan-inl.h"
#include "kernels/shared/vector/exp2-inl.h"
#include "kernels/simd/gemm/pack-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// A packed linear layer: its panels, then its bias (zeros where there is none).
template <class T>
struct PackedLinear {
  const T* panels;
  const T* bias;
  std::int64_t depth, columns;

  static std::int64_t elements(std::int64_t depth, std::int64_t columns) {
    return panel_elements<T>(depth, columns) + padded_row<T>(columns);
  }
};

/// The packed module: head after head the projections of a head, then the output projection. A head's
/// queries, keys and values are one matrix, each filled up to whole vectors: panels need not end where
/// queries do, since each vector of columns has its own place to go.
template <class T>
struct PackedModuleWeights {
  const T* data;  ///< the packed bytes are these
  std::int64_t d_in, d_out, num_heads;

  std::int64_t head_dim() const { return d_out / num_heads; }
  /// Columns of each of a head's three projections, filled up.
  std::int64_t head_columns() const { return padded_row<T>(head_dim()); }
  std::int64_t head_elements() const { return PackedLinear<T>::elements(d_in, 3 * head_columns()); }
  std::int64_t out_offset() const { return num_heads * head_elements(); }
  std::int64_t elements() const { return out_offset() + PackedLinear<T>::elements(d_out, d_out); }

  PackedLinear<T> layer(std::int64_t offset, std::int64_t depth, std::int64_t columns) const {
    return {data + offset, data + offset + panel_elements<T>(depth, columns), depth, columns};
  }
  PackedLinear<T> head_layer(std::int64_t head) const {
    return layer(head * head_elements(), d_in, 3 * head_columns());
  }
  PackedLinear<T> out_layer() const { return layer(out_offset(), d_out, d_out); }
};

template <class T>
std::size_t module_packed_bytes(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads) {
  return static_cast<std::size_t>(PackedModuleWeights<T>{nullptr, d_in, d_out, num_heads}.elements()) * sizeof(T);
}

/// Packs the three projections of a head, vector by vector.
template <class T>
void pack_head(const ModuleWeights<T>& weights, std::int64_t head, std::int64_t head_dim, T* to) {
  // Scores come out as powers of two: scale and log2(e) are part of the query's weights.
  const T scale = static_cast<T>(kLog2E<double> / std::sqrt(static_cast<double>(head_dim)));
  const std::int64_t columns = padded_row<T>(head_dim), d_in = weights.W_query.size(1);
  const View<const T, 2> matrices[] = {transposed(weights.W_query), transposed(weights.W_key),
                                       transposed(weights.W_value)};
  const T* const biases[] = {weights.b_query, weights.b_key, weights.b_value};
  const PanelSplit<T> split(3 * columns);
  T* packed_bias = to + panel_elements<T>(d_in, 3 * columns);
  for (std::int64_t which = 0; which < 3; ++which) {
    pack_bias(biases[which], head * head_dim, head_dim, columns, which == 0 ? scale : T(1),
              packed_bias + which * columns);
  }
  for (std::int64_t panel = 0; panel < split.panels(); ++panel) {
    const std::int64_t first = split.first_column(panel), width = split.num_vectors(panel) * kLanes<T>;
    for (std::int64_t column = first; column < first + width; column += kLanes<T>) {
      const std::int64_t which = column / columns, in_head = column % columns;
      pack_columns(matrices[which], head * head_dim + in_head, std::min(kLanes<T>, head_dim - in_head), kLanes<T>,
                   which == 0 ? scale : T(1), to + first * d_in + (column - first), width);
    }
  }
}

template <class T>
void pack_module(const ModuleWeights<T>& weights, PackedByte* packed) {
  T* const to = reinterpret_cast<T*>(packed);
  const PackedModuleWeights<T> module{nullptr, weights.W_query.size(1), weights.out_proj.size(0), weights.num_heads};
  for (std::int64_t head = 0; head < weights.num_heads; ++head) {
    pack_head(weights, head, module.head_dim(), to + head * module.head_elements());
  }
  T* out = to + module.out_offset();
  pack_panels(transposed(weights.out_proj), T(1), out);
  pack_bias(weights.b_out, 0, module.d_out, padded_row<T>(module.d_out), T(1),
            out + panel_elements<T>(module.d_out, module.d_out));
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
