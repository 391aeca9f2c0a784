# SPDX-License-Identifier: Apache-2.0
# variants.def is the one list: every line ENNEAD_VARIANT(number, slug, ...) names src/variants/<slug>.cpp.
set(ENNEAD_VARIANTS_DEF ${CMAKE_CURRENT_LIST_DIR}/variants.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ENNEAD_VARIANTS_DEF})
file(STRINGS ${ENNEAD_VARIANTS_DEF} ENNEAD_VARIANT_LINES REGEX "^ENNEAD_VARIANT\\(")
set(ENNEAD_VARIANT_SLUGS)
foreach(line IN LISTS ENNEAD_VARIANT_LINES)
  string(REGEX REPLACE "^ENNEAD_VARIANT\\([0-9]+, *([a-z0-9_]+),.*" "\\1" slug "${line}")
  list(APPEND ENNEAD_VARIANT_SLUGS ${slug})
endforeach()
set(ENNEAD_VARIANT_SOURCES ${CMAKE_CURRENT_LIST_DIR}/variants.cpp)
foreach(slug IN LISTS ENNEAD_VARIANT_SLUGS)
  list(APPEND ENNEAD_VARIANT_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${slug}.cpp)
endforeach()
