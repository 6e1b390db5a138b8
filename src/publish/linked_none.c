/*
 * Linked into libwherry instead of linked.c: an application that only enqueues must not
 * load the client libraries of brokers.
 */
#include "publish/driver.h"

const wh_publisher_driver *const wh_publishers_linked[] = {NULL};
