# Counts instructions with callgrind: a training step in one mode costs at most MOST percent of one in another.
#   cmake -DVALGRIND=... -DPROGRAM=... -DWORK=... -DMODE=queued -DAGAINST=awaited -DMOST=102 -P ratio.cmake

function(count mode repeats result)
  execute_process(
    COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=${WORK}/${MODE}_${mode}.out ${PROGRAM} 0 ${repeats} ${mode}
    ERROR_VARIABLE output OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "callgrind failed (${status}):\n${output}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
# The first steps compile, also where it takes a while to find the loop.
foreach(mode ${MODE} ${AGAINST})
  count(${mode} 20 few)
  count(${mode} 60 many)
  math(EXPR ${mode} "(${many} - ${few}) / 40")
endforeach()
math(EXPR percent "100 * ${${MODE}} / ${${AGAINST}}")
message("${${MODE}} instructions a step ${MODE}, ${${AGAINST}} ${AGAINST}: ${percent} %, ${MOST} allowed")
if(percent GREATER MOST)
  message(FATAL_ERROR "over budget")
endif()
