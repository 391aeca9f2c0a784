// SPDX-License-Identifier: Apache-2.0
// The weights of one attention module, out of the files that people have and into them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ennead/export.h"
#include "ennead/io.h"
#include "ennead/variants.h"

ENNEAD_API_BEGIN
namespace ennead {

/// How a module names its tensors and which way round it stores them.
enum class WeightLayout {
  heads,             ///< the book's wrapper: heads.N.W_query.weight ..., out_proj
  split,             ///< the book's MultiHeadAttention: W_query.weight ..., out_proj
  qkv,               ///< qkv.weight [3 * d_out, d_in], proj
  einsum,            ///< bare W_query ... [d_in, d_out], bias_q ..., out_proj
  in_proj,           ///< nn.MultiheadAttention: in_proj_weight [3 * d_out, d_in], out_proj
  in_proj_separate,  ///< nn.MultiheadAttention with kdim or vdim: q_proj_weight ..., in_proj_bias, out_proj
  gpt2,              ///< c_attn.weight [d_in, 3 * d_out], c_proj, both transposed
  nanogpt,           ///< c_attn.weight [3 * d_out, d_in], c_proj
  llama,             ///< q_proj.weight ..., o_proj; may have fewer key heads
  opt                ///< q_proj.weight ..., out_proj; may have fewer key heads
};

std::span<const WeightLayout> weight_layouts();
std::string_view name(WeightLayout layout);
std::optional<WeightLayout> parse_weight_layout(std::string_view name);

/// Which tensors of a file are meant.
struct WeightSource {
  std::string prefix;  ///< what comes before the names, e.g. "h.0.attn"; the last dot may be left out
  std::optional<std::int64_t> num_heads;  ///< needed where neither the layout nor the file's metadata tells
  std::optional<WeightLayout> layout;     ///< found by the names when not given
};

/// What a file holds besides numbers.
struct WeightFileInfo {
  WeightLayout layout = WeightLayout::split;
  std::int64_t num_heads = 1;
  std::int64_t kv_heads = 1;  ///< fewer than num_heads: query head h uses key head h / (num_heads / kv_heads)
  DType dtype = DType::float32;
  std::vector<std::string> notes;  ///< tensors that were passed over and matter, one sentence each
};

template <class T>
struct LoadedWeights {
  Config config;  ///< d_in, d_out, num_heads, qkv_bias and out_bias; the rest is the caller's
  Weights<T> weights;
  WeightFileInfo info;
};

/// Reads the weights of one module. Fewer key heads than query heads are expanded: each is repeated,
/// which changes no result. Throws FileError: no layout or more than one fits, tensors are missing
/// (named, with those found), tensors are there that the layout does not explain, sizes do not fit
/// each other, or the number of heads cannot be known.
template <class T>
ENNEAD_API LoadedWeights<T> load_weights(const Context& context, const std::string& path,
                                         const WeightSource& source = {});

struct WeightTarget {
  WeightLayout layout = WeightLayout::split;
  std::string prefix;  ///< put before every name
  /// Key heads to store, in the layouts that can hold fewer; as many as the source has when not given.
  std::optional<std::int64_t> kv_heads;
};

/// Writes the module that `path` holds as another layout stores it: the same bits, moved. Throws
/// FileError as load_weights() does, and when heads that are to share one key head are not equal.
WeightFileInfo convert_weights(const std::string& path, const WeightSource& source, const std::string& output,
                               const WeightTarget& target);

}  // namespace ennead
ENNEAD_API_END
