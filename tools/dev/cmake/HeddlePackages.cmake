# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Debian packages, one per component that the directories install. Included after them; `cpack` in the build directory writes the packages
# into its subdirectory packages. docs/installation.md lists the content and the purpose of each.
install(FILES docs/configuration.md docs/trust.md DESTINATION share/doc/heddle COMPONENT runtime)
# All pages, since they refer to each other.
install(DIRECTORY docs/ DESTINATION share/doc/heddle COMPONENT sdk FILES_MATCHING PATTERN *.md
        PATTERN configuration.md EXCLUDE PATTERN trust.md EXCLUDE PATTERN parameters.md EXCLUDE)
install(FILES tests/models/digits/digits.onnx DESTINATION share/doc/heddle/examples COMPONENT sdk)
# Outside of any prefix, so only in packages.
install(FILES tools/dev/deb/heddle.toml DESTINATION /etc/heddle COMPONENT etc EXCLUDE_FROM_ALL)
install(DIRECTORY DESTINATION /etc/heddle/plugins.d COMPONENT etc EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_CONTACT "Heddle developers <developers@heddle.invalid>" CACHE STRING "maintainer of the packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME heddle)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Where our own libraries are during packaging; dependencies between our packages are declared below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(this_version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

# heddle_package(sdk NAME heddle-dev SECTION libdevel SUMMARY "..." TEXT "..." [DEPENDS "a, b"] [RECOMMENDS ...])
macro(heddle_package component)
  cmake_parse_arguments(ARG "" "NAME;SECTION;SUMMARY;TEXT;DEPENDS;RECOMMENDS" "" ${ARGN})
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_COMPONENT_${COMPONENT}_GROUP ${component})
  set(CPACK_DEBIAN_${COMPONENT}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_TEXT}")
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${ARG_NAME})
  foreach(field SECTION DEPENDS RECOMMENDS)
    if(ARG_${field})
      set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_${field} "${ARG_${field}}")
    endif()
  endforeach()
  install(FILES LICENSE DESTINATION share/doc/${ARG_NAME} RENAME copyright COMPONENT ${component})
endmacro()

# dpkg-shlibdeps does not know which glibc reads packed relative relocations (core/CMakeLists.txt), nor that digests need nettle.
heddle_package(runtime NAME heddle-runtime SECTION libs DEPENDS "libc6 (>= 2.36), libnettle8" RECOMMENDS "heddle-cpu, heddle-pool"
  SUMMARY "runs compiled machine-learning models"
  TEXT "The library libheddle and the command heddle. Devices come with driver plugins, such as heddle-cpu.")
set(CPACK_COMPONENT_ETC_GROUP runtime)
# For dpkg-shlibdeps of other packages that link libheddle.
file(WRITE ${PROJECT_BINARY_DIR}/shlibs "libheddle ${PROJECT_VERSION_MAJOR} heddle-runtime (>= ${this_version})\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/tools/dev/deb/conffiles ${PROJECT_BINARY_DIR}/shlibs)

heddle_package(sdk NAME heddle-dev SECTION libdevel DEPENDS "heddle-runtime (= ${this_version})"
  SUMMARY "headers and libraries for programs and plugins of Heddle"
  TEXT "Headers, libraries, and packages for CMake and pkg-config: for applications, and for drivers and allocators.")

if(TARGET heddle_validation)
  heddle_package(validation NAME heddle-validation SECTION libs DEPENDS "heddle-runtime (= ${this_version})"
    SUMMARY "checks the calls between Heddle and its plugins"
    TEXT "For [validation] of the configuration: checks every call, dumps values, and finds the region that produces the first NaN.")
endif()

if(TARGET heddle-conformance)
  heddle_package(conformance NAME heddle-conformance SECTION devel DEPENDS libnettle8 RECOMMENDS heddle-dev
    SUMMARY "checks plugins of Heddle against the rules"
    TEXT "The command heddle conformance: for authors of drivers and allocators.")
endif()

if(TARGET heddle-page)
  heddle_package(page NAME heddle-page SECTION utils RECOMMENDS heddle-runtime
    SUMMARY "draws the data flow of compiled models"
    TEXT "The command heddle page, which heddle explain --html and heddle profile --html use: one HTML file without scripts.")
endif()

if(TARGET heddle-params)
  install(FILES docs/parameters.md DESTINATION share/doc/heddle COMPONENT params)
  heddle_package(params NAME heddle-params SECTION utils RECOMMENDS heddle-runtime
    SUMMARY "reads, writes and compares parameter files"
    TEXT "The command heddle params: lists, prints, converts, compares and checks safetensors and NumPy files of any size.")
endif()

if(TARGET heddle-profile)
  heddle_package(profile NAME heddle-profile SECTION utils DEPENDS "heddle-runtime (= ${this_version})" RECOMMENDS heddle-page
    SUMMARY "measures where the time of a compiled model goes"
    TEXT "The command heddle profile: the time of each region on its device, and which share of the device's measured peaks it reaches.")
endif()

if(TARGET heddle_compiler)
  # dpkg-shlibdeps finds MLIR's package. It does not find LLVM's, because the links to its libraries belong to its -dev package.
  heddle_package(compiler NAME heddle-compiler SECTION devel DEPENDS "heddle-runtime (= ${this_version}), libllvm19"
    SUMMARY "compiles machine-learning models for Heddle"
    TEXT "The command heddle compile: turns a model file into one module, which heddle-runtime runs on every machine.")
  heddle_package(tools NAME heddle-tools SECTION devel DEPENDS libllvm19
    SUMMARY "tools for developers of the Heddle compiler"
    TEXT "The commands heddle import and heddle opt: print a model as imported, and run any pass on it.")
endif()

get_property(manifests GLOBAL PROPERTY HEDDLE_PLUGIN_MANIFESTS)
foreach(manifest IN LISTS manifests)
  string(REGEX REPLACE "^.*/heddle\\.|\\.toml$" "" component ${manifest})
  file(READ ${manifest} text)
  string(REGEX REPLACE "\n\\[options.*" "" text "${text}")
  if(NOT text MATCHES "\ndescription = \"([^\n]+)\"\n")
    message(FATAL_ERROR "${manifest}: [plugin] has no description, which the package needs as well")
  endif()
  string(REPLACE "_" "-" package ${component})  # names of Debian packages have no underscore
  heddle_package(${component} NAME heddle-${package} SECTION libs
    DEPENDS "heddle-runtime (>= ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})"
    SUMMARY "${CMAKE_MATCH_1}" TEXT "The plugin heddle.${component} of Heddle.")
endforeach()

get_cmake_property(CPACK_COMPONENTS_ALL COMPONENTS)
include(CPack)
