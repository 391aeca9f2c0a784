// SPDX-License-Identifier: Apache-2.0
// Files of one module's weights, for the tests that read, move and refuse them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ennead/weight_files.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/files.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead::test {

inline constexpr std::int64_t kIn = 5, kOut = 12, kHeads = 4, kHeadDim = 3;

/// Any bits at all, NaN among them: moving must not read them as numbers.
inline RawTensor random_bits(DType dtype, const Dims& sizes, Random& random) {
  RawTensor tensor{dtype, sizes,
                   std::vector<std::byte>(static_cast<std::size_t>(sizes.product()) * size_in_bytes(dtype))};
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random.bits() & 0xff);
  return tensor;
}

inline RawTensor ordinary(const Dims& sizes, Random& random) {
  return to_raw(random_tensor<float>(poisoned_context(), sizes, random));
}

using Tensors = std::vector<NamedRawTensor>;

/// The split class, which is the canonical layout itself.
inline Tensors split_module(DType dtype, bool bias, Random& random, std::int64_t kv_heads = kHeads) {
  const std::int64_t rows = kv_heads * kHeadDim;
  Tensors tensors = {{"W_query.weight", random_bits(dtype, {kOut, kIn}, random)},
                     {"W_key.weight", random_bits(dtype, {rows, kIn}, random)},
                     {"W_value.weight", random_bits(dtype, {rows, kIn}, random)},
                     {"out_proj.weight", random_bits(dtype, {kOut, kOut}, random)},
                     {"out_proj.bias", random_bits(dtype, {kOut}, random)}};
  if (bias) {
    tensors.push_back({"W_query.bias", random_bits(dtype, {kOut}, random)});
    tensors.push_back({"W_key.bias", random_bits(dtype, {rows}, random)});
    tensors.push_back({"W_value.bias", random_bits(dtype, {rows}, random)});
  }
  return tensors;
}

/// `tensors` without the one of that name.
inline Tensors without(Tensors tensors, std::string_view name) {
  std::erase_if(tensors, [&](const NamedRawTensor& each) { return each.name == name; });
  return tensors;
}

class WeightFiles : public testing::Test {
 protected:
  std::string write(std::string_view file, const Tensors& tensors, const SafetensorsMetadata& metadata = {}) const {
    write_safetensors(dir / file, tensors, metadata);
    return dir / file;
  }
  testing::AssertionResult refused(const Tensors& tensors, const std::vector<std::string>& words,
                                   const WeightSource& source = {"", kHeads, {}}) const {
    const std::string path = write("refused", tensors);
    return refuses([&] { load_weights<float>(context, path, source); }, words);
  }

  TempDir dir;
  Context context = poisoned_context();
  Random random{5};
};

}  // namespace ennead::test
