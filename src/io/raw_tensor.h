// SPDX-License-Identifier: Apache-2.0
// Moves on tensors as files store them: bits are moved, never computed with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ennead/io.h"

namespace ennead::io {

/// [rows, columns] -> [columns, rows]
RawTensor transposed(const RawTensor& matrix);

/// One after the other along the first axis; all of one type and with the same further axes.
RawTensor concatenated(std::span<const RawTensor> tensors);

/// `count` parts of equal size along the first axis, which `count` divides.
std::vector<RawTensor> split(const RawTensor& tensor, std::int64_t count);

}  // namespace ennead::io
