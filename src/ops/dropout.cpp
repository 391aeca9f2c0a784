// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/launch.h"
#include "base/philox.h"
#include "ops/record.h"

namespace ennead {
namespace {

// y = x * keep / (1 - p); its own derivative with dy in x's place, since the draw depends on the
// position alone.
template <class T>
Tensor<T> drop(const Tensor<T>& x, const Dropout& options, std::uint64_t seed, Where where) {
  base::Launch launch(x.context(), "dropout", where);
  Tensor<T> y = Tensor<T>::uninitialized(x.context(), x.sizes());
  launch.reads(x).writes(y).flops(static_cast<double>(x.num_elements()));
  const bool has_heads = x.rank() == 4;
  const std::int64_t heads = has_heads ? x.size(1) : 1;
  const std::int64_t queries = x.size(-2);
  const std::int64_t keys = x.size(-1);
  const T scale = options.p < 1 ? static_cast<T>(1 / (1 - options.p)) : T{0};
  launch.run([&] {
    x.context().executor().run(x.size(0) * heads * queries, [&](std::int64_t row, int) {
      const std::int64_t query = row % queries;
      const std::int64_t head = row / queries % heads;
      const std::int64_t batch = row / queries / heads;
      const std::int64_t x_head = has_heads ? head * x.stride(1) : 0;
      const T* x_row = x.data() + batch * x.stride(0) + x_head + query * x.stride(-2);
      T* y_row = y.data() + row * keys;
      for (std::int64_t key = 0; key < keys; key += 4) {
        const base::PhiloxBlock words = base::philox(
            seed, {static_cast<std::uint32_t>(key / 4), static_cast<std::uint32_t>(query),
                   static_cast<std::uint32_t>(options.first_head + head), static_cast<std::uint32_t>(batch)});
        for (std::int64_t lane = 0; lane < std::min<std::int64_t>(4, keys - key); ++lane) {
          const bool keep = base::uniform(words[static_cast<std::size_t>(lane)]) >= options.p;
          y_row[key + lane] = keep ? x_row[(key + lane) * x.stride(-1)] * scale : T{0};
        }
      }
    });
  });
  return y;
}

}  // namespace

template <class T>
Tensor<T> dropout(const Tensor<T>& attn_weights, const Dropout& options, Where where) {
  require(ops::check_given("dropout", attn_weights));
  if (!(options.p >= 0 && options.p <= 1)) {
    raise(sentence("dropout: expected a probability in [0, 1], got ", options.p));
  }
  if (attn_weights.rank() != 3 && attn_weights.rank() != 4) {
    raise(sentence("dropout: expected [batch, heads, queries, keys] or [batch, queries, keys], got ",
                   to_string(attn_weights.sizes())));
  }
  if (!options.training || options.p == 0) return attn_weights;
  const Context& context = attn_weights.context();
  const std::uint64_t seed = context.seed();
  Tensor<T> y = drop(attn_weights, options, seed, where);
  if (Tape* tape = ops::recording_tape(context, attn_weights)) {
    tape->record<T>(y, {}, [input = attn_weights.variable, options, seed](Tape& t, const Tensor<T>& dy) {
      t.accumulate(input, drop(dy, options, seed, Where::current()));
    });
  }
  return y;
}

template Tensor<float> dropout(const Tensor<float>&, const Dropout&, Where);
template Tensor<double> dropout(const Tensor<double>&, const Dropout&, Where);

}  // namespace ennead
