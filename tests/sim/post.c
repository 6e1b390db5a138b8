/*
 * Where dead letters go: a destination like the broker, which may take a letter or not,
 * answer late or never, and whose connections end.  What it took is counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim.h"

enum { POST_MOST = 4 };

typedef struct sim_letter {
	const wherry_message *msg;
	int64_t at_us;
	wherry_verdict verdict;
} sim_letter;

typedef struct sim_post {
	wherry_publisher base;
	struct sim_world *world;
	int process;
	sim_letter letters[POST_MOST];
	int n;
	int64_t busy_until_us;
} sim_post;

static sim_process *process_of(sim_post *post)
{
	return &post->world->processes[post->process];
}

static int index_of(const wherry_message *msg)
{
	return sim_index(msg->message_id, strlen(msg->message_id));
}

static wherry_code lose(sim_post *post, wherry_error *err)
{
	sim_say(post->world, "relay %d loses its post with %d in flight", post->process,
		post->n);
	return wh_fail(err, WHERRY_CLOSED, "the post was lost");
}

static wherry_verdict decide(sim_world *w)
{
	static const wherry_verdict moods[] = {WHERRY_RETRY, WHERRY_REJECTED,
					       WHERRY_THROTTLED, WHERRY_UNKNOWN};

	if (w->now_us < w->outage_until_us)
		return WHERRY_RETRY;
	return sim_chance(w, w->plan.refuse, 3000) ? moods[sim_below(w, 4)]
						   : WHERRY_DELIVERED;
}

static void take(sim_post *post, const wherry_message *msg)
{
	sim_world *w = post->world;
	int index = index_of(msg);
	sim_letter *l = &post->letters[post->n++];

	sim_judge_letter(w, msg, index);
	*l = (sim_letter){.msg = msg, .verdict = decide(w)};
	l->at_us = w->now_us + sim_time(w, sim_chance(w, 1, 20) ? 2000000 : 5000);
	if (l->verdict == WHERRY_DELIVERED ||
	    (l->verdict == WHERRY_UNKNOWN && sim_below(w, 2)))
		w->messages[index].letters++;
	sim_say(w, "relay %d sends a letter of %d", post->process, index);
}

static wherry_code submit(wherry_publisher *pub, const wherry_message *const *msgs,
			  size_t n, size_t *out_taken, wherry_error *err)
{
	sim_post *post = (sim_post *)pub;
	sim_world *w = post->world;

	*out_taken = 0;
	for (size_t i = 0; i < n; i++)
		sim_judge_fence(w, process_of(post), index_of(msgs[i]));
	if (!sim_moment(process_of(post)))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	if (!post->n && sim_chance(w, 1, 10)) {
		post->busy_until_us = w->now_us + sim_time(w, 20000);
		return WHERRY_OK;
	}
	while (*out_taken < n && post->n < POST_MOST)
		take(post, msgs[(*out_taken)++]);
	if (!sim_moment(process_of(post)))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	return sim_chance(w, w->plan.lose, 5000) ? lose(post, err) : WHERRY_OK;
}

static wherry_code collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
			   size_t *out_n, wherry_error *err)
{
	sim_post *post = (sim_post *)pub;
	sim_world *w = post->world;

	*out_n = 0;
	if (!sim_moment(process_of(post)))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	if (sim_chance(w, w->plan.lose, 10000))
		return lose(post, err);
	for (int i = 0; i < post->n && *out_n < cap; i++) {
		sim_letter l = post->letters[i];

		if (l.at_us > w->now_us)
			continue;
		out[*out_n] = (wh_receipt){.message = l.msg, .verdict = l.verdict};
		sim_say(w, "relay %d is told of the letter of %d: %d", post->process,
			index_of(l.msg), (int)l.verdict);
		(*out_n)++;
		post->letters[i--] = post->letters[--post->n];
	}
	return WHERRY_OK;
}

static int64_t deadline(wherry_publisher *pub)
{
	const sim_post *post = (const sim_post *)pub;
	int64_t at = WH_NEVER;

	if (post->busy_until_us > post->world->now_us)
		at = post->busy_until_us;
	for (int i = 0; i < post->n; i++)
		if (post->letters[i].at_us < at)
			at = post->letters[i].at_us;
	return at;
}

static void close_post(wherry_publisher *pub)
{
	free(pub);
}

wherry_code sim_post_open(sim_process *p, wherry_publisher **out, wherry_error *err)
{
	static const wh_publisher_driver driver = {
		.scheme = "post",
		.close = close_post,
		.submit = submit,
		.collect = collect,
		.deadline = deadline,
	};
	sim_world *w = p->world;
	sim_post *post;

	if (!sim_moment(p))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	if (w->now_us < w->outage_until_us && sim_below(w, 2))
		return wh_fail(err, WHERRY_CLOSED, "the post is not there");
	post = calloc(1, sizeof(*post));
	if (!post)
		return wh_oom(err);
	post->base.driver = &driver;
	post->world = w;
	post->process = p->number;
	*out = &post->base;
	return WHERRY_OK;
}
