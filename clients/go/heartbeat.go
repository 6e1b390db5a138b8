package wherry

import (
	"context"
	"time"
)

// heartbeat extends the leases of the messages that are being handled each third of a lease. It cancels
// a handler when the lease was lost, or when it ended because the database does not answer.
func (q *queue[Tx]) heartbeat(ctx context.Context) {
	tick := time.NewTicker(q.settings.lease / 12)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-q.noBeat:
			return
		}
		if n%4 == 0 {
			q.extendAll(ctx)
		}
		now := time.Now()
		for _, r := range q.all() {
			if now.After(q.leasedUntil(r)) {
				q.cancel(r, ErrLeaseLost)
			}
		}
	}
}

func (q *queue[Tx]) endHeartbeat() {
	close(q.noBeat)
}

func (q *queue[Tx]) leasedUntil(r *running) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.until
}

// extendAll extends the leases with one call for the messages of each receive.
func (q *queue[Tx]) extendAll(ctx context.Context) {
	brief, cancel := context.WithTimeout(ctx, q.settings.lease/3)
	defer cancel()
	of := map[string][]*running{}
	q.mu.Lock()
	for r := range q.running {
		if !r.settles && r.m.Cancelled() == nil {
			of[r.m.token] = append(of[r.m.token], r)
		}
	}
	q.mu.Unlock()
	for token, group := range of {
		if err := q.extend(brief, token, group); err != nil {
			q.worker.report(q.name, err)
			return
		}
	}
}

func (q *queue[Tx]) extend(ctx context.Context, token string, group []*running) error {
	ids := make([]int64, len(group))
	for i, r := range group {
		ids[i] = r.m.ID
	}
	began := time.Now()
	lease := interval(q.settings.lease)
	driver, words := q.worker.client.driver, q.words()
	rows, err := driver.Query(ctx, words.extendMany, q.name, words.ids(ids), token, lease)
	var n int
	if err := one(rows, err, &n); err != nil {
		return err
	}
	for _, r := range group {
		if n < len(group) {
			held, err := q.call(ctx, words.extend, r.m, lease)
			if err != nil {
				return err
			}
			if !held {
				q.cancel(r, ErrLeaseLost) // unless it was settled meanwhile
				continue
			}
		}
		q.mu.Lock()
		r.until = began.Add(q.settings.lease)
		q.mu.Unlock()
	}
	return nil
}
