# A process ends in time, with its own exit code, though a function of a plug-in does not return.
#   cmake -DPROGRAM=<exit_program> -DPLUGIN=<faulty plug-in> -P check_exit.cmake
foreach(fault none hanging_shutdown hanging_execute)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env FAULT=${fault} HAMMOCK_PLUGINS=${PLUGIN} ${PROGRAM} faulty
    TIMEOUT 7 RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result STREQUAL "3")
    message(SEND_ERROR "fault ${fault}: it ends with '${result}', expected 3\n${output}")
  endif()
endforeach()
