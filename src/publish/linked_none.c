/*
 * For the library: it speaks to no broker, so that an application that enqueues does not
 * load their clients.  The program has linked.c instead.
 */
#include "publish/driver.h"

const wh_publisher_driver *const wh_publishers_linked[] = {NULL};
