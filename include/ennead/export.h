// SPDX-License-Identifier: Apache-2.0
// What a shared library of ennead shows: what a public header declares between ENNEAD_API_BEGIN and
// ENNEAD_API_END. All else is hidden. A function template also says ENNEAD_API: g++ forgets the region when it meets
// the template's definition.
#pragma once

#if __cplusplus < 202002L
#error "ennead: expected C++20 or later (-std=c++20), got an earlier standard"
#endif

#if defined(__GNUC__)
#define ENNEAD_API_BEGIN _Pragma("GCC visibility push(default)")
#define ENNEAD_API_END _Pragma("GCC visibility pop")
#define ENNEAD_API __attribute__((visibility("default")))
#else
#define ENNEAD_API_BEGIN
#define ENNEAD_API_END
#define ENNEAD_API
#endif
