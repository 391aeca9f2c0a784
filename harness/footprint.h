// SPDX-License-Identifier: Apache-2.0
// The memory a pass takes, found by a dry run: nothing is computed and no memory is touched.
#pragma once

#include <cstddef>
#include <vector>

#include "ennead/variants.h"
#include "harness/work.h"

namespace ennead::harness {

struct Footprint {
  std::size_t peak_bytes = 0;  ///< in all, weights and x included
  std::size_t pass_bytes = 0;  ///< at the peak of a pass, beyond weights, packed ones too, and x
};

Footprint footprint(const VariantInfo& info, const Work& work);

/// Throws Error with the bytes needed when one of `chosen` would not fit this machine's memory.
void require_memory(const std::vector<const VariantInfo*>& chosen, const Work& work);

}  // namespace ennead::harness
