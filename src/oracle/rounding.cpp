// SPDX-License-Identifier: Apache-2.0
#include "oracle/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "oracle/oracle.h"

namespace ennead::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

double square(double value) { return value * value; }

double norm(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += square(value);
  return std::sqrt(sum);
}

std::vector<double> row_norms(std::span<const double> rows, std::int64_t length) {
  std::vector<double> norms;
  for (std::size_t first = 0; first < rows.size(); first += index(length)) {
    norms.push_back(norm(rows.subspan(first, index(length))));
  }
  return norms;
}

}  // namespace

double Rounding::Outputs::size(std::int64_t output, double input_norm) const {
  return norms[index(output)] * input_norm + (biases.empty() ? 0 : std::abs(biases[index(output)]));
}

Rounding::Outputs Rounding::outputs(const std::vector<double>& weight, const std::vector<double>& bias,
                                    std::int64_t in) {
  return {row_norms(weight, in), bias};
}

Rounding::Rounding(const Module& module, std::span<const double> x, double epsilon)
    : epsilon_(epsilon),
      queries_(outputs(module.W_query, module.b_query, module.d_in)),
      keys_(outputs(module.W_key, module.b_key, module.d_in)),
      values_(outputs(module.W_value, module.b_value, module.d_in)),
      results_(outputs(module.out_weight, module.out_bias, module.d_out)),
      out_weight_(module.out_weight),
      x_norms_(row_norms(x, module.d_in)) {}

void Rounding::attended(const AttendedRow& at, double* moves) const {
  const std::int64_t first = at.head * at.head_dim;  // the head's part of a projection
  const auto k = [&](std::int64_t j) { return at.k + j * at.stride; };
  const auto v = [&](std::int64_t j) { return at.v + j * at.stride; };
  const double q_norm = norm({at.q, index(at.head_dim)});

  // How far each score may move: its query and its key were rounded, and so is their product.
  std::vector<double> score_moves(index(at.num_keys), 0.0);
  double largest_low = -kInfinity;  // of the scores when each falls as far as it may
  for (std::int64_t j = 0; j < at.num_keys; ++j) {
    if (at.scores[j] == -kInfinity) continue;
    double squares = square(q_norm * norm({k(j), index(at.head_dim)}));
    for (std::int64_t d = 0; d < at.head_dim; ++d) {
      squares += square(queries_.size(first + d, x_norms_[index(at.row)]) * k(j)[d]) +
                 square(keys_.size(first + d, x_norms_[index(j)]) * at.q[d]);
    }
    score_moves[index(j)] = epsilon_ * std::abs(at.scale) * std::sqrt(squares);
    largest_low = std::max(largest_low, at.scores[j] - score_moves[index(j)]);
  }
  const auto low = [&](std::int64_t j) { return std::exp(at.scores[j] - score_moves[index(j)] - largest_low); };
  double sum_low = 0;
  for (std::int64_t j = 0; j < at.num_keys; ++j) sum_low += at.scores[j] == -kInfinity ? 0 : low(j);

  std::fill(moves, moves + at.head_dim, 0.0);
  std::vector<double> sizes(index(at.head_dim), 0.0);
  for (std::int64_t j = 0; j < at.num_keys; ++j) {
    if (at.scores[j] == -kInfinity) continue;
    const double weight = std::exp(at.scores[j] - at.lse), move = score_moves[index(j)];
    // The most this weight may become: its score rises, the others fall. And the least: it falls, the others rise.
    const double others = std::max(sum_low - low(j), 0.0);
    const double most = others == 0 ? 1 : 1 / (1 + others * std::exp(largest_low - at.scores[j] - move));
    const double change = std::max(most - weight, weight * -std::expm1(-2 * move));
    for (std::int64_t d = 0; d < at.head_dim; ++d) {
      moves[d] += square(change * (v(j)[d] - at.out[d])) +
                  square(epsilon_ * weight * values_.size(first + d, x_norms_[index(j)]));
      sizes[index(d)] += weight * std::abs(v(j)[d]);
    }
  }
  for (std::int64_t d = 0; d < at.head_dim; ++d) {
    moves[d] = std::sqrt(moves[d] + square(epsilon_ * sizes[index(d)]));
  }
}

double Rounding::projected(const double* context, const double* moves) const {
  const std::size_t width = results_.norms.size();
  const double context_norm = norm({context, width});
  double largest = 0;
  for (std::size_t n = 0; n < width; ++n) {
    double squares = square(epsilon_ * results_.size(static_cast<std::int64_t>(n), context_norm));
    for (std::size_t d = 0; d < width; ++d) squares += square(out_weight_[n * width + d] * moves[d]);
    // A NaN stays: then nothing is known of the row.
    if (!(squares <= largest)) largest = squares;
  }
  return std::sqrt(largest);
}

}  // namespace ennead::oracle
