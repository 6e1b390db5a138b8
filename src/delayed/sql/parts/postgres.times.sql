--
-- Times and ids in statements, for the tables of both layouts.

-- part: now
coalesce(:now::bigint, pg_catalog.floor(extract(epoch FROM pg_catalog.statement_timestamp())
  OPERATOR(pg_catalog.*) 1000.0)::bigint)

-- part: until
-- Time when a lease of that length ends.
least({now} OPERATOR(pg_catalog.+) least(:lasts::bigint, 3153600000000), 253402300799999)

-- part: after_delay
least({now} OPERATOR(pg_catalog.+) least(:delay::bigint, 3153600000000), 253402300799999)

-- part: at
-- "scheduledAt", cut to years in which times can be subtracted, since the column may have any number.
least(greatest("scheduledAt", 0), 253402300799999)

-- part: ids
pg_catalog.translate(:ids::pg_catalog.text, '[]', '{}')::bigint[]
