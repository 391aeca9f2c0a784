# SPDX-License-Identifier: Apache-2.0
# WebAssembly with vectors of 128 bits, by emscripten; programs run under node.
#
# Emscripten and not clang with wasi-libc, which makes smaller modules: std::thread, exceptions and with them GoogleTest
# work in emscripten as they are.
find_program(EMXX em++ REQUIRED)
get_filename_component(EMXX_FILE ${EMXX} REALPATH)
get_filename_component(EMSCRIPTEN_FOLDER ${EMXX_FILE} DIRECTORY)
# Where Debian puts what em++ lets node run; a node from elsewhere does not look there.
if(IS_DIRECTORY /usr/share/nodejs)
  set(ENV{NODE_PATH} /usr/share/nodejs:$ENV{NODE_PATH})
endif()
include(${EMSCRIPTEN_FOLDER}/cmake/Modules/Platform/Emscripten.cmake)
# Debian 12's em++ has no <source_location>; clang has what it is made of.
if(NOT EXISTS ${EMSCRIPTEN_FOLDER}/cache/sysroot/include/c++/v1/source_location)
  set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR}/emscripten)
endif()
