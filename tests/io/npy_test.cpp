// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ennead/io.h"
#include "io/npy_header.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/files.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead {
namespace {

using test::refuses;
using test::TempDir;

/// A .npy file of any version with any dictionary.
std::string npy(std::string_view dictionary, std::string_view data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (unsigned i = 0; i < (version == 1 ? 2u : 4u); ++i) file += static_cast<char>(dictionary.size() >> 8 * i & 0xff);
  return file + std::string(dictionary) + std::string(data);
}

class Npy : public testing::Test {
 protected:
  std::string file(std::string_view bytes) const {
    test::write_bytes(dir / "x.npy", bytes);
    return dir / "x.npy";
  }
  /// Refused, and the sentence starts with the file's name.
  testing::AssertionResult refused(std::string_view bytes, std::string_view why) const {
    const std::string path = file(bytes);
    return refuses([&] { read_npy<float>(context, path); }, {sentence("\"", path, "\": "), std::string(why)});
  }

  TempDir dir;
  Context context = test::poisoned_context();
};

TEST_F(Npy, ReadsAllVersions) {
  const std::string data("\0\0\x80\x3f\0\0\0\x40", 8);
  for (int version : {1, 2, 3}) {
    const auto x =
        read_npy<float>(context, file(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data, version)));
    EXPECT_EQ(test::to_doubles(x), (std::vector<double>{1, 2})) << version;
  }
  // Other spellings of the same dictionary, Python 2's among them.
  for (const char* text : {"{\"shape\":(2L,),\"descr\":\"<f4\",\"fortran_order\":False}",
                           "{ 'fortran_order' : False , 'shape' : ( 2 , ) , 'descr' : '<f4' , }   \n"}) {
    EXPECT_EQ(read_npy<float>(context, file(npy(text, data))).sizes(), (Dims{2})) << text;
  }
}

// Mutants: the file's order ignored; sizes reversed along with strides; a copy where strides do.
TEST_F(Npy, FortranOrderIsStrides) {
  std::string data;
  for (int i = 0; i < 6; ++i) data += std::string(1, static_cast<char>(i));
  const auto mask =
      read_npy<bool>(context, file(npy("{'descr': '|b1', 'fortran_order': True, 'shape': (2, 3), }", data)));
  EXPECT_EQ(mask.sizes(), (Dims{2, 3}));
  EXPECT_EQ(mask.strides(), (Dims{1, 2}));
  EXPECT_EQ(test::to_doubles(mask), (std::vector<double>{0, 1, 1, 1, 1, 1}));
}

TEST_F(Npy, ReadsEveryTypeInEitherOrder) {
  struct Case {
    const char* descr;
    std::string data;
  };
  const Case cases[] = {{"<f2", std::string("\x00\x3e", 2)},
                        {">f2", std::string("\x3e\x00", 2)},
                        {"<u2", std::string("\xc0\x3f", 2)},
                        {">u2", std::string("\x3f\xc0", 2)},
                        {"<f4", std::string("\0\0\xc0\x3f", 4)},
                        {">f4", std::string("\x3f\xc0\0\0", 4)},
                        {"=f4", std::string("\0\0\xc0\x3f", 4)},
                        {"<f8", std::string("\0\0\0\0\0\0\xf8\x3f", 8)},
                        {">f8", std::string("\x3f\xf8\0\0\0\0\0\0", 8)}};
  for (const Case& each : cases) {
    const std::string path =
        file(npy(sentence("{'descr': '", each.descr, "', 'fortran_order': False, 'shape': ()}"), each.data));
    EXPECT_EQ(test::to_doubles(read_npy<float>(context, path)), std::vector<double>{1.5}) << each.descr;
    EXPECT_EQ(test::to_doubles(read_npy<double>(context, path)), std::vector<double>{1.5}) << each.descr;
  }
}

// Mutants: a writer that copies memory whatever the strides; a piece boundary that loses an element;
// a header that NumPy's alignment rule does not fit.
template <class T>
void round_trip(const Context& context, const std::string& path, const Tensor<T>& x) {
  write_npy(path, x);
  const std::string bytes = test::read_bytes(path);
  const StoredArray info = read_npy_info(path);
  EXPECT_EQ(info.data_offset % 64, 0u);
  EXPECT_EQ(bytes.size(), info.data_offset + static_cast<std::size_t>(x.num_elements()) * sizeof(T));
  EXPECT_TRUE(test::same_bits(x, read_npy<T>(context, path))) << to_string(x.sizes());
}

