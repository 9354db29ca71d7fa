# Runs `hammock compile` and `hammock inspect` and looks at what they print.
#   cmake -DTOOL=<hammock> -DFOLDER=<for files> -DLLVM=<ON|OFF> -P check_tool.cmake
function(run result_variable output_variable)
  execute_process(COMMAND ${TOOL} ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  set(${result_variable} ${result} PARENT_SCOPE)
  set(${output_variable} "${output}" PARENT_SCOPE)
endfunction()

function(expect text part)
  string(FIND "${text}" "${part}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "the output lacks \"${part}\":\n${text}")
  endif()
endfunction()

file(WRITE ${FOLDER}/model.txt "%0 = input : f32[4]\n%1 = exp %0 : f32[4]\nreturn %1\n")
run(result output compile ${FOLDER}/model.txt -o ${FOLDER}/model.hmk --backend cpu)
if(LLVM)
  expect("${output}" "native code: ")
  expect("${output}" "method forward(Tensor x0) -> Tensor, run by __loweredModule__")
  run(result output inspect ${FOLDER}/model.hmk)
  expect("${output}" "delegate \"hammock\"")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "inspect: status ${result}\n${output}")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "compile without LLVM gave no error\n${output}")
endif()

run(result output inspect ${FOLDER}/model.txt)
expect("${output}" "it is no archive of Hammock")
run(result output compile ${FOLDER}/nothing -o ${FOLDER}/x.hmk)
expect("${output}" "cannot read")
