# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Run with cmake -P: writes OUTPUT, a C++ file that includes HEADER and holds the PARTS of the page in SOURCE_DIR as
# constants. PARTS: the constant's name and the file's, in turn.

set(text "// Generated from the files of the page.\n#include \"${HEADER}\"\n\nnamespace millrace::cli {\n\n")
while(PARTS)
  list(POP_FRONT PARTS name file)
  file(READ "${SOURCE_DIR}/${file}" content)
  string(APPEND text "const std::string_view ${name} = R\"~~~(${content})~~~\";\n\n")
endwhile()
string(APPEND text "}  // namespace millrace::cli\n")
file(WRITE "${OUTPUT}" "${text}")
