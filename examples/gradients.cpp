// SPDX-License-Identifier: Apache-2.0
// A gradient step for one weight: any of variants 1 to 4 under a tape.
#include <ennead/ennead.h>

#include <iostream>

int main() {
  const ennead::Context context;
  const ennead::Config config{.d_in = 64, .d_out = 64, .context_length = 32, .num_heads = 4};
  auto weights = ennead::Weights<float>::random(context, config, 1);
  auto x = ennead::random_input<float>(context, 2, 32, 64, 2);

  ennead::Tape tape;
  context.set_tape(&tape);
  tape.watch(x);
  tape.watch(weights.W_query);
  // Made under the tape, so that the packing of the weights is part of the record.
  const auto attention = ennead::make_variant<float>(*ennead::find_variant("weight_split"), config, weights);
  const auto y = (*attention)(x);
  tape.backward(y, ennead::Tensor<float>::full(context, y.sizes(), 1.0F));
  context.set_tape(nullptr);

  std::cout << "dLoss/dx " << ennead::to_string(tape.gradient(x).sizes()) << ", dLoss/dW_query "
            << ennead::to_string(tape.gradient(weights.W_query).sizes()) << '\n';
}
