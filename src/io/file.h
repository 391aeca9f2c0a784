// SPDX-License-Identifier: Apache-2.0
// Files as the readers and writers need them: input that cannot crash us when it changes, output
// that is there whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ennead/error.h"

namespace ennead::io {

/// A regular file, open for reading. Refusals name the file.
class InputFile {
 public:
  InputFile() = default;
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  Refusal open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  /// Fills `out` with the bytes from `offset` on. A read call, not a load from a mapping: when
  /// someone cuts the file short meanwhile, this returns a sentence where a mapping raises SIGBUS.
  Refusal read(std::uint64_t offset, std::span<std::byte> out) const;

  /// Nothing when the file still is as it was opened. To be asked after the last read: a file that
  /// is rewritten in place would otherwise give half old, half new numbers.
  Refusal check_unchanged() const;

  /// The whole file as memory, copy on write. Lives as long as this object.
  Refusal map(std::span<std::byte>& bytes);

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::int64_t modified_ns_ = 0;
  std::span<std::byte> mapping_;
};

/// A file that gets its name when it is complete. Until then it has a temporary name, or none at
/// all where the system can do that, so that not even a killed process leaves a piece behind.
class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Finds out now whether anything can be written at `path`.
  Refusal open(const std::string& path);
  Refusal write(std::span<const std::byte> bytes);
  /// Everything that may fail for lack of space: after it the bytes are on the disk.
  Refusal flush();
  /// Flushes and moves the file to its name, replacing what was there.
  Refusal commit();

  const std::string& path() const { return path_; }

 private:
  Refusal write_buffer();
  void discard();

  std::string path_;       ///< as the caller wrote it
  std::string target_;     ///< behind symbolic links
  std::string temporary_;  ///< empty while the file has no name
  int descriptor_ = -1;
  bool flushed_ = false;
  std::vector<std::byte> buffer_;
};

/// Whether writing to either path replaces the same file: behind symbolic links, also to files that are
/// not there yet, and however their directory is spelled. False where a path cannot be followed.
bool same_target(const std::string& a, const std::string& b);

/// Writes all of `bytes` to a descriptor, however many calls it takes.
Refusal write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path);

}  // namespace ennead::io
