// SPDX-License-Identifier: Apache-2.0
// Which layout is it? Answered by names alone, except for the two that share theirs.
#include <algorithm>
#include <set>

#include "io/raw_module.h"
#include "io/text.h"
#include "io/transfer.h"
#include "io/weight_layouts.h"

namespace ennead::io {
namespace {

/// The first few of `names` in quotes.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i > 0 ? ", " : "") + in_quotes(names[i]);
  if (names.size() > kMost) text += sentence(" and ", names.size() - kMost, " more");
  return names.empty() ? "none" : text;
}

/// Names of the file under the prefix, without it.
std::vector<std::string> names_under(const SafetensorsFile& file, const std::string& prefix) {
  std::vector<std::string> names;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    if (entry.name.starts_with(prefix)) names.push_back(entry.name.substr(prefix.size()));
  }
  return names;
}

/// Heads that the wrapper's names count: as many different ones as there are, so that a missing one
/// shows as a missing tensor.
std::int64_t count_heads(const std::vector<std::string>& names) {
  std::set<std::int64_t> heads;
  for (const std::string& name : names) {
    if (const std::int64_t head = head_in(name); head >= 0) heads.insert(head);
  }
  return static_cast<std::int64_t>(heads.size());
}

struct Match {
  const LayoutSpec* spec = nullptr;
  std::size_t present = 0;  ///< weights of Q, K and V that are there
  std::vector<std::string> missing;
};

Match match(const LayoutSpec& spec, const std::vector<std::string>& names) {
  Match match{&spec, 0, {}};
  const std::set<std::string> there(names.begin(), names.end());
  for (const std::string& name : part_names(spec.weights, std::max<std::int64_t>(count_heads(names), 1))) {
    if (there.contains(name)) {
      ++match.present;
    } else {
      match.missing.push_back(name);
    }
  }
  const std::string out(spec.out_weight);
  if (!there.contains(out)) match.missing.push_back(out);
  return match;
}

/// "h.0.attn." for a name that ends as a layout's first weight does.
std::vector<std::string> prefixes_with_a_module(const SafetensorsFile& file) {
  std::set<std::string> found;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    for (const LayoutSpec& spec : layout_specs()) {
      const std::string first = "." + part_names(spec.weights, 1).front();
      if (entry.name.ends_with(first)) found.insert(entry.name.substr(0, entry.name.size() - first.size()));
    }
  }
  return {found.begin(), found.end()};
}

/// GPT-2 and nanoGPT use the same names; the fused weight tells them apart unless it is square.
const LayoutSpec& by_orientation(const SafetensorsFile& file, const std::string& prefix, const LayoutSpec& spec) {
  const auto& fused = file.find(prefix + std::string(spec.weights.names[0]))->sizes;
  const auto& out = file.find(prefix + std::string(spec.out_weight))->sizes;
  const std::int64_t d_out = out.empty() ? 0 : out[0];
  const bool matrix = fused.size() == 2 && d_out > 0;
  const bool by_columns = matrix && fused[1] % 3 == 0 && fused[1] / 3 == d_out;
  const bool by_rows = matrix && fused[0] % 3 == 0 && fused[0] / 3 == d_out;
  if (by_columns && by_rows) {
    require_file(file.path(), sentence("expected one layout, got one that may be gpt2 or nanogpt, since ",
                                       spec.weights.names[0], " is square: say which"));
  }
  return spec_of(by_rows ? WeightLayout::nanogpt : WeightLayout::gpt2);
}

[[noreturn]] void refuse_unknown(const SafetensorsFile& file, const std::string& prefix,
                                 const std::vector<std::string>& names) {
  std::string known;
  for (const LayoutSpec& spec : layout_specs()) known += (known.empty() ? "" : ", ") + std::string(spec.name);
  const std::vector<std::string> prefixes = prefixes_with_a_module(file);
  std::string hint = prefixes.empty() ? "" : "; a prefix (--prefix) may be one of " + listed(prefixes);
  throw FileError(sentence(in_quotes(file.path()), ": expected the weights of one of the layouts ", known,
                           " under the prefix ", in_quotes(prefix), ", got the tensors ",
                           listed(names.empty() ? names_under(file, "") : names), hint));
}

}  // namespace

std::string dotted(const std::string& prefix) { return prefix.empty() || prefix.back() == '.' ? prefix : prefix + "."; }

WeightLayout recognize(const SafetensorsFile& file, const WeightSource& source) {
  const std::string prefix = dotted(source.prefix);
  const std::vector<std::string> names = names_under(file, prefix);
  std::vector<Match> begun, complete;
  for (const LayoutSpec& spec : layout_specs()) {
    if (source.layout && spec.layout != *source.layout) continue;
    const Match each = match(spec, names);
    if (each.present > 0 || source.layout) begun.push_back(each);
    if (each.missing.empty()) complete.push_back(each);
  }
  if (begun.empty()) refuse_unknown(file, prefix, names);
  if (complete.empty()) {
    const Match& best = *std::min_element(
        begun.begin(), begun.end(), [](const Match& a, const Match& b) { return a.missing.size() < b.missing.size(); });
    require_file(file.path(), sentence("expected all weights of the layout ", best.spec->name, ", got ", listed(names),
                                       ", and not ", listed(best.missing)));
  }
  if (complete.size() == 1) return complete.front().spec->layout;
  if (complete.size() == 2 && complete[0].spec->layout == WeightLayout::gpt2 &&
      complete[1].spec->layout == WeightLayout::nanogpt) {
    return by_orientation(file, prefix, *complete[0].spec).layout;
  }
  require_file(file.path(), sentence("expected one layout, got the weights of ", complete[0].spec->name, " and of ",
                                     complete[1].spec->name, ": ", listed(names)));
  return complete.front().spec->layout;
}

}  // namespace ennead::io
