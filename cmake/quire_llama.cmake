# ggml and libllama as one imported target, quire_llama, from a prefix that tools/deps lays out:
#   include/  lib/*.a  bin/llama-bench  bin/llama-batched-bench
set(QUIRE_LLAMA_PREFIX "${QUIRE_LLAMA_DIR}")
if(NOT QUIRE_LLAMA_PREFIX)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/deps llama --print-prefix
                  OUTPUT_VARIABLE QUIRE_LLAMA_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "quire: tools/deps could not build ggml and libllama; see its output "
                        "above, or point -DQUIRE_LLAMA_DIR at an installed prefix")
  endif()
endif()
if(NOT EXISTS ${QUIRE_LLAMA_PREFIX}/lib/libllama.a)
  message(FATAL_ERROR "quire: ${QUIRE_LLAMA_PREFIX}/lib/libllama.a is missing; "
                      "run tools/deps llama")
endif()
message(STATUS "quire: ggml and libllama from ${QUIRE_LLAMA_PREFIX}")

add_library(quire_llama INTERFACE)
target_include_directories(quire_llama SYSTEM INTERFACE ${QUIRE_LLAMA_PREFIX}/include)
target_link_libraries(quire_llama INTERFACE
  ${QUIRE_LLAMA_PREFIX}/lib/libllama.a
  ${QUIRE_LLAMA_PREFIX}/lib/libggml.a ${QUIRE_LLAMA_PREFIX}/lib/libggml-cpu.a
  ${QUIRE_LLAMA_PREFIX}/lib/libggml-base.a Threads::Threads ${CMAKE_DL_LIBS} m)

# Chat templates: llama.cpp's own Jinja engine, in its common library.
add_library(quire_llama_common INTERFACE)
target_include_directories(quire_llama_common SYSTEM INTERFACE
  ${QUIRE_LLAMA_PREFIX}/include/llama-common)
target_link_libraries(quire_llama_common INTERFACE
  ${QUIRE_LLAMA_PREFIX}/lib/libllama-common.a ${QUIRE_LLAMA_PREFIX}/lib/libllama-common-base.a
  ${QUIRE_LLAMA_PREFIX}/lib/libcpp-httplib.a quire_llama)
