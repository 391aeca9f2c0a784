// SPDX-License-Identifier: Apache-2.0
// Projected tokens of a head put into the layouts of attention, in pieces, while the multiply unit projects the next
// ones.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_MODULE_HEAD_WORK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_MODULE_HEAD_WORK_INL_H_
#undef ENNEAD_KERNELS_AMX_MODULE_HEAD_WORK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_MODULE_HEAD_WORK_INL_H_
#endif
#include "kernels/amx/attention/forward/split_head-inl.h"
#include "kernels/amx/tile/fetch_work-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// One head after projection, as attention reads it.
struct ProjectedHead {
  SplitHead split;
  char* queries;       ///< panels of queries, a left operand
  char* query_tame;    ///< per query
  float* query_norms;  ///< per query

  static ProjectedHead take(std::byte*& memory, std::int64_t num_tokens, std::int64_t head_dim) {
    const std::int64_t tokens = panels_of(num_tokens) * kPanel;
    ProjectedHead head;
    head.split = SplitHead::take(memory, num_tokens, head_dim, head_dim);
    head.queries = take_scratch<char>(memory, panels_of(num_tokens) * panel_bytes(head_dim));
    head.query_tame = take_scratch<char>(memory, tokens);
    head.query_norms = take_scratch<float>(memory, tokens);
    return head;
  }
};

/// Rows [queries, keys, values] of `count` <= 32 tokens from `token`, each part filled up with zeros to whole panels.
class HeadRows {
 public:
  HeadRows(const float* rows, std::int64_t token, std::int64_t count, const ProjectedHead& to)
      : rows_(rows),
        token_(token),
        count_(count),
        columns_(panels_of(to.split.head_dim) * kPanel),
        to_(to),
        queries_(rows, 3 * columns_, count, to.split.head_dim,
                 to.queries + token / kPanel * panel_bytes(to.split.head_dim)),
        keys_(rows + columns_, 3 * columns_, count, to.split.head_dim, 1.0F,
              to.split.keys + token / kPanel * panel_bytes(to.split.head_dim)) {}

  /// Rows of values are looked at, then split pair by pair, 16 columns at a time.
  std::int64_t pieces() const { return queries_.pieces() + keys_.pieces() + kPanel + columns_; }
  HWY_NOINLINE void piece(std::int64_t index) {
    if (index < queries_.pieces()) return queries_.piece(index);
    index -= queries_.pieces();
    if (index < keys_.pieces()) return keys_.piece(index);
    index -= keys_.pieces();
    if (index < kPanel) return look_at_values(index);
    split_values((index - kPanel) / kSide * kSide, (index - kPanel) % kSide);
  }
  /// After all pieces. buffer: as for split_keys().
  void finish(float* buffer) {
    const RowFacts& query_facts = queries_.finish();
    std::copy_n(query_facts.tame, count_, to_.query_tame + token_);
    std::copy_n(query_facts.norms, count_, to_.query_norms + token_);
    const RowFacts& key_facts = keys_.finish();
    if (std::count(key_facts.tame, key_facts.tame + count_, 1) != count_ ||
        std::count(values_tame_, values_tame_ + count_, 1) != count_) {
      const std::int64_t head_dim = to_.split.head_dim, width = 3 * columns_;
      return split_keys({rows_ + columns_, {count_, head_dim}, {width, 1}}, 1.0F,
                        {rows_ + 2 * columns_, {count_, head_dim}, {width, 1}}, token_, token_, buffer, to_.split);
    }
    to_.split.add_tame_keys(token_, count_, key_facts.norms, least_value_.get());
  }

 private:
  const float* values(std::int64_t row) const { return rows_ + row * 3 * columns_ + 2 * columns_; }
  void look_at_values(std::int64_t row) {
    if (row >= count_) return;
    const Tag<float> d;
    Bits most = hn::Zero(BitsTag());
    for (std::int64_t j = 0; j < columns_; j += kSide) {
      const Bits value = magnitudes(hn::Load(d, values(row) + j));
      most = hn::Max(most, value);
      least_value_.add(value);
    }
    values_tame_[row] = is_tame(most) ? 1 : 0;
  }
  void split_values(std::int64_t column, std::int64_t pair) const {
    const Tag<float> d;
    const auto load = [&](std::int64_t row)
                          HWY_ATTR { return row < count_ ? hn::Load(d, values(row) + column) : hn::Zero(d); };
    char* const slice = to_.split.value_slice(column / kPanel, token_);
    store_pairs(split(load(pair), load(pair + kSide)), slice + row_offset(column % kPanel) + pair * 64);
  }

  const float* rows_;
  std::int64_t token_, count_, columns_;
  ProjectedHead to_;
  LeftRows queries_;
  RightRows keys_;
  char values_tame_[kPanel];
  LeastMagnitude least_value_;
};

/// Fetches the next tokens and splits the rows that came of those before.
class HeadWork {
 public:
  /// rows: nullptr when there are none.
  HeadWork(const FetchWork& fetch, HeadRows* rows, std::int64_t turns) : fetch_(fetch), rows_(rows) {
    pieces_ = rows ? rows->pieces() : 0;
    each_turn_ = ceil_div(pieces_, std::max<std::int64_t>(1, turns));
    between_ = std::max<std::int64_t>(1, turns / std::max<std::int64_t>(1, pieces_));
    wait_ = between_;
  }
  HWY_INLINE void turn() {
    fetch_.turn();
    if (done_ == pieces_ || --wait_ > 0) return;
    wait_ = between_;
    for (std::int64_t i = 0; i < each_turn_ && done_ < pieces_; ++i) rows_->piece(done_++);
  }
  /// Does what is left.
  void finish() {
    while (done_ < pieces_) rows_->piece(done_++);
  }

 private:
  FetchWork fetch_;
  HeadRows* rows_;
  std::int64_t pieces_, each_turn_, between_, wait_, done_ = 0;
};

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
