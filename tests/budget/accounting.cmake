# Counts instructions with callgrind: what a `step` adds to an op costs less than 10 ns, which are 40 instructions: the
# looks at free memory and the plans when the memory of what was recorded has doubled. The sum of that memory, some 20
# instructions of an op, is kept outside of steps too.
#   cmake -DVALGRIND=... -DPROGRAM=... -DWORK=... -P accounting.cmake

set(ops 20000)
function(count mode repeats result)
  execute_process(
    COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=${WORK}/${mode}.out ${PROGRAM} ${ops} ${repeats} ${mode}
    ERROR_VARIABLE output OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "callgrind failed (${status}):\n${output}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
foreach(mode counted uncounted)
  count(${mode} 1 few)
  count(${mode} 6 many)
  math(EXPR ${mode} "(${many} - ${few}) / (5 * ${ops})")
endforeach()
math(EXPR accounting "${counted} - ${uncounted}")
message("${counted} instructions an op in a step, ${uncounted} without budgets: ${accounting}, 40 allowed")
if(accounting GREATER 40)
  message(FATAL_ERROR "over budget")
endif()
