// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "io/raw_module.h"
#include "io/raw_tensor.h"
#include "io/transfer.h"
#include "io/weight_layouts.h"

namespace ennead::io {
namespace {

/// The key heads of one weight or bias in another number.
Refusal regroup_rows(RawTensor& rows, std::int64_t from, std::int64_t to) {
  const std::vector<RawTensor> heads = split(rows, from);
  std::vector<RawTensor> result;
  for (std::int64_t head = 0; head < std::max(from, to); ++head) {
    const auto old_head = static_cast<std::size_t>(from > to ? head : head / (to / from));
    const auto new_head = static_cast<std::size_t>(from > to ? head / (from / to) : head);
    if (new_head == result.size()) {
      result.push_back(heads[old_head]);
    } else if (result[new_head].bytes != heads[old_head].bytes) {
      return sentence("expected equal key and value heads where ", from / to, " are to become one, got head ", old_head,
                      " different from head ", static_cast<std::int64_t>(new_head) * (from / to));
    }
  }
  rows = concatenated(result);
  return {};
}

void put(std::vector<NamedRawTensor>& tensors, const std::string& prefix, const PartNames& parts, bool transpose,
         const std::array<RawTensor, 3>& qkv, std::int64_t num_heads) {
  const std::vector<std::string> names = part_names(parts, num_heads);
  std::vector<RawTensor> pieces(qkv.begin(), qkv.end());
  if (parts.parts == Parts::fused) pieces = {concatenated(qkv)};
  if (parts.parts == Parts::per_head) {
    pieces.clear();
    for (const RawTensor& part : qkv) {
      for (RawTensor& head : split(part, num_heads)) pieces.push_back(std::move(head));
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    tensors.push_back({prefix + names[i], transpose ? transposed(pieces[i]) : std::move(pieces[i])});
  }
}

}  // namespace

Refusal regroup(RawModule& module, std::int64_t kv_heads) {
  const std::int64_t from = module.info.kv_heads;
  if (from == kv_heads) return {};
  if (kv_heads < 1 || module.info.num_heads % kv_heads != 0 ||
      std::max(from, kv_heads) % std::min(from, kv_heads) != 0) {
    return sentence("expected a number of key heads that divides ", module.info.num_heads, " heads and fits the ", from,
                    " there are, got ", kv_heads);
  }
  for (std::size_t part = 1; part < 3; ++part) {
    if (Refusal refusal = regroup_rows(module.weights[part], from, kv_heads); !refusal.ok()) return refusal;
    if (!module.biases) continue;
    if (Refusal refusal = regroup_rows((*module.biases)[part], from, kv_heads); !refusal.ok()) return refusal;
  }
  module.info.kv_heads = kv_heads;
  return {};
}

void write_module(const std::string& path, const RawModule& module, const WeightTarget& target) {
  const LayoutSpec& spec = spec_of(target.layout);
  const std::string prefix = dotted(target.prefix);
  RawModule grouped = module;
  const std::int64_t heads = module.info.num_heads;
  if (target.kv_heads && !spec.may_be_grouped && *target.kv_heads != heads) {
    require_file(path, sentence("expected a layout that can have fewer key heads, llama or opt, got ", spec.name));
  }
  require_file(path, regroup(grouped, target.kv_heads.value_or(spec.may_be_grouped ? module.info.kv_heads : heads)));

  std::vector<NamedRawTensor> tensors;
  put(tensors, prefix, spec.weights, spec.transposed, grouped.weights, heads);
  if (grouped.biases) put(tensors, prefix, spec.biases, false, *grouped.biases, heads);
  tensors.push_back({prefix + std::string(spec.out_weight),
                     spec.out_transposed ? transposed(grouped.out_weight) : grouped.out_weight});
  if (grouped.out_bias) tensors.push_back({prefix + std::string(spec.out_bias), *grouped.out_bias});
  // "format" is what PyTorch-based readers look for; with "num_heads" the file can be read back alone.
  write_safetensors(path, tensors, {{"format", "pt"}, {"num_heads", std::to_string(heads)}});
}

}  // namespace ennead::io
