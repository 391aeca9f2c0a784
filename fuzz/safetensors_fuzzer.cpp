// SPDX-License-Identifier: Apache-2.0
#include "fuzzer.h"
#include "support/file_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ennead::fuzz::try_bytes(data, size, ennead::test::safetensors_problem);
}
