// SPDX-License-Identifier: Apache-2.0
#include "harness/work.h"

namespace ennead::harness {

Config Work::config() const {
  Config config;
  config.d_in = shape.d_in;
  config.d_out = shape.d_out;
  config.context_length = shape.num_tokens;
  config.num_heads = shape.num_heads;
  config.qkv_bias = shape.qkv_bias;
  config.is_causal = shape.is_causal;
  return config;
}

Context Work::context(const Arena::Options& arena) const {
  Context::Options options;
  options.threads = threads;
  options.isa = isa;
  options.seed = seed;
  options.arena = arena;
  return Context(options);
}

std::string_view name(Pass pass) { return pass == Pass::forward ? "forward" : "forward-backward"; }

std::string_view name(Precision precision) { return precision == Precision::float32 ? "float32" : "float64"; }

double useful_flops(const Shape& shape, Pass pass) {
  const double batch = static_cast<double>(shape.batch), tokens = static_cast<double>(shape.num_tokens);
  const double d_in = static_cast<double>(shape.d_in), d_out = static_cast<double>(shape.d_out);
  const double projections = 2 * batch * tokens * (3 * d_in * d_out + d_out * d_out);
  const double pairs = shape.is_causal ? tokens * (tokens + 1) / 2 : tokens * tokens;  // (query, key)
  const double attention = 2 * 2 * batch * pairs * d_out;
  if (pass == Pass::forward) return projections + attention;
  // Backwards a projection is two products (for its input, for its weight), attention is five where
  // forward it is two: scores again, dV, dP, dQ, dK.
  return 3 * projections + 3.5 * attention;
}

}  // namespace ennead::harness
