// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>

#include "ennead/ennead.h"

// All variants of one small module, found in the installed library, agree.
int main() {
  const ennead::Context context;
  const ennead::Config config{.d_in = 10, .d_out = 12, .context_length = 9, .num_heads = 3};
  const auto weights = ennead::Weights<float>::random(context, config, 1);
  const auto x = ennead::random_input<float>(context, 2, 9, 10, 2);
  ennead::Tensor<float> first;
  for (const ennead::VariantInfo& info : ennead::variants()) {
    const auto y = (*ennead::make_variant(info, config, weights))(x);
    if (first.empty()) first = y;
    for (std::int64_t i = 0; i < y.num_elements(); ++i) {
      if (!(std::abs(y.data()[i] - first.data()[i]) <= 1e-5F)) return 1;
    }
  }
  std::printf("%s: %zu variants agree\n", ENNEAD_VERSION, ennead::variants().size());
  return 0;
}
