# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` leaves behind: find_package(ennead) and pkg-config find it.
include(CMakePackageConfigHelpers)

set(installed_targets ennead)
if(ENNEAD_IO)
  list(APPEND installed_targets ennead_io)
else()
  set(without_io PATTERN io.h EXCLUDE PATTERN weight_files.h EXCLUDE)
endif()
install(TARGETS ${installed_targets} EXPORT ennead_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/ennead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${without_io})
# A folder of our own: as part of another project, the documents' folder is that project's.
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/ennead)

set(ENNEAD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/ennead)
install(EXPORT ennead_targets NAMESPACE ennead:: DESTINATION ${ENNEAD_CMAKE_DIR} FILE ennead-targets.cmake)
configure_package_config_file(cmake/ennead-config.cmake.in ${PROJECT_BINARY_DIR}/ennead-config.cmake
  INSTALL_DESTINATION ${ENNEAD_CMAKE_DIR})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ennead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ennead-config.cmake ${PROJECT_BINARY_DIR}/ennead-config-version.cmake
  DESTINATION ${ENNEAD_CMAKE_DIR})

# Relative to the file itself, so that the installed tree can be moved.
file(RELATIVE_PATH ENNEAD_PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
# A static library leaves to its user what it needs itself.
if(BUILD_SHARED_LIBS)
  set(ENNEAD_PC_NEEDS "Requires.private: libhwy\nLibs.private: -pthread\n")
  set(ENNEAD_PC_LIBS "")
else()
  set(ENNEAD_PC_NEEDS "Requires: libhwy\n")
  set(ENNEAD_PC_LIBS " -pthread")
endif()
set(pc_files ennead)
if(ENNEAD_IO)
  list(APPEND pc_files ennead-io)
endif()
foreach(name IN LISTS pc_files)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
