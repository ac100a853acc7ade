# Every header compiles alone. foo.cc includes its own foo.h first (quire_tidy sees to that), so
# only headers without such a .cc need a generated source, one each.
file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR}/src CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/src/*.h)
set(generated)
set(layers)
foreach(header ${headers})
  string(REGEX REPLACE "[.]h$" ".cc" twin ${header})
  string(REGEX REPLACE "/.*" "" layer ${header})
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/${twin} OR NOT TARGET quire_${layer})
    continue()
  endif()
  string(REPLACE "/" "__" name ${twin})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/alone/${name})
  # Twice: the second must change nothing.
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
  list(APPEND generated ${unit})
  list(APPEND layers quire_${layer})
  if(layer STREQUAL "kernels" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    # Compiled, never run: headers of one instruction set may use its intrinsics.
    set_source_files_properties(${unit} PROPERTIES COMPILE_OPTIONS
      "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-Wno-unused-function")
  endif()
endforeach()
if(generated)
  list(REMOVE_DUPLICATES layers)
  add_library(quire_header_check OBJECT EXCLUDE_FROM_ALL ${generated})
  target_link_libraries(quire_header_check PRIVATE ${layers})
  target_compile_options(quire_header_check PRIVATE -O0 -g0 -Wno-unused-function -Wno-psabi)
endif()
