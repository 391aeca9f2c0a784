// SPDX-License-Identifier: Apache-2.0
// One call of the attention kernel with operands of any layout and masks of all kinds, and what the
// oracle says about it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "oracle/oracle.h"
#include "support/kernel_operands.h"

namespace ennead::test {

struct AttentionShape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, num_queries = 1, num_keys = 1, head_dim = 1, value_dim = 1;
};

struct AttentionMasks {
  bool causal = false;
  std::int64_t causal_offset = 0;
  bool allow = false, bias = false, score_mod = false;
  std::int64_t block_q = 0, block_k = 0;  ///< 0: no block mask
};

/// A score_mod that tells batch, head, query and key apart.
template <class S>
S test_score_mod(S score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  return score * S(0.5) + S(0.25) * static_cast<S>(b) - S(0.125) * static_cast<S>(h) +
         S(0.03125) * static_cast<S>(q % 5) - S(0.0625) * static_cast<S>(k % 7);
}

/// What a score_mod does with a score.
struct ScoreRule {
  enum Kind { same, changing, hiding } kind = changing;
  std::int64_t nan_query = -1, nan_key = -1;  ///< NaN for this pair, unless it is hidden

  /// Hiding: -inf, for some keys of each query and for all keys of some.
  bool hides(std::int64_t q, std::int64_t k) const { return kind == hiding && (q % 8 == 3 || (q + 2 * k) % 5 == 0); }
  template <class S>
  S operator()(S score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (hides(q, k)) return -std::numeric_limits<S>::infinity();
    if (q == nan_query && k == nan_key) return std::numeric_limits<S>::quiet_NaN();
    return kind == changing ? test_score_mod(score, b, h, q, k) : score;
  }
};

template <class T>
class AttentionCase {
 public:
  AttentionCase(const AttentionShape& shape, const AttentionMasks& masks, Random& random, Layout layout = Layout::any)
      : shape_(shape),
        q_({shape.batch, shape.heads, shape.num_queries, shape.head_dim}, random, layout),
        k_({shape.batch, shape.kv_heads, shape.num_keys, shape.head_dim}, random, layout),
        v_({shape.batch, shape.kv_heads, shape.num_keys, shape.value_dim}, random, layout),
        out_({shape.batch, shape.heads, shape.num_queries, shape.value_dim}, random,
             layout == Layout::contiguous ? layout : Layout::any_without_overlap),
        lse_({shape.batch, shape.heads, shape.num_queries}, random,
             layout == Layout::contiguous ? layout : Layout::any_without_overlap) {
    args.q = q_.view();
    args.k = k_.view();
    args.v = v_.view();
    args.out = out_.mutable_view();
    args.lse = lse_.mutable_view();
    args.scale = T(1) / static_cast<T>(std::sqrt(static_cast<double>(shape.head_dim)));
    args.causal = masks.causal;
    args.causal_offset = masks.causal_offset;
    const std::array<std::int64_t, 4> plane{shape.batch, shape.heads, shape.num_queries, shape.num_keys};
    if (masks.bias) {
      bias_ = std::make_unique<Operand<T, 4>>(plane, random, layout);
      args.bias = bias_->view();
    }
    if (masks.allow) add_allow(plane, random);
    if (masks.block_q) add_blocks(masks, random);
    if (masks.score_mod) args.score_mod = {mod_tile, &rule_};
  }
  AttentionCase(const AttentionCase&) = delete;
  AttentionCase& operator=(const AttentionCase&) = delete;

  /// What the score_mod does, if there is one.
  ScoreRule& rule() { return rule_; }

  bool allowed(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (args.causal && k > q + args.causal_offset) return false;
    if (args.allow.data && !args.allow(b, h, q, k)) return false;
    if (args.blocks.block_q == 0) return true;
    const std::size_t block = block_of(b, h, q, k);
    if (kinds_[block] != 2) return kinds_[block] == 1;
    const std::int64_t bit = k % args.blocks.block_k, words = (args.blocks.block_k + 63) / 64;
    const std::int64_t word = bit_offsets_[block] + q % args.blocks.block_q * words + bit / 64;
    return (bits_[static_cast<std::size_t>(word)] >> (bit % 64) & 1) != 0;
  }

