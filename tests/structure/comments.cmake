cmake_minimum_required(VERSION 3.25)

# Fails where a comment begins with "What" or "Those": its subject should be a noun (CONTRIBUTING.md). Lines inside
# of a comment may begin so, since they are wrapped; its first line and the first one behind an empty one may not.
set(seen 0)
set(wrong "")
foreach(folder IN ITEMS bridge examples include plugins python src tools)
  file(GLOB_RECURSE files RELATIVE ${ROOT}
    ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cuh)
  foreach(file IN LISTS files)
    math(EXPR seen "${seen} + 1")
    # Most files have no such line at all.
    file(STRINGS ${ROOT}/${file} lines REGEX "^ *///? (What|Those) ")
    if(NOT lines)
      continue()
    endif()
    file(READ ${ROOT}/${file} text)
    foreach(line IN LISTS lines)
      string(FIND "${text}" "${line}" at)
      string(SUBSTRING "${text}" 0 ${at} before)
      if(NOT before MATCHES "(^|\n) *///? [^\n]+\n$")
        string(APPEND wrong "${file}: ${line}\n")
      endif()
    endforeach()
  endforeach()
endforeach()

if(seen LESS 1000)
  message(FATAL_ERROR "only ${seen} files were looked at")
endif()
if(wrong)
  message(FATAL_ERROR "the subject of a comment is a noun:\n${wrong}")
endif()
message("${seen} files have no comment that begins with What or Those")
