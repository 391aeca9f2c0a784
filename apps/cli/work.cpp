// SPDX-License-Identifier: Apache-2.0
#include "work.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "render/numbers.h"
#include "stand.h"

namespace ennead::cli {
namespace {

/// Stands for `threads` threads where only their number matters: scratch memory is sized by it.
class AbsentExecutor final : public Executor {
 public:
  explicit AbsentExecutor(int threads) : threads_(threads) {}
  int num_threads() const noexcept override { return threads_; }
  void run(std::int64_t, Task) override {}

 private:
  int threads_;
};

template <class T>
std::size_t dry_run(const VariantInfo& info, const Work& work) {
  Context::Options options;
  options.executor = std::make_shared<AbsentExecutor>(work.threads);
  options.isa = work.isa;
  options.arena.dry_run = true;
  const Context context(options);
  const Stand<T> stand(work, context);
  stand.run_once(info);
  return context.arena().peak_bytes();
}

}  // namespace

Config Work::config() const {
  Config config;
  config.d_in = shape.d_in;
  config.d_out = shape.d_out;
  config.context_length = shape.num_tokens;
  config.num_heads = shape.num_heads;
  config.qkv_bias = shape.qkv_bias;
  config.is_causal = shape.is_causal;
  return config;
}

Context Work::context(const Arena::Options& arena) const {
  Context::Options options;
  options.threads = threads;
  options.isa = isa;
  options.seed = seed;
  options.arena = arena;
  return Context(options);
}

std::string_view name(Pass pass) { return pass == Pass::forward ? "forward" : "forward-backward"; }

std::string_view name(Precision precision) { return precision == Precision::float32 ? "float32" : "float64"; }

double useful_flops(const Shape& shape, Pass pass) {
  const double batch = static_cast<double>(shape.batch), tokens = static_cast<double>(shape.num_tokens);
  const double d_in = static_cast<double>(shape.d_in), d_out = static_cast<double>(shape.d_out);
  const double projections = 2 * batch * tokens * (3 * d_in * d_out + d_out * d_out);
  const double pairs = shape.is_causal ? tokens * (tokens + 1) / 2 : tokens * tokens;  // (query, key)
  const double attention = 2 * 2 * batch * pairs * d_out;
  if (pass == Pass::forward) return projections + attention;
  // Backwards a projection is two products (for its input, for its weight), attention is five where
  // forward it is two: scores again, dV, dP, dQ, dK.
  return 3 * projections + 3.5 * attention;
}

std::size_t bytes_needed(const VariantInfo& info, const Work& work) {
  return work.precision == Precision::float32 ? dry_run<float>(info, work) : dry_run<double>(info, work);
}

void require_memory(const std::vector<const VariantInfo*>& chosen, const Work& work) {
  const Arena free_memory{Arena::Options{}};
  for (const VariantInfo* info : chosen) {
    const std::size_t bytes = bytes_needed(*info, work);
    if (const Refusal refusal = free_memory.check(bytes)) {
      raise(fmt::format("{} ({}) needs {} bytes ({}) for this shape: {}", info->number, info->slug, bytes,
                        render::bytes(static_cast<double>(bytes)), *refusal));
    }
  }
}

}  // namespace ennead::cli
