// SPDX-License-Identifier: Apache-2.0
// Variant 10 as one piece: each head is projected straight into the layouts that attention reads,
// attended, and written token-major; the output projection follows.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_MODULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_MODULE_INL_H_
#undef ENNEAD_KERNELS_SIMD_MODULE_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_MODULE_INL_H_
#endif
#include "kernels/simd/attention_block-inl.h"
#include "kernels/simd/gemm-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// A packed linear layer: its panels, then its bias (zeros where there is none).
template <class T>
struct PackedLinear {
  const T* panels;
  const T* bias;
  std::int64_t depth, columns;

  static std::int64_t elements(std::int64_t depth, std::int64_t columns) {
    return panel_elements<T>(depth, columns) + padded_row<T>(columns);
  }
};

/// The packed module: Q, K and V of head 0, of head 1, ..., then the output projection.
template <class T>
struct PackedModuleWeights {
  const T* data;
  std::int64_t d_in, d_out, num_heads;

  std::int64_t head_dim() const { return d_out / num_heads; }
  std::int64_t head_elements() const { return PackedLinear<T>::elements(d_in, head_dim()); }
  /// Where the layer of `which` (0: Q, 1: K, 2: V) of `head` starts.
  std::int64_t head_offset(std::int64_t head, int which) const { return (3 * head + which) * head_elements(); }
  std::int64_t out_offset() const { return 3 * num_heads * head_elements(); }
  std::int64_t elements() const { return out_offset() + PackedLinear<T>::elements(d_out, d_out); }

  PackedLinear<T> layer(std::int64_t offset, std::int64_t depth, std::int64_t columns) const {
    return {data + offset, data + offset + panel_elements<T>(depth, columns), depth, columns};
  }
  PackedLinear<T> head_layer(std::int64_t head, int which) const {
    return layer(head_offset(head, which), d_in, head_dim());
  }
  PackedLinear<T> out_layer() const { return layer(out_offset(), d_out, d_out); }
};

/// Packs rows [row0, row0 + columns) of w [d_out, d_in] and their biases, times `factor`.
template <class T>
void pack_layer(const View<const T, 2>& w, const T* bias, std::int64_t row0, std::int64_t columns, T factor, T* to) {
  const View<const T, 2> transposed{w.data + row0 * w.stride(0), {w.size(1), columns}, {w.stride(1), w.stride(0)}};
  for (std::int64_t n = 0; n < columns; n += kPanelColumns<T>) {
    pack_panel(transposed, n, factor, to + n * w.size(1));
  }
  T* packed_bias = to + panel_elements<T>(w.size(1), columns);
  for (std::int64_t n = 0; n < padded_row<T>(columns); ++n) {
    packed_bias[n] = bias && n < columns ? factor * bias[row0 + n] : T(0);
  }
}

template <class T>
std::size_t module_packed_elements(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads) {
  return static_cast<std::size_t>(PackedModuleWeights<T>{nullptr, d_in, d_out, num_heads}.elements());
}

template <class T>
void pack_module(const ModuleWeights<T>& weights, T* packed) {
  const PackedModuleWeights<T> module{nullptr, weights.W_query.size(1), weights.out_proj.size(0), weights.num_heads};
  const std::int64_t head_dim = module.head_dim();
  // Scores come out as powers of two: scale and log2(e) are part of the query's weights.
  const T scale = static_cast<T>(1.4426950408889634 / std::sqrt(static_cast<double>(head_dim)));
  for (std::int64_t head = 0; head < weights.num_heads; ++head) {
    const std::int64_t row0 = head * head_dim;
    pack_layer(weights.W_query, weights.b_query, row0, head_dim, scale, packed + module.head_offset(head, 0));
    pack_layer(weights.W_key, weights.b_key, row0, head_dim, T(1), packed + module.head_offset(head, 1));
    pack_layer(weights.W_value, weights.b_value, row0, head_dim, T(1), packed + module.head_offset(head, 2));
  }
  pack_layer(weights.out_proj, weights.b_out, 0, module.d_out, T(1), packed + module.out_offset());
}

