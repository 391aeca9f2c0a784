// SPDX-License-Identifier: Apache-2.0
// The variants against what PyTorch computes: files in tests/golden, made by tools/golden.
#include "support/golden.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ennead/tape.h"
#include "ennead/variants.h"
#include "oracle/compare.h"
#include "oracle/oracle.h"
#include "support/attention.h"
#include "support/contexts.h"
#include "support/expect.h"

namespace ennead::test {
namespace {

// What float64 may differ by from PyTorch's float64: rounding alone. The promise is 1e-6; a kernel that
// falls back to float32 somewhere would still keep that, and is caught by this.
constexpr double kExact = 1e-12;

class GoldenModule : public testing::TestWithParam<std::string> {
 protected:
  GoldenFile file_{GetParam()};
};

class GoldenWeights : public GoldenModule {};
class GoldenGradients : public GoldenModule {};

bool has_attn_weights(const GoldenFile& file) { return file.has("f64.attn_weights"); }
bool has_no_mask(const GoldenFile& file) { return file.names("mask.").empty(); }

template <class T>
bool takes(const VariantInfo& info, const CallOptions<T>& options) {
  return (options.attn_mask.empty() || info.supports.attn_mask) &&
         (options.key_padding_block.empty() || info.supports.key_padding_mask);
}

// Catches: heads mixed up when H > 1, a transposed weight (d_in != d_out), a forgotten bias, a scale from
// d_out, a mask read the other way round, padding that is ignored, a blocked row that is not zeros.
TEST_P(GoldenModule, Float64OutputsArePyTorchs) {
  const std::vector<double> expected = file_.values("f64.output");
  for_each_isa([&](Isa isa) {
    const Context context = poisoned_context({.isa = isa});
    const auto module = file_.module<double>(context);
    int count = 0;
    for (const VariantInfo& info : variants()) {
      if (!takes(info, module.options)) continue;
      SCOPED_TRACE(info.slug);
      const auto variant = make_variant(info, module.config, module.weights);
      const CallResult<double> result = (*variant)(module.x, module.options);
      EXPECT_TRUE(close(expected, result.output, {kExact, kExact}));
      ++count;
    }
    EXPECT_GE(count, has_no_mask(file_) ? static_cast<int>(variants().size()) : 2);
  });
}

/// How far rounding in float32 may move each row of a case.
std::vector<double> rounding_of(const GoldenModuleInputs<float>& module) {
  const std::int64_t tokens = module.x.size(1), heads = module.config.num_heads;
  const oracle::AttentionShape shape{
      .batch = module.x.size(0), .heads = heads, .kv_heads = heads, .num_queries = tokens, .num_keys = tokens};
  oracle::Rules rules =
      rules_of<float>({.attn_mask = module.options.attn_mask, .is_causal = module.config.is_causal}, shape);
  if (const Tensor<bool>& blocked = module.options.key_padding_block; !blocked.empty()) {
    rules.allow = [allow = rules.allow, blocked](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
      return !blocked.at({b, k}) && (!allow || allow(b, h, q, k));
    };
  }
  return oracle::judged_rows(to_oracle(module.config, module.weights), to_doubles(module.x), shape.batch, tokens, rules,
                             {}, std::numeric_limits<float>::epsilon())
      .rounding;
}

// Catches: a float32 kernel that sums in too few accumulators or takes a shortcut in the exponential.
TEST_P(GoldenModule, Float32OutputsKeepTheRule) {
  const std::vector<double> expected = file_.values("f64.output");
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  const std::int64_t row_length = file_.integer("d_out");
  for_each_isa([&](Isa isa) {
    const Context context = poisoned_context({.isa = isa});
    const auto module = file_.module<float>(context);
    const std::vector<double> rounding = rounding_of(module);
    // Variant 1 sets the measure; where it does not take the masks, PyTorch's own float32 does.
    double error_of_first = 0;
    if (file_.has("f32.output")) {
      error_of_first = oracle::compare(expected, file_.values("f32.output"), row_length, {1, 0}).max_abs_err;
    }
    for (const VariantInfo& info : variants()) {
      if (!takes(info, module.options)) continue;
      SCOPED_TRACE(info.slug);
      const auto variant = make_variant(info, module.config, module.weights);
      const Tensor<float> output = (*variant)(module.x, module.options).output;
      const bool is_first = info.number == 1;
      const oracle::Tolerance tolerance =
          is_first ? oracle::first_tolerance(kEpsilon) : oracle::tolerance_against_first(error_of_first, kEpsilon);
      EXPECT_TRUE(close(expected, output, tolerance, rounding));
      if (is_first) error_of_first = oracle::compare(expected, to_doubles(output), row_length, tolerance).max_abs_err;
    }
  });
}

// Catches: weights that come out averaged when every head was asked for or the other way round, weights
// that do not sum to 1, rebuilt without the mask or with the wrong scale; an output that changes when asked.
TEST_P(GoldenWeights, AreTheModules) {
  const Context context = poisoned_context();
  auto module = file_.module<double>(context);
  const VariantInfo& info = *find_variant("module_need_weights");
  const auto variant = make_variant(info, module.config, module.weights);
  const Tensor<double> plain = (*variant)(module.x, module.options).output;
  module.options.need_weights = true;
  for (const bool average : {false, true}) {
    module.options.average_attn_weights = average;
    const CallResult<double> result = (*variant)(module.x, module.options);
    EXPECT_TRUE(close(file_.values(average ? "f64.attn_weights_averaged" : "f64.attn_weights"), result.attn_weights,
                      {kExact, kExact}));
    EXPECT_TRUE(same_bits(plain, result.output));
  }
}

// Catches: a derivative with a wrong factor, a transposed or unaccumulated one (x feeds three
// products), a bias gradient not summed over the batch, one that never reaches the canonical weights.
TEST_P(GoldenGradients, OfTheEagerVariantsArePyTorchs) {
  const Context context = poisoned_context();
  for (const VariantInfo& info : variants()) {
    if (!info.supports.gradient) continue;
    SCOPED_TRACE(info.slug);
    auto module = file_.module<double>(context);
    Tape tape;
    context.set_tape(&tape);
    tape.watch(module.x);
    for_each_weight(module.weights, [&](const char*, Tensor<double>& weight) { tape.watch(weight); });
    const auto variant = make_variant(info, module.config, module.weights);
    tape.backward((*variant)(module.x), module.dy);
    // One scale for all: the gradient of the key bias is zero but for rounding.
    const double scale = file_.largest("f64.gradient.");
    const oracle::Tolerance tolerance{kExact * scale, kExact};
    EXPECT_TRUE(close(file_.values("f64.gradient.x"), tape.gradient(module.x), tolerance));
    for_each_weight(module.weights, [&](const char* name, Tensor<double>& weight) {
      EXPECT_TRUE(close(file_.values("f64.gradient." + golden_name(name)), tape.gradient(weight), tolerance)) << name;
    });
    context.set_tape(nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenModule, testing::ValuesIn(golden_cases("module")), case_name);
INSTANTIATE_TEST_SUITE_P(Cases, GoldenWeights, testing::ValuesIn(golden_cases("module", has_attn_weights)), case_name);
// The eager variants take no masks besides causality.
INSTANTIATE_TEST_SUITE_P(Cases, GoldenGradients, testing::ValuesIn(golden_cases("module", has_no_mask)), case_name);

class GoldenDefect : public testing::TestWithParam<std::string> {};

// Catches: Ennead with a defect of the original. The comparison must also be able to tell: each of the
// defective outputs, taken for Ennead's, has to fail it.
TEST_P(GoldenDefect, IsNotEnneads) {
  const GoldenFile file(GetParam());
  const Context context = poisoned_context();
  const auto module = file.module<float>(context);
  const oracle::Tolerance tolerance = oracle::first_tolerance(std::numeric_limits<float>::epsilon());
  const std::vector<std::string> defects = file.names("f64.defect.");
  ASSERT_GE(defects.size(), 2u);
  for (const std::string& defect : defects) {
    SCOPED_TRACE(defect);
    const std::vector<double> wrong = file.values(defect);
    EXPECT_FALSE(oracle::compare(file.values("f64.output"), wrong, module.config.d_out, tolerance));
    for (const VariantInfo& info : variants()) {
      const auto variant = make_variant(info, module.config, module.weights);
      EXPECT_FALSE(close(wrong, (*variant)(module.x), tolerance)) << info.slug;
    }
  }
}

// Catches: a mask that hides what it should show. The inverted mask looks at the future only, so its
// first token sees what causality forbids and its last one nothing at all.
TEST_P(GoldenDefect, AnInvertedMaskIsRecognised) {
  const GoldenFile file(GetParam());
  const Context context = poisoned_context();
  auto module = file.module<double>(context);
  const std::int64_t tokens = module.x.size(1);
  module.config.is_causal = false;
  module.options.attn_mask.allowed = causal_mask(context, tokens);  // true above the diagonal, taken as "may see"
  const auto variant = make_variant(*find_variant("explicit_mask"), module.config, module.weights);
  EXPECT_TRUE(
      close(file.values("f64.defect.inverted_mask"), (*variant)(module.x, module.options).output, {kExact, kExact}));
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenDefect, testing::Values("square", "square_bias"), case_name);

}  // namespace
}  // namespace ennead::test
