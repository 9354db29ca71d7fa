# Fails where a file of src/ includes a private header of a folder that comes later in this list, or of
# a folder that the list lacks. Subfolders belong to their folder, unless the list has them too.
set(order
  base ir distributed trace
  ops/kit ops/primitives ops/math ops/shape ops/linalg ops/nn ops/random ops/signal ops/sparse ops
  compiler/facts compiler/passes compiler/loops compiler/scalar compiler/text compiler/sizes compiler
  backends/common backends/reference backends/null
  backends/cpu/host backends/cpu/emit backends/cpu/interpret backends/cpu/code backends/cpu/fft backends/cpu/matmul
  backends/cpu/calls backends/cpu/passes backends/cpu
  backends/cuda/device backends/cuda/emit backends/cuda/driver backends/cuda/emulation backends/cuda/passes
  backends/cuda/calls backends/cuda backends
  runtime autograd vmap io module distributions nn optim data jit onnx/plugin onnx onnx/operators plugins parallel)

# folder_of(path out): the longest entry of the list that is a folder of the path, and its position.
function(folder_of path name_out position_out)
  set(best "")
  set(at -1)
  set(i 0)
  foreach(folder IN LISTS order)
    string(LENGTH "${folder}/" length)
    string(LENGTH "${best}" best_length)
    string(FIND "${path}" "${folder}/" start)
    if(start EQUAL 0 AND length GREATER best_length)
      set(best "${folder}")
      set(at ${i})
    endif()
    math(EXPR i "${i} + 1")
  endforeach()
  set(${name_out} "${best}" PARENT_SCOPE)
  set(${position_out} ${at} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE ${ROOT}/src ${ROOT}/src/*.h ${ROOT}/src/*.cpp ${ROOT}/src/*.cuh)
set(seen 0)
set(wrong "")
foreach(file IN LISTS files)
  folder_of(${file} folder position)
  if(position EQUAL -1)
    string(APPEND wrong "src/${file}: its folder is not in the list of tests/structure/include_order.cmake\n")
    continue()
  endif()
  file(STRINGS ${ROOT}/src/${file} lines REGEX "^#include \"")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" header "${line}")
    if(header MATCHES "^hammock/" OR NOT EXISTS ${ROOT}/src/${header})
      continue()
    endif()
    math(EXPR seen "${seen} + 1")
    folder_of(${header} other other_position)
    if(other_position GREATER position)
      string(APPEND wrong "src/${file}: includes ${header}, but ${folder} comes before ${other}\n")
    endif()
  endforeach()
endforeach()

if(seen LESS 1000)
  message(FATAL_ERROR "only ${seen} includes were looked at")
endif()
if(wrong)
  message(FATAL_ERROR "folders include only from those before them:\n${wrong}")
endif()
message("${seen} includes follow the order")
