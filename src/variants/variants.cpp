// SPDX-License-Identifier: Apache-2.0
// The list of variants, and what every call of one has in common.
#include "ennead/variants.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "ennead/tape.h"

namespace ennead {

namespace nine {
#define ENNEAD_VARIANT(number, name, title, parent, change)                       \
  template <class T>                                                              \
  std::unique_ptr<Variant<T>> make_##name(int, const Config&, const Weights<T>&); \
  extern const Supports supports_##name;
#include "variants/variants.def"
#undef ENNEAD_VARIANT
}  // namespace nine

std::span<const VariantInfo> variants() {
  static const std::array list{
#define ENNEAD_VARIANT(number, name, title, parent, change) \
  VariantInfo{number, #name, title, parent, change, nine::supports_##name},
#include "variants/variants.def"
#undef ENNEAD_VARIANT
  };
  return list;
}

template <class T>
std::unique_ptr<Variant<T>> make_variant(const VariantInfo& info, const Config& config, const Weights<T>& weights) {
  require(check_config(config));
  require(check_weights(config, weights));
#define ENNEAD_VARIANT(number, name, title, parent, change) \
  if (info.slug == #name) return nine::make_##name<T>(number, config, weights);
#include "variants/variants.def"
#undef ENNEAD_VARIANT
  raise(unknown_variant(info.slug));
}

const VariantInfo* find_variant(std::string_view number_or_slug) {
  int number = 0;
  const auto [end, error] =
      std::from_chars(number_or_slug.data(), number_or_slug.data() + number_or_slug.size(), number);
  const bool is_number = error == std::errc{} && end == number_or_slug.data() + number_or_slug.size();
  for (const VariantInfo& info : variants()) {
    if (is_number ? info.number == number : info.slug == number_or_slug) return &info;
  }
  return nullptr;
}

std::string unknown_variant(std::string_view number_or_slug) {
  std::string known;
  for (const VariantInfo& info : variants()) {
    known += sentence(known.empty() ? "" : ", ", info.number, " (", info.slug, ")");
  }
  return sentence("variant: expected one of ", known, ", got \"", number_or_slug, "\"");
}

namespace {

// The numbers of all variants that have what `has` asks for, for a refusal's advice.
template <class Has>
std::string those_that(Has has) {
  std::string numbers;
  for (const VariantInfo& info : variants()) {
    if (has(info.supports)) numbers += sentence(numbers.empty() ? "" : ", ", info.number);
  }
  return numbers.empty() ? "none" : numbers;
}

std::string named(const VariantInfo& info) { return sentence("variant ", info.number, " (", info.slug, ")"); }

}  // namespace

template <class T>
const VariantInfo& Variant<T>::info() const {
  const auto list = variants();
  return *std::find_if(list.begin(), list.end(), [this](const VariantInfo& info) { return info.number == number_; });
}

template <class T>
void Variant<T>::train(bool on) {
  if (on && config_.dropout > 0 && !info().supports.dropout) {
    raise(sentence("dropout: expected a variant that drops in training mode (",
                   those_that([](const Supports& s) { return s.dropout; }), "), got ", named(info())));
  }
  training_ = on;
}

template <class T>
Refusal Variant<T>::check(const Tensor<T>& x, const CallOptions<T>& options) const {
  if (x.empty()) return "x: expected a tensor, got an empty handle";
  if (x.rank() != 3 || x.size(2) != config_.d_in) {
    return sentence("x: expected [batch, num_tokens, ", config_.d_in, "], got ", to_string(x.sizes()));
  }
  if (x.size(1) > config_.context_length) {
    return sentence("x: expected at most ", config_.context_length, " tokens (context_length), got ", x.size(1));
  }
  const Supports& can = info().supports;
  const auto refuse = [&](const char* option, auto has) {
    return sentence(option, ": expected a variant that takes it (", those_that(has), "), got ", named(info()));
  };
  if (x.context().tape() != nullptr && !can.gradient) {
    return refuse("gradient", [](const Supports& s) { return s.gradient; });
  }
  if (!options.attn_mask.empty()) {
    if (!can.attn_mask) return refuse("attn_mask", [](const Supports& s) { return s.attn_mask; });
    const std::int64_t num_tokens = x.size(1);
    if (Refusal refusal = check_attn_mask(options.attn_mask, x.size(0), config_.num_heads, num_tokens, num_tokens);
        !refusal.ok()) {
      return refusal;
    }
  }
  if (!options.key_padding_block.empty()) {
    if (!can.key_padding_mask) {
      return refuse("key_padding_mask", [](const Supports& s) { return s.key_padding_mask; });
    }
    if (!(options.key_padding_block.sizes() == Dims{x.size(0), x.size(1)})) {
      return sentence("key_padding_mask: expected [", x.size(0), ", ", x.size(1), "], got ",
                      to_string(options.key_padding_block.sizes()));
    }
  }
  if (options.need_weights && !can.need_weights) {
    return refuse("need_weights", [](const Supports& s) { return s.need_weights; });
  }
  return {};
}

template <class T>
CallOptions<T> Variant<T>::default_options() const {
  CallOptions<T> options;
  options.need_weights = info().supports.need_weights;
  return options;
}

template <class T>
Tensor<T> Variant<T>::operator()(const Tensor<T>& x) const {
  return (*this)(x, default_options()).output;
}

template <class T>
CallResult<T> Variant<T>::operator()(const Tensor<T>& x, const CallOptions<T>& options) const {
  require(check(x, options));
  return forward(x, options);
}

template <class T>
std::size_t Variant<T>::workspace_bytes(const Context& context, std::int64_t batch, std::int64_t num_tokens) const {
  // The very code, run where allocations are only counted.
  Context::Options options;
  options.executor = context.executor_ptr();
  options.isa = context.isa();
  options.arena.dry_run = true;
  const Context dry(options);
  const auto variant = make_variant<T>(info(), config_, Weights<T>::uninitialized(dry, config_));
  const auto x = Tensor<T>::uninitialized(dry, {batch, num_tokens, config_.d_in});
  const std::size_t before = dry.arena().bytes_in_use();
  dry.arena().reset_peak();
  static_cast<void>((*variant)(x));
  return dry.arena().peak_bytes() - before;
}

#define ENNEAD_INSTANTIATE(T) \
  template class Variant<T>;  \
  template std::unique_ptr<Variant<T>> make_variant(const VariantInfo&, const Config&, const Weights<T>&);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
