// SPDX-License-Identifier: Apache-2.0
// Idea:         a head is one piece of work: its Q, K and V are made, used and forgotten in the cache.
// Changes from: 5, three calls that each pass through memory become one.
// Keeps:        the arithmetic.
// Materialises: the context (25.2 MB) and, a head at a time in each core, Q, K and V.
// Matmuls:      none of their own: all are inside the call.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class FusedModule final : public Variant<T> {
 public:
  static constexpr Supports kSupports{};

  FusedModule(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config), module_(config, weights) {}

 protected:
  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>&) const override {
    // [project] [split] [score] [mask] [softmax] [mix] [merge]
    return {multi_head_attention(x, module_), {}};
  }

 private:
  PackedModule<T> module_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(fused_module, FusedModule)
