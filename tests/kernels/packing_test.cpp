// SPDX-License-Identifier: Apache-2.0
// kernels: the pieces that pack keys, values and projected tokens, each with memory of its own between guards, on every
// instruction set. In a call the pieces of scratch lie side by side, so that what is written past one of them, and
// covered by what comes later, shows in no result.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packing_test.cpp"
#include "kernels/shared/targets.h"
#include "kernels/amx/module/head_work-inl.h"
#include "kernels/simd/attention/forward/pack-inl.h"
// clang-format on

#include <gtest/gtest.h>

#include "support/contexts.h"
#include "support/kernel_operands.h"

HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {
namespace {

#if ENNEAD_SIMD
using simd::kPanelKeys;
using test::AlignedBuffer;

/// Packs the keys and values of a head, step by step, into pieces of exactly the size they need.
template <class T>
void check_packed_head(std::int64_t num_keys, std::int64_t head_dim, std::int64_t value_dim) {
  test::Random random(1);
  const test::Operand<T, 2> k({num_keys, head_dim}, random), v({num_keys, value_dim}, random);
  const std::int64_t steps = ceil_div(num_keys, kStepKeys), stride = padded_row<T>(value_dim);
  const auto count = [](std::int64_t elements) { return static_cast<std::size_t>(elements); };
  AlignedBuffer<T> keys(count(ceil_div(num_keys, kPanelKeys<T>) * kPanelKeys<T> * head_dim)),
      values(count(num_keys * stride)), norms(count(steps)), maxima(count(steps)), minima(count(steps));
  simd::PackedHead<T> head{head_dim, stride, keys.data(), values.data(), norms.data(), maxima.data(), minima.data()};
  for (std::int64_t step = 0; step < steps; ++step) simd::pack_step(k.view(), T(2), v.view(), step, values.data(), head);
  EXPECT_TRUE(keys.intact()) << "keys";
  EXPECT_TRUE(values.intact()) << "values";
  EXPECT_TRUE(norms.intact() && maxima.intact() && minima.intact()) << "norms and ranges";
  for (std::int64_t key = 0; key < ceil_div(num_keys, kPanelKeys<T>) * kPanelKeys<T>; ++key) {
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const T packed = head.panel(key / kPanelKeys<T> * kPanelKeys<T>)[d * kPanelKeys<T> + key % kPanelKeys<T>];
      ASSERT_EQ(packed, key < num_keys ? 2 * k.view()(key, d) : T(0)) << "key " << key << ", " << d;
    }
  }
}

template <class T>
void check_packed_heads() {
  for (const std::int64_t num_keys : {1, 15, 64, 65, 100, 256, 257, 300}) {
    for (const std::int64_t head_dim : {1, 7, 16, 33}) {
      SCOPED_TRACE(testing::Message() << num_keys << " keys of " << head_dim);
      check_packed_head<T>(num_keys, head_dim, head_dim + 1);
    }
  }
}
#endif

#if ENNEAD_AMX
/// What attention reads of `count` projected tokens, put in place a piece at a time; rows beyond them hold `beyond`.
struct TokensInPlace {
  AlignedBuffer<char> memory;
  amx::ProjectedHead head;

  TokensInPlace(std::int64_t count, std::int64_t head_dim, float beyond)
      : memory(scratch_taken([&](std::byte*& at) { amx::ProjectedHead::take(at, count, head_dim); })) {
    std::byte* at = reinterpret_cast<std::byte*>(memory.data());
    head = amx::ProjectedHead::take(at, count, head_dim);
    const std::int64_t columns = amx::panels_of(head_dim) * amx::kPanel;
    test::Random random(2);
    AlignedBuffer<float> rows(static_cast<std::size_t>(3 * columns * amx::kPanel)),
        buffer(static_cast<std::size_t>(amx::kPanel * head_dim));
    for (std::int64_t i = 0; i < amx::kPanel; ++i) {
      for (std::int64_t j = 0; j < 3 * columns; ++j) {
        float& element = rows.data()[i * 3 * columns + j];
        element = i >= count ? beyond : j % columns < head_dim ? static_cast<float>(random.normal()) : 0.0F;
      }
    }
    amx::HeadRows work(rows.data(), 0, count, head);
    for (std::int64_t piece = 0; piece < work.pieces(); ++piece) work.piece(piece);
    work.finish(buffer.data());
    EXPECT_TRUE(memory.intact() && buffer.intact());
  }
};

/// Rows of the buffer beyond the tokens hold those of other tokens: nothing may come of them.
void check_rows_beyond_the_tokens() {
  for (const std::int64_t count : {1, 5, 16, 17, 31}) {
    for (const std::int64_t head_dim : {5, 16, 33, 64}) {
      SCOPED_TRACE(testing::Message() << count << " tokens, heads of " << head_dim);
      const TokensInPlace want(count, head_dim, 1.0F);
      for (const float beyond : {0x1p-100F, 0x1p100F, std::numeric_limits<float>::quiet_NaN()}) {
        const TokensInPlace got(count, head_dim, beyond);
        EXPECT_EQ(got.head.split.least_values[0], want.head.split.least_values[0]) << "the smallest value";
        EXPECT_EQ(got.head.split.key_norms[0], want.head.split.key_norms[0]) << "the largest norm of a key";
        EXPECT_EQ(got.head.split.all_tame[0], 1);
        for (std::int64_t i = 0; i < count; ++i) {
          EXPECT_EQ(got.head.query_norms[i], want.head.query_norms[i]) << "norm of query " << i;
          EXPECT_EQ(got.head.query_tame[i], 1) << "query " << i;
        }
        for (std::int64_t panel = 0; panel < amx::panels_of(head_dim); ++panel) {
          EXPECT_EQ(std::memcmp(got.head.split.value_slice(panel, 0), want.head.split.value_slice(panel, 0),
                                static_cast<std::size_t>(amx::kSliceBytes)),
                    0)
              << "values, panel " << panel;
        }
      }
    }
  }
}
#endif

}  // namespace

/// All checks of one instruction set.
template <class T>
void check_packing() {
#if ENNEAD_SIMD
  check_packed_heads<T>();
#endif
#if ENNEAD_AMX
  check_rows_beyond_the_tokens();
#endif
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ennead::test {
namespace {

template <class T>
void check(Isa isa) {
  using namespace ennead::kernels;
#if HWY_TARGETS & HWY_AVX3
  if (isa == Isa::avx512) return N_AVX3::check_packing<T>();
#endif
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::avx2) return N_AVX2::check_packing<T>();
#endif
#if HWY_TARGETS & HWY_SSE4
  if (isa == Isa::sse4) return N_SSE4::check_packing<T>();
#endif
#if HWY_TARGETS & HWY_NEON
  if (isa == Isa::neon) return N_NEON::check_packing<T>();
#endif
#if HWY_TARGETS & HWY_WASM
  if constexpr (sizeof(T) == 4) {
    if (isa == Isa::wasm128) return N_WASM::check_packing<T>();
  }
#endif
}

// Mutants: a panel's last rows filled up past its end; a step too many of keys; a row of another token looked at.
TEST(KernelsPacking, EachPieceKeepsToItsMemoryFloat) {
  for_each_isa([](Isa isa) { check<float>(isa); });
}
TEST(KernelsPacking, EachPieceKeepsToItsMemoryDouble) {
  for_each_isa([](Isa isa) { check<double>(isa); });
}

}  // namespace
}  // namespace ennead::test
#endif  // HWY_ONCE
