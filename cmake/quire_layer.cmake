# quire_layer(NAME <layer> SOURCES ... [TESTS ...] [DEPS <layers>...] [LIBS <targets>...]
#             [TEST_LIBS <targets>...])
#
# Declares the static library quire_<layer> and, when tests are on, one GoogleTest program
# quire_<layer>_test registered with ctest under that name. SOURCES and TESTS are listed one by one:
# tools/tidy fails on a source that no target names.
function(quire_layer)
  cmake_parse_arguments(L "" "NAME" "SOURCES;TESTS;DEPS;LIBS;TEST_LIBS" ${ARGN})
  add_library(quire_${L_NAME} STATIC ${L_SOURCES})
  target_link_libraries(quire_${L_NAME} PUBLIC quire_flags ${L_LIBS})
  foreach(dep ${L_DEPS})
    target_link_libraries(quire_${L_NAME} PUBLIC quire_${dep})
  endforeach()
  if(QUIRE_TESTS AND L_TESTS)
    quire_test(NAME quire_${L_NAME}_test SOURCES ${L_TESTS}
               LIBS quire_${L_NAME} ${L_TEST_LIBS})
  endif()
endfunction()

# quire_test(NAME <program> SOURCES ... LIBS ... [TIMEOUT seconds] [LABELS ...])
#
# A GoogleTest program, registered with ctest under its own name.
function(quire_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(QUIRE_SANITIZE)
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")  # instrumented code is that much slower
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  # What is tested is optimised; the tests themselves need only compile soon.
  target_compile_options(${T_NAME} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${T_NAME} COMMAND ${T_NAME} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${T_NAME} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()
