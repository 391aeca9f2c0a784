// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "ennead/ennead.h"

namespace {

constexpr std::int64_t kQueries = 7, kKeys = 300, kWidth = 20;

std::vector<float> numbers(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8) / 8388608.0F - 1.0F;
  }
  return values;
}

// One head of attention over the keys that are not blocked, in double and as it is written in books.
std::vector<double> expected(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                             std::int64_t first_key) {
  std::vector<double> out(kQueries * kWidth);
  for (std::int64_t i = 0; i < kQueries; ++i) {
    double sum = 0;
    for (std::int64_t j = first_key; j < kKeys; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < kWidth; ++d) score += double{q[i * kWidth + d]} * double{k[j * kWidth + d]};
      const double weight = std::exp(score / std::sqrt(double{kWidth}));
      sum += weight;
      for (std::int64_t d = 0; d < kWidth; ++d) out[i * kWidth + d] += weight * double{v[j * kWidth + d]};
    }
    for (std::int64_t d = 0; d < kWidth; ++d) out[i * kWidth + d] /= sum;
  }
  return out;
}

}  // namespace

// Attention on every instruction set, with and without a mask that holds -inf, against plain loops: built with
// whatever flags a consumer may have.
int main() {
  const auto q = numbers(kQueries * kWidth, 1);
  const auto k = numbers(kKeys * kWidth, 2);
  const auto v = numbers(kKeys * kWidth, 3);
  double largest = 0;
  for (const ennead::Isa isa : ennead::supported_isas()) {
    const ennead::Context context(ennead::Context::Options{.threads = 2, .isa = isa});
    const auto query = ennead::Tensor<float>::from(context, {1, 1, kQueries, kWidth}, q);
    const auto key = ennead::Tensor<float>::from(context, {1, 1, kKeys, kWidth}, k);
    const auto value = ennead::Tensor<float>::from(context, {1, 1, kKeys, kWidth}, v);
    for (const std::int64_t first_key : {0, 170}) {
      // Blocked by the numbers of the mask, which the consumer's own flags must not be asked about.
      std::vector<float> bias(kQueries * kKeys);
      const std::vector<double> inf(1, -HUGE_VAL);
      for (std::int64_t i = 0; i < kQueries; ++i) {
        for (std::int64_t j = 0; j < first_key; ++j) bias[i * kKeys + j] = static_cast<float>(inf[0]);
      }
      const auto mask = ennead::Tensor<float>::from(context, {kQueries, kKeys}, bias);
      const auto want = expected(q, k, v, first_key);
      for (const bool masked : {false, true}) {
        if (!masked && first_key > 0) continue;
        ennead::AttentionOptions<float> options;
        if (masked) options.attn_mask = ennead::AttentionMask<float>::additive(mask);
        const auto result = ennead::scaled_dot_product_attention(query, key, value, options);
        for (std::int64_t i = 0; i < kQueries * kWidth; ++i) {
          largest = std::max(largest, std::abs(double{result.output.at({0, 0, i / kWidth, i % kWidth})} - want[i]));
        }
      }
    }
  }
  std::printf("largest error %.2g\n", largest);
  return largest < 1e-6 ? 0 : 1;
}
