-- layout: name=doctor
--
-- Checks of `wherry doctor` on SQL Server, of what all tables need.

-- include: mssql.rows.sql

-- part: that_wait
N'messages of the rows that it wrote'

-- include: mssql.doctor.sql
