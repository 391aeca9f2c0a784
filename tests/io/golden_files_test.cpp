// SPDX-License-Identifier: Apache-2.0
// Files as PyTorch and NumPy write them: the weights of one module in every layout, one array in every form.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ennead/weight_files.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/golden.h"

namespace ennead::test {
namespace {

class GoldenLayout : public testing::TestWithParam<std::string> {
 protected:
  GoldenFile file_{GetParam()};

  LoadedWeights<double> load(const Context& context) const {
    WeightSource source;
    source.prefix = file_.text("prefix");
    source.num_heads = file_.integer("num_heads");
    return load_weights<double>(context, file_.path(), source);
  }
};

// Catches: Q, K and V taken in another order, a transpose too many or too few, heads cut along the wrong
// axis, a buffer (the book's mask, GPT-2's bias) taken for a weight, the wrong layer of a whole model.
TEST_P(GoldenLayout, HoldsTheWeightsOfTheCase) {
  const Context context = poisoned_context();
  const LoadedWeights<double> loaded = load(context);
  const GoldenFile origin(file_.text("case"));
  const auto module = origin.module<double>(context);
  EXPECT_EQ(name(loaded.info.layout), file_.text("layout"));
  EXPECT_EQ(loaded.config.num_heads, module.config.num_heads);
  EXPECT_EQ(loaded.config.d_in, module.config.d_in);
  for_each_weight(loaded.weights, [&](const char* name, const Tensor<double>& weight) {
    const std::string golden = "weights." + golden_name(name);
    // GPT-2 always has biases; without any in the module they are zeros.
    const std::vector<double> expected =
        origin.has(golden) ? origin.values(golden) : std::vector<double>(to_doubles(weight).size());
    EXPECT_EQ(expected, to_doubles(weight)) << name;
  });
}

bool has_the_weights_of_a_case(const GoldenFile& file) {
  return !GoldenFile(file.text("case")).names("weights.").empty();  // grouped and half hold others
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenLayout, testing::ValuesIn(golden_cases("layout", has_the_weights_of_a_case)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Models, GoldenLayout, testing::ValuesIn(golden_cases("model")), case_name);

// Catches: key heads repeated in turn (0, 1, 0, 1) and not in groups (0, 0, 1, 1).
TEST(GoldenGrouped, FewerKeyHeadsGivePyTorchsOutput) {
  const Context context = poisoned_context();
  const GoldenFile grouped("grouped"), layout("layout_llama_grouped");
  WeightSource source;
  source.num_heads = layout.integer("num_heads");
  auto loaded = load_weights<double>(context, layout.path(), source);
  EXPECT_EQ(loaded.info.kv_heads, 2);
  const auto x = grouped.tensor<double>(context, "x");
  loaded.config.context_length = x.size(1);
  loaded.config.is_causal = true;
  for (const VariantInfo& info : variants()) {
    const auto variant = make_variant(info, loaded.config, loaded.weights);
    EXPECT_TRUE(close(grouped.values("f64.output"), (*variant)(x), {1e-12, 1e-12})) << info.slug;
  }
}

class GoldenHalf : public testing::TestWithParam<std::string> {};

// Catches: the two half types taken for one another, a subnormal or a sign lost in conversion.
TEST_P(GoldenHalf, WeightsGivePyTorchsOutput) {
  const Context context = poisoned_context();
  const GoldenFile half("half"), layout("layout_split_" + GetParam());
  WeightSource source;
  source.num_heads = layout.integer("num_heads");
  auto loaded = load_weights<double>(context, layout.path(), source);
  const auto x = half.tensor<double>(context, "x");
  loaded.config.context_length = x.size(1);
  loaded.config.is_causal = true;
  const auto variant = make_variant(*find_variant("weight_split"), loaded.config, loaded.weights);
  EXPECT_TRUE(close(half.values("f64.output." + GetParam()), (*variant)(x), {1e-12, 1e-12}));
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenHalf, testing::Values("float16", "bfloat16"), case_name);

class GoldenNpy : public testing::TestWithParam<std::string> {};

// Catches: Fortran order read as C order, bytes not swapped, a header of version 2 or 3 misread, half
// bits taken for integers. The array is a[i, j, k] = 100 i + 10 j + k + 0.5, exact in every type.
TEST_P(GoldenNpy, IsTheArrayNumPyWrote) {
  const Context context = poisoned_context();
  const auto array = read_npy<double>(context, golden_path("npy/" + GetParam() + ".npy"));
  ASSERT_EQ(array.sizes(), (Dims{2, 3, 4}));
  for_each_index(array.sizes(), [&](const Dims& at) {
    EXPECT_EQ(element(array, at), 100.0 * static_cast<double>(at[0]) + 10.0 * static_cast<double>(at[1]) +
                                      static_cast<double>(at[2]) + 0.5);
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, GoldenNpy,
                         testing::Values("float32_v1", "float64_v2", "float32_v3", "float32_fortran",
                                         "float64_big_endian", "float32_big_endian_fortran", "float16",
                                         "float16_big_endian", "bfloat16"),
                         case_name);

// Catches: a shape without axes read as empty, an empty array refused, booleans read as numbers.
TEST(GoldenNpyShapes, NoAxisNoElementAndBooleans) {
  const Context context = poisoned_context();
  const auto scalar = read_npy<float>(context, golden_path("npy/scalar.npy"));
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.data()[0], 0.5f);
  EXPECT_EQ(read_npy<float>(context, golden_path("npy/empty.npy")).sizes(), (Dims{0, 3}));
  const auto mask = read_npy<bool>(context, golden_path("npy/bool.npy"));
  ASSERT_EQ(mask.sizes(), (Dims{2, 3, 4}));
  for_each_index(mask.sizes(), [&](const Dims& at) { EXPECT_EQ(element(mask, at), at[0] == 1); });
}

}  // namespace
}  // namespace ennead::test