  /// allowed(), and neither the bias nor the score_mod blocks.
  bool seen(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (!allowed(b, h, q, k)) return false;
    if (args.bias.data && args.bias(b, h, q, k) == -std::numeric_limits<T>::infinity()) return false;
    return !args.score_mod.function || !rule_.hides(q, k);
  }
  bool sees_any(std::int64_t b, std::int64_t h, std::int64_t q) const {
    for (std::int64_t k = 0; k < shape_.num_keys; ++k) {
      if (seen(b, h, q, k)) return true;
    }
    return false;
  }

  /// Has every mask there is block all keys of a query.
  void block_query(std::int64_t b, std::int64_t h, std::int64_t q) {
    for (std::int64_t k = 0; k < shape_.num_keys; ++k) {
      if (args.bias.data) bias(b, h, q, k) = -std::numeric_limits<T>::infinity();
      if (args.allow.data) allow_[static_cast<std::size_t>(&args.allow(b, h, q, k) - allow_.get())] = false;
      if (args.blocks.block_q) kinds_[block_of(b, h, q, k)] = 0;
    }
  }

  void run(Isa isa, Executor& executor, Fill fill = Fill::nan) {
    const auto& kernels = kernels::kernels_for<T>(isa);
    out_.poison();
    lse_.poison();
    AlignedBuffer<std::byte> scratch(kernels.attention_scratch(args, executor.num_threads()), fill);
    kernels.attention(executor, args, scratch.data());
    stayed_inside_ = out_.intact() && lse_.intact() && scratch.intact();
  }

