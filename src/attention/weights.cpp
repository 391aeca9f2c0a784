// SPDX-License-Identifier: Apache-2.0
// Attention weights on request. The fused kernel never has them, so they are computed again: a block
// of query rows at a time, softmax included. (exp(score - lse) would save the row sums, but a
// log-sum-exp of float32 carries an error that grows with the scores: at scores of 1e4 rows no longer
// sum to 1, and at 1e30 they overflow.)
#include <algorithm>
#include <limits>
#include <memory>

#include "attention/arguments.h"
#include "base/launch.h"
#include "base/scratch.h"
#include "ennead/attention.h"
#include "kernels/kernels.h"

namespace ennead {
namespace {

constexpr const char* kOp = "attention_weights";
// Rows whose scores of 1024 keys stay in a core's L2 cache with the result they are added to.
constexpr std::int64_t kRows = 64;

/// Computes rows of weights; one for each worker, so it runs kernels on the calling thread.
template <class T>
class RowBlocks {
 public:
  RowBlocks(const kernels::Kernels<T>& kernel, const kernels::AttentionArgs<T>& args, const Tensor<T>& weights)
      : kernel_(kernel), args_(args), serial_(make_serial_executor()), weights_(weights) {
    averaged_ = weights.rank() == 3;
    const std::int64_t rows = std::min(kRows, num_queries());
    scores_bytes_ = averaged_ ? static_cast<std::size_t>(rows * num_keys()) * sizeof(T) : 0;
    scores_bytes_ = (scores_bytes_ + 63) / 64 * 64;
    scratch_bytes_ = scores_bytes_ + kernel_.matmul_scratch(product(0, 0, 0, rows, num_keys(), {}), 1);
    scratch_bytes_ = (scratch_bytes_ + 63) / 64 * 64;
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  std::int64_t num_tasks() const { return args_.q.size(0) * heads_apart() * row_blocks(); }

  void run(std::int64_t task, std::byte* scratch) const {
    const std::int64_t first = task % row_blocks() * kRows, last = std::min(num_queries(), first + kRows);
    const std::int64_t item = task / row_blocks(), batch = item / heads_apart();
    const std::int64_t end = attention::causal_end(args_, last - 1);
    if (averaged_) {
      average(batch, first, last, end, scratch);
    } else {
      const auto rows = rows_of(weights_.template view<4>()[batch][item % heads_apart()], first, last);
      weigh(batch, item % heads_apart(), first, keys_below(rows, end), scratch);
      clear_from(rows, end);
    }
  }

  double executed_flops() const {
    double pairs = 0;
    for (std::int64_t first = 0; first < num_queries(); first += kRows) {
      const std::int64_t last = std::min(num_queries(), first + kRows);
      pairs += static_cast<double>((last - first) * attention::causal_end(args_, last - 1));
    }
    return 2.0 * pairs * static_cast<double>(args_.q.size(0) * args_.q.size(1) * args_.q.size(3));
  }

 private:
  std::int64_t num_queries() const { return args_.q.size(2); }
  std::int64_t num_keys() const { return args_.k.size(2); }
  std::int64_t row_blocks() const { return (num_queries() + kRows - 1) / kRows; }
  /// Heads whose weights are kept apart; the others are summed within a task, in order.
  std::int64_t heads_apart() const { return averaged_ ? 1 : args_.q.size(1); }

  static View<T, 2> rows_of(View<T, 2> matrix, std::int64_t first, std::int64_t last) {
    matrix.data += first * matrix.stride(0);
    matrix.sizes[0] = last - first;
    return matrix;
  }
  static View<T, 2> keys_below(View<T, 2> rows, std::int64_t end) {
    rows.sizes[1] = end;
    return rows;
  }
  static void clear_from(const View<T, 2>& rows, std::int64_t end) {
    for (std::int64_t i = 0; i < rows.size(0); ++i) std::fill(&rows(i, 0) + end, &rows(i, 0) + rows.size(1), T{0});
  }

  /// scale * q k^T for `rows` query rows from `first` and the keys below `end`.
  kernels::MatmulArgs<T> product(std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t rows,
                                 std::int64_t end, View<T, 2> scores) const {
    const View<const T, 2> q = args_.q[batch][head];
    const View<const T, 2> k = args_.k[batch][head / (args_.q.size(1) / args_.k.size(1))];
    kernels::MatmulArgs<T> matmul;
    matmul.a = {q.data + first * q.stride(0), {1, 1, rows, q.size(1)}, {0, 0, q.stride(0), q.stride(1)}};
    matmul.b = {k.data, {1, 1, q.size(1), end}, {0, 0, k.stride(1), k.stride(0)}};
    matmul.c = {scores.data, {1, 1, rows, end}, {0, 0, scores.stride(0), scores.stride(1)}};
    matmul.alpha = args_.scale;
    return matmul;
  }

  /// The weights of one head for the query rows from `first`, into `weights` [rows, keys].
  void weigh(std::int64_t batch, std::int64_t head, std::int64_t first, const View<T, 2>& weights,
             std::byte* scratch) const {
    if (weights.size(1) == 0) return;
    kernel_.matmul(*serial_, product(batch, head, first, weights.size(0), weights.size(1), weights), scratch);
    mask(batch, head, first, weights);
    kernel_.softmax(*serial_, {weights, weights});
  }

  /// Writes -inf over what is blocked (adding it would keep a NaN) and adds the bias to the rest.
  void mask(std::int64_t batch, std::int64_t head, std::int64_t first, const View<T, 2>& scores) const {
    constexpr T kBlocked = -std::numeric_limits<T>::infinity();
    const std::int64_t num_scores = scores.size(1);
    for (std::int64_t i = 0; i < scores.size(0); ++i) {
      const std::int64_t query = first + i;
      T* row = &scores(i, 0);
      if (args_.bias.data) {
        const View<const T, 1> bias = args_.bias[batch][head][query];
        for (std::int64_t j = 0; j < num_scores; ++j) row[j] = bias(j) == kBlocked ? kBlocked : row[j] + bias(j);
      }
      if (args_.allow.data) {
        const View<const bool, 1> allow = args_.allow[batch][head][query];
        for (std::int64_t j = 0; j < num_scores; ++j) row[j] = allow(j) ? row[j] : kBlocked;
      }
      std::fill(row + std::min(num_scores, attention::causal_end(args_, query)), row + num_scores, kBlocked);
    }
  }

  void average(std::int64_t batch, std::int64_t first, std::int64_t last, std::int64_t end, std::byte* scratch) const {
    const View<T, 2> mean = rows_of(weights_.template view<3>()[batch], first, last);
    const std::int64_t heads = args_.q.size(1);
    const auto head_weights = View<T, 2>::contiguous(reinterpret_cast<T*>(scratch), {last - first, end});
    weigh(batch, 0, first, keys_below(mean, end), scratch + scores_bytes_);
    for (std::int64_t head = 1; head < heads; ++head) {
      weigh(batch, head, first, head_weights, scratch + scores_bytes_);
      for (std::int64_t i = 0; i < mean.size(0) && end > 0; ++i) {
        T* sum = &mean(i, 0);
        const T* one = &head_weights(i, 0);
        for (std::int64_t j = 0; j < end; ++j) sum[j] += one[j];
      }
    }
    for (std::int64_t i = 0; i < mean.size(0); ++i) {
      T* sum = &mean(i, 0);
      for (std::int64_t j = 0; j < end; ++j) sum[j] /= static_cast<T>(heads);
    }
    clear_from(mean, end);
  }

  const kernels::Kernels<T>& kernel_;
  const kernels::AttentionArgs<T>& args_;
  std::shared_ptr<Executor> serial_;
  Tensor<T> weights_;
  bool averaged_ = false;
  std::size_t scores_bytes_ = 0, scratch_bytes_ = 0;
};

template <class T>
Refusal check_weights_call(const Tensor<T>& query, const Tensor<T>& key, const AttentionOptions<T>& options) {
  if (Refusal refusal = attention::check_shapes(kOp, query, key, {}, options.enable_gqa); !refusal.ok()) return refusal;
  if (Refusal refusal = attention::check_scale<T>(kOp, options.scale); !refusal.ok()) return refusal;
  if (Refusal refusal = attention::check_mask(options.attn_mask, attention::score_shape(query, key)); !refusal.ok()) {
    return refusal;
  }
  return attention::check_no_gradient(kOp, query.context(), {&query, &key, &options.attn_mask.bias});
}

}  // namespace

template <class T>
Tensor<T> attention_weights(const Tensor<T>& query, const Tensor<T>& key, const AttentionOptions<T>& options,
                            bool average, Where where) {
  require(check_weights_call(query, key, options));
  const Context& context = query.context();
  base::Launch launch(context, kOp, where);
  const auto shape = attention::score_shape(query, key);
  const Dims sizes = average ? Dims{shape.batch, shape.num_queries, shape.num_keys}
                             : Dims{shape.batch, shape.heads, shape.num_queries, shape.num_keys};
  const auto weights = Tensor<T>::uninitialized(context, sizes);
  launch.reads(query).reads(key);
  if (!options.attn_mask.allowed.empty()) launch.reads(options.attn_mask.allowed);
  if (!options.attn_mask.bias.empty()) launch.reads(options.attn_mask.bias);
  launch.writes(weights);
  if (weights.num_elements() == 0) return weights;

  const kernels::AttentionArgs<T> args = attention::make_arguments(query, key, options);
  const RowBlocks<T> blocks(kernels::kernels_for<T>(context.isa()), args, weights);
  if (context.trace() != nullptr) {
    kernels::AttentionArgs<T> counted = args;
    if (context.dry_run()) {
      // There are no mask values to look at: every pair that is not beyond the diagonal counts.
      counted.allow = {};
      counted.bias = {};
    }
    launch.flops(2.0 * static_cast<double>(query.size(3)) * attention::visible_pairs(counted), blocks.executed_flops());
  }
  Executor& executor = context.executor();
  const auto workers = static_cast<std::size_t>(executor.num_threads());
  const base::Scratch scratch(context, workers * blocks.scratch_bytes());
  launch.run([&] {
    executor.run(blocks.num_tasks(), [&](std::int64_t task, int worker) {
      blocks.run(task, scratch.data() + static_cast<std::size_t>(worker) * blocks.scratch_bytes());
    });
  });
  return weights;
}

#define ENNEAD_INSTANTIATE(T) \
  template Tensor<T> attention_weights(const Tensor<T>&, const Tensor<T>&, const AttentionOptions<T>&, bool, Where);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
