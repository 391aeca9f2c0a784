// SPDX-License-Identifier: Apache-2.0
// Cutting the caller's scratch memory and the work into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ennead::kernels {

constexpr std::size_t kAlignment = 64;

/// Bytes of `count` elements of T, rounded up so that what follows is aligned.
template <class T>
constexpr std::size_t scratch_bytes(std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Takes scratch_bytes<T>(count) off the front of `scratch`.
template <class T>
T* take_scratch(std::byte*& scratch, std::int64_t count) {
  T* taken = reinterpret_cast<T*>(scratch);
  scratch += scratch_bytes<T>(count);
  return taken;
}

/// Bytes that `take(std::byte*& memory)` takes off the front: nothing is read or written there.
template <class Take>
std::size_t scratch_taken(Take take) {
  std::byte* const origin = reinterpret_cast<std::byte*>(kAlignment);
  std::byte* memory = origin;
  take(memory);
  return static_cast<std::size_t>(memory - origin);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace ennead::kernels
