/*
 * The identity of a process, as text that another process can check.
 *
 * The identity
 *
 *     4f0c…-boot-id:4026531836:4026531834:1234:5678901
 *
 * names the boot of the machine, the namespaces of process ids and of time, the process
 * id and its start time.  A process with the same boot and namespaces can find out
 * whether the process still runs.  A process of another container or machine cannot: it
 * gets WH_PROCESS_UNKNOWN, even if it has a process of that id.
 */
#ifndef WH_BASE_PROCESS_H
#define WH_BASE_PROCESS_H

enum { WH_PROCESS_LEN = 120 };

/* Write the identity of this process; "": the system does not provide it. */
void wh_process_self(char out[WH_PROCESS_LEN]);

typedef enum wh_process_state {
	WH_PROCESS_UNKNOWN, /* This process cannot find out. */
	WH_PROCESS_LIVES,
	WH_PROCESS_ENDED
} wh_process_state;

/* Find out whether the process of an identity still runs. */
wh_process_state wh_process_look(const char *who);

#endif
