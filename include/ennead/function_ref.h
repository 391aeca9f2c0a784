// SPDX-License-Identifier: Apache-2.0
// A borrowed callable: two pointers, no allocation. It must not outlive what it was made from.
#pragma once

#include <type_traits>
#include <utility>

#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<Result, F&, Args...>)
      FunctionRef(F&& callable)  // NOLINT(google-explicit-constructor): meant to convert
      // The address also of a class with an operator& of its own, without <memory> in every file that includes this.
      : object_(const_cast<char*>(&reinterpret_cast<const volatile char&>(callable))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace ennead
ENNEAD_API_END
