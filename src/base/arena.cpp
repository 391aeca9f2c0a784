// SPDX-License-Identifier: Apache-2.0
#include "ennead/arena.h"

#include <cstring>
#include <limits>
#include <new>

#include "base/system_memory.h"

namespace ennead {
namespace {

// A dry run's blocks: a pointer that says "given" and is never followed.
std::byte* nowhere() { return reinterpret_cast<std::byte*>(std::uintptr_t{64}); }

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max() / 2;  // beyond it rounding up would overflow

// Small blocks in steps of 64 bytes, large ones in steps of an eighth of their size: little is
// wasted and a block freed by one operation fits the next.
std::size_t rounded(std::size_t bytes) {
  std::size_t step = 64;
  while (step < bytes / 8) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Arena::Arena(Options options) : options_(options) {}

Arena::~Arena() { trim(); }

std::multimap<std::size_t, std::byte*>::const_iterator Arena::find_fit(std::size_t bytes) const {
  if (bytes > kLargest) return unused_.end();
  // A block up to a quarter larger is good enough: better than fresh pages.
  const std::size_t size = rounded(bytes);
  const auto fit = unused_.lower_bound(size);
  return fit != unused_.end() && fit->first <= size + size / 4 ? fit : unused_.end();
}

Refusal Arena::check(std::size_t bytes) const {
  const std::size_t limit = options_.limit_bytes;
  if (limit != 0) {
    if (bytes <= limit && in_use_ <= limit - bytes) return {};
    return sentence("memory: expected at most ", limit, " bytes in use (the arena's limit), got a request for ", bytes,
                    " bytes on top of ", in_use_);
  }
  // Asking the system costs more than a small block, and a block at hand needs no asking.
  if (options_.dry_run || bytes < kHugePage || find_fit(bytes) != unused_.end()) return {};
  // What lies unused in the arena can be given back first, so it counts as free.
  const std::size_t available = base::available_memory_bytes() + (reserved_ - in_use_);
  if (bytes <= available) return {};
  return sentence("memory: expected a request that fits into the ", available, " bytes free on this machine, got ",
                  bytes, " bytes");
}

std::byte* Arena::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  require(check(bytes));
  const std::size_t size = rounded(bytes);
  std::byte* block = nowhere();
  if (!options_.dry_run) {
    const auto fit = find_fit(bytes);
    if (fit != unused_.end()) {
      block = fit->second;
      // The block keeps its true size under the key it is released with.
      if (fit->first != size) {
        oversize_[block] = fit->first;
      }
      unused_.erase(fit);
    } else {
      if (size >= kHugePage && base::available_memory_bytes() < size) trim();
      block = base::system_allocate(size, size >= kHugePage);
      if (block == nullptr) {
        trim();
        block = base::system_allocate(size, size >= kHugePage);
      }
      if (block == nullptr) raise(sentence("memory: expected ", bytes, " bytes from the system, got none"));
      reserved_ += size;
    }
    if (options_.poison) std::memset(block, 0xFF, size);
  }
  in_use_ += bytes;
  total_ += bytes;
  if (in_use_ > peak_) peak_ = in_use_;
  return block;
}

void Arena::release(std::byte* block, std::size_t bytes) noexcept {
  in_use_ -= bytes;
  if (block == nullptr || options_.dry_run) return;
  std::size_t size = rounded(bytes);
  if (const auto oversize = oversize_.find(block); oversize != oversize_.end()) {
    size = oversize->second;
    oversize_.erase(oversize);
  }
  unused_.emplace(size, block);
}

void Arena::trim() noexcept {
  for (const auto& [size, block] : unused_) {
    base::system_release(block, size);
    reserved_ -= size;
  }
  unused_.clear();
}

}  // namespace ennead
