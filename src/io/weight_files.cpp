// SPDX-License-Identifier: Apache-2.0
#include "ennead/weight_files.h"

#include "io/elements.h"
#include "io/raw_module.h"
#include "io/transfer.h"

namespace ennead {
namespace {

template <class T>
Tensor<T> to_tensor(const Context& context, const std::string& path, const RawTensor& raw) {
  auto tensor = Tensor<T>::uninitialized(context, raw.sizes);
  if (context.dry_run()) return tensor;
  const std::span<T> out(tensor.data(), static_cast<std::size_t>(tensor.num_elements()));
  if (io::decode<T>(raw.dtype, false, raw.bytes, out)) {
    io::require_file(
        path, sentence("expected weights that fit ", name(io::DTypeOf<T>::value), ", got a larger ", name(raw.dtype)));
  }
  return tensor;
}

}  // namespace

template <class T>
LoadedWeights<T> load_weights(const Context& context, const std::string& path, const WeightSource& source) {
  io::RawModule module = io::read_module(SafetensorsFile(path), source);
  LoadedWeights<T> loaded;
  loaded.info = module.info;
  io::require_file(path, io::regroup(module, module.info.num_heads));
  loaded.config.d_in = module.d_in();
  loaded.config.d_out = module.d_out();
  loaded.config.num_heads = module.info.num_heads;
  loaded.config.qkv_bias = module.biases.has_value();
  loaded.config.out_bias = module.out_bias.has_value();
  Weights<T>& weights = loaded.weights;
  const auto tensor = [&](const RawTensor& raw) { return to_tensor<T>(context, path, raw); };
  weights.W_query = tensor(module.weights[0]);
  weights.W_key = tensor(module.weights[1]);
  weights.W_value = tensor(module.weights[2]);
  if (module.biases) {
    weights.b_query = tensor((*module.biases)[0]);
    weights.b_key = tensor((*module.biases)[1]);
    weights.b_value = tensor((*module.biases)[2]);
  }
  weights.out_proj_weight = tensor(module.out_weight);
  if (module.out_bias) weights.out_proj_bias = tensor(*module.out_bias);
  return loaded;
}

WeightFileInfo convert_weights(const std::string& path, const WeightSource& source, const std::string& output,
                               const WeightTarget& target) {
  const io::RawModule module = io::read_module(SafetensorsFile(path), source);
  io::write_module(output, module, target);
  return module.info;
}

template LoadedWeights<float> load_weights(const Context&, const std::string&, const WeightSource&);
template LoadedWeights<double> load_weights(const Context&, const std::string&, const WeightSource&);

}  // namespace ennead
