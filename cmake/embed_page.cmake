# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Pages are written as HTML, CSS and JavaScript files; libraries carry them as string constants.
# embed_page(trace NAMESPACE millrace::cli PARTS kPageHtml page.html …) makes trace_page.cc in the folder of the build:
# it includes <folder of src>/trace/page.h and holds the files of trace/ as constants. This file is also the script that
# makes it, with cmake -P.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  include_guard()
  set(MILLRACE_EMBED_PAGE "${CMAKE_CURRENT_LIST_FILE}")
  function(embed_page folder)
    cmake_parse_arguments(ARG "" "NAMESPACE" "PARTS" ${ARGN})
    set(files ${ARG_PARTS})
    list(FILTER files INCLUDE REGEX "\\.")
    list(TRANSFORM files PREPEND "${folder}/")
    string(REPLACE ";" "$<SEMICOLON>" parts "${ARG_PARTS}")
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src" OUTPUT_VARIABLE library)
    set(output "${CMAKE_CURRENT_BINARY_DIR}/${folder}_page.cc")
    add_custom_command(
      OUTPUT "${output}"
      COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DSOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}/${folder}"
              "-DHEADER=${library}/${folder}/page.h" "-DNAMESPACE=${ARG_NAMESPACE}" "-DPARTS=${parts}"
              -P "${MILLRACE_EMBED_PAGE}"
      DEPENDS ${files} "${MILLRACE_EMBED_PAGE}"
      VERBATIM)
  endfunction()
  return()
endif()

set(text "// Generated from the files of the page.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
while(PARTS)
  list(POP_FRONT PARTS name file)
  file(READ "${SOURCE_DIR}/${file}" content)
  string(APPEND text "const std::string_view ${name} = R\"~~~(${content})~~~\";\n\n")
endwhile()
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUTPUT}" "${text}")
