// SPDX-License-Identifier: Apache-2.0
// Memory that is taken from the system once and then reused: fresh pages cost more than the
// arithmetic they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "ennead/error.h"
#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

/// Hands out 64-byte aligned blocks (2 MiB aligned, huge pages asked for, when large) and keeps
/// freed ones for the next request. Used by one thread at a time.
class Arena {
 public:
  struct Options {
    std::size_t limit_bytes = 0;  ///< refuse beyond this many bytes in use; 0: what the system has free
    bool poison = false;          ///< fill every block with NaN bytes before handing it out
    bool dry_run = false;         ///< count only: blocks have no memory behind them
  };

  explicit Arena(Options options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Nothing when `bytes` more can be handed out, else a sentence naming the bytes.
  Refusal check(std::size_t bytes) const;

  /// A block of at least `bytes`; nullptr when bytes is 0; in a dry run a pointer to nowhere. Throws Error when
  /// check() refuses or the system has no memory.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* block, std::size_t bytes) noexcept;

  /// Gives all unused blocks back to the system.
  void trim() noexcept;

  std::size_t bytes_in_use() const { return in_use_; }
  std::size_t peak_bytes() const { return peak_; }
  /// Bytes handed out since the arena was made, freed or not.
  std::size_t total_bytes() const { return total_; }
  /// Starts a new peak at what is in use now.
  void reset_peak() { peak_ = in_use_; }
  bool dry_run() const { return options_.dry_run; }

 private:
  /// An unused block that serves `bytes`, or the end.
  std::multimap<std::size_t, std::byte*>::const_iterator find_fit(std::size_t bytes) const;

  Options options_;
  std::multimap<std::size_t, std::byte*> unused_;  // by size
  std::map<std::byte*, std::size_t> oversize_;     // blocks in use that are larger than asked for
  std::size_t in_use_ = 0, peak_ = 0, total_ = 0, reserved_ = 0;
};

}  // namespace ennead
ENNEAD_API_END
