# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# mr_library(base SOURCES a.cc b.cc DEPS proto [LINK PkgTarget...] [PCH ...] [UNIT bytes])   -> static library target mr_base
# mr_tests(base SOURCES a_test.cc b_test.cc [DEPS more folders] [LINK ...] [UNIT bytes]) -> test program bin/base_test,
# ctest entry base_test
# PCH takes what mr_precompile takes, UNIT what mr_units takes.
include_guard()

function(mr_apply_settings target)
  target_compile_options(${target} PRIVATE ${MILLRACE_WARNINGS})
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
endfunction()

# mr_precompile(target kernels/cpu/kernel_util.h map ...): these headers are compiled once for all sources of the target.
# mr_precompile(target FROM mr_base): what mr_base precompiles serves this target, too; its options have to be the same.
# Every source still includes what it uses: builds with clang precompile nothing. A source with options of its own
# needs the property SKIP_PRECOMPILE_HEADERS.
function(mr_precompile target)
  if(NOT MILLRACE_PCH)
    return()
  endif()
  if(ARGV1 STREQUAL "FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    # In angle brackets, so that the text, and with it what ccache looks for, is the same wherever the tree lies.
    list(TRANSFORM ARGN REPLACE "(.+)" "<\\1>" OUTPUT_VARIABLE headers)
    target_precompile_headers(${target} PRIVATE ${headers})
  endif()
endfunction()

# mr_units(target bytes [regex]): the sources of the target, or those that the expression matches, are compiled in units of
# about so many bytes (cmake/unity.py). It takes effect at the end of the folder. Sources with options of their own, generated
# ones (which need not exist yet), large ones and those whose names do not go together with others stay alone.
function(mr_units target bytes)
  if(MILLRACE_UNITS)
    set(only ".")
    if(ARGN)
      set(only "${ARGN}")
    endif()
    cmake_language(EVAL CODE "cmake_language(DEFER CALL mr_make_units [[${target}]] [[${bytes}]] [[${only}]])")
  endif()
endfunction()

function(mr_make_units target bytes only)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(alone "")
  set(joined "")
  foreach(source IN LISTS sources)
    set(options "")
    foreach(property IN ITEMS COMPILE_OPTIONS COMPILE_DEFINITIONS GENERATED SKIP_PRECOMPILE_HEADERS)
      get_source_file_property(value "${source}" ${property})
      if(value)
        list(APPEND options ${property})
      endif()
    endforeach()
    if(options OR NOT source MATCHES "\\.cc$" OR NOT source MATCHES "${only}")
      list(APPEND alone "${source}")
    else()
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}" NORMALIZE)
      list(APPEND joined "${source}")
    endif()
  endforeach()
  set(script "${PROJECT_SOURCE_DIR}/cmake/unity.py")
  set(units "${PROJECT_BINARY_DIR}/units/${target}")
  set(plan "${units}/plan")
  execute_process(COMMAND "${MILLRACE_PYTHON}" "${script}" plan ${bytes} ${joined}
    OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  file(MAKE_DIRECTORY "${units}")
  file(CONFIGURE OUTPUT "${plan}" CONTENT "")  # unity.py touches it when files no longer go together
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${plan}" "${script}")
  set(number 0)
  string(REPLACE ";" "|" lines "${lines}")
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REPLACE "|" ";" files "${line}")
    set(unit "${units}/unit_${number}.cc")
    add_custom_command(OUTPUT "${unit}"
      COMMAND "${MILLRACE_PYTHON}" "${script}" unit "${unit}" "${plan}" ${files}
      DEPENDS ${files} "${script}" COMMENT "Joining sources of ${target}" VERBATIM)
    list(REMOVE_ITEM joined ${files})
    list(APPEND alone "${unit}")
    math(EXPR number "${number} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${alone};${joined}")
endfunction()

function(mr_library name)
  cmake_parse_arguments(ARG "" "UNIT" "SOURCES;DEPS;LINK;PCH" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND mr_)
  add_library(mr_${name} STATIC ${ARG_SOURCES})
  mr_apply_settings(mr_${name})
  target_link_libraries(mr_${name} PUBLIC ${ARG_DEPS} ${ARG_LINK})
  if(ARG_PCH)
    mr_precompile(mr_${name} ${ARG_PCH})
  endif()
  if(ARG_UNIT)
    mr_units(mr_${name} ${ARG_UNIT})
  endif()
  set_property(GLOBAL APPEND PROPERTY MILLRACE_LIBRARIES mr_${name})
