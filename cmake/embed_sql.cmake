# Write the text of .sql files into a C file: an array as wh_sql_files of src/db/sql.h.
# FILES: their paths, …/MODEL/sql/LAYOUT.DIALECT.sql; OUT: the C file; ARRAY: the array's name.
# A line "-- include: NAME" stands for the text of that file in the folder parts beside the file,
# or else in the folder PARTS; that may include others.

set(texts "")
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\.sql$" "" name ${name})
  string(REGEX REPLACE "\\.[^.]*$" "" layout ${name})
  string(REGEX REPLACE "^.*\\." "" dialect ${name})
  get_filename_component(folder ${file} DIRECTORY)
  set(own ${folder}/parts)
  get_filename_component(folder ${folder} DIRECTORY)
  get_filename_component(model ${folder} NAME)
  string(MAKE_C_IDENTIFIER ${model}_${layout}_${dialect} text)
  file(READ ${file} hex HEX)
  file(STRINGS ${file} includes REGEX "^-- include: ")
  while(includes)
    list(POP_FRONT includes include)
    string(REPLACE "-- include: " "" name "${include}")
    set(path ${PARTS}/${name})
    if(EXISTS ${own}/${name})
      set(path ${own}/${name})
    endif()
    file(READ ${path} included HEX)
    file(STRINGS ${path} more REGEX "^-- include: ")
    list(APPEND includes ${more})
    string(HEX "${include}" line)
    string(REPLACE "${line}" "${included}" hex "${hex}")
  endwhile()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "('.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,)"
    "\t\\1\n" bytes "${bytes}")
  string(APPEND texts "static const char ${text}[] = {\n${bytes}\t0,\n};\n\n")
  string(APPEND rows "\t{\"${model}\", \"${layout}\", \"${dialect}\", ${text}},\n")
endforeach()

file(WRITE ${OUT}.new
  "#include \"db/sql.h\"\n\nextern const wh_sql_file ${ARRAY}[];\n\n${texts}"
  "const wh_sql_file ${ARRAY}[] = {\n${rows}\t{NULL, NULL, NULL, NULL},\n};\n")
file(RENAME ${OUT}.new ${OUT})
