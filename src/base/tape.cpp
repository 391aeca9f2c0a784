// SPDX-License-Identifier: Apache-2.0
#include "ennead/tape.h"

#include <utility>

#include "base/for_each_element.h"

namespace ennead {

Tape::~Tape() {
  for (const Node& node : nodes_) {
    node.output->tape = nullptr;
    for (const auto& storage : node.saved) --storage->saved_by_tape;
  }
  for (const auto& leaf : leaves_) leaf->tape = nullptr;
}

template <class T>
void Tape::watch(Tensor<T>& x) {
  if (x.empty()) raise("tape: expected a tensor to watch, got an empty handle");
  if (tracks(x)) return;
  x.variable = std::make_shared<TapeVariable>();
  x.variable->tape = this;
  leaves_.push_back(x.variable);
}

template <class T>
void Tape::record(Tensor<T>& y, std::vector<std::shared_ptr<Storage>> saved,
                  std::function<void(Tape&, const Tensor<T>&)> pull) {
  if (replayed_)
    raise("tape: expected operations before backward(), got one after it; a second derivative is not there");
  auto variable = std::make_shared<TapeVariable>();
  variable->tape = this;
  y.variable = variable;
  for (const auto& storage : saved) ++storage->saved_by_tape;
  // The node owns the variable, so the closure borrows it: a shared pointer would be a cycle.
  TapeVariable* output = variable.get();
  nodes_.push_back({std::move(variable), std::move(saved), [output, pull = std::move(pull)](Tape& tape) {
                      if (const auto* dy = std::get_if<Tensor<T>>(&output->gradient)) {
                        const Tensor<T> gradient = *dy;
                        // Nobody reads it again: its memory serves the next operation.
                        output->gradient = std::monostate{};
                        pull(tape, gradient);
                      }
                    }});
}

template <class T>
void Tape::accumulate(const std::shared_ptr<TapeVariable>& variable, const Tensor<T>& gradient) {
  if (variable == nullptr || variable->tape != this) return;
  if (std::holds_alternative<std::monostate>(variable->gradient)) {
    variable->gradient = gradient;
    return;
  }
  const Tensor<T>& before = std::get<Tensor<T>>(variable->gradient);
  // The first gradient may share storage with another value, so the sum is new memory.
  Tensor<T> sum = Tensor<T>::uninitialized(gradient.context(), gradient.sizes());
  if (!gradient.context().dry_run()) {
    base::for_each_element([](T& s, const T& a, const T& b) { s = a + b; }, sum, before, gradient);
  }
  variable->gradient = sum;
}

template <class T>
void Tape::backward(const Tensor<T>& y, const Tensor<T>& dy) {
  if (replayed_) {
    raise("tape: expected one backward() per record, got a second one; record the forward pass again");
  }
  if (!tracks(y)) raise("tape: expected a result that depends on a watched tensor, got one this tape does not know");
  if (!(y.sizes() == dy.sizes())) {
    raise(sentence("tape: expected dy of the result's sizes ", to_string(y.sizes()), ", got ", to_string(dy.sizes())));
  }
  const Context context = y.context();
  // Whatever runs during the replay is not recorded, also when it throws.
  struct Detached {
    const Context& context;
    Tape* tape = context.tape();
    explicit Detached(const Context& c) : context(c) { context.set_tape(nullptr); }
    ~Detached() { context.set_tape(tape); }
  } detached(context);
  replayed_ = true;
  accumulate(y.variable, dy);
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    // Let go of, also when the replay throws.
    struct Released {
      const Node& node;
      ~Released() {
        node.output->tape = nullptr;
        for (const auto& storage : node.saved) --storage->saved_by_tape;
      }
    } released{node};
    node.pull(*this);
  }
}

template <class T>
Tensor<T> Tape::gradient(const Tensor<T>& x) const {
  if (!tracks(x)) raise("tape: expected a watched tensor, got one this tape does not know");
  if (const auto* gradient = std::get_if<Tensor<T>>(&x.variable->gradient)) {
    if (gradient->is_contiguous()) return *gradient;
    auto row_major = Tensor<T>::uninitialized(x.context(), x.sizes());
    if (!x.context().dry_run()) {
      base::for_each_element([](T& to, const T& from) { to = from; }, row_major, *gradient);
    }
    return row_major;
  }
  return Tensor<T>::full(x.context(), x.sizes(), T{0});
}

#define ENNEAD_INSTANTIATE(T)                                                             \
  template void Tape::watch(Tensor<T>&);                                                  \
  template void Tape::record(Tensor<T>&, std::vector<std::shared_ptr<Storage>>,           \
                             std::function<void(Tape&, const Tensor<T>&)>);               \
  template void Tape::accumulate(const std::shared_ptr<TapeVariable>&, const Tensor<T>&); \
  template void Tape::backward(const Tensor<T>&, const Tensor<T>&);                       \
  template Tensor<T> Tape::gradient(const Tensor<T>&) const;
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