endfunction()

# The tests of the engine's core: target core_tests, label `core`.
set(MILLRACE_CORE_TESTS base tensor op graph device kernel data autodiff compile exec step session session_system soundness)
add_custom_target(core_tests)

function(mr_tests name)
  if(NOT MILLRACE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "UNIT" "SOURCES;DEPS;LINK" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  if(ARG_UNIT)
    mr_units(${name}_test ${ARG_UNIT})
  endif()
  mr_apply_settings(${name}_test)
  target_compile_options(${name}_test PRIVATE ${MILLRACE_TEST_OPTIONS})
  list(TRANSFORM ARG_DEPS PREPEND mr_)
  if(TARGET mr_${name})
    list(APPEND ARG_DEPS mr_${name})
  endif()
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} ${ARG_LINK} mr_test_folder GTest::gmock GTest::gtest_main)
  # Where there are sessions, they run as MILLRACE_TEST_CONFIG says.
  set(headers mr_test_headers)
  foreach(folder IN ITEMS mr_session mr_cc mr_training mr_distributed)
    if(folder IN_LIST ARG_DEPS)
      target_link_libraries(${name}_test PRIVATE mr_test_environment)
      set(headers mr_session_test_headers)
      set(label sessions)
      break()
    endif()
  endforeach()
  mr_precompile(${name}_test FROM ${headers})
  add_test(NAME ${name}_test COMMAND ${name}_test)
  set_tests_properties(${name}_test PROPERTIES TIMEOUT 600)
  if(DEFINED label)
    set_property(TEST ${name}_test APPEND PROPERTY LABELS ${label})
  endif()
  if(name IN_LIST MILLRACE_CORE_TESTS)
    set_property(TEST ${name}_test APPEND PROPERTY LABELS core)
    add_dependencies(core_tests ${name}_test)
  endif()
endfunction()

# mr_test_headers(target header...): owns what test programs precompile.
function(mr_test_headers target)
  if(NOT MILLRACE_BUILD_TESTS OR NOT MILLRACE_PCH)
    return()
  endif()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/test_headers.cc" CONTENT "int main() {}\n")
  add_executable(${target} "${PROJECT_BINARY_DIR}/test_headers.cc")
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/CMakeFiles")
  mr_apply_settings(${target})
  target_compile_options(${target} PRIVATE ${MILLRACE_TEST_OPTIONS} -DGTEST_HAS_PTHREAD=1)
  mr_precompile(${target} gmock/gmock.h gtest/gtest.h algorithm functional map memory set span sstream string
    string_view unordered_map vector millrace/tensor.h op/op_registry.h graph/graph.h ${ARGN})
endfunction()
mr_test_headers(mr_test_headers)
mr_test_headers(mr_session_test_headers
  tensorflow/core/framework/graph.pb.h graph/testing.h session/direct_session.h millrace/ops.h)

# mr_family_sources(VARIABLE root): the sources of the current folder and of its family folders, without tests. A new file
# needs no line anywhere.
function(mr_family_sources variable)
  file(GLOB sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS "*.cc" "*/*.cc")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# mr_registrations(mr_ops RegisterAllOps OpRegistry ops/register.h): adds to the target the function, declared in the
# header, that calls all registering functions of the target's sources (cmake/registrations.py).
function(mr_registrations target function registry header)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(TRANSFORM sources PREPEND "${folder}/")
  set(out "${PROJECT_BINARY_DIR}/registrations/${function}.cc")
  add_custom_command(OUTPUT "${out}"
    COMMAND "${MILLRACE_PYTHON}" "${PROJECT_SOURCE_DIR}/cmake/registrations.py" "${out}" ${function} ${registry}
      ${header} ${sources}
    DEPENDS "${PROJECT_SOURCE_DIR}/cmake/registrations.py" ${sources} VERBATIM)
  target_sources(${target} PRIVATE "${out}")
endfunction()
