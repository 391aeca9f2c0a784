# SPDX-License-Identifier: Apache-2.0
# Google Highway. Built for another processor, its headers alone: those of this machine, as they are for all of them,
# seen through a folder of their own, since what else stands beside them is for this machine.
if(NOT CMAKE_CROSSCOMPILING)
  find_package(hwy REQUIRED)
else()
  find_path(ENNEAD_HWY_INCLUDE hwy/highway.h PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
  file(CREATE_LINK ${ENNEAD_HWY_INCLUDE}/hwy ${PROJECT_BINARY_DIR}/include/hwy SYMBOLIC)
  add_library(hwy::hwy INTERFACE IMPORTED)
  target_include_directories(hwy::hwy SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/include)
endif()
