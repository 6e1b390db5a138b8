/*
 * The beginning of a publisher that stands around another one, such as one that stores large bodies.
 *
 * Its table has its functions, and for each other one that the publisher inside has a
 * function that calls it there.  A new function of wh_publisher_driver that is called on an open
 * publisher is handed on here, once for all of them.
 */
#ifndef WH_PUBLISH_AROUND_H
#define WH_PUBLISH_AROUND_H

#include "publish/driver.h"

typedef struct wh_around {
	wherry_publisher
		base; /* Must be first, and the wh_around itself first in its struct. */
	wh_publisher_driver table;
	wherry_publisher *inner;
} wh_around;

/* Make the table.  `own` has close, submit and collect, and those of the functions from drop() to
 * numbers() that this publisher does not merely hand on.  Settings, such as caps, are inner's. */
void wh_around_make(wh_around *around, wherry_publisher *inner,
		    const wh_publisher_driver *own);

#endif
