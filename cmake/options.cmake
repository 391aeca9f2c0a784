# SPDX-License-Identifier: Apache-2.0
# Flags that every target of the project shares: one set for all ten variants. They stand behind CMAKE_CXX_FLAGS, so
# they hold whatever a project that adds this one has put there.
add_library(ennead_options INTERFACE)
target_compile_options(ennead_options INTERFACE
  # Arithmetic as IEEE 754 has it; src/base/exact_arithmetic.h refuses to compile with anything else.
  -fno-fast-math
  # FMA is written where it is meant; g++ would contract by itself, clang would not.
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  # A project that adds this one need not have a build type.
  $<$<CONFIG:>:-O3>
  -Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ keeps of -ffast-math's parts those that were asked for by name.
  target_compile_options(ennead_options INTERFACE
    -fno-unsafe-math-optimizations -fno-finite-math-only -fno-associative-math -fno-reciprocal-math -fsigned-zeros
    -ffp-contract=off -fno-math-errno -fno-trapping-math)
endif()
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

# Precompiled for most targets. Nothing of our own, so that no change of ours has them compiled again.
set(ENNEAD_STANDARD_HEADERS
  <algorithm> <array> <cmath> <cstddef> <cstdint> <cstring> <functional> <initializer_list> <limits> <memory> <optional>
  <source_location> <span> <sstream> <stdexcept> <string> <string_view> <type_traits> <utility> <variant> <vector>)

# Compiles the sources once and makes of them TARGET, static or shared as BUILD_SHARED_LIBS says, and TARGET_internal,
# which also shows what TARGET hides: our tests and our tool link that one.
#   ennead_add_library(TARGET SOURCE...)
function(ennead_add_library target)
  add_library(${target}_objects OBJECT ${ARGN})
  set_target_properties(${target}_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
  target_compile_features(${target}_objects PUBLIC cxx_std_20)
  target_include_directories(${target}_objects PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target}_objects PRIVATE ennead_options)
  # What a shared library exports is not meant to be replaced from outside.
  target_compile_options(${target}_objects PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)

  add_library(${target} $<TARGET_OBJECTS:${target}_objects>)
  # Before 1.0 a minor version may change the interface.
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BUILD_SHARED_LIBS)
    # Where -ffast-math is among the flags of the link, g++ adds code that flushes small numbers to zero in every
    # process that loads the library.
    target_link_options(${target} PRIVATE -fno-fast-math)
    add_library(${target}_internal STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}_objects>)
    set_target_properties(${target}_internal PROPERTIES LINKER_LANGUAGE CXX)
  else()
    add_library(${target}_internal INTERFACE)
    target_link_libraries(${target}_internal INTERFACE ${target})
  endif()
endfunction()

# What a program needs to run under node, where it is built for WebAssembly.
function(ennead_runs_under_node target)
  if(EMSCRIPTEN)
    # node has a fetch() that does not read files. Linking without -O leaves out a long pass over the whole program.
    target_link_options(${target} PRIVATE -O0 -sEXIT_RUNTIME -sINITIAL_MEMORY=2000MB -sWASM_ASYNC_COMPILATION=0)
    if(CMAKE_CXX_FLAGS MATCHES "-pthread")
      # main() on a thread of its own, as others may start and be waited for there only.
      target_link_options(${target} PRIVATE -sPROXY_TO_PTHREAD)
    endif()
  endif()
endfunction()
