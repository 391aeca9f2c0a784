// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <array>
#include <cmath>

#include "ennead/tensor.h"
#include "ennead/variants.h"
#include "kernels/kernels.h"

namespace ennead::bench {
namespace {

std::string joined(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text;
}

/// Contiguous values in [-1, 1), the same on every machine.
template <class T>
Tensor<T> operand(const Context& context, const Dims& sizes, std::uint64_t seed) {
  auto tensor = Tensor<T>::uninitialized(context, sizes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tensor.data()[i] = static_cast<T>(static_cast<double>(state >> 32) * 0x1p-31 - 1.0);
  }
  return tensor;
}

/// Scratch as a tensor: it stays as long as the work holds it.
Tensor<float> scratch_for(const Context& context, std::size_t bytes) {
  return Tensor<float>::full(context, {static_cast<std::int64_t>(bytes / sizeof(float)) + 16}, 0.0f);
}

std::byte* bytes_of(const Tensor<float>& scratch) { return reinterpret_cast<std::byte*>(scratch.data()); }

template <class T>
Case linear_case(std::int64_t m, std::int64_t n, std::int64_t k, bool quick = false) {
  return {"linear", joined({m, n, k}), quick, [=](const Context& context) {
            const auto& kernels = kernels::kernels_for<T>(context.isa());
            const auto x = operand<T>(context, {m, k}, 1), w = operand<T>(context, {n, k}, 2);
            const auto bias = operand<T>(context, {n}, 3), y = Tensor<T>::full(context, {m, n}, T(0));
            const auto packed =
                Tensor<PackedByte>::uninitialized(context, {static_cast<std::int64_t>(kernels.packed_bytes(n, k))});
            kernels.pack_weights(w.template view<2>(), packed.data());
            const kernels::LinearArgs<T> args{x.template view<2>(), packed.data(), bias.data(), y.template view<2>()};
            Work work;
            work.scratch_bytes = kernels.linear_scratch(args, context.executor().num_threads());
            const auto scratch = scratch_for(context, work.scratch_bytes);
            work.useful_flops = work.executed_flops =
                2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
            // Captured tensors keep what `args` points at.
            work.run = [=, &kernels] {
              static_cast<void>(x), static_cast<void>(bias), static_cast<void>(y), static_cast<void>(packed);
              kernels.linear(context.executor(), args, bytes_of(scratch));
            };
            return work;
          }};
}

/// Which operands of a batched product are read across their rows in memory.
enum class Transposed { none, left, right };

template <class T>
Case matmul_case(const char* name, Dims batch, std::int64_t m, std::int64_t n, std::int64_t k, Transposed transposed,
                 bool quick = false) {
  return {name, joined({batch[0], batch[1], m, n, k}), quick, [=](const Context& context) {
            const auto& kernels = kernels::kernels_for<T>(context.isa());
            const bool left = transposed == Transposed::left, right = transposed == Transposed::right;
            const Dims a_sizes = left ? Dims{batch[0], batch[1], k, m} : Dims{batch[0], batch[1], m, k};
            const Dims b_sizes = right ? Dims{batch[0], batch[1], n, k} : Dims{batch[0], batch[1], k, n};
            const auto a = operand<T>(context, a_sizes, 1), b = operand<T>(context, b_sizes, 2);
            const auto c = Tensor<T>::full(context, {batch[0], batch[1], m, n}, T(0));
            const auto view = [](const Tensor<T>& tensor, bool swap) {
              View<const T, 4> all = tensor.template view<4>();
              if (swap) {
                std::swap(all.sizes[2], all.sizes[3]);
                std::swap(all.strides[2], all.strides[3]);
              }
              return all;
            };
            const kernels::MatmulArgs<T> args{view(a, left), view(b, right), c.template view<4>()};
            Work work;
            work.scratch_bytes = kernels.matmul_scratch(args, context.executor().num_threads());
            const auto scratch = scratch_for(context, work.scratch_bytes);
            work.useful_flops = work.executed_flops =
                2.0 * static_cast<double>(batch[0] * batch[1] * m) * static_cast<double>(n) * static_cast<double>(k);
            work.run = [=, &kernels] {
              static_cast<void>(a), static_cast<void>(b), static_cast<void>(c);
              kernels.matmul(context.executor(), args, bytes_of(scratch));
            };
            return work;
          }};
}

/// Counted as one FLOP per element: the column of the share says nothing, the time does.
template <class T>
Case softmax_case(std::int64_t rows, std::int64_t n, bool quick = false) {
  return {"softmax", joined({rows, n}), quick, [=](const Context& context) {
            const auto& kernels = kernels::kernels_for<T>(context.isa());
            const auto x = operand<T>(context, {rows, n}, 1), y = Tensor<T>::full(context, {rows, n}, T(0));
            const kernels::SoftmaxArgs<T> args{x.template view<2>(), y.template view<2>()};
            Work work;
            work.useful_flops = work.executed_flops = static_cast<double>(rows) * static_cast<double>(n);
            work.run = [=, &kernels] {
              static_cast<void>(x), static_cast<void>(y);
              kernels.softmax(context.executor(), args);
            };
            return work;
          }};
}

/// Of the scores that a causal mask leaves.
double attention_flops(std::int64_t items, std::int64_t tokens, std::int64_t head_dim) {
  return 4.0 * static_cast<double>(items) * static_cast<double>(head_dim) * static_cast<double>(tokens) *
         static_cast<double>(tokens + 1) / 2;
}

template <class T>
Case attention_case(std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_dim,
                    bool quick = false) {
  return {"attention", joined({batch, heads, tokens, head_dim}), quick, [=](const Context& context) {
            const auto& kernels = kernels::kernels_for<T>(context.isa());
            const Dims sizes{batch, heads, tokens, head_dim};
            const auto q = operand<T>(context, sizes, 1), k = operand<T>(context, sizes, 2);
            const auto v = operand<T>(context, sizes, 3), out = Tensor<T>::full(context, sizes, T(0));
            kernels::AttentionArgs<T> args;
            args.q = q.template view<4>();
            args.k = k.template view<4>();
            args.v = v.template view<4>();
            args.out = out.template view<4>();
            args.scale = static_cast<T>(1 / std::sqrt(static_cast<double>(head_dim)));
            args.causal = true;
            Work work;
            work.scratch_bytes = kernels.attention_scratch(args, context.executor().num_threads());
            const auto scratch = scratch_for(context, work.scratch_bytes);
            work.useful_flops = attention_flops(batch * heads, tokens, head_dim);
            work.executed_flops = kernels.attention_executed_flops(args);
            work.run = [=, &kernels] {
              static_cast<void>(q), static_cast<void>(k), static_cast<void>(v), static_cast<void>(out);
              kernels.attention(context.executor(), args, bytes_of(scratch));
            };
            return work;
          }};
}

template <class T>
Case module_case(std::int64_t batch, std::int64_t tokens, std::int64_t width, std::int64_t heads, bool quick = false) {
  return {"module", joined({batch, tokens, width, heads}), quick, [=](const Context& context) {
            const auto& kernels = kernels::kernels_for<T>(context.isa());
            Config config;
            config.d_in = config.d_out = width;
            config.num_heads = heads;
            const auto weights = Weights<T>::random(context, config, 1);
            const auto packed = Tensor<PackedByte>::uninitialized(
                context, {static_cast<std::int64_t>(kernels.module_packed_bytes(width, width, heads))});
            kernels::ModuleWeights<T> parts;
            parts.W_query = weights.W_query.template view<2>();
            parts.W_key = weights.W_key.template view<2>();
            parts.W_value = weights.W_value.template view<2>();
            parts.out_proj = weights.out_proj_weight.template view<2>();
            parts.num_heads = heads;
            kernels.pack_module(parts, packed.data());
            const auto x = operand<T>(context, {batch, tokens, width}, 2);
            const auto out = Tensor<T>::full(context, {batch, tokens, width}, T(0));
            kernels::ModuleArgs<T> args;
            args.x = x.template view<3>();
            args.packed = packed.data();
            args.out = out.template view<3>();
            args.num_heads = heads;
            Work work;
            work.scratch_bytes = kernels.module_scratch(args, context.executor().num_threads());
            const auto scratch = scratch_for(context, work.scratch_bytes);
            work.useful_flops = work.executed_flops =
                8.0 * static_cast<double>(batch * tokens) * static_cast<double>(width) * static_cast<double>(width) +
                attention_flops(batch * heads, tokens, width / heads);
            work.run = [=, &kernels] {
              static_cast<void>(x), static_cast<void>(packed), static_cast<void>(out);
              kernels.module(context.executor(), args, bytes_of(scratch));
            };
            return work;
          }};
}

}  // namespace

template <class T>
std::vector<Case> cases() {
  std::vector<Case> all = {
      linear_case<T>(8192, 2304, 768, true),
      linear_case<T>(8192, 768, 768, true),
      linear_case<T>(8192, 64, 768),
      linear_case<T>(1024, 768, 3072),
      linear_case<T>(1000, 1001, 999),
      linear_case<T>(127, 129, 131),
      linear_case<T>(64, 2304, 768),
      linear_case<T>(13, 768, 768),
      linear_case<T>(1, 2304, 768),
      matmul_case<T>("matmul scores", {8, 12}, 1024, 1024, 64, Transposed::right),
      matmul_case<T>("matmul scores", {1, 12}, 1024, 1024, 64, Transposed::right, true),
      matmul_case<T>("matmul scores", {64, 12}, 128, 128, 64, Transposed::right),
      matmul_case<T>("matmul values", {8, 12}, 1024, 64, 1024, Transposed::none),
      matmul_case<T>("matmul values", {1, 12}, 1024, 64, 1024, Transposed::none, true),
      matmul_case<T>("matmul values", {64, 12}, 128, 64, 128, Transposed::none),
      matmul_case<T>("matmul weight gradient", {1, 1}, 768, 768, 8192, Transposed::left, true),
      matmul_case<T>("matmul odd", {3, 5}, 101, 103, 107, Transposed::none),
      softmax_case<T>(12 * 1024, 1024, true),
      softmax_case<T>(8192, 77),
  };
  for (const std::int64_t tokens : {256, 1024, 4096}) {
    all.push_back(attention_case<T>(1, 12288 / tokens, tokens, 64, tokens == 1024));
  }
  for (const std::int64_t tokens : {16384, 32768, 65536}) all.push_back(attention_case<T>(1, 1, tokens, 64));
  all.push_back(attention_case<T>(1, 6, 2048, 128));
  for (const std::int64_t head_dim : {32, 80, 96}) all.push_back(attention_case<T>(1, 12, 1024, head_dim));
  all.push_back(module_case<T>(8, 1024, 768, 12, true));
  all.push_back(module_case<T>(64, 128, 768, 12));
  all.push_back(module_case<T>(1, 16384, 768, 12));
  return all;
}

template std::vector<Case> cases<float>();
template std::vector<Case> cases<double>();

}  // namespace ennead::bench
