# Files as a table of names and texts in C++. Run as a script, this file writes the table.
if(CMAKE_SCRIPT_MODE_FILE)
  set(pair "std::pair<std::string_view, std::string_view>")
  file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n"
    "std::span<const ${pair}> ${FUNCTION}() {\n  static constexpr ${pair} kFiles[] = {\n")
  separate_arguments(files UNIX_COMMAND "${FILES}")
  foreach(file IN LISTS files)
    file(READ ${FOLDER}/${file} text)
    if(text MATCHES "\\)embedded\"")
      message(FATAL_ERROR "${file}: the end mark of a string is in it")
    endif()
    file(APPEND ${OUTPUT} "{\"${file}\", R\"embedded(")
    file(APPEND ${OUTPUT} "${text}")
    file(APPEND ${OUTPUT} ")embedded\"},\n")
  endforeach()
  file(APPEND ${OUTPUT} "  };\n  return kFiles;\n}\n\n}  // namespace ${NAMESPACE}\n")
  return()
endif()

# hammock_embed(target FUNCTION f NAMESPACE n HEADER h FOLDER folder FILES names...): defines
#   std::span<const std::pair<std::string_view, std::string_view>> n::f()
# in the target, with a pair of name and text for each file. The header declares it.
function(hammock_embed target)
  cmake_parse_arguments(EMBED "" "FUNCTION;NAMESPACE;HEADER;FOLDER" "FILES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${EMBED_FUNCTION}.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake)
  list(TRANSFORM EMBED_FILES PREPEND ${EMBED_FOLDER}/ OUTPUT_VARIABLE paths)
  list(JOIN EMBED_FILES " " names)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFUNCTION=${EMBED_FUNCTION}
      -DNAMESPACE=${EMBED_NAMESPACE} -DHEADER=${EMBED_HEADER} -DFOLDER=${EMBED_FOLDER}
      "-DFILES=${names}" -P ${script}
    DEPENDS ${script} ${paths}
    VERBATIM)
  # The target may be of another folder, which does not see the command.
  add_custom_target(${target}_${EMBED_FUNCTION} DEPENDS ${output})
  add_dependencies(${target} ${target}_${EMBED_FUNCTION})
  target_sources(${target} PRIVATE ${output})
  set_source_files_properties(${output} TARGET_DIRECTORY ${target} PROPERTIES GENERATED ON)
endfunction()
