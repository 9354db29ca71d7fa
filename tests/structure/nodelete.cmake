# The library and the libraries that it opens are linked so that dlclose unloads nothing: steps of other threads may run
# their code. The compiler marks some symbols so that a library stays by chance; the option does not depend on that.
#   cmake -DREADELF=... "-DLIBRARIES=a.so;b.so" -P nodelete.cmake
foreach(library IN LISTS LIBRARIES)
  execute_process(COMMAND ${READELF} -d ${library} OUTPUT_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "NODELETE")
    message(SEND_ERROR "${library} is not linked with -z nodelete")
  endif()
endforeach()
