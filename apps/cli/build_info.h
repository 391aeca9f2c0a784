// SPDX-License-Identifier: Apache-2.0
// Written by cmake/build_info.cmake at every build.
#pragma once

namespace ennead::cli {

extern const char* const kVersion;
extern const char* const kCommit;  ///< "-dirty" is appended when files differ from it
extern const char* const kFlags;

}  // namespace ennead::cli
