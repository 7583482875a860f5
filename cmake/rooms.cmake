# The graph of rooms. Each room is one library that links exactly the rooms and libraries it names;
# in the presets with shared rooms an undeclared use fails at the link of that very room.
# The list below is written to <build>/rooms.txt, which the `tidy` test reads to check includes.

set_property(GLOBAL PROPERTY PARTFORGE_ROOM_LINES "")

function(_partforge_flags target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
    # GCC 12 warns of overlapping copies inside its own std::string when it optimises (GCC bug 105651).
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
    $<$<BOOL:${PARTFORGE_WARNINGS_AS_ERRORS}>:-Werror>)
endfunction()

# partforge_room(<name> SOURCES … ROOMS … [LIBS …])
function(partforge_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS;LIBS" ${ARGN})
  if(PARTFORGE_SHARED_ROOMS)
    add_library(pf_${name} SHARED ${ARG_SOURCES})
    target_link_options(pf_${name} PRIVATE $<$<NOT:$<BOOL:${PARTFORGE_SANITIZED}>>:-Wl,--no-undefined>)
  else()
    add_library(pf_${name} STATIC ${ARG_SOURCES})
  endif()
  _partforge_flags(pf_${name})
  list(TRANSFORM ARG_ROOMS PREPEND pf_ OUTPUT_VARIABLE room_targets)
  target_link_libraries(pf_${name} PRIVATE ${room_targets} ${ARG_LIBS} fmt::fmt Threads::Threads)
  string(JOIN " " allowed ${ARG_ROOMS})
  set_property(GLOBAL APPEND PROPERTY PARTFORGE_ROOM_LINES "${name}: ${allowed}")
endfunction()

# partforge_fakes(<name> SOURCES … ROOMS … [FAKES …] [LIBS …]): target testing_<name>, only for tests.
function(partforge_fakes name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS;FAKES;LIBS" ${ARGN})
  add_library(testing_${name} STATIC ${ARG_SOURCES})
  set_target_properties(testing_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  _partforge_flags(testing_${name})
  list(TRANSFORM ARG_ROOMS PREPEND pf_ OUTPUT_VARIABLE room_targets)
  list(TRANSFORM ARG_FAKES PREPEND testing_ OUTPUT_VARIABLE fake_targets)
  target_link_libraries(testing_${name} PUBLIC ${fake_targets} ${room_targets} ${ARG_LIBS}
    GTest::gtest GTest::gmock fmt::fmt Threads::Threads)
endfunction()

# partforge_test(<name> SOURCES … ROOMS … [FAKES …] [LIBS …] [LABELS unit|service|engine|e2e|…] [TIMEOUT s]
# [SHARDS n] [NO_MAIN]): one test binary, run as one ctest entry; or as n, each with every n-th TEST, where they take long
# and may run side by side. Labels: `unit` runs in seconds without any service.
function(partforge_test name)
  cmake_parse_arguments(ARG "NO_MAIN" "TIMEOUT;SHARDS" "SOURCES;ROOMS;FAKES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  _partforge_flags(${name})
  list(TRANSFORM ARG_ROOMS PREPEND pf_ OUTPUT_VARIABLE room_targets)
  list(TRANSFORM ARG_FAKES PREPEND testing_ OUTPUT_VARIABLE fake_targets)
  target_link_libraries(${name} PRIVATE ${fake_targets} ${room_targets} ${ARG_LIBS}
    GTest::gtest GTest::gmock fmt::fmt Threads::Threads)
  if(NOT ARG_NO_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set(environment "PARTFORGE_DEPS_PREFIX=${PARTFORGE_DEPS_PREFIX};PARTFORGE_SOURCE_DIR=${PROJECT_SOURCE_DIR};PARTFORGE_BINARY_DIR=${PROJECT_BINARY_DIR}")
  if(NOT ARG_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${environment}")
    return()
  endif()
  foreach(number RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${number} - 1")
    add_test(NAME ${name}.${number} COMMAND ${name})
    set_tests_properties(${name}.${number} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
      ENVIRONMENT "${environment};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

function(partforge_write_room_list)
  get_property(lines GLOBAL PROPERTY PARTFORGE_ROOM_LINES)
  string(JOIN "\n" text ${lines})
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/rooms.txt CONTENT "${text}\n")
endfunction()
