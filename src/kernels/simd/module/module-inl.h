// SPDX-License-Identifier: Apache-2.0
// Variant 10 as one piece: each head is projected straight into the layouts that attention reads,
// attended, and written token-major; the output projection follows.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_MODULE_MODULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_MODULE_MODULE_INL_H_
#undef ENNEAD_KERNELS_SIMD_MODULE_MODULE_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_MODULE_MODULE_INL_H_
#endif
#include "kernels/shared/module/plan-inl.h"
#include "kernels/simd/attention/forward/block-inl.h"
#include "kernels/simd/gemm/block-inl.h"
#include "kernels/simd/module/packed_weights-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// Rows that a head's projections are applied to at a time: few, because the weights of a head stay in the second
/// level cache while x streams through it.
constexpr std::int64_t kHeadRows = 64;

/// A block of all panels of a layer, to be given its rows and results.
template <class T>
Block<T> layer_block(const PackedLinear<T>& layer) {
  Block<T> block;
  block.columns = layer.columns;
  block.panels = layer.panels;
  block.first_panel = 0;
  block.end_panel = PanelSplit<T>(layer.columns).panels();
  block.start = layer.bias;
  return block;
}

/// One head after projection, as attention reads it.
template <class T>
struct ProjectedHead {
  PackedHead<T> packed;
  T* values;   ///< memory of packed.values
  T* queries;  ///< [num_tokens][padded head_dim], scaled

  static ProjectedHead take(std::byte*& memory, const ModuleArgs<T>& args) {
    const std::int64_t head_dim = args.out.size(2) / args.num_heads, stride = padded_row<T>(head_dim);
    const std::int64_t num_steps = ceil_div(args.x.size(1), kStepKeys), keys = num_steps * kStepKeys;
    ProjectedHead head;
    head.packed.head_dim = head_dim;
    head.packed.value_stride = stride;
    head.packed.keys = take_scratch<T>(memory, keys * head_dim);
    head.values = take_scratch<T>(memory, keys * stride);
    head.packed.values = head.values;
    head.packed.key_norms = take_scratch<T>(memory, num_steps);
    head.packed.value_maxima = take_scratch<T>(memory, num_steps);
    head.packed.value_minima = take_scratch<T>(memory, num_steps);
    head.queries = take_scratch<T>(memory, args.x.size(1) * stride);
    return head;
  }
};

/// What one worker owns.
template <class T>
struct ModuleWorker {
  ProjectedHead<T> head;  ///< the one it is at
  T* keys;                ///< [kStepKeys][padded head_dim]: of one step, before they are packed
  T* packed_rows;         ///< of x, for multiply_chunks()
  T** targets;            ///< [3 * padded head_dim / lanes]: for Block
  AttentionScratch<T> block;

  static ModuleWorker take(std::byte*& memory, const ModuleArgs<T>& args) {
    const std::int64_t head_dim = args.out.size(2) / args.num_heads, columns = padded_row<T>(head_dim);
    const bool in_place = reads_in_place(args.x[0]);
    ModuleWorker worker;
    worker.head = ProjectedHead<T>::take(memory, args);
    worker.keys = take_scratch<T>(memory, kStepKeys * columns);
    worker.packed_rows = take_scratch<T>(memory, in_place ? 0 : kHeadRows * std::min(args.x.size(2), kDepthChunk));
    worker.targets = take_scratch<T*>(memory, 3 * columns / kLanes<T>);
    worker.block = AttentionScratch<T>::take(memory, 0, head_dim);
    return worker;
  }
};

/// Bytes that Part::take() takes.
template <class Part, class T>
std::size_t bytes_of(const ModuleArgs<T>& args) {
  return scratch_taken([&](std::byte*& memory) { Part::take(memory, args); });
}

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
      : args_(args),
        weights_{reinterpret_cast<const T*>(args.packed), args.x.size(2), args.out.size(2), args.num_heads},
        plan_(args, threads) {
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
    const std::int64_t first = step * kStepKeys, num_tokens = args_.x.size(1);
    const std::int64_t rows = std::min(kStepKeys, num_tokens - first), stride = to.packed.value_stride;
    T* const starts[] = {to.queries + first * stride, own.keys, to.values + first * stride};
    Block<T> block = layer_block(weights_.head_layer(head));
    block.targets = own.targets;
    block.row_stride = stride;
    for (std::int64_t row = 0; row < rows; row += kHeadRows) {
      for (std::int64_t which = 0, vector = 0; which < 3; ++which) {
        for (std::int64_t j = 0; j < stride; j += kLanes<T>) own.targets[vector++] = starts[which] + row * stride + j;
      }
      block.rows = std::min(kHeadRows, rows - row);
      block.fetch_panels = first + row == 0;
      const std::int64_t next = first + row + kHeadRows;
      multiply_chunks(block, args_.x[batch], first + row, next < num_tokens ? next : 0, own.packed_rows);
    }
    const View<const T, 2> keys{own.keys, {rows, weights_.head_dim()}, {stride, 1}};
    pack_keys(keys, T(1), step, to.packed);
    ValueRange<T> range;
    range.add(to.packed.values + first * stride, rows * stride);
    to.packed.value_maxima[step] = range.largest();
    to.packed.value_minima[step] = range.least();
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
      FetchQueue<T> fetches;
      fetches.add({to.out, rows, to.row_stride, head_dim});
      attend_block<T>(mask, from.packed, query, rows, queries, stride, own.block, to, fetches);
    }
  }

  void project_output(std::int64_t batch, std::int64_t row_block) const {
    const std::int64_t num_tokens = args_.x.size(1), d_out = weights_.d_out, block_rows = rows_per_block<T>(d_out);
    const std::int64_t first = row_block * block_rows;
    Block<T> block = layer_block(weights_.out_layer());
    block.rows = std::min(block_rows, num_tokens - first);
    block.c = args_.out.data + batch * args_.out.stride(0) + first * args_.out.stride(1);
    block.row_stride = args_.out.stride(1);
    block.column_stride = args_.out.stride(2);
    const View<const T, 2> context{context_ + batch * num_tokens * d_out, {num_tokens, d_out}, {d_out, 1}};
    multiply_chunks<T>(block, context, first, first + block_rows, nullptr);
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

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
