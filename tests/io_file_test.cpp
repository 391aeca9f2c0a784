// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "io/file.h"
#include "support/files.h"

namespace ennead::io {
namespace {

using test::TempDir;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

bool names(const Refusal& refusal, std::string_view words) {
  return refusal && refusal->find(words) != std::string::npos;
}

// Mutants: an open() that waits for somebody to write to the pipe; a directory that is read as empty.
TEST(InputFile, RefusesWhatIsNoRegularFile) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(names(InputFile().open(dir / "pipe"), "expected a regular file, got a pipe"));
  EXPECT_TRUE(names(InputFile().open(dir / "."), "expected a regular file, got a directory"));
  EXPECT_TRUE(names(InputFile().open("/dev/null"), "expected a regular file, got a device"));
  EXPECT_TRUE(names(InputFile().open(dir / "absent"), "cannot be opened: No such file"));
  EXPECT_TRUE(names(InputFile().open(""), "cannot be opened"));
  EXPECT_TRUE(names(InputFile().open(dir / "odd\n\x1b[31m"), "odd\\x0a\\x1b[31m\""));
}

// Mutants: data taken from a mapping (SIGBUS ends this test); a short read taken for a whole one.
TEST(InputFile, NoticesAFileThatShrinks) {
  const TempDir dir;
  test::write_bytes(dir / "x", std::string(100'000, 'x'));
  InputFile file;
  ASSERT_FALSE(file.open(dir / "x"));
  std::filesystem::resize_file(dir / "x", 10);
  std::vector<std::byte> out(1000);
  EXPECT_TRUE(names(file.read(50'000, out), "expected 1000 bytes from byte 50000 on, got 0"));
  EXPECT_TRUE(names(file.read(5, out), "got 5"));
  EXPECT_TRUE(names(file.check_unchanged(), "expected the 100000 bytes it had when it was opened, got 10"));
}

// Mutant: only the size compared.
TEST(InputFile, NoticesAFileThatIsRewritten) {
  const TempDir dir;
  test::write_bytes(dir / "x", "before");
  InputFile file;
  ASSERT_FALSE(file.open(dir / "x"));
  EXPECT_FALSE(file.check_unchanged());
  test::write_bytes(dir / "x", "behind");
  const struct timespec later[2] = {{4'000'000'000, 0}, {4'000'000'000, 1}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (dir / "x").c_str(), later, 0), 0);
  EXPECT_TRUE(names(file.check_unchanged(), "changed while it was read"));
}

// Mutants: the target opened (and emptied) at the start; a temporary file that stays behind.
TEST(OutputFile, IsThereWholeOrNotAtAll) {
  const TempDir dir;
  test::write_bytes(dir / "y", "old");
  {
    OutputFile file;
    ASSERT_FALSE(file.open(dir / "y"));
    ASSERT_FALSE(file.write(bytes_of("new")));
    ASSERT_FALSE(file.flush());
  }
  EXPECT_EQ(test::read_bytes(dir / "y"), "old");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"y"});
  OutputFile file;
  ASSERT_FALSE(file.open(dir / "y"));
  ASSERT_FALSE(file.write(bytes_of("new")));
  EXPECT_EQ(test::read_bytes(dir / "y"), "old");
  ASSERT_FALSE(file.commit());
  EXPECT_EQ(test::read_bytes(dir / "y"), "new");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"y"});
}

// Mutant: a buffer whose end, or whose overflow, is lost.
TEST(OutputFile, KeepsEveryByteOfManyPieces) {
  const TempDir dir;
  std::string expected;
  OutputFile file;
  ASSERT_FALSE(file.open(dir / "y"));
  for (std::size_t size = 1; size < 3'000'000; size = size * 3 + 1) {
    std::string piece(size, static_cast<char>('a' + size % 26));
    ASSERT_FALSE(file.write(bytes_of(piece)));
    expected += piece;
  }
  ASSERT_FALSE(file.commit());
  EXPECT_TRUE(test::read_bytes(dir / "y") == expected);
}

// Mutants: a rename over a device, a directory or a link; permissions reset.
TEST(OutputFile, ReplacesRegularFilesOnly) {
  const TempDir dir;
  EXPECT_TRUE(names(OutputFile().open("/dev/full"), "expected the name of a regular file to write, got a device"));
  EXPECT_TRUE(names(OutputFile().open(dir / "."), "got a directory"));
  EXPECT_TRUE(names(OutputFile().open(dir / "absent/y"), "cannot be written: No such file"));
  EXPECT_TRUE(names(OutputFile().open(""), "expected the name of a file"));
  EXPECT_TRUE(names(OutputFile().open(dir / "y/"), "expected the name of a file"));
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(names(OutputFile().open(dir / "pipe"), "got a pipe"));

  test::write_bytes(dir / "y", "old");
  ASSERT_EQ(::chmod((dir / "y").c_str(), 0640), 0);
  std::filesystem::create_symlink("y", dir / "link");
  OutputFile file;
  ASSERT_FALSE(file.open(dir / "link"));
  ASSERT_FALSE(file.write(bytes_of("new")));
  ASSERT_FALSE(file.commit());
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(test::read_bytes(dir / "y"), "new");
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(dir / "y").permissions()), 0640u);
}

// Mutant: the result of write() ignored.
TEST(OutputFile, SaysWhenThereIsNoSpace) {
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "no /dev/full here";
  EXPECT_TRUE(names(write_all(full, bytes_of("x"), "y.npy"), "\"y.npy\": cannot be written: No space left"));
  EXPECT_FALSE(write_all(full, {}, "y.npy"));
  ::close(full);
}

}  // namespace
}  // namespace ennead::io
