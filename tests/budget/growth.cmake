# Counts instructions with callgrind and fails where a graph four times as large takes more than 4.6 times as many, or
# more than EACH for each one of its size. What the program itself takes, that of a graph of one, is left out.
#   cmake -DVALGRIND=... -DPROGRAM=... -DWORK=... -DDEVICE=cpu|cuda -DKIND=... -DSIZE=N -DEACH=N -P growth.cmake

function(count size result)
  execute_process(
    COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=${WORK}/growth_${DEVICE}_${KIND}.out
      ${PROGRAM} ${DEVICE} ${KIND} ${size}
    ERROR_VARIABLE output OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "callgrind failed (${status}):\n${output}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
math(EXPR larger "${SIZE} * 4")
count(1 one)
count(${SIZE} small)
count(${larger} large)
math(EXPR tenths "10 * (${large} - ${one}) / (${small} - ${one})")
math(EXPR each "(${large} - ${small}) / (${larger} - ${SIZE})")
message("${KIND} on ${DEVICE}: ${each} instructions for each of ${larger}, ${EACH} allowed; "
  "growth of ${tenths} tenths, 46 allowed")
if(tenths GREATER 46)
  message(FATAL_ERROR "more than linear")
endif()
if(each GREATER EACH)
  message(FATAL_ERROR "over budget")
endif()
