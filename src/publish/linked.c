/*
 * The destinations that need a client library.  They are linked into the program, not
 * into libwherry.
 */
#include "publish/bodies/bodies.h"
#ifdef WHERRY_HTTP
#include "publish/otel/otel.h"
#endif

const wh_publisher_driver *const wh_publishers_linked[] = {
#ifdef WHERRY_KAFKA
	&wh_publisher_kafka,
#endif
#ifdef WHERRY_AMQP
	&wh_publisher_amqp,
	&wh_publisher_amqps,
#endif
#ifdef WHERRY_NATS
	&wh_publisher_nats,
	&wh_publisher_nats_tls,
#endif
#ifdef WHERRY_REDIS
	&wh_publisher_redis,
	&wh_publisher_rediss,
	&wh_publisher_redis_sentinel,
	&wh_publisher_rediss_sentinel,
#endif
#ifdef WHERRY_HTTP
	&wh_publisher_https,
	&wh_publisher_http,
#endif
	NULL,
};

const wh_body_store_driver *const wh_body_stores_linked[] = {
#ifdef WHERRY_HTTP
	&wh_body_store_s3,
#endif
	NULL,
};

const wh_publisher_wrapper *const wh_publisher_wrappers_linked[] = {
#ifdef WHERRY_HTTP
	&wh_otel_wrapper,
#endif
	NULL,
};
