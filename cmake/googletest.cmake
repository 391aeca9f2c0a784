# SPDX-License-Identifier: Apache-2.0
# GoogleTest as GTest::gtest and GTest::gtest_main. Built for another processor, from its sources, where Debian's package
# googletest puts them.
if(NOT CMAKE_CROSSCOMPILING)
  find_package(GTest REQUIRED)
else()
  set(ENNEAD_GOOGLETEST /usr/src/googletest/googletest CACHE PATH "Sources of GoogleTest")
  set(INSTALL_GTEST OFF)
  add_subdirectory(${ENNEAD_GOOGLETEST} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  if(NOT TARGET GTest::gtest)
    add_library(GTest::gtest ALIAS gtest)
    add_library(GTest::gtest_main ALIAS gtest_main)
  endif()
endif()
