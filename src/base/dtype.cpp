// SPDX-License-Identifier: Apache-2.0
#include "ennead/dtype.h"

#include <array>
#include <string>

namespace ennead {
namespace {

struct Named {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array kTypes{Named{DType::float16, "float16", 2}, Named{DType::bfloat16, "bfloat16", 2},
                            Named{DType::float32, "float32", 4}, Named{DType::float64, "float64", 8},
                            Named{DType::boolean, "bool", 1}};

constexpr const Named& entry(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)]; }

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_order(), "entry() looks a type up by its place in DType");

#define ENNEAD_CHECK_SIZE(dtype_name, Element, SumType) \
  static_assert(sizeof(Element) == entry(DType::dtype_name).bytes);
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_CHECK_SIZE)
#undef ENNEAD_CHECK_SIZE

}  // namespace

std::string_view name(DType dtype) { return entry(dtype).name; }
std::size_t size_in_bytes(DType dtype) { return entry(dtype).bytes; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Named& type : kTypes) {
    if (type.name == name) return type.dtype;
  }
  return {};
}

Refusal check_dtype(DType dtype) {
  std::string known;
  switch (dtype) {
#define ENNEAD_KNOWN(dtype_name, Element, SumType) case DType::dtype_name:
    ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_KNOWN)
#undef ENNEAD_KNOWN
    return {};
    default:
#define ENNEAD_NAME(dtype_name, Element, SumType) known += (known.empty() ? "" : ", ") + std::string(#dtype_name);
      ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_NAME)
#undef ENNEAD_NAME
      return sentence("dtype: expected one of ", known, ", got ", name(dtype));
  }
}

}  // namespace ennead
