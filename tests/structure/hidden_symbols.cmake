# A plug-in library exports its table and nothing else, but for what the compiler makes common to all libraries of a
# process: parts of the standard library.
#   cmake -DNM=nm -DLIBRARY=a.so -DTABLE=HammockOnnxTable -P hidden_symbols.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NM} -D --defined-only --format=posix ${LIBRARY} OUTPUT_VARIABLE output
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " [^\n]*" "" output "${output}")
string(REGEX MATCHALL "[^\n]+" symbols "${output}")
if(NOT TABLE IN_LIST symbols)
  message(FATAL_ERROR "${LIBRARY} does not export ${TABLE}")
endif()
list(REMOVE_ITEM symbols ${TABLE})
list(FILTER symbols EXCLUDE REGEX "^_Z[A-Z]*(S[tabsiod]|9__gnu_cxx)")
if(symbols)
  list(JOIN symbols "\n  " text)
  message(FATAL_ERROR "${LIBRARY} exports more than ${TABLE}:\n  ${text}")
endif()
