// SPDX-License-Identifier: Apache-2.0
// Variant 10 as one piece, as in simd/module/: a head at a time is projected, split into the layouts that
// attention reads, attended, and written token-major; the output projection follows.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx/module/module.cpp"
#include "kernels/amx/targets.h"
#include "kernels/amx/attention/forward/exact_rows-inl.h"
#include "kernels/amx/entries-inl.h"
#include "kernels/amx/gemm/block-inl.h"
#include "kernels/amx/module/head_work-inl.h"
#include "kernels/amx/module/packed_weights-inl.h"
#include "kernels/shared/module/plan-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {
namespace {

/// Attention of one head over rows [num_tokens][queries, keys, values], each filled up. The queries' weights hold scale
/// and log2(e) already.
AttentionArgs<float> head_attention(const ModuleArgs<float>& args, const float* rows, float* context) {
  const std::int64_t num_tokens = args.x.size(1), d_out = args.out.size(2), head_dim = d_out / args.num_heads;
  const std::int64_t columns = panels_of(head_dim) * kPanel;
  const auto projection = [&](std::int64_t which) {
    return View<const float, 4>{rows + which * columns, {1, 1, num_tokens, head_dim}, {0, 0, 3 * columns, 1}};
  };
  AttentionArgs<float> attention;
  attention.q = projection(0);
  attention.k = projection(1);
  attention.v = projection(2);
  attention.out = {context, {1, 1, num_tokens, head_dim}, {0, 0, d_out, 1}};
  attention.scale = static_cast<float>(1 / kLog2E<double>);
  attention.causal = args.causal;
  return attention;
}

/// What one worker owns.
struct ModuleWorker {
  ProjectedHead head;    ///< the one it is at
  float* rows;           ///< [kStepKeys][queries, keys, values]: some tokens projected, before they are split
  float* exact_rows;     ///< some tokens projected in plain float32
  BlockScratch product;  ///< for the output projection
  AttentionScratch block;
  /// For rows that are not tame, which is rare: all tokens projected, and attention in plain float32.
  float* all_rows;
  AttentionWorker<float> exact;

  static ModuleWorker take(std::byte*& memory, const ModuleArgs<float>& args) {
    const std::int64_t d_out = args.out.size(2), head_dim = d_out / args.num_heads;
    const std::int64_t columns = 3 * panels_of(head_dim) * kPanel;
    ModuleWorker worker;
    worker.head = ProjectedHead::take(memory, args.x.size(1), head_dim);
    worker.rows = take_scratch<float>(memory, kStepKeys * columns);
    worker.exact_rows = take_scratch<float>(memory, kExactRows * columns);
    worker.product = BlockScratch::take(memory, args.x.size(1), d_out, d_out);
    worker.block = AttentionScratch::take(memory, head_dim, head_dim);
    worker.all_rows = take_scratch<float>(memory, panels_of(args.x.size(1)) * kPanel * columns);
    worker.exact = AttentionWorker<float>::take(memory, head_attention(args, worker.all_rows, nullptr));
    return worker;
  }
};

std::size_t worker_bytes(const ModuleArgs<float>& args) {
  return scratch_taken([&](std::byte*& memory) { ModuleWorker::take(memory, args); });
}
std::size_t head_bytes(const ModuleArgs<float>& args) {
  return scratch_taken(
      [&](std::byte*& memory) { ProjectedHead::take(memory, args.x.size(1), args.out.size(2) / args.num_heads); });
}

/// One call of the module.
class ModuleCall {
 public:
  ModuleCall(const ModuleArgs<float>& args, int threads, std::byte* scratch)
      : args_(args),
        weights_{args.packed, args.x.size(2), args.out.size(2), args.num_heads},
        plan_(args, threads),
        out_cut_(args.x.size(1), weights_.d_out, weights_.d_out, threads, args.x.size(0)) {
    context_ = take_scratch<float>(scratch, args.out.num_elements());
    tokens_ = take_scratch<char>(scratch, args.x.size(0) * token_bytes(args));
    tame_ = take_scratch<char>(scratch, args.x.size(0) * panels_of(args.x.size(1)) * kPanel);
    workers_ = scratch;
    shared_ = scratch + static_cast<std::size_t>(threads) * worker_bytes(args);
  }

  /// Bytes of the split tokens of a batch item.
  static std::int64_t token_bytes(const ModuleArgs<float>& args) {
    return panels_of(args.x.size(1)) * panel_bytes(args.x.size(2));
  }

