// SPDX-License-Identifier: Apache-2.0
// Tensors to and from the bytes of files, in pieces, so that no second copy stands in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ennead/function_ref.h"
#include "ennead/io.h"
#include "io/file.h"

namespace ennead::io {

/// Throws FileError(file: what) when there is a refusal.
void require_file(const std::string& path, const Refusal& what);
/// The same for refusals of InputFile and OutputFile, which name the file themselves.
void require_io(const Refusal& refusal);

/// Reads a whole array stored at `offset` into a new tensor.
template <class T>
Tensor<T> read_tensor(const Context& context, const InputFile& file, const StoredArray& info);

/// Calls consume(bytes) for one piece after the other of `tensor` in row-major order, encoded.
template <class T>
void for_each_piece(const Tensor<T>& tensor, FunctionRef<void(std::span<const std::byte>)> consume);

}  // namespace ennead::io