/// Rows that several layers are applied to, packed first when their columns do not lie side by side.
template <class T>
struct LayerRows {
  const T* data;
  std::int64_t rows, row_stride, column_stride;
  T* packed;  ///< memory for rows * min(depth, kDepthChunk) elements, where column_stride is not 1

  bool in_place() const { return column_stride == 1; }
};

/// y = x W^T + bias for one layer and a chunk of its depth; `add` goes on from an earlier chunk.
template <class T>
void apply_layer_chunk(const LayerRows<T>& x, const PackedLinear<T>& layer, std::int64_t k0, T* y,
                       std::int64_t row_stride, std::int64_t column_stride) {
  Block<T> block;
  block.rows = x.rows;
  block.columns = layer.columns;
  block.depth = std::min(kDepthChunk, layer.depth - k0);
  block.a = {x.data + k0 * x.column_stride, x.row_stride, x.column_stride};
  if (!x.in_place()) block.packed_rows = x.packed;
  block.panels = layer.panels;
  block.panel_depth = layer.depth;
  block.depth0 = k0;
  block.c = y;
  block.row_stride = row_stride;
  block.column_stride = column_stride;
  block.start = layer.bias;
  block.add = k0 > 0;
  multiply_block(block);
}

/// Where a layer's result goes.
template <class T>
struct LayerOutput {
  const PackedLinear<T>& layer;
  T* y;
  std::int64_t row_stride, column_stride;
};

/// Applies layers of the same depth to the same rows.
template <class T, std::size_t kCount>
void apply_layers(const LayerRows<T>& x, const LayerOutput<T> (&outputs)[kCount]) {
  std::int64_t k0 = 0;
  do {
    const std::int64_t depth = std::min(kDepthChunk, outputs[0].layer.depth - k0);
    if (!x.in_place()) {
      pack_rows(x.rows, depth, x.data + k0 * x.column_stride, x.row_stride, x.column_stride, x.packed);
    }
    for (const LayerOutput<T>& to : outputs) {
      apply_layer_chunk(x, to.layer, k0, to.y, to.row_stride, to.column_stride);
    }
    k0 += depth;
  } while (k0 < outputs[0].layer.depth);
}

/// Elements of LayerRows::packed for blocks of `rows`.
template <class T>
std::int64_t packed_rows_elements(std::int64_t rows, std::int64_t column_stride, std::int64_t depth) {
  return column_stride == 1 ? 0 : rows * std::min(depth, kDepthChunk);
}

/// One head after projection, as attention reads it.
template <class T>
struct ProjectedHead {
  PackedHead<T> packed;
  T* queries;  ///< [num_tokens][padded head_dim], scaled

  static ProjectedHead take(std::byte*& memory, const ModuleArgs<T>& args) {
    const std::int64_t head_dim = args.out.size(2) / args.num_heads, stride = padded_row<T>(head_dim);
    const std::int64_t num_steps = ceil_div(args.x.size(1), kStepKeys), keys = num_steps * kStepKeys;
    ProjectedHead head;
    head.packed.head_dim = head_dim;
    head.packed.value_stride = stride;
    head.packed.keys = take_scratch<T>(memory, keys * head_dim);
    head.packed.values = take_scratch<T>(memory, keys * stride);
    head.packed.key_norms = take_scratch<T>(memory, num_steps);
    head.packed.value_maxima = take_scratch<T>(memory, num_steps);
    head.queries = take_scratch<T>(memory, args.x.size(1) * stride);
    return head;
  }
};

/// What one worker owns.
template <class T>
struct ModuleWorker {
  ProjectedHead<T> head;  ///< the one it is at
  T* keys;                ///< [kStepKeys][head_dim]: of one step, before they are packed
  T* packed_rows;         ///< for LayerRows
  BlockScratch<T> block;

  static ModuleWorker take(std::byte*& memory, const ModuleArgs<T>& args) {
    const std::int64_t head_dim = args.out.size(2) / args.num_heads;
    ModuleWorker worker;
    worker.head = ProjectedHead<T>::take(memory, args);
    worker.keys = take_scratch<T>(memory, kStepKeys * head_dim);
    worker.packed_rows = take_scratch<T>(memory, packed_rows_elements<T>(kStepKeys, args.x.stride(2), args.x.size(2)));
    worker.block = BlockScratch<T>::take(memory, 0, head_dim);
    return worker;
  }
};

