# Write the text of .sql files into a C file: the array wh_sql_files of src/db/sql.h.
# FILES: their paths, src/<model>/<scheme>.sql; <scheme>.more.sql is the end of <scheme>.sql,
# which stands before it.  OUT: the C file.

set(arrays "")
foreach(file IN LISTS FILES)
  get_filename_component(scheme ${file} NAME_WE)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(model ${folder} NAME)
  string(MAKE_C_IDENTIFIER ${model}_${scheme} array)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "('.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,)"
    "\t\\1\n" bytes "${bytes}")
  list(FIND arrays ${array} at)
  if(at EQUAL -1)
    list(APPEND arrays ${array})
    set(row_${array} "\t{\"${model}\", \"${scheme}\", ${array}},\n")
  endif()
  string(APPEND bytes_${array} "${bytes}")
endforeach()

set(texts "")
set(rows "")
foreach(array IN LISTS arrays)
  string(APPEND texts "static const char ${array}[] = {\n${bytes_${array}}\t0,\n};\n\n")
  string(APPEND rows "${row_${array}}")
endforeach()

file(WRITE ${OUT}.new
  "#include \"db/sql.h\"\n\n${texts}"
  "const wh_sql_file wh_sql_files[] = {\n${rows}\t{NULL, NULL, NULL},\n};\n")
file(RENAME ${OUT}.new ${OUT})
