// SPDX-License-Identifier: Apache-2.0
// What every variant is given: the same weights and the same x. And one pass over them.
#pragma once

#include <memory>
#include <vector>

#include "ennead/tape.h"
#include "ennead/variants.h"
#include "harness/work.h"

namespace ennead::harness {

/// The output of a pass, and after a backward one the gradients of x and of every weight in the
/// order of Weights.
template <class T>
struct PassResult {
  Tensor<T> output;
  std::vector<Tensor<T>> gradients;
};

template <class T>
struct Workload {
  Workload(const Work& work, const Context& context);

  /// Packs the weights of one variant. Null where packing belongs to the pass: in a training step
  /// the weights are new each time.
  std::unique_ptr<Variant<T>> plan(const VariantInfo& info) const;
  /// One pass. @param planned from plan()
  PassResult<T> run(const VariantInfo& info, Variant<T>* planned) const;

  Context context;
  Config config;
  Pass pass;
  Weights<T> weights;
  Tensor<T> x;
  Tensor<T> d_output;  ///< dLoss/d(output); empty when only the forward pass is asked for

 private:
  PassResult<T> train_step(const VariantInfo& info) const;
};

}  // namespace ennead::harness
