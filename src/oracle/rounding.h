// SPDX-License-Identifier: Apache-2.0
// The condition of a row: how far the module's output may move when a type of fewer digits than float64 rounds
// on the way. Large scores make it large: two keys whose scores differ by less than the scores are rounded by
// change places, and no computation in that type can tell which of them is right.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ennead::oracle {

struct Module;

/// One query of one head. Rows of k and v start `stride` numbers apart.
struct AttendedRow {
  std::int64_t row = 0, head = 0, num_keys = 0, head_dim = 0, stride = 0;
  double scale = 1;
  const double *q = nullptr, *k = nullptr, *v = nullptr;
  const double* scores = nullptr;  ///< [num_keys], as they go into the softmax; what is not seen: -inf
  double lse = 0;                  ///< log(sum of exp(scores))
  const double* out = nullptr;     ///< [head_dim]
};

/// Follows the roundings of one batch item from x to the output. Each rounding is `epsilon` times the size of
/// what is summed, with a sign of its own, so errors of many terms add up as the root of the sum of their
/// squares. To first order everywhere but in the softmax, where scores that are rounded by more than 1 may move a
/// weight anywhere between 0 and 1.
class Rounding {
 public:
  /// @param x [num_tokens, d_in], one batch item
  /// @param epsilon std::numeric_limits<T>::epsilon() of the type that is judged
  Rounding(const Module& module, std::span<const double> x, double epsilon);

  /// How far `at.out` may move: writes head_dim numbers.
  void attended(const AttendedRow& at, double* moves) const;
  /// How far a row of the module's output may move: the largest over its columns.
  /// @param context, moves [d_out]: the merged heads, and what attended() says of each
  double projected(const double* context, const double* moves) const;

 private:
  /// The size of what is summed for each output of a projection: |weights| * |inputs| + |bias|.
  struct Outputs {
    std::vector<double> norms, biases;
    double size(std::int64_t output, double input_norm) const;
  };
  static Outputs outputs(const std::vector<double>& weight, const std::vector<double>& bias, std::int64_t in);

  double epsilon_;
  Outputs queries_, keys_, values_, results_;
  const std::vector<double>& out_weight_;
  std::vector<double> x_norms_;  ///< of each token
};

}  // namespace ennead::oracle
