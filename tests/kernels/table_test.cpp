// SPDX-License-Identifier: Apache-2.0
// kernels: the choice of a table, and the yardstick in it.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/kernels.h"
#include "support/contexts.h"

namespace ennead::test {
namespace {

// Mutants: an Isa that falls back to the plain loops or to another set; a table built twice.
template <class T>
void own_table() {
  for_each_isa([](Isa isa) {
    const kernels::Kernels<T>& table = kernels::kernels_for<T>(isa);
    EXPECT_EQ(name(table.isa), name(isa));
    EXPECT_EQ(&table, &kernels::kernels_for<T>(isa));
  });
}
TEST(KernelsTable, EveryIsaHasItsOwnFloat) { own_table<float>(); }
// WebAssembly has no vectors of doubles that Highway knows: there the plain loops serve.
TEST(KernelsTable, EveryIsaHasItsOwnDouble) {
  if (supported_isas().front() != Isa::wasm128) own_table<double>();
}

// Every chain x <- 0.75 x + 0.25 tends to 1, so their sum counts the chains and shows that they ran.
// Mutants: FLOPs counted of other chains than run; chains that the compiler removed.
template <class T>
void peak_does_what_it_counts() {
  for_each_isa([](Isa isa) {
    const auto& table = kernels::kernels_for<T>(isa);
    Sum<T> sink = 1;
    const double flops = table.peak_loop(1000, &sink);
    EXPECT_GT(flops, 0.0);
    EXPECT_DOUBLE_EQ(table.peak_loop(2000, &sink), 2 * flops);
    if (table.isa == Isa::scalar) return;
    EXPECT_NEAR(static_cast<double>(sink), flops / 2 / 1000, 1e-3);
  });
}
TEST(KernelsTable, PeakFloat) { peak_does_what_it_counts<float>(); }
TEST(KernelsTable, PeakDouble) { peak_does_what_it_counts<double>(); }

}  // namespace
}  // namespace ennead::test
