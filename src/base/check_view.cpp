// SPDX-License-Identifier: Apache-2.0
#include "base/check_view.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace ennead::base {
namespace {

bool has_elements(const Extent& view) {
  return std::none_of(view.sizes.begin(), view.sizes.end(), [](std::int64_t size) { return size == 0; });
}

/// Bytes from the lowest address of an element to the end of the highest, over the axes that `counts`
/// names. The view must have passed check_readable().
template <class Counts>
std::int64_t span_bytes(const Extent& view, Counts counts) {
  const auto element_bytes = static_cast<std::int64_t>(view.element_bytes);
  std::int64_t bytes = element_bytes;
  for (int axis = 0; axis < view.sizes.rank(); ++axis) {
    if (counts(axis)) bytes += (view.sizes[axis] - 1) * std::abs(view.strides[axis]) * element_bytes;
  }
  return bytes;
}

/// The lowest address of an element, over the same axes.
template <class Counts>
std::int64_t first_byte(const Extent& view, Counts counts) {
  auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
  for (int axis = 0; axis < view.sizes.rank(); ++axis) {
    if (!counts(axis) || view.strides[axis] >= 0) continue;
    address += (view.sizes[axis] - 1) * view.strides[axis] * static_cast<std::int64_t>(view.element_bytes);
  }
  return address;
}

/// Are a and b apart when addresses are counted modulo `step` bytes? Axes of whole steps then drop out,
/// and what is left of each view is a stretch of a circle.
bool apart_within(std::int64_t step, const Extent& a, const Extent& b) {
  const auto within_step = [step](const Extent& view) {
    return [&view, step](int axis) {
      return view.strides[axis] * static_cast<std::int64_t>(view.element_bytes) % step != 0;
    };
  };
  const std::int64_t bytes_a = span_bytes(a, within_step(a)), bytes_b = span_bytes(b, within_step(b));
  if (bytes_a > step || bytes_b > step) return false;
  const std::int64_t difference = first_byte(b, within_step(b)) - first_byte(a, within_step(a));
  const std::int64_t b_after_a = (difference % step + step) % step;
  return b_after_a >= bytes_a && b_after_a + bytes_b <= step;
}

bool apart(const Extent& a, const Extent& b) {
  const auto all = [](int) { return true; };
  const std::int64_t first_a = first_byte(a, all), first_b = first_byte(b, all);
  if (first_a + span_bytes(a, all) <= first_b || first_b + span_bytes(b, all) <= first_a) return true;
  for (const Extent* view : {&a, &b}) {
    for (std::int64_t stride : view->strides) {
      if (stride == 0) continue;
      if (apart_within(std::abs(stride) * static_cast<std::int64_t>(view->element_bytes), a, b)) return true;
    }
  }
  return false;
}

}  // namespace

Refusal check_readable(const char* op, const char* name, const Extent& view) {
  constexpr std::int64_t kMax = std::numeric_limits<std::ptrdiff_t>::max();
  const auto most_elements = kMax / static_cast<std::int64_t>(view.element_bytes);
  for (std::int64_t size : view.sizes) {
    if (size < 0) return sentence(op, ": expected ", name, " with sizes of 0 or more, got ", to_string(view.sizes));
  }
  if (!has_elements(view)) return {};
  std::int64_t count = 1, reach = 1;
  for (int axis = 0; axis < view.sizes.rank(); ++axis) {
    const std::int64_t size = view.sizes[axis], stride = view.strides[axis];
    const bool fits = count <= most_elements / size && stride != std::numeric_limits<std::int64_t>::min() &&
                      (size == 1 || std::abs(stride) <= (most_elements - reach) / (size - 1));
    if (!fits) {
      return sentence(op, ": expected ", name, " in memory that can be addressed, got sizes ", to_string(view.sizes),
                      " and strides ", to_string(view.strides));
    }
    count *= size;
    reach += (size - 1) * std::abs(stride);
  }
  if (view.data == nullptr) {
    return sentence(op, ": expected memory for ", name, " ", to_string(view.sizes), ", got a null pointer");
  }
  return {};
}

Refusal check_writable(const char* op, const char* name, const Extent& view) {
  if (Refusal refusal = check_readable(op, name, view); !refusal.ok()) return refusal;
  if (!has_elements(view)) return {};
  for (int axis = 0; axis < view.sizes.rank(); ++axis) {
    if (view.sizes[axis] == 1) continue;
    const std::int64_t stride = std::abs(view.strides[axis]);
    std::int64_t reach = 1;
    for (int other = 0; other < view.sizes.rank(); ++other) {
      const std::int64_t other_stride = std::abs(view.strides[other]);
      const bool within = other_stride < stride || (other_stride == stride && other < axis);
      if (within) reach += (view.sizes[other] - 1) * other_stride;
    }
    if (stride < reach) {
      return sentence(op, ": expected ", name, " with strides that keep its elements apart, got sizes ",
                      to_string(view.sizes), " and strides ", to_string(view.strides));
    }
  }
  return {};
}

Refusal check_apart(const char* op, const char* out_name, const Extent& out, const char* in_name, const Extent& in) {
  if (!has_elements(out) || !has_elements(in) || apart(out, in)) return {};
  return sentence(op, ": expected ", out_name, " apart from ", in_name, " in memory, got views that overlap");
}

}  // namespace ennead::base
