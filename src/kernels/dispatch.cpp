// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels.h"
#include "kernels/tables.h"

namespace ennead::kernels {

template <class T>
const Kernels<T>& kernels_for(Isa isa) {
  switch (isa) {
    case Isa::scalar:
    case Isa::sse4:
    case Isa::avx2:
    case Isa::avx512:
    case Isa::neon:
    case Isa::wasm128:
      break;
  }
  return scalar_kernels<T>();
}

template const Kernels<float>& kernels_for(Isa isa);
template const Kernels<double>& kernels_for(Isa isa);

}  // namespace ennead::kernels
