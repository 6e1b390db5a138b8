--
-- Times and ids in statements, for the tables of both layouts.

-- part: until
-- Time when a lease of that length ends.
min({at_now} + min(:lasts, 3153600000000), 253402300799999)

-- part: after_delay
min({at_now} + min(:delay, 3153600000000), 253402300799999)

-- part: at
-- "scheduledAt", cut to years in which times can be subtracted, since the column may have any number.
min(max("scheduledAt", 0), 253402300799999)

-- part: ids
(SELECT value FROM json_each(:ids))