  void run(Executor& executor) const {
    const std::int64_t panels = panels_of(args_.x.size(1));
    executor.run(args_.x.size(0) * panels,
                 [&](std::int64_t item, int) HWY_ATTR { split_tokens(item / panels, item % panels * kPanel); });
    const std::int64_t num_tokens = args_.x.size(1), num_steps = ceil_div(num_tokens, kStepKeys);
    executor.run(plan_.shared * num_steps, [&](std::int64_t item, int index) HWY_ATTR {
      const TileRegisters registers;
      const std::int64_t first = item % num_steps * kStepKeys;
      project_tokens(plan_.whole() + item / num_steps, first, std::min(num_tokens, first + kStepKeys),
                     shared(item / num_steps), worker(index));
    });
    executor.run(plan_.whole() + plan_.shared * plan_.chunks, [&](std::int64_t item, int index) HWY_ATTR {
      const TileRegisters registers;
      const ModuleWorker own = worker(index);
      if (item < plan_.whole()) {
        project_tokens(item, 0, num_tokens, own.head, own);
        attend_blocks(item, 0, plan_.blocks, own.head, own);
      } else {
        const std::int64_t head = (item - plan_.whole()) / plan_.chunks, chunk = (item - plan_.whole()) % plan_.chunks;
        attend_blocks(plan_.whole() + head, plan_.blocks * chunk / plan_.chunks,
                      plan_.blocks * (chunk + 1) / plan_.chunks, shared(head), own);
      }
    });
    executor.run(args_.x.size(0) * out_cut_.tasks(), [&](std::int64_t item, int index) HWY_ATTR {
      const TileRegisters registers;
      project_output(item / out_cut_.tasks(), item % out_cut_.tasks(), worker(index));
    });
  }

 private:
  ModuleWorker worker(int index) const {
    std::byte* memory = workers_ + static_cast<std::size_t>(index) * worker_bytes(args_);
    return ModuleWorker::take(memory, args_);
  }
  ProjectedHead shared(std::int64_t index) const {
    std::byte* memory = shared_ + static_cast<std::size_t>(index) * head_bytes(args_);
    return ProjectedHead::take(memory, args_.x.size(1), weights_.head_dim());
  }

  /// Splits 32 tokens of a batch item: once for all heads.
  void split_tokens(std::int64_t batch, std::int64_t token) const {
    const View<const float, 2> x = args_.x[batch];
    const std::int64_t count = std::min(kPanel, args_.x.size(1) - token), d_in = args_.x.size(2);
    char* const to = tokens_ + batch * token_bytes(args_) + token / kPanel * panel_bytes(d_in);
    LineMaxima maxima;
    if (x.stride(1) == 1) {
      SplitWork({x.data + token * x.stride(0), x.stride(0), count, d_in, to}, 1, maxima).finish();
    } else {
      find_maxima(x, token, count, maxima);
      split_panel<Side::left>(x, token, count, 0, d_in, 1.0F, to);
    }
    for (std::int64_t i = 0; i < count; ++i) tame(batch, token)[i] = maxima.is_tame_line(i) ? 1 : 0;
  }
  char* tame(std::int64_t batch, std::int64_t token) const {
    return tame_ + batch * panels_of(args_.x.size(1)) * kPanel + token;
  }

  /// Projects tokens [token, token + count) of one (batch, head): rows of queries, keys and values. Meanwhile those of
  /// the tokens before are split.
  void project_rows(std::int64_t batch_head, std::int64_t token, std::int64_t count, float* rows, HeadRows* before,
                    const ModuleWorker& own) const {
    const std::int64_t width = 3 * weights_.head_columns();
    const PackedLayer layer = weights_.head_layer(batch_head % args_.num_heads);
    BlockArgs block;
    block.a = args_.x[batch_head / args_.num_heads];
    block.a.data += token * block.a.stride(0);
    block.row0 = 0;
    block.rows = count;
    block.b = layer.right;
    block.first_panel = 0;
    block.end_panel = layer.right.panels();
    block.start = layer.bias;
    block.c = {rows, {count, width}, {width, 1}};
    multiply_tokens(batch_head / args_.num_heads, token, block, before, own);
  }

  /// Panels of columns that fit into the second level cache meet one panel of tokens after the other.
  void multiply_tokens(std::int64_t batch, std::int64_t token, const BlockArgs& block, HeadRows* before,
                       const ModuleWorker& own) const {
    const std::int64_t panels = block.b.panels(), d_in = weights_.d_in, group = near_panels(d_in);
    const char* const tokens = tokens_ + batch * token_bytes(args_) + token / kPanel * panel_bytes(d_in);
    const char* const all_tame = tame(batch, token);
    for (std::int64_t first = 0; first < panels; first += group) {
      const std::int64_t end = std::min(panels, first + group);
      for (std::int64_t k0 = 0; k0 == 0 || k0 < d_in; k0 += kDepthChunk) {
        const std::int64_t depth = std::min(kDepthChunk, d_in - k0), turns = kProducts * depth_slices(depth);
        for (std::int64_t row = 0; row < block.rows; row += kPanel) {
          const char* const left = tokens + row / kPanel * panel_bytes(d_in) + k0 / kSliceDepth * kSliceBytes;
          const FetchWork fetch(left + panel_bytes(d_in), panel_bytes(depth), panel_bytes(depth), 1,
                                turns * (end - first));
          HeadWork work(fetch, before, turns * (end - first));
          for (std::int64_t panel = first; panel < end; ++panel) {
            const float* const c = block.c.data + row * block.c.stride(0) + panel * kPanel;
            multiply_split_rows(block, {row, left}, panel, k0, depth, c, work);
          }
          work.finish();
          before = nullptr;
        }
      }
    }
    multiply_wild_exactly(block, all_tame, own.exact_rows);
  }

