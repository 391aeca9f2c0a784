// SPDX-License-Identifier: Apache-2.0
#include "harness/workload.h"

namespace ennead::harness {
namespace {

/// Sets a context's tape and takes it away again, whatever happens between.
class TapeInPlace {
 public:
  TapeInPlace(const Context& context, Tape& tape) : context_(context) { context_.set_tape(&tape); }
  ~TapeInPlace() { context_.set_tape(nullptr); }
  TapeInPlace(const TapeInPlace&) = delete;
  TapeInPlace& operator=(const TapeInPlace&) = delete;

 private:
  const Context& context_;
};

}  // namespace

template <class T>
Workload<T>::Workload(const Work& work, const Context& where)
    : context(where),
      config(work.config()),
      pass(work.pass),
      weights(Weights<T>::random(context, config, work.seed)),
      x(random_input<T>(context, work.shape.batch, work.shape.num_tokens, work.shape.d_in, work.seed + 1)) {
  if (work.x_deviation != 1 && !context.dry_run()) {
    for (std::int64_t i = 0; i < x.num_elements(); ++i) x.data()[i] *= static_cast<T>(work.x_deviation);
  }
  if (pass == Pass::forward_backward) {
    d_output = random_input<T>(context, work.shape.batch, work.shape.num_tokens, work.shape.d_out, work.seed + 2);
  }
}

template <class T>
PassResult<T> Workload<T>::train_step(const VariantInfo& info) const {
  Tape tape;
  const TapeInPlace in_place(context, tape);
  Weights<T> watched = weights;
  Tensor<T> watched_x = x;
  std::vector<Tensor<T>*> leaves{&watched_x};
  for (Tensor<T>* weight : {&watched.W_query, &watched.W_key, &watched.W_value, &watched.b_query, &watched.b_key,
                            &watched.b_value, &watched.out_proj_weight, &watched.out_proj_bias}) {
    if (!weight->empty()) leaves.push_back(weight);
  }
  for (Tensor<T>* leaf : leaves) tape.watch(*leaf);

  PassResult<T> result;
  const std::unique_ptr<Variant<T>> variant = make_variant(info, config, watched);
  result.output = (*variant)(watched_x);
  tape.backward(result.output, d_output);
  for (Tensor<T>* leaf : leaves) result.gradients.push_back(tape.gradient(*leaf));
  return result;
}

template <class T>
std::unique_ptr<Variant<T>> Workload<T>::plan(const VariantInfo& info) const {
  return pass == Pass::forward ? make_variant(info, config, weights) : nullptr;
}

template <class T>
PassResult<T> Workload<T>::run(const VariantInfo& info, Variant<T>* planned) const {
  if (pass == Pass::forward_backward) return train_step(info);
  return {(*planned)(x), {}};
}

template struct Workload<float>;
template struct Workload<double>;

}  // namespace ennead::harness
