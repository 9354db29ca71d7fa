# Counts instructions with callgrind: a step at a size that is new costs at most 1.15 of the same step for the second
# time, and CALLS library calls of new shapes. A call may take 20 us; the host's share of that is 50,000 instructions.
#   cmake -DVALGRIND=... -DPROGRAM=... -DWORK=... -DCALLS=N -DFIRST=N -P sizes.cmake

function(count sizes times result)
  execute_process(
    COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=${WORK}/sizes_${FIRST}.out
      ${PROGRAM} ${sizes} ${times} ${FIRST}
    ERROR_VARIABLE output OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "callgrind failed (${status}):\n${output}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
count(10 1 few)
count(60 1 many)
count(10 2 few_twice)
count(60 2 many_twice)
math(EXPR new "(${many} - ${few}) / 50")
math(EXPR again "(${many_twice} - ${few_twice}) / 50 - ${new}")
math(EXPR allowed "${again} * 115 / 100 + ${CALLS} * 50000")
message("${new} instructions at a new size, ${again} again, ${allowed} allowed")
if(new GREATER allowed)
  message(FATAL_ERROR "over budget")
endif()
