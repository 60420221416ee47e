# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# mr_library(base SOURCES a.cc b.cc DEPS proto [LINK PkgTarget...])   -> static library target mr_base
# mr_tests(base SOURCES a_test.cc b_test.cc [DEPS more folders] [LINK ...]) -> test program bin/base_test, ctest entry base_test
include_guard()

function(mr_apply_settings target)
  target_compile_options(${target} PRIVATE ${MILLRACE_WARNINGS})
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
endfunction()

function(mr_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_library(mr_${name} STATIC ${ARG_SOURCES})
  mr_apply_settings(mr_${name})
  list(TRANSFORM ARG_DEPS PREPEND mr_)
  target_link_libraries(mr_${name} PUBLIC ${ARG_DEPS} ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY MILLRACE_LIBRARIES mr_${name})
endfunction()

function(mr_tests name)
  if(NOT MILLRACE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  mr_apply_settings(${name}_test)
  list(TRANSFORM ARG_DEPS PREPEND mr_)
  if(TARGET mr_${name})
    list(APPEND ARG_DEPS mr_${name})
  endif()
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} ${ARG_LINK} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name}_test COMMAND ${name}_test)
  set_tests_properties(${name}_test PROPERTIES TIMEOUT 600)
endfunction()
