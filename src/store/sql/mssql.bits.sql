--
-- The 64 bits of a mask on SQL Server.

-- part: bits
-- Each partition n, and its bit.
(SELECT d.n, CASE d.n WHEN 63 THEN CAST(-9223372036854775808 AS BIGINT)
               ELSE POWER(CAST(2 AS BIGINT), d.n % 63) END AS bit
 FROM (SELECT h.n * 8 + l.n AS n
       FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS h(n)
       CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS l(n)) AS d)

-- part: any_bit
-- The bits b that are in any of the masks.
COALESCE(SUM(DISTINCT {.}mask & b.bit), 0)
