// SPDX-License-Identifier: Apache-2.0
// A packed right operand.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_SPLIT_PACKED_RIGHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_SPLIT_PACKED_RIGHT_INL_H_
#undef ENNEAD_KERNELS_AMX_SPLIT_PACKED_RIGHT_INL_H_
#else
#define ENNEAD_KERNELS_AMX_SPLIT_PACKED_RIGHT_INL_H_
#endif
#include "kernels/amx/split/panels-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// A right operand, packed: panels over the whole depth, whether the multiply unit gets all of it right, and which
/// columns it does. Other columns are kept whole in their places.
struct PackedRight {
  const PackedByte* data;
  std::int64_t depth, columns;

  static constexpr std::int64_t panels_bytes(std::int64_t depth, std::int64_t columns) {
    return ceil_div(columns, kPanel) * panel_bytes(depth);
  }
  static constexpr std::int64_t bytes(std::int64_t depth, std::int64_t columns) {
    constexpr std::int64_t kLine = kAlignment;
    return panels_bytes(depth, columns) + kLine + ceil_div(ceil_div(columns, kPanel) * kPanel, kLine) * kLine;
  }
  /// Where the facts about the columns of a panel lie.
  static constexpr std::int64_t tame_offset(std::int64_t depth, std::int64_t columns, std::int64_t panel) {
    return panels_bytes(depth, columns) + std::int64_t{kAlignment} + panel * kPanel;
  }
  std::int64_t panels() const { return ceil_div(columns, kPanel); }
  const char* panel(std::int64_t index) const { return at(index * panel_bytes(depth)); }
  bool tame() const { return *at(panels_bytes(depth, columns)) != 0; }
  /// Per column of a panel.
  const char* tame_columns(std::int64_t panel) const { return at(tame_offset(depth, columns, panel)); }
  bool all_tame(std::int64_t panel) const {
    const char* const tame = tame_columns(panel);
    return std::all_of(tame, tame + kPanel, [](char each) { return each != 0; });
  }

 private:
  const char* at(std::int64_t offset) const { return reinterpret_cast<const char*>(data + offset); }
};

/// A packed right operand while it is packed, a panel at a time in any order.
class RightPacker {
 public:
  RightPacker(std::int64_t depth, std::int64_t columns, PackedByte* data)
      : packed_{data, depth, columns}, data_(reinterpret_cast<char*>(data)) {}

  /// Panel `to` from columns [32 from, 32 from + 32) of an operand given as [columns, depth], times factor.
  void pack(const View<const float, 2>& lines, std::int64_t from, float factor, std::int64_t to) const {
    const std::int64_t columns = std::min(kPanel, lines.size(0) - from * kPanel), depth = packed_.depth;
    char* const panel = data_ + to * panel_bytes(depth);
    char* const tame = data_ + PackedRight::tame_offset(depth, packed_.columns, to);
    LineMaxima maxima;
    split_panel<Side::right>(lines, from * kPanel, columns, 0, depth, factor, panel, &maxima);
    for (std::int64_t line = 0; line < kPanel; ++line) {
      tame[line] = line >= columns || is_tame(maxima.of(line)) ? 1 : 0;
    }
    if (packed_.all_tame(to)) return;
    split_panel<Side::right>(lines, from * kPanel, columns, 0, depth, factor, panel, nullptr, tame);
  }
  /// After the last panel.
  void finish() const {
    bool tame = true;
    for (std::int64_t panel = 0; panel < packed_.panels(); ++panel) tame = tame && packed_.all_tame(panel);
    data_[PackedRight::panels_bytes(packed_.depth, packed_.columns)] = tame ? 1 : 0;
  }

 private:
  PackedRight packed_;
  char* data_;
};

inline void pack_right(const View<const float, 2>& lines, float factor, PackedByte* packed) {
  const RightPacker packer(lines.size(1), lines.size(0), packed);
  for (std::int64_t panel = 0; panel < ceil_div(lines.size(0), kPanel); ++panel)
    packer.pack(lines, panel, factor, panel);
  packer.finish();
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
