// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "ennead/io.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/files.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead {
namespace {

using test::refuses;
using test::TempDir;

std::string with_length(std::string_view json, std::uint64_t length) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>(length >> 8 * i & 0xff);
  return bytes + std::string(json);
}

std::string safetensors(std::string_view json, std::string_view data) {
  return with_length(json, json.size()) + std::string(data);
}

class Safetensors : public testing::Test {
 protected:
  std::string file(std::string_view bytes) const {
    test::write_bytes(dir / "w.safetensors", bytes);
    return dir / "w.safetensors";
  }
  testing::AssertionResult refused(std::string_view bytes, std::string_view why) const {
    const std::string path = file(bytes);
    return refuses([&] { SafetensorsFile opened(path); }, {sentence("\"", path, "\": "), std::string(why)});
  }

  TempDir dir;
  Context context = test::poisoned_context();
};

// Mutants: tensors written in another order than the header says; padding counted as data; strides ignored.
TEST_F(Safetensors, RoundTripsKeepEveryBit) {
  test::Random random(11);
  const auto a = test::random_tensor<float>(context, {3, 5}, random);
  const auto b = test::with_layout(test::random_tensor<double>(context, {2, 3, 4}, random), test::Layout::transposed);
  const auto mask = test::random_mask(context, {7}, random);
  const auto none = Tensor<float>::uninitialized(context, {0, 3});
  const auto scalar = Tensor<double>::full(context, {}, NAN);
  const std::vector<NamedRawTensor> tensors = {{"z", to_raw(a)},
                                               {"odd \"name\"\n\u00e9", to_raw(b)},
                                               {"mask", to_raw(mask)},
                                               {"none", to_raw(none)},
                                               {"a", to_raw(scalar)}};
  write_safetensors(dir / "w", tensors, {{"num_heads", "3"}, {"", "\u00e9"}});
  const SafetensorsFile file(dir / "w");
  EXPECT_EQ(file.entries().size(), 5u);
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"num_heads", "3"}, {"", "\u00e9"}}));
  EXPECT_TRUE(test::same_bits(a, file.read<float>(context, "z")));
  EXPECT_TRUE(test::same_bits(b, file.read<double>(context, "odd \"name\"\n\u00e9")));
  EXPECT_TRUE(test::same_bits(mask, file.read<bool>(context, "mask")));
  EXPECT_EQ(file.read<float>(context, "none").sizes(), (Dims{0, 3}));
  EXPECT_TRUE(test::same_bits(scalar, file.read<double>(context, "a")));
  EXPECT_TRUE(test::same_bits(a, file.borrow<float>(context, "z")));
  for (const NamedRawTensor& each : tensors) {
    const RawTensor raw = file.read_raw(each.name);
    EXPECT_TRUE(raw.dtype == each.tensor.dtype && raw.sizes == each.tensor.sizes && raw.bytes == each.tensor.bytes);
  }
  EXPECT_EQ(file.find("zz"), nullptr);
  EXPECT_TRUE(refuses([&] { file.read<float>(context, "zz"); }, {"of the name \"zz\", got none"}));
  EXPECT_TRUE(refuses([&] { file.read<float>(context, "mask"); }, {"expected floating point numbers"}));
  EXPECT_TRUE(refuses([&] { file.borrow<double>(context, "z"); }, {"stored as this machine's float64", "got float32"}));
}

TEST_F(Safetensors, ReadsHalfTypesByConversion) {
  const std::string path = file(safetensors(
      R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}})",
      std::string("\x00\x3e\x01\x00\xc0\x3f\x80\xff", 8)));
  const SafetensorsFile opened(path);
  EXPECT_EQ(test::to_doubles(opened.read<float>(context, "h")), (std::vector<double>{1.5, 0x1p-24}));
  EXPECT_EQ(test::to_doubles(opened.read<double>(context, "b")), (std::vector<double>{1.5, -INFINITY}));
}

