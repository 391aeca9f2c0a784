// SPDX-License-Identifier: Apache-2.0
#include "ennead/ennead.h"
#include "ennead/io.h"

// A tensor goes to a file and comes back.
int main(int, char** arguments) {
  const ennead::Context context;
  const auto x = ennead::random_input<float>(context, 2, 3, 4, 5);
  ennead::write_npy<float>(arguments[1], x);
  const auto y = ennead::read_npy<float>(context, arguments[1]);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    if (x.data()[i] != y.data()[i]) return 1;
  }
  return 0;
}
