// SPDX-License-Identifier: Apache-2.0
// Memory for the length of one call, from the context's arena.
#pragma once

#include "ennead/context.h"

namespace ennead::base {

class Scratch {
 public:
  Scratch(const Context& context, std::size_t bytes)
      : context_(context), data_(context.arena().allocate(bytes)), bytes_(bytes) {}
  ~Scratch() { context_.arena().release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const { return data_; }

 private:
  Context context_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace ennead::base
