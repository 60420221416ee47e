# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Run with cmake -P: writes OUTPUT, a C++ file that holds the parts of the report page in SOURCE_DIR as constants.
set(text "// Generated from report_page.html, report_style.css and report_script.js.\n")
string(APPEND text "#include \"report_page.h\"\n\nnamespace millrace::mnist {\n\n")
foreach(part IN ITEMS "Html page.html" "Style style.css" "Script script.js")
  string(REPLACE " " ";" part "${part}")
  list(GET part 0 name)
  list(GET part 1 file)
  file(READ "${SOURCE_DIR}/report_${file}" content)
  # Two comment lines of licence stay in the repository; the page needs none of its bytes explained.
  string(APPEND text "const std::string_view kReport${name} = R\"~~~(${content})~~~\";\n\n")
endforeach()
string(APPEND text "}  // namespace millrace::mnist\n")
file(WRITE "${OUTPUT}" "${text}")
