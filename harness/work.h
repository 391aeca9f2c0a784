// SPDX-License-Identifier: Apache-2.0
// The work that is asked for: a shape, a pass, an element type, and who does it.
#pragma once

#include <cstdint>
#include <string_view>

#include "ennead/context.h"
#include "ennead/cpu.h"
#include "ennead/variants.h"
#include "harness/limits.h"
#include "harness/result.h"

namespace ennead::harness {

enum class Pass { forward, forward_backward };

struct Work {
  Shape shape;
  Pass pass = Pass::forward;
  Precision precision = Precision::float32;
  std::uint64_t seed = 1;
  double x_deviation = 1;  ///< standard deviation of x, whose numbers are normally distributed about 0
  int threads = 1;
  Isa isa = Isa::scalar;

  Config config() const;
  Context context(const Arena::Options& arena = {}) const;
};

std::string_view name(Pass pass);
std::string_view name(Precision precision);

/// Multiply-adds * 2 that the result needs: masked products are not among them, whoever computes
/// them. The same for all variants, so that shares of the peak compare times and nothing else.
double useful_flops(const Shape& shape, Pass pass);

}  // namespace ennead::harness
