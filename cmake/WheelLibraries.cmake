# What a wheel holds beside the extension: the library, its plug-ins, the command, and in `libs` every shared library
# that these need and that is no part of a plain system (glibc, libstdc++ and libgcc are).

# hammock_wheel(): installs all of it as the component `python`.
function(hammock_wheel)
  # The old tag also serves the libraries' libraries. One file name each: archives of wheels have no links.
  set(libraries _hammock hammock)
  foreach(plugin hammock_llvm hammock_onnx)
    if(TARGET ${plugin})
      list(APPEND libraries ${plugin})
    endif()
  endforeach()
  set_target_properties(${libraries} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/libs")
  set_target_properties(hammock PROPERTIES VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  install(TARGETS ${libraries} LIBRARY DESTINATION hammock COMPONENT python NAMELINK_SKIP)
  set(files)
  foreach(library IN LISTS libraries)
    target_link_options(${library} PRIVATE -Wl,--disable-new-dtags)
    list(APPEND files $<TARGET_FILE:${library}>)
  endforeach()
  if(TARGET hammock-tool)
    set_target_properties(hammock-tool PROPERTIES INSTALL_RPATH "$ORIGIN/..;$ORIGIN/../libs")
    target_link_options(hammock-tool PRIVATE -Wl,--disable-new-dtags)
    install(TARGETS hammock-tool RUNTIME DESTINATION hammock/bin COMPONENT python)
  endif()
  install(CODE "
    set(files \"${files}\")
    set(own \"${PROJECT_BINARY_DIR}\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/wheel_install.cmake\")" COMPONENT python)
endfunction()
