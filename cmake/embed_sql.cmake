# Write the text of .sql files into a C file: the array wh_sql_files of src/db/sql.h.
# FILES: their paths, src/<model>/<scheme>.sql; OUT: the C file.  A line "-- include: NAME"
# stands for the text of that file, beside the one it is in.

set(texts "")
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(scheme ${file} NAME_WE)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(model ${folder} NAME)
  string(MAKE_C_IDENTIFIER ${model}_${scheme} array)
  file(READ ${file} hex HEX)
  file(STRINGS ${file} includes REGEX "^-- include: ")
  foreach(include IN LISTS includes)
    string(REPLACE "-- include: " "" name "${include}")
    file(READ ${folder}/${name} included HEX)
    string(HEX "${include}" line)
    string(REPLACE "${line}" "${included}" hex "${hex}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "('.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,'.....,)"
    "\t\\1\n" bytes "${bytes}")
  string(APPEND texts "static const char ${array}[] = {\n${bytes}\t0,\n};\n\n")
  string(APPEND rows "\t{\"${model}\", \"${scheme}\", ${array}},\n")
endforeach()

file(WRITE ${OUT}.new
  "#include \"db/sql.h\"\n\n${texts}"
  "const wh_sql_file wh_sql_files[] = {\n${rows}\t{NULL, NULL, NULL},\n};\n")
file(RENAME ${OUT}.new ${OUT})
