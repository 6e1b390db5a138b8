/*
 * Linked into libwherry instead of linked.c: an application that only enqueues must not
 * load the client libraries of brokers.
 */
#include "publish/bodies/bodies.h"

const wh_publisher_driver *const wh_publishers_linked[] = {NULL};

const wh_body_store_driver *const wh_body_stores_linked[] = {NULL};

const wh_publisher_wrapper *const wh_publisher_wrappers_linked[] = {NULL};
