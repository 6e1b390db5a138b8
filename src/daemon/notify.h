/*
 * Speaks to the service manager that started the process, as sd_notify(3) describes it.
 */
#ifndef WH_DAEMON_NOTIFY_H
#define WH_DAEMON_NOTIFY_H

#include <stdint.h>

/* Send lines of NAME=VALUE to the service manager.  Nothing happens if none is there. */
void wh_notify(const char *lines);

/* The longest time between two WATCHDOG=1 in microseconds; 0: nobody waits for them. */
int64_t wh_notify_watchdog_us(void);

#endif
