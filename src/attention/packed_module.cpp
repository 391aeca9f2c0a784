// SPDX-License-Identifier: Apache-2.0
// The module as one call, over the kernel that keeps a head in cache.
#include "attention/arguments.h"
#include "base/check_view.h"
#include "base/launch.h"
#include "base/scratch.h"
#include "ennead/attention.h"

namespace ennead {
namespace {

constexpr const char* kOp = "multi_head_attention";

/// Weights laid out as pack_module() takes them; keeps the copies it had to make.
template <class T>
struct PlainWeights {
  Tensor<T> b_query, b_key, b_value, b_out;
  kernels::ModuleWeights<T> views;

  PlainWeights(const Config& config, const Weights<T>& weights)
      : b_query(plain(weights.b_query)),
        b_key(plain(weights.b_key)),
        b_value(plain(weights.b_value)),
        b_out(plain(weights.out_proj_bias)) {
    views.W_query = weights.W_query.template view<2>();
    views.W_key = weights.W_key.template view<2>();
    views.W_value = weights.W_value.template view<2>();
    views.out_proj = weights.out_proj_weight.template view<2>();
    views.b_query = b_query.data();
    views.b_key = b_key.data();
    views.b_value = b_value.data();
    views.b_out = b_out.data();
    views.num_heads = config.num_heads;
  }

 private:
  static Tensor<T> plain(const Tensor<T>& bias) { return bias.empty() ? bias : contiguous(bias); }
};

Refusal check_input(const Dims& x, const Config& config) {
  if (x.rank() == 3 && x[2] == config.d_in) return {};
  return sentence(kOp, ": expected x [batch, num_tokens, ", config.d_in, "], got ", to_string(x));
}

template <class T>
kernels::ModuleArgs<T> make_arguments(View<const T, 3> x, const PackedModule<T>& module, View<T, 3> out) {
  kernels::ModuleArgs<T> args;
  args.x = x;
  args.packed = module.weights().data();
  args.out = out;
  args.num_heads = module.config().num_heads;
  args.causal = module.config().is_causal;
  return args;
}

/// Packed weights fit one instruction set: it is the module's, whatever x was made with.
template <class T>
const kernels::Kernels<T>& kernels_of(const PackedModule<T>& module) {
  return kernels::kernels_for<T>(module.context().isa());
}

/// The projections and, for the scores that are needed and those that are computed, both products of
/// attention.
template <class T>
void report_flops(base::Launch& launch, const kernels::Kernels<T>& kernel, const kernels::ModuleArgs<T>& args) {
  const std::int64_t batch = args.x.size(0), num_tokens = args.x.size(1), d_out = args.out.size(2);
  kernels::AttentionArgs<T> core;
  core.q.sizes = {batch, args.num_heads, num_tokens, d_out / args.num_heads};
  core.k.sizes = core.v.sizes = core.out.sizes = core.q.sizes;
  core.causal = args.causal;
  const double projections = 2.0 * static_cast<double>(batch * num_tokens) * static_cast<double>(d_out) *
                             static_cast<double>(3 * args.x.size(2) + d_out);
  const double pair = 4.0 * static_cast<double>(d_out / args.num_heads);
  launch.flops(projections + pair * attention::visible_pairs(core),
               projections + kernel.attention_executed_flops(core));
}

}  // namespace

template <class T>
PackedModule<T>::PackedModule(const Config& config, const Weights<T>& weights) : config_(config) {
  require(check_config(config));
  require(check_weights(config, weights));
  const Context& context = weights.W_query.context();
  require(attention::check_no_gradient(
      kOp, context,
      {&weights.W_query, &weights.W_key, &weights.W_value, &weights.b_query, &weights.b_key, &weights.b_value,
       &weights.out_proj_weight, &weights.out_proj_bias}));
  const kernels::Kernels<T>& kernel = kernels::kernels_for<T>(context.isa());
  const std::size_t bytes = kernel.module_packed_bytes(config.d_in, config.d_out, config.num_heads);
  packed_ = Tensor<PackedByte>::uninitialized(context, {static_cast<std::int64_t>(bytes)});
  const PlainWeights<T> plain(config, weights);
  if (!context.dry_run()) kernel.pack_module(plain.views, packed_.data());
}

template <class T>
Refusal check_multi_head_attention(const Tensor<T>& x, const PackedModule<T>& module) {
  if (x.empty()) return sentence(kOp, ": expected x, got an empty handle");
  if (Refusal refusal = check_input(x.sizes(), module.config()); !refusal.ok()) return refusal;
  return attention::check_no_gradient(kOp, x.context(), {&x});
}

template <class T>
Refusal check_multi_head_attention(std::type_identity_t<View<const T, 3>> x, const PackedModule<T>& module,
                                   std::type_identity_t<View<T, 3>> out) {
  const base::Extent in = base::extent_of(x), to = base::extent_of(out);
  if (Refusal refusal = base::check_readable(kOp, "x", in); !refusal.ok()) return refusal;
  if (Refusal refusal = check_input(in.sizes, module.config()); !refusal.ok()) return refusal;
  const Dims wanted{x.size(0), x.size(1), module.config().d_out};
  if (!(to.sizes == wanted)) {
    return sentence(kOp, ": expected out ", to_string(wanted), ", got ", to_string(to.sizes));
  }
  return base::check_writable(kOp, "out", to);
}

template <class T>
Tensor<T> multi_head_attention(const Tensor<T>& x, const PackedModule<T>& module, Where where) {
  require(check_multi_head_attention(x, module));
  const Config& config = module.config();
  const Context& context = x.context();

  base::Launch launch(context, kOp, where);
  const auto out = Tensor<T>::uninitialized(context, {x.size(0), x.size(1), config.d_out});
  launch.reads(x).reads(module.weights()).writes(out);
  if (x.size(0) * x.size(1) == 0) return out;
  const auto args = make_arguments<T>(x.template view<3>(), module, out.template view<3>());
  const kernels::Kernels<T>& kernel = kernels_of(module);
  if (context.trace() != nullptr) report_flops(launch, kernel, args);
  Executor& executor = context.executor();
  const base::Scratch scratch(context, kernel.module_scratch(args, executor.num_threads()));
  launch.run([&] { kernel.module(executor, args, scratch.data()); });
  return out;
}

template <class T>
void multi_head_attention(std::type_identity_t<View<const T, 3>> x, const PackedModule<T>& module,
                          std::type_identity_t<View<T, 3>> out) {
  require(check_multi_head_attention<T>(x, module, out));
  if (x.size(0) * x.size(1) == 0) return;
  const auto args = make_arguments<T>(x, module, out);
  const kernels::Kernels<T>& kernel = kernels_of(module);
  Executor& executor = module.context().executor();
  const base::Scratch scratch(module.context(), kernel.module_scratch(args, executor.num_threads()));
  if (!module.context().dry_run()) kernel.module(executor, args, scratch.data());
}

#define ENNEAD_INSTANTIATE(T)                                                                           \
  template class PackedModule<T>;                                                                       \
  template Refusal check_multi_head_attention(const Tensor<T>&, const PackedModule<T>&);                \
  template Refusal check_multi_head_attention<T>(View<const T, 3>, const PackedModule<T>&, View<T, 3>); \
  template Tensor<T> multi_head_attention(const Tensor<T>&, const PackedModule<T>&, Where);             \
  template void multi_head_attention<T>(View<const T, 3>, const PackedModule<T>&, View<T, 3>);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
