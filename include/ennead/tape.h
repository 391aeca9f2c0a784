// SPDX-License-Identifier: Apache-2.0
// Gradients: operations write down how to run themselves backwards; backward() replays that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "ennead/export.h"
#include "ennead/tensor.h"

ENNEAD_API_BEGIN
namespace ennead {

/// A value a tape knows. Tensors point to it; the tape clears `tape` when it goes.
struct TapeVariable {
  Tape* tape = nullptr;
  std::variant<std::monostate, Tensor<float>, Tensor<double>> gradient;
};

/// A record of operations. Set it in a Context, watch() the leaves, run, then backward().
///
///     Tape tape;
///     context.set_tape(&tape);
///     tape.watch(x);
///     auto variant = make_variant<float>(info, config, weights);  // weights watched before
///     auto y = (*variant)(x);
///     tape.backward(y, dy);
///     auto dx = tape.gradient(x);
class Tape {
 public:
  Tape() = default;
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Asks for the gradient of `x`. Handles copied from x afterwards name the same value.
  template <class T>
  void watch(Tensor<T>& x);

  template <class T>
  bool tracks(const Tensor<T>& x) const {
    return x.variable != nullptr && x.variable->tape == this;
  }

  /// Replays the record from `y` with dLoss/dy = `dy` and leaves the gradients with the watched
  /// tensors. A record is replayed once; a second call throws Error (no second derivatives).
  template <class T>
  void backward(const Tensor<T>& y, const Tensor<T>& dy);

  /// dLoss/dx after backward(), row-major; zeros when y does not depend on x. Throws Error if x is not watched.
  template <class T>
  Tensor<T> gradient(const Tensor<T>& x) const;

  // -- for operations -------------------------------------------------------------------------

  /// Records one operation: `pull(dy)` must accumulate() into the inputs' variables. Gives `y` a
  /// new variable. `saved` keeps the storages whose values `pull` reads.
  template <class T>
  void record(Tensor<T>& y, std::vector<std::shared_ptr<Storage>> saved,
              std::function<void(Tape&, const Tensor<T>& dy)> pull);

  /// Adds `gradient` to what has come for `variable`; null variables are ignored.
  template <class T>
  void accumulate(const std::shared_ptr<TapeVariable>& variable, const Tensor<T>& gradient);

 private:
  struct Node {
    std::shared_ptr<TapeVariable> output;
    std::vector<std::shared_ptr<Storage>> saved;
    std::function<void(Tape&)> pull;
  };
  std::vector<Node> nodes_;
  std::vector<std::shared_ptr<TapeVariable>> leaves_;
  bool replayed_ = false;
};

}  // namespace ennead
ENNEAD_API_END