// Mutant: a type of which we know nothing makes the whole file unreadable.
TEST_F(Safetensors, OtherTypesMayBeInTheFile) {
  const SafetensorsFile opened(file(safetensors(
      R"({"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"q":{"dtype":"F4","shape":[3],"data_offsets":[8,10]},)"
      R"("r":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[10,14]}})",
      std::string(14, '\0'))));
  EXPECT_EQ(opened.find("n")->dtype, "I64");
  EXPECT_TRUE(refuses([&] { opened.read<float>(context, "n"); }, {"expected F16, BF16, F32, F64 or BOOL", "\"I64\""}));
  EXPECT_TRUE(refuses([&] { opened.read_raw("q"); }, {"\"F4\""}));
  EXPECT_TRUE(refuses([&] { opened.read<float>(context, "r"); }, {"at most 8 axes", "got 9"}));
  EXPECT_TRUE(
      refused(safetensors(R"({"n":{"dtype":"I64","shape":[1],"data_offsets":[0,4]}})", "xxxx"), "expected 8 bytes"));
}

TEST_F(Safetensors, RefusesEveryMalformedFile) {
  EXPECT_TRUE(refused("", "got an empty one"));
  EXPECT_TRUE(refused("1234567", "got 7 bytes in all"));
  EXPECT_TRUE(refused(with_length("{}", 3), "expected a header of 3 bytes, got a file with 2"));
  EXPECT_TRUE(refused(with_length("{}", ~std::uint64_t{0}), "got 18446744073709551615 in the first 8 bytes"));
  EXPECT_TRUE(refused(std::string("PK\3\4", 4) + std::string(60, 'x'), "at most 100000000 bytes"));
  EXPECT_TRUE(refused(safetensors("", ""), "starts with {"));
  EXPECT_TRUE(refused(safetensors(" {}", ""), "starts with {, got \" \""));
  EXPECT_TRUE(refused(safetensors("\xef\xbb\xbf{}", ""), "starts with {"));
  EXPECT_TRUE(refused(safetensors("{} x", ""), "expected JSON in the header, got something else at byte"));
  EXPECT_TRUE(refused(safetensors("{\"a\":", ""), "expected JSON"));
  using namespace std::string_view_literals;
  EXPECT_TRUE(refused(safetensors("{}\0"sv, ""), "expected JSON in the header, got a NUL at byte 2"));
  EXPECT_TRUE(refused(safetensors("{}\0 anything"sv, ""), "got a NUL at byte 2"));
  EXPECT_TRUE(refused(safetensors("{\0}"sv, ""), "got a NUL at byte 1"));
  EXPECT_TRUE(refused(safetensors("{\"\xff\":{}}", ""), "expected JSON"));
  EXPECT_TRUE(refused(safetensors("{/*c*/}", ""), "expected JSON"));
  EXPECT_TRUE(refused(safetensors(R"({"a":1})", ""), "expected an object for \"a\""));
  EXPECT_TRUE(refused(safetensors(R"({"a":null})", ""), "got null"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{}})", ""), "expected dtype, shape and data_offsets for \"a\", got only 0"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"dtype":"F32","shape":[]}})", ""), "got only 2"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"dtype":"F32","extra":[]}})", ""), "got \"extra\""));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"dtype":1}})", ""), "expected text as dtype of \"a\""));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"shape":"F32"}})", ""), "expected a list as shape of \"a\""));
  EXPECT_TRUE(
      refused(safetensors(R"({"a":{"shape":[[1]]}})", ""), "expected sizes of at least 0 for \"a\", got a list"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"shape":[-1]}})", ""), "got the number -1"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"shape":[1.0]}})", ""), "got the number 1.0"));
  EXPECT_TRUE(
      refused(safetensors(R"({"a":{"shape":[18446744073709551616]}})", ""), "got the number 18446744073709551616"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"data_offsets":[0]}})", ""), "expected two offsets"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"data_offsets":[0,0,0]}})", ""), "expected two offsets"));
  EXPECT_TRUE(refused(safetensors(R"({"__metadata__":{"a":1}})", ""), "expected text for \"a\" in __metadata__"));
  EXPECT_TRUE(refused(safetensors(R"({"__metadata__":{"a":{}}})", ""), "got an object"));
  EXPECT_TRUE(refused(safetensors(R"({"__metadata__":[]})", ""), "got a list"));
  EXPECT_TRUE(refused(safetensors(sentence("{\"a\":", std::string(100'000, '[')), ""), "got a list"));
  EXPECT_TRUE(refused(safetensors(R"({})", "x"), "expected 0 bytes of data after the header, got 1"));
}

// Mutants: a parser that keeps the last of two; metadata that may repeat.
TEST_F(Safetensors, RefusesNamesThatComeTwice) {
  const std::string one = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string two = R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})";
  EXPECT_TRUE(refused(safetensors(sentence("{\"a\":", one, ",\"a\":", two, "}"), "xxxxxxxx"), "\"a\" twice"));
  EXPECT_TRUE(refused(safetensors(sentence(R"({"\u0061":)", one, ",\"a\":", two, "}"), "xxxxxxxx"), "\"a\" twice"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"dtype":"F32","dtype":"F64"}})", ""), "\"dtype\" twice"));
  EXPECT_TRUE(refused(safetensors(R"({"__metadata__":{"k":"1","k":"2"}})", ""), "\"k\" twice"));
}

