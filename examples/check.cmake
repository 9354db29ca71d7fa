# Runs an example and looks at what it prints:
#
#   cmake -DPROGRAM=... [-DARGUMENTS=...] [-DFROM=x] [-DTO=y] [-DLEAST=z] [-DTEXT=regex] -P check.cmake
#
# The first "loss NUMBER" must be above FROM and the last one below TO, the last "NUMBER%" above LEAST, and the
# output must match TEXT.
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "it ended with ${status}")
endif()

if(DEFINED TO)
  string(REGEX MATCHALL "loss [-0-9.e]+" losses "${output}")
  list(GET losses 0 first)
  list(GET losses -1 last)
  string(SUBSTRING "${first}" 5 -1 first)
  string(SUBSTRING "${last}" 5 -1 last)
  if(NOT first GREATER FROM OR NOT last LESS TO)
    message(FATAL_ERROR "the loss went from ${first} to ${last}, expected above ${FROM} and below ${TO}")
  endif()
endif()
if(DEFINED LEAST)
  string(REGEX MATCHALL "[0-9.]+%" shares "${output}")
  list(GET shares -1 share)
  string(REPLACE "%" "" share "${share}")
  if(NOT share GREATER LEAST)
    message(FATAL_ERROR "${share}% at the end, expected more than ${LEAST}%")
  endif()
endif()
if(DEFINED TEXT AND NOT output MATCHES "${TEXT}")
  message(FATAL_ERROR "the output does not match '${TEXT}'")
endif()
