# Writes the Lua scripts of the Redis hot layer as a C file: their bytes, and the SHA-1 by which
# they are called. All but run.lua have common.lua in front; run.lua has reactions.lua and
# singles.lua in the place of its lines "--@ reactions.lua" and "--@ singles.lua".
#
#   cmake -DFOLDER=src/hot/redis/lua -DNAMES=run,open,... -DOUT=scripts.c -P embed-lua.cmake
string(REPLACE "," ";" names "${NAMES}")
set(common "")
if(EXISTS ${FOLDER}/common.lua)
  file(READ ${FOLDER}/common.lua common)
endif()

set(arrays "")
set(table "")
foreach(name ${names})
  set(text "")
  if(EXISTS ${FOLDER}/${name}.lua)
    file(READ ${FOLDER}/${name}.lua text)
    if(name STREQUAL "run")
      foreach(piece reactions singles)
        file(READ ${FOLDER}/${piece}.lua lines)
        string(REPLACE "--@ ${piece}.lua\n" "${lines}" text "${text}")
      endforeach()
    else()
      string(PREPEND text "${common}")
    endif()
  endif()
  string(SHA1 sha "${text}")
  string(HEX "${text}" hex)
  string(LENGTH "${text}" size)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "static const char ${name}_text[] = {\n${hex}0};\n")
  string(APPEND table "    {{${name}_text, ${size}}, \"${sha}\"},\n")
endforeach()
file(WRITE ${OUT} "/* Made by embed-lua.cmake. */\n#include \"hot/redis/script_table.h\"\n\n"
  "${arrays}\nconst struct script_text script_table[] = {\n${table}};\n")