// Mutants: offsets checked against the file rather than the data; an overlap or a hole that passes.
TEST_F(Safetensors, RefusesOffsetsThatDoNotFit) {
  const auto tensor = [](std::string_view name, int size, std::string_view offsets) {
    return sentence("\"", name, R"(":{"dtype":"F32","shape":[)", size, R"(],"data_offsets":[)", offsets, "]}");
  };
  const std::string data(8, 'x');
  EXPECT_TRUE(
      refused(safetensors(sentence("{", tensor("a", 2, "4,12"), "}"), data), "at most 8 for \"a\", got 4 and 12"));
  EXPECT_TRUE(refused(safetensors(sentence("{", tensor("a", 2, "8,0"), "}"), data), "ascending order"));
  EXPECT_TRUE(refused(safetensors(sentence("{", tensor("a", 3, "0,8"), "}"), data), "expected 12 bytes for \"a\""));
  EXPECT_TRUE(refused(
      safetensors(sentence("{", tensor("a", 1, "0,4"), ",", tensor("b", 1, "2,6"), "}"), data.substr(2)), "overlap"));
  EXPECT_TRUE(refused(safetensors(sentence("{", tensor("a", 2, "0,8"), ",", tensor("b", 1, "4,8"), "}"), data),
                      "\"b\" starting at byte 4"));
  EXPECT_TRUE(refused(safetensors(sentence("{", tensor("b", 1, "4,8"), "}"), data),
                      "got 4 bytes that belong to none before \"b\""));
  EXPECT_TRUE(refused(safetensors(sentence("{", tensor("a", 1, "0,4"), "}"), data),
                      "expected 4 bytes of data after the header, got 8"));
  EXPECT_TRUE(refused(safetensors(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
                      "63 bits"));
  EXPECT_TRUE(refused(
      safetensors(R"({"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", ""), "63 bits"));
  EXPECT_TRUE(refused(
      safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[9223372036854775804,9223372036854775807]}})",
                  "xxxx"),
      "at most 4"));
}

