// SPDX-License-Identifier: Apache-2.0
// The types of numbers: which ones exist, which ones ennead computes with, and what their sums are kept in.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ennead/error.h"
#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

/// Types of numbers that a file may hold. Ennead computes with those of ENNEAD_FOR_EACH_ELEMENT_TYPE.
enum class DType { float16, bfloat16, float32, float64, boolean };

/// "float32"; "bool" for boolean.
std::string_view name(DType dtype);
/// The type of that name; nothing when there is none.
std::optional<DType> parse_dtype(std::string_view name);
std::size_t size_in_bytes(DType dtype);

/// The one list of types that tensors of numbers and kernels come in. Instantiations are made from it.
/// APPLY(dtype, element, sum): the name in DType, the type in memory, and the type in which sums, softmax
/// and the log-sum-exp are computed.
#define ENNEAD_FOR_EACH_ELEMENT_TYPE(APPLY) \
  APPLY(float32, float, float)              \
  APPLY(float64, double, double)

/// What the list says of T. Other types have no `dtype` here: IsElement is false for them.
template <class T>
struct ElementTraits {};

#define ENNEAD_ELEMENT_TRAITS(dtype_name, Element, SumType) \
  template <>                                               \
  struct ElementTraits<Element> {                           \
    using Sum = SumType;                                    \
    static constexpr DType dtype = DType::dtype_name;       \
  };
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_ELEMENT_TRAITS)
#undef ENNEAD_ELEMENT_TRAITS

/// True for the types of the list.
template <class T>
concept IsElement = requires {
  ElementTraits<std::remove_cv_t<T>>::dtype;
};

/// The type that sums of T's are kept in: float for float, double for double.
template <IsElement T>
using Sum = typename ElementTraits<std::remove_cv_t<T>>::Sum;

template <IsElement T>
inline constexpr DType kDType = ElementTraits<std::remove_cv_t<T>>::dtype;

/// Nothing when ennead computes with `dtype`, else a sentence that names the types it computes with.
Refusal check_dtype(DType dtype);

/// Calls f.operator()<T>() for the T that `dtype` names, so that a choice at run time becomes a type:
///
///     with_dtype(dtype, [&]<class T>() { return run<T>(work); });
///
/// Throws Error when check_dtype() refuses.
template <class F>
decltype(auto) with_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define ENNEAD_WITH_DTYPE(dtype_name, Element, SumType) \
  case DType::dtype_name:                               \
    return std::forward<F>(f).template operator()<Element>();
    ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_WITH_DTYPE)
#undef ENNEAD_WITH_DTYPE
    default:
      break;
  }
  raise(check_dtype(dtype).reason());
}

}  // namespace ennead
ENNEAD_API_END
