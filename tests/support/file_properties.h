// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes at all that somebody calls a file of tensors. The fuzzers look for
// bytes that break it; the tests replay those they have kept.
#pragma once

#include <string>

namespace ennead::test {

/// Reads `path` as .npy in every way there is. Either it is refused in one sentence, or what is read
/// can be written to `scratch` and read back to the bit.
/// @return what went wrong; empty when nothing did
std::string npy_problem(const std::string& path, const std::string& scratch);

/// The same for .safetensors: every tensor, and the file as weights of a module.
std::string safetensors_problem(const std::string& path, const std::string& scratch);

}  // namespace ennead::test
