# Counts instructions with callgrind: that memory is accounted for costs an op less than 10 ns, which are 160
# instructions: recording an op takes some 730 in 41 ns (docs/design/tracing.md). It is the sum of what tensors hold, kept
# everywhere, and what a `step` adds: the looks at free memory and the plans when the sum has doubled. A third above what
# it takes is allowed.
#   cmake -DVALGRIND=... -DPROGRAM=... -DSUM_PROGRAM=... -DWORK=... -P accounting.cmake

set(ops 20000)
function(count name result)
  execute_process(
    COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=${WORK}/${name}.out ${ARGN}
    ERROR_VARIABLE output OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "callgrind failed (${status}):\n${output}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
foreach(mode counted uncounted)
  count(${mode} few ${PROGRAM} ${ops} 1 ${mode})
  count(${mode} many ${PROGRAM} ${ops} 6 ${mode})
  math(EXPR ${mode} "(${many} - ${few}) / (5 * ${ops})")
endforeach()
count(sum few ${SUM_PROGRAM} ${ops})
math(EXPR many_ops "6 * ${ops}")
count(sum many ${SUM_PROGRAM} ${many_ops})
math(EXPR sum "(${many} - ${few}) / (5 * ${ops})")
math(EXPR accounting "${counted} - ${uncounted} + ${sum}")
message("${counted} instructions an op in a step, ${uncounted} without budgets, of which the sum is ${sum}: "
  "${accounting}, 60 allowed")
if(accounting GREATER 60)
  message(FATAL_ERROR "over budget")
endif()
