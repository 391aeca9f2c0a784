// SPDX-License-Identifier: Apache-2.0
// The README's ten lines: pack a module's weights once, call it often.
#include <ennead/ennead.h>

#include <iostream>

int main() {
  const ennead::Context context;  // all threads this process may use, the best instruction set
  const ennead::Config config{.d_in = 768, .d_out = 768, .context_length = 1024, .num_heads = 12};
  const auto weights = ennead::Weights<float>::random(context, config, 1);
  const auto x = ennead::random_input<float>(context, 8, 1024, 768, 2);

  const ennead::PackedModule<float> attention(config, weights);
  const auto y = ennead::multi_head_attention(x, attention);  // [8, 1024, 768]

  std::cout << ennead::to_string(y.sizes()) << '\n';
}
