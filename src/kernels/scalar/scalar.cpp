// SPDX-License-Identifier: Apache-2.0
// Kernels in plain C++: they run everywhere and say what the vectorised ones must compute.
#include "kernels/scalar/attention.h"
#include "kernels/scalar/elementwise.h"
#include "kernels/scalar/module.h"
#include "kernels/scalar/peak.h"
#include "kernels/scalar/products.h"
#include "kernels/tables.h"

namespace ennead::kernels {

template <class T>
const Kernels<T>& scalar_kernels() {
  static constexpr Kernels<T> kTable = {
      .isa = Isa::scalar,
      .packed_bytes = scalar::packed_bytes<T>,
      .pack_weights = scalar::pack_weights<T>,
      .linear_scratch = scalar::linear_scratch<T>,
      .linear = scalar::linear<T>,
      .matmul_scratch = scalar::matmul_scratch<T>,
      .matmul = scalar::matmul<T>,
      .softmax = scalar::softmax<T>,
      .attention_scratch = scalar::attention_scratch<T>,
      .attention = scalar::attention<T>,
      .attention_executed_flops = scalar::attention_executed_flops<T>,
      .module_packed_bytes = scalar::module_packed_bytes<T>,
      .pack_module = scalar::pack_module<T>,
      .module_scratch = scalar::module_scratch<T>,
      .module = scalar::module<T>,
      .peak_loop = scalar::peak_loop<T>,
  };
  return kTable;
}

#define ENNEAD_INSTANTIATE(dtype, T, SumType) template const Kernels<T>& scalar_kernels();
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels
