# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=<dir> -DOUT=<file> -DVERSION=... -DFLAGS=... -P build_info.cmake
# Writes the commit into a source file, and touches it only when something changed.
set(commit unknown)
find_program(git_program git)
if(git_program)
  execute_process(COMMAND ${git_program} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
string(STRIP "${FLAGS}" FLAGS)
set(text "// Written by build_info.cmake.
#include \"build_info.h\"

namespace ennead::cli {
const char* const kVersion = \"${VERSION}\";
const char* const kCommit = \"${commit}\";
const char* const kFlags = \"${FLAGS}\";
}  // namespace ennead::cli
")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT "${text}" STREQUAL "${before}")
  file(WRITE ${OUT} "${text}")
endif()
