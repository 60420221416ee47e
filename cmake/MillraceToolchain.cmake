# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, sanitizers, ccache and the fast linker.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# What most files include is compiled once. With g++ only: clang and its tools see every file as it is.
set(MILLRACE_PCH OFF)
if(MILLRACE_PRECOMPILE_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(MILLRACE_PCH ON)
endif()
set(MILLRACE_UNITS OFF)
if(MILLRACE_JOIN_SOURCES AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(MILLRACE_UNITS ON)
endif()

find_program(MILLRACE_CCACHE ccache)
find_program(MILLRACE_PYTHON python3 REQUIRED)  # runs the generators of sources
if(MILLRACE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  if(MILLRACE_PCH)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_CURRENT_LIST_DIR}/ccache.sh" "${MILLRACE_CCACHE}")
  else()
    set(CMAKE_CXX_COMPILER_LAUNCHER "${MILLRACE_CCACHE}")
  endif()
  set(CMAKE_C_COMPILER_LAUNCHER "${MILLRACE_CCACHE}")
endif()
find_program(MILLRACE_MOLD mold)
if(MILLRACE_MOLD AND NOT MILLRACE_SANITIZE)
  add_link_options(-fuse-ld=mold)
endif()
if(MILLRACE_SANITIZE)
  add_compile_options(-fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${MILLRACE_SANITIZE})
  if(MILLRACE_SANITIZE MATCHES "thread")
    # protobuf's headers give MapField more members when they see this; Debian's library was built without.
    add_compile_options(-U__SANITIZE_THREAD__)
  endif()
  if(MILLRACE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()

if(MILLRACE_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage of our own code guides the fuzzer
endif()

# Tests run for seconds and compile for minutes.
set(MILLRACE_TEST_OPTIONS "$<$<CONFIG:Release>:-O1>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # At -O1 GCC 12 raises these inside std::string (its bugs 105329 and 105651).
  list(APPEND MILLRACE_TEST_OPTIONS -Wno-array-bounds -Wno-stringop-overread -Wno-stringop-overflow)
endif()

set(MILLRACE_WARNINGS -Wall -Wextra -Wshadow)
if(MILLRACE_WERROR)
  list(APPEND MILLRACE_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND MILLRACE_WARNINGS -Wno-restrict)  # GCC 12 raises it inside std::string (its bug 105651)
endif()
if(MILLRACE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 takes the checks that sanitizers put into variants for reads of members that were never set, and those in a
  # std::string that is moved for copies beyond its end.
  list(APPEND MILLRACE_WARNINGS -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overread)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND MILLRACE_WARNINGS -Wthread-safety -Werror=thread-safety)
endif()
