# Fails where a public header costs more than it may: the memory that g++ takes for it, relative to that for the standard
# headers which any program of Hammock needs. Unlike the time, for which it stands, it is the same in every run; it grows
# with the templates that are instantiated, too. Twice the standard headers are about a second.
#   cmake -DCXX=g++ -DROOT=... -DWORK=... -P header_cost.cmake
cmake_minimum_required(VERSION 3.25)

# Megabytes that the compiler takes for a file of these includes.
function(memory_of result)
  list(TRANSFORM ARGN REPLACE "(.+)" "#include <\\1>\n")
  string(JOIN "" text ${ARGN})
  file(WRITE ${WORK}/header_cost.cpp "${text}")
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -ftime-report -I${ROOT}/include ${WORK}/header_cost.cpp
    ERROR_VARIABLE report RESULT_VARIABLE failed)
  if(failed OR NOT report MATCHES "\n TOTAL[^\n]* ([0-9]+)M")
    message(FATAL_ERROR "${CXX} -ftime-report of ${ARGN}:\n${report}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

memory_of(standard functional map memory optional span string tuple variant vector)
foreach(bound tensor=105 hammock=200)  # percent
  string(REPLACE "=" ";" bound ${bound})
  list(GET bound 0 header)
  list(GET bound 1 most)
  memory_of(taken hammock/${header}.h)
  math(EXPR percent "100 * ${taken} / ${standard}")
  message(STATUS "hammock/${header}.h: ${taken} MB, ${percent}% of the standard headers (${standard} MB), at most ${most}%")
  if(percent GREATER most)
    message(SEND_ERROR "hammock/${header}.h takes ${percent}% of the standard headers, at most ${most}%; "
      "`${CXX} -std=c++20 -fsyntax-only -H` lists what it includes")
  endif()
endforeach()
