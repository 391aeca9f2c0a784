# SPDX-License-Identifier: Apache-2.0
# Flags that every target of the project shares: one set for all ten variants.
add_library(ennead_options INTERFACE)
target_compile_options(ennead_options INTERFACE
  # FMA is written where it is meant; g++ would contract by itself, clang would not.
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow)
if(ENNEAD_WERROR)
  target_compile_options(ennead_options INTERFACE -Werror)
endif()
if(ENNEAD_SANITIZE)
  # Undefined behaviour would only be printed otherwise, and the test pass.
  target_compile_options(ennead_options INTERFACE
    -fsanitize=${ENNEAD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ennead_options INTERFACE -fsanitize=${ENNEAD_SANITIZE})
endif()

# For what only drives the library (tool, tests, examples): builds in half the time, runs as fast.
add_library(ennead_driver_options INTERFACE)
target_link_libraries(ennead_driver_options INTERFACE ennead_options)
target_compile_options(ennead_driver_options INTERFACE -O1)
