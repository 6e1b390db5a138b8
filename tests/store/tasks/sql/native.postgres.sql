-- layout: name=native names=qualified ordered=no columns=id,message_id,topic,payload,state,attempts,claimer,until
--
-- A model whose rows are only claimed.

-- include: claims.postgres.sql