/// Bytes that Part::take() takes.
template <class Part, class T>
std::size_t bytes_of(const ModuleArgs<T>& args) {
  std::byte* memory = nullptr;
  Part::take(memory, args);
  return static_cast<std::size_t>(memory - static_cast<std::byte*>(nullptr));
}

/// The work of several threads: the last few heads are projected together first and kept, so that
/// their attention can be cut into chunks with which the workers finish together. All other heads
/// are whole pieces of work. Bits do not depend on the cuts.
struct ModulePlan {
  std::int64_t heads, shared, chunks, blocks;

  template <class T>
  ModulePlan(const ModuleArgs<T>& args, int threads)
      : heads(args.x.size(0) * args.num_heads),
        shared(threads > 1 ? std::min<std::int64_t>(heads, 2 * threads) : 0),
        blocks(ceil_div(args.x.size(1), kBlockQueries)) {
    chunks = shared == 0 ? 0 : std::clamp<std::int64_t>(16 * threads / shared, 1, std::max<std::int64_t>(1, blocks));
  }
  std::int64_t whole() const { return heads - shared; }
};

/// The context of all heads, [batch, num_tokens, d_out], then the workers, then the shared heads.
template <class T>
std::size_t module_scratch(const ModuleArgs<T>& args, int threads) {
  return scratch_bytes<T>(args.out.num_elements()) +
         static_cast<std::size_t>(threads) * bytes_of<ModuleWorker<T>>(args) +
         static_cast<std::size_t>(ModulePlan(args, threads).shared) * bytes_of<ProjectedHead<T>>(args);
}

/// One call of the module.
template <class T>
class ModuleCall {
 public:
  ModuleCall(const ModuleArgs<T>& args, int threads, std::byte* scratch)
      : args_(args), weights_{args.packed, args.x.size(2), args.out.size(2), args.num_heads}, plan_(args, threads) {
    context_ = take_scratch<T>(scratch, args.out.num_elements());
    workers_ = scratch;
    shared_ = scratch + static_cast<std::size_t>(threads) * bytes_of<ModuleWorker<T>>(args);
  }

  void run(Executor& executor) const {
    const std::int64_t num_steps = ceil_div(args_.x.size(1), kStepKeys);
    executor.run(plan_.shared * num_steps, [&](std::int64_t item, int index) HWY_ATTR {
      project_step(plan_.whole() + item / num_steps, item % num_steps, shared(item / num_steps), worker(index));
    });
    executor.run(plan_.whole() + plan_.shared * plan_.chunks, [&](std::int64_t item, int index) HWY_ATTR {
      const ModuleWorker<T> own = worker(index);
      if (item < plan_.whole()) {
        for (std::int64_t step = 0; step < num_steps; ++step) project_step(item, step, own.head, own);
        attend_blocks(item, 0, plan_.blocks, own.head, own);
      } else {
        const std::int64_t head = (item - plan_.whole()) / plan_.chunks, chunk = (item - plan_.whole()) % plan_.chunks;
        attend_blocks(plan_.whole() + head, plan_.blocks * chunk / plan_.chunks,
                      plan_.blocks * (chunk + 1) / plan_.chunks, shared(head), own);
      }
    });
    const std::int64_t row_blocks = ceil_div(args_.x.size(1), rows_per_block<T>(weights_.d_out));
    executor.run(args_.x.size(0) * row_blocks,
                 [&](std::int64_t item, int) HWY_ATTR { project_output(item / row_blocks, item % row_blocks); });
  }

 private:
  ModuleWorker<T> worker(int index) const {
    std::byte* memory = workers_ + static_cast<std::size_t>(index) * bytes_of<ModuleWorker<T>>(args_);
    return ModuleWorker<T>::take(memory, args_);
  }
  ProjectedHead<T> shared(std::int64_t index) const {
    std::byte* memory = shared_ + static_cast<std::size_t>(index) * bytes_of<ProjectedHead<T>>(args_);
    return ProjectedHead<T>::take(memory, args_);
  }

