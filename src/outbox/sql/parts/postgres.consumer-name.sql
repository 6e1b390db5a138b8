--
-- The function by which roles consume one subscription of a log on PostgreSQL.

-- part: consume_function
-- The name of that function.  No name that begins with wherry_ is given to roles that may call functions of Wherry.
concat((SELECT relnamespace::regnamespace FROM pg_catalog.pg_class WHERE oid = {'table_progress}::regclass::oid), '.consume_',
  pg_catalog.md5(concat({name}, '/', {.}subscription)))
