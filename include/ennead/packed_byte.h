// SPDX-License-Identifier: Apache-2.0
// Packed weights.
#pragma once

#include <cstdint>

#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

/// A byte of packed weights: weights in the order in which the kernels of one instruction set read them. Only the
/// kernels that packed them know what the bytes mean.
enum class PackedByte : std::uint8_t {};

}  // namespace ennead
ENNEAD_API_END
