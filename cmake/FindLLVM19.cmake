# Finds LLVM 19: its C headers and its shared library. LLVM's own package file is not used: it also
# looks for everything that LLVM was built with.
#   LLVM19_FOUND, LLVM19_VERSION, target LLVM19::LLVM

find_path(LLVM19_INCLUDE_DIR llvm-c/TargetMachine.h
  HINTS ${LLVM19_ROOT}/include /usr/lib/llvm-19/include /usr/lib64/llvm19/include)
find_library(LLVM19_LIBRARY NAMES LLVM-19 LLVM
  HINTS ${LLVM19_ROOT}/lib /usr/lib/llvm-19/lib /usr/lib64/llvm19/lib)
mark_as_advanced(LLVM19_INCLUDE_DIR LLVM19_LIBRARY)

if(LLVM19_INCLUDE_DIR AND EXISTS ${LLVM19_INCLUDE_DIR}/llvm/Config/llvm-config.h)
  file(STRINGS ${LLVM19_INCLUDE_DIR}/llvm/Config/llvm-config.h line REGEX "define LLVM_VERSION_STRING")
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" LLVM19_VERSION "${line}")
endif()
if(NOT LLVM19_VERSION MATCHES "^19\\.")
  set(LLVM19_VERSION LLVM19_VERSION-NOTFOUND)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LLVM19
  REQUIRED_VARS LLVM19_LIBRARY LLVM19_INCLUDE_DIR LLVM19_VERSION)

if(LLVM19_FOUND AND NOT TARGET LLVM19::LLVM)
  add_library(LLVM19::LLVM UNKNOWN IMPORTED)
  set_target_properties(LLVM19::LLVM PROPERTIES
    IMPORTED_LOCATION ${LLVM19_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LLVM19_INCLUDE_DIR})
endif()
