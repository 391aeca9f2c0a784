// SPDX-License-Identifier: Apache-2.0
// Weights of one module in every layout, out of each into every other, to the bit.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "support/weight_tensors.h"

namespace ennead {
namespace {

using namespace test;

/// Do both files hold the same tensors to the bit?
testing::AssertionResult same_tensors(const std::string& a, const std::string& b) {
  const SafetensorsFile one(a), other(b);
  if (one.entries().size() != other.entries().size()) {
    return testing::AssertionFailure() << one.entries().size() << " tensors and " << other.entries().size();
  }
  for (const auto& entry : one.entries()) {
    if (other.find(entry.name) == nullptr) return testing::AssertionFailure() << "no " << entry.name;
    const RawTensor x = one.read_raw(entry.name), y = other.read_raw(entry.name);
    if (x.dtype != y.dtype || !(x.sizes == y.sizes) || x.bytes != y.bytes) {
      return testing::AssertionFailure() << entry.name << " differs";
    }
  }
  return testing::AssertionSuccess();
}

// Mutants: Q, K and V in another order; a transpose left out or done twice; heads cut along the wrong axis;
// a bias lost, or invented (K7); anything that goes through floating point.
TEST_F(WeightFiles, EveryLayoutToEveryOtherKeepsEveryBit) {
  struct Case {
    DType dtype;
    bool qkv_bias, out_bias;
  };
  for (const Case& each : {Case{DType::float16, false, false}, Case{DType::bfloat16, true, false},
                           Case{DType::float32, false, true}, Case{DType::float64, true, true}}) {
    const Tensors tensors = split_module(each.dtype, each.qkv_bias, random);
    const std::string origin = write("origin", each.out_bias ? tensors : without(tensors, "out_proj.bias"));
    for (const WeightLayout layout : weight_layouts()) {
      convert_weights(origin, {"", kHeads, {}}, dir / name(layout), {layout, "", {}});
    }
    for (const WeightLayout from : weight_layouts()) {
      for (const WeightLayout to : weight_layouts()) {
        SCOPED_TRACE(sentence(name(each.dtype), " ", name(from), " -> ", name(to)));
        const WeightFileInfo info = convert_weights(dir / name(from), {}, dir / "to", {to, "", {}});
        EXPECT_EQ(info.layout, from);
        EXPECT_EQ(info.num_heads, kHeads);
        EXPECT_TRUE(same_tensors(dir / name(to), dir / "to"));
      }
    }
    EXPECT_TRUE(same_tensors(origin, dir / "split"));
  }
}

// What each layout looks like, element by element, written down apart from the table that makes it.
// Mutant: any consistent fault of reading and writing, which a round trip cannot see.
TEST_F(WeightFiles, LayoutsAreWhatTheirModulesStore) {
  const Tensors origin = split_module(DType::float32, true, random);
  const std::string path = write("origin", origin);
  const auto bits = [](const RawTensor& tensor, std::int64_t place) {
    std::uint32_t value = 0;
    std::memcpy(&value, tensor.bytes.data() + place * 4, 4);
    return value;
  };
  // part 0, 1, 2: Q, K, V; 3: out_proj
  const auto weight = [&](std::int64_t part, std::int64_t row, std::int64_t column) {
    return bits(origin[static_cast<std::size_t>(part)].tensor, row * (part == 3 ? kOut : kIn) + column);
  };
  struct Place {
    std::int64_t part, row, column;
  };
  struct Case {
    WeightLayout layout;
    const char* tensor;
    Dims sizes;
    std::function<Place(std::int64_t i, std::int64_t j)> place;
  };
  const auto fused = [](std::int64_t i, std::int64_t j) { return Place{i / kOut, i % kOut, j}; };
  const Case cases[] = {
      {WeightLayout::heads,
       "heads.2.W_key.weight",
       {kHeadDim, kIn},
       [](auto i, auto j) {
         return Place{1, 2 * kHeadDim + i, j};
       }},
      {WeightLayout::qkv, "qkv.weight", {3 * kOut, kIn}, fused},
      {WeightLayout::qkv,
       "proj.weight",
       {kOut, kOut},
       [](auto i, auto j) {
         return Place{3, i, j};
       }},
      {WeightLayout::einsum,
       "W_value",
       {kIn, kOut},
       [](auto i, auto j) {
         return Place{2, j, i};
       }},
      {WeightLayout::einsum,
       "out_proj.weight",
       {kOut, kOut},
       [](auto i, auto j) {
         return Place{3, i, j};
       }},
      {WeightLayout::in_proj, "in_proj_weight", {3 * kOut, kIn}, fused},
      {WeightLayout::in_proj_separate,
       "k_proj_weight",
       {kOut, kIn},
       [](auto i, auto j) {
         return Place{1, i, j};
       }},
      {WeightLayout::gpt2, "c_attn.weight", {kIn, 3 * kOut}, [&](auto i, auto j) { return fused(j, i); }},
      {WeightLayout::gpt2,
       "c_proj.weight",
       {kOut, kOut},
       [](auto i, auto j) {
         return Place{3, j, i};
       }},
      {WeightLayout::nanogpt, "c_attn.weight", {3 * kOut, kIn}, fused},
      {WeightLayout::llama,
       "q_proj.weight",
       {kOut, kIn},
       [](auto i, auto j) {
         return Place{0, i, j};
       }},
      {WeightLayout::llama, "o_proj.weight", {kOut, kOut}, [](auto i, auto j) {
         return Place{3, i, j};
       }}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.tensor);
    convert_weights(path, {"", kHeads, {}}, dir / "to", {each.layout, "", {}});
    const RawTensor tensor = SafetensorsFile(dir / "to").read_raw(each.tensor);
    ASSERT_EQ(tensor.sizes, each.sizes);
    for (std::int64_t i = 0; i < tensor.sizes[0]; ++i) {
      for (std::int64_t j = 0; j < tensor.sizes[1]; ++j) {
        const Place from = each.place(i, j);
        ASSERT_EQ(bits(tensor, i * tensor.sizes[1] + j), weight(from.part, from.row, from.column)) << i << ", " << j;
      }
    }
  }
  convert_weights(path, {"", kHeads, {}}, dir / "to", {WeightLayout::in_proj_separate, "", {}});
  const RawTensor bias = SafetensorsFile(dir / "to").read_raw("in_proj_bias");
  for (std::int64_t i = 0; i < 3 * kOut; ++i) {
    ASSERT_EQ(bits(bias, i), bits(origin[static_cast<std::size_t>(5 + i / kOut)].tensor, i % kOut));
  }
}

// Mutants: a bias reported where there is none; weights rounded; biases of K and V swapped.
TEST_F(WeightFiles, LoadsTheCanonicalWeights) {
  const Context& c = context;
  for (const bool bias : {false, true}) {
    Tensors tensors = split_module(DType::float32, false, random);
    for (auto& each : tensors) each.tensor = ordinary(each.tensor.sizes, random);
    if (bias) {
      for (const char* each : {"W_query.bias", "W_key.bias", "W_value.bias"}) {
        tensors.push_back({each, ordinary({kOut}, random)});
      }
    }
    const std::string path = write("w", tensors);
    const SafetensorsFile file(path);
    convert_weights(path, {"", kHeads, {}}, dir / "gpt2", {WeightLayout::gpt2, "h.3.attn", {}});
    const auto loaded = load_weights<float>(context, dir / "gpt2", {"h.3.attn.", {}, {}});
    EXPECT_EQ(loaded.config.d_in, kIn);
    EXPECT_EQ(loaded.config.d_out, kOut);
    EXPECT_EQ(loaded.config.num_heads, kHeads);
    EXPECT_EQ(loaded.config.qkv_bias, bias);
    EXPECT_TRUE(loaded.config.out_bias);
    const std::string bare = write("bare", without(tensors, "out_proj.bias"));
    EXPECT_FALSE(load_weights<float>(context, bare, {"", kHeads, {}}).config.out_bias);
    EXPECT_EQ(check_weights(loaded.config, loaded.weights).reason(), "");
    EXPECT_TRUE(test::same_bits(loaded.weights.W_key, file.read<float>(c, "W_key.weight")));
    EXPECT_TRUE(test::same_bits(loaded.weights.out_proj_weight, file.read<float>(c, "out_proj.weight")));
    EXPECT_EQ(loaded.weights.b_value.empty(), !bias);
    if (bias) {
      EXPECT_TRUE(test::same_bits(loaded.weights.b_value, file.read<float>(c, "W_value.bias")));
    }
    const auto wide = load_weights<double>(context, path, {"", kHeads, {}});
    EXPECT_EQ(test::to_doubles(wide.weights.W_query), test::to_doubles(file.read<float>(c, "W_query.weight")));
  }
}

// K7. Mutants: key heads repeated as 0 1 0 1 instead of 0 0 1 1; biases not repeated; unequal heads joined.
TEST_F(WeightFiles, FewerKeyHeadsAreRepeatedAndJoinedExactly) {
  const std::string split = write("split", split_module(DType::float32, true, random, 2));
  const WeightFileInfo info = convert_weights(split, {"", kHeads, {}}, dir / "llama", {WeightLayout::llama, "", {}});
  EXPECT_EQ(info.kv_heads, 2);
  EXPECT_EQ(SafetensorsFile(dir / "llama").read_raw("k_proj.weight").sizes, (Dims{2 * kHeadDim, kIn}));

  convert_weights(dir / "llama", {}, dir / "heads", {WeightLayout::heads, "", {}});
  const SafetensorsFile grouped(dir / "llama"), full(dir / "heads");
  const std::size_t head_bytes = kHeadDim * kIn * 4, bias_bytes = kHeadDim * 4;
  for (std::size_t head = 0; head < kHeads; ++head) {
    const auto part = [&](const char* tensor, std::size_t bytes) {
      const std::vector<std::byte> all = grouped.read_raw(tensor).bytes;
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(head / 2 * bytes);
      return std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    };
    const std::string at = sentence("heads.", head, ".");
    EXPECT_EQ(full.read_raw(at + "W_key.weight").bytes, part("k_proj.weight", head_bytes));
    EXPECT_EQ(full.read_raw(at + "W_value.bias").bytes, part("v_proj.bias", bias_bytes));
  }

  convert_weights(dir / "heads", {}, dir / "back", {WeightLayout::llama, "", 2});
  EXPECT_TRUE(same_tensors(dir / "llama", dir / "back"));
  convert_weights(dir / "llama", {}, dir / "wide", {WeightLayout::opt, "", 4});
  EXPECT_EQ(SafetensorsFile(dir / "wide").read_raw("v_proj.weight").sizes, (Dims{kOut, kIn}));
  EXPECT_TRUE(refuses(
      [&] {
        convert_weights(dir / "heads", {}, dir / "no", {WeightLayout::llama, "", 1});
      },
      {"expected equal key and value heads", "got head 2 different from head 0"}));
  EXPECT_TRUE(refuses(
      [&] {
        convert_weights(dir / "heads", {}, dir / "no", {WeightLayout::llama, "", 3});
      },
      {"divides 4 heads", "got 3"}));
  EXPECT_TRUE(refuses(
      [&] {
        convert_weights(dir / "heads", {}, dir / "no", {WeightLayout::qkv, "", 2});
      },
      {"llama or opt, got qkv"}));
  EXPECT_FALSE(std::filesystem::exists(dir / "no"));
}

// Mutants: rows of K that fit no head; query heads that key heads do not divide (Hq % Hkv != 0).
// Mutants: a missing tensor taken for zeros; the first of two layouts taken; an unknown tensor passed over.
// Mutants: a hint left out; the mask of GPT-2, called bias, taken for a bias or refused; another layer's weights taken.
TEST_F(WeightFiles, WholeModelsAreReadByPrefix) {
  Tensors model = {{"wte.weight", ordinary({3, 4}, random)}};
  for (const char* layer : {"h.0.attn.", "h.11.attn."}) {
    const auto add = [&](const char* each, const Dims& sizes) {
      model.push_back({layer + std::string(each), ordinary(sizes, random)});
    };
    add("c_attn.weight", {kOut, 3 * kOut});
    add("c_attn.bias", {3 * kOut});
    add("c_proj.weight", {kOut, kOut});
    add("c_proj.bias", {kOut});
    add("bias", {1, 1, 7, 7});
    add("masked_bias", {});
  }
  EXPECT_TRUE(
      refused(model, {"under the prefix \"\"", "a prefix (--prefix) may be one of \"h.0.attn\", \"h.11.attn\""}));
  EXPECT_TRUE(refused(model, {"under the prefix \"h.1.attn.\"", "\"h.0.attn\""}, {"h.1.attn", kHeads, {}}));
  const std::string path = write("model", model);
  const auto loaded = load_weights<float>(context, path, {"h.11.attn", kHeads, {}});
  EXPECT_EQ(loaded.info.layout, WeightLayout::gpt2);
  const auto stored = SafetensorsFile(path).read<float>(context, "h.11.attn.c_attn.weight");
  EXPECT_EQ(loaded.weights.W_value.at({1, 2}), stored.at({2, 2 * kOut + 1}));
}

// Mutant: a square fused weight read one way without a word.
TEST_F(WeightFiles, NotesWhatItPassesOver) {
  Tensors tensors = split_module(DType::float32, false, random);
  tensors.push_back({"mask", ordinary({9, 9}, random)});
  EXPECT_TRUE(load_weights<double>(context, write("w", tensors), {"", kHeads, {}}).info.notes.empty());
  tensors.push_back({"rotary_emb.inv_freq", ordinary({3}, random)});
  const auto notes = load_weights<double>(context, write("w", tensors), {"", kHeads, {}}).info.notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("rotary_emb.inv_freq"), std::string::npos);
}

TEST_F(WeightFiles, LayoutsHaveNames) {
  for (const WeightLayout layout : weight_layouts()) EXPECT_EQ(parse_weight_layout(name(layout)), layout);
  EXPECT_EQ(parse_weight_layout("bert"), std::nullopt);
}

}  // namespace
}  // namespace ennead
