// SPDX-License-Identifier: Apache-2.0
// Two-operand einsum. The equation sorts the indices into four groups (batch, rows, columns,
// summed) and the sum becomes one batched product of views. What a tape records, and a trace
// shows, are the operations it is made of.
#include "ops/einsum_equation.h"
#include "ops/record.h"

namespace ennead {
namespace {

using ops::find_label;
using ops::Labels;

template <class T>
struct Operand {
  Tensor<T> x;
  Labels labels;

  std::int64_t size_of(int label) const { return x.size(find_label(labels, label)); }
  void forget(int axis) { labels.erase(labels.begin() + axis); }
};

// An index that appears twice in one operand walks the diagonal.
template <class T>
void take_diagonals(Operand<T>& operand, std::string_view equation, Where where) {
  for (int later = operand.x.rank() - 1; later > 0; --later) {
    const int axis = find_label(operand.labels, operand.labels[static_cast<std::size_t>(later)]);
    if (axis == later) continue;
    if (operand.x.size(axis) != operand.x.size(later)) {
      raise(sentence("einsum: expected equal sizes where \"", equation, "\" repeats an index, got ",
                     to_string(operand.x.sizes())));
    }
    operand.x = ops::diagonal(operand.x, axis, later, where);
    operand.forget(later);
  }
}

// An axis of size 1 against a longer one is broadcast: it is left out of its own operand.
template <class T>
void drop_broadcast_axes(Operand<T>& operand, const Operand<T>& other, Where where) {
  for (int axis = operand.x.rank() - 1; axis >= 0; --axis) {
    const int label = operand.labels[static_cast<std::size_t>(axis)];
    if (operand.x.size(axis) != 1 || find_label(other.labels, label) < 0 || other.size_of(label) == 1) continue;
    operand.x = select(operand.x, axis, 0, where);
    operand.forget(axis);
  }
}

// An index of one operand only that is not in the result is summed before the product.
template <class T>
void sum_lonely_axes(Operand<T>& operand, const Operand<T>& other, const Labels& result, Where where) {
  for (int axis = operand.x.rank() - 1; axis >= 0; --axis) {
    const int label = operand.labels[static_cast<std::size_t>(axis)];
    if (find_label(other.labels, label) >= 0 || find_label(result, label) >= 0) continue;
    operand.x = ops::sum_axis(operand.x, axis, where);
    operand.forget(axis);
  }
}

struct Groups {
  Labels batch, rows, columns, summed;
};

template <class T>
Groups sort_labels(const Operand<T>& a, const Operand<T>& b, const Labels& result, std::string_view equation) {
  Groups groups;
  for (int label : a.labels) {
    const bool in_b = find_label(b.labels, label) >= 0;
    const bool in_result = find_label(result, label) >= 0;
    if (in_b && a.size_of(label) != b.size_of(label)) {
      raise(sentence("einsum: expected sizes that agree for \"", equation, "\", got ", to_string(a.x.sizes()), " and ",
                     to_string(b.x.sizes())));
    }
    (!in_b ? groups.rows : in_result ? groups.batch : groups.summed).push_back(label);
  }
  for (int label : b.labels) {
    if (find_label(a.labels, label) < 0) groups.columns.push_back(label);
  }
  return groups;
}

// The operand as [batch..., first group, second group], the two groups flattened to one axis each. The
// batch axes stay apart, which needs no copy, unless a tensor cannot have that many.
template <class T>
Tensor<T> arrange(const Operand<T>& operand, const Labels& batch, const Labels& first, const Labels& second,
                  Where where) {
  Dims order;
  Dims sizes;
  for (int label : batch) {
    order.push_back(find_label(operand.labels, label));
    sizes.push_back(operand.size_of(label));
  }
  if (sizes.rank() > kMaxRank - 2) sizes = {sizes.product()};
  for (const Labels* group : {&first, &second}) {
    std::int64_t size = 1;
    for (int label : *group) {
      order.push_back(find_label(operand.labels, label));
      size *= operand.size_of(label);
    }
    sizes.push_back(size);
  }
  return ops::reshape(permute(operand.x, order, where), sizes, where);
}

}  // namespace

template <class T>
Tensor<T> einsum(std::string_view equation, const Tensor<T>& a, const Tensor<T>& b, Where where) {
  require(ops::check_given("einsum", a, b));
  const ops::EinsumEquation parsed = ops::parse_einsum(equation, a.sizes(), b.sizes());
  Operand<T> left{a, parsed.a};
  Operand<T> right{b, parsed.b};
  take_diagonals(left, equation, where);
  take_diagonals(right, equation, where);
  drop_broadcast_axes(left, right, where);
  drop_broadcast_axes(right, left, where);
  sum_lonely_axes(left, right, parsed.result, where);
  sum_lonely_axes(right, left, parsed.result, where);

  const Groups groups = sort_labels(left, right, parsed.result, equation);
  const Tensor<T> product = matmul(arrange(left, groups.batch, groups.rows, groups.summed, where),
                                   arrange(right, groups.batch, groups.summed, groups.columns, where), where);

  Labels have = groups.batch;
  have.insert(have.end(), groups.rows.begin(), groups.rows.end());
  have.insert(have.end(), groups.columns.begin(), groups.columns.end());
  Dims sizes;
  for (int label : have)
    sizes.push_back(find_label(left.labels, label) >= 0 ? left.size_of(label) : right.size_of(label));
  Dims order;
  for (int label : parsed.result) order.push_back(find_label(have, label));
  return permute(view(product, sizes, where), order, where);
}

template Tensor<float> einsum(std::string_view, const Tensor<float>&, const Tensor<float>&, Where);
template Tensor<double> einsum(std::string_view, const Tensor<double>&, const Tensor<double>&, Where);

}  // namespace ennead
