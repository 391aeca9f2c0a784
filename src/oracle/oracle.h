// SPDX-License-Identifier: Apache-2.0
// The one oracle: multi-head attention as plain float64 loops. It shares no code with the library
// (it includes none of its headers), so that a fault there cannot hide here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ennead::oracle {

/// Row-major float64 weights in torch layouts; biases empty where there are none.
struct Module {
  std::int64_t d_in = 0, d_out = 0, num_heads = 1;
  std::vector<double> W_query, W_key, W_value;  // [d_out, d_in]
  std::vector<double> b_query, b_key, b_value;  // [d_out] or empty
  std::vector<double> out_weight, out_bias;     // [d_out, d_out], [d_out] or empty
};

/// What a query may see. score = mod(scale * q.k) + bias, then masks, all combined by AND.
struct Rules {
  bool causal = false;
  std::int64_t causal_offset = 0;    // key <= query + offset
  std::optional<double> scale = {};  // default 1 / sqrt(head_dim)
  std::function<bool(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)> allow = {};
  std::function<double(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)> bias = {};
  std::function<double(double score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)> score_mod = {};
};

struct AttentionShape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, num_queries = 0, num_keys = 0, head_dim = 0, value_dim = 0;
};
struct AttentionOutput {
  std::vector<double> out;      // [batch, heads, num_queries, value_dim]
  std::vector<double> lse;      // [batch, heads, num_queries]
  std::vector<double> weights;  // [batch, heads, num_queries, num_keys]
};
/// q, k, v row-major [batch, heads | kv_heads, length, dim].
AttentionOutput attention(const AttentionShape& shape, const std::vector<double>& q, const std::vector<double>& k,
                          const std::vector<double>& v, const Rules& rules);

/// Rows of the module's output: x [batch, num_tokens, d_in] -> for every batch item the rows `rows`
/// (all when empty), [batch, rows, d_out]. Only what those rows need is computed.
std::vector<double> module_rows(const Module& module, const std::vector<double>& x, std::int64_t batch,
                                std::int64_t num_tokens, const Rules& rules, const std::vector<std::int64_t>& rows);

/// Those rows, and how far rounding may move each of them; see oracle/rounding.h.
struct JudgedRows {
  std::vector<double> out;       // [batch, rows, d_out]
  std::vector<double> rounding;  // [batch, rows]: the most that any number of the row moves

  /// The largest of `rounding`; what is not known, beside NaN and infinity, does not count.
  double largest_rounding() const;
};
/// @param epsilon std::numeric_limits<T>::epsilon() of the type that is judged
JudgedRows judged_rows(const Module& module, const std::vector<double>& x, std::int64_t batch, std::int64_t num_tokens,
                       const Rules& rules, const std::vector<std::int64_t>& rows, double epsilon);

/// What happens inside the module before the heads are merged: out is [batch, num_heads, num_tokens, head_dim].
AttentionOutput module_attention(const Module& module, const std::vector<double>& x, std::int64_t batch,
                                 std::int64_t num_tokens, const Rules& rules);

/// `count` rows spread over [0, num_tokens), first and last among them (all when there are fewer).
std::vector<std::int64_t> sample_rows(std::int64_t num_tokens, std::int64_t count = 64);

}  // namespace ennead::oracle
