# Counts the instructions of cached steps on the null backend, by itself and as a plug-in. The difference is what crossing
# the interface costs a step; that of a long step is the same, so nothing is paid for a node.
#   cmake -DVALGRIND=... -DPROGRAM=... -DPLUGIN=... -DWORK=... -P check_crossing.cmake
set(budget 1500)  # of the loader and a C++ adaptor together; about 180 ns
set(for_nodes 200)

function(count device nodes steps result)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env HAMMOCK_PLUGINS=${PLUGIN} ${VALGRIND} --tool=callgrind
      --callgrind-out-file=${WORK}/crossing.out ${PROGRAM} ${device} ${nodes} ${steps}
    ERROR_VARIABLE output OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "callgrind failed (${status}):\n${output}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

# Instructions of a step.
function(cost device nodes result)
  count(${device} ${nodes} 100 short)
  count(${device} ${nodes} 600 long)
  math(EXPR per_step "(${long} - ${short}) / 500")
  set(${result} ${per_step} PARENT_SCOPE)
endfunction()

foreach(nodes 2 40)
  cost(null ${nodes} direct)
  cost(nothing ${nodes} crossed)
  math(EXPR crossing_${nodes} "${crossed} - ${direct}")
  message("a step of ${nodes} nodes: ${direct} instructions, as a plug-in ${crossing_${nodes}} more, budget ${budget}")
  if(crossing_${nodes} GREATER budget)
    message(FATAL_ERROR "over budget")
  endif()
endforeach()
math(EXPR growth "${crossing_40} - ${crossing_2}")
if(growth GREATER for_nodes)
  message(FATAL_ERROR "38 more nodes cost ${growth} instructions more")
endif()
