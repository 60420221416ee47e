# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# What is installed beside the program, completions and the manual page, and `cpack`: a .deb with the program, the
# libraries, the headers and the Python package under /usr.
set(pages "${PROJECT_BINARY_DIR}/pages")
set(page_files "${pages}/millrace.1.gz" "${pages}/millrace.bash" "${pages}/_millrace" "${pages}/millrace.fish")
add_custom_command(
  OUTPUT ${page_files}
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${pages}"
  COMMAND "${MILLRACE_PYTHON}" "${PROJECT_SOURCE_DIR}/tools/man_page.py" "$<TARGET_FILE:millrace_program>" "${pages}/millrace.1.gz"
  COMMAND millrace_program completion bash > "${pages}/millrace.bash"
  COMMAND millrace_program completion zsh > "${pages}/_millrace"
  COMMAND millrace_program completion fish > "${pages}/millrace.fish"
  DEPENDS millrace_program "${PROJECT_SOURCE_DIR}/tools/man_page.py"
  COMMENT "Writing the manual page and the completions"
  VERBATIM)
add_custom_target(millrace_pages ALL DEPENDS ${page_files})
install(FILES "${pages}/millrace.1.gz" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${PROJECT_SOURCE_DIR}/cmake/debian_copyright" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)
install(FILES "${pages}/millrace.bash" RENAME millrace DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${pages}/_millrace" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
install(FILES "${pages}/millrace.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_CONTACT "The Millrace Authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Runs the graphs and programs of TensorFlow 1.x")
set(CPACK_PACKAGE_DESCRIPTION "A dataflow engine compatible with TensorFlow 1.x: the program millrace,
libraries for C and C++ with their headers, and a Python package.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-absl, python3-numpy, python3-protobuf, python3-six")
# The packages of the libraries that ours are linked with, as dpkg-dev finds them.
find_program(dpkg_shlibdeps dpkg-shlibdeps)
if(dpkg_shlibdeps)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
else()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libgrpc++1.51, libprotobuf32, libre2-9, libicu72, libjpeg62-turbo, libpng16-16, zlib1g, libsnappy1v5, libsqlite3-0, libstdc++6")
endif()
include(CPack)
