# Writes files as C++ string constants.
#   cmake -DOUTPUT=<file.cpp> -DFOLDER=<report> -P embed.cmake
function(append name file)
  file(READ ${FOLDER}/${file} text)
  if(text MATCHES "\\)page\"")
    message(FATAL_ERROR "${file} has the end mark of a string in it")
  endif()
  file(APPEND ${OUTPUT} "const char ${name}[] = R\"page(")
  file(APPEND ${OUTPUT} "${text}")
  file(APPEND ${OUTPUT} ")page\";\n")
endfunction()

file(WRITE ${OUTPUT} "#include \"report_page.h\"\nnamespace hammock::tool {\n")
append(kReportHtml report.html)
append(kReportCss report.css)
append(kReportScript report.js)
file(APPEND ${OUTPUT} "}  // namespace hammock::tool\n")
