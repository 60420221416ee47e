# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Run with cmake -P: writes OUTPUT, a C++ file that holds the parts of the page in SOURCE_DIR as constants.

set(text "// Generated from the files of the page.\n#include \"cli/trace/page.h\"\n\nnamespace millrace::cli {\n\n")
foreach(part IN ITEMS "Html page.html" "Style page.css" "ModelScript model.js" "TimelineScript timeline.js"
                      "TablesScript tables.js")
  string(REPLACE " " ";" part "${part}")
  list(GET part 0 name)
  list(GET part 1 file)
  file(READ "${SOURCE_DIR}/${file}" content)
  string(APPEND text "const std::string_view kPage${name} = R\"~~~(${content})~~~\";\n\n")
endforeach()
string(APPEND text "}  // namespace millrace::cli\n")
file(WRITE "${OUTPUT}" "${text}")
