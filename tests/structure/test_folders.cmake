cmake_minimum_required(VERSION 3.25)

# Fails where a folder of src/ has no tests in the folder of its name in tests/, unless it is tested elsewhere.
set(elsewhere
  backends/common        # by the tests of the backends that share it
  backends/cpu/code/llvm # a plug-in: tests/backends/cpu/code opens it
  backends/cpu/fft       # tests/ops/signal: transforms of all devices are compared with sums
  backends/cuda/emulation # what the tests of backends/cuda run on
  distributed/gloo       # plug-ins: tests/distributed opens them
  distributed/mpi
  distributed/redis
  onnx/operators         # tests/onnx: operators are called through models
  onnx/plugin
  ops/kit)               # helpers of records, tested by the ops that use them

file(GLOB_RECURSE folders LIST_DIRECTORIES true RELATIVE ${ROOT}/src ${ROOT}/src/*)
set(seen 0)
set(wrong "")
foreach(folder IN LISTS folders)
  if(NOT IS_DIRECTORY ${ROOT}/src/${folder})
    continue()
  endif()
  math(EXPR seen "${seen} + 1")
  if(folder IN_LIST elsewhere)
    list(REMOVE_ITEM elsewhere ${folder})
    if(EXISTS ${ROOT}/tests/${folder})
      string(APPEND wrong "tests/${folder}: is there, so it need not be a reason in tests/structure/test_folders.cmake\n")
    endif()
    continue()
  endif()
  file(GLOB_RECURSE tests ${ROOT}/tests/${folder}/*_test.cpp)
  if(NOT tests)
    string(APPEND wrong "src/${folder}: there is no test in tests/${folder}\n")
  endif()
endforeach()
foreach(folder IN LISTS elsewhere)
  string(APPEND wrong "src/${folder}: is not there, but in the list of tests/structure/test_folders.cmake\n")
endforeach()

if(seen LESS 50)
  message(FATAL_ERROR "only ${seen} folders were looked at")
endif()
if(wrong)
  message(FATAL_ERROR "the tests of a folder lie in the folder of its name:\n${wrong}")
endif()
message("${seen} folders have their tests")