TEST_F(Safetensors, RefusesToWriteNamesThatNobodyCouldRead) {
  const RawTensor one = to_raw(Tensor<float>::full(context, {1}, 1));
  const auto write = [&](const std::vector<NamedRawTensor>& tensors) { write_safetensors(dir / "w", tensors); };
  EXPECT_TRUE(refuses([&] { write({{"", one}}); }, {"expected a name"}));
  EXPECT_TRUE(refuses([&] { write({{"\xff", one}}); }, {"\\xff"}));
  EXPECT_TRUE(refuses([&] { write({{"a", one}, {"a", one}}); }, {"\"a\" twice"}));
  EXPECT_TRUE(refuses([&] { write({{"__metadata__", one}}); }, {"__metadata__"}));
  EXPECT_TRUE(refuses([&] { write({{"a", {DType::float32, {2}, std::vector<std::byte>(4)}}}); }, {"[2]", "got 4"}));
  EXPECT_TRUE(dir.names().empty());
}

// Mutants: 32-bit offsets; a file that is read as a whole. The tensor behind 5 GiB comes by read and by mapping.
TEST_F(Safetensors, FilesOver4GiB) {
  const std::string path = dir / "big.safetensors";
  constexpr std::uint64_t kBig = std::uint64_t{5} << 30;
  std::string json = sentence(R"({"big":{"dtype":"F32","shape":[)", kBig / 4, R"(],"data_offsets":[0,)", kBig,
                              R"(]},"last":{"dtype":"F32","shape":[2],"data_offsets":[)", kBig, ",", kBig + 8, "]}}");
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::string header = safetensors(json, "");
  test::write_bytes(path, header);
  std::filesystem::resize_file(path, header.size() + kBig);
  std::ofstream(path, std::ios::binary | std::ios::app).write("\0\0\x80\x3f\0\0\0\x40", 8);
  const SafetensorsFile opened(path);
  EXPECT_EQ(opened.find("big")->end - opened.find("big")->begin, kBig);
  EXPECT_EQ(test::to_doubles(opened.read<float>(context, "last")), (std::vector<double>{1, 2}));
  EXPECT_EQ(test::to_doubles(opened.borrow<float>(context, "last")), (std::vector<double>{1, 2}));
}

// Mutants: numbers from a file that is no longer the one whose header was checked; a mapping that is touched (SIGBUS).
TEST_F(Safetensors, NoticesAFileThatChangesOrShrinks) {
  const std::string path = dir / "w";
  const std::vector<NamedRawTensor> tensors = {{"a", to_raw(Tensor<float>::full(context, {100'000}, 1))}};
  write_safetensors(path, tensors);
  const SafetensorsFile opened(path);
  std::filesystem::resize_file(path, 5000);
  EXPECT_TRUE(refuses([&] { opened.read<float>(context, "a"); }, {"cut short"}));
  EXPECT_TRUE(refuses([&] { opened.read_raw("a"); }, {"cut short"}));
  EXPECT_TRUE(refuses([&] { opened.borrow<float>(context, "a"); }, {"changed while it was read"}));
}

// Mutant: a misaligned pointer handed out.
TEST_F(Safetensors, BorrowsAlignedTensorsOnly) {
  const std::string path =
      file(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )", std::string("\0\0\x80\x3f", 4)));
  const SafetensorsFile opened(path);
  ASSERT_NE(opened.find("a")->begin % 4, 0u);
  EXPECT_TRUE(refuses([&] { opened.borrow<float>(context, "a"); }, {"at a multiple of 4 bytes"}));
  EXPECT_EQ(test::to_doubles(opened.read<float>(context, "a")), std::vector<double>{1});
}

// Mutant: a mapping that writes through to the file.
TEST_F(Safetensors, BorrowedTensorsAreTheProcessesOwn) {
  const std::string path = dir / "w";
  const std::vector<NamedRawTensor> tensors = {{"a", to_raw(Tensor<float>::full(context, {3}, 1))}};
  write_safetensors(path, tensors);
  const SafetensorsFile opened(path);
  opened.borrow<float>(context, "a").data()[1] = 5;
  EXPECT_EQ(test::to_doubles(SafetensorsFile(path).read<float>(context, "a")), (std::vector<double>{1, 1, 1}));
}

}  // namespace
}  // namespace ennead
