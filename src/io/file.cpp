// SPDX-License-Identifier: Apache-2.0
// POSIX calls live here and nowhere else in the reader.
#include "io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <system_error>

#include "io/text.h"

namespace ennead::io {
namespace {

static_assert(sizeof(off_t) == 8, "files over 4 GiB need 64-bit offsets");

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
/// Linux moves at most this much in one call; asking for less is portable.
constexpr std::size_t kLargestCall = std::size_t{1} << 30;

std::string reason(int error) { return std::generic_category().message(error); }

std::string kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a directory";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  if (S_ISSOCK(status.st_mode)) return "a socket";
  return "a device";
}

std::int64_t modified_ns(const struct stat& status) {
#if defined(__APPLE__)
  const struct timespec& time = status.st_mtimespec;
#else
  const struct timespec& time = status.st_mtim;
#endif
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// A name for what will be `target`, in its directory: only there can it be renamed. Not made of its name,
/// which may be as long as a name can be.
std::string partial_name(const std::string& target, int attempt) {
  return sentence(directory_of(target), "/.", ::getpid(), ".", attempt, ".partial");
}

/// Follows a chain of symbolic links to its end, so that writing replaces the file and not the link. By
/// hand: realpath() knows nothing of a link to a file that is yet to be written.
/// @return 0, or the error
int follow_links(std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux
  for (int links = 0; links <= kMostLinks; ++links) {
    char next[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), next, sizeof(next));
    if (length < 0) return 0;  // no link, or nothing there; opening it finds out what else may be wrong
    if (static_cast<std::size_t>(length) == sizeof(next)) return ENAMETOOLONG;
    const std::string target(next, static_cast<std::size_t>(length));
    path = target.front() == '/' ? target : directory_of(path) + "/" + target;
  }
  return ELOOP;
}

}  // namespace

InputFile::~InputFile() {
  if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Refusal InputFile::open(const std::string& path) {
  path_ = path;
  // Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    return sentence(in_quotes(path), ": cannot be opened: ", reason(errno));
  }
  if (!S_ISREG(status.st_mode)) return sentence(in_quotes(path), ": expected a regular file, got ", kind_of(status));
  size_ = static_cast<std::uint64_t>(status.st_size);
  modified_ns_ = modified_ns(status);
  return {};
}

Refusal InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  const std::size_t wanted = out.size();
  while (!out.empty()) {
    const std::size_t done = wanted - out.size();
    const ssize_t got =
        ::pread(descriptor_, out.data(), std::min(out.size(), kLargestCall), static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sentence(in_quotes(path_), ": cannot be read at byte ", offset + done, ": ", reason(errno));
    if (got == 0) {
      return sentence(in_quotes(path_), ": expected ", wanted, " bytes from byte ", offset, " on, got ", done,
                      ": the file is too short, or was cut short while it was read");
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Refusal InputFile::check_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return sentence(in_quotes(path_), ": cannot be read: ", reason(errno));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size != size_) {
    return sentence(in_quotes(path_), ": expected the ", size_, " bytes it had when it was opened, got ", size,
                    ": the file was changed while it was read");
  }
  if (modified_ns(status) != modified_ns_) {
    return sentence(in_quotes(path_), ": expected a file that nobody writes to, got one changed while it was read");
  }
  return {};
}

Refusal InputFile::map(std::span<std::byte>& bytes) {
  if (mapping_.empty() && size_ > 0) {
    void* memory =
        ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor_, 0);
    if (memory == MAP_FAILED) return sentence(in_quotes(path_), ": cannot be mapped: ", reason(errno));
    mapping_ = {static_cast<std::byte*>(memory), static_cast<std::size_t>(size_)};
  }
  bytes = mapping_;
  return {};
}

Refusal write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kLargestCall));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return sentence(in_quotes(path), ": cannot be written: ", written < 0 ? reason(errno) : "nothing was taken");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

bool same_target(const std::string& a, const std::string& b) {
  std::string at = a, bt = b;
  struct stat of_a {
  }, of_b{};
  if (follow_links(at) != 0 || follow_links(bt) != 0) return false;
  if (::stat(directory_of(at).c_str(), &of_a) != 0 || ::stat(directory_of(bt).c_str(), &of_b) != 0) return false;
  return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino &&
         at.substr(at.rfind('/') + 1) == bt.substr(bt.rfind('/') + 1);
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  descriptor_ = -1;
  temporary_.clear();
}

Refusal OutputFile::open(const std::string& path) {
  path_ = path;
  if (path.empty() || path.back() == '/') return sentence(in_quotes(path), ": expected the name of a file to write");
  target_ = path;
  if (const int error = follow_links(target_); error != 0) {
    return sentence(in_quotes(path), ": cannot be written: ", reason(error));
  }
  mode_t mode = 0666;
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  // What cannot even be looked up, say a name too long, could not be renamed to in the end.
  if (!exists && errno != ENOENT) return sentence(in_quotes(path), ": cannot be written: ", reason(errno));
  if (exists && !S_ISREG(status.st_mode)) {
    return sentence(in_quotes(path), ": expected the name of a regular file to write, got ", kind_of(status));
  }
  if (exists && ::access(target_.c_str(), W_OK) != 0) {
    return sentence(in_quotes(path), ": cannot be written: ", reason(errno));
  }
#if defined(O_TMPFILE)
  // Such a file is named through /proc later, which not every container has.
  if (::access("/proc/self/fd", X_OK) == 0)
    descriptor_ = ::open(directory_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
#endif
  for (int attempt = 0; descriptor_ < 0 && attempt < 100; ++attempt) {
    const std::string name = partial_name(target_, attempt);
    descriptor_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    if (descriptor_ >= 0) temporary_ = name;
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) return sentence(in_quotes(path), ": cannot be written: ", reason(errno));
  // Best effort: a file that is replaced keeps its permissions where we may set them.
  if (exists && ::fchmod(descriptor_, status.st_mode & 07777) != 0) errno = 0;
  buffer_.reserve(kBufferBytes);
  return {};
}

Refusal OutputFile::write_buffer() {
  Refusal refusal = write_all(descriptor_, buffer_, path_);
  buffer_.clear();
  return refusal;
}

Refusal OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t fits = std::min(bytes.size(), kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(fits));
    bytes = bytes.subspan(fits);
    if (buffer_.size() == kBufferBytes) {
      if (Refusal refusal = write_buffer(); !refusal.ok()) return refusal;
    }
  }
  return {};
}

Refusal OutputFile::flush() {
  if (flushed_) return {};
  if (Refusal refusal = write_buffer(); !refusal.ok()) return refusal;
  if (::fsync(descriptor_) != 0) return sentence(in_quotes(path_), ": cannot be written: ", reason(errno));
  flushed_ = true;
  return {};
}

Refusal OutputFile::commit() {
  if (Refusal refusal = flush(); !refusal.ok()) return refusal;
  if (temporary_.empty()) {
    const std::string unnamed = sentence("/proc/self/fd/", descriptor_);
    for (int attempt = 0; temporary_.empty() && attempt < 100; ++attempt) {
      const std::string name = partial_name(target_, attempt);
      if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_ = name;
      } else if (errno != EEXIST) {
        break;
      }
    }
    if (temporary_.empty()) return sentence(in_quotes(path_), ": cannot be written: ", reason(errno));
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) return sentence(in_quotes(path_), ": cannot be written: ", reason(errno));
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return sentence(in_quotes(path_), ": cannot be written: ", reason(errno));
  }
  temporary_.clear();
  return {};
}

}  // namespace ennead::io
