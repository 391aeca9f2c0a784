// SPDX-License-Identifier: Apache-2.0
#include "oracle/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "oracle/rounding.h"

namespace ennead::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// y[m, n] = sum_k x[m, k] * weight[n, k] + bias[n]. Every element is summed in order of k; the
/// loops run over n inside only so that checking a large shape takes seconds, not minutes.
std::vector<double> project(std::span<const double> x, const std::vector<double>& weight,
                            const std::vector<double>& bias, std::int64_t in, std::int64_t out) {
  std::vector<double> columns(index(in * out));  // weight transposed, [in, out]
  for (std::int64_t n = 0; n < out; ++n) {
    for (std::int64_t k = 0; k < in; ++k) columns[index(k * out + n)] = weight[index(n * in + k)];
  }
  const std::int64_t rows = in == 0 ? 0 : static_cast<std::int64_t>(x.size()) / in;
  std::vector<double> y(index(rows * out), 0.0);
  constexpr std::int64_t kRowsAtOnce = 8;  // so that a column of the weights is read from cache 8 times
  for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const std::int64_t last = std::min(first + kRowsAtOnce, rows);
    for (std::int64_t k = 0; k < in; ++k) {
      const double* column = columns.data() + k * out;
      for (std::int64_t m = first; m < last; ++m) {
        const double factor = x[index(m * in + k)];
        double* y_m = y.data() + m * out;
        for (std::int64_t n = 0; n < out; ++n) y_m[n] += factor * column[n];
      }
    }
  }
  if (!bias.empty()) {
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t n = 0; n < out; ++n) y[index(m * out + n)] += bias[index(n)];
    }
  }
  return y;
}

/// Where one query stands.
struct Position {
  std::int64_t b, h, q;
};

/// One query against all keys: row j of k and v starts at j * stride.
/// Writes num_keys weights and value_dim outputs, and returns the log-sum-exp. Writes num_keys scores too, as they go
/// into the softmax, unless `scores` is null.
double attend(const Position& at, const Rules& rules, const double* q, const double* k, const double* v,
              std::int64_t num_keys, std::int64_t head_dim, std::int64_t value_dim, std::int64_t key_stride,
              std::int64_t value_stride, double* weights, double* out, double* scores = nullptr) {
  const double scale = rules.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));

  // [mask] [score] What is blocked is not read.
  std::vector<bool> allowed(index(num_keys));
  double largest = -kInfinity;
  for (std::int64_t j = 0; j < num_keys; ++j) {
    weights[j] = -kInfinity;
    const double bias = rules.bias ? rules.bias(at.b, at.h, at.q, j) : 0.0;
    allowed[index(j)] = !(rules.causal && j > at.q + rules.causal_offset) && bias != -kInfinity &&
                        (!rules.allow || rules.allow(at.b, at.h, at.q, j));
    if (!allowed[index(j)]) continue;
    double score = 0;
    for (std::int64_t d = 0; d < head_dim; ++d) score += q[d] * k[j * key_stride + d];
    score *= scale;
    if (rules.score_mod) score = rules.score_mod(score, at.b, at.h, at.q, j);
    weights[j] = score + bias;
    if (weights[j] > largest) largest = weights[j];
  }

  if (scores != nullptr) std::copy(weights, weights + num_keys, scores);

  // [softmax] A NaN score is not larger than anything, but makes the sum, and so the row, NaN.
  double sum = 0;
  for (std::int64_t j = 0; j < num_keys; ++j) {
    weights[j] = weights[j] == -kInfinity ? 0.0 : std::exp(weights[j] - largest);
    sum += weights[j];
  }
  const bool nothing_allowed = sum == 0;  // the largest score alone adds exp(0) = 1
  for (std::int64_t j = 0; j < num_keys && !nothing_allowed; ++j) weights[j] /= sum;

  // [mix] A NaN value of an allowed key reaches the row even when its weight is 0.
  for (std::int64_t d = 0; d < value_dim; ++d) out[d] = 0;
  for (std::int64_t j = 0; j < num_keys; ++j) {
    if (!allowed[index(j)]) continue;
    for (std::int64_t d = 0; d < value_dim; ++d) out[d] += weights[j] * v[j * value_stride + d];
  }
  return nothing_allowed ? -kInfinity : largest + std::log(sum);
}

}  // namespace

AttentionOutput attention(const AttentionShape& shape, const std::vector<double>& q, const std::vector<double>& k,
                          const std::vector<double>& v, const Rules& rules) {
  const auto& [batch, heads, kv_heads, num_queries, num_keys, head_dim, value_dim] = shape;
  AttentionOutput result;
  result.out.resize(index(batch * heads * num_queries * value_dim));
  result.lse.resize(index(batch * heads * num_queries));
  result.weights.resize(index(batch * heads * num_queries * num_keys));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t kv_head = b * kv_heads + h / (heads / kv_heads);
      for (std::int64_t i = 0; i < num_queries; ++i) {
        const std::int64_t row = (b * heads + h) * num_queries + i;
        result.lse[index(row)] =
            attend({b, h, i}, rules, q.data() + row * head_dim, k.data() + kv_head * num_keys * head_dim,
                   v.data() + kv_head * num_keys * value_dim, num_keys, head_dim, value_dim, head_dim, value_dim,
                   result.weights.data() + row * num_keys, result.out.data() + row * value_dim);
      }
    }
  }
  return result;
}

