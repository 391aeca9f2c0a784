// SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "support/files.h"

namespace ennead::io {
namespace {

using test::TempDir;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

bool names(const Refusal& refusal, std::string_view words) { return refusal.reason().find(words) != std::string::npos; }

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
  ASSERT_TRUE(file.open(dir / "x").ok());
  std::filesystem::resize_file(dir / "x", 10);
  std::vector<std::byte> out(1000);
  EXPECT_TRUE(names(file.read(50'000, out), "expected 1000 bytes from byte 50000 on, got 0"));
  EXPECT_TRUE(names(file.read(5, out), "got 5"));
  EXPECT_TRUE(names(file.check_unchanged(), "expected the 100000 bytes it had when it was opened, got 10"));
}

// A read that gives nothing leaves errno as some earlier call set it. Mutant: the end of the file taken for an
// interrupted call, which is then made again for ever.
TEST(InputFile, EndsWhereTheFileDoesWhateverErrnoWas) {
  const TempDir dir;
  test::write_bytes(dir / "x", "0123456789");
  InputFile file;
  ASSERT_TRUE(file.open(dir / "x").ok());
  std::vector<std::byte> out(20);
  errno = EINTR;
  EXPECT_TRUE(names(file.read(0, out), "expected 20 bytes from byte 0 on, got 10"));
  errno = EINTR;
  EXPECT_TRUE(names(file.read(10, out), "got 0"));
}

// Mutant: only the size compared.
TEST(InputFile, NoticesAFileThatIsRewritten) {
  const TempDir dir;
  test::write_bytes(dir / "x", "before");
  InputFile file;
  ASSERT_TRUE(file.open(dir / "x").ok());
  EXPECT_TRUE(file.check_unchanged().ok());
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
    ASSERT_TRUE(file.open(dir / "y").ok());
    ASSERT_TRUE(file.write(bytes_of("new")).ok());
    ASSERT_TRUE(file.flush().ok());
  }
  EXPECT_EQ(test::read_bytes(dir / "y"), "old");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"y"});
  OutputFile file;
  ASSERT_TRUE(file.open(dir / "y").ok());
  ASSERT_TRUE(file.write(bytes_of("new")).ok());
  EXPECT_EQ(test::read_bytes(dir / "y"), "old");
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(test::read_bytes(dir / "y"), "new");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"y"});
}

// Mutant: a buffer whose end, or whose overflow, is lost.
TEST(OutputFile, KeepsEveryByteOfManyPieces) {
  const TempDir dir;
  std::string expected;
  OutputFile file;
  ASSERT_TRUE(file.open(dir / "y").ok());
  for (std::size_t size = 1; size < 3'000'000; size = size * 3 + 1) {
    std::string piece(size, static_cast<char>('a' + size % 26));
    ASSERT_TRUE(file.write(bytes_of(piece)).ok());
    expected += piece;
  }
  ASSERT_TRUE(file.commit().ok());
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
  ASSERT_TRUE(file.open(dir / "link").ok());
  ASSERT_TRUE(file.write(bytes_of("new")).ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(test::read_bytes(dir / "y"), "new");
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(dir / "y").permissions()), 0640u);
}

// Mutants: a link to a file that is yet to be written replaced by the file (realpath() fails there);
// the target taken from the working directory and not from the link's; a ring of links followed for ever.
TEST(OutputFile, FollowsLinksToFilesThatAreNotThereYet) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "far");
  std::filesystem::create_symlink("far/second", dir / "first");
  std::filesystem::create_symlink(dir / "far/y", dir / "far/second");
  {
    OutputFile file;
    ASSERT_TRUE(file.open(dir / "first").ok());
    ASSERT_TRUE(file.write(bytes_of("new")).ok());
    ASSERT_TRUE(file.commit().ok());
  }
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "first"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "far/second"));
  EXPECT_EQ(test::read_bytes(dir / "far/y"), "new");

  std::filesystem::create_symlink("absent/y", dir / "nowhere");
  EXPECT_TRUE(names(OutputFile().open(dir / "nowhere"), "nowhere\": cannot be written: No such file"));
  std::filesystem::create_symlink("ring", dir / "ring");
  EXPECT_TRUE(names(OutputFile().open(dir / "ring"), "ring\": cannot be written: Too many levels"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "ring"));
}

// Mutants: a name found too long when all is computed; one of full length refused for want of a temporary
// name (on file systems that need one).
TEST(OutputFile, TakesTheLongestNames) {
  const TempDir dir;
  EXPECT_TRUE(names(OutputFile().open(dir / std::string(256, 'y')), "cannot be written: File name too long"));
  const std::string longest = dir / std::string(255, 'y');
  OutputFile file;
  ASSERT_TRUE(file.open(longest).ok());
  ASSERT_TRUE(file.write(bytes_of("new")).ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(test::read_bytes(longest), "new");
}

// Mutants: names compared as they are spelled; links to what is not there not followed; files of one
// name in two directories taken for one.
TEST(OutputFile, KnowsWhatIsOneTarget) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "far");
  std::filesystem::create_symlink("../y", dir / "far/link");
  std::filesystem::create_symlink("ring", dir / "ring");
  EXPECT_TRUE(same_target(dir / "y", dir / "./y"));
  EXPECT_TRUE(same_target(dir / "y", dir / "far/../y"));
  EXPECT_TRUE(same_target(dir / "y", dir / "far/link"));
  EXPECT_FALSE(same_target(dir / "y", dir / "far/y"));
  EXPECT_FALSE(same_target(dir / "y", dir / "x"));
  EXPECT_FALSE(same_target(dir / "ring", dir / "ring"));
  EXPECT_FALSE(same_target(dir / "absent/y", dir / "absent/y"));
  EXPECT_TRUE(same_target("y", "./y"));
}

// Mutant: the result of write() ignored.
TEST(OutputFile, SaysWhenThereIsNoSpace) {
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "no /dev/full here";
  EXPECT_TRUE(names(write_all(full, bytes_of("x"), "y.npy"), "\"y.npy\": cannot be written: No space left"));
  EXPECT_TRUE(write_all(full, {}, "y.npy").ok());
  ::close(full);
}

}  // namespace
}  // namespace ennead::io
