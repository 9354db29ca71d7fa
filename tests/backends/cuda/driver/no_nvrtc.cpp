// A library that is found in NVRTC's place and has none of its functions: it hides NVRTC from a
// process, wherever that is installed.
