# Writes the file that says which sources the library was built from.
#   cmake -DOUTPUT=<file.cpp> -DROOT=<repository> -DBUILD=<compiler and options> -P build_id.cmake
file(GLOB_RECURSE files RELATIVE ${ROOT}
  ${ROOT}/src/*.cpp ${ROOT}/src/*.h ${ROOT}/src/*.cuh ${ROOT}/include/*.h ${ROOT}/include/*.inc)
list(SORT files)
set(hashes "${BUILD}")
foreach(file IN LISTS files)
  file(SHA256 ${ROOT}/${file} hash)
  string(APPEND hashes "${file} ${hash}\n")
endforeach()
string(SHA256 id "${hashes}")
string(SUBSTRING ${id} 0 32 id)
file(WRITE ${OUTPUT}
  "#include \"base/build_id.h\"\n\nconst char* hammock::BuildId() { return \"${id}\"; }\n")