  /// All results, row by row.
  std::vector<T> results() const {
    std::vector<T> values;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t h = 0; h < shape_.heads; ++h) {
        for (std::int64_t q = 0; q < shape_.num_queries; ++q) append_row(b, h, q, values);
      }
    }
    return values;
  }
  void append_row(std::int64_t b, std::int64_t h, std::int64_t q, std::vector<T>& values) const {
    for (std::int64_t d = 0; d < shape_.value_dim; ++d) values.push_back(args.out(b, h, q, d));
    if (args.lse.data) values.push_back(args.lse(b, h, q));
  }

  /// Compares with the oracle; `tolerance` is in units of epsilon, and large scores have large units.
  testing::AssertionResult right(double tolerance = 200) const {
    if (!stayed_inside_) return testing::AssertionFailure() << "wrote outside its memory; " << describe();
    const oracle::AttentionOutput want = expected();
    const double bound = tolerance * static_cast<double>(std::numeric_limits<T>::epsilon());
    std::size_t at = 0, row = 0;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t h = 0; h < shape_.heads; ++h) {
        for (std::int64_t q = 0; q < shape_.num_queries; ++q, ++row) {
          const double lse = args.lse.data ? static_cast<double>(args.lse(b, h, q)) : want.lse[row];
          const double row_bound = bound * (1 + (std::isfinite(want.lse[row]) ? std::abs(want.lse[row]) : 0));
          if (!(lse == want.lse[row]) && !(std::abs(lse - want.lse[row]) <= row_bound)) {
            return testing::AssertionFailure() << "lse[" << b << ", " << h << ", " << q << "]: expected "
                                               << want.lse[row] << ", got " << lse << "; " << describe();
          }
          for (std::int64_t d = 0; d < shape_.value_dim; ++d, ++at) {
            const double got = static_cast<double>(args.out(b, h, q, d));
            if (!(std::abs(got - want.out[at]) <= row_bound)) {
              return testing::AssertionFailure() << "out[" << b << ", " << h << ", " << q << ", " << d << "]: expected "
                                                 << want.out[at] << ", got " << got << "; " << describe();
            }
          }
        }
      }
    }
    return testing::AssertionSuccess();
  }

  std::string describe() const {
    std::ostringstream text;
    text << "batch " << shape_.batch << " heads " << shape_.heads << "/" << shape_.kv_heads << " queries "
         << shape_.num_queries << " keys " << shape_.num_keys << " dims " << shape_.head_dim << "/" << shape_.value_dim
         << (args.causal ? " causal" : "") << (args.allow.data ? " allow" : "") << (args.bias.data ? " bias" : "")
         << (args.score_mod.function ? " score_mod" : "") << " blocks " << args.blocks.block_q << "x"
         << args.blocks.block_k;
    return text.str();
  }

  kernels::AttentionArgs<T> args;

  T& query(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) { return q_.mutable_view()(b, h, i, d); }
  T& key(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) { return k_.mutable_view()(b, h, i, d); }
  T& value(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) { return v_.mutable_view()(b, h, i, d); }
  T& bias(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) { return bias_->mutable_view()(b, h, q, k); }

  oracle::AttentionOutput expected() const {
    const oracle::AttentionShape shape{shape_.batch,    shape_.heads,    shape_.kv_heads, shape_.num_queries,
                                       shape_.num_keys, shape_.head_dim, shape_.value_dim};
    oracle::Rules rules;
    rules.scale = static_cast<double>(args.scale);
    rules.allow = [this](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
      return allowed(b, h, q, k);
    };
    if (args.bias.data) {
      rules.bias = [this](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
        return static_cast<double>(args.bias(b, h, q, k));
      };
    }
    if (args.score_mod.function) rules.score_mod = rule_;
    return oracle::attention(shape, flat(args.q), flat(args.k), flat(args.v), rules);
  }

 private:
  static std::vector<double> flat(const View<const T, 4>& view) {
    std::vector<double> values;
    for (std::int64_t a = 0; a < view.size(0); ++a) {
      for (std::int64_t b = 0; b < view.size(1); ++b) {
        for (std::int64_t c = 0; c < view.size(2); ++c) {
          for (std::int64_t d = 0; d < view.size(3); ++d) values.push_back(static_cast<double>(view(a, b, c, d)));
        }
      }
    }
    return values;
  }

  std::size_t block_of(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    return static_cast<std::size_t>(b * args.blocks.batch_stride + h * args.blocks.head_stride +
                                    q / args.blocks.block_q * args.blocks.blocks_per_row + k / args.blocks.block_k);
  }

  static void mod_tile(const void* state, T* scores, std::int64_t row_stride, std::int64_t batch, std::int64_t head,
                       std::int64_t query0, std::int64_t num_queries, std::int64_t key0, std::int64_t num_keys) {
    for (std::int64_t i = 0; i < num_queries; ++i) {
      for (std::int64_t j = 0; j < num_keys; ++j) {
        T& score = scores[i * row_stride + j];
        score = (*static_cast<const ScoreRule*>(state))(score, batch, head, query0 + i, key0 + j);
      }
    }
  }

  /// A dense mask, any of whose axes may be broadcast.
  void add_allow(const std::array<std::int64_t, 4>& plane, Random& random) {
    args.allow.sizes = plane;
    std::int64_t elements = 1;
    for (std::size_t axis = 4; axis-- > 0;) {
      if (random.coin(0.3)) continue;  // stride 0
      args.allow.strides[axis] = elements;
      elements *= std::max<std::int64_t>(1, plane[axis]);
    }
    allow_ = std::make_unique<bool[]>(static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < elements; ++i) allow_[static_cast<std::size_t>(i)] = random.coin(0.7);
    args.allow.data = allow_.get();
  }

  void add_blocks(const AttentionMasks& masks, Random& random) {
    const std::int64_t rows = kernels_ceil(shape_.num_queries, masks.block_q);
    const std::int64_t columns = kernels_ceil(shape_.num_keys, masks.block_k);
    const std::int64_t words = masks.block_q * ((masks.block_k + 63) / 64);
    args.blocks.block_q = masks.block_q;
    args.blocks.block_k = masks.block_k;
    args.blocks.blocks_per_row = columns;
    args.blocks.head_stride = random.coin() ? rows * columns : 0;
    args.blocks.batch_stride = random.coin() ? std::max<std::int64_t>(1, shape_.heads) * rows * columns : 0;
    const std::int64_t blocks = shape_.batch * shape_.heads * rows * columns;
    for (std::int64_t i = 0; i < blocks; ++i) {
      kinds_.push_back(static_cast<std::uint8_t>(random.integer(0, 2)));
      bit_offsets_.push_back(static_cast<std::int64_t>(bits_.size()));
      for (std::int64_t w = 0; kinds_.back() == 2 && w < words; ++w) bits_.push_back(random.bits());
    }
    args.blocks.kinds = kinds_.data();
    args.blocks.bit_offsets = bit_offsets_.data();
    args.blocks.bits = bits_.data();
  }
  static std::int64_t kernels_ceil(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

  AttentionShape shape_;
  ScoreRule rule_;
  Operand<T, 4> q_, k_, v_, out_;
  Operand<T, 3> lse_;
  std::unique_ptr<Operand<T, 4>> bias_;
  std::unique_ptr<bool[]> allow_;
  std::vector<std::uint8_t> kinds_;
  std::vector<std::int64_t> bit_offsets_;
  std::vector<std::uint64_t> bits_;
  bool stayed_inside_ = true;
};

}  // namespace ennead::test
