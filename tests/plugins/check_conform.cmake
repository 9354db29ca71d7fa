# Rules of `hammock conform` fail for a plug-in that breaks them, and say what was run; levels and pages say what holds.
#   cmake -DTOOL=<hammock> -DPLUGIN=<faulty plug-in> -DCOMPILER=<of C++> -DINCLUDE=<headers> -DFOLDER=<for files>
#     -P check_conform.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

function(conform fault code)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env FAULT=${fault} ${TOOL} conform --plugin ${PLUGIN} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result STREQUAL "${code}")
    message(SEND_ERROR "fault ${fault}, ${ARGN}: exit code ${result}, expected ${code}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

function(expect)
  foreach(part IN LISTS ARGN)
    string(FIND "${output}" "${part}" at)
    if(at EQUAL -1)
      message(SEND_ERROR "the output lacks \"${part}\":\n${output}")
    endif()
  endforeach()
endfunction()

# expect_fault(rule text...): the rule is kept without its fault and broken with it, and says so.
function(expect_fault rule)
  conform(none 0 --rule ${rule})
  conform(${rule} 1 --rule ${rule})
  expect("FAIL" "breaks rules: ${rule}" ${ARGN})
  set(output "${output}" PARENT_SCOPE)
endfunction()

expect_fault(repeated_runs "run 2, result 0" "as C++:\n  Tensor x = from_host" "as a graph:" "softmax")
expect_fault(own_memory "result 2 changes" "device.Run(three, {x})" "return %0, %1, %1")
expect_fault(copies "the copy to faulty0")
expect_fault(memory_counts "is below in_use" "device.Upload(given)")
expect_fault(capabilities_repeat "answers differently about input (node 0)" "as a graph:")
expect_fault(instances "n = 1: element 0 is 1" "device.backend.Instantiate(general" "graph(n=4)")
expect_fault(fingerprint "it was '" "and after some steps")
expect_fault(seeds "random integers: element 0 is 1 instead of 437" "manual_seed(7)")
expect_fault(handles "bytes are in use when all handles went back")
expect_fault(descriptions "kernel 'wild' names node 9999 of")
expect_fault(failed_calls "behind others in the same call: five failed calls keep")
expect_fault(shared_executable "thread " "as a graph:")
expect_fault(faults "after a fault in initialize or device_count: " "gave no table")
expect_fault(samples "floor, sample 0: result 0: element 0 is 1" "as C++:\n  Tensor x0 = tensor(" "as a graph:\n%0 = input")
conform(samples 1 --rule all_primitives)
expect("floor, sample 0: result 0: element 0 is 1")
conform(damaged_bytes 1 --rule saved_computations)
expect("deserialize takes half of it: element 0 is 1")
expect_fault(borrowed_arguments "a value that was uploaded: element 0 is " "as C++:\n  HostTensor given = ")
conform(download_overrun 1 --rule borrowed_arguments)
expect("download writes outside of the place of a value")

# expect_program(text...): the program that is shown is one that a compiler takes, and has these parts.
function(expect_program)
  string(REGEX MATCH "as C\\+\\+:\n((  [^\n]*\n)+)" shown "${output}")
  set(program "${CMAKE_MATCH_1}")
  foreach(part IN LISTS ARGN)
    string(FIND "${program}" "${part}" at)
    if(at EQUAL -1)
      message(SEND_ERROR "the program lacks \"${part}\":\n${program}in\n${output}")
    endif()
  endforeach()
  file(WRITE ${FOLDER}/program.cpp "#include <hammock/hammock.h>\n#include <hammock/io.h>\n"
    "using namespace hammock;\nint main() {\n${program}}\n")
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE} ${FOLDER}/program.cpp
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "the program does not compile:\n${program}${out}")
  endif()
endfunction()

expect_fault(random_programs "as a graph:")
expect_program("Device device(\"faulty" "Tensor x0 = input(0)" "Tensor v0 = " "Tensor result = v" ".backward()")
expect_fault(golden "fail ")
expect_program("Device device(\"faulty" "io::NpzFile::Open(" "s[0] = from_host(" "CallOp(")


# Values are wrong, so each rule that computes some shows its program.
foreach(rule unregistering odd_sizes bad_indices async_errors threads)
  conform(random_programs 1 --rule ${rule})
  expect("as C++:\n  " "as a graph:\n")
endforeach()
# The first sample that is wrong, as a call and as a graph.
conform(repeated_runs 1 --rule samples)
expect("sample 0: result 0 differs between lazy and eager mode" "as C++:\n  Tensor x0 = tensor(" "as a graph:\n%0 = input")
# So does a crash.
conform(crash 1 --rule odd_sizes)
expect("crashes: Aborted" "as C++:" "x * 2.0f + x")

# The level that was reached, and what the next one lacks.
conform(none 0 --level gold --html ${FOLDER}/gold.html)
expect("pass ops        golden" "is gold: keeps the rules of level gold")
file(READ ${FOLDER}/gold.html output)
expect("<p class=\"pass\">It is gold" "<td>contract<td>" " of ")
conform(shared_executable 1 --level gold --html ${FOLDER}/silver.html)
expect("is silver: breaks rules of level gold: shared_executable")
file(READ ${FOLDER}/silver.html output)
expect("<p class=\"FAIL\">It is silver: breaks rules of level gold")
conform(memory_counts 1 --level bronze)
expect("is not bronze: breaks rules of level bronze: memory_counts")
# The same program where there is no suite.
file(COPY ${TOOL} DESTINATION ${FOLDER}/alone)
get_filename_component(name ${TOOL} NAME)
set(TOOL ${FOLDER}/alone/${name})
conform(none 0 --rule golden)
expect("skip ops        golden" "no golden suite is installed" "was not checked by the rule golden")
conform(none 1 --level gold)
expect("is silver: no gold while the rule golden is skipped: no golden suite")
