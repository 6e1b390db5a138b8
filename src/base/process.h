/*
 * Which process this is, in words that another process can check.
 *
 * A text such as
 *
 *     4f0c…-boot-id:4026531836:4026531834:1234:5678901
 *
 * names the boot of the machine, the namespaces of process ids and of time, the process and when
 * it began.  Another process that has the same boot and namespaces can find out whether the
 * process is still there.  A process of another container or machine cannot, and says that it
 * does not know, even if a process there has the same id.
 */
#ifndef WH_BASE_PROCESS_H
#define WH_BASE_PROCESS_H

enum { WH_PROCESS_LEN = 120 };

/* Write the text of this process; "" if the system does not say who it is. */
void wh_process_self(char out[WH_PROCESS_LEN]);

typedef enum wh_process_state {
	WH_PROCESS_UNKNOWN, /* nobody here can know */
	WH_PROCESS_LIVES,
	WH_PROCESS_ENDED
} wh_process_state;

/* What became of the process that a text names. */
wh_process_state wh_process_look(const char *who);

#endif
