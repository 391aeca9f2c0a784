// SPDX-License-Identifier: Apache-2.0
// The grid: which kernels are timed at which shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ennead/context.h"

namespace ennead::bench {

/// A kernel with its operands, ready to run again and again.
struct Work {
  std::function<void()> run;
  double useful_flops = 0;
  double executed_flops = 0;
  std::size_t scratch_bytes = 0;  ///< working memory beside operands and result
};

struct Case {
  std::string kernel, shape;
  bool quick = false;  ///< part of the short run
  std::function<Work(const Context&)> prepare;
};

template <class T>
std::vector<Case> cases();

}  // namespace ennead::bench
