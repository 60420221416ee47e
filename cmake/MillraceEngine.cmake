# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# find_package(MillraceEngine) in a build folder: the libraries of all folders as Millrace::mr_NAME, for projects that extend
# the engine, such as a device type (docs/devices.md). Their interfaces are those of src/, without any promise that they
# stay; they are not installed.
get_property(engine_libraries GLOBAL PROPERTY MILLRACE_LIBRARIES)
foreach(library ${engine_libraries})
  target_compile_features("${library}" INTERFACE cxx_std_20)
endforeach()
export(TARGETS ${engine_libraries} mr_builtin_auto millrace_grpc NAMESPACE Millrace::
  FILE "${PROJECT_BINARY_DIR}/MillraceEngineTargets.cmake")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/MillraceEngineConfig.cmake" @ONLY CONTENT
"include(CMakeFindDependencyMacro)
set(CMAKE_THREAD_PREFER_PTHREAD TRUE)
find_dependency(Threads)
find_dependency(Protobuf)
find_dependency(ZLIB)
find_dependency(JPEG)
find_dependency(PNG)
find_dependency(ICU COMPONENTS uc)
find_dependency(SQLite3)
include(\"\${CMAKE_CURRENT_LIST_DIR}/MillraceEngineTargets.cmake\")
")
