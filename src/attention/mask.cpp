// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/for_each_element.h"
#include "base/launch.h"
#include "ennead/attention.h"

namespace ennead {
namespace {

Refusal check_mask_sizes(const Dims& mask, const Dims& full) {
  const std::int64_t items = full[0] * full[1];
  const auto fits = [](std::int64_t size, std::int64_t expected) { return size == expected || size == 1; };
  bool good = mask.rank() >= 2 && mask.rank() <= 4;
  if (good) good = fits(mask[mask.rank() - 2], full[2]) && fits(mask[mask.rank() - 1], full[3]);
  if (good && mask.rank() == 3) good = fits(mask[0], items);
  if (good && mask.rank() == 4) good = fits(mask[0], full[0]) && fits(mask[1], full[1]);
  if (good) return {};
  if (mask.rank() == 2 && fits(mask[0], full[0]) && fits(mask[1], full[3])) {
    return sentence("attn_mask: expected [num_queries, num_keys] ", to_string({full[2], full[3]}), ", got ",
                    to_string(mask), "; a mask of keys for each batch item is key padding, or has sizes ",
                    to_string({full[0], 1, 1, full[3]}));
  }
  return sentence("attn_mask: expected ", to_string({full[2], full[3]}), ", ", to_string({items, full[2], full[3]}),
                  " (batch * heads first) or ", to_string(full), ", any axis 1 instead, got ", to_string(mask));
}

/// Sizes of both operands broadcast together, counted from the last axis.
Dims broadcast_sizes(const Dims& a, const Dims& b) {
  Dims sizes = a.rank() >= b.rank() ? a : b;
  for (int from_end = 1; from_end <= std::min(a.rank(), b.rank()); ++from_end) {
    const std::int64_t size_a = a[a.rank() - from_end], size_b = b[b.rank() - from_end];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      raise(sentence("logical_and: expected sizes that broadcast to each other, got ", to_string(a), " and ",
                     to_string(b)));
    }
    sizes[sizes.rank() - from_end] = size_a == 1 ? size_b : size_a;
  }
  return sizes;
}

}  // namespace

Tensor<bool> logical_and(const Tensor<bool>& a, const Tensor<bool>& b, Where where) {
  if (a.empty() || b.empty()) raise("logical_and: expected two masks, got an empty handle");
  base::Launch launch(a.context(), "logical_and", where);
  auto both = Tensor<bool>::uninitialized(a.context(), broadcast_sizes(a.sizes(), b.sizes()));
  launch.reads(a).reads(b).writes(both);
  launch.run(
      [&] { base::for_each_element([](bool& out, const bool& x, const bool& y) { out = x && y; }, both, a, b); });
  return both;
}

template <class T>
Refusal check_attn_mask(const AttentionMask<T>& mask, std::int64_t batch, std::int64_t heads, std::int64_t num_queries,
                        std::int64_t num_keys) {
  const Dims full{batch, heads, num_queries, num_keys};
  if (!mask.allowed.empty()) {
    if (Refusal refusal = check_mask_sizes(mask.allowed.sizes(), full); !refusal.ok()) return refusal;
  }
  if (!mask.bias.empty()) return check_mask_sizes(mask.bias.sizes(), full);
  return {};
}

template <class T>
AttentionMask<T> AttentionMask<T>::block(const Tensor<bool>& mask, Where where) {
  if (mask.empty()) raise("AttentionMask::block: expected a mask, got an empty handle");
  base::Launch launch(mask.context(), "logical_not", where);
  // A repeated axis (stride 0) is turned round once and stays repeated.
  Dims once = mask.sizes();
  for (int axis = 0; axis < once.rank(); ++axis) {
    if (mask.stride(axis) == 0 && once[axis] > 1) once[axis] = 1;
  }
  const Tensor<bool> blocked(mask.storage(), mask.data(), once, mask.strides());
  auto allowed = Tensor<bool>::uninitialized(mask.context(), once);
  launch.reads(blocked).writes(allowed);
  launch.run([&] { base::for_each_element([](bool& out, const bool& x) { out = !x; }, allowed, blocked); });
  Dims strides = allowed.strides();
  for (int axis = 0; axis < once.rank(); ++axis) {
    if (once[axis] != mask.size(axis)) strides[axis] = 0;
  }
  return allow(Tensor<bool>(allowed.storage(), allowed.data(), mask.sizes(), strides));
}

#define ENNEAD_INSTANTIATE(T)       \
  template struct AttentionMask<T>; \
  template Refusal check_attn_mask(const AttentionMask<T>&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
