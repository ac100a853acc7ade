# Writes a header with the given documents as string literals, for bench/text.h.
#   quire_embed_text(<header> <file>...)
function(quire_embed_text header)
  set(body "")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} hex HEX)
    string(LENGTH "${hex}" digits)
    # 8,000 bytes a piece: compilers need accept no longer literals.
    set(at 0)
    while(at LESS digits)
      string(SUBSTRING "${hex}" ${at} 16000 piece)
      string(REGEX REPLACE "(................................................................)"
             "\\1\n" piece "${piece}")
      string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" piece "${piece}")
      string(REPLACE "\n" "\"\n    \"" piece "${piece}")
      string(APPEND body "    \"${piece}\",\n")
      math(EXPR at "${at} + 16000")
    endwhile()
  endforeach()
  set(text "// Generated from documents of this repository.\n#pragma once\n\n")
  string(APPEND text "#include <string_view>\n\nnamespace quire::bench {\n\n"
                     "inline constexpr std::string_view kEmbeddedText[] = {\n${body}};\n\n"
                     "}  // namespace quire::bench\n")
  file(GENERATE OUTPUT ${header} CONTENT "${text}")
endfunction()