  /// Projects one step of tokens of one (batch, head): queries and values where attention reads them,
  /// keys through a small buffer into panels.
  void project_step(std::int64_t batch_head, std::int64_t step, const ProjectedHead<T>& to,
                    const ModuleWorker<T>& own) const {
    const std::int64_t batch = batch_head / args_.num_heads, head = batch_head % args_.num_heads;
    const std::int64_t first = step * kStepKeys, num_tokens = args_.x.size(1), head_dim = weights_.head_dim();
    const std::int64_t rows = std::min(kStepKeys, num_tokens - first), stride = to.packed.value_stride;
    T* queries = to.queries + first * stride;
    T* values = to.packed.values + first * stride;
    if (head_dim < stride) {
      std::fill_n(queries, rows * stride, T(0));
      std::fill_n(values, rows * stride, T(0));
    }
    const PackedLinear<T> query = weights_.head_layer(head, 0), key = weights_.head_layer(head, 1),
                          value = weights_.head_layer(head, 2);
    const LayerRows<T> x{args_.x.data + batch * args_.x.stride(0) + first * args_.x.stride(1), rows, args_.x.stride(1),
                         args_.x.stride(2), own.packed_rows};
    const LayerOutput<T> outputs[] = {
        {query, queries, stride, 1}, {key, own.keys, head_dim, 1}, {value, values, stride, 1}};
    apply_layers(x, outputs);
    const View<const T, 2> keys{own.keys, {rows, head_dim}, {head_dim, 1}};
    for (std::int64_t i = 0; i < rows; i += kPanelKeys<T>) pack_key_panel(keys, i, to.packed.panel(first + i));
    measure_step(to.packed, step, num_tokens);
  }

  /// Attention of query blocks [begin, end), counted from the last one: late queries see the most keys.
  void attend_blocks(std::int64_t batch_head, std::int64_t begin, std::int64_t end, const ProjectedHead<T>& from,
                     const ModuleWorker<T>& own) const {
    const std::int64_t batch = batch_head / args_.num_heads, head = batch_head % args_.num_heads;
    const std::int64_t num_tokens = args_.x.size(1), head_dim = weights_.head_dim(), stride = from.packed.value_stride;
    AttentionArgs<T> attention;
    attention.causal = args_.causal;
    const HeadMask<T> mask{&attention, num_tokens, batch, head};
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t query = (plan_.blocks - 1 - block) * kBlockQueries;
      const std::int64_t rows = std::min<std::int64_t>(kBlockQueries, num_tokens - query);
      const T* queries = from.queries + query * stride;
      for (std::int64_t i = 0; i < rows; ++i) own.block.query_norms[i] = row_norm(queries + i * stride, stride);
      const BlockOutput<T> to{context_ + (batch * num_tokens + query) * weights_.d_out + head * head_dim,
                              weights_.d_out,
                              1,
                              head_dim,
                              nullptr,
                              0};
      attend_block<T>(mask, from.packed, query, rows, queries, stride, own.block, to);
    }
  }

  void project_output(std::int64_t batch, std::int64_t row_block) const {
    const std::int64_t num_tokens = args_.x.size(1), d_out = weights_.d_out, block_rows = rows_per_block<T>(d_out);
    const std::int64_t first = row_block * block_rows;
    const PackedLinear<T> layer = weights_.out_layer();
    const LayerRows<T> x{context_ + (batch * num_tokens + first) * d_out, std::min(block_rows, num_tokens - first),
                         d_out, 1, nullptr};
    const LayerOutput<T> outputs[] = {{layer,
                                       args_.out.data + batch * args_.out.stride(0) + first * args_.out.stride(1),
                                       args_.out.stride(1), args_.out.stride(2)}};
    apply_layers(x, outputs);
  }

  const ModuleArgs<T>& args_;
  const PackedModuleWeights<T> weights_;
  const ModulePlan plan_;
  T* context_;
  std::byte* workers_;
  std::byte* shared_;
};

template <class T>
void module(Executor& executor, const ModuleArgs<T>& args, std::byte* scratch) {
  ModuleCall<T>(args, executor.num_threads(), scratch).run(executor);
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
