# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# libmillrace out of the libraries of all folders, and what `cmake --install` puts where: include/millrace, the library, a
# CMake package (find_package(Millrace), targets Millrace::millrace and Millrace::headers) and millrace.pc for pkg-config.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The folders that the public headers belong to. Only their code may be seen from outside, and of that only what
# exports.map lists; the linker hides the rest again. Nothing is to be replaced at load time, so calls stay direct.
set(public_libraries mr_base mr_tensor mr_session mr_distributed mr_cc mr_training)
set_target_properties(${public_libraries} PROPERTIES CXX_VISIBILITY_PRESET default)
foreach(library IN LISTS public_libraries)
  target_compile_options(${library} PRIVATE -fno-semantic-interposition)
endforeach()

# Every object of every folder: no archive, from which the linker would take only what it sees a use for.
get_property(folder_libraries GLOBAL PROPERTY MILLRACE_LIBRARIES)
set(objects "")
foreach(library IN LISTS folder_libraries ITEMS mr_builtin_auto mr_rpc_auto)
  list(APPEND objects "$<TARGET_OBJECTS:${library}>")
endforeach()
# The C API as well: libraries of ops that LoadLibrary loads call it.
set(objects_with_c ${objects} "$<TARGET_OBJECTS:mr_c>")
set(registration_symbol _ZN8millrace19builtins_registeredE)  # of src/builtin/auto_register.cc
set(grpc_symbol _ZN8millrace15grpc_registeredE)  # of src/rpc/auto_register.cc
if(MILLRACE_STATIC)
  add_library(millrace STATIC ${objects_with_c})
  target_link_libraries(millrace PUBLIC Threads::Threads protobuf::libprotobuf JPEG::JPEG PNG::PNG ZLIB::ZLIB SQLite::SQLite3 ICU::uc re2 snappy grpc++ grpc gpr absl_synchronization ${CMAKE_DL_LIBS})
  # Nothing refers to the object that registers the built-in ops: programs are linked with a reference to it.
  target_link_options(millrace INTERFACE "LINKER:--undefined=${registration_symbol},--undefined=${grpc_symbol}")
else()
  set(exports "${PROJECT_SOURCE_DIR}/cmake/exports.map")
  add_library(millrace SHARED ${objects_with_c})
  target_link_libraries(millrace PRIVATE Threads::Threads protobuf::libprotobuf JPEG::JPEG PNG::PNG ZLIB::ZLIB SQLite::SQLite3 ICU::uc re2 snappy grpc++ grpc gpr absl_synchronization ${CMAKE_DL_LIBS})
  target_link_options(millrace PRIVATE "LINKER:--version-script=${exports}")
  set_target_properties(millrace PROPERTIES LINK_DEPENDS "${exports}"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
add_library(Millrace::millrace ALIAS millrace)
target_compile_features(millrace PUBLIC cxx_std_20)
target_include_directories(millrace INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/millrace" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_BINARY_DIR}/generated/millrace/ops.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/millrace")
install(DIRECTORY "${PROJECT_BINARY_DIR}/generated/millrace/ops" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/millrace")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# For libraries of ops, which need only the headers; the program that loads them links the library.
add_library(millrace_headers INTERFACE)
target_include_directories(millrace_headers INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_target_properties(millrace_headers PROPERTIES EXPORT_NAME headers)
install(TARGETS millrace millrace_headers EXPORT MillraceTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Millrace")
install(EXPORT MillraceTargets NAMESPACE Millrace:: DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/MillraceConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/MillraceConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/MillraceConfig.cmake" "${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake"
  DESTINATION "${package_dir}")

# The prefix is found from where the .pc file lies, so that an installed tree may be moved.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(pc_libs "-lmillrace")
if(MILLRACE_STATIC)
  set(pc_libs "-lmillrace -Wl,--undefined=${registration_symbol},--undefined=${grpc_symbol} -lgrpc++ -lgrpc -lgpr -labsl_synchronization -lprotobuf -ljpeg -lpng -lz -licuuc -lre2 -lsnappy -lsqlite3 -pthread")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/millrace.pc.in" "${PROJECT_BINARY_DIR}/millrace.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/millrace.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
