// SPDX-License-Identifier: Apache-2.0
// The eager operations: each allocates its result, reports to the Trace, and records its
// derivative when a Tape tracks an input. All throw Error (expected, got) on bad shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include "ennead/export.h"
#include "ennead/tensor.h"

ENNEAD_API_BEGIN
namespace ennead {

using Where = std::source_location;

// -- products ---------------------------------------------------------------------------------

/// A linear layer, y = x W^T + b, its weights packed for the kernels when it is made.
template <class T>
class Linear {
 public:
  Linear() = default;
  /// @param weight [out, in]  @param bias [out] or empty
  explicit Linear(const Tensor<T>& weight, const Tensor<T>& bias = {}, Where where = Where::current());

  /// x [..., in] -> [..., out]
  Tensor<T> operator()(const Tensor<T>& x, Where where = Where::current()) const;

  const Tensor<T>& weight() const { return weight_; }
  const Tensor<T>& bias() const { return bias_; }

 private:
  Tensor<T> weight_, bias_;
  Tensor<PackedByte> packed_;
};

/// a [..., m, k] @ b [..., k, n]; leading axes broadcast.
template <class T>
ENNEAD_API Tensor<T> matmul(const Tensor<T>& a, const Tensor<T>& b, Where where = Where::current());

/// Any valid two-operand einsum, e.g. "bnd,do->bno". An index that is in one operand only and not
/// in the result is summed; a repeated index takes the diagonal; without "->" the result has the
/// indices that appear once, in alphabetical order. "..." stands for axes not named. An axis of size 1 broadcasts.
template <class T>
ENNEAD_API Tensor<T> einsum(std::string_view equation, const Tensor<T>& a, const Tensor<T>& b,
                            Where where = Where::current());

// -- element by element -----------------------------------------------------------------------

/// A number that remembers where it was written, so that operators know their source line.
struct Scalar {
  double value;
  Where where;
  Scalar(double v, Where w = Where::current()) : value(v), where(w) {}  // NOLINT: meant to convert
};

template <class T>
ENNEAD_API Tensor<T> operator*(const Tensor<T>& x, Scalar s);
template <class T>
ENNEAD_API Tensor<T> operator/(const Tensor<T>& x, Scalar s);

/// a + b; b broadcasts to a.
template <class T>
ENNEAD_API Tensor<T> add(const Tensor<T>& a, const Tensor<T>& b, Where where = Where::current());

/// Writes `value` into x where mask is true; mask broadcasts to x. In place: refused when a
/// recorded operation still needs the old values, or another handle shares them under a tape.
template <class T>
ENNEAD_API void masked_fill_(Tensor<T>& x, const Tensor<bool>& mask, double value, Where where = Where::current());

/// exp(x) / sum exp(x) along the last axis. A row of -inf only gives zeros.
template <class T>
ENNEAD_API Tensor<T> softmax(const Tensor<T>& x, Where where = Where::current());

struct Dropout {
  double p = 0;
  bool training = false;
  std::int64_t first_head = 0;  ///< head index of the tensor's first head, so any split draws alike
};
/// Zeroes each weight with probability p and scales the rest by 1 / (1 - p). The draw depends on
/// (context seed, batch, head, query, key) alone.
/// @param attn_weights [batch, heads, queries, keys] or [batch, queries, keys]
template <class T>
ENNEAD_API Tensor<T> dropout(const Tensor<T>& attn_weights, const Dropout& options, Where where = Where::current());

// -- shapes -----------------------------------------------------------------------------------

/// The same elements in other sizes (one may be -1); refused when strides do not allow it.
template <class T>
ENNEAD_API Tensor<T> view(const Tensor<T>& x, const Dims& sizes, Where where = Where::current());
template <class T>
ENNEAD_API Tensor<T> transpose(const Tensor<T>& x, int axis0, int axis1, Where where = Where::current());
template <class T>
ENNEAD_API Tensor<T> permute(const Tensor<T>& x, const Dims& axes, Where where = Where::current());
/// x restricted to [start, start + length) along `axis`.
template <class T>
ENNEAD_API Tensor<T> narrow(const Tensor<T>& x, int axis, std::int64_t start, std::int64_t length,
                            Where where = Where::current());
/// x at `index` along `axis`; the axis goes.
template <class T>
ENNEAD_API Tensor<T> select(const Tensor<T>& x, int axis, std::int64_t index, Where where = Where::current());
/// All slices along `axis`; the axis goes.
template <class T>
ENNEAD_API std::vector<Tensor<T>> unbind(const Tensor<T>& x, int axis, Where where = Where::current());
/// x itself when it is contiguous, else a copy that is.
template <class T>
ENNEAD_API Tensor<T> contiguous(const Tensor<T>& x, Where where = Where::current());
/// Tensors one after the other along `axis` (negative: from the end).
template <class T>
ENNEAD_API Tensor<T> cat(std::span<const Tensor<T>> tensors, int axis, Where where = Where::current());

// -- made from nothing ------------------------------------------------------------------------

/// True above the diagonal: what a token must not see. [n, n]
Tensor<bool> causal_mask(const Context& context, std::int64_t n);

}  // namespace ennead
ENNEAD_API_END
