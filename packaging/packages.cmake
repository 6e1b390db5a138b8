# Debian packages, made by ./dev package: libwherry0, libwherry-dev and wherry, the last with
# a unit for systemd and a configuration to begin with.

# What the program itself writes is made with it: who builds the program alone can install it.
set(sample ${PROJECT_BINARY_DIR}/wherry.yaml)
add_custom_command(TARGET wherry_program POST_BUILD
  COMMAND sh -c "\"$1\" config --sample >\"$2\"" sh
    $<TARGET_FILE:wherry_program> ${sample}
  BYPRODUCTS ${sample}
  COMMENT "Writing the sample configuration"
  VERBATIM)

foreach(completion bash:bash-completion/completions/wherry zsh:zsh/site-functions/_wherry
        fish:fish/vendor_completions.d/wherry.fish)
  string(REPLACE ":" ";" completion ${completion})
  list(GET completion 0 shell)
  list(GET completion 1 place)
  get_filename_component(folder ${place} DIRECTORY)
  get_filename_component(name ${place} NAME)
  set(script ${PROJECT_BINARY_DIR}/completion.${shell})
  add_custom_command(TARGET wherry_program POST_BUILD
    COMMAND sh -c "\"$1\" completion \"$2\" >\"$3\"" sh
      $<TARGET_FILE:wherry_program> ${shell} ${script}
    BYPRODUCTS ${script}
    COMMENT "Writing the completion for ${shell}"
    VERBATIM)
  install(FILES ${script} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder} RENAME ${name}
    COMPONENT program)
endforeach()

install(FILES ${sample} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/wherry/examples
  COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/wherry
  RENAME copyright COMPONENT program)
# When it is installed: packages have another prefix than an install by hand.
install(CODE "
  set(CMAKE_INSTALL_FULL_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/packaging/wherry.service.in\"
    \"${PROJECT_BINARY_DIR}/wherry.service\" @ONLY)"
  COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/wherry.service
  DESTINATION lib/systemd/system COMPONENT program)

# In packages alone: an install by hand overwrites nobody's configuration.
install(FILES ${sample} DESTINATION ../etc/wherry COMPONENT configuration
  PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ EXCLUDE_FROM_ALL)
install(DIRECTORY DESTINATION ../etc/wherry/secrets COMPONENT configuration
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE EXCLUDE_FROM_ALL)
foreach(package libwherry0:library_doc libwherry-dev:development_doc
    wherry:configuration)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 name)
  list(GET package 1 component)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${name})
  if(NOT name STREQUAL wherry)
    install(FILES LICENSE DESTINATION ${folder} RENAME copyright
      COMPONENT ${component} EXCLUDE_FROM_ALL)
  endif()
  install(FILES CHANGELOG.md DESTINATION ${folder} RENAME changelog
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME wherry)
set(CPACK_PACKAGE_CONTACT "The Wherry developers <wherry@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/compress.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL library extension library_doc development development_doc program
  configuration)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_SECTION database)

set(CPACK_DEBIAN_LIBRARY_DESCRIPTION
  "Outbox, relays and handlers as a C library.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libwherry0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/packaging/triggers)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS tzdata)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
  "Headers, pkg-config and CMake files of libwherry.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libwherry-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libwherry0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
  "Business transactions write messages to a table of their own database; this
program delivers them, in order, to brokers, web servers, files and commands.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME wherry)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/packaging/conffiles
  ${PROJECT_SOURCE_DIR}/packaging/postinst
  ${PROJECT_SOURCE_DIR}/packaging/postrm
  ${PROJECT_SOURCE_DIR}/packaging/prerm)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_STRICT_PERMISSION ON)

include(CPack)
foreach(group library development program)
  cpack_add_component_group(${group})
endforeach()
cpack_add_component(library GROUP library)
cpack_add_component(extension GROUP library)
cpack_add_component(library_doc GROUP library)
cpack_add_component(development GROUP development)
cpack_add_component(development_doc GROUP development)
cpack_add_component(program GROUP program)
cpack_add_component(configuration GROUP program)
