// SPDX-License-Identifier: Apache-2.0
// Buffers that notice a write beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ennead::test {

/// `size` elements of NaN between two bands of a known pattern. check() says whether both bands
/// still hold it.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t size, std::size_t band = 64) : band_(band), memory_(size + 2 * band, kPattern) {
    for (T& value : span()) value = std::numeric_limits<T>::quiet_NaN();
  }

  T* data() { return memory_.data() + band_; }
  std::span<T> span() { return std::span<T>(memory_).subspan(band_, memory_.size() - 2 * band_); }

  bool intact() const {
    for (std::size_t i = 0; i < band_; ++i) {
      if (memory_[i] != kPattern || memory_[memory_.size() - 1 - i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr T kPattern = static_cast<T>(-12345.5);
  std::size_t band_;
  std::vector<T> memory_;
};

}  // namespace ennead::test
