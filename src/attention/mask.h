// SPDX-License-Identifier: Apache-2.0
// The one shape rule of dense masks, and what it makes of them.
#pragma once

#include <cstdint>

#include "ennead/attention.h"

namespace ennead::attention {

/// What a mask is broadcast to.
struct ScoreShape {
  std::int64_t batch, heads, num_queries, num_keys;
};

template <class T>
Refusal check_mask(const AttentionMask<T>& mask, const ScoreShape& shape) {
  return check_attn_mask(mask, shape.batch, shape.heads, shape.num_queries, shape.num_keys);
}

/// A mask that fits `shape`, as four axes; an axis of size 1 stays one.
template <class T>
Tensor<T> with_four_axes(const Tensor<T>& mask, const ScoreShape& shape) {
  const std::int64_t rows = mask.size(-2), keys = mask.size(-1), row_stride = mask.stride(-2),
                     key_stride = mask.stride(-1);
  Dims sizes{1, 1, rows, keys}, strides{0, 0, row_stride, key_stride};
  if (mask.rank() == 4) {
    sizes = mask.sizes();
    strides = mask.strides();
  } else if (mask.rank() == 3 && mask.size(0) != 1) {
    sizes = {shape.batch, shape.heads, rows, keys};
    strides = {shape.heads * mask.stride(0), mask.stride(0), row_stride, key_stride};
  }
  return Tensor<T>(mask.storage(), mask.data(), sizes, strides);
}

/// `mask`, and of the keys only those that are no padding: permissions combined by AND, the bias apart.
/// @param key_padding_block [batch, num_keys], true: padding; empty: `mask` alone
/// @return a mask that broadcasts to [batch, num_heads, num_queries, num_keys]
template <class T>
AttentionMask<T> with_key_padding(const AttentionMask<T>& mask, const Tensor<bool>& key_padding_block,
                                  std::int64_t num_heads, Where where = Where::current()) {
  if (key_padding_block.empty()) return mask;
  const std::int64_t batch = key_padding_block.size(0), num_keys = key_padding_block.size(1);
  const Tensor<bool> tokens = AttentionMask<T>::block(key_padding_block, where).allowed;
  const Tensor<bool> keys(tokens.storage(), tokens.data(), {batch, 1, 1, num_keys},
                          {tokens.stride(0), 0, 0, tokens.stride(1)});
  AttentionMask<T> both = mask;
  both.allowed = keys;
  if (!mask.allowed.empty()) {
    const ScoreShape shape{batch, num_heads, mask.allowed.size(-2), num_keys};
    both.allowed = logical_and(with_four_axes(mask.allowed, shape), keys, where);
  }
  return both;
}

/// A mask that fits `shape`, as the kernels read it: every axis in full, stride 0 where it repeats.
template <class T>
View<const T, 4> broadcast(const Tensor<T>& mask, const ScoreShape& shape) {
  if (mask.empty()) return {};
  View<const T, 4> view = with_four_axes(mask, shape).template view<4>();
  const std::array<std::int64_t, 4> sizes{shape.batch, shape.heads, shape.num_queries, shape.num_keys};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (view.sizes[axis] == 1) view.strides[axis] = 0;
  }
  view.sizes = sizes;
  return view;
}

}  // namespace ennead::attention
