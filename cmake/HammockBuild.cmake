# What all targets of this repository share.

find_program(HAMMOCK_CCACHE ccache)
if(HAMMOCK_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # What it needs to know of precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${HAMMOCK_CCACHE})
endif()

# Headers that nearly every file includes, precompiled. None of ours, so that no change makes all anew; only where a
# build begins from scratch anyway.
set(HAMMOCK_PRECOMPILED <algorithm> <array> <atomic> <cmath> <cstdint> <functional> <map> <memory> <mutex> <optional>
  <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
option(HAMMOCK_PRECOMPILE_OWN "Precompile Hammock's own headers too: a first build is faster, later ones are slower" OFF)
set(HAMMOCK_PRECOMPILED_TEST <gtest/gtest.h>)
if(HAMMOCK_PRECOMPILE_OWN)
  list(APPEND HAMMOCK_PRECOMPILED <hammock/ir/graph.h> <hammock/ir/op_def.h> <hammock/metric.h> <hammock/tensor.h>)
  list(APPEND HAMMOCK_PRECOMPILED_TEST <hammock/hammock.h>)
endif()

# Programs with sanitizers are large, and the default linker takes twice as long.
if(HAMMOCK_SANITIZE)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold HAMMOCK_HAS_GOLD)
  if(HAMMOCK_HAS_GOLD)
    add_link_options(-fuse-ld=gold)
  endif()
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo or MinSizeRel" FORCE)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

if(HAMMOCK_SANITIZE)
  add_compile_options(-fsanitize=${HAMMOCK_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HAMMOCK_SANITIZE})
endif()

# hammock_defaults(target): language level, warnings, visibility.
function(hammock_defaults target)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20
    CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  # Source locations are relative to the repository, so output is the same in every checkout.
  # g++ 12 warns about `"text" + std::string` where nothing overlaps (GCC PR105651). It is also the
  # compiler whose warnings are errors: each later one has new ones, and must build all the same.
  set(g++12 $<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra $<${g++12}:-Werror> -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  # Plain x86-64 has no fused multiply-add. Elsewhere the compiler would fuse where it likes, and kernels
  # that are compared bit by bit would differ.
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE -ffp-contract=off)
  endif()
endfunction()

# hammock_add_folder(folder): adds a folder of the repository where it exists.
function(hammock_add_folder folder)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/${folder})
  endif()
endfunction()

# hammock_option(name found doc): an option that is on where its dependency is found, unless the user says otherwise.
# The cache has AUTO then: a build folder follows what is installed later.
function(hammock_option name found doc)
  set(${name} AUTO CACHE STRING "${doc}: ON, OFF, or AUTO, which is on where its dependency is found")
  if("$CACHE{${name}}" STREQUAL "AUTO")
    set(value OFF)
    if(found)
      set(value ON)
    endif()
    set(${name} ${value} PARENT_SCOPE)
  endif()
endfunction()

# hammock_opens(name plugins...): the plug-ins that a program opens when it runs are built with it.
function(hammock_opens name)
  foreach(plugin IN LISTS ARGN)
    if(TARGET hammock_${plugin})
      add_dependencies(${name} hammock_${plugin})
    endif()
  endforeach()
endfunction()

# hammock_program(name sources...): a program that uses the library as its users do, on the device cpu at least.
function(hammock_program name)
  add_executable(${name} ${ARGN})
  hammock_defaults(${name})
  target_link_libraries(${name} PRIVATE hammock)
  hammock_opens(${name} llvm)
  # An installed one finds the library from where it lies itself, wherever the prefix is moved to.
  file(RELATIVE_PATH to_library /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH $ORIGIN/${to_library})
endfunction()

# hammock_bench(name sources...): a program with Google Benchmark's main.
function(hammock_bench name)
  hammock_program(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE benchmark::benchmark_main)
endfunction()

# hammock_test(name sources...): one GoogleTest program, linked with all code, hidden parts included.
# HAMMOCK_TEST_PROPERTIES are those of its tests.
function(hammock_test name)
  add_executable(${name} ${ARGN})
  hammock_defaults(${name})
  target_compile_options(${name} PRIVATE ${HAMMOCK_TEST_FLAGS})
  target_precompile_headers(${name} REUSE_FROM test_headers)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE hammock_core test_main test_source_path)
  # Plug-ins lie beside the library. The old tag also serves dlopen called through a sanitizer.
  set_target_properties(${name} PROPERTIES BUILD_RPATH ${PROJECT_BINARY_DIR})
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  if(CMAKE_CROSSCOMPILING)  # one process for all: an emulated program takes seconds to start
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 3600)
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
      PROPERTIES TIMEOUT 900 ${HAMMOCK_TEST_PROPERTIES})
  endif()
endfunction()

# hammock_build_id(target): compiles in what BuildId() returns, a hash of all sources of the library.
function(hammock_build_id target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/*.cpp ${PROJECT_SOURCE_DIR}/src/*.h ${PROJECT_SOURCE_DIR}/src/*.cuh
    ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/include/*.inc)
  string(CONCAT build "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} "
    "${CMAKE_CXX_FLAGS} ${HAMMOCK_SANITIZE} llvm ${HAMMOCK_WITH_LLVM} onednn ${HAMMOCK_WITH_ONEDNN}")
  set(output ${PROJECT_BINARY_DIR}/build_id.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DROOT=${PROJECT_SOURCE_DIR} "-DBUILD=${build}"
      -P ${script}
    DEPENDS ${sources} ${script} VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

# hammock_starts(test targets...): the paths of programs that a test starts, and of libraries that these open, as
# HAMMOCK_<TARGET>. Programs for another processor are started by a script that calls the emulator.
function(hammock_starts test)
  foreach(target IN LISTS ARGN)
    set(path $<TARGET_FILE:${target}>)
    get_target_property(type ${target} TYPE)
    if(CMAKE_CROSSCOMPILING_EMULATOR AND type STREQUAL EXECUTABLE)
      set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.sh)
      list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
      file(GENERATE OUTPUT ${script} CONTENT "#!/bin/sh\nexec ${emulator} '${path}' \"$@\"\n"
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
      set(path ${script})
    endif()
    string(TOUPPER ${target} name)
    target_compile_definitions(${test} PRIVATE HAMMOCK_${name}="${path}")
    add_dependencies(${test} ${target})
  endforeach()
endfunction()
