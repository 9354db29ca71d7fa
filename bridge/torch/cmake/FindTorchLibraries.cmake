# The target torch_libraries: headers and libraries of an installed PyTorch. Its own TorchConfig
# needs CUDA's compiler where PyTorch was built with CUDA, which nothing here does.
if(TORCH_ROOT)
  set(LIMIT NO_DEFAULT_PATH)
endif()
find_path(
  TORCH_INCLUDE_DIR torch/csrc/lazy/backend/backend_interface.h
  PATHS ${TORCH_ROOT} ${LIMIT}
  PATH_SUFFIXES include REQUIRED)
find_library(TORCH_LIBRARY torch PATHS ${TORCH_ROOT} ${LIMIT} PATH_SUFFIXES lib REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu PATHS ${TORCH_ROOT} ${LIMIT} PATH_SUFFIXES lib REQUIRED)
find_library(C10_LIBRARY c10 PATHS ${TORCH_ROOT} ${LIMIT} PATH_SUFFIXES lib REQUIRED)

set(version_header ${TORCH_INCLUDE_DIR}/torch/headeronly/version.h)
if(NOT EXISTS ${version_header})
  set(version_header ${TORCH_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h)
endif()
file(STRINGS ${version_header} version_lines
     REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" TORCH_VERSION "${version_lines}")
message(STATUS "PyTorch ${TORCH_VERSION} in ${TORCH_INCLUDE_DIR}")

add_library(torch_libraries INTERFACE)
target_include_directories(torch_libraries SYSTEM INTERFACE ${TORCH_INCLUDE_DIR}
                           ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_link_libraries(torch_libraries INTERFACE ${TORCH_LIBRARY} ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})
