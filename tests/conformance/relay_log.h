#ifndef RELAY_LOG_H
#define RELAY_LOG_H

/* For relay_target.except; ends with NULL. */
extern const char *const relay_log_except[];

#endif
