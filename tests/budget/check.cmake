# Counts instructions with callgrind, which does not depend on how busy the machine is, and fails where an op costs
# more than its budget. Two runs of different length: the difference is what the ops cost.
#   cmake -DVALGRIND=... -DPROGRAM=... -DWORK=... -DMODE=trace|sync|... -DBUDGET=N -P check.cmake

function(count repeats result)
  set(arguments 1000 ${repeats})
  if(NOT MODE MATCHES "^(trace|passes)$")
    list(APPEND arguments ${MODE})
  endif()
  execute_process(
    COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=${WORK}/${MODE}.out ${PROGRAM} ${arguments}
    ERROR_VARIABLE output OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "callgrind failed (${status}):\n${output}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
count(5 short)
count(45 long)
math(EXPR per_op "(${long} - ${short}) / 40000")
message("${MODE}: ${per_op} instructions per op, budget ${BUDGET}")
if(per_op GREATER BUDGET)
  message(FATAL_ERROR "over budget")
endif()
