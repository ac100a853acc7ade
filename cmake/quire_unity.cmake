# Sanitizer and fuzz builds compile several files as one (CMAKE_UNITY_BUILD): a third of the time.
# Two files of one target that share a private name cannot be one: rename it, or list one of the
# files here.
set(QUIRE_COMPILED_ALONE
  base/config_print.cc
  base/options_table.cc
  codec/fp4/fp4_test.cc
  format/slab.cc
  engine/codes_cache_test.cc
  engine/model/forward_codes_test.cc
  kernels/codes_test.cc
  policy/evict.cc
  server/drain_test.cc
  tier/disk/writer.cc)

foreach(path ${QUIRE_COMPILED_ALONE})
  string(REGEX REPLACE "/.*" "" layer ${path})
  foreach(target quire_${layer} quire_${layer}_test)
    if(TARGET ${target} AND EXISTS ${CMAKE_SOURCE_DIR}/src/${path})
      set_source_files_properties(${CMAKE_SOURCE_DIR}/src/${path} TARGET_DIRECTORY ${target}
                                  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endforeach()