  /// Projects tokens [first, end) of one (batch, head), whole steps of keys, and splits what comes out: at once, while
  /// the next tokens are projected, if the weights of a head stay in the second level cache.
  void project_tokens(std::int64_t batch_head, std::int64_t first, std::int64_t end, const ProjectedHead& to,
                      const ModuleWorker& own) const {
    const std::int64_t width = 3 * weights_.head_columns();
    if (3 * weights_.head_panels() > near_panels(weights_.d_in)) {
      for (std::int64_t token = first; token < end; token += kStepKeys) {
        const std::int64_t count = std::min(kStepKeys, end - token);
        project_rows(batch_head, token, count, own.rows, nullptr, own);
        for (std::int64_t row = 0; row < count; row += kPanel) {
          split_now({own.rows + row * width, token + row, std::min(kPanel, count - row), to}, own);
        }
      }
      return;
    }
    std::optional<HeadRows> before;
    for (std::int64_t token = first; token < end; token += kPanel) {
      const std::int64_t count = std::min(kPanel, end - token);
      float* const rows = own.rows + token / kPanel % 2 * kPanel * width;
      project_rows(batch_head, token, count, rows, before ? &*before : nullptr, own);
      if (before) before->finish(own.block.buffer);
      before.emplace(rows, token, count, to);
    }
    if (before) split_now(*before, own);
  }

  static void split_now(HeadRows rows, const ModuleWorker& own) {
    for (std::int64_t piece = 0; piece < rows.pieces(); ++piece) rows.piece(piece);
    rows.finish(own.block.buffer);
  }

  /// Attention of query blocks [begin, end), counted from the last one: late queries see the most keys.
  void attend_blocks(std::int64_t batch_head, std::int64_t begin, std::int64_t end, const ProjectedHead& from,
                     const ModuleWorker& own) const {
    const std::int64_t batch = batch_head / args_.num_heads, head = batch_head % args_.num_heads;
    const std::int64_t num_tokens = args_.x.size(1), head_dim = weights_.head_dim();
    const AttentionArgs<float> attention =
        head_attention(args_, own.all_rows, context_ + batch * num_tokens * weights_.d_out + head * head_dim);
    const HeadMask<float> mask{&attention, num_tokens, 0, 0};
    AttentionWorker<float> exact = own.exact;
    bool projected = false;
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t query = (plan_.blocks - 1 - block) * kBlockQueries;
      const std::int64_t rows = std::min<std::int64_t>(kBlockQueries, num_tokens - query);
      AttentionScratch scratch = own.block;
      scratch.queries = from.queries + query / kPanel * panel_bytes(head_dim);
      scratch.tame = from.query_tame + query;
      scratch.query_norms = from.query_norms + query;
      // The context is read when all heads are done: writing it past the caches spares reading its lines first (4%).
      BlockOutput<float> to = output_of(attention, mask, query);
      to.streams = reinterpret_cast<std::uintptr_t>(to.out) % kAlignment == 0 && to.row_stride % kSide == 0;
      if (!attend_block(mask, from.split, query, rows, scratch, to)) continue;
      if (!projected) {
        project_rows(batch_head, 0, num_tokens, own.all_rows, nullptr, own);
        exact.packed[0] = -1;
        projected = true;
      }
      attend_exactly(attention, mask, query, rows, scratch, exact);
    }
  }

  void project_output(std::int64_t batch, std::int64_t task, const ModuleWorker& own) const {
    const std::int64_t num_tokens = args_.x.size(1), d_out = weights_.d_out;
    const PackedLayer layer = weights_.out_layer();
    BlockArgs block;
    block.a = {context_ + batch * num_tokens * d_out, {num_tokens, d_out}, {d_out, 1}};
    block.b = layer.right;
    block.start = layer.bias;
    block.c = args_.out[batch];
    out_cut_.place(task, block);
    multiply_block(block, own.product);
  }

  const ModuleArgs<float>& args_;
  const PackedWeights weights_;
  const ModulePlan plan_;
  const ProductCut out_cut_;
  float* context_;
  char* tokens_;  ///< x split: per batch item panels of 32 tokens
  char* tame_;    ///< per batch item and token
  std::byte* workers_;
  std::byte* shared_;
};

}  // namespace

std::size_t module_scratch(const ModuleArgs<float>& args, int threads) {
  return scratch_bytes<float>(args.out.num_elements()) +
         scratch_bytes<char>(args.x.size(0) * ModuleCall::token_bytes(args)) +
         scratch_bytes<char>(args.x.size(0) * panels_of(args.x.size(1)) * kPanel) +
         static_cast<std::size_t>(threads) * worker_bytes(args) +
         static_cast<std::size_t>(ModulePlan(args, threads).shared) * head_bytes(args);
}

void module(Executor& executor, const ModuleArgs<float>& args, std::byte* scratch) {
  ModuleCall(args, executor.num_threads(), scratch).run(executor);
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX
