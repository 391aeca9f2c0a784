// SPDX-License-Identifier: Apache-2.0
// Files of weights that are refused, and by which words.
#include <gtest/gtest.h>

#include "support/weight_tensors.h"

namespace ennead {
namespace {

using namespace test;
using WeightFilesRefused = WeightFiles;

TEST_F(WeightFilesRefused, RefusesHeadsThatDoNotDivide) {
  EXPECT_TRUE(refused(split_module(DType::float32, false, random), {"5 heads divide, got 12"}, {"", 5, {}}));
  EXPECT_TRUE(refused(split_module(DType::float32, false, random, 3), {"whose number divides 4, got 9 rows"}));
  EXPECT_TRUE(refused(split_module(DType::float32, false, random, 8), {"1 to 4 heads", "got 24 rows"}));
  Tensors odd = split_module(DType::float32, false, random);
  odd[1].tensor = ordinary({kOut - 1, kIn}, random);
  EXPECT_TRUE(refused(odd, {"got 11 rows"}));
  odd = split_module(DType::float32, false, random, 2);
  odd[2].tensor = ordinary({kOut, kIn}, random);
  EXPECT_TRUE(refused(odd, {"as many rows in the value weight as in the key weight, 6, got 12"}));
}

TEST_F(WeightFilesRefused, HeadsComeFromLayoutMetadataOrCaller) {
  const Tensors tensors = split_module(DType::float32, false, random);
  EXPECT_TRUE(refused(tensors, {"number of heads (--heads)", "layout split", "got none"}, {}));
  EXPECT_TRUE(refused(tensors, {"got 0"}, {"", 0, {}}));
  const std::string told = write("told", tensors, {{"num_heads", "3"}});
  EXPECT_EQ(load_weights<double>(context, told).config.num_heads, 3);
  EXPECT_TRUE(refuses(
      [&] {
        load_weights<double>(context, told, {"", 4, {}});
      },
      {"the 3 heads that the file tells of, got 4"}));
  const std::string wrong = write("wrong", tensors, {{"num_heads", "3x"}});
  EXPECT_TRUE(refuses([&] { load_weights<double>(context, wrong); }, {"num_heads in the file's metadata, got \"3x\""}));
  convert_weights(told, {}, dir / "heads", {WeightLayout::heads, "", {}});
  EXPECT_TRUE(refuses([&] { load_weights<double>(context, dir / "heads", {"", 4, {}}); }, {"the 3 heads"}));
}

/// `tensors` without the one of that name.
Tensors without(Tensors tensors, std::string_view name) {
  std::erase_if(tensors, [&](const NamedRawTensor& each) { return each.name == name; });
  return tensors;
}

TEST_F(WeightFilesRefused, RefusesWhatIsIncompleteOrAmbiguous) {
  const Tensors good = split_module(DType::float32, true, random);
  EXPECT_TRUE(
      refused(without(good, "W_key.weight"), {"layout split, got \"W_query.weight\"", "and not \"W_key.weight\""}));
  EXPECT_TRUE(refused(without(good, "out_proj.weight"), {"and not \"out_proj.weight\""}));
  EXPECT_TRUE(refused(without(good, "W_key.bias"), {"biases for all of Q, K and V", "and not \"W_key.bias\""}));
  EXPECT_TRUE(
      refused({{"x", ordinary({1}, random)}}, {"one of the layouts heads, split, qkv", "got the tensors \"x\""}));
  EXPECT_TRUE(refused({}, {"got the tensors none"}));

  Tensors two = good;
  two.push_back({"qkv.weight", ordinary({3 * kOut, kIn}, random)});
  EXPECT_TRUE(refused(two, {"expected only what the layout split has", "got \"qkv.weight\" too"}));
  two.push_back({"proj.weight", ordinary({kOut, kOut}, random)});
  EXPECT_TRUE(refused(two, {"expected one layout, got the weights of split and of qkv"}));
  EXPECT_TRUE(refused(two, {"layout split", "got \"qkv.weight\" too"}, {"", kHeads, WeightLayout::split}));

  Tensors more = good;
  more.push_back({"q_norm.weight", ordinary({kHeadDim}, random)});
  EXPECT_TRUE(refused(more, {"got \"q_norm.weight\" too"}));
  const Tensors bias_key = {{"in_proj_weight", ordinary({3 * kOut, kIn}, random)},
                            {"out_proj.weight", ordinary({kOut, kOut}, random)},
                            {"bias_k", ordinary({1, 1, kOut}, random)}};
  EXPECT_TRUE(refused(bias_key, {"layout in_proj", "got \"bias_k\" too"}));
}

TEST_F(WeightFilesRefused, RefusesSizesThatDoNotFit) {
  const auto with = [&](std::size_t place, const Dims& sizes) {
    Tensors tensors = split_module(DType::float32, true, random);
    tensors[place].tensor = ordinary(sizes, random);
    return tensors;
  };
  EXPECT_TRUE(refused(with(0, {kOut, kIn, 1}), {"expected 2 axes in \"W_query.weight\", got sizes [12, 5, 1]"}));
  EXPECT_TRUE(refused(with(1, {kOut, kIn + 1}), {"the same d_in for all weights, got 5 and, in \"W_key.weight\", 6"}));
  EXPECT_TRUE(refused(with(3, {kOut, kOut + 1}), {"expected sizes [12, 12] for \"out_proj.weight\", got [12, 13]"}));
  EXPECT_TRUE(refused(with(3, {kOut * kOut}), {"expected a matrix as \"out_proj.weight\", got sizes [144]"}));
  EXPECT_TRUE(refused(with(4, {kOut + 1}), {"expected sizes [12] for \"out_proj.bias\", got [13]"}));
  EXPECT_TRUE(refused(with(6, {kOut - 1}), {"expected a bias of 12 numbers for K, got 11"}));
  EXPECT_TRUE(refused({{"W_query.weight", ordinary({0, 3}, random)},
                       {"W_key.weight", ordinary({0, 3}, random)},
                       {"W_value.weight", ordinary({0, 3}, random)},
                       {"out_proj.weight", ordinary({0, 0}, random)}},
                      {"d_out and d_in of at least 1"}));
  EXPECT_TRUE(refused({{"qkv.weight", ordinary({kOut, kIn}, random)}, {"proj.weight", ordinary({kOut, kOut}, random)}},
                      {"expected sizes [4, 4]"}));
  EXPECT_TRUE(
      refused({{"qkv.weight", ordinary({kOut + 1, kIn}, random)}, {"proj.weight", ordinary({kOut, kOut}, random)}},
              {"a size that 3 divides, got 13"}));
  Tensors mixed = split_module(DType::float32, true, random);
  mixed[2].tensor = random_bits(DType::bfloat16, {kOut, kIn}, random);
  EXPECT_TRUE(refused(mixed, {"weights of one type, got bfloat16 in \"W_value.weight\" beside float32"}));
}

TEST_F(WeightFilesRefused, GapsInTheHeadsAreMissingTensors) {
  const std::string origin = write("origin", split_module(DType::float32, false, random));
  convert_weights(origin, {"", kHeads, {}}, dir / "heads", {WeightLayout::heads, "", {}});
  Tensors tensors;
  const SafetensorsFile file(dir / "heads");
  for (const auto& entry : file.entries()) tensors.push_back({entry.name, file.read_raw(entry.name)});
  EXPECT_TRUE(refused(without(tensors, "heads.1.W_key.weight"), {"layout heads", "and not \"heads.1.W_key.weight\""}));
  Tensors renamed = tensors;
  for (auto& each : renamed) {
    if (each.name.starts_with("heads.3.")) each.name.replace(0, 8, "heads.9999999999.");
  }
  EXPECT_TRUE(refused(renamed, {"and not \"heads.3.W_query.weight\""}));
  tensors.push_back({"heads.3.mask", ordinary({9, 9}, random)});
  EXPECT_EQ(load_weights<double>(context, write("mask", tensors)).config.num_heads, kHeads);
}

TEST_F(WeightFilesRefused, SquareFusedWeightsOfTheGptsNeedAWord) {
  const Tensors square = {{"c_attn.weight", ordinary({3 * kOut, 3 * kOut}, random)},
                          {"c_proj.weight", ordinary({kOut, kOut}, random)}};
  EXPECT_TRUE(refused(square, {"gpt2 or nanogpt", "square"}));
  const std::string path = write("square", square);
  const auto rows = load_weights<float>(context, path, {"", kHeads, WeightLayout::nanogpt});
  const auto columns = load_weights<float>(context, path, {"", kHeads, WeightLayout::gpt2});
  EXPECT_EQ(rows.weights.W_query.at({1, 2}), columns.weights.W_query.at({2, 1}));
}

}  // namespace
}  // namespace ennead