AttentionOutput module_attention(const Module& module, const std::vector<double>& x, std::int64_t batch,
                                 std::int64_t num_tokens, const Rules& rules) {
  const std::int64_t heads = module.num_heads, head_dim = module.d_out / heads;
  const auto split = [&](const std::vector<double>& weight, const std::vector<double>& bias) {
    const std::vector<double> merged = project(x, weight, bias, module.d_in, module.d_out);
    std::vector<double> by_head(merged.size());  // [batch, heads, num_tokens, head_dim]
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t t = 0; t < num_tokens; ++t) {
        for (std::int64_t h = 0; h < heads; ++h) {
          for (std::int64_t d = 0; d < head_dim; ++d) {
            by_head[index(((b * heads + h) * num_tokens + t) * head_dim + d)] =
                merged[index((b * num_tokens + t) * module.d_out + h * head_dim + d)];
          }
        }
      }
    }
    return by_head;
  };
  const AttentionShape shape{batch, heads, heads, num_tokens, num_tokens, head_dim, head_dim};
  return attention(shape, split(module.W_query, module.b_query), split(module.W_key, module.b_key),
                   split(module.W_value, module.b_value), rules);
}

double JudgedRows::largest_rounding() const {
  double largest = 0;
  for (const double move : rounding) {
    if (std::isfinite(move)) largest = std::max(largest, move);
  }
  return largest;
}

JudgedRows judged_rows(const Module& module, const std::vector<double>& x, std::int64_t batch, std::int64_t num_tokens,
                       const Rules& rules, const std::vector<std::int64_t>& rows, double epsilon) {
  std::vector<std::int64_t> wanted = rows;
  if (wanted.empty()) wanted = sample_rows(num_tokens, num_tokens);
  const std::int64_t d_in = module.d_in, d_out = module.d_out, heads = module.num_heads, head_dim = d_out / heads;
  const std::int64_t num_rows = static_cast<std::int64_t>(wanted.size());
  const double scale = rules.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));

  JudgedRows result;
  std::vector<double> context(index(batch * num_rows * d_out));
  std::vector<double> weights(index(num_tokens)), scores(index(num_tokens)), moves(index(num_rows * d_out));
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::span<const double> x_b(x.data() + b * num_tokens * d_in, index(num_tokens * d_in));
    std::vector<double> x_rows;
    for (const std::int64_t row : wanted) {
      x_rows.insert(x_rows.end(), x_b.begin() + row * d_in, x_b.begin() + (row + 1) * d_in);
    }
    const std::vector<double> queries = project(x_rows, module.W_query, module.b_query, d_in, d_out);
    const std::vector<double> keys = project(x_b, module.W_key, module.b_key, d_in, d_out);
    const std::vector<double> values = project(x_b, module.W_value, module.b_value, d_in, d_out);
    const Rounding rounding(module, x_b, epsilon);
    double* context_b = context.data() + b * num_rows * d_out;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t r = 0; r < num_rows; ++r) {
        const double *q = queries.data() + r * d_out + h * head_dim, *k = keys.data() + h * head_dim;
        const double* v = values.data() + h * head_dim;
        const std::int64_t at = r * d_out + h * head_dim;
        const double lse = attend({b, h, wanted[index(r)]}, rules, q, k, v, num_tokens, head_dim, head_dim, d_out,
                                  d_out, weights.data(), context_b + at, scores.data());
        if (epsilon == 0) continue;
        rounding.attended(
            {wanted[index(r)], h, num_tokens, head_dim, d_out, scale, q, k, v, scores.data(), lse, context_b + at},
            moves.data() + at);
      }
    }
    for (std::int64_t r = 0; r < num_rows && epsilon > 0; ++r) {
      result.rounding.push_back(rounding.projected(context_b + r * d_out, moves.data() + r * d_out));
    }
  }
  result.out = project(context, module.out_weight, module.out_bias, d_out, d_out);
  return result;
}

std::vector<double> module_rows(const Module& module, const std::vector<double>& x, std::int64_t batch,
                                std::int64_t num_tokens, const Rules& rules, const std::vector<std::int64_t>& rows) {
  return judged_rows(module, x, batch, num_tokens, rules, rows, 0).out;
}

std::vector<std::int64_t> sample_rows(std::int64_t num_tokens, std::int64_t count) {
  count = std::min(count, num_tokens);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(count == 1 ? 0 : i * (num_tokens - 1) / (count - 1));
  }
  return rows;
}

}  // namespace ennead::oracle
