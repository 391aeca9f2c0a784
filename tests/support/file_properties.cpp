// SPDX-License-Identifier: Apache-2.0
#include "support/file_properties.h"

#include <vector>

#include "ennead/io.h"
#include "ennead/weight_files.h"
#include "support/tensors.h"

namespace ennead::test {
namespace {

Context serial_context() {
  Context::Options options;
  options.executor = make_serial_executor();
  options.isa = Isa::scalar;
  return Context(options);
}

/// Runs `call`. A refusal must be one sentence; what `call` says went wrong is passed on.
template <class Call>
std::string refused_or(Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    if (sentence.empty() || sentence.find('\n') != std::string::npos) return "not one sentence: " + sentence;
    return {};
  }
}

template <class T>
std::string npy_as(const Context& context, const std::string& path, const std::string& scratch) {
  return refused_or([&]() -> std::string {
    const auto tensor = read_npy<T>(context, path);
    write_npy(scratch, tensor);
    return same_bits(tensor, read_npy<T>(context, scratch)) ? "" : "an array changed on its way through a file";
  });
}

/// Every element can be touched: for sanitizers.
template <class T>
void touch(const Tensor<T>& tensor) {
  static_cast<void>(to_doubles(tensor));
}

std::string tensor_problem(const Context& context, const SafetensorsFile& file, const std::string& name) {
  const auto each = [&](auto&& read) {
    return refused_or([&]() -> std::string {
      touch(read());
      return {};
    });
  };
  std::string problem = each([&] { return file.read<float>(context, name); });
  problem += each([&] { return file.read<double>(context, name); });
  problem += each([&] { return file.read<bool>(context, name); });
  problem += each([&] { return file.borrow<float>(context, name); });
  return problem + each([&] { return file.borrow<double>(context, name); });
}

std::string rewritten_problem(const SafetensorsFile& file, const std::string& scratch) {
  return refused_or([&]() -> std::string {
    std::vector<NamedRawTensor> tensors;
    for (const auto& entry : file.entries()) tensors.push_back({entry.name, file.read_raw(entry.name)});
    write_safetensors(scratch, tensors, file.metadata());
    const SafetensorsFile again(scratch);
    for (const NamedRawTensor& each : tensors) {
      const RawTensor raw = again.read_raw(each.name);
      if (raw.bytes != each.tensor.bytes || !(raw.sizes == each.tensor.sizes)) return "a tensor changed in a file";
    }
    return again.metadata() == file.metadata() ? "" : "metadata changed in a file";
  });
}

std::string weights_problem(const Context& context, const std::string& path, const std::string& scratch,
                            const WeightSource& source, std::size_t choice) {
  return refused_or([&]() -> std::string {
    const auto loaded = load_weights<double>(context, path, source);
    const WeightLayout layout = weight_layouts()[choice % weight_layouts().size()];
    convert_weights(path, source, scratch, {layout, "", {}});
    const auto again = load_weights<double>(context, scratch, {"", {}, layout});
    const bool same = same_bits(loaded.weights.W_query, again.weights.W_query) &&
                      same_bits(loaded.weights.W_key, again.weights.W_key) &&
                      same_bits(loaded.weights.b_value, again.weights.b_value) &&
                      same_bits(loaded.weights.out_proj_weight, again.weights.out_proj_weight);
    return same ? "" : "weights changed from one layout to another";
  });
}

}  // namespace

std::string npy_problem(const std::string& path, const std::string& scratch) {
  const Context context = serial_context();
  std::string problem = refused_or([&]() -> std::string {
    static_cast<void>(read_npy_info(path));
    return {};
  });
  problem += npy_as<float>(context, path, scratch);
  problem += npy_as<double>(context, path, scratch);
  return problem + npy_as<bool>(context, path, scratch);
}

std::string safetensors_problem(const std::string& path, const std::string& scratch) {
  const Context context = serial_context();
  return refused_or([&]() -> std::string {
    const SafetensorsFile file(path);
    std::string problem;
    for (const auto& entry : file.entries()) problem += tensor_problem(context, file, entry.name);
    problem += rewritten_problem(file, scratch);
    const std::size_t choice = file.entries().size() + (file.entries().empty() ? 0 : file.entries().back().end);
    problem += weights_problem(context, path, scratch, {}, choice);
    problem += weights_problem(context, path, scratch, {"h.0", 2, {}}, choice);
    return problem + weights_problem(context, path, scratch, {"", 2, WeightLayout::gpt2}, choice);
  });
}

}  // namespace ennead::test