TEST_F(Npy, RoundTripsKeepEveryBit) {
  test::Random random(7);
  for (const Dims& sizes : {Dims{}, Dims{0}, Dims{1}, Dims{3, 0, 2}, Dims{5, 7}, Dims{2, 3, 4, 5}, Dims{300, 257},
                            Dims{1, 1, 1, 1, 1, 1, 2, 3}}) {
    auto x = test::random_tensor<float>(context, sizes, random);
    if (x.num_elements() > 2) {
      x.data()[0] = NAN;
      x.data()[1] = -0.0f;
      x.data()[2] = 0x1p-149f;
    }
    round_trip(context, dir / "x.npy", x);
    round_trip(context, dir / "x.npy", test::random_tensor<double>(context, sizes, random));
    round_trip(context, dir / "x.npy", test::random_mask(context, sizes, random));
    if (x.rank() == 0 || x.num_elements() == 0) continue;
    for (const test::Layout layout : test::kLayouts) round_trip(context, dir / "x.npy", test::with_layout(x, layout));
  }
  const auto row = test::random_tensor<float>(context, {7}, random);
  round_trip(context, dir / "x.npy", Tensor<float>(row.storage(), row.data(), {70'000, 7}, {0, 1}));
}

TEST_F(Npy, RefusesEveryMalformedFile) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const std::string data(8, '\0');
  EXPECT_TRUE(refused("", "got an empty one"));
  EXPECT_TRUE(refused("\x93NUMP", "expected a .npy file, which starts with"));
  EXPECT_TRUE(refused("PK\3\4" + std::string(100, 'x'), "expected a .npy file"));
  EXPECT_TRUE(refused(std::string("\x93NUMPY\1\0\0", 9), "expected a whole .npy header"));
  EXPECT_TRUE(refused(npy(good, data, 4), "version 1.0, 2.0 or 3.0, got 4.0"));
  EXPECT_TRUE(refused(npy(std::string(70'000, ' '), "", 2), "at most 65536 bytes, got 70000"));
  EXPECT_TRUE(refused(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14), "got 4294967295"));
  EXPECT_TRUE(refused(npy(good, data).substr(0, 40), "expected a header of"));
  EXPECT_TRUE(refused(npy(good, data.substr(1)), "expected 8 bytes of data"));
  EXPECT_TRUE(refused(npy(good, data + "x"), "expected 8 bytes of data for sizes [2] of float32, got 9"));
  EXPECT_TRUE(refused(npy(good, ""), "got 0"));
  EXPECT_TRUE(refused(npy("    ", data), "expected a dictionary in the header, got its end"));
  EXPECT_TRUE(refused(npy(good + "x", data), "nothing after the dictionary"));
  EXPECT_TRUE(refused(npy("{'descr': '<f4', 'shape': (2,)}", data), "expected the key 'fortran_order'"));
  EXPECT_TRUE(refused(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data), "twice"));
  EXPECT_TRUE(refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", data), "got \"x\""));
  EXPECT_TRUE(refused(npy("{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", data), "expected a comma"));
  EXPECT_TRUE(refused(npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", data), "True or False"));
  EXPECT_TRUE(refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2", data),
                      "the end of 'shape' in the header, got its end"));
  EXPECT_TRUE(refused(npy("{'descr': '<f4", data), "in the header"));
}

TEST_F(Npy, RefusesTypesItDoesNotRead) {
  for (const char* descr :
       {"'<i4'", "'<f16'", "'<c8'", "'|O'", "'<V2'", "'f4'", "'|f4'", "''", "'<'", "'|u1'", "'<U5'"}) {
    EXPECT_TRUE(refused(npy(sentence("{'descr': ", descr, ", 'fortran_order': False, 'shape': (1,)}"), "xxxx"),
                        "expected elements of type f2, f4, f8, u2"))
        << descr;
  }
  EXPECT_TRUE(refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "xxxx"),
                      "expected a simple element type as 'descr'"));
  const std::string mask = file(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\1"));
  EXPECT_TRUE(
      refuses([&] { read_npy<float>(context, mask); }, {"expected floating point numbers, got elements of type bool"}));
  const std::string numbers = file(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "xxxx"));
  EXPECT_TRUE(refuses([&] { read_npy<bool>(context, numbers); }, {"expected booleans, got elements of type float32"}));
}

// K11. Mutants: a product that wraps to the size of the file; a zero beside huge sizes.
TEST_F(Npy, RefusesShapesThatCannotBe) {
  const auto shaped = [](std::string_view shape) {
    return npy(sentence("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, ", }"), "");
  };
  EXPECT_TRUE(refused(shaped("(4294967296, 4294967296)"), "fit 63 bits, got [4294967296, 4294967296]"));
  EXPECT_TRUE(refused(shaped("(0, 9223372036854775807, 2)"), "fit 63 bits"));
  EXPECT_TRUE(refused(shaped("(9223372036854775808,)"), "a size that fits 63 bits"));
  EXPECT_TRUE(refused(shaped("(-1,)"), "expected sizes of at least 0"));
  EXPECT_TRUE(refused(shaped("(2)"), "expected a tuple as 'shape', got (2)"));
  EXPECT_TRUE(refused(shaped("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "at most 8 axes"));
  EXPECT_TRUE(refused(shaped("(1 1)"), "expected a comma"));
  EXPECT_TRUE(refused(shaped("[1]"), "expected a tuple"));
  EXPECT_TRUE(refused(shaped("(1000000,)"), "expected 4000000 bytes of data"));
}

// Mutant: infinity in place of a number that the file does hold.
TEST_F(Npy, RefusesNumbersTooLargeForFloat) {
  auto x = Tensor<double>::full(context, {2, 3}, 1.0);
  x.at({1, 0}) = 1e39;
  write_npy(dir / "x.npy", x);
  EXPECT_TRUE(
      refuses([&] { read_npy<float>(context, dir / "x.npy"); }, {"fit float32, got a larger float64 at [1, 0]"}));
  EXPECT_TRUE(test::same_bits(x, read_npy<double>(context, dir / "x.npy")));
}

// Mutants: rows counted wrongly; a file that is named although rows are missing.
TEST_F(Npy, WritesPieceByPiece) {
  test::Random random(3);
  const auto x = test::random_tensor<double>(context, {5, 2, 3}, random);
  NpyWriter<double> writer(dir / "y.npy", {5, 2, 3});
  const auto rows = [&](std::int64_t from, std::int64_t count) {
    return Tensor<double>(x.storage(), x.data() + from * 6, {count, 2, 3}, x.strides());
  };
  writer.append(rows(0, 2));
  EXPECT_TRUE(refuses([&] { writer.append(rows(0, 4)); }, {"at most 3 more rows"}));
  EXPECT_TRUE(refuses([&] { writer.append(Tensor<double>::full(context, {1, 3, 2}, 0)); }, {"[1, 3, 2]"}));
  EXPECT_TRUE(refuses([&] { writer.commit(); }, {"expected 3 more rows"}));
  writer.append(rows(2, 0));
  writer.append(rows(2, 3));
  EXPECT_TRUE(dir.names().empty());
  writer.commit();
  EXPECT_TRUE(test::same_bits(x, read_npy<double>(context, dir / "y.npy")));
}

// Mutants: 32-bit offsets or counts anywhere; the header read by reading the file.
TEST_F(Npy, FilesOver4GiB) {
  const std::string path = dir / "big.npy";
  constexpr std::int64_t kRows = std::int64_t{3} << 30;
  const std::string header = io::format_npy_header(DType::boolean, {kRows, 2});
  test::write_bytes(path, header);
  std::filesystem::resize_file(path, header.size() + 2 * static_cast<std::uintmax_t>(kRows));
  const StoredArray info = read_npy_info(path);
  EXPECT_EQ(info.sizes, (Dims{kRows, 2}));
  std::filesystem::resize_file(path, header.size() + 2 * static_cast<std::uintmax_t>(kRows) - 1);
  EXPECT_TRUE(refuses([&] { read_npy_info(path); }, {"expected 6442450944 bytes of data", "got 6442450943"}));
}

// Mutant: memory taken before it is counted.
TEST_F(Npy, RefusesWhatDoesNotFitMemory) {
  Context::Options options;
  options.threads = 1;
  options.arena.limit_bytes = 1000;
  const std::string path = dir / "x.npy";
  write_npy(path, Tensor<float>::full(context, {300}, 1));
  EXPECT_TRUE(refuses([&] { read_npy<float>(Context(options), path); }, {path, "1000 bytes", "1200 bytes"}));
}

}  // namespace
}  // namespace ennead
