# Finds LLVM 19: its C headers and its shared library, or with HAMMOCK_STATIC_LLVM its archives. LLVM's own package
# file is not used: it also looks for everything that LLVM was built with.
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

option(HAMMOCK_STATIC_LLVM "Link LLVM into its plug-in, which then needs no LLVM where it runs" OFF)
if(LLVM19_FOUND AND HAMMOCK_STATIC_LLVM AND NOT TARGET LLVM19::LLVM)
  find_program(LLVM19_CONFIG llvm-config HINTS ${LLVM19_INCLUDE_DIR}/../bin NO_DEFAULT_PATH REQUIRED)
  mark_as_advanced(LLVM19_CONFIG)
  execute_process(COMMAND ${LLVM19_CONFIG} --link-static --libfiles native passes irreader
    OUTPUT_VARIABLE archives OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${LLVM19_CONFIG} --link-static --system-libs native passes irreader
    OUTPUT_VARIABLE system OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(archives UNIX_COMMAND "${archives}")
  separate_arguments(system UNIX_COMMAND "${system}")
  add_library(LLVM19::LLVM INTERFACE IMPORTED)
  target_include_directories(LLVM19::LLVM SYSTEM INTERFACE ${LLVM19_INCLUDE_DIR})
  target_link_libraries(LLVM19::LLVM INTERFACE ${archives} ${system})
  target_link_options(LLVM19::LLVM INTERFACE -Wl,--as-needed -Wl,--exclude-libs,ALL -Wl,--gc-sections)
endif()
if(LLVM19_FOUND AND NOT TARGET LLVM19::LLVM)
  add_library(LLVM19::LLVM UNKNOWN IMPORTED)
  set_target_properties(LLVM19::LLVM PROPERTIES
    IMPORTED_LOCATION ${LLVM19_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LLVM19_INCLUDE_DIR})
endif()
