#include "publish/flight.h"

#include "publish/parts.h"

void wh_flights_append(wh_flights *list, wh_flight *f)
{
	f->next = NULL;
	f->prev = list->tail;
	if (list->tail)
		list->tail->next = f;
	else
		list->head = f;
	list->tail = f;
	list->n++;
}

void wh_flights_remove(wh_flights *list, wh_flight *f)
{
	if (f->prev)
		f->prev->next = f->next;
	else
		list->head = f->next;
	if (f->next)
		f->next->prev = f->prev;
	else
		list->tail = f->prev;
	f->prev = f->next = NULL;
	list->n--;
}

wh_flight *wh_flights_pop(wh_flights *list)
{
	wh_flight *first = list->head;

	if (first)
		wh_flights_remove(list, first);
	return first;
}

void wh_flight_receipt(const wh_flight *f, wh_receipt *out)
{
	wh_receipt_fill(out, f->message, f->verdict,
			f->verdict == WHERRY_DELIVERED ? NULL : f->reason);
	out->written = f->written;
	out->own = f->own;
	out->denied = f->denied;
	out->held = f->held;
	out->retry_after_us = f->retry_after_us;
}
