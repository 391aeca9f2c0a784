// SPDX-License-Identifier: Apache-2.0
#include "io/weight_layouts.h"

#include <charconv>

namespace ennead {
namespace io {
namespace {

constexpr LayoutSpec kSpecs[] = {
    {WeightLayout::heads,
     "heads",
     {Parts::per_head, {"W_query.weight", "W_key.weight", "W_value.weight"}},
     false,
     {Parts::per_head, {"W_query.bias", "W_key.bias", "W_value.bias"}},
     "out_proj.weight",
     "out_proj.bias",
     false,
     false},
    {WeightLayout::split,
     "split",
     {Parts::separate, {"W_query.weight", "W_key.weight", "W_value.weight"}},
     false,
     {Parts::separate, {"W_query.bias", "W_key.bias", "W_value.bias"}},
     "out_proj.weight",
     "out_proj.bias",
     false,
     false},
    {WeightLayout::qkv,
     "qkv",
     {Parts::fused, {"qkv.weight"}},
     false,
     {Parts::fused, {"qkv.bias"}},
     "proj.weight",
     "proj.bias",
     false,
     false},
    {WeightLayout::einsum,
     "einsum",
     {Parts::separate, {"W_query", "W_key", "W_value"}},
     true,
     {Parts::separate, {"bias_q", "bias_k", "bias_v"}},
     "out_proj.weight",
     "out_proj.bias",
     false,
     false},
    {WeightLayout::in_proj,
     "in_proj",
     {Parts::fused, {"in_proj_weight"}},
     false,
     {Parts::fused, {"in_proj_bias"}},
     "out_proj.weight",
     "out_proj.bias",
     false,
     false},
    {WeightLayout::in_proj_separate,
     "in_proj_separate",
     {Parts::separate, {"q_proj_weight", "k_proj_weight", "v_proj_weight"}},
     false,
     {Parts::fused, {"in_proj_bias"}},
     "out_proj.weight",
     "out_proj.bias",
     false,
     false},
    {WeightLayout::gpt2,
     "gpt2",
     {Parts::fused, {"c_attn.weight"}},
     true,
     {Parts::fused, {"c_attn.bias"}},
     "c_proj.weight",
     "c_proj.bias",
     true,
     false},
    {WeightLayout::nanogpt,
     "nanogpt",
     {Parts::fused, {"c_attn.weight"}},
     false,
     {Parts::fused, {"c_attn.bias"}},
     "c_proj.weight",
     "c_proj.bias",
     false,
     false},
    {WeightLayout::llama,
     "llama",
     {Parts::separate, {"q_proj.weight", "k_proj.weight", "v_proj.weight"}},
     false,
     {Parts::separate, {"q_proj.bias", "k_proj.bias", "v_proj.bias"}},
     "o_proj.weight",
     "o_proj.bias",
     false,
     true},
    {WeightLayout::opt,
     "opt",
     {Parts::separate, {"q_proj.weight", "k_proj.weight", "v_proj.weight"}},
     false,
     {Parts::separate, {"q_proj.bias", "k_proj.bias", "v_proj.bias"}},
     "out_proj.weight",
     "out_proj.bias",
     false,
     true},
};

constexpr std::string_view kHeads = "heads.";

}  // namespace

std::span<const LayoutSpec> layout_specs() { return kSpecs; }

const LayoutSpec& spec_of(WeightLayout layout) { return kSpecs[static_cast<std::size_t>(layout)]; }

std::string head_name(std::int64_t head, std::string_view name) {
  return std::string(kHeads) + std::to_string(head) + "." + std::string(name);
}

std::int64_t head_in(std::string_view name) {
  if (!name.starts_with(kHeads)) return -1;
  const std::string_view rest = name.substr(kHeads.size());
  const std::string_view digits = rest.substr(0, rest.find('.'));
  std::int64_t head = -1;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, head);
  const bool canonical =
      error == std::errc() && stop == end && digits.size() < rest.size() && std::to_string(head) == digits;
  return canonical && head >= 0 ? head : -1;
}

std::vector<std::string> part_names(const PartNames& parts, std::int64_t num_heads) {
  if (parts.parts == Parts::fused) return {std::string(parts.names[0])};
  std::vector<std::string> names;
  for (const std::string_view name : parts.names) {
    if (parts.parts == Parts::separate) names.emplace_back(name);
    for (std::int64_t head = 0; head < num_heads && parts.parts == Parts::per_head; ++head) {
      names.push_back(head_name(head, name));
    }
  }
  return names;
}

bool is_mask_buffer(const LayoutSpec& spec, std::string_view name) {
  if (const std::int64_t head = head_in(name); head >= 0) return name == head_name(head, "mask");
  // GPT-2 calls its mask "bias"; its true biases have longer names.
  const bool gpt = spec.layout == WeightLayout::gpt2 || spec.layout == WeightLayout::nanogpt;
  return name == "mask" || (gpt && (name == "bias" || name == "masked_bias"));
}

}  // namespace io

std::span<const WeightLayout> weight_layouts() {
  static constexpr WeightLayout kLayouts[] = {WeightLayout::heads,   WeightLayout::split,
                                              WeightLayout::qkv,     WeightLayout::einsum,
                                              WeightLayout::in_proj, WeightLayout::in_proj_separate,
                                              WeightLayout::gpt2,    WeightLayout::nanogpt,
                                              WeightLayout::llama,   WeightLayout::opt};
  static_assert(std::size(kLayouts) == std::size(io::kSpecs));
  return kLayouts;
}

std::string_view name(WeightLayout layout) { return io::spec_of(layout).name; }

std::optional<WeightLayout> parse_weight_layout(std::string_view name) {
  for (const io::LayoutSpec& spec : io::layout_specs()) {
    if (spec.name == name) return spec.layout;
  }
  return {};
}

}  // namespace ennead
